#include "memory/crossbar_routes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::memory {

CrossbarRoutes::CrossbarRoutes(const CrossbarParams& params, const arch::Topology& topology,
                               const arch::AddressMap& map, std::uint32_t link_ports)
    : params_(params),
      topology_(topology),
      map_(map),
      gpcs_(topology.gpcs()),
      link_ports_(link_ports),
      slices_(map.slices() + link_ports),
      partitions_(map.partitions()),
      per_partition_(map.slices() / map.partitions()),
      near_latency_(std::uint64_t{params.sm_to_tpc} + params.tpc_to_cpc + params.cpc_to_gpc + params.gpc_to_slice) {
  HEDDLE_CHECK(topology.ugpus() == 1 || topology.ugpus() == partitions_, "uGPUs do not match the partitions of the L2");
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) gpc_of_sm_.push_back(topology.sm(sm).gpc);
  for (const std::uint32_t gpc : gpc_of_sm_) partition_of_sm_.push_back(partition_of_gpc(gpc));
}

// What fills the wire, and the queue at its end.
std::uint32_t CrossbarRoutes::capacity(std::uint32_t latency, double rate) const {
  return params_.queue + static_cast<std::uint32_t>(std::ceil(latency * rate / params_.header_bytes));
}

std::uint32_t CrossbarRoutes::response_credits() const {
  const double rate = std::min({params_.sm_read_bandwidth, params_.tpc_read_bandwidth, params_.cpc_read_bandwidth});
  return capacity(params_.sm_to_tpc + params_.tpc_to_cpc + params_.cpc_to_gpc, rate);
}

void CrossbarRoutes::attach(LinkNetwork& network, Ports& ports, const std::vector<Source>& sources, std::uint32_t link,
                            double bandwidth) const {
  for (const Source& source : sources) {
    LinkNetwork::BufferSpec spec;
    spec.link = link;
    spec.upstream = source.link;
    spec.owner = source.sm;
    spec.latency = source.latency;
    spec.capacity = capacity(source.latency, std::min(source.rate, bandwidth));
    spec.weight = source.sms;
    const std::uint32_t buffer = network.add_buffer(spec);
    if (source.link == LinkNetwork::kNone) {
      ports.entries[source.sm] = buffer;
    } else {
      network.route_to(source.link, buffer);
    }
  }
}

// A link of that bandwidth for the sources, or none if they cannot fill it; `latency` of the wire behind it.
std::vector<CrossbarRoutes::Source> CrossbarRoutes::merge(LinkNetwork& network, Ports& ports, const std::string& name,
                                                          std::vector<Source> sources, double bandwidth,
                                                          std::uint32_t latency) const {
  double rate = 0;
  Source merged;
  merged.sms = 0;
  for (const Source& source : sources) {
    rate += source.rate;
    merged.sms += source.sms;
  }
  if (rate <= bandwidth) {
    for (Source& source : sources) source.latency += latency;
    return sources;
  }
  merged.link = network.add_link(name, bandwidth);
  merged.latency = latency;
  merged.rate = bandwidth;
  attach(network, ports, sources, merged.link, bandwidth);
  return {merged};
}

std::vector<CrossbarRoutes::Source> CrossbarRoutes::gather_gpc(LinkNetwork& network, Ports& ports,
                                                               std::uint32_t gpc) const {
  const arch::Topology::Gpc& shape = topology_.gpc(gpc);
  std::vector<Source> all;
  for (std::uint32_t cpc = 0; cpc < shape.cpcs; ++cpc) {
    std::vector<Source> of_cpc;
    for (std::uint32_t t = 0; t < shape.tpcs.size(); ++t) {
      const arch::Topology::Tpc& tpc = shape.tpcs[t];
      if (tpc.cpc != cpc) continue;
      std::vector<Source> of_tpc;
      for (std::uint32_t i = 0; i < tpc.sms; ++i) {
        Source sm;
        sm.sm = shape.sm_ids[tpc.first_sm + i];
        sm.latency = params_.sm_to_tpc;
        sm.rate = params_.sm_bandwidth;
        of_tpc.push_back(sm);
      }
      const auto merged = merge(network, ports, fmt::format("gpc{}.tpc{}", gpc, t), std::move(of_tpc),
                                params_.tpc_bandwidth, params_.tpc_to_cpc);
      of_cpc.insert(of_cpc.end(), merged.begin(), merged.end());
    }
    const auto merged = merge(network, ports, fmt::format("gpc{}.cpc{}", gpc, cpc), std::move(of_cpc),
                              params_.cpc_bandwidth, params_.cpc_to_gpc);
    all.insert(all.end(), merged.begin(), merged.end());
  }
  return all;
}

double CrossbarRoutes::shares_in(std::uint32_t partition) const {
  double shares = 0;
  for (std::uint32_t gpc = 0; gpc < gpcs_; ++gpc) shares += partition_of_gpc(gpc) == partition ? gpc_share(gpc) : 0;
  return shares;
}

void CrossbarRoutes::add_crossings(LinkNetwork& network, Ports& ports, double gpc_bandwidth) const {
  ports.crossings.assign(std::size_t{partitions_} * partitions_, LinkNetwork::kNone);
  ports.crossing_buffers.resize(ports.crossings.size());
  const double slices = per_partition_ * params_.slice_bandwidth;
  for (std::uint32_t from = 0; from < partitions_; ++from) {
    for (std::uint32_t to = 0; to < partitions_; ++to) {
      // Requests come from `from`'s GPCs, responses go to `to`'s: the less of both, as if all were alike.
      const double gpcs = std::min(shares_in(from), shares_in(to)) * gpc_bandwidth;
      if (from == to || std::min(slices, gpcs) <= params_.crossing_bandwidth) continue;
      ports.crossings[from * partitions_ + to] =
          network.add_link(fmt::format("crossing{}to{}", from, to), params_.crossing_bandwidth);
    }
  }
}

// At the last link of a packet from a partition to another, or the same; `upstream` before the crossing.
LinkNetwork::BufferSpec CrossbarRoutes::last_buffer(const Ports& ports, std::uint32_t from, std::uint32_t to,
                                                    std::uint32_t upstream) const {
  LinkNetwork::BufferSpec spec;
  spec.upstream = upstream;
  spec.latency = params_.gpc_to_slice;
  if (from != to) {
    const std::uint32_t link = ports.crossings[from * partitions_ + to];
    spec.latency = params_.crossing + (link == LinkNetwork::kNone ? params_.gpc_to_slice : 0);
    if (link != LinkNetwork::kNone) spec.upstream = link;
  }
  spec.capacity = capacity(spec.latency, params_.slice_bandwidth);
  return spec;
}

CrossbarRoutes::Ports CrossbarRoutes::build_requests(LinkNetwork& network) const {
  Ports ports;
  ports.entries.assign(topology_.sms(), LinkNetwork::kNone);
  for (std::uint32_t gpc = 0; gpc < gpcs_; ++gpc) {
    const std::vector<Source> sources = gather_gpc(network, ports, gpc);
    const double bandwidth = params_.gpc_bandwidth * gpc_share(gpc);
    ports.gpcs.push_back(network.add_link(fmt::format("gpc{}", gpc), bandwidth, true));
    attach(network, ports, sources, ports.gpcs.back(), bandwidth);
  }
  add_crossings(network, ports, params_.gpc_bandwidth);

  // By gpc * slices + slice: where a packet goes from the GPC's link, and from a crossing.
  std::vector<std::uint32_t> first(std::size_t{gpcs_} * slices_);
  std::vector<std::uint32_t> last(first.size());
  std::vector<std::uint32_t> slice_links;
  for (std::uint32_t slice = 0; slice < slices_; ++slice) {
    slice_links.push_back(network.add_link(fmt::format("slice{}", slice), params_.slice_bandwidth));
    for (std::uint32_t gpc = 0; gpc < gpcs_; ++gpc) {
      auto spec = last_buffer(ports, partition_of_gpc(gpc), partition_of_slice(slice), ports.gpcs[gpc]);
      spec.link = slice_links.back();
      last[gpc * slices_ + slice] = first[gpc * slices_ + slice] = network.add_buffer(spec);
    }
  }
  for (std::uint32_t number = 0; number < ports.crossings.size(); ++number) {
    const std::uint32_t from = number / partitions_;
    const std::uint32_t to = number % partitions_;
    for (std::uint32_t gpc = 0; from != to && gpc < gpcs_; ++gpc) {
      if (partition_of_gpc(gpc) != from) continue;
      std::vector<std::uint32_t> targets;
      for (std::uint32_t slice = 0; slice < slices_; ++slice) {
        if (partition_of_slice(slice) == to) targets.push_back(gpc * slices_ + slice);
      }
      if (ports.crossings[number] != LinkNetwork::kNone) {
        LinkNetwork::BufferSpec spec;
        spec.link = ports.crossings[number];
        spec.upstream = ports.gpcs[gpc];
        spec.latency = params_.gpc_to_slice;
        spec.capacity =
            capacity(spec.latency, std::min(params_.gpc_bandwidth * gpc_share(gpc), params_.crossing_bandwidth));
        const std::uint32_t buffer = network.add_buffer(spec);
        for (const std::uint32_t target : targets) first[target] = buffer;
        ports.crossing_buffers[number].push_back(buffer);
      } else {
        for (const std::uint32_t target : targets) ports.crossing_buffers[number].push_back(first[target]);
      }
    }
  }
  const std::uint32_t first_table = network.add_table(std::move(first));
  const std::uint32_t last_table = network.add_table(std::move(last));
  for (const std::uint32_t link : ports.gpcs) network.route_by_table(link, first_table);
  for (const std::uint32_t link : ports.crossings) {
    if (link != LinkNetwork::kNone) network.route_by_table(link, last_table);
  }
  for (std::uint32_t slice = 0; slice < slices_; ++slice) {
    const std::uint32_t egress = network.add_egress(slice_links[slice], slice);
    if (slice == 0) ports.first_egress = egress;
    network.route_to(slice_links[slice], egress);
  }
  return ports;
}

CrossbarRoutes::Ports CrossbarRoutes::build_responses(LinkNetwork& network) const {
  Ports ports;
  for (std::uint32_t gpc = 0; gpc < gpcs_; ++gpc) {
    ports.gpcs.push_back(network.add_link(fmt::format("gpc{}", gpc), params_.gpc_read_bandwidth * gpc_share(gpc)));
  }
  add_crossings(network, ports, params_.gpc_read_bandwidth);

  // By gpc * slices + slice: where a packet goes from a crossing.
  std::vector<std::uint32_t> last(std::size_t{gpcs_} * slices_);
  ports.entries.resize(last.size());
  for (std::uint32_t gpc = 0; gpc < gpcs_; ++gpc) {
    for (std::uint32_t slice = 0; slice < slices_; ++slice) {
      auto spec = last_buffer(ports, partition_of_slice(slice), partition_of_gpc(gpc), LinkNetwork::kNone);
      spec.link = ports.gpcs[gpc];
      spec.owner = slice;
      last[gpc * slices_ + slice] = ports.entries[slice * gpcs_ + gpc] = network.add_buffer(spec);
    }
  }
  for (std::uint32_t number = 0; number < ports.crossings.size(); ++number) {
    const std::uint32_t from = number / partitions_;
    const std::uint32_t to = number % partitions_;
    for (std::uint32_t slice = 0; from != to && slice < slices_; ++slice) {
      if (partition_of_slice(slice) != from) continue;
      std::uint32_t buffer = LinkNetwork::kNone;
      if (ports.crossings[number] != LinkNetwork::kNone) {
        LinkNetwork::BufferSpec spec;
        spec.link = ports.crossings[number];
        spec.owner = slice;
        spec.latency = params_.gpc_to_slice;
        spec.capacity = capacity(spec.latency, params_.slice_bandwidth);
        buffer = network.add_buffer(spec);
        ports.crossing_buffers[number].push_back(buffer);
      }
      for (std::uint32_t gpc = 0; gpc < gpcs_; ++gpc) {
        if (partition_of_gpc(gpc) != to) continue;
        std::uint32_t& entry = ports.entries[slice * gpcs_ + gpc];
        if (buffer == LinkNetwork::kNone) {
          ports.crossing_buffers[number].push_back(entry);
        } else {
          entry = buffer;
        }
      }
    }
  }
  const std::uint32_t table = network.add_table(std::move(last));
  for (const std::uint32_t link : ports.crossings) {
    if (link != LinkNetwork::kNone) network.route_by_table(link, table);
  }
  for (std::uint32_t sm = 0; sm < topology_.sms(); ++sm) {
    const std::uint32_t egress = network.add_egress(ports.gpcs[gpc_of_sm_[sm]], sm);
    if (sm == 0) ports.first_egress = egress;
  }
  for (std::uint32_t sm = 0; sm < topology_.sms(); ++sm) {  // multicasts that it has asked for
    network.add_egress(ports.gpcs[gpc_of_sm_[sm]], topology_.sms() + sm);
  }
  for (const std::uint32_t link : ports.gpcs) network.route_by_egress(link, ports.first_egress);
  return ports;
}

FanOut::FanOut(const CrossbarParams& params, const arch::Topology& topology, std::uint32_t places)
    : places_(places),
      gpc_to_cpc_(params.cpc_to_gpc),
      cpc_to_tpc_(params.tpc_to_cpc),
      tpc_to_sm_(params.sm_to_tpc),
      ring_(std::size_t{places} * topology.sms()),
      copies_(topology.sms()) {
  std::vector<std::uint32_t> first_cpc;
  std::vector<std::uint32_t> first_tpc;
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    first_cpc.push_back(static_cast<std::uint32_t>(cpcs_.size()));
    first_tpc.push_back(static_cast<std::uint32_t>(tpcs_.size()));
    cpcs_.resize(cpcs_.size() + topology.gpc(gpc).cpcs, LinkPace(params.cpc_read_bandwidth));
    tpcs_.resize(tpcs_.size() + topology.gpc(gpc).tpcs.size(), LinkPace(params.tpc_read_bandwidth));
  }
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    const arch::Topology::Sm& place = topology.sm(id);
    Sm sm{LinkPace(params.sm_read_bandwidth), LinkPace(params.l1_read_bandwidth)};
    sm.cpc = first_cpc[place.gpc] + place.cpc;
    sm.tpc = first_tpc[place.gpc] + place.tpc;
    sms_.push_back(sm);
  }
}

FanOut::Cycle FanOut::pass(std::uint32_t sm, std::uint32_t bytes, Cycle now) {
  ++sms_[sm].waiting;
  LinkPace& cpc = cpcs_[sms_[sm].cpc];
  LinkPace& tpc = tpcs_[sms_[sm].tpc];
  const Cycle at_cpc = cpc.earliest(now);
  cpc.take(at_cpc, bytes);
  const Cycle at_tpc = tpc.earliest(at_cpc + gpc_to_cpc_);
  tpc.take(at_tpc, bytes);
  return at_tpc + cpc_to_tpc_;
}

FanOut::Cycle FanOut::arrive(std::uint32_t id, std::uint32_t bytes, Cycle ready, bool bulk) {
  Sm& sm = sms_[id];
  --sm.waiting;
  Cycle arrival = cross(sm.pace, bytes, ready) + tpc_to_sm_;
  if (!bulk) arrival = cross(sm.l1, bytes, arrival);
  HEDDLE_CHECK(sm.arrivals < places_, "more responses on their way to an SM than it has places");
  std::uint32_t slot = sm.first + sm.arrivals++;
  if (slot >= places_) slot -= places_;
  ring_[std::size_t{id} * places_ + slot] = arrival;
  return arrival;
}

FanOut::Cycle FanOut::room_at(std::uint32_t id, Cycle now) {
  Sm& sm = sms_[id];
  if (sm.arrivals + sm.waiting < places_) return now;
  const Cycle* ring = &ring_[std::size_t{id} * places_];
  while (sm.arrivals > 0 && ring[sm.first] <= now) {
    if (++sm.first == places_) sm.first = 0;
    --sm.arrivals;
  }
  if (sm.arrivals + sm.waiting < places_) return now;
  return sm.arrivals > 0 ? ring[sm.first] : kNever;
}

FanOut::Cycle FanOut::copy(std::uint32_t id, std::uint32_t bytes, Cycle now) {
  if (copy_ring_.empty()) copy_ring_.resize(ring_.size());
  Sm& sm = sms_[id];
  const Cycle at_tpc = cross(cpcs_[sm.cpc], bytes, now) + gpc_to_cpc_;
  const Cycle at_sm = cross(tpcs_[sm.tpc], bytes, at_tpc) + cpc_to_tpc_;
  const Cycle arrival = cross(sm.pace, bytes, at_sm) + tpc_to_sm_;
  Copies& copies = copies_[id];
  HEDDLE_CHECK(copies.reserved > 0, "a copy set out without a place");
  --copies.reserved;
  std::uint32_t slot = copies.first + copies.arrivals++;
  if (slot >= places_) slot -= places_;
  copy_ring_[std::size_t{id} * places_ + slot] = arrival;
  return arrival;
}

FanOut::Cycle FanOut::copy_room_at(std::uint32_t id, Cycle now) {
  Copies& copies = copies_[id];
  if (copies.arrivals + copies.reserved < places_) return now;
  const Cycle* ring = copy_ring_.data() + std::size_t{id} * places_;
  while (copies.arrivals > 0 && ring[copies.first] <= now) {
    if (++copies.first == places_) copies.first = 0;
    --copies.arrivals;
  }
  if (copies.arrivals + copies.reserved < places_) return now;
  return copies.arrivals > 0 ? ring[copies.first] : kNever;
}

FanOut::Cycle FanOut::copies_room_at(const arch::Topology::Gpc& gpc, std::uint64_t sms, Cycle now) {
  Cycle when = now;
  bits::for_each(sms, [&](std::uint32_t bit) { when = std::max(when, copy_room_at(gpc.sm_ids[bit], now)); });
  return when;
}

void FanOut::reset() {
  copies_.assign(copies_.size(), Copies());
  for (LinkPace& pace : cpcs_) pace.reset();
  for (LinkPace& pace : tpcs_) pace.reset();
  for (Sm& sm : sms_) {
    sm.pace.reset();
    sm.l1.reset();
    sm.first = sm.arrivals = 0;
    sm.waiting = 0;
  }
}

}  // namespace heddle::memory

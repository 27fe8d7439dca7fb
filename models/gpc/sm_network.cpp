#include "gpc/sm_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "arch/gpu_observation.h"

namespace heddle::gpc {
namespace {

using protocol::DsmemPacket;

// By SM, from `near` at the first TPC to `far` at the last one.
std::vector<Cycle> distances(const Domain& domain, const SmNetworkParams& params, const arch::Topology::Gpc& gpc) {
  std::vector<Cycle> result(gpc.sms);
  const auto last = static_cast<double>(gpc.tpcs.size() - 1);
  for (std::size_t tpc = 0; tpc < gpc.tpcs.size(); ++tpc) {
    const double share = tpc == 0 ? 0 : static_cast<double>(tpc) / last;
    const double cycles = params.near + share * (static_cast<double>(params.far) - params.near);
    for (std::uint32_t i = 0; i < gpc.tpcs[tpc].sms; ++i) {
      result[gpc.tpcs[tpc].first_sm + i] = domain.cost(static_cast<Cycle>(std::llround(cycles)));
    }
  }
  return result;
}

std::vector<std::uint32_t> tpcs_of(const arch::Topology::Gpc& gpc) {
  std::vector<std::uint32_t> result(gpc.sms);
  for (std::uint32_t tpc = 0; tpc < gpc.tpcs.size(); ++tpc) {
    std::fill_n(result.begin() + gpc.tpcs[tpc].first_sm, gpc.tpcs[tpc].sms, tpc);
  }
  return result;
}

}  // namespace

SmLinks::SmLinks(LinkNetwork& network, const SmNetworkParams& params, const arch::Topology::Gpc& gpc,
                 const std::vector<Cycle>& distance)
    : sms_(gpc.sms), queue_(params.queue), bandwidth_(params.bandwidth) {
  const std::vector<std::uint32_t> tpcs = tpcs_of(gpc);
  const double between = params.between_tpcs(sms_);
  const std::uint32_t middle = sms_;  // its link, if there is one
  for (std::uint32_t to = 0; to < sms_; ++to) {
    const std::uint32_t link = network.add_link(fmt::format("into SM {}", gpc.sm_ids[to]), bandwidth_);
    for (std::uint32_t from = 0; from < sms_; ++from) {
      const bool meets = between > 0 && tpcs[from] != tpcs[to];
      LinkNetwork::BufferSpec spec;
      spec.link = link;
      spec.upstream = meets ? middle : LinkNetwork::kNone;
      spec.owner = from;
      spec.latency = static_cast<std::uint32_t>(distance[to] + (meets ? 0 : distance[from]));
      spec.capacity = room(spec.latency);
      const std::uint32_t place = network.add_buffer(spec);
      entries_.push_back(meets ? exit_of(sms_) + from : place);
    }
  }
  for (std::uint32_t to = 0; to < sms_; ++to) network.route_to(to, network.add_egress(to, to));
  if (between > 0) add_middle(network, between, distance);
}

// A packet's flow is its place.
void SmLinks::add_middle(LinkNetwork& network, double bandwidth, const std::vector<Cycle>& distance) const {
  const std::uint32_t link = network.add_link("between TPCs", bandwidth);
  for (std::uint32_t from = 0; from < sms_; ++from) {
    LinkNetwork::BufferSpec spec;
    spec.link = link;
    spec.owner = from;
    spec.latency = static_cast<std::uint32_t>(distance[from]);
    spec.capacity = room(spec.latency);
    const std::uint32_t buffer = network.add_buffer(spec);
    HEDDLE_CHECK(buffer == exit_of(sms_) + from, "the inputs of a GPC's limit are not where its entries say");
  }
  std::vector<std::uint32_t> places(entries_.size());
  std::iota(places.begin(), places.end(), 0);
  network.route_by_table(link, network.add_table(std::move(places)));
}

// Packets that fill a wire, and wait at its end.
std::uint32_t SmLinks::room(std::uint32_t latency) const {
  return queue_ + static_cast<std::uint32_t>(std::ceil(latency * bandwidth_ / kDsmemHeaderBytes));
}

SmNetwork::SmNetwork(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                     const SmNetworkParams& params, const arch::Topology::Gpc& gpc, std::uint32_t gpc_number,
                     std::uint32_t sms_per_unit)
    : Block(name, domain, path),
      request_in("request_in"),
      reply_in("reply_in"),
      request_out("request_out", domain, 0, has_calls(domain.mode()) ? kUnlimitedCredits : params.queue),
      reply_out("reply_out", domain, 0, has_calls(domain.mode()) ? kUnlimitedCredits : params.queue),
      peer_in("peer_in"),
      peer_out("peer_out", domain, 0, kUnlimitedCredits),
      sms_per_unit_(sms_per_unit),
      sm_ids_(gpc.sm_ids),
      gpc_(gpc_number),
      clusters_(gpu_observation(domain).clusters),
      distance_(distances(domain, params, gpc)),
      requests_(make_plane(false, params, gpc)),
      replies_(make_plane(true, params, gpc)) {
  const std::uint32_t units = sms_per_unit == 0 ? 0 : (gpc.sms + sms_per_unit - 1) / sms_per_unit;
  peer_in.init(units, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::BulkPeerPacket>(socket, domain, 0);
  });
  for (std::uint32_t unit = 0; unit < units; ++unit)
    peer_in[unit].on_packet<SmNetwork, &SmNetwork::on_peer>(*this, unit);
}

SmNetwork::~SmNetwork() = default;

std::unique_ptr<SmNetwork::Plane> SmNetwork::make_plane(bool replies, const SmNetworkParams& params,
                                                        const arch::Topology::Gpc& gpc) {
  if (has_calls(domain_.mode())) return std::make_unique<CalledPlane>(*this, replies, params, gpc);
  return std::make_unique<QueuedPlane>(*this, replies, params, gpc);
}

SmNetwork::Plane::Plane(SmNetwork& owner, bool replies)
    : owner_(owner),
      replies_(replies),
      count_(owner.counter(replies ? "replies" : "requests", "packets", "packets that reached their SM")),
      bytes_(owner.counter(replies ? "reply_bytes" : "request_bytes", "bytes", "the same, with headers")),
      delayed_(owner.counter(replies ? "delayed_replies" : "delayed_requests", "packets",
                             "those that had to wait for a port or for room")),
      delay_(owner.counter(replies ? "reply_delay" : "request_delay", "cycles", "what they waited, together")) {}

void SmNetwork::Plane::count(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, Cycle delay) {
  count_.add();
  bytes_.add(bytes);
  if (delay > 0) {
    delayed_.add();
    delay_.add(delay);
  }
  ClusterMap& clusters = owner_.clusters_;
  if (owner_.gpc_ < clusters.gpcs()) clusters.traffic(owner_.gpc_, from, to, bytes);
}

SmNetwork::QueuedPlane::QueuedPlane(SmNetwork& owner, bool replies, const SmNetworkParams& params,
                                    const arch::Topology::Gpc& gpc)
    : Plane(owner, replies),
      network_(*this),
      links_(network_, params, gpc, owner.distance_),
      ports_(gpc.sms, Port(links_.bandwidth())) {
  for (Port& port : ports_) port.acks.resize(sms());
  in().init(sms(), [&](const char* socket, std::size_t) {
    return new PacketIn<DsmemPacket>(socket, owner.domain_, 0, CreditReturn::by_owner);
  });
  for (std::uint32_t sm = 0; sm < sms(); ++sm) in()[sm].on_packet<QueuedPlane, &QueuedPlane::on_packet>(*this, sm);
  out().on_credit<QueuedPlane, &QueuedPlane::on_credit>(*this);
}

void SmNetwork::QueuedPlane::on_packet(const DsmemPacket& packet, std::uint32_t from) {
  HEDDLE_CHECK(packet.from_sm == from && packet.to_sm < sms(), "a DSMEM packet names SMs that it is not between");
  const std::uint32_t slot = slots_.take();
  slots_[slot] = {packet, std::nullopt, owner_.now(), bytes_of(packet)};
  start(slot, from, ports_[from].waiting);
}

void SmNetwork::QueuedPlane::on_peer(const protocol::BulkPeerPacket& packet) {
  HEDDLE_CHECK(packet.from_sm < sms() && packet.to_sm < sms(), "a TMAU's packet names SMs that the GPC does not have");
  if (merge(packet)) return;
  const std::uint32_t slot = slots_.take();
  DsmemPacket way;
  way.from_sm = packet.from_sm;
  way.to_sm = packet.to_sm;
  slots_[slot] = {way, packet, owner_.now(), peer_bytes(packet)};
  start(slot, packet.from_sm, ports_[packet.from_sm].of_unit);
}

// With an acknowledgement of the same request that waits for the port.
bool SmNetwork::QueuedPlane::merge(const protocol::BulkPeerPacket& packet) {
  if (packet.kind != protocol::BulkPeerPacket::Kind::acknowledge) return false;
  const std::optional<std::uint32_t> waiting = ports_[packet.from_sm].acks[packet.to_sm];
  if (!waiting) return false;
  protocol::BulkPeerPacket& ack = *slots_[*waiting].of_unit;
  if (ack.request != packet.request || ack.phase != packet.phase) return false;
  ack.count += packet.count;
  return true;
}

void SmNetwork::QueuedPlane::start(std::uint32_t slot, std::uint32_t from, Ring<std::uint32_t>& queue) {
  const bool free = ports_[from].idle() && ports_[from].pace.free_at(owner_.now());
  if (free && !network_.full(links_.entry_of(from, slots_[slot].packet.to_sm))) return inject(slot, from);
  queue.push(slot);
  const std::optional<protocol::BulkPeerPacket>& of_unit = slots_[slot].of_unit;
  if (of_unit && of_unit->kind == protocol::BulkPeerPacket::Kind::acknowledge) ports_[from].acks[of_unit->to_sm] = slot;
  send_waiting(from);
}

void SmNetwork::QueuedPlane::send_waiting(std::uint32_t from) {
  Port& port = ports_[from];
  const Cycle now = owner_.now();
  while (!ports_[from].idle() && !port.awaited) {
    if (!port.pace.free_at(now)) {
      port.awaited = true;
      owner_.domain_.schedule(port.pace.earliest(now), *this, kPortFree, from);
      return;
    }
    const bool unit = port.unit_first;
    if (!send_first(from, unit) && !send_first(from, !unit)) return;  // credit() follows
  }
}

// The oldest packet of the SM, or of the unit, passes the port, if its target has a place.
bool SmNetwork::QueuedPlane::send_first(std::uint32_t from, bool unit) {
  Ring<std::uint32_t>& queue = unit ? ports_[from].of_unit : ports_[from].waiting;
  if (queue.empty() || network_.full(links_.entry_of(from, slots_[queue.front()].packet.to_sm))) return false;
  ports_[from].unit_first = !unit;
  inject(queue.pop(), from);
  return true;
}

// Past the port out of the SM.
void SmNetwork::QueuedPlane::inject(std::uint32_t slot, std::uint32_t from) {
  const Cycle now = owner_.now();
  LinkPacket packet;
  packet.entered = slot;
  packet.bytes = slots_[slot].bytes;
  ports_[from].pace.take(now, packet.bytes);
  packet.flow = links_.place_of(from, slots_[slot].packet.to_sm);
  network_.enter(links_.entry_of(from, slots_[slot].packet.to_sm), packet, now);
  if (!slots_[slot].of_unit) return in()[from].return_credit();
  std::optional<std::uint32_t>& ack = ports_[from].acks[slots_[slot].packet.to_sm];
  if (ack == slot) ack.reset();
}

bool SmNetwork::QueuedPlane::eject(std::uint32_t to, const LinkPacket& packet, Cycle now) {
  const Slot slot = slots_[packet.entered];
  slots_.give_back(packet.entered);
  const std::uint32_t from = slot.packet.from_sm;
  count(from, to, slot.bytes, now - slot.arrival - owner_.latency(from, to));
  if (slot.of_unit) {
    owner_.peer_out.send(*slot.of_unit, to / owner_.sms_per_unit_);
  } else {
    out().send(slot.packet, to);
  }
  return out().can_send(to);
}

void SmNetwork::QueuedPlane::credit(std::uint32_t owner, Cycle /*now*/) { send_waiting(owner); }

void SmNetwork::QueuedPlane::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind != kPortFree) {
    network_.on_event(kind, argument, owner_.now());
    return;
  }
  const auto from = static_cast<std::uint32_t>(argument);
  ports_[from].awaited = false;
  send_waiting(from);
}

void SmNetwork::QueuedPlane::reset() {
  network_.reset();
  for (Port& port : ports_) {
    port.pace.reset();
    port.waiting.clear();
    port.of_unit.clear();
    port.unit_first = false;
    std::fill(port.acks.begin(), port.acks.end(), std::nullopt);
    port.awaited = false;
  }
  slots_.clear();
}

void SmNetwork::QueuedPlane::add_waits(WaitGraph& graph) const {
  const auto sm = [&](std::uint32_t bit) { return fmt::format("SM {}", owner_.sm_ids_[bit]); };
  const auto port = [&](std::uint32_t link) {
    return fmt::format("the port for {} {} of {}.{}", replies_ ? "replies" : "requests", network_.name_of(link),
                       owner_.domain_.observation().prefix, owner_.path());
  };
  network_.for_each_wait([&](std::uint32_t place) {
    const std::uint32_t upstream = network_.upstream_of(place);
    const std::uint32_t link = network_.link_of(place);
    const std::string owner = sm(network_.owner_of(place));
    graph.add(upstream == LinkNetwork::kNone ? owner : port(upstream), "for room at",
              link == LinkNetwork::kNone ? owner : port(link));
  });
}

SmNetwork::CalledPlane::CalledPlane(SmNetwork& owner, bool replies, const SmNetworkParams& params,
                                    const arch::Topology::Gpc& gpc)
    : Plane(owner, replies), links_(params, tpcs_of(gpc), owner.distance_, has_costs(owner.domain_.mode())) {
  in().init(sms(), [&](const char* socket, std::size_t) {
    return new PacketIn<DsmemPacket>(socket, owner.domain_, 0, CreditReturn::by_owner);
  });
  for (std::uint32_t sm = 0; sm < sms(); ++sm) {
    in()[sm].on_packet_ahead<CalledPlane, &CalledPlane::on_packet>(*this, sm);
  }
}

void SmNetwork::CalledPlane::on_packet(const DsmemPacket& packet, std::uint32_t from, Cycle departure) {
  HEDDLE_CHECK(packet.from_sm == from && packet.to_sm < sms(), "a DSMEM packet names SMs that it is not between");
  const std::uint32_t bytes = bytes_of(packet);
  const Cycle left = links_.leave(from, bytes, departure);
  in()[from].return_credit_at(left);
  out().send_at(arrive(from, packet.to_sm, bytes, departure, left), packet, packet.to_sm);
}

void SmNetwork::CalledPlane::on_peer(const protocol::BulkPeerPacket& packet) {
  HEDDLE_CHECK(packet.from_sm < sms() && packet.to_sm < sms(), "a TMAU's packet names SMs that the GPC does not have");
  const Cycle now = owner_.now();
  const std::uint32_t bytes = peer_bytes(packet);
  const bool joins = packet.kind == protocol::BulkPeerPacket::Kind::acknowledge;
  const std::size_t pair = packet.from_sm * std::size_t{sms()} + packet.to_sm;
  if (joins && acks_waiting_ > 0 && acks_[pair].waits) {
    protocol::BulkPeerPacket& waiting = acks_[pair].packet;
    if (waiting.request == packet.request && waiting.phase == packet.phase) {
      waiting.count += packet.count;
      return;
    }
  }
  const Cycle left = links_.leave(packet.from_sm, bytes, now);
  const Cycle arrival = arrive(packet.from_sm, packet.to_sm, bytes, now, left);
  if (!joins || left == now || (acks_waiting_ > 0 && acks_[pair].waits)) return send_peer(packet, arrival);
  if (acks_.empty()) acks_.resize(std::size_t{sms()} * sms());
  acks_[pair] = {true, arrival, packet};
  ++acks_waiting_;
  owner_.domain_.schedule(left, *this, 0, pair);
}

void SmNetwork::CalledPlane::on_event(std::uint32_t /*kind*/, std::uint64_t argument) {
  Ack& ack = acks_[argument];
  ack.waits = false;
  --acks_waiting_;
  send_peer(ack.packet, ack.arrival);
}

Cycle SmNetwork::CalledPlane::arrive(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, Cycle asked,
                                     Cycle left) {
  const Cycle arrival = links_.arrive(from, to, bytes, left);
  count(from, to, bytes, arrival - asked - owner_.latency(from, to));
  return arrival;
}

void SmNetwork::CalledPlane::reset() {
  links_.reset();
  acks_.clear();
  acks_waiting_ = 0;
}

void SmNetwork::check_idle() { HEDDLE_CHECK(packets() == 0, "packets of an idle machine are between its SMs"); }

void SmNetwork::reset() {
  requests_->reset();
  replies_->reset();
}

void SmNetwork::collect_waits(WaitGraph& graph) const {
  requests_->add_waits(graph);
  replies_->add_waits(graph);
}

}  // namespace heddle::gpc

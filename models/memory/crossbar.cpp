#include "memory/crossbar.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/bits.h"

namespace heddle::memory {
namespace {

// A request of a kernel and its answer, of which both are known.
void charge_call(KernelAccount& kernels, std::uint32_t kernel, std::uint32_t asked, std::uint32_t answered) {
  kernels.add(kernel, KernelCount::request_bytes, asked);
  kernels.add(kernel, KernelCount::response_bytes, answered);
}

}  // namespace

Crossbar::Crossbar(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                   const CrossbarParams& params, const arch::Topology& topology, const arch::AddressMap& map,
                   OwnerAccounts* owners, const PlaceRules& places, std::uint32_t link_ports)
    : Block(name, domain, path),
      map_(map),
      owners_(owners),
      kernels_(kernel_account(domain)),
      header_bytes_(params.header_bytes),
      routes_(params, topology, map, link_ports),
      request_counters_{counter("withheld", "requests", "requests of SMs whose END_REQ had to wait for room"),
                        histogram("request_cycles", "cycles", "time of requests in the crossbar"),
                        counter("bulk.request_bytes", "bytes", "requests of tensor memory access units"), owners,
                        kernels_},
      response_counters_{
          histogram("response_cycles", "cycles", "time of responses in the crossbar"),
          counter("bulk.response_bytes", "bytes",
                  "responses to tensor memory access units, before multicasts are copied"),
          {counter("multicast_reads", "reads", "reads whose data went to SMs by multicast"),
           counter("multicast_packets", "packets", "packets of data that multicasts have brought to SMs"),
           {counter("sm_bytes", "bytes", "responses and copies that passed the links of SMs"),
            counter("bulk.sm_bytes", "bytes",
                    "responses and copies for tensor memory access units that passed the links of SMs")}},
          owners,
          kernels_},
      requests_(this->name(), domain, params, routes_, request_counters_, *this, places),
      responses_(this->name(), domain, params, routes_, topology, response_counters_) {
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
    for (const char* port : {"sm_in", "bulk_in"}) {
      const auto number = static_cast<std::uint32_t>(ports_.size());
      ports_.push_back(std::make_unique<MemoryIn>(fmt::format("{}_{}", port, sm).c_str(), domain));
      MemoryIn& in = *ports_.back();
      in.connect<Crossbar, &Crossbar::on_request, &Crossbar::on_response_room, &Crossbar::on_blocking,
                 &Crossbar::on_debug>(*this, number);
      in.offer_lines(*this, number);
      requests_.add_ingress(in);
      responses_.add_egress(in);
    }
    multicast_out_.push_back(std::make_unique<PacketOut<protocol::BulkDataPacket>>(
        fmt::format("multicast_out_{}", sm).c_str(), domain, 0, kUnlimitedCredits));
    responses_.multicast().add_receiver(*multicast_out_.back());
  }
  for (std::uint32_t slice = 0; slice < routes_.slices(); ++slice) {
    slice_out_.push_back(std::make_unique<MemoryOut>(fmt::format("slice_out_{}", slice).c_str(), domain));
    MemoryOut& out = *slice_out_.back();
    out.connect<Crossbar, &Crossbar::on_response, &Crossbar::on_request_room>(*this, slice);
    requests_.add_slice(out);
    responses_.add_slice(out);
  }
  count_bytes(requests_.network(), requests_.ports(), "request", request_bytes_);
  count_bytes(responses_.network(), responses_.ports(), "response", response_bytes_);
  if (domain.mode() == TimingMode::fast) {
    calendars_ = std::make_unique<CrossbarCalendars>(params, topology, routes_, requests_.ports(), responses_.ports());
  }
}

Crossbar::~Crossbar() = default;

void Crossbar::count_bytes(LinkNetwork& network, const CrossbarRoutes::Ports& ports, const char* what,
                           LinkBytes& counters) {
  for (std::uint32_t gpc = 0; gpc < routes_.gpcs(); ++gpc) {
    Counter& bytes = counter(fmt::format("gpc{}.{}_bytes", gpc, what), "bytes",
                             fmt::format("{}s that passed the link of GPC {}", what, gpc));
    counters.gpcs.push_back(&bytes);
    network.count_link(ports.gpcs[gpc], bytes);
  }
  const std::uint32_t partitions = routes_.partitions();
  counters.crossings.resize(std::size_t{partitions} * partitions);
  for (std::uint32_t from = 0; from < partitions; ++from) {
    for (std::uint32_t to = 0; to < partitions; ++to) {
      if (from == to) continue;
      Counter& bytes = counter(fmt::format("crossing{}to{}.{}_bytes", from, to, what), "bytes",
                               fmt::format("{}s that crossed from partition {} to {}", what, from, to));
      counters.crossings[from * partitions + to] = &bytes;
      for (const std::uint32_t buffer : ports.crossing_buffers[from * partitions + to]) {
        network.count_buffer(buffer, bytes);
      }
    }
  }
}

bool Crossbar::on_request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr) {
    // From an initiator that is not one of ours. The payload owns it from here on.
    extension = new protocol::MemoryExtension;
    payload.set_extension(extension);
  }
  extension->route = port;
  extension->placed = false;
  ++entered_;
  return requests_.enter(payload, *extension, port, arrival);
}

bool Crossbar::on_response(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival) {
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  HEDDLE_CHECK(in_flight() > 0 && extension != nullptr && extension->route < ports_.size(),
               "a response to a request that was never passed on");
  requests_.answered(*extension, slice);
  return responses_.enter(payload, *extension, slice, arrival);
}

void Crossbar::on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay) {
  const std::uint32_t sm = port / 2;
  const std::uint32_t slice = routes_.slice_for(sm, payload.get_address());
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (calendars_ != nullptr) {
    protocol::MemoryExtension none;
    return call(payload, extension == nullptr ? none : *extension, port, slice, delay);
  }
  const sc_core::sc_time way = sc_core::sc_time::from_value(domain_.clock().period().value() * latency(sm, slice));
  if (extension != nullptr && extension->posted) {
    extension->posted = false;
    accepted(payload, sm, std::max(domain_.cycle_after(delay), now()) + routes_.near_round_trip());
  }
  delay += way;
  const auto count = [&](Counter& (*bytes_of)(OwnerAccounts::Row&), KernelCount which, auto bytes) {
    if (extension == nullptr) return;
    if (owners_ != nullptr) {
      bytes_of(owners_->of(extension->subcontext)).add(bytes(payload, *extension, header_bytes_));
    }
    if (counts_kernels(kernels_)) kernels_->add(extension->kernel, which, bytes(payload, *extension, header_bytes_));
  };
  count(OwnerAccounts::requested, KernelCount::request_bytes, request_bytes);
  slice_out_[slice]->blocking(payload, delay);
  count(OwnerAccounts::answered, KernelCount::response_bytes, response_bytes);
  delay += way;
  CrossbarMulticast& multicast = responses_.multicast();
  if (extension == nullptr || extension->multicast == 0 || !multicast.accepts(payload, *extension, sm)) return;
  multicast.deliver(payload, *extension, sm, std::max(domain_.cycle_after(delay), now()));
}

// The whole way at once. What it needs of links is taken now, for when it comes there.
void Crossbar::call(tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension, std::uint32_t port,
                    std::uint32_t slice, sc_core::sc_time& delay) {
  const std::uint32_t sm = port / 2;
  const bool bulk = port % 2 != 0;
  const std::uint32_t gpc = routes_.gpc_of_sm(sm);
  const Cycle departure = std::max(domain_.cycle_after(delay), now());
  const std::uint32_t asked = request_bytes(payload, extension, header_bytes_);
  const std::uint32_t kernel = extension.kernel;
  const CrossbarCalendars::Request way = calendars_->request(sm, slice, asked, departure);
  request_counters_.cycles.add(way.arrival - departure);
  count_request(gpc, slice, extension.subcontext, bulk, asked);
  if (extension.posted) {
    extension.posted = false;
    accepted(payload, sm, way.at_gpc + routes_.posted_latency());
  }

  delay = domain_.delay_until(way.arrival);
  slice_out_[slice]->blocking(payload, delay);
  const Cycle begin = std::max(domain_.cycle_after(delay), now());
  const std::uint32_t answered = response_bytes(payload, extension, header_bytes_);
  count_response(gpc, slice, extension.subcontext, bulk, answered);
  if (counts_kernels(kernels_)) charge_call(*kernels_, kernel, asked, answered);
  CrossbarMulticast& multicast = responses_.multicast();
  Cycle arrival = 0;
  if (extension.multicast != 0 && multicast.accepts(payload, extension, sm)) {
    arrival = multicast.deliver(payload, extension, sm, calendars_->to_gpc(gpc, slice, answered, begin), answered,
                                *calendars_);
  } else {
    arrival = calendars_->response(sm, slice, answered, bulk, begin);
    response_counters_.multicasts.links.all.add(answered);
    if (bulk) response_counters_.multicasts.links.bulk.add(answered);
  }
  response_counters_.cycles.add(arrival - begin);
  delay = domain_.delay_until(arrival);
}

void Crossbar::count_request(std::uint32_t gpc, std::uint32_t slice, std::uint8_t owner, bool bulk,
                             std::uint32_t bytes) {
  const std::size_t there = routes_.partition_of_gpc(gpc) * routes_.partitions() + routes_.partition_of_slice(slice);
  if (bulk) request_counters_.bulk.add(bytes);
  if (owners_ != nullptr) owners_->of(owner).request_bytes.add(bytes);
  request_bytes_.gpcs[gpc]->add(bytes);
  if (request_bytes_.crossings[there] != nullptr) request_bytes_.crossings[there]->add(bytes);
}

void Crossbar::count_response(std::uint32_t gpc, std::uint32_t slice, std::uint8_t owner, bool bulk,
                              std::uint32_t bytes) {
  const std::size_t back = routes_.partition_of_slice(slice) * routes_.partitions() + routes_.partition_of_gpc(gpc);
  if (bulk) response_counters_.bulk.add(bytes);
  if (owners_ != nullptr) owners_->of(owner).response_bytes.add(bytes);
  response_bytes_.gpcs[gpc]->add(bytes);
  if (response_bytes_.crossings[back] != nullptr) response_bytes_.crossings[back]->add(bytes);
}

void Crossbar::end_of_elaboration() {
  for (const std::unique_ptr<MemoryOut>& out : slice_out_) slice_lines_.push_back(out->lines());
}

bool Crossbar::find(LineRead& read, std::uint32_t port) {
  if (read.receivers != 0 && !responses_.multicast().knows(read.receivers, port / 2)) return false;
  place(read, port);
  const LinePort& lines = slice_lines_[read.at.slice];
  return lines.offered() && lines.find(read);
}

void Crossbar::take(LineRead& read, std::uint32_t port) {
  const std::uint32_t sm = port / 2;
  const bool bulk = port % 2 != 0;
  const LinePort& lines = slice_lines_[read.at.slice];
  const std::uint32_t asked = header_bytes_ + read.carried;
  const auto answered = [&] {
    const std::uint32_t data = read.bytes == nullptr ? 0 : bits::count4(read.sectors) * arch::kSectorBytes;
    return std::max(data, header_bytes_) + read.carried;
  };
  const auto copied = [&] { return read.receivers != 0 && read.bytes != nullptr; };
  if (calendars_ == nullptr) {
    if (owners_ != nullptr) owners_->of(read.subcontext).request_bytes.add(asked);
    const Cycle way = latency(sm, read.at.slice);
    read.when += way;
    lines.take(read);
    read.when += way;
    if (owners_ != nullptr) owners_->of(read.subcontext).response_bytes.add(answered());
    if (counts_kernels(kernels_)) charge_call(*kernels_, read.kernel, asked, answered());
    if (copied()) responses_.multicast().deliver(read);
    return;
  }
  const std::uint32_t gpc = routes_.gpc_of_sm(sm);
  const Cycle departure = read.when;
  read.when = calendars_->request(sm, read.at.slice, asked, departure).arrival;
  request_counters_.cycles.add(read.when - departure);
  count_request(gpc, read.at.slice, read.subcontext, bulk, asked);
  lines.take(read);
  const Cycle begin = read.when;
  const std::uint32_t bytes = answered();
  count_response(gpc, read.at.slice, read.subcontext, bulk, bytes);
  if (counts_kernels(kernels_)) charge_call(*kernels_, read.kernel, asked, bytes);
  if (copied()) {
    const Cycle at_gpc = calendars_->to_gpc(gpc, read.at.slice, bytes, begin);
    read.when = responses_.multicast().deliver(read, sm, at_gpc, bytes, *calendars_);
  } else {
    read.when = calendars_->response(sm, read.at.slice, bytes, bulk, begin);
    response_counters_.multicasts.links.all.add(bytes);
    if (bulk) response_counters_.multicasts.links.bulk.add(bytes);
  }
  response_counters_.cycles.add(read.when - begin);
}

void Crossbar::pass_on(LineParcel& parcel, std::uint32_t receiver, std::uint32_t port) {
  auto& lines = static_cast<protocol::BulkLines&>(parcel);  // NOLINT(*-static-cast-downcast): a TMAU's
  responses_.multicast().pass_on(lines, port / 2, receiver);
}

void Crossbar::warm(LineRead& read, std::uint32_t port, bool line) const {
  place(read, port);
  const LinePort& lines = slice_lines_[read.at.slice];
  if (lines.offered()) lines.warm(read, line);
}

// A reference to the payload goes along.
void Crossbar::accepted(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle when) {
  auto& request = static_cast<protocol::MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): a TMAU's
  request.acquire();
  protocol::BulkDataPacket packet;
  packet.request = &request;
  packet.sm = protocol::SmInGpc(routes_.in_gpc(sm));
  packet.accepted = true;
  multicast_out_[sm]->send_at(when, packet);
}

// May span lines, and so slices.
unsigned Crossbar::on_debug(tlm::tlm_generic_payload& payload, std::uint32_t /*port*/) {
  const std::uint64_t begin = payload.get_address();
  unsigned done = 0;
  for_each_block(begin, payload.get_data_length(), arch::kLineBytes, [&](std::uint64_t address, std::uint64_t bytes) {
    if (done < address - begin) return;  // an earlier part has failed
    tlm::tlm_generic_payload part;
    part.set_command(payload.get_command());
    part.set_address(address);
    part.set_data_ptr(payload.get_data_ptr() + (address - begin));
    part.set_data_length(static_cast<unsigned>(bytes));
    part.set_streaming_width(part.get_data_length());
    const bool peer = arch::in_peer_window(address);
    done += slice_out_[peer ? routes_.slice_for(0, address) : map_.slice_of(address)]->debug(part);
  });
  return done;
}

void Crossbar::reset() {
  requests_.reset();
  responses_.reset();
  if (calendars_ != nullptr) calendars_->reset();
  entered_ = 0;
}

void Crossbar::add_waits(const LinkNetwork& network, bool requests, WaitGraph& graph) const {
  const char* kind = requests ? "requests" : "responses";
  const char* source = requests ? "SM" : "L2 slice";
  const char* target = requests ? "L2 slice" : "SM";
  const auto link = [&](std::uint32_t number) {
    return fmt::format("{}.{}.{} {}", domain_.observation().prefix, path(), network.name_of(number), kind);
  };
  const auto end = [&](std::uint32_t owner) {
    if (requests || owner < routes_.sms()) return fmt::format("{} {}", target, owner);
    return fmt::format("receivers of multicasts of SM {}", owner - routes_.sms());
  };
  network.for_each_wait([&](std::uint32_t buffer) {
    const std::uint32_t upstream = network.upstream_of(buffer);
    const std::uint32_t owner = network.owner_of(buffer);
    const std::uint32_t next = network.link_of(buffer);
    graph.add(upstream == LinkNetwork::kNone ? fmt::format("{} {}", source, owner) : link(upstream), "for room at",
              next == LinkNetwork::kNone ? end(owner) : link(next));
  });
}

void Crossbar::collect_waits(WaitGraph& graph) const {
  add_waits(requests_.network(), true, graph);
  requests_.for_each_held([&](std::uint32_t sm, std::uint32_t slice) {
    graph.add(fmt::format("SM {}", sm), "for a place of its subcontext at", fmt::format("L2 slice {}", slice));
  });
  add_waits(responses_.network(), false, graph);
}

}  // namespace heddle::memory

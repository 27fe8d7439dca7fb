#include "memory/crossbar.h"

#include <algorithm>

#include <fmt/format.h>

#include "memory/crossbar_bytes.h"

namespace heddle::memory {

Crossbar::Crossbar(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                   const CrossbarParams& params, const arch::Topology& topology, const arch::AddressMap& map)
    : Block(name, domain, path),
      params_(params),
      topology_(topology),
      map_(map),
      routes_(params, topology, map),
      sm_count_(topology.sms()),
      request_side_(*this, true),
      response_side_(*this, false),
      requests_(request_side_),
      responses_(response_side_),
      request_ports_(routes_.build_requests(requests_)),
      response_ports_(routes_.build_responses(responses_)),
      fan_out_(params, topology, routes_.response_places()),
      sms_(topology.sms(), Sm(params.sm_bandwidth)),
      gpcs_(topology.gpcs()),
      slices_(map.slices(), Slice(params.slice_bandwidth)),
      withheld_(counter("withheld", "requests", "requests of SMs whose END_REQ had to wait for room")),
      multicasts_(counter("multicast_reads", "reads", "reads whose data went to SMs by multicast")),
      copies_(counter("multicast_packets", "packets", "packets of data that multicasts have brought to SMs")),
      request_cycles_(histogram("request_cycles", "cycles", "time of requests in the crossbar")),
      response_cycles_(histogram("response_cycles", "cycles", "time of responses in the crossbar")) {
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
    for (const char* port : {"sm_in", "bulk_in"}) {
      const auto number = static_cast<std::uint32_t>(ports_.size());
      ports_.push_back(std::make_unique<MemoryIn>(fmt::format("{}_{}", port, sm).c_str(), domain));
      ports_.back()
          ->connect<Crossbar, &Crossbar::request, &Crossbar::response_room, &Crossbar::blocking, &Crossbar::debug>(
              *this, number);
    }
    multicast_out_.push_back(std::make_unique<PacketOut<protocol::BulkDataPacket>>(
        fmt::format("multicast_out_{}", sm).c_str(), domain, 0, kUnlimitedCredits));
  }
  for (std::uint32_t slice = 0; slice < map.slices(); ++slice) {
    slice_out_.push_back(std::make_unique<MemoryOut>(fmt::format("slice_out_{}", slice).c_str(), domain));
    slice_out_.back()->connect<Crossbar, &Crossbar::response, &Crossbar::request_room>(*this, slice);
  }
  count_bytes(requests_, request_ports_, "request");
  count_bytes(responses_, response_ports_, "response");
}

Crossbar::~Crossbar() = default;

void Crossbar::count_bytes(LinkNetwork& network, const CrossbarRoutes::Ports& ports, const char* what) {
  for (std::uint32_t gpc = 0; gpc < routes_.gpcs(); ++gpc) {
    network.count_link(ports.gpcs[gpc], counter(fmt::format("gpc{}.{}_bytes", gpc, what), "bytes",
                                                fmt::format("{}s that passed the link of GPC {}", what, gpc)));
  }
  const std::uint32_t partitions = routes_.partitions();
  for (std::uint32_t from = 0; from < partitions; ++from) {
    for (std::uint32_t to = 0; to < partitions; ++to) {
      if (from == to) continue;
      Counter& bytes = counter(fmt::format("crossing{}to{}.{}_bytes", from, to, what), "bytes",
                               fmt::format("{}s that crossed from partition {} to {}", what, from, to));
      for (const std::uint32_t place : ports.crossing_places[from * partitions + to]) network.count_place(place, bytes);
    }
  }
}

// Inline: every request passes here.
[[gnu::always_inline]] inline void Crossbar::enter_request(tlm::tlm_generic_payload& payload,
                                                           const protocol::MemoryExtension& extension, std::uint32_t sm,
                                                           Cycle arrival) {
  const std::uint32_t slice = map_.slice_of(payload.get_address());
  LinkPacket packet;
  packet.item = &payload;
  packet.entered = static_cast<std::uint32_t>(arrival);
  packet.bytes = request_bytes(payload, extension, params_.header_bytes);
  packet.pair = routes_.gpc_of_sm(sm) * routes_.slices() + slice;
  LinkPace& pace = sms_[sm].pace;
  const Cycle begin = pace.earliest(arrival);
  pace.take(begin, packet.bytes);
  requests_.enter(request_ports_.entries[sm], packet, begin);
}

// From an SM. Its own link has one feeder: when the request passes it is known at once.
bool Crossbar::request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) {
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr) {
    // From an initiator that is not one of ours. The payload owns it from here on.
    extension = new protocol::MemoryExtension;
    payload.set_extension(extension);
  }
  extension->route = port;
  ++in_flight_;
  const std::uint32_t sm = sm_of(port);
  Sm& state = sms_[sm];
  if (state.full) {
    HEDDLE_CHECK(state.parked == nullptr, "two ports of an SM send where neither may");
    state.parked = &payload;
    state.parked_at = arrival;
  } else {
    enter_request(payload, *extension, sm, arrival);
    state.full = requests_.full(request_ports_.entries[sm]);
    if (!state.full) return true;
  }
  withheld_.add();
  return false;
}

// There is room again: for the request that is parked, then for the next ones. The ports take turns.
void Crossbar::requests_go_on(std::uint32_t sm, Cycle now) {
  Sm& state = sms_[sm];
  const std::uint32_t place = request_ports_.entries[sm];
  if (state.parked != nullptr) {
    tlm::tlm_generic_payload& payload = *state.parked;
    state.parked = nullptr;
    enter_request(payload, *protocol::extension_of(payload), sm, std::max(now, state.parked_at));
  }
  state.full = requests_.full(place);
  for (int i = 0; i < 2 && !state.full; ++i) {
    MemoryIn& port = *ports_[2 * sm + (state.unit_first ? 1U : 0U)];
    state.unit_first = !state.unit_first;
    if (port.withholding()) port.accept(now);  // which may send at once
  }
}

bool Crossbar::hand_to_slice(std::uint32_t slice, const LinkPacket& packet, Cycle now) {
  request_cycles_.add(static_cast<std::uint32_t>(now) - packet.entered);
  slice_out_[slice]->send(*static_cast<tlm::tlm_generic_payload*>(packet.item), now);
  return slice_out_[slice]->can_send() && slices_[slice].takes_at <= now;
}

void Crossbar::request_room(std::uint32_t slice, Cycle when) {
  slices_[slice].takes_at = when;
  if (when > now()) {
    domain_.schedule(when, *this, kSliceTakes, slice);
  } else {
    requests_.open(request_ports_.first_exit + slice, when);
  }
}

// From a slice. A response for which there is no room waits in the slice, and those behind it with it.
bool Crossbar::response(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  HEDDLE_CHECK(in_flight_ > 0 && extension != nullptr && extension->route < 2 * sm_count_,
               "a response to a request that was never passed on");
  const std::uint32_t gpc = routes_.gpc_of_sm(sm_of(extension->route));
  const std::uint32_t place = response_ports_.entries[slice * routes_.gpcs() + gpc];
  if (!responses_.full(place)) {
    enter_response(payload, *extension, slice, place, arrival);
    return true;
  }
  slices_[slice].held = place;
  slices_[slice].response = &payload;
  return false;
}

void Crossbar::enter_response(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                              std::uint32_t slice, std::uint32_t place, Cycle when) {
  const std::uint32_t sm = sm_of(extension.route);
  LinkPacket packet;
  packet.item = &payload;
  packet.entered = stamp(when, extension.route);
  packet.exit = sm;
  if (extension.multicast != 0 && is_multicast(payload, extension, sm)) packet.exit += sm_count_;
  packet.bytes = response_bytes(payload, extension, params_.header_bytes);
  packet.pair = routes_.gpc_of_sm(sm) * routes_.slices() + slice;
  LinkPace& pace = slices_[slice].pace;
  const Cycle begin = pace.earliest(when);
  pace.take(begin, packet.bytes);
  responses_.enter(place, packet, begin);
}

void Crossbar::enter_held(std::uint32_t slice, Cycle now) {
  Slice& from = slices_[slice];
  tlm::tlm_generic_payload& payload = *from.response;
  from.response = nullptr;
  enter_response(payload, *protocol::extension_of(payload), slice, from.held, now);
  slice_out_[slice]->end_response(payload, now);
}

// Whether the SM's end has room for another; if not, and it is known when it will, an event looks again.
inline bool Crossbar::takes_responses(std::uint32_t sm, Cycle now) {
  const Cycle when = fan_out_.room_at(sm, now);
  Sm& state = sms_[sm];
  state.closed = when > now;
  if (!state.closed) return true;
  if (when != FanOut::kUnknown && !state.awaited) {
    state.awaited = true;
    domain_.schedule(when, *this, kSmTakes, sm);
  }
  return false;
}

// At the GPC's link: the rest of the way is known, unless the port takes no response. One that is not taken holds up
// those behind it.
bool Crossbar::hand_to_sm(std::uint32_t exit, const LinkPacket& packet, Cycle now) {
  if (exit >= sm_count_) return hand_to_receivers(exit - sm_count_, packet, now);
  const std::uint32_t sm = exit;
  const Cycle ready = fan_out_.pass(sm, packet.bytes, now);
  if (sms_[sm].waiting.empty() && port_of(sm, packet).can_respond()) {
    deliver(sm, packet, ready);
  } else {
    sms_[sm].waiting.push_back({packet, ready, false});
  }
  return takes_responses(sm, now);
}

void Crossbar::deliver(std::uint32_t sm, const LinkPacket& packet, Cycle ready) {
  respond(sm, packet, fan_out_.arrive(sm, packet.bytes, ready));
}

void Crossbar::response_room(std::uint32_t port, Cycle when) {
  const std::uint32_t sm = sm_of(port);
  auto& waiting = sms_[sm].waiting;
  while (!waiting.empty() && port_of(sm, waiting.front().packet).can_respond()) {
    const Waiting first = waiting.front();
    waiting.pop_front();
    const Cycle ready = std::max(first.ready, when);
    if (first.acknowledgement) {
      respond(sm, first.packet, ready);
      open_multicasts(sm);
    } else {
      deliver(sm, first.packet, ready);
    }
  }
  if (sms_[sm].closed && !sms_[sm].awaited && takes_responses(sm, now())) {
    responses_.open(response_ports_.first_exit + sm, now());
  }
}

void Crossbar::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  if (kind == kSliceTakes) {
    if (slice_out_[index]->can_send()) requests_.open(request_ports_.first_exit + index, now());
    return;
  }
  if (kind == kCopiesGo) return go_on_with_copies(index);
  sms_[index].awaited = false;
  if (takes_responses(index, now())) responses_.open(response_ports_.first_exit + index, now());
}

void Crossbar::blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay) {
  const std::uint32_t sm = sm_of(port);
  const std::uint32_t slice = map_.slice_of(payload.get_address());
  const sc_core::sc_time way = sc_core::sc_time::from_value(domain_.clock().period().value() * latency(sm, slice));
  delay += way;
  slice_out_[slice]->blocking(payload, delay);
  delay += way;
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr || extension->multicast == 0 || !is_multicast(payload, *extension, sm)) return;
  const Cycle arrival = std::max(domain_.cycle_after(delay), now());
  const arch::Topology::Gpc& gpc = topology_.gpc(routes_.gpc_of_sm(sm));
  multicasts_.add();
  for (std::uint64_t rest = extension->multicast; rest != 0; rest &= rest - 1) {
    const auto bit = static_cast<std::uint32_t>(__builtin_ctzll(rest));
    send_copy(payload, gpc.sm_ids[bit], bit, arrival);
  }
}

// May span lines, and so slices.
unsigned Crossbar::debug(tlm::tlm_generic_payload& payload, std::uint32_t /*port*/) {
  const std::uint64_t begin = payload.get_address();
  const std::uint64_t end = begin + payload.get_data_length();
  unsigned done = 0;
  for (std::uint64_t address = begin; address < end;) {
    const std::uint64_t next = std::min(end, arch::line_of(address) + arch::kLineBytes);
    tlm::tlm_generic_payload part;
    part.set_command(payload.get_command());
    part.set_address(address);
    part.set_data_ptr(payload.get_data_ptr() + (address - begin));
    part.set_data_length(static_cast<unsigned>(next - address));
    part.set_streaming_width(part.get_data_length());
    const unsigned bytes = slice_out_[map_.slice_of(address)]->debug(part);
    done += bytes;
    if (bytes < part.get_data_length()) break;
    address = next;
  }
  return done;
}

void Crossbar::reset() {
  requests_.reset();
  responses_.reset();
  fan_out_.reset();
  for (Sm& sm : sms_) {
    sm.pace.reset();
    sm.waiting.clear();
    sm.closed = sm.awaited = sm.full = sm.unit_first = false;
    sm.parked = nullptr;
  }
  gpcs_.assign(gpcs_.size(), Gpc());
  for (Slice& slice : slices_) {
    slice.pace.reset();
    slice.takes_at = 0;
    slice.response = nullptr;
  }
  in_flight_ = 0;
}

void Crossbar::add_waits(const LinkNetwork& network, bool requests, WaitGraph& graph) const {
  const char* kind = requests ? "requests" : "responses";
  const char* source = requests ? "SM" : "L2 slice";
  const char* target = requests ? "L2 slice" : "SM";
  const auto link = [&](std::uint32_t number) {
    return fmt::format("{}.{}.{} {}", domain_.observation().prefix, path(), network.name_of(number), kind);
  };
  const auto end = [&](std::uint32_t owner) {
    if (requests || owner < sm_count_) return fmt::format("{} {}", target, owner);
    return fmt::format("receivers of multicasts of SM {}", owner - sm_count_);
  };
  network.for_each_wait([&](std::uint32_t place) {
    const std::uint32_t feeder = network.feeder_of(place);
    const std::uint32_t owner = network.owner_of(place);
    const std::uint32_t next = network.link_of(place);
    graph.add(feeder == LinkNetwork::kNone ? fmt::format("{} {}", source, owner) : link(feeder), "for room at",
              next == LinkNetwork::kNone ? end(owner) : link(next));
  });
}

void Crossbar::collect_waits(WaitGraph& graph) const {
  add_waits(requests_, true, graph);
  add_waits(responses_, false, graph);
}

}  // namespace heddle::memory

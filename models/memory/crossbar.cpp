#include "memory/crossbar.h"

#include <algorithm>

#include <fmt/format.h>

#include "memory/crossbar_bytes.h"

namespace heddle::memory {

Crossbar::Crossbar(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                   const CrossbarParams& params, const arch::Topology& topology, const arch::AddressMap& map)
    : Block(name, domain, path),
      params_(params),
      map_(map),
      routes_(params, topology, map),
      request_side_(*this, true),
      response_side_(*this, false),
      requests_(request_side_),
      responses_(response_side_),
      request_ports_(routes_.build_requests(requests_)),
      response_ports_(routes_.build_responses(responses_)),
      fan_out_(params, topology, routes_.response_places()),
      sms_(topology.sms(), Sm(params.sm_bandwidth)),
      slices_(map.slices(), Slice(params.slice_bandwidth)),
      withheld_(counter("withheld", "requests", "requests of SMs whose END_REQ had to wait for room")),
      request_cycles_(histogram("request_cycles", "cycles", "time of requests in the crossbar")),
      response_cycles_(histogram("response_cycles", "cycles", "time of responses in the crossbar")) {
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
    sm_in_.push_back(std::make_unique<MemoryIn>(fmt::format("sm_in_{}", sm).c_str(), domain));
    sm_in_.back()
        ->connect<Crossbar, &Crossbar::request, &Crossbar::response_room, &Crossbar::blocking, &Crossbar::debug>(*this,
                                                                                                                 sm);
  }
  for (std::uint32_t slice = 0; slice < map.slices(); ++slice) {
    slice_out_.push_back(std::make_unique<MemoryOut>(fmt::format("slice_out_{}", slice).c_str(), domain));
    slice_out_.back()->connect<Crossbar, &Crossbar::response, &Crossbar::request_room>(*this, slice);
  }
  count_bytes(requests_, request_ports_, "request");
  count_bytes(responses_, response_ports_, "response");
}

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

// From an SM. Its own link has one feeder: when the request passes it is known at once.
bool Crossbar::request(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival) {
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension == nullptr) {
    // From an initiator that is not one of ours. The payload owns it from here on.
    extension = new protocol::MemoryExtension;
    payload.set_extension(extension);
  }
  extension->route = sm;
  const std::uint32_t slice = map_.slice_of(payload.get_address());
  LinkPacket packet;
  packet.item = &payload;
  packet.entered = static_cast<std::uint32_t>(arrival);
  packet.bytes = request_bytes(payload, *extension, params_.header_bytes);
  packet.pair = routes_.gpc_of_sm(sm) * routes_.slices() + slice;
  LinkPace& pace = sms_[sm].pace;
  const Cycle begin = pace.earliest(arrival);
  pace.take(begin, packet.bytes);
  const std::uint32_t place = request_ports_.entries[sm];
  requests_.enter(place, packet, begin);
  ++in_flight_;
  if (!requests_.full(place)) return true;
  withheld_.add();
  return false;
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
  HEDDLE_CHECK(in_flight_ > 0 && extension != nullptr && extension->route < sms_.size(),
               "a response to a request that was never passed on");
  const std::uint32_t gpc = routes_.gpc_of_sm(extension->route);
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
  LinkPacket packet;
  packet.item = &payload;
  packet.entered = static_cast<std::uint32_t>(when);
  packet.bytes = response_bytes(payload, extension, params_.header_bytes);
  packet.exit = extension.route;
  packet.pair = routes_.gpc_of_sm(extension.route) * routes_.slices() + slice;
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

// At the GPC's link: the rest of the way is known, unless the SM takes no response.
bool Crossbar::hand_to_sm(std::uint32_t sm, const LinkPacket& packet, Cycle now) {
  const Cycle ready = fan_out_.pass(sm, packet.bytes, now);
  if (sm_in_[sm]->can_respond() && sms_[sm].waiting.empty()) {
    deliver(sm, packet, ready);
  } else {
    sms_[sm].waiting.push_back({packet, ready});
  }
  return takes_responses(sm, now);
}

void Crossbar::deliver(std::uint32_t sm, const LinkPacket& packet, Cycle ready) {
  const Cycle arrival = fan_out_.arrive(sm, packet.bytes, ready);
  response_cycles_.add(static_cast<std::uint32_t>(arrival) - packet.entered);
  --in_flight_;
  sm_in_[sm]->respond(*static_cast<tlm::tlm_generic_payload*>(packet.item), arrival);
}

void Crossbar::response_room(std::uint32_t sm, Cycle when) {
  auto& waiting = sms_[sm].waiting;
  while (!waiting.empty() && sm_in_[sm]->can_respond()) {
    const Waiting first = waiting.front();
    waiting.pop_front();
    deliver(sm, first.packet, std::max(first.ready, when));
  }
  if (sms_[sm].closed && !sms_[sm].awaited && takes_responses(sm, now())) {
    responses_.open(response_ports_.first_exit + sm, now());
  }
}

// Whether the SM's end has room for another; if not, and it is known when it will, an event looks again.
bool Crossbar::takes_responses(std::uint32_t sm, Cycle now) {
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

void Crossbar::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  if (kind == kSliceTakes) {
    if (slice_out_[index]->can_send()) requests_.open(request_ports_.first_exit + index, now());
    return;
  }
  sms_[index].awaited = false;
  if (takes_responses(index, now())) responses_.open(response_ports_.first_exit + index, now());
}

void Crossbar::blocking(tlm::tlm_generic_payload& payload, std::uint32_t sm, sc_core::sc_time& delay) {
  const std::uint32_t slice = map_.slice_of(payload.get_address());
  const sc_core::sc_time way = sc_core::sc_time::from_value(domain_.clock().period().value() * latency(sm, slice));
  delay += way;
  slice_out_[slice]->blocking(payload, delay);
  delay += way;
}

// May span lines, and so slices.
unsigned Crossbar::debug(tlm::tlm_generic_payload& payload, std::uint32_t /*sm*/) {
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
    sm.closed = sm.awaited = false;
  }
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
  network.for_each_wait([&](std::uint32_t place) {
    const std::uint32_t feeder = network.feeder_of(place);
    const std::uint32_t owner = network.owner_of(place);
    const std::uint32_t next = network.link_of(place);
    graph.add(feeder == LinkNetwork::kNone ? fmt::format("{} {}", source, owner) : link(feeder), "for room at",
              next == LinkNetwork::kNone ? fmt::format("{} {}", target, owner) : link(next));
  });
}

void Crossbar::collect_waits(WaitGraph& graph) const {
  add_waits(requests_, true, graph);
  add_waits(responses_, false, graph);
}

}  // namespace heddle::memory

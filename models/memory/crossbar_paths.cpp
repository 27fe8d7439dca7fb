#include "memory/crossbar_paths.h"

#include <algorithm>
#include <utility>

namespace heddle::memory {

CrossbarRequests::CrossbarRequests(const char* name, Timebase& timebase, const CrossbarParams& params,
                                   const CrossbarRoutes& routes, const Counters& counters, Poster& poster,
                                   const PlaceRules& rules)
    : name_(name),
      timebase_(timebase),
      routes_(routes),
      header_bytes_(params.header_bytes),
      counters_(counters),
      poster_(poster),
      network_(*this),
      ports_(routes.build_requests(network_)),
      warmer_(network_, NetworkWarmer::Carries::requests),
      sms_(routes.sms(), Sm(params.sm_bandwidth)),
      slice_ready_(routes.slices(), 0),
      rules_(rules) {
  warm_by(warmer_);
}

// The partition that the GPC belongs to takes a posted write over when it comes there, wherever its slice is, and says
// so the same way back: nothing of the GPC comes to a slice before what has passed the GPC's link earlier.
void CrossbarRequests::passed(const LinkPacket& packet, Cycle now) {
  auto& payload = *static_cast<tlm::tlm_generic_payload*>(packet.item);
  protocol::MemoryExtension& extension = *protocol::extension_of(payload);
  extension.posted = false;
  poster_.accepted(payload, extension.route / 2, now + routes_.posted_latency());
}

// Inline: every request passes here. An SM's own link has one source: when the request passes it is known at once.
[[gnu::always_inline]] inline void CrossbarRequests::inject(tlm::tlm_generic_payload& payload,
                                                            const protocol::MemoryExtension& extension,
                                                            std::uint32_t sm, Cycle arrival) {
  const std::uint32_t slice = routes_.slice_for(sm, payload.get_address());
  LinkPacket packet;
  packet.item = &payload;
  packet.entered = static_cast<std::uint32_t>(arrival);
  packet.bytes = request_bytes(payload, extension, header_bytes_);
  packet.flow = routes_.gpc_of_sm(sm) * routes_.slices() + slice;
  packet.watched = extension.posted;
  if ((extension.route & 1U) != 0) counters_.bulk.add(packet.bytes);
  if (counters_.owners != nullptr) counters_.owners->of(extension.subcontext).request_bytes.add(packet.bytes);
  if (counts_kernels(counters_.kernels)) {
    counters_.kernels->add(extension.kernel, KernelCount::request_bytes, packet.bytes);
  }
  LinkPace& pace = sms_[sm].pace;
  const Cycle begin = pace.earliest(arrival);
  pace.take(begin, packet.bytes);
  network_.enter(ports_.entries[sm], packet, begin);
}

bool CrossbarRequests::enter(tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension,
                             std::uint32_t port, Cycle arrival) {
  if (rules_.table == nullptr || !rules_.table->any() || has_place(payload, extension, port, arrival)) {
    const std::uint32_t sm = port / 2;
    pass_on(payload, extension, sm, arrival);
    if (!sms_[sm].full) return true;
  }
  counters_.withheld.add();
  return false;
}

void CrossbarRequests::pass_on(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                               std::uint32_t sm, Cycle arrival) {
  Sm& state = sms_[sm];
  if (state.full) {
    HEDDLE_CHECK(state.parked == nullptr, "two ports of an SM send where neither may");
    state.parked = &payload;
    state.parked_at = arrival;
  } else {
    inject(payload, extension, sm, arrival);
    state.full = network_.full(ports_.entries[sm]);
  }
}

// If not, it waits for one.
bool CrossbarRequests::has_place(tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension,
                                 std::uint32_t port, Cycle arrival) {
  if (sharing_ == nullptr) {
    sharing_ = std::make_unique<Sharing>(Sharing{CrossbarPlaces(routes_.slices(), rules_), {}});
    sharing_->held.resize(ingress_.size());
  }
  rules_.table->use(extension.subcontext);
  const std::uint32_t slice = routes_.slice_for(port / 2, payload.get_address());
  extension.placed = sharing_->places.take(slice, extension.subcontext);
  if (extension.placed) return true;
  if (counters_.owners != nullptr) counters_.owners->of(extension.subcontext).places.add();
  sharing_->held[port] = {&payload, arrival};
  sharing_->places.wait(slice, extension.subcontext, port);
  return false;
}

void CrossbarRequests::give_place_back(protocol::MemoryExtension& extension, std::uint32_t slice) {
  extension.placed = false;
  if (sharing_ == nullptr) return;
  sharing_->places.give_back(slice, extension.subcontext);
  while (const auto port = sharing_->places.next(slice)) release(*port);
}

// The port's request has a place now.
void CrossbarRequests::release(std::uint32_t port) {
  const Held held = std::exchange(sharing_->held[port], Held());
  protocol::MemoryExtension& extension = *protocol::extension_of(*held.payload);
  extension.placed = true;
  const Cycle now = timebase_.now();
  pass_on(*held.payload, extension, port / 2, std::max(held.arrival, now));
  // Otherwise it is the port's turn when there is room again.
  if (!sms_[port / 2].full && ingress_[port]->withholding()) ingress_[port]->accept(now);
}

// There is room again: for the request that is parked, then for the next ones. The ports take turns.
void CrossbarRequests::credit(std::uint32_t sm, Cycle now) {
  Sm& state = sms_[sm];
  if (state.parked != nullptr) {
    tlm::tlm_generic_payload& payload = *state.parked;
    state.parked = nullptr;
    inject(payload, *protocol::extension_of(payload), sm, std::max(now, state.parked_at));
  }
  state.full = network_.full(ports_.entries[sm]);
  for (int i = 0; i < 2 && !state.full; ++i) {
    const std::uint32_t number = 2 * sm + (state.unit_first ? 1U : 0U);
    MemoryIn& port = *ingress_[number];
    state.unit_first = !state.unit_first;
    if (port.withholding() && !holds(number)) port.accept(now);  // which may send at once
  }
}

bool CrossbarRequests::eject(std::uint32_t slice, const LinkPacket& packet, Cycle now) {
  counters_.cycles.add(static_cast<std::uint32_t>(now) - packet.entered);
  egress_[slice]->send(*static_cast<tlm::tlm_generic_payload*>(packet.item), now);
  return egress_[slice]->can_send() && slice_ready_[slice] <= now;
}

void CrossbarRequests::on_slice_room(std::uint32_t slice, Cycle when) {
  slice_ready_[slice] = when;
  if (when > timebase_.now()) {
    timebase_.schedule(when, *this, kSliceReady, slice);
  } else {
    network_.open(ports_.first_egress + slice, when);
  }
}

void CrossbarRequests::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind != kSliceReady) return network_.on_event(kind, argument, timebase_.now());
  const auto slice = static_cast<std::uint32_t>(argument);
  if (egress_[slice]->can_send()) network_.open(ports_.first_egress + slice, timebase_.now());
}

void CrossbarRequests::reset() {
  network_.reset();
  for (Sm& sm : sms_) {
    sm.pace.reset();
    sm.full = sm.unit_first = false;
    sm.parked = nullptr;
  }
  std::fill(slice_ready_.begin(), slice_ready_.end(), 0);
  sharing_.reset();
}

CrossbarResponses::CrossbarResponses(const char* name, Timebase& timebase, const CrossbarParams& params,
                                     const CrossbarRoutes& routes, const arch::Topology& topology,
                                     const Counters& counters)
    : name_(name),
      timebase_(timebase),
      routes_(routes),
      header_bytes_(params.header_bytes),
      counters_(counters),
      network_(*this),
      ports_(routes.build_responses(network_)),
      warmer_(network_, NetworkWarmer::Carries::responses),
      fan_out_(params, topology, routes.response_credits()),
      multicast_(name, timebase, topology, fan_out_, params, counters.multicasts, *this),
      sms_(routes.sms()),
      slices_(routes.slices(), Slice(params.slice_bandwidth)) {
  warm_by(warmer_);
}

bool CrossbarResponses::enter(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                              std::uint32_t slice, Cycle arrival) {
  const std::uint32_t gpc = routes_.gpc_of_sm(extension.route / 2);
  const std::uint32_t buffer = ports_.entries[slice * routes_.gpcs() + gpc];
  if (!network_.full(buffer)) {
    inject(payload, extension, slice, buffer, arrival);
    return true;
  }
  slices_[slice].buffer = buffer;
  slices_[slice].held = &payload;
  return false;
}

void CrossbarResponses::inject(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                               std::uint32_t slice, std::uint32_t buffer, Cycle when) {
  const std::uint32_t sm = extension.route / 2;
  LinkPacket packet;
  packet.item = &payload;
  packet.entered = stamp(when, extension.route);
  packet.egress = sm;
  if (extension.multicast != 0 && multicast_.accepts(payload, extension, sm)) packet.egress += routes_.sms();
  packet.bytes = response_bytes(payload, extension, header_bytes_);
  packet.flow = routes_.gpc_of_sm(sm) * routes_.slices() + slice;
  if ((extension.route & 1U) != 0) counters_.bulk.add(packet.bytes);
  if (counters_.owners != nullptr) counters_.owners->of(extension.subcontext).response_bytes.add(packet.bytes);
  if (counts_kernels(counters_.kernels)) {
    counters_.kernels->add(extension.kernel, KernelCount::response_bytes, packet.bytes);
  }
  LinkPace& pace = slices_[slice].pace;
  const Cycle begin = pace.earliest(when);
  pace.take(begin, packet.bytes);
  network_.enter(buffer, packet, begin);
}

// For the response that a slice holds.
void CrossbarResponses::credit(std::uint32_t slice, Cycle now) {
  Slice& from = slices_[slice];
  tlm::tlm_generic_payload& payload = *from.held;
  from.held = nullptr;
  inject(payload, *protocol::extension_of(payload), slice, from.buffer, now);
  ingress_[slice]->end_response(payload, now);
}

// Whether the SM's end has room for another; if not, and it is known when it will, an event looks again.
inline bool CrossbarResponses::has_room(std::uint32_t sm, Cycle now) {
  const Cycle when = fan_out_.room_at(sm, now);
  Sm& state = sms_[sm];
  state.closed = when > now;
  if (!state.closed) return true;
  if (when != kNever && !state.awaited) {
    state.awaited = true;
    timebase_.schedule(when, *this, kRoomAtSm, sm);
  }
  return false;
}

// At the GPC's link: the rest of the way is known, unless the port takes no response. One that is not taken holds up
// those behind it.
bool CrossbarResponses::eject(std::uint32_t egress, const LinkPacket& packet, Cycle now) {
  if (egress >= routes_.sms()) return multicast_.eject(egress - routes_.sms(), packet, now);
  const std::uint32_t sm = egress;
  const Cycle ready = fan_out_.pass(sm, packet.bytes, now);
  if (sms_[sm].waiting.empty() && port_of(sm, packet).can_respond()) {
    deliver(sm, packet, ready);
  } else {
    sms_[sm].waiting.push_back({packet, ready, false});
  }
  return has_room(sm, now);
}

void CrossbarResponses::deliver(std::uint32_t sm, const LinkPacket& packet, Cycle ready) {
  const bool bulk = (packet.entered & 1U) != 0;
  counters_.multicasts.links.all.add(packet.bytes);
  if (bulk) counters_.multicasts.links.bulk.add(packet.bytes);
  respond(sm, packet, fan_out_.arrive(sm, packet.bytes, ready, bulk));
}

void CrossbarResponses::respond(std::uint32_t sm, const LinkPacket& packet, Cycle arrival) {
  counters_.cycles.add(age(packet, arrival));
  ++delivered_;
  port_of(sm, packet).respond(*static_cast<tlm::tlm_generic_payload*>(packet.item), arrival);
}

// While an acknowledgement waits for the port, the SM's next multicast waits at the GPC's link.
void CrossbarResponses::acknowledge(std::uint32_t sm, const LinkPacket& packet, Cycle arrival) {
  Sm& state = sms_[sm];
  if (state.waiting.empty() && port_of(sm, packet).can_respond()) return respond(sm, packet, arrival);
  state.waiting.push_back({packet, arrival, true});
  network_.close(ports_.first_egress + routes_.sms() + sm);
}

void CrossbarResponses::on_port_room(std::uint32_t port, Cycle when) {
  const std::uint32_t sm = port / 2;
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
  if (sms_[sm].closed && !sms_[sm].awaited && has_room(sm, timebase_.now())) {
    network_.open(ports_.first_egress + sm, timebase_.now());
  }
}

void CrossbarResponses::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind != kRoomAtSm) return network_.on_event(kind, argument, timebase_.now());
  const auto sm = static_cast<std::uint32_t>(argument);
  sms_[sm].awaited = false;
  if (has_room(sm, timebase_.now())) network_.open(ports_.first_egress + sm, timebase_.now());
}

void CrossbarResponses::reset() {
  network_.reset();
  fan_out_.reset();
  multicast_.reset();
  std::fill(sms_.begin(), sms_.end(), Sm());
  for (Slice& slice : slices_) {
    slice.pace.reset();
    slice.held = nullptr;
  }
  delivered_ = 0;
}

}  // namespace heddle::memory

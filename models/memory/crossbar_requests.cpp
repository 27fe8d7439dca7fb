#include "memory/crossbar_requests.h"

#include <algorithm>

#include "memory/crossbar_bytes.h"

namespace heddle::memory {

CrossbarRequests::CrossbarRequests(const char* name, Timebase& timebase, const CrossbarParams& params,
                                   const CrossbarRoutes& routes, const arch::AddressMap& map, const Counters& counters)
    : name_(name),
      timebase_(timebase),
      routes_(routes),
      map_(map),
      header_bytes_(params.header_bytes),
      counters_(counters),
      network_(*this),
      ports_(routes.build_requests(network_)),
      warmer_(network_, NetworkWarmer::Carries::requests),
      sms_(routes.sms(), Sm(params.sm_bandwidth)),
      slice_ready_(map.slices(), 0) {
  warm_by(warmer_);
}

// Inline: every request passes here. An SM's own link has one source: when the request passes it is known at once.
[[gnu::always_inline]] inline void CrossbarRequests::inject(tlm::tlm_generic_payload& payload,
                                                            const protocol::MemoryExtension& extension,
                                                            std::uint32_t sm, Cycle arrival) {
  const std::uint32_t slice = map_.slice_of(payload.get_address());
  LinkPacket packet;
  packet.item = &payload;
  packet.entered = static_cast<std::uint32_t>(arrival);
  packet.bytes = request_bytes(payload, extension, header_bytes_);
  packet.flow = routes_.gpc_of_sm(sm) * routes_.slices() + slice;
  LinkPace& pace = sms_[sm].pace;
  const Cycle begin = pace.earliest(arrival);
  pace.take(begin, packet.bytes);
  network_.enter(ports_.entries[sm], packet, begin);
}

bool CrossbarRequests::enter(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                             std::uint32_t port, Cycle arrival) {
  const std::uint32_t sm = port / 2;
  Sm& state = sms_[sm];
  if (state.full) {
    HEDDLE_CHECK(state.parked == nullptr, "two ports of an SM send where neither may");
    state.parked = &payload;
    state.parked_at = arrival;
  } else {
    inject(payload, extension, sm, arrival);
    state.full = network_.full(ports_.entries[sm]);
    if (!state.full) return true;
  }
  counters_.withheld.add();
  return false;
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
    MemoryIn& port = *ingress_[2 * sm + (state.unit_first ? 1U : 0U)];
    state.unit_first = !state.unit_first;
    if (port.withholding()) port.accept(now);  // which may send at once
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
}

}  // namespace heddle::memory

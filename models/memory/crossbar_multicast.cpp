#include "memory/crossbar_multicast.h"

#include <algorithm>
#include <typeinfo>

#include "common/bits.h"

namespace heddle::memory {

CrossbarMulticast::CrossbarMulticast(const char* name, Timebase& timebase, const arch::Topology& topology,
                                     FanOut& fan_out, const CrossbarParams& params, const MulticastCounters& counters,
                                     MulticastRequester& requester)
    : name_(name),
      timebase_(timebase),
      topology_(topology),
      fan_out_(fan_out),
      header_bytes_(params.header_bytes),
      counters_(counters),
      requester_(requester) {
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    gpcs_.emplace_back(params.copies * params.gpc_share(topology.gpc(gpc).sms));
  }
}

bool CrossbarMulticast::accepts(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                std::uint32_t sm) const {
  if (payload.get_response_status() != tlm::TLM_OK_RESPONSE) return false;
  const bool known = knows(extension.multicast, sm);
  const bool reads = extension.action == protocol::MemoryAction::plain && payload.is_read();
  if (known && reads && typeid(payload) == typeid(protocol::MemoryRequest)) return true;
  payload.set_response_status(tlm::TLM_COMMAND_ERROR_RESPONSE);
  return false;
}

// A reference to the payload goes along with each copy.
void CrossbarMulticast::send_copy(tlm::tlm_generic_payload& payload, std::uint32_t sm, std::uint32_t bit,
                                  Cycle arrival) {
  auto& request =
      static_cast<protocol::MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): the TMAU sends no others
  request.acquire();
  counters_.copies.add();
  receivers_[sm]->send_at(arrival, {&request, protocol::SmInGpc(bit)});
}

bool CrossbarMulticast::eject(std::uint32_t sm, const LinkPacket& packet, Cycle now) {
  const std::uint32_t number = topology_.sm(sm).gpc;
  Gpc& gpc = gpcs_[number];
  const std::uint64_t receivers =
      protocol::extension_of(*static_cast<tlm::tlm_generic_payload*>(packet.item))->multicast;
  const std::uint64_t ends = receivers | bits::one(topology_.sm(sm).in_gpc);
  const Cycle when = fan_out_.copies_room_at(topology_.gpc(number), ends, now);
  if ((ends & gpc.wanted) == 0 && when == now) {
    start(number, {packet, sm, ends}, now);
    return true;
  }
  if ((ends & gpc.wanted) == 0) expect(number, when);
  gpc.wanted |= ends;
  gpc.staged.push_back({packet, sm, ends});
  return false;
}

void CrossbarMulticast::start(std::uint32_t gpc, const Staged& multicast, Cycle now) {
  counters_.reads.add();
  fan_out_.reserve(topology_.gpc(gpc), multicast.ends);
  Copying copying;
  copying.packet = multicast.packet;
  copying.sm = multicast.sm;
  copying.left = protocol::extension_of(*static_cast<tlm::tlm_generic_payload*>(multicast.packet.item))->multicast;
  copying.ready = now + fan_out_.round_trip();
  gpcs_[gpc].copying.push(copying);
  if (gpcs_[gpc].copying.size() == 1) copy_from(gpc, copying.ready);
}

Cycle CrossbarMulticast::copy(std::uint32_t sm, std::uint32_t bytes, Cycle now) {
  counters_.links.all.add(bytes);
  counters_.links.bulk.add(bytes);
  return fan_out_.copy(sm, bytes, now);
}

void CrossbarMulticast::copy_from(std::uint32_t gpc, Cycle when) {
  if (when >= gpcs_[gpc].copies_at) return;
  gpcs_[gpc].copies_at = when;
  timebase_.schedule(when, *this, kCopy, gpc);
}

void CrossbarMulticast::make_copies(std::uint32_t number, Cycle now) {
  Gpc& gpc = gpcs_[number];
  while (!gpc.copying.empty()) {
    Copying& first = gpc.copying.front();
    if (first.ready > now) return copy_from(number, first.ready);
    if (!gpc.copier.free_at(now)) return copy_from(number, gpc.copier.earliest(now));
    gpc.copier.take(now, 1);
    const std::uint32_t bit = bits::lowest(first.left);
    const std::uint32_t sm = topology_.gpc(number).sm_ids[bit];
    const Cycle arrival = copy(sm, first.packet.bytes, now);
    if (sm == first.sm) first.own = arrival;
    auto& payload = *static_cast<tlm::tlm_generic_payload*>(first.packet.item);
    first.left = bits::without_lowest(first.left);
    const bool last = first.left == 0;
    send_copy(payload, sm, bit, arrival);  // inside which others may join the queue
    if (!last) continue;
    const Copying done = gpc.copying.pop();
    const std::uint32_t header = header_bytes_ + protocol::extension_of(payload)->carried;
    requester_.acknowledge(done.sm, done.packet, done.own != kNever ? done.own : copy(done.sm, header, now));
  }
}

void CrossbarMulticast::deliver(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                std::uint32_t sm, Cycle arrival) {
  const arch::Topology::Gpc& gpc = topology_.gpc(topology_.sm(sm).gpc);
  counters_.reads.add();
  bits::for_each(extension.multicast, [&](std::uint32_t bit) { send_copy(payload, gpc.sm_ids[bit], bit, arrival); });
}

// `when`: at the GPC's link. arrives(bit, SM, cycle) for each receiver.
template <class Arrives>
Cycle CrossbarMulticast::copy_all(std::uint64_t receivers, std::uint32_t sm, Cycle when, std::uint32_t bytes,
                                  std::uint32_t carried, CrossbarCalendars& calendars, Arrives&& arrives) {
  const arch::Topology::Gpc& gpc = topology_.gpc(topology_.sm(sm).gpc);
  counters_.reads.add();
  when += calendars.round_trip();
  Cycle own = kNever;
  const auto make = [&](std::uint32_t target, std::uint32_t size) {
    counters_.links.all.add(size);
    counters_.links.bulk.add(size);
    return calendars.copy(target, size, when);
  };
  bits::for_each(receivers, [&](std::uint32_t bit) {
    const std::uint32_t target = gpc.sm_ids[bit];
    const Cycle arrival = make(target, bytes);
    if (target == sm) own = arrival;
    arrives(bit, target, arrival);
  });
  return own != kNever ? own : make(sm, header_bytes_ + carried);
}

Cycle CrossbarMulticast::deliver(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                 std::uint32_t sm, Cycle when, std::uint32_t bytes, CrossbarCalendars& calendars) {
  return copy_all(
      extension.multicast, sm, when, bytes, extension.carried, calendars,
      [&](std::uint32_t bit, std::uint32_t target, Cycle arrival) { send_copy(payload, target, bit, arrival); });
}

Cycle CrossbarMulticast::deliver(const LineRead& read, std::uint32_t sm, Cycle when, std::uint32_t bytes,
                                 CrossbarCalendars& calendars) {
  Cycle* to = read.arrivals;
  return copy_all(read.receivers, sm, when, bytes, read.carried, calendars,
                  [&](std::uint32_t, std::uint32_t, Cycle arrival) {
                    counters_.copies.add();
                    *to++ = arrival;
                  });
}

void CrossbarMulticast::deliver(const LineRead& read) {
  const std::uint32_t copies = bits::count(read.receivers);
  counters_.reads.add();
  counters_.copies.add(copies);
  std::fill_n(read.arrivals, copies, read.when);
}

void CrossbarMulticast::pass_on(const protocol::BulkLines& lines, std::uint32_t sm, std::uint32_t receiver) {
  protocol::BulkDataPacket packet;
  packet.sm = protocol::SmInGpc(receiver);
  packet.lines = &lines;
  receivers_[topology_.gpc(topology_.sm(sm).gpc).sm_ids[receiver]]->send_at(lines.last, packet);
}

void CrossbarMulticast::expect(std::uint32_t gpc, Cycle when) {
  if (when >= gpcs_[gpc].awaited) return;
  gpcs_[gpc].awaited = when;
  timebase_.schedule(when, *this, kLook, gpc);
}

void CrossbarMulticast::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  const Cycle now = timebase_.now();
  Gpc& gpc = gpcs_[number];
  Cycle& expected = kind == kCopy ? gpc.copies_at : gpc.awaited;
  if (expected != now) return;  // an earlier event has been there
  expected = kNever;
  if (kind == kCopy) make_copies(number, now);
  if (!gpc.staged.empty()) look(number, now);
}

// A multicast that waits in a GPC may go on. Nothing goes that would take a place which an older one waits for.
void CrossbarMulticast::look(std::uint32_t number, Cycle now) {
  Gpc& gpc = gpcs_[number];
  gpc.wanted = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < gpc.staged.size(); ++i) {
    const Staged staged = gpc.staged[i];
    if ((staged.ends & gpc.wanted) == 0) {
      const Cycle when = fan_out_.copies_room_at(topology_.gpc(number), staged.ends, now);
      if (when == now) {
        start(number, staged, now);
        requester_.open_multicasts(staged.sm);
        continue;
      }
      expect(number, when);
    }
    gpc.wanted |= staged.ends;
    gpc.staged[kept++] = staged;
  }
  gpc.staged.resize(kept);
}

}  // namespace heddle::memory

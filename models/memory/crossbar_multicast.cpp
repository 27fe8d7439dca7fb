#include "memory/crossbar_multicast.h"

#include <typeinfo>

#include "common/bits.h"

namespace heddle::memory {

CrossbarMulticast::CrossbarMulticast(const char* name, Timebase& timebase, const arch::Topology& topology,
                                     FanOut& fan_out, std::uint32_t header_bytes, const MulticastCounters& counters,
                                     MulticastRequester& requester)
    : name_(name),
      timebase_(timebase),
      topology_(topology),
      fan_out_(fan_out),
      header_bytes_(header_bytes),
      counters_(counters),
      requester_(requester),
      gpcs_(topology.gpcs()) {}

bool CrossbarMulticast::accepts(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                std::uint32_t sm) const {
  if (payload.get_response_status() != tlm::TLM_OK_RESPONSE) return false;
  const std::uint32_t sms = topology_.gpc(topology_.sm(sm).gpc).sms;
  const bool known = sms >= 64 || extension.multicast >> sms == 0;
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
  if ((ends & gpc.wanted) == 0 && when == now) return send(sm, packet, now);
  if ((ends & gpc.wanted) == 0) expect(number, when);
  gpc.wanted |= ends;
  gpc.staged.push_back({packet, sm, ends});
  return false;
}

// Says whether the SM's next multicast may follow.
bool CrossbarMulticast::send(std::uint32_t sm, const LinkPacket& packet, Cycle now) {
  auto& payload = *static_cast<tlm::tlm_generic_payload*>(packet.item);
  const protocol::MemoryExtension& extension = *protocol::extension_of(payload);
  counters_.reads.add();
  const arch::Topology::Gpc& gpc = topology_.gpc(topology_.sm(sm).gpc);
  const Cycle own = fan_out_.multicast(
      gpc, extension.multicast, packet.bytes, sm, header_bytes_ + extension.carried, now,
      [&](std::uint32_t id, std::uint32_t bit, Cycle arrival) { send_copy(payload, id, bit, arrival); });
  return requester_.acknowledge(sm, packet, own);
}

void CrossbarMulticast::deliver(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                                std::uint32_t sm, Cycle arrival) {
  const arch::Topology::Gpc& gpc = topology_.gpc(topology_.sm(sm).gpc);
  counters_.reads.add();
  bits::for_each(extension.multicast, [&](std::uint32_t bit) { send_copy(payload, gpc.sm_ids[bit], bit, arrival); });
}

void CrossbarMulticast::expect(std::uint32_t gpc, Cycle when) {
  if (when >= gpcs_[gpc].awaited) return;
  gpcs_[gpc].awaited = when;
  timebase_.schedule(when, *this, 0, gpc);
}

// A multicast that waits in a GPC may go on. Nothing goes that would take a place which an older one waits for.
void CrossbarMulticast::on_event(std::uint32_t /*kind*/, std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  const Cycle now = timebase_.now();
  Gpc& gpc = gpcs_[number];
  if (gpc.awaited != now) return;  // an earlier event has been there
  gpc.awaited = kNever;
  gpc.wanted = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < gpc.staged.size(); ++i) {
    const Staged staged = gpc.staged[i];
    if ((staged.ends & gpc.wanted) == 0) {
      const Cycle when = fan_out_.copies_room_at(topology_.gpc(number), staged.ends, now);
      if (when == now) {
        if (send(staged.sm, staged.packet, now)) requester_.open_multicasts(staged.sm);
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

// Multicast reads (TMA-30): from the GPC's link on, where one response becomes a packet for each receiver.
#include <typeinfo>

#include "memory/crossbar.h"

namespace heddle::memory {

// A read that is well. Receivers that the GPC does not have are the initiator's mistake.
bool Crossbar::is_multicast(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                            std::uint32_t sm) {
  if (payload.get_response_status() != tlm::TLM_OK_RESPONSE) return false;
  const std::uint32_t sms = topology_.gpc(routes_.gpc_of_sm(sm)).sms;
  const bool known = sms >= 64 || extension.multicast >> sms == 0;
  const bool reads = extension.action == protocol::MemoryAction::plain && payload.is_read();
  if (known && reads && typeid(payload) == typeid(protocol::MemoryRequest)) return true;
  payload.set_response_status(tlm::TLM_COMMAND_ERROR_RESPONSE);
  return false;
}

void Crossbar::send_copy(tlm::tlm_generic_payload& payload, std::uint32_t sm, std::uint32_t bit, Cycle arrival) {
  auto& request =
      static_cast<protocol::MemoryRequest&>(payload);  // NOLINT(cppcoreguidelines-pro-type-static-cast-downcast)
  request.acquire();
  copies_.add();
  multicast_out_[sm]->send_at(arrival, {&request, bit});
}

bool Crossbar::hand_to_receivers(std::uint32_t sm, const LinkPacket& packet, Cycle now) {
  const std::uint32_t number = routes_.gpc_of_sm(sm);
  Gpc& gpc = gpcs_[number];
  const std::uint64_t receivers =
      protocol::extension_of(*static_cast<tlm::tlm_generic_payload*>(packet.item))->multicast;
  const std::uint64_t ends = receivers | std::uint64_t{1} << topology_.sm(sm).in_gpc;
  const Cycle when = fan_out_.copies_room_at(topology_.gpc(number), ends, now);
  if ((ends & gpc.wanted) == 0 && when == now) return send_copies(sm, packet, now);
  if ((ends & gpc.wanted) == 0) expect_copies(number, when);
  gpc.wanted |= ends;
  gpc.staged.push_back({packet, sm, ends});
  return false;
}

// Says whether the SM's next multicast may follow.
bool Crossbar::send_copies(std::uint32_t sm, const LinkPacket& packet, Cycle now) {
  auto& payload = *static_cast<tlm::tlm_generic_payload*>(packet.item);
  const protocol::MemoryExtension& extension = *protocol::extension_of(payload);
  multicasts_.add();
  const arch::Topology::Gpc& gpc = topology_.gpc(routes_.gpc_of_sm(sm));
  const Cycle own = fan_out_.multicast(
      gpc, extension.multicast, packet.bytes, sm, params_.header_bytes + extension.carried, now,
      [&](std::uint32_t id, std::uint32_t bit, Cycle arrival) { send_copy(payload, id, bit, arrival); });
  Sm& state = sms_[sm];
  if (state.waiting.empty() && port_of(sm, packet).can_respond()) {
    respond(sm, packet, own);
    return true;
  }
  state.waiting.push_back({packet, own, true});
  return false;
}

void Crossbar::expect_copies(std::uint32_t gpc, Cycle when) {
  if (when >= gpcs_[gpc].awaited) return;
  gpcs_[gpc].awaited = when;
  domain_.schedule(when, *this, kCopiesGo, gpc);
}

// Nothing goes that would take a place which an older one waits for.
void Crossbar::go_on_with_copies(std::uint32_t number) {
  Gpc& gpc = gpcs_[number];
  if (gpc.awaited != now()) return;  // an earlier event has been there
  gpc.awaited = kNever;
  gpc.wanted = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < gpc.staged.size(); ++i) {
    const Staged staged = gpc.staged[i];
    if ((staged.ends & gpc.wanted) == 0) {
      const Cycle when = fan_out_.copies_room_at(topology_.gpc(number), staged.ends, now());
      if (when == now()) {
        if (send_copies(staged.sm, staged.packet, now())) open_multicasts(staged.sm);
        continue;
      }
      expect_copies(number, when);
    }
    gpc.wanted |= staged.ends;
    gpc.staged[kept++] = staged;
  }
  gpc.staged.resize(kept);
}

void Crossbar::open_multicasts(std::uint32_t sm) {
  responses_.open(response_ports_.first_exit + sm_count_ + sm, now());
}

}  // namespace heddle::memory

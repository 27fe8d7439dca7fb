#include "gpc/mpc.h"

namespace heddle::gpc {

Mpc::Mpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
         std::uint32_t sms, std::uint32_t cta_slots)
    : Block(name, domain, path),
      launch_in("launch_in", domain, params.gpm_to_mpc),
      start_out("start_out", domain, params.mpc_to_sm, kUnlimitedCredits),  // bounded by the CTA slots
      exit_in("exit_in"),
      complete_out("complete_out", domain, params.gpm_to_mpc, kUnlimitedCredits),
      slots_(sms, CtaSlots(cta_slots)) {
  launch_in.on_packet<Mpc, &Mpc::on_launch>(*this);
  exit_in.init(sms, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::CtaExitPacket>(socket, domain, params.mpc_to_sm);
  });
  for (std::uint32_t i = 0; i < sms; ++i) exit_in[i].on_packet_ahead<Mpc, &Mpc::on_exit>(*this, i);
}

void Mpc::reset() {
  for (CtaSlots& slots : slots_) slots.reset();
}

void Mpc::on_launch(const protocol::TpcLaunchPacket& launch, std::uint32_t) {
  std::uint64_t index = launch.raster;
  for (std::uint64_t mask = launch.sm_mask; mask != 0; mask &= mask - 1) {
    const auto sm = static_cast<std::uint32_t>(__builtin_ctzll(mask));
    HEDDLE_CHECK(sm < slots_.size(), "a launch names an SM that the TPC does not have");
    start_out.send({launch.slot, launch.operation, slots_[sm].take(), index++, launch.need, launch.duration}, sm);
  }
}

// Ahead of the packet's arrival: nobody can ask for the slot before the distributor has heard of the completion.
void Mpc::on_exit(const protocol::CtaExitPacket& exit, std::uint32_t sm, Cycle arrival) {
  slots_[sm].give(exit.cta_slot);
  complete_out.send_at(arrival, {exit.slot, sm});
}

void Mpc::collect_waits(WaitGraph&) const {}  // an MPC passes on at once what it takes in

}  // namespace heddle::gpc

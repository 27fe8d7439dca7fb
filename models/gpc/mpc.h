// The MPC of a TPC: tracks CTA slots, starts CTAs on its SMs, reports their completion.
#pragma once

#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "gpc/cta_slots.h"
#include "gpc/gpc_params.h"
#include "protocol/cta_packet.h"

namespace heddle::gpc {

class Mpc : public Block {
 public:
  Mpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      std::uint32_t sms, std::uint32_t cta_slots);

  PacketIn<protocol::TpcLaunchPacket> launch_in;
  PacketOut<protocol::CtaStartPacket> start_out;                  // link = SM of the TPC
  sc_core::sc_vector<PacketIn<protocol::CtaExitPacket>> exit_in;  // one per SM
  PacketOut<protocol::CtaCompletePacket> complete_out;

  std::uint32_t slots_used(std::uint32_t sm) const { return slots_[sm].used(); }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  void on_event(std::uint32_t, std::uint64_t) override {}
  void on_launch(const protocol::TpcLaunchPacket& launch, std::uint32_t);
  void on_exit(const protocol::CtaExitPacket& exit, std::uint32_t sm, Cycle arrival);

  std::vector<CtaSlots> slots_;
};

}  // namespace heddle::gpc

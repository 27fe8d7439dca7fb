// The MPC of a TPC: tracks CTA slots, works out the ids of its CTAs, starts them on its SMs, reports their completion.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "gpc/cta_slots.h"
#include "gpc/gpc_params.h"
#include "gpc/raster_follower.h"
#include "protocol/abort_packet.h"
#include "protocol/cta_packet.h"
#include "protocol/launch_packet.h"

namespace heddle::gpc {

constexpr std::uint32_t kNoLocalMemory = ~std::uint32_t{0};

class Mpc : public Block {
 public:
  Mpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      std::uint32_t sms, std::uint32_t cta_slots);

  PacketIn<protocol::TpcLaunchPacket> launch_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketOut<protocol::CtaStartPacket> start_out;                  // link = SM of the TPC
  PacketOut<protocol::AbortPacket> abort_out;                     // link = SM of the TPC
  sc_core::sc_vector<PacketIn<protocol::CtaExitPacket>> exit_in;  // one per SM
  PacketOut<protocol::CtaCompletePacket> complete_out;

  std::uint32_t slots_used(std::uint32_t sm) const { return slots_[sm].used(); }
  // The block of a subcontext on this TPC (CWD-32), kNoLocalMemory as long as it was told none.
  std::uint32_t local_memory_block(std::uint8_t subcontext) const { return local_blocks_[subcontext]; }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  void on_event(std::uint32_t, std::uint64_t) override {}
  void on_launch(const protocol::TpcLaunchPacket& launch, std::uint32_t);
  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  void on_exit(const protocol::CtaExitPacket& exit, std::uint32_t sm, Cycle arrival);
  RasterFollower& follower_of(const protocol::TpcLaunchPacket& launch);

  const Cycle raster_cycles_;
  const std::uint32_t delta_bits_;
  std::vector<CtaSlots> slots_;
  std::vector<std::optional<RasterFollower>> followers_;  // by slot of the task table
  Cycle raster_free_ = 0;                                 // cycle from which the raster unit can deliver
  std::array<std::uint32_t, arch::kSubcontexts> local_blocks_;
  Counter& updates_;
  Counter& overflows_;
};

}  // namespace heddle::gpc

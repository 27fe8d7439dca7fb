// The GPM of a GPC: hands launch packets to the MPCs, gathers completions for the CWD.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "gpc/gpc_params.h"
#include "protocol/cta_packet.h"
#include "protocol/launch_packet.h"

namespace heddle::gpc {

class Gpm : public Block {
 public:
  Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      const arch::Topology::Gpc& gpc);

  PacketIn<protocol::LaunchPacket> launch_in;
  PacketOut<protocol::CompletePacket> complete_out;
  PacketOut<protocol::TpcLaunchPacket> tpc_launch_out;                    // link = TPC
  sc_core::sc_vector<PacketIn<protocol::CtaCompletePacket>> complete_in;  // one per TPC

  // CTAs started and not yet reported as complete.
  std::uint64_t live_ctas() const { return live_ctas_; }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_launch(const protocol::LaunchPacket& launch, std::uint32_t);
  void on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t tpc);
  void on_credit(std::uint32_t);
  void forward();

  const arch::Topology::Gpc& gpc_;
  std::deque<protocol::LaunchPacket> launches_;  // taken in, not yet handed to all of their MPCs
  std::uint64_t live_ctas_ = 0;
  // Completions of the running cycle, one mask per task: they leave as one packet each.
  std::vector<protocol::CompletePacket> gathered_;
  Counter& ctas_;
};

}  // namespace heddle::gpc

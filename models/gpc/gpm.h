// The GPM of a GPC: hands launch packets to the MPCs, gathers completions for the CWD, keeps the GPC_CGAs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "gpc/cga_table.h"
#include "gpc/gpc_params.h"
#include "protocol/abort_packet.h"
#include "protocol/cta_packet.h"
#include "protocol/launch_packet.h"

namespace heddle::gpc {

class Gpm : public Block {
 public:
  Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      const arch::Topology::Gpc& gpc);

  PacketIn<protocol::LaunchPacket> launch_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketOut<protocol::CompletePacket> complete_out;
  PacketOut<protocol::CgaCompletePacket> cga_out;
  PacketOut<protocol::TpcLaunchPacket> tpc_launch_out;                    // link = TPC
  PacketOut<protocol::LocalMemoryPacket> local_out;                       // link = TPC
  PacketOut<protocol::AbortPacket> abort_out;                             // link = TPC
  sc_core::sc_vector<PacketIn<protocol::CtaCompletePacket>> complete_in;  // one per TPC

  // CTAs started and not yet reported as complete.
  std::uint64_t live_ctas() const { return live_ctas_; }
  // GPC_CGAs that hold an id: from their first launch packet to the end of their flush.
  std::uint32_t live_cgas() const { return cgas_.open(); }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_launch(const protocol::LaunchPacket& launch, std::uint32_t);
  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  void on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t tpc);
  void on_credit(std::uint32_t);
  void forward();
  bool enter_cga(protocol::LaunchPacket& launch);
  bool hand_over(protocol::LaunchPacket& launch);
  void end_flush(std::uint32_t cga_id);

  const arch::Topology::Gpc& gpc_;
  const Cycle flush_cycles_;
  std::deque<protocol::LaunchPacket> launches_;  // taken in, not yet handed to all of their MPCs
  std::uint64_t live_ctas_ = 0;
  CgaTable cgas_;
  std::uint32_t launching_ = protocol::kNoCgaId;  // the CGA of the last packet that belonged to one
  // Completions of the running cycle, one mask per task: they leave as one packet each.
  std::vector<protocol::CompletePacket> gathered_;
  Counter& ctas_;
  Counter& cga_count_;
};

}  // namespace heddle::gpc

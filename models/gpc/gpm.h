// The GPM of a GPC: hands launch packets to the MPCs, and gathers completions for the CWD. Its CgaUnit keeps the
// GPC_CGAs with their barriers and their flush.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "gpc/cga_unit.h"
#include "gpc/gpc_params.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

class Gpm : public Block, private CgaIdListener {
 public:
  Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      const arch::Topology::Gpc& gpc, protocol::GpcId number, const CgaMemoryPool& memory);
  ~Gpm() override;

  PacketIn<protocol::LaunchPacket> launch_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketOut<protocol::CompletePacket> complete_out;
  PacketOut<protocol::CgaCompletePacket> cga_out;
  PacketOut<protocol::SharedReleasePacket> shared_out;
  PacketOut<protocol::BarrierReportPacket> barrier_out;
  PacketIn<protocol::BarrierReleasePacket> barrier_in;
  PacketIn<protocol::PartPacket> part_in;
  PacketOut<protocol::TpcLaunchPacket> tpc_launch_out;                    // link = TPC
  PacketOut<protocol::LocalMemoryPacket> local_out;                       // link = TPC
  PacketOut<protocol::AbortPacket> abort_out;                             // link = TPC
  PacketOut<protocol::PartPacket> part_out;                               // link = TPC
  sc_core::sc_vector<PacketIn<protocol::CtaCompletePacket>> complete_in;  // one per TPC
  sc_core::sc_vector<PacketIn<protocol::ClusterNoticePacket>> notice_in;  // one per TPC
  PacketOut<protocol::ClusterOrderPacket> order_out;                      // link = TPC

  // CTAs started and not yet reported as complete.
  std::uint64_t live_ctas() const { return live_ctas_; }
  // GPC_CGAs that hold an id: from their first launch packet to the end of their flush.
  std::uint32_t live_cgas() const { return cgas_.open(); }
  void check_idle() override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // The completions that are gathered leave.
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void cga_id_freed() override { forward(); }
  void on_launch(const protocol::LaunchPacket& launch, std::uint32_t);
  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  void on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t tpc);
  void on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t tpc, Cycle arrival);
  void on_barrier(const protocol::BarrierReleasePacket& release, std::uint32_t) { cgas_.release(release); }
  void on_part(const protocol::PartPacket& part, std::uint32_t) { part_out.send(part, part.tpc); }
  void on_credit(std::uint32_t);
  void forward();
  bool hand_over(protocol::LaunchPacket& launch);
  void gather(const protocol::CtaCompletePacket& complete, std::uint32_t sm, std::uint64_t cga_slots);
  void trap(const protocol::CtaTag& tag, Cycle when);

  const arch::Topology::Gpc& gpc_;
  const CgaMemoryPool memory_;
  CgaUnit cgas_;
  std::deque<protocol::LaunchPacket> launches_;  // taken in, not yet handed to all of their MPCs
  std::uint64_t live_ctas_ = 0;
  // Completions of the running cycle, one mask per task: they leave as one packet each.
  std::vector<protocol::CompletePacket> gathered_;
  Counter& ctas_;
  Counter& traps_;
};

}  // namespace heddle::gpc

// The GPM of a GPC: hands launch packets to the MPCs, gathers completions for the CWD, keeps the GPC_CGAs with their
// barriers and their flush.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "gpc/cga_hosts.h"
#include "gpc/cga_memory.h"
#include "gpc/cga_table.h"
#include "gpc/gpc_params.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

class Gpm : public Block {
 public:
  // `number`: of the GPC in the machine.
  Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      const arch::Topology::Gpc& gpc, std::uint32_t number, const CgaMemoryPool& memory);
  ~Gpm() override;

  PacketIn<protocol::LaunchPacket> launch_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketOut<protocol::CompletePacket> complete_out;
  PacketOut<protocol::CgaCompletePacket> cga_out;
  PacketOut<protocol::SharedReleasePacket> shared_out;
  PacketOut<protocol::TpcLaunchPacket> tpc_launch_out;                    // link = TPC
  PacketOut<protocol::LocalMemoryPacket> local_out;                       // link = TPC
  PacketOut<protocol::AbortPacket> abort_out;                             // link = TPC
  sc_core::sc_vector<PacketIn<protocol::CtaCompletePacket>> complete_in;  // one per TPC
  sc_core::sc_vector<PacketIn<protocol::ClusterNoticePacket>> notice_in;  // one per TPC
  PacketOut<protocol::ClusterOrderPacket> order_out;                      // link = TPC

  // CTAs started and not yet reported as complete.
  std::uint64_t live_ctas() const { return live_ctas_; }
  // GPC_CGAs that hold an id: from their first launch packet to the end of their flush.
  std::uint32_t live_cgas() const { return cgas_.open(); }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events.
  static constexpr std::uint32_t kSendGathered = 0;
  static constexpr std::uint32_t kPhaseEnds = 1;    // argument: CGA id, and above it the number of the CGA
  static constexpr std::uint32_t kFlushBegins = 2;  // argument: CGA id
  static constexpr std::uint32_t kFlushEnds = 3;    // argument: CGA id

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_launch(const protocol::LaunchPacket& launch, std::uint32_t);
  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  void on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t tpc);
  void on_credit(std::uint32_t);
  void forward();
  bool enter_cga(protocol::LaunchPacket& launch);
  void note_stall(bool stalled);
  bool hand_over(protocol::LaunchPacket& launch);
  void gather(const protocol::CtaCompletePacket& complete, std::uint32_t sm);
  void collect_launch_waits(WaitGraph& graph) const;

  // gpm_cga.cpp: what happens to GPC_CGAs between their launch and the return of their ids.
  void on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t tpc, Cycle arrival);
  void trap(const protocol::CtaTag& tag, Cycle when);
  void check_barrier(std::uint32_t cga_id);
  void end_phase(std::uint32_t cga_id, std::uint64_t number);
  void cta_done(const protocol::CtaCompletePacket& complete);
  void begin_flush(std::uint32_t cga_id);
  void end_flush(std::uint32_t cga_id);
  void draw(const CgaTable::Cga& cga, std::uint32_t cga_id);
  void collect_barrier_waits(WaitGraph& graph, std::uint32_t cga_id) const;
  void collect_flush_waits(WaitGraph& graph, std::uint32_t cga_id) const;
  void show_exited(WaitGraph& graph, std::uint32_t cga_id) const;

  const arch::Topology::Gpc& gpc_;
  const std::uint32_t number_;
  const CgaMemoryPool memory_;
  const Cycle barrier_cycles_;
  const Cycle flush_cycles_;
  const bool await_flush_;
  std::deque<protocol::LaunchPacket> launches_;  // taken in, not yet handed to all of their MPCs
  std::uint64_t live_ctas_ = 0;
  CgaTable cgas_;
  CgaHosts hosts_;                                // TPCs
  std::uint32_t launching_ = protocol::kNoCgaId;  // the CGA of the last packet that belonged to one
  // Completions of the running cycle, one mask per task: they leave as one packet each.
  std::vector<protocol::CompletePacket> gathered_;
  bool stalled_ = false;  // the first launch waits for an id or a barrier slot
  Cycle stalled_since_ = 0;
  std::vector<TrackId> tracks_;  // by CGA id
  Counter& ctas_;
  Counter& cga_count_;
  Counter& phases_;
  Counter& id_stalls_;
  Counter& traps_;
  Histogram& flush_times_;
};

}  // namespace heddle::gpc

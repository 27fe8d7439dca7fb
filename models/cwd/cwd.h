// The compute work distributor: it places the CTAs of tasks on SMs, and counts what they hold until they complete.
//
// This module has the sockets, and connects the parts that do the work: a task arrives at TaskControl; TaskArbiter
// selects whose turn it is; LaunchSession finds places; Launcher makes packets of them and sends them to the GPCs;
// CompletionUnit hears of what has ended. TaskTable, MachineLedger and SubcontextPartition are what they all look at.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "cwd/barrier_root.h"
#include "cwd/completion_unit.h"
#include "cwd/cwd_context.h"
#include "cwd/cwd_params.h"
#include "cwd/launch_session.h"
#include "cwd/launcher.h"
#include "cwd/machine_ledger.h"
#include "cwd/occupancy_unit.h"
#include "cwd/part_map.h"
#include "cwd/subcontext_partition.h"
#include "cwd/task_arbiter.h"
#include "cwd/task_control.h"
#include "cwd/task_table.h"
#include "cwd/two_level.h"

namespace heddle::cwd {

class Cwd : public Block {
 public:
  Cwd(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
      const arch::Topology& topology, const arch::ResourceVector& sm_capacity, const GpcCgaLimits& gpc_limits = {},
      SavesOfWaiting saves = {});
  ~Cwd() override;

  PacketIn<protocol::TaskPacket> task_in;
  PacketOut<protocol::TaskDonePacket> done_out;
  PacketIn<protocol::TpcEnablePacket> control_in;
  // These may stay unbound: tasks are then never evicted and queues never grow, and the partition stays as it is.
  PacketIn<protocol::EvictPacket> evict_in;
  PacketOut<protocol::EvictedPacket> evicted_out;
  PacketIn<protocol::GrowPacket> grow_in;
  PacketOut<protocol::IdlePacket> idle_out;
  PacketIn<protocol::SubcontextPacket> share_in;
  PacketOut<protocol::LaunchPacket> launch_out;                           // link = GPC
  PacketOut<protocol::LocalMemoryPacket> local_out;                       // link = GPC
  PacketOut<protocol::AbortPacket> abort_out;                             // link = GPC
  sc_core::sc_vector<PacketIn<protocol::CompletePacket>> complete_in;     // one per GPC
  sc_core::sc_vector<PacketIn<protocol::CgaCompletePacket>> cga_in;       // one per GPC
  sc_core::sc_vector<PacketIn<protocol::SharedReleasePacket>> shared_in;  // one per GPC
  // Occupancy queries (CWD-24), of the host and of kernels. They may stay unbound.
  PacketIn<protocol::OccupancyQueryPacket> host_query_in;
  PacketOut<protocol::OccupancyAnswerPacket> host_answer_out;
  sc_core::sc_vector<PacketIn<protocol::OccupancyQueryPacket>> query_in;   // by SM id
  PacketOut<protocol::OccupancyAnswerPacket> answer_out;                   // link = SM id
  sc_core::sc_vector<PacketIn<protocol::BarrierReportPacket>> barrier_in;  // one per GPC
  PacketOut<protocol::BarrierReleasePacket> barrier_out;                   // link = GPC
  PacketOut<protocol::PartPacket> part_out;                                // link = GPC

  // Resources of an SM that something outside the model holds from the start, until a cycle (0: for ever).
  void preload(std::uint32_t sm, const arch::ResourceVector& amount, Cycle until) {
    completions_.preload(sm, amount, until);
  }
  // Whether the machine has an MMU, which takes page tables; without one they are refused.
  void set_translates(bool translates) { partition_.set_translates(translates); }
  // Told of every change of the partition that was refused, and why.
  void on_share_refused(std::function<void(const protocol::SubcontextPacket&, ShareRefusal)> sink) {
    partition_.on_refusal(std::move(sink));
  }
  SubcontextPartition& partition() { return partition_; }
  const SubcontextPartition& partition() const { return partition_; }

  // No task in the table or evicted from it, nothing on any SM, every launch answered, everything that CGAs took is
  // back.
  bool quiescent() const;
  void check_idle() override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override {
    tasks_.collect_waits(graph);
    barriers_.collect_waits(graph);
  }

 private:
  void on_event(std::uint32_t, std::uint64_t) override {}
  std::vector<std::unique_ptr<Gpc2SmUnit>> make_gpc2sm() const;
  void make_gpc_sockets();
  void connect_parts();
  void connect_units();

  const CwdParams params_;
  const CwdContext context_;
  const std::vector<std::uint32_t> sm_priority_;
  const Policies policies_;
  const std::unique_ptr<PlainPolicy> plain_;

  // The units that place GPC_CGAs, and the links to them.
  PacketOut<protocol::SessionPacket> session_out_;
  PacketOut<protocol::SnapshotPacket> snapshot_out_;  // link = GPC
  PacketIn<protocol::SessionEndPacket> end_in_;
  sc_core::sc_vector<PacketIn<protocol::MaskPacket>> mask_in_;  // one per GPC
  Gpu2GpcUnit gpu2gpc_;
  std::vector<std::unique_ptr<Gpc2SmUnit>> gpc2sm_;

  TaskTable table_;
  MachineLedger machine_;
  SubcontextPartition partition_;
  WaitLog waits_;
  BarrierRoot barriers_;
  Launcher launcher_;
  ClusterRoom room_;
  GpcCapacity gpc_capacity_;
  LaunchSession session_;
  RoomMaker room_maker_;
  TaskArbiter arbiter_;
  TaskEviction eviction_;
  TaskControl tasks_;
  PartMap parts_;
  CompletionUnit completions_;
  OccupancyUnit occupancy_;
};

}  // namespace heddle::cwd

// A streaming multiprocessor: keeps its resources exactly, and runs CTAs: the warps of their programs or, without one,
// for a number of cycles. This is the module with its sockets; what it does is in the units of its SmCore.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/occupancy_query.h"
#include "protocol/sm_fluid.h"
#include "protocol/sm_sm.h"
#include "protocol/sm_task.h"
#include "protocol/sm_tmau.h"
#include "sm/sm_core.h"

namespace heddle::sm {

class Sm : public Block {
 public:
  // `exit_distance`: cycles to the MPC. `seed`: of CTA durations. `code` and what `view` refers to must outlive the SM.
  Sm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const SmParams& params,
     const SmContext& place, std::uint32_t exit_distance, std::uint64_t seed, const arch::CodeStore& code,
     const MemoryView& view);
  ~Sm() override;

  PacketIn<protocol::CtaStartPacket> start_in;
  PacketOut<protocol::CtaExitPacket> exit_out;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketIn<protocol::PartPacket> part_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  MemoryOut memory_out;

  // Clusters. Entries and orders are noted ahead of their arrival: their senders use no credits.
  PacketIn<protocol::CtaEntryPacket> entry_in;  // from all MPCs of the GPC
  PacketIn<protocol::ClusterOrderPacket> order_in;
  PacketOut<protocol::ClusterNoticePacket> notice_out;
  // Distributed shared memory: requests to others and their replies, requests of others and the replies to them.
  PacketOut<protocol::DsmemPacket> dsmem_out;
  PacketIn<protocol::DsmemPacket> reply_in;
  PacketIn<protocol::DsmemPacket> dsmem_in;
  PacketOut<protocol::DsmemPacket> reply_out;
  // The tensor memory access unit (TMAU): requests and their ends, data for shared memory, and what it wants of that.
  // Without one, requests are refused.
  PacketOut<protocol::BulkRequestPacket> bulk_out;
  PacketIn<protocol::BulkDonePacket> bulk_done_in;
  PacketIn<protocol::BulkDataPacket> bulk_data_in;
  PacketIn<protocol::BulkReadPacket> bulk_read_in;
  PacketOut<protocol::BulkReadPacket> bulk_read_out;
  // Device-side launches: to task management, and its wakes. Both may stay unbound while nobody launches.
  PacketOut<protocol::ChildPacket> child_out;
  PacketIn<protocol::WakePacket> wake_in;
  // Occupancy queries: to the distributor, and its answers. Unbound: programs that ask are at fault.
  PacketOut<protocol::OccupancyQueryPacket> query_out;
  PacketIn<protocol::OccupancyAnswerPacket> answer_in;
  // CTAs with a demand in place of a program. Unbound: there must be none.
  PacketOut<protocol::WorkPacket> work_out;
  PacketIn<protocol::WorkDonePacket> work_done_in;

  // See SmOccupancy.
  void preload(const arch::ResourceVector& amount, Cycle until) { core_.occupancy.preload(amount, until); }
  const arch::ResourceVector& used() const { return core_.occupancy.used(); }
  // What preloads hold now: an SM without CTAs has used() == base().
  const arch::ResourceVector& base() const { return core_.occupancy.base(); }
  std::uint32_t resident() const { return core_.occupancy.resident(); }
  void settle() { core_.occupancy.settle(); }
  // Called with every fault, in the cycle in which it stops its CTA.
  void on_fault(std::function<void(const arch::FaultRecord&)> sink) { core_.faults.on_fault(std::move(sink)); }
  ClusterState clusters() const { return core_.clusters(); }
  bool quiescent() const { return resident() == 0 && clusters().quiescent(); }
  // Corrupts shared memory of a resident CTA: reads of it are errors (CGA-08). For tests.
  void poison_shared(std::uint32_t cta_slot, std::uint32_t offset, std::uint32_t bytes) {
    core_.memory.shared.poison(cta_slot, offset, bytes);
  }
  // The units, for tests.
  SmCore& core() { return core_; }

  void reset() override { core_.reset(); }
  void collect_waits(WaitGraph& graph) const override { core_.collect_waits(graph); }
  void check_idle() override;

 private:
  void on_event(std::uint32_t /*kind*/, std::uint64_t /*argument*/) override {}  // the units have their own
  void on_entry(const protocol::CtaEntryPacket& entry, std::uint32_t, Cycle arrival) {
    core_.memory.tables.enter(entry, arrival);
  }
  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t, Cycle) {
    core_.registers.local[local.subcontext] = {local.block, local.memory};
  }
  void on_wake(const protocol::WakePacket& wake, std::uint32_t);
  void on_part(const protocol::PartPacket& part, std::uint32_t) { core_.registers.part = part.part; }
  void end_of_elaboration() override;

  SmCore core_;
};

}  // namespace heddle::sm

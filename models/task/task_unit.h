// Task management: takes operations in from the host, keeps their streams, hands tasks to the CWD and takes slots of
// its table away from less urgent ones. Kernels of the packet processor come without a stream, and join the same lists;
// so do tasks that device code launches, which come through memory and the launch scheduler. This is the shell:
// sockets, and memory as the launch scheduler uses it; task/task_manager.h has what they lead to.
#pragma once

#include <string>

#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/memory_client.h"
#include "protocol/occupancy_query.h"
#include "protocol/packet_copy.h"
#include "task/task_manager.h"

namespace heddle::task {

// The distributor's task table.
struct TaskTable {
  std::uint32_t slots = 0;
  bool partitioned = false;  // among subcontexts, at the start (PRT-02)
  bool preempts = false;     // CTAs that run can be saved to make room (TSK-16)
};

class TaskUnit : public Block, private ChainMemory {
 public:
  // `start_path`: cycles from here to a task's first launch packet on an idle machine.
  TaskUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const TaskParams& params,
           const arch::SmLimits& limits, Cycle start_path, const TaskTable& table, const LaunchPlace& place = {});
  ~TaskUnit() override;

  PacketIn<protocol::SubmitPacket> submit_in;
  PacketOut<protocol::DonePacket> done_out;
  // From and to the packet processor: kernels that no stream holds back.
  PacketIn<protocol::DispatchPacket> dispatch_in;
  PacketOut<protocol::DispatchDonePacket> dispatch_done_out;
  // To and from the copy engines; unbound where no stream copies.
  PacketOut<protocol::CopyRequestPacket> copy_out;
  PacketIn<protocol::CopyDonePacket> copy_done_in;
  PacketOut<protocol::TaskPacket> task_out;
  PacketOut<protocol::TpcEnablePacket> control_out;  // control packets are handed on at once
  PacketIn<protocol::TaskDonePacket> task_done_in;

  // Whatever is not needed of these may stay unbound.
  PacketIn<protocol::SubcontextPacket> share_in;    // from the host interface; submitted ones are treated alike
  PacketOut<protocol::SubcontextPacket> share_out;  // to all that are bound
  // Occupancy queries of the host are handed on in their order with changes of sharing, so that a query sees what was
  // changed before it.
  PacketIn<protocol::OccupancyQueryPacket> query_in;
  PacketOut<protocol::OccupancyQueryPacket> query_out;
  PacketOut<protocol::EvictPacket> evict_out;  // unbound: no task is evicted
  PacketIn<protocol::EvictedPacket> evicted_in;
  PacketOut<protocol::GrowPacket> grow_out;
  PacketIn<protocol::IdlePacket> idle_in;
  sc_core::sc_vector<PacketIn<protocol::ChildPacket>> child_in;  // by SM id
  PacketOut<protocol::WakePacket> wake_out;                      // link: SM id
  MemoryOut memory_out;

  // Operations and dispatches taken in that have not ended.
  std::size_t open() const { return manager_.open(); }
  // Nothing of device-side launches is open either.
  bool launches_idle() const { return manager_.launches_idle(); }
  std::size_t payloads() const { return memory_.payloads(); }
  // Called with every task of device code that cannot run.
  void on_fault(ChildLauncher::FaultSink sink) { manager_.on_fault(std::move(sink)); }
  // What task management itself keeps of a change of how the machine is shared: nobody else is told.
  void note_share(const protocol::SubcontextPacket& packet) {
    manager_.show_subcontexts();
    manager_.dispatcher().on_share(packet);
  }
  void reset() override;
  void check_idle() override;
  void collect_waits(WaitGraph& graph) const override { manager_.collect_waits(graph); }

 private:
  // Kinds of events.
  static constexpr std::uint32_t kAnswer = 0;
  static constexpr std::uint32_t kSend = 1;

  void end_of_elaboration() override { manager_.dispatcher().set_evicts(evict_out.links() > 0); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_submit(const protocol::SubmitPacket& packet, std::uint32_t);
  void on_share(const protocol::SubcontextPacket& packet, std::uint32_t);
  void on_query(const protocol::OccupancyQueryPacket& packet, std::uint32_t) { query_out.send(packet); }

  void read_line(std::uint64_t address, std::optional<std::uint8_t> subcontext, std::uint32_t tag) override;
  void write_line(std::uint64_t address, const RecordLine& line, std::uint32_t tag) override;
  void step(const arch::MemoryStep& step, std::uint32_t tag) override;

  protocol::MemoryClient<std::uint32_t> memory_;
  TaskManager manager_;
};

}  // namespace heddle::task

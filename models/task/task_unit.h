// Task management: takes operations in from the host, keeps their streams, hands tasks to the CWD and takes slots of
// its table away from less urgent ones. Kernels of the packet processor come without a stream, and join the same lists;
// so do tasks that device code launches, which come through memory and the nested scheduler.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/code_store.h"
#include "arch/fault.h"
#include "arch/gpu_observation.h"
#include "arch/sm_limits.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/host_task.h"
#include "protocol/packet_task.h"
#include "protocol/sm_task.h"
#include "protocol/task_cwd.h"
#include "task/nested_scheduler.h"
#include "task/priority_lists.h"
#include "task/queue_state.h"
#include "task/stream_table.h"
#include "task/table_view.h"
#include "task/task.h"
#include "task/task_params.h"
#include "task/task_rows.h"
#include "task/task_stats.h"

namespace heddle::task {

// What device-side launches need of the machine.
struct NestedPlace {
  arch::CodeStore* codes = nullptr;  // null: no task launches, or has a queue
  arch::NestedMemory memory;
  std::uint32_t sms = 0;
};

class TaskUnit : public Block, private NestedClient {
 public:
  // `start_path`: cycles from here to a task's first launch packet on an idle machine. `task_slots`: of the CWD.
  TaskUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const TaskParams& params,
           const arch::SmLimits& limits, Cycle start_path, std::uint32_t task_slots, const NestedPlace& nested = {});
  ~TaskUnit() override;

  PacketIn<protocol::SubmitPacket> submit_in;
  PacketOut<protocol::DonePacket> done_out;
  // From and to the packet processor: kernels that no stream holds back.
  PacketIn<protocol::DispatchPacket> dispatch_in;
  PacketOut<protocol::DispatchDonePacket> dispatch_done_out;
  PacketOut<protocol::TaskPacket> task_out;
  PacketOut<protocol::TpcEnablePacket> control_out;  // control packets go straight on
  PacketIn<protocol::TaskDonePacket> task_done_in;

  // Whatever is not needed of these may stay unbound.
  PacketIn<protocol::SubcontextPacket> share_in;    // from the host interface; submitted ones go the same way
  PacketOut<protocol::SubcontextPacket> share_out;  // to all that are bound
  PacketOut<protocol::EvictPacket> evict_out;       // unbound: no task is evicted
  PacketIn<protocol::EvictedPacket> evicted_in;
  PacketOut<protocol::GrowPacket> grow_out;
  PacketIn<protocol::IdlePacket> idle_in;
  sc_core::sc_vector<PacketIn<protocol::ChildPacket>> child_in;  // by SM id
  PacketOut<protocol::WakePacket> wake_out;                      // link: SM id
  MemoryOut memory_out;

  // Operations and dispatches taken in that have not ended.
  std::size_t open() const { return streams_.open() + dispatches_.size(); }
  // Nothing of device-side launches is open either.
  bool nested_idle() const { return scheduler_.open() == 0 && tasks_.empty(); }
  std::size_t payloads() const { return scheduler_.payloads(); }
  // Called with every task of device code that cannot run.
  void on_fault(std::function<void(const arch::FaultRecord&)> sink) { fault_sink_ = std::move(sink); }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events.
  static constexpr std::uint32_t kDue = 0;
  static constexpr std::uint32_t kHoldEnds = 1;
  struct Dispatched {
    std::uint32_t stream = 0;
    Cycle released = 0;  // when nothing but the launch itself was left to wait for
    Cycle due = 0;       // when it was ready to be sent
  };
  // A kernel of the packet processor.
  struct Dispatch {
    protocol::DispatchPacket packet;
    Cycle arrived = 0;
  };
  // A TMD that is to be read.
  struct Starting {
    std::uint32_t behind = kNoOperation;
    std::uint32_t behind_stream = 0;
    std::string behind_name;
    std::uint32_t parent = kNoOperation;
    Cycle issued = 0;
    Cycle arrived = 0;
    bool issue_known = false;
  };
  // A launch that waits in memory behind another, as SMs tell it.
  struct Queued {
    std::uint64_t behind = 0;
    Cycle issued = 0;
  };
  struct Queue {
    QueueState state;
    std::uint32_t operation = kNoOperation;  // none: entries that came before their task
    bool broken = false;                     // one of its entries will never come
  };

  void before_end_of_elaboration() override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_submit(const protocol::SubmitPacket& packet, std::uint32_t);
  void on_share(const protocol::SubcontextPacket& packet, std::uint32_t);
  void on_dispatch(const protocol::DispatchPacket& packet, std::uint32_t);

  // Streams of the host: task_unit.cpp.
  void take_ready();
  void due(std::uint32_t stream);
  void hold_ended(std::uint32_t stream);
  void end_dispatch(const protocol::DispatchDonePacket& done);
  void finish(std::uint32_t stream, Cycle start, Cycle end, protocol::DoneStatus status, const Task* task);
  void draw(const StreamTable::Entry& entry, Cycle start, Cycle end, const Task* task);
  void count(protocol::DoneStatus status);
  void note_latency(Cycle start, Cycle submitted, Cycle released);
  void show_open() { open_.set(static_cast<double>(open())); }
  std::uint64_t ns(Cycle cycles) const;

  // Lists and task table: task_unit_table.cpp.
  Task task_of(std::uint32_t operation, std::int32_t priority, const arch::KernelShape& kernel) const;
  void take_in(Task task);
  void enlist(Task& task);
  void dispatch();
  void send(Task& task);
  void ask_for_slots();
  void on_credit(std::uint32_t);
  void on_evicted(const protocol::EvictedPacket& packet, std::uint32_t);
  void on_task_done(const protocol::TaskDonePacket& done, std::uint32_t);
  void run_over(Task& task);
  void finish_task(std::uint32_t operation, Cycle end);

  // Device-side launches: task_unit_nested.cpp.
  bool launches(const arch::KernelShape& kernel) const;
  void enter(NestedChain chain);
  void prepare_some();
  void prepare(Task& task);
  void on_child(const protocol::ChildPacket& packet, std::uint32_t sm);
  void chain_effect(const ChainEffect& effect) override;
  void chain_progress() override { progress(); }
  void prepared(const ChainEffect& effect);
  void start_next(const ChainEffect& effect);
  void child_read(const ChainEffect& effect);
  std::string judge(const ChainEffect& effect, const ChildRecord& child, arch::KernelObject& object,
                    arch::KernelShape& shape) const;
  void refuse(Task& task, const std::string& why);
  void completed(std::uint64_t record);
  void finish_child(const Task& task, Cycle end);
  void wake(const ChainEffect& effect);
  void restore(const ChainEffect& effect);
  void fault(std::uint32_t operation, std::uint8_t subcontext, std::uint64_t address, const std::string& where);
  Task* task_at(std::uint64_t record);

  // Queue tasks: task_unit_queue.cpp.
  void find_queue(Task& task);
  void queue_found(const ChainEffect& effect);
  void begin_queue(const Task& task);
  void close_turns();
  void on_appended(std::uint64_t queue, std::uint64_t ticket);
  void on_lost_entry(std::uint64_t queue);
  void stop_broken(const Queue& queue);
  void on_idle(const protocol::IdlePacket& packet, std::uint32_t);
  void grow(std::uint64_t address);
  void try_close(std::uint64_t address);
  void queue_closed(const ChainEffect& effect);
  void end_queue(const Task& task);

  void collect_nested_waits(WaitGraph& graph) const;
  std::string label(std::uint32_t operation) const { return gpu_observation(domain_).labels.of(operation); }

  const arch::SmLimits limits_;
  const Cycle stream_gap_;
  const Cycle start_path_;
  const NestedPlace nested_;
  const std::uint32_t record_places_;  // tasks of the host that may hold TMDs before they are sent
  StreamTable streams_;
  std::unordered_map<std::uint32_t, Dispatched> dispatched_;  // by operation; looked up only
  std::unordered_map<std::uint32_t, Dispatch> dispatches_;    // by operation; looked up only
  std::map<std::uint32_t, Task> tasks_;                       // by operation: those in lists, in the table, or open
  PriorityLists lists_;                                       // operations that wait for a slot
  TableView table_;

  NestedScheduler scheduler_;
  PriorityLists unprepared_;                                  // of the host, that launch: they wait for a TMD
  std::multiset<std::int32_t> holding_;                       // priorities of those that have one and were not sent
  std::unordered_map<std::uint64_t, std::uint32_t> records_;  // TMD -> operation; looked up only
  std::unordered_map<std::uint64_t, Starting> starting_;      // by TMD; looked up only
  std::map<std::uint64_t, Queued> queued_;                    // by TMD
  std::map<std::uint64_t, Queue> queues_;                     // by address
  std::set<std::uint64_t> stopped_queues_;                    // whose task a fault has ended; by address
  std::set<std::uint64_t> refused_records_;                   // that memory did not give or take
  std::set<std::uint32_t> released_queues_;                   // tasks whose close came before they began
  std::uint32_t next_number_ = 0;                             // of operations that begin here
  std::uint64_t child_number_ = 0;
  std::size_t open_children_ = 0;
  std::function<void(const arch::FaultRecord&)> fault_sink_;
  TaskRows rows_;
  std::vector<std::shared_ptr<void>> loose_ends_;

  Counter& submitted_;
  Counter& packets_;
  Counter& kernels_;
  Counter& holds_;
  Counter& rejected_;
  Counter& faulted_;
  Gauge& open_;
  Histogram& launch_latency_;
  Histogram& queue_time_;
  TaskStats stats_;
};

}  // namespace heddle::task

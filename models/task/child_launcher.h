// Device-side launches (TSK-06 to TSK-13): tasks that device code has launched, from the start packet of an SM, or the
// end of what was ahead of them in memory, until they are in a list; CTAs that were saved, until they are restored; and
// what happens when memory refuses their records.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "arch/fault.h"
#include "arch/gpu_observation.h"
#include "arch/sm_limits.h"
#include "common/packet_port.h"
#include "common/waits.h"
#include "protocol/packet_task.h"
#include "protocol/sm_task.h"
#include "task/launch_scheduler.h"
#include "task/queue_tasks.h"
#include "task/stream_events.h"
#include "task/task.h"
#include "task/task_dispatcher.h"
#include "task/task_params.h"
#include "task/task_rows.h"

namespace heddle::task {

// What device-side launches need of the machine.
struct LaunchPlace {
  arch::CodeStore* codes = nullptr;  // null: no task launches, or has a queue
  arch::LaunchMemory memory;
  std::uint32_t sms = 0;
  std::uint64_t channels = 0;            // lines of streams (task/channel.h); 0: there are none
  arch::BroughtCode* brought = nullptr;  // null: kernel objects with code in memory are refused

  // The set of pools that the task's records come from. The TMDs that the host has pushed lie in none.
  arch::LaunchMemory memory_of(const Task& task) const {
    const std::uint64_t record = task.record();
    const bool pooled = record >= memory.base() && record - memory.base() < memory.bytes();
    return pooled ? memory.part_at(record) : memory.of(task.packet.subcontext);
  }
  // The same of the task of that TMD.
  arch::LaunchMemory memory_of(const OpenTasks& tasks, std::uint64_t record) const {
    const Task* task = tasks.of_record(record);
    return task == nullptr ? memory.part_at(record) : memory_of(*task);
  }
};

class ChildLauncher {
 public:
  using FaultSink = std::function<void(const arch::FaultRecord&)>;
  struct Setup {
    arch::SmLimits limits;
    CycleTime time;
    LaunchPlace place;
  };

  ChildLauncher(Timebase& timebase, const Setup& setup, OpenTasks& tasks, TaskLife& life, TaskDispatcher& dispatcher,
                LaunchScheduler& scheduler, TaskRows& rows, PacketSender<protocol::WakePacket>& wake_out,
                PacketSender<protocol::GrowPacket>& grow_out, const std::string& stat_prefix);

  // Called with every task of device code that cannot run.
  void on_fault(FaultSink sink) { fault_sink_ = std::move(sink); }

  // An SM has launched a task that nothing holds back, or the host has pushed one.
  void start(std::uint64_t record, std::optional<Cycle> issued);
  // An SM has put a task behind another one into a TMDQ: for observation only.
  void queued(const protocol::ChildPacket& packet);
  // What follows from chains.
  void ready(const ChildReady& effect);
  // `known`: the host has pushed it, if its TMD says that the host has.
  void read(const ChildRead& effect, bool known);
  void wake(const WakeContext& effect);
  void restore(const RestoreCta& effect);
  void restore(const RestoreCga& effect);
  void failed(const AccessFailed& effect);
  // What was to be started is no task.
  void forget(std::uint64_t record) { starting_.erase(record); }
  // The task completes without having run.
  void refuse(Task& task, const std::string& why);
  // A child has completed with all its descendants, or a restored CTA has ended.
  void finished(const Task& task, Cycle end);
  void restored_over(const Task& task);

  void reset();
  void collect_waits(WaitGraph& graph, const QueueTasks& queues, const StreamEvents& events) const;

 private:
  // A TMD that is being read.
  struct Starting {
    std::optional<std::uint32_t> parent;
    std::optional<Task::Launch::Ahead> behind;
    bool behind_event = false;
    std::optional<Cycle> issued;
    std::optional<Cycle> pushed;
    Cycle tails_from = 0;
    Cycle arrived = 0;
  };
  // A launch that waits in memory behind another one, or for the end of the grid whose first tail launch it is (0), as
  // SMs tell it.
  struct Queued {
    std::uint64_t behind = 0;
    Cycle issued = 0;
    Cycle pushed = 0;
  };

  bool join_restored(const Task& origin, const protocol::RestoredCta& cta);
  Task make_restored(const Task& origin, std::uint64_t area);
  Task make_child(const ChildRead& effect, const ChildRecord& child, const arch::KernelShape& shape);
  void fault(std::optional<std::uint32_t> operation, std::uint8_t subcontext, std::uint64_t address,
             const std::string& where);
  void note_launch(const Task& task, const std::string& kernel);
  void note_latency(const Task& task);
  void note_end(const Task& task, Cycle end);
  std::string label(std::uint32_t operation) const { return observation_.labels.of(operation); }
  Cycle now() const { return timebase_.now(); }

  Timebase& timebase_;
  GpuObservation& observation_;
  const Setup setup_;
  OpenTasks& tasks_;
  TaskLife& life_;
  TaskDispatcher& dispatcher_;
  LaunchScheduler& scheduler_;
  TaskRows& rows_;
  PacketSender<protocol::WakePacket>& wake_out_;
  PacketSender<protocol::GrowPacket>& grow_out_;
  FaultSink fault_sink_;
  std::unordered_map<std::uint64_t, Starting> starting_;  // by TMD; looked up only
  std::map<std::uint64_t, Queued> queued_;                // by TMD
  std::set<std::uint64_t> refused_;                       // records that memory did not give or take
  std::map<std::uint32_t, std::uint32_t> restored_;       // by task: the restored one that CTAs of it can still join
  std::uint32_t next_number_ = 0;                         // of operations that begin here
  std::uint64_t child_number_ = 0;
  std::size_t open_children_ = 0;
  LaunchStats stats_;
};

}  // namespace heddle::task

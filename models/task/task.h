// A task on its way through task management, the lists and the distributor; and all that are there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "arch/brought_code.h"
#include "arch/idle_account.h"
#include "arch/sm_limits.h"
#include "common/cycle.h"
#include "protocol/host_task.h"
#include "protocol/task_cwd.h"
#include "task/launch_chain.h"
#include "task/launch_scheduler.h"

namespace heddle::task {

struct Task {
  enum class Origin : std::uint8_t {
    stream,    // a stream of the host
    tmdq,      // a stream of the host that is a TMDQ in memory
    packet,    // the packet processor
    child,     // launched by device code
    restored,  // a CTA that was saved
  };
  enum class State : std::uint8_t {
    preparing,  // its queue is looked up, or it is given a TMD or a shared context
    waiting,    // for an entry of the scheduler table
    entering,   // it is being put in
    listed,     // in the list of its priority
    scheduled,  // it has been taken out for a slot; its record is read
    running,    // it has been sent; it can have lost its slot since, with nothing left to send
    suspended,  // it was evicted: its progress is written, or it is in the list of its priority with what is left
    resting,    // it was evicted, and has nothing left until its queue has more entries
    run_over,   // nothing of it runs, or will: it waits for its descendants
  };
  // Of a queue task.
  struct QueueUse {
    std::uint64_t address = 0;
    std::uint64_t entries = 0;  // that are there from the start
    bool held_open = false;     // it does not end before its close
    bool rests = false;         // it runs, and all its entries so far have completed
  };
  // Of a child, and of a task that the host has pushed.
  struct Launch {
    struct Ahead {
      std::uint32_t operation = 0;
      std::uint32_t stream = 0;
      std::string name;  // for the timeline: its label is forgotten with its end
    };
    ChildRecord child;
    std::optional<std::uint32_t> parent;  // its operation
    std::optional<Ahead> behind;          // what ended right before it in its TMDQ
    bool behind_event = false;            // that was no task
    std::optional<Cycle> issued;          // launch operation
    std::optional<Cycle> pushed;          // it is known to be behind others in its TMDQ
    Cycle tails_from = 0;                 // of a tail launch: all else of the grid that it follows had ended
    Cycle arrived = 0;                    // start packet, or the end of what was ahead of it
    Cycle read = 0;                       // TMD and kernel object
  };
  struct Absence {
    Cycle from = 0;
    std::optional<Cycle> until;  // absent: it has not come back
  };

  // Of one that a stream of the host has.
  struct HostStream {
    std::uint32_t stream = 0;
    bool reports = false;      // its end is written to the channel of its stream, if ends are
    std::uint64_t let_go = 0;  // its CTAs that keep the kernel behind it no longer from starting
  };

  struct Record {
    std::uint64_t address = 0;       // in memory; 0: it has none
    std::int32_t held_priority = 0;  // with which it is held before the task is sent
    arch::KernelShape kernel;        // that it says, or would
  };
  // Of one that is to leave the machine.
  struct Leave {
    bool killed = false;                            // who has submitted it, or an ancestor of it, wants it to end
    bool writing = false;                           // evicted: how far it has come is being written
    std::optional<protocol::TaskDonePacket> ended;  // its end, which came meanwhile and could not be dealt with yet
  };

  Origin origin = Origin::stream;
  State state = State::preparing;
  protocol::TaskPacket packet;
  Record tmd;
  std::uint64_t source = 0;  // the turn that it takes in its list (task/launch_scheduler.h)
  bool head = false;         // it goes to the head of its list
  bool launches = false;     // its program launches tasks: it needs a TMD
  bool launched = false;     // it has launched one
  protocol::DoneStatus status = protocol::DoneStatus::ok;
  HostStream host;
  std::uint32_t lent = 0;  // code to be given back
  std::optional<QueueUse> queue;
  Launch launch;

  Leave leave;

  // Cycles, as far as it has come.
  Cycle not_before = 0;  // for its sending
  Cycle listed = 0;
  Cycle sent = 0;
  Cycle start = 0;  // first launch packet
  Cycle end = 0;    // of its run
  std::vector<Absence> evicted;

  // Whoever has submitted it hears of its end.
  bool of_host() const { return origin == Origin::stream || origin == Origin::tmdq || origin == Origin::packet; }
  std::uint32_t operation() const { return packet.operation; }
  std::uint64_t record() const { return packet.record; }
  Urgency urgency() const { return {packet.priority, packet.depth}; }
  // It has been sent, and its run has not ended.
  bool runs() const {
    return state == State::running || state == State::suspended || state == State::resting ||
           (state == State::scheduled && packet.resumed);
  }
  // Its end, if nothing of it is on the machine.
  protocol::TaskDonePacket end_unsent(Cycle now) const {
    return {operation(), packet.progress.start.value_or(now), now, false, true};
  }
  // It came through memory, with its TMD; or as a packet, and task management writes one if one is needed.
  bool brought() const { return origin == Origin::child || origin == Origin::tmdq; }
  bool taken_in() const { return origin == Origin::stream || origin == Origin::packet; }
  // From now on it is a kernel of that shape, but for its code.
  void take_shape(const arch::SmLimits& limits, const arch::KernelShape& kernel);
};

// A task as a kernel makes it. `codes`: null on a machine without device-side launches.
Task make_task(const arch::SmLimits& limits, const arch::CodeStore* codes, std::uint32_t operation,
               std::int32_t priority, const arch::KernelShape& kernel);

// All tasks that have not ended: by operation, and by the TMD that they have in memory.
class OpenTasks final : public arch::CodeUser {
 public:
  // `idle`: null: nobody asks.
  explicit OpenTasks(IdleAccount* idle = nullptr)
      : prepared_work_(idle, IdleAccount::Work::prepared),
        host_work_(idle, IdleAccount::Work::tasks),
        open_work_(idle, IdleAccount::Work::open_tasks) {}

  // References stay valid until take().
  Task& add(Task task);
  Task* find(std::uint32_t operation);
  const Task* find(std::uint32_t operation) const {
    return const_cast<OpenTasks*>(this)->find(operation);  // NOLINT(*-const-cast): a look-up, which changes nothing
  }
  Task& at(std::uint32_t operation) { return tasks_.at(operation); }
  bool empty() const { return tasks_.empty(); }

  // It has been sent.
  void sent(const Task& task) {
    if (prepared_.erase(task.operation()) > 0) prepared_work_.remove();
  }

  // From now on the task is the one of that TMD.
  void set_record(Task& task, std::uint64_t record);
  Task* of_record(std::uint64_t record);
  const Task* of_record(std::uint64_t record) const {
    return const_cast<OpenTasks*>(this)->of_record(record);  // NOLINT(*-const-cast): a look-up, which changes nothing
  }

  Task take(std::uint32_t operation);
  // It, or one of those that have launched it, is to end.
  bool doomed(const Task& task) const;
  // Of queue tasks: they are lent their programs when their queues have been found.
  void mark_codes(std::set<std::uint32_t>& used) const override;
  void clear();

  // In the order of their operations.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [operation, task] : tasks_) visit(task);
  }

 private:
  IdleWork prepared_work_;
  IdleWork host_work_;
  IdleWork open_work_;
  std::unordered_set<std::uint32_t> prepared_;  // not sent; looked up only
  std::map<std::uint32_t, Task> tasks_;
  std::unordered_map<std::uint64_t, std::uint32_t> records_;  // TMD -> operation; looked up only
};

// Told by the parts of task management what has become of a task.
class TaskLife {
 public:
  // A kernel of the host or of the packet processor has nothing more to wait for.
  virtual void task_due(Task task) = 0;
  // The packet processor wants it to end, with all that it has launched. It may have ended.
  virtual void task_killed(std::uint32_t operation) = 0;
  // A queue task of device code has come.
  virtual void task_placed(Task& task) = 0;
  // A queue task has its queue.
  virtual void task_ready(Task& task) = 0;
  // It can never run. It is gone after the call.
  virtual void task_rejected(Task& task) = 0;
  // It has been sent for the first time; or again, after its eviction.
  virtual void task_sent(Task& task) = 0;
  virtual void task_sent_again(Task& task) = 0;
  // Its run has ended, or never began. It can be gone after the call.
  virtual void task_run_over(Task& task) = 0;
  // Then it has ended, and that is known. It can be gone after the call.
  virtual void task_ended(Task& task) = 0;

 protected:
  ~TaskLife() = default;
};

}  // namespace heddle::task

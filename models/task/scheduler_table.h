// The scheduler table: the lists of tasks that wait for a slot of the distributor's task table. It has so many entries.
// It puts in one task at a time, and takes out one at a time; neither waits for the other (TSK-02).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "common/error.h"
#include "common/timebase.h"
#include "task/launch_scheduler.h"
#include "task/task.h"
#include "task/task_params.h"

namespace heddle::task {

// A task without an entry waits where it comes from: a kernel of the host at the head of its stream, one of the packet
// processor in its queue, one of device code as its TMD in memory, a saved CTA in its area. So nothing is lost, and the
// host is held back. Of those that wait the most urgent one enters next.
//
// A full table keeps out nobody who would go first: each subcontext's list of each urgency has one entry of its own
// besides. So a parent's children, which are deeper, never wait behind others for an entry that only their end could
// free (TSK-12), and no subcontext waits for another one's (PRT-02). An evicted task finds an entry that was kept for
// it since it was asked to leave.
class SchedulerTable final : private EventHandler {
 public:
  struct Costs {
    std::uint32_t entries = 1;
    Cycle insert = 0;  // cycles in which it puts in nothing else
    Cycle take = 0;    // cycles in which it takes out nothing else
  };
  using Operation = std::uint32_t;

  // `entered`: called with a task that has been put in at a later time than that of the call that brought it.
  SchedulerTable(Timebase& timebase, std::string name, OpenTasks& tasks, const Costs& costs,
                 std::function<void(Task&)> entered, const std::string& stat_prefix);

  // The task is to wait in its list.
  void join(Task& task);
  // An evicted task comes back, at the head of its list.
  void come_back(Task& task);
  // A task that waits, or an evicted one, is not to go on. False: it is not in its list yet.
  bool remove(const Task& task);
  // So many more tasks, or fewer, may come back.
  void expect() { ++expected_; }
  void expect_less();

  // It takes nothing out.
  bool can_take() const { return taken_at_ <= timebase_.now(); }
  // The next in turn for which may(operation) says so, and the cycle from which it is out. Who is next is settled no
  // earlier than when the one before is out.
  struct Taken {
    Operation operation = 0;
    Cycle out = 0;
  };
  template <class May>
  std::optional<Taken> take_if(const May& may);

  // Those that are in.
  const PriorityLists& lists() const { return lists_; }
  // Those that wait for an entry.
  const PriorityLists& outside() const { return outside_; }
  // Entries that are taken.
  std::size_t used() const { return used_; }
  void reset();

 private:
  using List = std::tuple<std::int32_t, std::uint32_t, std::uint32_t>;  // priority, depth, subcontext
  static List list_of(const Task& task);

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t, std::uint64_t operation) override;
  void push(PriorityLists& lists, const Task& task) const;
  bool may_enter(const Task& task) const;
  void insert(Task& task);
  void put_in(Operation operation);
  void let_in();
  void left(const Task& task);

  Timebase& timebase_;
  const std::string name_;
  OpenTasks& tasks_;
  const Costs costs_;
  const std::function<void(Task&)> entered_;
  PriorityLists lists_;
  PriorityLists outside_;
  std::map<List, std::size_t> sizes_;           // entries of each list, those that are being put in included
  std::unordered_map<Operation, Cycle> waits_;  // of those outside, since when; looked up only
  std::size_t used_ = 0;
  std::size_t expected_ = 0;
  Cycle put_at_ = 0;    // when the last of those that it puts in is in
  Cycle taken_at_ = 0;  // when the one that it takes out is out
  ListStats stats_;
};

template <class May>
std::optional<SchedulerTable::Taken> SchedulerTable::take_if(const May& may) {
  HEDDLE_CHECK(can_take(), "the scheduler table takes out two tasks at a time");
  const std::optional<Operation> next = lists_.take_if(may);
  if (!next) return std::nullopt;
  taken_at_ = timebase_.now() + costs_.take;
  const Taken taken{*next, taken_at_};
  left(tasks_.at(*next));
  return taken;
}

}  // namespace heddle::task

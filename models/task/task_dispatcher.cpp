#include "task/task_dispatcher.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::task {

using protocol::DoneStatus;

std::vector<TableView::Entry>::iterator TableView::find(Operation operation) {
  return std::find_if(entries_.begin(), entries_.end(), [=](const Entry& e) { return e.operation == operation; });
}

bool TableView::holds(Operation operation) const {
  return std::any_of(entries_.begin(), entries_.end(), [=](const Entry& e) { return e.operation == operation; });
}

void TableView::enter(Operation operation, Priority priority, std::uint32_t subcontext) {
  HEDDLE_CHECK(!holds(operation), "a task was sent that is in the task table");
  entries_.push_back({operation, priority, subcontext, false, 0});
}

void TableView::stays(Entry& entry) {
  if (!entry.leaving) return;
  entry.leaving = false;
  --leaving_;
  --leaving_for_[entry.leaves_for];
  --leaving_of_[entry.subcontext];
}

bool TableView::leave(Operation operation) {
  stuck_ = false;
  const auto found = find(operation);
  if (found == entries_.end()) return false;
  stays(*found);
  entries_.erase(found);
  return true;
}

void TableView::refused(Operation operation) {
  const auto found = find(operation);
  if (found == entries_.end()) return;  // it has ended in the meantime
  stays(*found);
  stuck_ = true;
}

std::vector<TableView::Operation> TableView::operations() const {
  std::vector<Operation> result;
  for (const Entry& entry : entries_) result.push_back(entry.operation);
  return result;
}

void TableView::clear() {
  entries_.clear();
  leaving_ = 0;
  leaving_for_ = leaving_of_ = {};
  stuck_ = false;
}

void TableShares::use(std::uint32_t subcontext) {
  HEDDLE_CHECK(subcontext < kSubcontexts, "there is no such subcontext");
  if (used_[subcontext]) return;
  used_[subcontext] = true;
  ++in_use_;
  share_ = static_cast<std::uint32_t>(guarantee_ * (slots_ / in_use_));
  count_kept();
}

void TableShares::enter(std::uint32_t subcontext) {
  use(subcontext);
  ++taken_[subcontext];
  ++all_taken_;
  count_kept();
}

void TableShares::leave(std::uint32_t subcontext) {
  HEDDLE_CHECK(taken_[subcontext] > 0, "a slot of the task table was given back that was not taken");
  --taken_[subcontext];
  --all_taken_;
  count_kept();
}

void TableShares::count_kept() {
  kept_ = 0;
  for (std::uint32_t i = 0; i < kSubcontexts; ++i) kept_ += missing(i);
}

bool TableShares::has_slot(std::uint32_t subcontext) const {
  if (!partitioned_) return true;
  if (all_taken_ >= slots_) return false;
  const std::uint32_t own = missing(subcontext);
  return own > 0 || slots_ - all_taken_ > kept_ - own;
}

void TableShares::reset() {
  partitioned_ = initially_;
  used_ = {};
  taken_ = {};
  in_use_ = all_taken_ = share_ = kept_ = 0;
}

using State = Task::State;

TaskDispatcher::TaskDispatcher(Timebase& timebase, OpenTasks& tasks, TaskLife& life,
                               PacketSender<protocol::TaskPacket>& task_out,
                               PacketSender<protocol::EvictPacket>& evict_out, const TableShares& shares,
                               const std::string& stat_prefix)
    : timebase_(timebase),
      tasks_(tasks),
      life_(life),
      task_out_(task_out),
      evict_out_(evict_out),
      shares_(shares),
      stats_(timebase.observation().stats, stat_prefix) {}

void TaskDispatcher::on_share(const protocol::SubcontextPacket& packet) {
  using What = protocol::SubcontextPacket::What;
  if (packet.what == What::mode) {
    shares_.set_partitioned(packet.mode != protocol::PartitionMode::none);
  } else if (packet.subcontext < TableShares::kSubcontexts) {
    shares_.use(packet.subcontext);
  }
  dispatch();
}

void TaskDispatcher::enlist(Task& task) {
  shares_.use(task.packet.subcontext);
  task.state = State::listed;
  task.listed = timebase_.now();
  if (task.head) {
    lists_.push_head(task.urgency(), task.operation());
  } else {
    lists_.push(task.urgency(), task.source, task.operation());
  }
  dispatch();
}

void TaskDispatcher::dispatch() {
  while (!lists_.empty()) {
    if (!task_out_.can_send()) {
      ask_for_slots();
      return;
    }
    const auto next = lists_.take_if(
        [this](std::uint32_t operation) { return shares_.has_slot(tasks_.at(operation).packet.subcontext); });
    if (!next) {
      ask_for_slots();
      return;
    }
    send(tasks_.at(*next));
    ++timebase_.observation().progress;
  }
}

void TaskDispatcher::send(Task& task) {
  const bool resumed = task.state == State::suspended;
  task.state = State::running;
  table_.enter(task.operation(), task.packet.priority, task.packet.subcontext);
  shares_.enter(task.packet.subcontext);
  task.packet.resumed = resumed;
  task_out_.send(task.packet);
  if (resumed) {
    task.evicted.back().until = timebase_.now();
    stats_.resumptions.add();
    return;
  }
  task.sent = timebase_.now();
  life_.task_sent(task);
}

// One eviction for every waiting task that is more urgent than one in the table whose slot it may have.
void TaskDispatcher::ask_for_slots() {
  if (!evicts_) return;
  if (!shares_.partitioned()) {
    while (table_.leaving() < lists_.size()) {
      const auto victim = table_.evict_for(lists_.priority_at(table_.leaving()), 0, [](std::uint32_t) { return true; });
      if (!victim) return;
      evict_out_.send({*victim});
    }
    return;
  }
  std::array<std::uint32_t, TableShares::kSubcontexts> seen{};
  lists_.each([&](std::int32_t priority, std::uint32_t operation) {
    const std::uint32_t subcontext = tasks_.at(operation).packet.subcontext;
    if (++seen[subcontext] <= table_.leaving_for(subcontext)) return;
    const auto may = [&](std::uint32_t other) {
      return shares_.may_displace(subcontext, table_.leaving_for(subcontext), other, table_.leaving_of(other));
    };
    const auto victim = table_.evict_for(priority, subcontext, may);
    if (victim) evict_out_.send({*victim});
  });
}

// What is left of an evicted task waits at the head of its list.
void TaskDispatcher::on_evicted(const protocol::EvictedPacket& packet, std::uint32_t) {
  if (!packet.evicted) {
    table_.refused(packet.operation);
    return;
  }
  stats_.evictions.add();
  if (!table_.leave(packet.operation)) return;  // its end was faster
  Task& task = tasks_.at(packet.operation);
  shares_.leave(task.packet.subcontext);
  task.evicted.push_back({timebase_.now(), {}});
  if (packet.remainder) {
    task.state = State::suspended;
    lists_.push_head(task.urgency(), task.operation());
  }
  ++timebase_.observation().progress;
  dispatch();
}

void TaskDispatcher::on_task_done(const protocol::TaskDonePacket& done, std::uint32_t) {
  Task* found = tasks_.find(done.operation);
  HEDDLE_CHECK(found != nullptr && found->runs(), "a task ended that does not run");
  Task& task = *found;
  if (table_.leave(done.operation)) shares_.leave(task.packet.subcontext);
  // A fault ends what was evicted as well.
  if (task.state == State::suspended) lists_.remove(task.urgency(), done.operation);
  task.status = done.faulted ? DoneStatus::faulted : DoneStatus::ok;
  if (done.rejected) task.status = DoneStatus::rejected;  // no domain can hold its CGAs (CWD-25)
  task.start = done.start;
  task.end = done.end;
  life_.task_run_over(task);
  dispatch();
}

void TaskDispatcher::reset() {
  lists_.clear();
  table_.clear();
  shares_.reset();
}

}  // namespace heddle::task

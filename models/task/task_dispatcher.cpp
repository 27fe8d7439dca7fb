#include "task/task_dispatcher.h"

#include <algorithm>

#include "arch/gpu_observation.h"
#include "arch/race_checker.h"
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
  entries_.push_back({operation, priority, subcontext, false, false, 0});
}

void TableView::rests(Operation operation, bool rests) {
  const auto found = find(operation);
  if (found != entries_.end()) found->rests = rests;
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

TaskDispatcher::TaskDispatcher(Timebase& timebase, const std::string& name, OpenTasks& tasks, TaskLife& life,
                               TaskRecords& records, PacketSender<protocol::TaskPacket>& task_out,
                               PacketSender<protocol::EvictPacket>& evict_out, const TableShares& shares,
                               const SchedulerTable::Costs& costs, const std::string& stat_prefix)
    : timebase_(timebase),
      name_(name + ".dispatcher"),
      tasks_(tasks),
      life_(life),
      records_(records),
      task_out_(task_out),
      evict_out_(evict_out),
      lists_(
          timebase, name + ".lists", tasks, costs, [this](Task& task) { entered(task); }, stat_prefix),
      shares_(shares),
      stats_(timebase.observation().stats, stat_prefix) {}

void TaskDispatcher::on_event(std::uint32_t kind, std::uint64_t argument) {
  Task& task = tasks_.at(static_cast<std::uint32_t>(argument));
  if (kind == kTaken) {
    taken(task);
  } else {
    go(task);
  }
  dispatch();
}

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
  task.listed = timebase_.now();
  if (task.leave.killed) {
    end(task, task.end_unsent(timebase_.now()));
    return;
  }
  lists_.join(task);
  dispatch();
}

void TaskDispatcher::on_credit(std::uint32_t) {
  while (!ready_.empty() && task_out_.can_send()) {
    Task& task = tasks_.at(ready_.front());
    ready_.pop_front();
    go(task);
  }
  dispatch();
}

// A slot that a task is on its way to is taken: nobody has it, and nobody can be asked for it, before the task has been
// sent. What happens on that way therefore ends with another look at those that wait.
void TaskDispatcher::dispatch() {
  while (!lists_.lists().empty()) {
    const bool free = task_out_.can_send() && (pending_ == 0 || table_.size() + pending_ < shares_.slots());
    if (free && !lists_.can_take()) return;  // until then somebody more urgent can come
    const auto has_slot = [this](std::uint32_t operation) {
      return shares_.has_slot(tasks_.at(operation).packet.subcontext);
    };
    const auto next = free ? lists_.take_if(has_slot) : std::nullopt;
    if (!next) {
      ask_for_slots();
      return;
    }
    Task& task = tasks_.at(next->operation);
    task.state = State::scheduled;
    shares_.enter(task.packet.subcontext);
    ++pending_;
    ++timebase_.observation().progress;
    if (next->out > timebase_.now()) {
      timebase_.schedule(next->out, *this, kTaken, task.operation());
    } else {
      taken(task);
    }
  }
}

void TaskDispatcher::taken(Task& task) {
  if (has_ended(task)) return;
  if (!records_.read(task)) due(task);
}

// A record that cannot be run ends its task as if the distributor had refused it, which is told of its beginning first.
void TaskDispatcher::fetched(Task& task, bool sound) {
  if (has_ended(task)) return;
  if (!sound && !task.packet.resumed) {
    --pending_;
    shares_.leave(task.packet.subcontext);
    task.state = State::running;
    life_.task_sent(task);
    task.status = DoneStatus::rejected;
    task.start = task.end = timebase_.now();
    life_.task_run_over(task);
    dispatch();
    return;
  }
  if (!sound) task.status = DoneStatus::faulted;
  due(task);
  dispatch();
}

void TaskDispatcher::due(Task& task) {
  if (task.not_before > timebase_.now()) {
    timebase_.schedule(task.not_before, *this, kDue, task.operation());
  } else {
    go(task);
  }
}

// A fault has ended the task on its way to the slot.
bool TaskDispatcher::has_ended(Task& task) {
  if (!task.leave.ended) return false;
  --pending_;
  shares_.leave(task.packet.subcontext);
  end(task, *task.leave.ended);
  return true;
}

void TaskDispatcher::go(Task& task) {
  if (has_ended(task)) return;
  if (!task_out_.can_send()) {
    ready_.push_back(task.operation());
    return;
  }
  --pending_;
  send(task);
}

void TaskDispatcher::send(Task& task) {
  task.state = State::running;
  table_.enter(task.operation(), task.packet.priority, task.packet.subcontext);
  if (task.queue && task.queue->rests) table_.rests(task.operation(), true);
  task_out_.send(task.packet);
  if (task.packet.resumed) {
    task.evicted.back().until = timebase_.now();
    stats_.resumptions.add();
    life_.task_sent_again(task);
    return;
  }
  task.sent = timebase_.now();
  life_.task_sent(task);
}

bool TaskDispatcher::ask(std::optional<TableView::Operation> victim) {
  if (!victim) return false;
  lists_.expect();
  records_.leaves(tasks_.at(*victim));
  evict_out_.send({*victim});
  return true;
}

// One eviction for every waiting task that is more urgent than one in the table whose slot it may have, or for which
// one that rests makes room.
void TaskDispatcher::ask_for_slots() {
  if (!evicts_) return;
  if (!shares_.partitioned()) {
    const PriorityLists& lists = lists_.lists();
    const auto may = [this](std::uint32_t operation, std::uint32_t) {
      return records_.spares_one(tasks_.at(operation));
    };
    while (table_.leaving() < lists.size()) {
      if (!ask(table_.evict_for(lists.priority_at(table_.leaving()), 0, may))) return;
    }
    return;
  }
  std::array<std::uint32_t, TableShares::kSubcontexts> seen{};
  lists_.lists().each([&](std::int32_t priority, std::uint32_t operation) {
    const std::uint32_t subcontext = tasks_.at(operation).packet.subcontext;
    if (++seen[subcontext] <= table_.leaving_for(subcontext)) return;
    const auto may = [&](std::uint32_t victim, std::uint32_t other) {
      return records_.spares_one(tasks_.at(victim)) &&
             shares_.may_displace(subcontext, table_.leaving_for(subcontext), other, table_.leaving_of(other));
    };
    ask(table_.evict_for(priority, subcontext, may));
  });
}

// What is left of an evicted task waits at the head of its list, once it is known in memory how far the task has come.
void TaskDispatcher::on_evicted(const protocol::EvictedPacket& packet, std::uint32_t) {
  if (!packet.evicted && packet.gone) {
    gone(packet);
    return;
  }
  if (!packet.evicted) {
    table_.refused(packet.operation);
    const Task* stays = tasks_.find(packet.operation);
    if (stays != nullptr && stays->state == State::running) records_.back(*stays);
    lists_.expect_less();
    dispatch();
    return;
  }
  stats_.evictions.add();
  if (!packet.remainder) lists_.expect_less();
  if (table_.leave(packet.operation)) {  // else its end was faster
    Task& task = tasks_.at(packet.operation);
    if (!packet.remainder) records_.back(task);
    shares_.leave(task.packet.subcontext);
    task.evicted.push_back({timebase_.now(), {}});
    if (packet.remainder) {
      task.state = State::suspended;
      task.packet.resumed = true;
      task.packet.progress = packet.progress;
      task.packet.anew = packet.gone;
      if (task.leave.killed && packet.gone) task.leave.ended = task.end_unsent(timebase_.now());
      task.leave.writing = records_.write_progress(task);
      if (!task.leave.writing) come_back(task);
    }
    ++timebase_.observation().progress;
  }
  dispatch();
}

void TaskDispatcher::come_back(Task& task) {
  task.leave.writing = false;
  if (task.leave.ended) {
    lists_.expect_less();
    end(task, *task.leave.ended);
    return;
  }
  if (task.queue && task.queue->rests) {
    task.state = State::resting;
    lists_.expect_less();
  } else {
    lists_.come_back(task);
  }
  dispatch();
}

void TaskDispatcher::rest_changed(Task& task) {
  table_.rests(task.operation(), task.queue->rests);
  if (task.state == State::resting && !task.queue->rests) {
    task.state = State::suspended;
    lists_.expect();
    lists_.come_back(task);
  } else if (task.state == State::suspended && task.queue->rests && lists_.remove(task)) {
    task.state = State::resting;
  }
  dispatch();
}

void TaskDispatcher::entered(Task& task) {
  if (task.leave.ended) {
    lists_.remove(task);
    end(task, *task.leave.ended);
    return;
  }
  dispatch();
}

// The distributor knows nothing of it any more. If the task was on its way there, it has to go once more.
void TaskDispatcher::gone(const protocol::EvictedPacket& packet) {
  Task& task = tasks_.at(packet.operation);
  task.packet.anew = true;
  task.packet.progress.start = packet.progress.start;
  if (task.leave.killed && task.state != State::running) return on_task_done(task.end_unsent(timebase_.now()), 0);
  if (task.state != State::running) return;
  table_.leave(task.operation());
  shares_.leave(task.packet.subcontext);
  task.state = State::suspended;
  task.evicted.back().until.reset();
  if (task.leave.killed) return end(task, task.end_unsent(timebase_.now()));
  records_.leaves(task);
  lists_.expect();
  lists_.come_back(task);
  dispatch();
}

void TaskDispatcher::on_task_done(const protocol::TaskDonePacket& done, std::uint32_t) {
  Task* found = tasks_.find(done.operation);
  HEDDLE_CHECK(found != nullptr && (found->runs() || found->leave.killed), "a task ended that does not run");
  Task& task = *found;
  if (arch::RaceChecker* races = gpu_observation(timebase_).races; races != nullptr) races->ends(done.operation);
  // A fault ends what was evicted as well; what memory is asked for it is answered first.
  const bool out = task.state != State::running && task.state != State::resting;
  const auto ready = std::find(ready_.begin(), ready_.end(), done.operation);
  if (out && (task.leave.writing || task.state == State::scheduled || !lists_.remove(task))) {
    task.leave.ended = done;
    if (ready == ready_.end()) return;
    ready_.erase(ready);  // only a slot was missing, which it needs no more
    (void)has_ended(task);
    return;
  }
  if (table_.leave(done.operation)) shares_.leave(task.packet.subcontext);
  end(task, done);
}

// One that was never sent begins and ends at once.
void TaskDispatcher::end(Task& task, const protocol::TaskDonePacket& done) {
  if (!task.runs()) {
    task.state = State::running;
    life_.task_sent(task);
  }
  const bool broken = task.status == DoneStatus::faulted || task.status == DoneStatus::aborted;
  if (!broken) task.status = done.faulted ? DoneStatus::faulted : DoneStatus::ok;
  if (task.leave.killed && done.faulted) task.status = DoneStatus::aborted;
  if (done.rejected) task.status = DoneStatus::rejected;  // no domain can hold its CGAs (CWD-25)
  task.start = done.start;
  task.end = done.end;
  life_.task_run_over(task);
  dispatch();
}

void TaskDispatcher::reset() {
  lists_.reset();
  pending_ = 0;
  ready_.clear();
  table_.clear();
  shares_.reset();
}

}  // namespace heddle::task

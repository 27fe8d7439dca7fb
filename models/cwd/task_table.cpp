#include "cwd/task_table.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::cwd {

TaskTable::TaskTable(std::uint32_t slots, std::uint32_t evicted, Gauge* in_use, bool drains)
    : entries_(slots + evicted), slots_(slots), max_evicted_(evicted), drains_(drains), in_use_(in_use) {
  reset();
}

void TaskTable::reset() {
  waiting_.clear();
  used_.clear();
  free_.clear();
  by_operation_.clear();
  evicted_ = 0;
  arrivals_ = 0;
  for (auto slot = static_cast<std::uint32_t>(entries_.size()); slot-- > 0;) {
    entries_[slot] = {};
    free_.push_back(slot);
  }
}

std::uint32_t TaskTable::insert(const protocol::TaskPacket& task) {
  HEDDLE_CHECK(in_slots() < slots_, "a task arrived without a slot of the task table");
  const std::uint32_t slot = free_.back();
  HEDDLE_CHECK(by_operation_.emplace(task.operation, slot).second, "a task arrived that is in the task table");
  free_.pop_back();
  TaskEntry& entry = entries_[slot];
  entry = {};
  entry.task = task;
  entry.order = task.resumed ? task.progress.order : arrivals_++;
  entry.residence = TaskEntry::Residence::slot;
  used_.push_back(slot);
  show_use();
  switch (task.kind) {
    case protocol::TaskKind::grid:
      entry.total = task.grid.count();
      break;
    case protocol::TaskKind::queue:
      entry.task.grid = {kMaxEntries, 1, 1};
      entry.task.raster = {};  // a row
      return slot;             // its entries are still to come
    case protocol::TaskKind::restore:
      entry.total = task.restored_ctas();
      if (task.cluster.any()) break;
      entry.returns.push_back({task.area, task.id});
      if (task.further != nullptr)
        entry.returns.insert(entry.returns.end(), task.further->begin(), task.further->end());
      entry.placed = entry.total;
      break;
  }
  if (task.resumed) {
    entry.placed = entry.completed = task.progress.next_cta;
    entry.size = task.progress.size;
    entry.start = task.progress.start;
  }
  enter(slot);
  return slot;
}

std::uint32_t TaskTable::find(std::uint32_t operation) const {
  const auto found = by_operation_.find(operation);
  return found == by_operation_.end() ? kNone : found->second;
}

void TaskTable::enter(std::uint32_t slot) {
  const TaskEntry& entry = entries_[slot];
  const auto later = [this, &entry](std::uint32_t other) {
    const TaskEntry& o = entries_[other];
    if (drains_ && o.begun() != entry.begun()) return !o.begun();
    if (o.task.priority != entry.task.priority) return o.task.priority < entry.task.priority;
    return o.task.depth != entry.task.depth ? o.task.depth < entry.task.depth : o.order > entry.order;
  };
  waiting_.insert(std::find_if(waiting_.begin(), waiting_.end(), later), slot);
}

void TaskTable::age(Cycle now, Cycle step) {
  const auto urgency = [&](std::uint32_t slot) {
    const TaskEntry& entry = entries_[slot];
    return entry.task.priority + static_cast<std::int64_t>((now - entry.waits_since) / step);
  };
  std::stable_sort(waiting_.begin(), waiting_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return urgency(a) > urgency(b); });
}

void TaskTable::all_placed(std::uint32_t slot) {
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), slot), waiting_.end());
}

void TaskTable::more(std::uint32_t slot) {
  const bool stays = entries_[slot].evicted() && entries_[slot].returns.empty();
  if (stays || std::find(waiting_.begin(), waiting_.end(), slot) != waiting_.end()) return;
  enter(slot);
}

void TaskTable::make_most_urgent(std::uint32_t slot) {
  entries_[slot].task.priority = std::numeric_limits<std::int32_t>::max();
  const auto at = std::find(waiting_.begin(), waiting_.end(), slot);
  if (at == waiting_.end()) return;
  waiting_.erase(at);
  enter(slot);
}

void TaskTable::evict(std::uint32_t slot) {
  TaskEntry& entry = entries_[slot];
  HEDDLE_CHECK(entry.used() && !entry.evicted() && can_evict(), "a task was evicted that has no slot, or one too many");
  entry.residence = entry.needs_slot() ? TaskEntry::Residence::evicted : TaskEntry::Residence::drains;
  ++evicted_;
  show_use();
  all_placed(slot);
}

void TaskTable::resume(std::uint32_t slot) {
  TaskEntry& entry = entries_[slot];
  HEDDLE_CHECK(entry.evicted(), "a task came back that had not been evicted");
  HEDDLE_CHECK(in_slots() < slots_, "an evicted task came back without a slot of the task table");
  entry.residence = TaskEntry::Residence::slot;
  --evicted_;
  show_use();
  if (entry.placed < entry.total || !entry.returns.empty()) more(slot);
}

void TaskTable::remove(std::uint32_t slot) {
  const TaskEntry& entry = entries_[slot];
  HEDDLE_CHECK(entry.used() && (entry.completed == entry.total || entry.rejected()) && entry.open_cgas == 0,
               "a task left the table before its CTAs had completed");
  give_up(slot);
}

void TaskTable::forget(std::uint32_t slot) {
  HEDDLE_CHECK(entries_[slot].evicted() && entries_[slot].only_in_memory(),
               "an evicted task gave up its number while something of it was on the machine");
  give_up(slot);
}

void TaskTable::give_up(std::uint32_t slot) {
  TaskEntry& entry = entries_[slot];
  if (entry.evicted()) --evicted_;
  entry.residence = TaskEntry::Residence::none;
  by_operation_.erase(entry.task.operation);
  used_.erase(std::find(used_.begin(), used_.end(), slot));
  free_.push_back(slot);
  show_use();
}

void TaskTable::show_use() const {
  if (in_use_ != nullptr) in_use_->set(in_slots());
}

const char* wait_key(WaitReason reason) {
  static constexpr const char* kKeys[kWaitReasons] = {
      "none",   "free_slots", "cga_ids", "cga_slots", "flush", "gpu_barrier", "memory_slot", "credits", "local_memory",
      "behind", "pool",       "evicted", "tpc_mask",  "share", "time_slice",  "preempted",   "claimed", "cooperative"};
  return kKeys[static_cast<std::size_t>(reason)];
}

const char* wait_text(WaitReason reason, bool clusters) {
  if (clusters && reason == WaitReason::free_slots) return "no room: its clusters do not fit into the free slots";
  static constexpr const char* kTexts[kWaitReasons] = {
      "nothing",
      "no room: too few free slots",
      "no CGA id or barrier slot on a GPC with room",
      "no sm_cga_slot on the SMs of a GPC with room",
      "its own CGAs are being flushed",
      "no GPU_CGA barrier",
      "no CGA memory slot",
      "no TPC credit",
      "no local-memory block",
      "behind a task that waits",
      "no place in the pools of a GPC with room",
      "evicted from the task table",
      "no room on the TPCs of its subcontext",
      "its subcontext has its share of SMs, or of their warps",
      "another subcontext has its time slice",
      "CTAs of it that were preempted go on first",
      "free slots are kept for clusters of a more urgent task",
      "a cooperative grid before it has not been placed as a whole",
  };
  return kTexts[static_cast<std::size_t>(reason)];
}

WaitLog::WaitLog(const CwdContext& context, std::uint32_t slots, Text text)
    : context_(context), text_(std::move(text)), waits_(slots) {
  for (std::size_t i = 1; i < kWaitReasons; ++i) {
    const auto reason = static_cast<WaitReason>(i);
    cycles_[i] = &context.observation.stats.counter(
        fmt::format("{}.wait.{}", context.stat_prefix, wait_key(reason)), "task cycles",
        fmt::format("time that tasks with CTAs left waited: {}", wait_text(reason)));
  }
}

void WaitLog::set(std::uint32_t slot, WaitReason reason) {
  Wait& wait = waits_[slot];
  if (wait.reason == reason) return;
  const Cycle now = context_.now();
  if (wait.reason != WaitReason::none && now > wait.since) {
    cycles_[static_cast<std::size_t>(wait.reason)]->add(now - wait.since);
    if (on_end_) on_end_(slot, wait.reason, now - wait.since);
    if (context_.timeline() != nullptr && now > wait.drawn_from) {
      if (wait.track.group == 0) wait.track = context_.detail_track(fmt::format("waits in slot {}", slot), false);
      context_.draw(wait.track, wait.drawn_from, text_(slot, wait.reason));
    }
  }
  wait.reason = reason;
  wait.since = wait.drawn_from = now;
}

void WaitLog::reset() {
  for (Wait& wait : waits_) wait.reason = WaitReason::none;
}

}  // namespace heddle::cwd

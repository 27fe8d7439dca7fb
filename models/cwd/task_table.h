// The CWD's task table and prioritised task table: which grids are being launched, and whose turn it is.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "protocol/task_cwd.h"

namespace heddle::cwd {

// Entries of a queue task, all in all: its CTAs are those of a grid of one dimension (TSK-05).
constexpr std::uint32_t kMaxEntries = 0x7FFF'FFFF;

struct TaskEntry {
  protocol::TaskPacket task;
  std::uint64_t total = 0;   // CTAs
  std::uint64_t placed = 0;  // by sessions that have ended
  std::uint64_t completed = 0;
  std::uint64_t order = 0;  // of arrival
  std::uint64_t start = 0;  // cycle of the first launch packet
  bool used = false;
  bool started = false;
  bool rejected = false;     // nothing of it was or will be placed (CWD-25)
  bool aborted = false;      // by a fault: no more of it is placed
  bool evicted = false;      // it holds no slot, and launches nothing until it has one again (TSK-03)
  bool evict_asked = false;  // it is to be evicted once its session has ended
  bool last = false;         // of a queue task: no more entries will arrive

  // CGAs.
  std::uint32_t size = 0;           // size index of the outermost CGA to try next, or into which one is being split
  std::uint64_t open_cgas = 0;      // GPC_CGAs started whose cga_complete has not arrived
  std::vector<std::uint32_t> room;  // GPC_CGAs that a GPC can still hold, by size of a GPC_CGA and GPC (CWD-20)
  std::map<std::uint64_t, std::uint32_t> size_of;  // of open GPC_CGAs by sequence number, where there are several sizes

  // Since when it waits without having placed anything, and the state of the machine in which it could not.
  bool blocked = false;
  std::uint64_t blocked_since = 0;
  std::uint64_t blocked_version = 0;
  std::uint32_t selection = 0;  // which TPCs it tries next, where its subcontext cannot have all (PRT-10); 0: the first
  std::uint64_t first_failure = 0;  // state of the machine in which the first of several sizes failed; 0: none has
  bool pool_limited = false;        // pools of GPCs hid free slots from it …
  std::uint64_t pool_version = 0;   // … in that state of the pools

  std::vector<bool> missed;  // TPCs that have not followed the grid from its start (CWD-42); empty: none

  bool queue() const { return task.kind == protocol::TaskKind::queue; }
  bool restored() const { return task.kind == protocol::TaskKind::restore; }
  // The operation that its CTAs belong to.
  std::uint32_t runs_as() const { return restored() ? task.runs_as : task.operation; }
  // No CTA of it is left to launch or to come.
  bool all_launched() const { return placed == total && (!queue() || last || aborted); }
  // CTAs of an outermost CGA in that size, 1 in a plain grid.
  std::uint64_t unit_ctas(std::uint32_t size_index) const {
    return task.cluster.any() ? task.cluster.size(size_index).count() : 1;
  }
  // True within a CGA of full size that was split into smaller ones.
  bool split() const { return placed % unit_ctas(0) != 0; }
};

class TaskTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // `evicted`: tasks that can be evicted at a time. An evicted task keeps its number; it only no longer counts as a
  // slot. So numbers go up to slots + evicted.
  explicit TaskTable(std::uint32_t slots, std::uint32_t evicted = 0);

  // Number of the new entry. A slot must be free.
  std::uint32_t insert(const protocol::TaskPacket& task);
  void remove(std::uint32_t slot);
  TaskEntry& at(std::uint32_t slot) { return entries_[slot]; }
  const TaskEntry& at(std::uint32_t slot) const { return entries_[slot]; }
  // The entry of an operation, or kNone.
  std::uint32_t find(std::uint32_t operation) const;

  // The prioritised task table: slots with CTAs left to place, most urgent first: by priority, then by arrival.
  const std::vector<std::uint32_t>& waiting() const { return waiting_; }
  // The entry has no CTA left to place.
  void all_placed(std::uint32_t slot);
  // The entry has CTAs left to place, after it had none.
  void more(std::uint32_t slot);

  bool can_evict() const { return evicted_ < max_evicted_; }
  // The entry gives up its slot, and takes one again.
  void evict(std::uint32_t slot);
  void resume(std::uint32_t slot);

  // All entries, evicted ones as well.
  const std::vector<std::uint32_t>& used() const { return used_; }
  std::uint32_t in_slots() const { return static_cast<std::uint32_t>(used_.size()) - evicted_; }
  std::uint32_t evicted() const { return evicted_; }
  void reset();

 private:
  void enter(std::uint32_t slot);

  std::vector<TaskEntry> entries_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> waiting_;
  std::vector<std::uint32_t> used_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_operation_;  // looked up only
  std::uint32_t slots_;
  std::uint32_t max_evicted_;
  std::uint32_t evicted_ = 0;
  std::uint64_t arrivals_ = 0;
};

}  // namespace heddle::cwd

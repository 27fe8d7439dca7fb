// The CWD's task table and prioritised task table: which grids are being launched, and whose turn it is.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "protocol/task_packet.h"

namespace heddle::cwd {

struct TaskEntry {
  protocol::TaskPacket task;
  std::uint64_t total = 0;   // CTAs
  std::uint64_t placed = 0;  // by sessions that have ended
  std::uint64_t completed = 0;
  std::uint64_t order = 0;  // of arrival
  std::uint64_t start = 0;  // cycle of the first launch packet
  bool used = false;
  bool started = false;
  bool rejected = false;  // nothing of it was or will be placed (CWD-25)
  bool aborted = false;   // a CTA of it faulted: no more is placed

  // CGAs.
  std::uint32_t size = 0;           // size index of the outermost CGA to try next, or into which one is being split
  std::uint64_t open_cgas = 0;      // GPC_CGAs started whose cga_complete has not arrived
  std::vector<std::uint32_t> room;  // GPC_CGAs that a GPC can still hold, by size of a GPC_CGA and GPC (CWD-20)
  std::map<std::uint64_t, std::uint32_t> size_of;  // of open GPC_CGAs by sequence number, where there are several sizes

  // Since when it waits without having placed anything, and the state of the machine in which it could not.
  bool blocked = false;
  std::uint64_t blocked_since = 0;
  std::uint64_t blocked_version = 0;
  std::uint64_t first_failure = 0;  // state of the machine in which the first of several sizes failed; 0: none has

  std::vector<bool> missed;  // TPCs that have not followed the grid from its start (CWD-42); empty: none

  // CTAs of an outermost CGA in that size, 1 in a plain grid.
  std::uint64_t unit_ctas(std::uint32_t size_index) const {
    return task.cluster.any() ? task.cluster.size(size_index).count() : 1;
  }
  // True within a CGA of full size that was split into smaller ones.
  bool split() const { return placed % unit_ctas(0) != 0; }
};

class TaskTable {
 public:
  explicit TaskTable(std::uint32_t slots);

  // Slot of the new entry. The table must not be full.
  std::uint32_t insert(const protocol::TaskPacket& task);
  void remove(std::uint32_t slot);
  TaskEntry& at(std::uint32_t slot) { return entries_[slot]; }
  const TaskEntry& at(std::uint32_t slot) const { return entries_[slot]; }

  // The prioritised task table: slots with CTAs left to place, most urgent first: by priority, then by arrival.
  const std::vector<std::uint32_t>& waiting() const { return waiting_; }
  // The entry has no CTA left to place.
  void all_placed(std::uint32_t slot);
  // All slots in use.
  const std::vector<std::uint32_t>& used() const { return used_; }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(entries_.size()); }
  void reset();

 private:
  std::vector<TaskEntry> entries_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> waiting_;
  std::vector<std::uint32_t> used_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace heddle::cwd

// The CWD's task table: which grids are being launched, and whose turn it is.
#pragma once

#include <cstdint>
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
};

class TaskTable {
 public:
  explicit TaskTable(std::uint32_t slots);

  // Slot of the new entry. The table must not be full.
  std::uint32_t insert(const protocol::TaskPacket& task);
  void remove(std::uint32_t slot);
  TaskEntry& at(std::uint32_t slot) { return entries_[slot]; }
  const TaskEntry& at(std::uint32_t slot) const { return entries_[slot]; }

  // Slots with CTAs left to place, most urgent first: by priority, then by arrival.
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

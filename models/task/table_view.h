// What task management knows of the distributor's task table, and whom it asks to leave for a more urgent task
// (TSK-03).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace heddle::task {

class TableView {
 public:
  using Operation = std::uint32_t;
  using Priority = std::int32_t;

  // A task has been sent.
  void enter(Operation operation, Priority priority);
  // It has ended, or has been evicted. False: it was not there.
  bool leave(Operation operation);
  // It could not be evicted: no other is asked until something has ended.
  void refused(Operation operation);
  // The one to be asked for its slot by a task of `priority`: of those that are less urgent and have not been asked,
  // the least urgent, the youngest among equals. It counts as asked from now on.
  std::optional<Operation> evict_for(Priority priority);

  // Those that have been asked.
  std::size_t leaving() const { return leaving_; }
  std::size_t size() const { return entries_.size(); }
  bool holds(Operation operation) const;
  std::vector<Operation> operations() const;  // the oldest first
  void clear();

 private:
  struct Entry {
    Operation operation = 0;
    Priority priority = 0;
    bool leaving = false;
  };
  std::vector<Entry>::iterator find(Operation operation);

  std::vector<Entry> entries_;  // the oldest first
  std::size_t leaving_ = 0;
  bool stuck_ = false;
};

}  // namespace heddle::task

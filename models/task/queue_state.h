// A queue of a queue task as task management knows it (TSK-05): which tickets have arrived, in whatever order, how many
// of them the distributor has been told of, and when the queue may be closed.
#pragma once

#include <cstdint>
#include <set>

namespace heddle::task {

class QueueState {
 public:
  enum class Close : std::uint8_t { open, trying, closed };

  // The task is in the distributor. `entries`: that are there from the start; tickets begin behind them.
  void begin(std::uint64_t entries, bool held_open);
  bool begun() const { return begun_; }
  void appended(std::uint64_t ticket);
  // Entries that have joined those without a gap since the last call. 0 before begin().
  std::uint64_t take_grown();
  // All of the entries so far have completed.
  void idle(std::uint64_t completed);
  void release();  // its close has come, which may be before begin()
  // Nothing of it runs or is known to come: the number of tickets with which it may be closed. After true, tried() is
  // to follow.
  bool may_close() const;
  std::uint64_t start_close();
  // False: somebody has a ticket above; its entry is on its way.
  void tried(bool closed);

  std::uint64_t entries() const { return grown_; }
  bool held_open() const { return held_; }
  Close close() const { return close_; }
  // Tickets that have arrived ahead of others.
  std::size_t early() const { return early_.size(); }

 private:
  std::uint64_t grown_ = 0;   // known to the distributor
  std::uint64_t prefix_ = 0;  // arrived without a gap
  std::uint64_t tried_ = 0;   // with how many it was tried to close
  std::set<std::uint64_t> early_;
  bool begun_ = false;
  bool held_ = false;
  bool released_ = false;
  bool idle_ = false;
  Close close_ = Close::open;
};

}  // namespace heddle::task

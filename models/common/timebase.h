// Time and events as a core sees them: cycles, and things that happen in them. SystemC enters with Domain, which is the
// time base of a simulation; a core that is tested alone runs on a PlainTimebase.
#pragma once

#include <cstdint>
#include <vector>

#include "common/cycle.h"
#include "common/event_queue.h"
#include "common/observation.h"
#include "common/waits.h"

namespace heddle {

// How time is spent. Both modes do the same work and leave the same results.
enum class TimingMode {
  at,  // approximately timed: every link and decision costs its cycles
  lt,  // loosely timed, for virtual platforms: links and decisions are free, only work takes time
};

// State that a reset returns to what it was after elaboration.
class Resettable {
 public:
  virtual void reset() = 0;

 protected:
  ~Resettable() = default;
};

// Something that knows whether it has work left.
class IdleSource {
 public:
  // Called when a machine has nothing left to do: throws CheckFailed if something is still accounted for.
  virtual void check_idle() = 0;

 protected:
  ~IdleSource() = default;
};

class Timebase {
 public:
  Timebase(const Timebase&) = delete;
  Timebase& operator=(const Timebase&) = delete;

  TimingMode mode() const { return mode_; }
  Observation& observation() { return observation_; }

  // The cycle that is being run or, outside the queue, the one that its owner says it is.
  Cycle now() const { return draining_ ? queue_.now() : outside_now(); }
  // When a cycle begins.
  virtual Picoseconds time_of(Cycle cycle) const = 0;
  // Cycles of a link or a decision: what `at` spends and `lt` does not.
  Cycle cost(Cycle cycles) const { return mode_ == TimingMode::at ? cycles : 0; }

  void schedule(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument = 0) {
    if (draining_) {
      queue_.push(when, handler, kind, argument);
    } else {
      schedule_from_outside(when, handler, kind, argument);
    }
  }
  void schedule_in(Cycle cycles, EventHandler& handler, std::uint32_t kind, std::uint64_t argument = 0) {
    schedule(now() + cycles, handler, kind, argument);
  }

  void add_resettable(Resettable& item) { resettables_.push_back(&item); }
  void add_wait_source(const WaitSource& source) { wait_sources_.push_back(&source); }
  void collect_waits(WaitGraph& graph) const {
    for (const WaitSource* source : wait_sources_) source->collect_waits(graph);
  }

  void add_idle_source(IdleSource& source) { idle_sources_.push_back(&source); }
  void check_idle() {
    for (IdleSource* source : idle_sources_) source->check_idle();
  }

  bool idle() const { return queue_.empty(); }
  std::uint64_t events_executed() const { return queue_.executed(); }

 protected:
  Timebase(TimingMode mode, Observation& observation) : mode_(mode), observation_(observation) {}
  ~Timebase() = default;

  virtual Cycle outside_now() const = 0;
  virtual void schedule_from_outside(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument) = 0;
  void reset_items() {
    for (Resettable* item : resettables_) item->reset();
  }

  EventQueue queue_;
  bool draining_ = false;  // events of queue_ are being run

 private:
  TimingMode mode_;
  Observation& observation_;
  std::vector<Resettable*> resettables_;
  std::vector<const WaitSource*> wait_sources_;
  std::vector<IdleSource*> idle_sources_;
};

}  // namespace heddle

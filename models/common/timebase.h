// Time and events as a core sees them: cycles, and things that happen in them. SystemC enters with Domain, which is the
// time base of a simulation; a core that is tested alone runs on a PlainTimebase.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/cycle.h"
#include "common/event_queue.h"
#include "common/observation.h"
#include "common/waits.h"

namespace heddle {

// How time is spent. All modes do the same work and leave the same results.
enum class TimingMode {
  at,    // approximately timed: every link and decision costs its cycles
  fast,  // the same, but an access to memory is one call, which reserves what it needs on its way (ReservedLink)
  lt,    // loosely timed, for virtual platforms: links and decisions are free, only work takes time
};

// Links and decisions take their cycles.
constexpr bool has_costs(TimingMode mode) { return mode != TimingMode::lt; }
// Accesses to memory are calls, done when they return.
constexpr bool has_calls(TimingMode mode) { return mode != TimingMode::at; }

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
  // Cycles of a link or a decision.
  Cycle cost(Cycle cycles) const { return has_costs(mode_) ? cycles : 0; }

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

  // Takes an event back that was scheduled like that; false: there is none. From inside an event only: from outside,
  // the SystemC kernel would still wake the domain at that time.
  bool cancel(Cycle when, const EventHandler& handler, std::uint32_t kind, std::uint64_t argument = 0) {
    HEDDLE_CHECK(draining_, "an event is taken back from outside the queue");
    return queue_.cancel(when, handler, kind, argument);
  }

  void add_resettable(Resettable& item) { resettables_.push_back(&item); }
  void add_wait_source(const WaitSource& source) { wait_sources_.push_back(&source); }
  void collect_waits(WaitGraph& graph) const {
    for (const WaitSource* source : wait_sources_) source->collect_waits(graph);
  }

  void add_run_source(RunSource& source) { run_sources_.push_back(&source); }
  void look(bool closely) {
    for (RunSource* source : run_sources_) source->look(closely);
  }
  // Of all of them: that of which most comes.
  Course course() const {
    Course most = Course::round;
    for (const RunSource* source : run_sources_) most = std::max(most, source->course());
    return most;
  }

  void add_idle_source(IdleSource& source) { idle_sources_.push_back(&source); }
  void check_idle() {
    for (IdleSource* source : idle_sources_) source->check_idle();
  }

  bool idle() const { return queue_.empty(); }
  std::uint64_t events_executed() const { return queue_.executed(); }
  // What comes at a time that was fixed long before: see EventQueue.
  std::uint64_t far_entered() const { return queue_.far_entered(); }
  bool far_open(std::uint64_t count) const { return queue_.far_open(count); }

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
  std::vector<RunSource*> run_sources_;
  std::vector<IdleSource*> idle_sources_;
};

// A time base without SystemC: its owner runs its events.
class PlainTimebase final : public Timebase {
 public:
  static constexpr Picoseconds kPeriod = 1000;

  PlainTimebase(TimingMode mode, Observation& observation) : Timebase(mode, observation) {}
  Picoseconds time_of(Cycle cycle) const override { return cycle * kPeriod; }

  // Runs all events up to `last`, which is now() afterwards.
  void run_until(Cycle last) {
    while (queue_.next() != kNever && queue_.next() <= last) run_cycle();
    outside_ = std::max(outside_, last);
  }
  // Runs until nothing is left to do.
  void run() {
    while (!queue_.empty()) run_cycle();
    outside_ = std::max(outside_, queue_.now());
  }
  // Drops every event, resets everything that has asked for it, and begins again at cycle 0.
  void reset() {
    HEDDLE_CHECK(!draining_, "a time base was reset from inside one of its own events");
    queue_.clear();
    outside_ = 0;
    reset_items();
  }

 private:
  void run_cycle() {
    struct Leave {
      bool& draining;
      ~Leave() { draining = false; }
    } leave{draining_};
    draining_ = true;
    queue_.run_cycle();
  }
  Cycle outside_now() const override { return std::max(outside_, queue_.now()); }
  void schedule_from_outside(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument) override {
    queue_.push(when, handler, kind, argument, true);
  }

  Cycle outside_ = 0;
};

}  // namespace heddle

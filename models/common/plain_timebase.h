// A time base without SystemC: its owner runs its events.
#pragma once

#include <algorithm>

#include "common/timebase.h"

namespace heddle {

class PlainTimebase final : public Timebase {
 public:
  static constexpr Picoseconds kPeriod = 1000;

  PlainTimebase(TimingMode mode, Observation& observation) : Timebase(mode, observation) {}
  Picoseconds time_of(Cycle cycle) const override { return cycle * kPeriod; }

  // Runs all events up to `last`, which is now() afterwards.
  void run_until(Cycle last) {
    while (queue_.next() != EventQueue::kNever && queue_.next() <= last) run_cycle();
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

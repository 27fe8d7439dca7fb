// One clock domain of one device: its clock, its events, and what its blocks share in order to be observed.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <systemc>

#include "common/cycle.h"
#include "common/error.h"
#include "common/timebase.h"

namespace heddle {

// Converts between simulated time and picoseconds, exactly as far as the simulation's resolution is 1 ps or coarser.
Picoseconds picoseconds(const sc_core::sc_time& time);
sc_core::sc_time sc_time_of(Picoseconds time);

// A clock that nobody toggles: a period and an origin. The period is a whole number of the simulation's time
// resolution, so that conversions are exact: 1.755 GHz becomes 570 ps (0.03 % slow) at the usual 1 ps.
//
// The period can change with the beginning of a cycle. Cycles keep their numbers, and those before keep their times:
// what was, and is told in cycles, is converted with the period that held then. period() and the conversions of
// durations are those of now.
class Clock {
 public:
  using Ticks = sc_core::sc_time::value_type;

  explicit Clock(double gigahertz) : period_(ticks_for(gigahertz)), first_period_(period_) {}

  sc_core::sc_time period() const { return sc_core::sc_time::from_value(period_); }
  double gigahertz() const { return 1e-9 / period().to_seconds(); }

  // Cycle 0 begins at the origin: the start of simulation or the last reset. The period is again the first one.
  void set_origin(const sc_core::sc_time& origin) {
    before_.clear();
    period_ = first_period_;
    base_ = {0, origin.value()};
  }
  // From the beginning of `cycle` on, which does not lie before the last change.
  void change(double gigahertz, Cycle cycle) {
    HEDDLE_CHECK(cycle >= base_.cycle, "a clock was changed before its last change");
    const Ticks period = ticks_for(gigahertz);
    if (period == period_) return;
    const Base next{cycle, ticks_of(cycle)};
    if (cycle > base_.cycle) before_.push_back({base_, period_});
    base_ = next;
    period_ = period;
  }
  sc_core::sc_time time_of(Cycle cycle) const { return sc_core::sc_time::from_value(ticks_of(cycle)); }
  // The first cycle that begins at or after `time`.
  Cycle cycle_at(const sc_core::sc_time& time) const {
    const Ticks ticks = time.value();
    if (ticks <= base_.ticks) return before_.empty() || ticks == base_.ticks ? base_.cycle : cycle_before(ticks);
    return base_.cycle + (ticks - base_.ticks + period_ - 1) / period_;
  }
  Ticks ticks_of(Cycle cycle) const {
    return cycle >= base_.cycle ? base_.ticks + (cycle - base_.cycle) * period_ : ticks_before(cycle);
  }

  // Cycles that cover a duration in nanoseconds, rounded to the nearest.
  Cycle cycles_for_ns(double ns) const {
    return ns <= 0 ? 0 : static_cast<Cycle>(std::llround(ns * 1e-9 / period().to_seconds()));
  }
  double ns_for_cycles(double cycles) const { return cycles * period().to_seconds() * 1e9; }

 private:
  // A cycle, and when it begins.
  struct Base {
    Cycle cycle = 0;
    Ticks ticks = 0;
  };
  struct Stretch {
    Base from;
    Ticks period = 1;
  };
  static Ticks ticks_for(double gigahertz);
  Ticks ticks_before(Cycle cycle) const;
  Cycle cycle_before(Ticks ticks) const;

  Ticks period_;
  Ticks first_period_;
  Base base_;                    // since when period_ holds
  std::vector<Stretch> before_;  // in order of time
};

// Somebody who is to be called at cycles that he names himself: before the first event that is due then or later, so
// that a machine that rests is not woken for it, however long it rests.
class Ticker {
 public:
  // No event has been run in cycle `tick` or since; that of cycle `next`, at `tick` or later, is about to be. Returns
  // the cycle of the next call, later than `next`.
  virtual Cycle on_tick(Cycle tick, Cycle next) = 0;

 protected:
  ~Ticker() = default;
};

// All blocks of a domain enter their events into its one queue, and its one SC_METHOD runs them. While no other process
// of the simulation has anything to do, the method goes on to later cycles instead of returning to the SystemC kernel:
// an event then costs a few nanoseconds. It never passes the time at which somebody else will run, and never runs more
// than `run_ahead` cycles in front of sc_time_stamp().
class Domain : public sc_core::sc_module, public Timebase, private CheckContext {
 public:
  // clock_ghz > 0; run_ahead in cycles, 0: return to the kernel after every cycle.
  Domain(const sc_core::sc_module_name& name, double clock_ghz, TimingMode mode, Cycle run_ahead,
         Observation& observation);
  ~Domain() override;

  const Clock& clock() const { return clock_; }
  Picoseconds time_of(Cycle cycle) const override { return picoseconds(clock_.time_of(cycle)); }

  // now(): the cycle that is being run or, outside the queue, the first that has not begun before sc_time_stamp(). Code
  // between two calls of sc_start can find the domain ahead, by run_ahead cycles at most: then the domain's time
  // counts.

  // Annotated delays at sockets: from a cycle of this domain, and to one.
  sc_core::sc_time delay_until(Cycle when) const {
    const Clock::Ticks target = clock_.ticks_of(when);
    const Clock::Ticks stamp = draining_ ? stamp_ : sc_core::sc_time_stamp().value();
    return sc_core::sc_time::from_value(target > stamp ? target - stamp : 0);
  }
  Cycle cycle_after(const sc_core::sc_time& delay) const { return clock_.cycle_at(sc_core::sc_time_stamp() + delay); }

  // For sockets: the call with an annotated delay that is in progress, if it is one of this domain, and the cycle that
  // the delay stands for. It saves the receiver converting the delay back, and counts only while nobody between the two
  // has changed the delay.
  struct CallHint {
    const void* call = nullptr;  // what it carries; null: no call
    Cycle arrival = 0;
    sc_core::sc_time delay;
    bool fits(const void* carried, const sc_core::sc_time& annotated) const {
      return call == carried && delay == annotated;
    }
  };
  const CallHint& call_hint() const { return call_hint_; }

  // The first call is that of cycle `first` after each reset. It changes no order of events.
  void set_ticker(Ticker& ticker, Cycle first) {
    ticker_ = &ticker;
    first_tick_ = next_tick_ = first;
  }
  // For a ticker, from inside its call: from the tick on, or from now if that has gone by while the machine rested.
  // What has been entered for a cycle stays there: work that is under way takes as many cycles as it would have.
  void change_clock(double gigahertz, Cycle tick);

  // Drops every event, resets every block and link, and lets cycle 0 begin now. Not to be called from inside an event.
  void reset();
  // Simulated time of the last event that was run.
  sc_core::sc_time last_event_time() const { return clock_.time_of(queue_.now()); }
  // Times the SystemC kernel was entered on behalf of this domain.
  std::uint64_t wakeups() const { return wakeups_; }

 private:
  friend class HintedCall;

  void drain();
  void schedule_from_outside(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument) override;
  void wake_at(Cycle when);
  Cycle outside_now() const override {
    return std::max<Cycle>(clock_.cycle_at(sc_core::sc_time_stamp()), queue_.now());
  }
  std::string describe() const override;

  Clock clock_;
  Cycle run_ahead_;
  sc_core::sc_event wake_;
  Cycle armed_ = kNever;
  Clock::Ticks stamp_ = 0;  // while draining: sc_time_stamp()
  std::uint64_t wakeups_ = 0;
  CallHint call_hint_;
  Ticker* ticker_ = nullptr;
  Cycle first_tick_ = kNever;
  Cycle next_tick_ = kNever;
};

// A call of the domain's, as long as it lives.
class HintedCall {
 public:
  HintedCall(Domain& domain, const void* call, Cycle arrival)
      : delay(domain.delay_until(arrival)), hint_(domain.call_hint_) {
    hint_ = {call, arrival, delay};
  }
  ~HintedCall() { hint_.call = nullptr; }
  HintedCall(const HintedCall&) = delete;
  HintedCall& operator=(const HintedCall&) = delete;

  sc_core::sc_time delay;

 private:
  Domain::CallHint& hint_;
};

}  // namespace heddle

// One clock domain of one device: its clock, its events, and what its blocks share in order to be observed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <systemc>

#include "common/clock.h"
#include "common/error.h"
#include "common/timebase.h"

namespace heddle {

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
  Cycle armed_ = EventQueue::kNever;
  Clock::Ticks stamp_ = 0;  // while draining: sc_time_stamp()
  std::uint64_t wakeups_ = 0;
  CallHint call_hint_;
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

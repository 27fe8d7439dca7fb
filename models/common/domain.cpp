#include "common/domain.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle {
namespace {

// The resolution is a power of ten seconds: that many picoseconds per tick, or that many ticks per picosecond.
struct Resolution {
  std::uint64_t picos_per_tick = 1;
  std::uint64_t ticks_per_pico = 1;
};
Resolution resolution() {
  const double seconds = sc_core::sc_get_time_resolution().to_seconds();
  if (seconds >= 0.5e-12) return {static_cast<std::uint64_t>(std::llround(seconds / 1e-12)), 1};
  return {1, static_cast<std::uint64_t>(std::llround(1e-12 / seconds))};
}

}  // namespace

Picoseconds picoseconds(const sc_core::sc_time& time) {
  const Resolution its = resolution();
  return time.value() * its.picos_per_tick / its.ticks_per_pico;
}

sc_core::sc_time sc_time_of(Picoseconds time) {
  const Resolution its = resolution();
  return sc_core::sc_time::from_value(time * its.ticks_per_pico / its.picos_per_tick);
}

Clock::Ticks Clock::ticks_for(double gigahertz) {
  const double tick_seconds = sc_core::sc_get_time_resolution().to_seconds();
  const double ticks = 1e-9 / gigahertz / tick_seconds;
  // Coarse resolutions are a platform's right: whoever owns the clock tells what it has become. Four times as slow as
  // it was meant is nobody's wish.
  if (!(ticks >= 0.25)) {
    throw InputError(
        "the simulation's time resolution is too coarse for a clock of " + std::to_string(gigahertz) + " GHz",
        "set a resolution of 1 ps (SystemC's default) before elaboration");
  }
  return std::max<Ticks>(1, static_cast<Ticks>(std::llround(ticks)));
}

Clock::Ticks Clock::ticks_before(Cycle cycle) const {
  const auto behind = std::upper_bound(before_.begin(), before_.end(), cycle,
                                       [](Cycle value, const Stretch& item) { return value < item.from.cycle; });
  const Stretch& in = *(behind - 1);  // the first begins with cycle 0
  return in.from.ticks + (cycle - in.from.cycle) * in.period;
}

Cycle Clock::cycle_before(Ticks ticks) const {
  const auto behind = std::upper_bound(before_.begin(), before_.end(), ticks,
                                       [](Ticks value, const Stretch& item) { return value < item.from.ticks; });
  if (behind == before_.begin()) return 0;
  const Stretch& in = *(behind - 1);
  return in.from.cycle + (ticks - in.from.ticks + in.period - 1) / in.period;
}

Domain::Domain(const sc_core::sc_module_name& name, double clock_ghz, TimingMode mode, Cycle run_ahead,
               Observation& observation)
    : sc_core::sc_module(name), Timebase(mode, observation), clock_(clock_ghz), run_ahead_(run_ahead) {
  SC_HAS_PROCESS(Domain);
  SC_METHOD(drain);
  sensitive << wake_;
  dont_initialize();
}

Domain::~Domain() = default;

void Domain::drain() {
  armed_ = kNever;
  ++wakeups_;
  draining_ = true;
  struct Leave {
    Domain& domain;
    const CheckContext* previous;
    ~Leave() {
      domain.draining_ = false;
      exchange_check_context(previous);
    }
  } leave{*this, exchange_check_context(this)};

  const sc_core::sc_time stamp = sc_core::sc_time_stamp();
  stamp_ = stamp.value();
  const Cycle first = clock_.cycle_at(stamp);
  for (Cycle cycle = queue_.next(); cycle != kNever; cycle = queue_.next()) {
    const sc_core::sc_time begin = clock_.time_of(cycle);
    if (begin > stamp) {
      const bool too_far = cycle - first > run_ahead_;
      if (too_far || begin - stamp >= sc_core::sc_time_to_pending_activity(sc_core::sc_get_curr_simcontext())) {
        wake_at(cycle);
        break;
      }
    }
    if (cycle >= next_tick_) {
      next_tick_ = ticker_->on_tick(next_tick_, cycle);
      HEDDLE_CHECK(next_tick_ > cycle, "a ticker asked for a cycle that has begun");
      continue;  // the cycle may begin later now
    }
    try {
      queue_.run_cycle();
    } catch (...) {
      observation().failure = std::current_exception();
      throw;
    }
  }
  // With nothing left, simulated time must still catch up: whoever comes next from outside would be in the past.
  if (queue_.empty() && clock_.time_of(queue_.now()) > stamp) wake_at(queue_.now());
}

void Domain::schedule_from_outside(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument) {
  if (when < queue_.now()) {
    HEDDLE_CHECK(queue_.now() - when <= run_ahead_ + 1, "an event was entered in the past");
    when = queue_.now();
  }
  queue_.push(when, handler, kind, argument, true);
  wake_at(when);
}

void Domain::change_clock(double gigahertz, Cycle tick) {
  HEDDLE_CHECK(draining_, "a clock was changed by somebody who was not called for it");
  clock_.change(gigahertz, std::max(tick, clock_.cycle_at(sc_core::sc_time::from_value(stamp_))));
}

void Domain::wake_at(Cycle when) {
  if (when >= armed_) return;
  armed_ = when;
  wake_.notify(delay_until(when));  // an earlier notification overrides a later one
}

void Domain::reset() {
  HEDDLE_CHECK(!draining_, "a domain was reset from inside one of its own events");
  queue_.clear();
  wake_.cancel();
  armed_ = kNever;
  clock_.set_origin(sc_core::sc_time_stamp());
  next_tick_ = first_tick_;
  reset_items();
}

std::string Domain::describe() const {
  const char* where = queue_.running() != nullptr ? queue_.running()->handler_name() : sc_core::sc_module::name();
  return fmt::format("{} at {} (cycle {})", where, clock_.time_of(queue_.now()).to_string(), queue_.now());
}

}  // namespace heddle

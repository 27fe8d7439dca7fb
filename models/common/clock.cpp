#include "common/clock.h"

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

}  // namespace heddle

// What the SystemC kernel itself can do on this machine, now: the yardstick of all benches.
#pragma once

#include <chrono>
#include <cstdint>

#include <systemc>

namespace heddle::bench {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// One method, one event, one notification per nanosecond.
class Ticker : public sc_core::sc_module {
 public:
  SC_HAS_PROCESS(Ticker);
  Ticker(const sc_core::sc_module_name& name, std::uint64_t count) : sc_core::sc_module(name), left_(count) {
    SC_METHOD(tick);
    sensitive << event_;
  }

 private:
  void tick() {
    if (left_-- > 0) event_.notify(sc_core::sc_time(1, sc_core::SC_NS));
  }
  sc_core::sc_event event_;
  std::uint64_t left_;
};

inline double bare_events_per_second(std::uint64_t count) {
  sc_core::sc_simcontext* const previous = sc_core::sc_curr_simcontext;
  sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = new sc_core::sc_simcontext;
  double seconds = 0;
  {
    Ticker ticker("ticker", count);
    const auto begin = std::chrono::steady_clock::now();
    sc_core::sc_start();
    seconds = seconds_since(begin);
  }
  delete sc_core::sc_curr_simcontext;
  sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = previous;
  return static_cast<double>(count) / seconds;
}

}  // namespace heddle::bench

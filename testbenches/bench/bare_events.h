// What the SystemC kernel itself can do on this machine, now: the yardstick of all benches. Times are CPU times of this
// process: what else the machine does at the same time changes them little, and wall clock would double them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <vector>

#include <systemc>

#include "support/sim_fixture.h"

namespace heddle::bench {

// CPU time of this process since it began.
inline double cpu_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
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
  const test::SimFixture sim;
  Ticker ticker("ticker", count);
  const double begin = cpu_seconds();
  sc_core::sc_start();
  return static_cast<double>(count) / (cpu_seconds() - begin);
}

// The bare event, measured again before and after everything that it is compared with: a machine whose speed changes
// changes both.
class Yardstick {
 public:
  // Runs `work`, which returns what it did per second of CPU time, `rounds` times between measurements of the bare
  // event, and gives the round whose ratio to its neighbours is the median, or the best.
  struct Round {
    double rate = 0;
    double bare = 0;  // mean of before and after
    double ratio() const { return rate / bare; }
  };
  template <class Work>
  Round measure(std::uint32_t rounds, Work&& work) {
    return all(rounds, work)[rounds / 2];
  }
  template <class Work>
  Round best(std::uint32_t rounds, Work&& work) {
    return all(rounds, work).back();
  }

 private:
  template <class Work>
  std::vector<Round> all(std::uint32_t rounds, Work& work) {
    std::vector<Round> all;
    double before = bare_events_per_second(kEvents);
    for (std::uint32_t i = 0; i < rounds; ++i) {
      const double rate = work();
      const double after = bare_events_per_second(kEvents);
      all.push_back({rate, (before + after) / 2});
      before = after;
    }
    std::sort(all.begin(), all.end(), [](const Round& a, const Round& b) { return a.ratio() < b.ratio(); });
    return all;
  }

  static constexpr std::uint64_t kEvents = 1'000'000;
};

}  // namespace heddle::bench

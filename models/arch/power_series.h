// Power and clock over time in a bounded amount of memory.
#pragma once

#include <cstddef>
#include <vector>

#include "common/cycle.h"

namespace heddle {

class PowerSeries {
 public:
  static constexpr std::size_t kMost = 2048;

  // Of a stretch of time: energy, and cycles as a sum, so that two stretches make one.
  struct Stretch {
    Picoseconds begin = 0;
    Picoseconds end = 0;
    double joules = 0;
    double cycles = 0;
    double seconds() const { return static_cast<double>(end - begin) * 1e-12; }
    double watts() const { return joules / seconds(); }
    double gigahertz() const { return cycles * 1e-9 / seconds(); }
  };

  // Stretches follow each other. None is empty.
  void add(const Stretch& stretch) {
    stretches_.push_back(stretch);
    if (stretches_.size() == kMost) halve();
  }
  void clear() { stretches_.clear(); }
  const std::vector<Stretch>& stretches() const { return stretches_; }

 private:
  void halve() {
    for (std::size_t i = 0; i < kMost / 2; ++i) {
      const Stretch& first = stretches_[2 * i];
      const Stretch& second = stretches_[2 * i + 1];
      stretches_[i] = {first.begin, second.end, first.joules + second.joules, first.cycles + second.cycles};
    }
    stretches_.resize(kMost / 2);
  }

  std::vector<Stretch> stretches_;
};

}  // namespace heddle

// Random numbers for tests: the same from the same seed on every platform. Tests CAPTURE the seed of each round.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "arch/topology.h"
#include "support/seed.h"

namespace heddle::test {

// Seeds of that many rounds: 1, 2, … or, with HEDDLE_TEST_SEED, from there on.
inline std::vector<std::uint64_t> seeds(std::uint64_t count) {
  const std::uint64_t first = std::getenv("HEDDLE_TEST_SEED") == nullptr ? 1 : seed();
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < count; ++i) result.push_back(first + i);
  return result;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed * 0x9E37'79B9'7F4A'7C15U + 1) {}

  std::uint64_t next() { return engine_(); }
  // 0 … n - 1
  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(engine_() % n); }
  // both included
  std::uint32_t between(std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(low + engine_() % (high - low + 1));
  }
  bool chance(std::uint32_t percent) { return below(100) < percent; }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }
  std::vector<std::uint32_t> permutation(std::uint32_t n) {
    std::vector<std::uint32_t> result(n);
    for (std::uint32_t i = 0; i < n; ++i) result[i] = i;
    shuffle(result);
    return result;
  }

  // A floor-swept machine: every level uneven, TPCs of 1 to 3 SMs.
  arch::Shape shape(std::uint32_t max_gpcs, std::uint32_t max_cpcs = 3, std::uint32_t max_tpcs = 3) {
    arch::Shape result;
    result.gpcs.resize(between(1, max_gpcs));
    for (auto& gpc : result.gpcs) {
      gpc.resize(between(1, max_cpcs));
      for (auto& cpc : gpc) {
        cpc.resize(between(1, max_tpcs));
        for (auto& tpc : cpc) tpc = chance(70) ? 2 : between(1, 3);
      }
    }
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace heddle::test

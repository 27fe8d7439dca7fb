// Random numbers for tests: the same from the same seed on every platform, as the distributions of <random> are not.
// The seed is HEDDLE_TEST_SEED, or the same one every time; tests CAPTURE that of each round, or begin with
// HEDDLE_RANDOM.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "arch/topology.h"

namespace heddle::test {

inline std::uint64_t seed() {
  const char* text = std::getenv("HEDDLE_TEST_SEED");
  return text == nullptr ? 20'240'607 : std::strtoull(text, nullptr, 0);
}

// Seeds of that many rounds: 1, 2, … or, with HEDDLE_TEST_SEED, from there on.
inline std::vector<std::uint64_t> seeds(std::uint64_t count) {
  const std::uint64_t first = std::getenv("HEDDLE_TEST_SEED") == nullptr ? 1 : seed();
  std::vector<std::uint64_t> result;
  for (std::uint64_t i = 0; i < count; ++i) result.push_back(first + i);
  return result;
}

// Tests that take long do less, unless they are asked for all.
inline bool long_tests() { return std::getenv("HEDDLE_LONG_TESTS") != nullptr; }

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
  std::uint64_t between64(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t span = high - low + 1;  // 0: all 64 bits
    return span == 0 ? engine_() : low + engine_() % span;
  }
  bool chance(std::uint32_t percent) { return below(100) < percent; }
  bool one_in(std::uint64_t n) { return engine_() % n == 0; }
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

// A hash for decisions that must not depend on the order in which they are asked for.
inline std::uint64_t scramble(std::uint64_t value) {
  value += 0x9E37'79B9'7F4A'7C15U;
  value = (value ^ value >> 30) * 0xBF58'476D'1CE4'E5B9U;
  value = (value ^ value >> 27) * 0x94D0'49BB'1331'11EBU;
  return value ^ value >> 31;
}

}  // namespace heddle::test

// Declares the random numbers of a case and notes their seed for its messages.
#define HEDDLE_RANDOM(name)                                    \
  const std::uint64_t name##_seed = ::heddle::test::seed();    \
  INFO("HEDDLE_TEST_SEED=" << name##_seed << " repeats this"); \
  ::heddle::test::Random name(name##_seed)

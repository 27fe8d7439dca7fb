// The seed of random tests: HEDDLE_TEST_SEED, or the same one every time. A case that fails prints it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

#include <catch2/catch.hpp>

namespace heddle::test {

inline std::uint64_t seed() {
  const char* text = std::getenv("HEDDLE_TEST_SEED");
  return text == nullptr ? 20'240'607 : std::strtoull(text, nullptr, 0);
}

// Drawn with care for portability: the distributions of <random> differ between libraries.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() { return engine_(); }
  // low … high, both included
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t span = high - low + 1;  // 0: all 64 bits
    return span == 0 ? engine_() : low + engine_() % span;
  }
  std::uint32_t small(std::uint32_t low, std::uint32_t high) { return static_cast<std::uint32_t>(between(low, high)); }
  bool one_in(std::uint64_t n) { return engine_() % n == 0; }

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

// Declares the dice of a case and notes their seed for its messages.
#define HEDDLE_DICE(name)                                      \
  const std::uint64_t name##_seed = ::heddle::test::seed();    \
  INFO("HEDDLE_TEST_SEED=" << name##_seed << " repeats this"); \
  ::heddle::test::Dice name(name##_seed)

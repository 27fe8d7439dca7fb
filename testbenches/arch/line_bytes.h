// Bytes of a line as numbers, for tests of what is done to them.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "arch/tensor_data.h"
#include "support/random.h"

namespace heddle::test {

using Bytes = std::vector<std::uint8_t>;

inline std::uint64_t word_at(const Bytes& bytes, std::size_t at, std::uint32_t width) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 0; i < width; ++i) value |= std::uint64_t{bytes[at + i]} << (8 * i);
  return value;
}

inline void set_word(Bytes& bytes, std::size_t at, std::uint32_t width, std::uint64_t value) {
  for (std::uint32_t i = 0; i < width; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

inline double double_of(std::uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint64_t bits_of_double(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline arch::ByteMask draw_mask(Random& dice) {
  switch (dice.between(0, 3)) {
    case 0:
      return arch::ByteMask::first(128);
    case 1:
      return {};
    case 2: {
      const std::uint32_t from = dice.between(0, 128);
      return arch::ByteMask::range(from, dice.between(from, 128));
    }
    default:
      return {dice.next(), dice.next()};
  }
}

}  // namespace heddle::test

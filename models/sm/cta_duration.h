// How long a CTA runs: the same in every run of one seed, whatever the order of events.
#pragma once

#include <cstdint>

#include "arch/kernel_record.h"

namespace heddle::sm {

// Uniform over [duration.min, duration.max], from seed, operation and CTA alone.
inline std::uint64_t draw_cycles(const arch::CtaDuration& duration, std::uint64_t seed, std::uint32_t operation,
                                 std::uint64_t cta) {
  if (duration.max <= duration.min) return duration.min;
  // SplitMix64's finaliser over the three numbers.
  std::uint64_t z = (seed + 1) * 0x9E37'79B9'7F4A'7C15U + std::uint64_t{operation} * 0xD1B5'4A32'D192'ED03U + cta;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9U;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBU;
  z ^= z >> 31;
  const std::uint64_t range = duration.max - duration.min + 1;
  return duration.min + (range == 0 ? z : z % range);
}

}  // namespace heddle::sm

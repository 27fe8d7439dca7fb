// How a function of numbers becomes one of warps: for every lane that takes part, its sources are read from their
// planes and its result is written to the destination's. Loops over all lanes are written for the compiler to
// vectorise.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "ptx/lane_alu.h"

namespace heddle::ptx {

constexpr std::uint32_t kLanes = arch::kWarpLanes;
constexpr arch::LaneMask kAllLanes = ~arch::LaneMask{0};

// Bits of f16 and bf16, and of 128-bit values.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};
struct Wide {
  std::uint64_t low;
  std::uint64_t high;
};

template <class To, class From>
inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class T>
inline T read_lane(const std::uint32_t* plane, std::uint32_t lane) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Brain>) {
    return T{static_cast<std::uint16_t>(plane[lane])};
  } else if constexpr (std::is_same_v<T, Wide>) {
    return {plane[lane] | std::uint64_t{plane[kLanes + lane]} << 32,
            plane[2 * kLanes + lane] | std::uint64_t{plane[3 * kLanes + lane]} << 32};
  } else if constexpr (sizeof(T) == 8) {
    return bit_cast<T>(plane[lane] | std::uint64_t{plane[kLanes + lane]} << 32);
  } else if constexpr (sizeof(T) == 4) {
    return bit_cast<T>(plane[lane]);
  } else {
    return static_cast<T>(plane[lane]);
  }
}

template <class T>
inline void write_lane(std::uint32_t* plane, std::uint32_t lane, T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Brain>) {
    plane[lane] = value.bits;
  } else if constexpr (std::is_same_v<T, Wide>) {
    plane[lane] = static_cast<std::uint32_t>(value.low);
    plane[kLanes + lane] = static_cast<std::uint32_t>(value.low >> 32);
    plane[2 * kLanes + lane] = static_cast<std::uint32_t>(value.high);
    plane[3 * kLanes + lane] = static_cast<std::uint32_t>(value.high >> 32);
  } else if constexpr (sizeof(T) == 8) {
    const auto bits = bit_cast<std::uint64_t>(value);
    plane[lane] = static_cast<std::uint32_t>(bits);
    plane[kLanes + lane] = static_cast<std::uint32_t>(bits >> 32);
  } else if constexpr (sizeof(T) == 4) {
    plane[lane] = bit_cast<std::uint32_t>(value);
  } else {
    plane[lane] = static_cast<std::make_unsigned_t<T>>(value);
  }
}

// Functions of loops over lanes, which are vectorised only if nothing in them is a call.
#define HEDDLE_IN_LOOP [[gnu::always_inline]] inline

// Iterations do not depend on each other: a destination is a source's own plane, or another.
#if defined(__clang__)
#define HEDDLE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define HEDDLE_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <class Body>
inline void each_lane(arch::LaneMask lanes, Body body) {
  if (lanes == kAllLanes) {
    HEDDLE_INDEPENDENT
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) body(lane);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) body(static_cast<std::uint32_t>(__builtin_ctz(lanes)));
  }
}

// Of `planes` planes, the lanes of the mask.
void merge_lanes(std::uint32_t* d, const std::uint32_t* values, std::uint32_t planes, arch::LaneMask lanes);
template <class T>
constexpr std::uint32_t kPlanesOf = (sizeof(T) + 3) / 4;

// Lanes<op>::run, where `op` takes sources in order and returns the destination. It is called for all lanes, whatever
// the others hold, as that is one loop without branches.
template <auto Op>
struct Lanes;
template <class D, class... S, D (*Op)(S...)>
struct Lanes<Op> {
  static void run(AluOperands& operands) { run(operands, std::index_sequence_for<S...>()); }

 private:
  template <std::size_t... I>
  static void run(AluOperands& operands, std::index_sequence<I...>) {
    std::uint32_t* const d = operands.d[0];
    if (d == nullptr) return;
    const std::uint32_t* const s[] = {operands.s[I]...};
    std::uint32_t values[kPlanesOf<D> * kLanes];
    std::uint32_t* const to = operands.lanes == kAllLanes ? d : values;
    HEDDLE_INDEPENDENT
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) write_lane<D>(to, lane, Op(read_lane<S>(s[I], lane)...));
    if (to != d) merge_lanes(d, values, kPlanesOf<D>, operands.lanes);
  }
};
template <auto Op>
constexpr AluFunction kLanesOf = &Lanes<Op>::run;

// As long as a third source is there, `Three`, else `Two`.
template <auto Two, auto Three>
void two_or_three(AluOperands& operands) {
  (operands.s[2] == nullptr ? kLanesOf<Two> : kLanesOf<Three>)(operands);
}

// The lanes in which `flags` is not 0; its elements are 0 or 1.
inline arch::LaneMask mask_of(const std::uint8_t (&flags)[kLanes]) {
  arch::LaneMask mask = 0;
  for (std::uint32_t byte = 0; byte < kLanes / 8; ++byte) {
    std::uint64_t eight = 0;
    for (std::uint32_t i = 0; i < 8; ++i) eight |= std::uint64_t{flags[8 * byte + i]} << (8 * i);
    mask |= static_cast<arch::LaneMask>(eight * 0x0102040810204080u >> 56) << (8 * byte);
  }
  return mask;
}

// The lanes that take part and for which `Test` of the sources is true.
template <auto Test>
struct Tested;
template <class... S, bool (*Test)(S...)>
struct Tested<Test> {
  // Not inlined: a comparison has a dozen forms.
  [[gnu::noinline]] static arch::LaneMask run(const AluOperands& operands) {
    return run(operands, std::index_sequence_for<S...>()) & operands.lanes;
  }

 private:
  template <std::size_t... I>
  static arch::LaneMask run(const AluOperands& operands, std::index_sequence<I...>) {
    const std::uint32_t* const s[] = {operands.s[I]...};
    std::uint8_t flags[kLanes];
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
      flags[lane] = static_cast<std::uint8_t>(Test(read_lane<S>(s[I], lane)...));
    }
    return mask_of(flags);
  }
};

// Bit `lane` of a mask, for loops over all lanes.
inline constexpr std::uint32_t kLaneBit[kLanes] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
    1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
    1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

}  // namespace heddle::ptx

// What the numbers of PTX are in C++: names, bits, products of twice the width.
#pragma once

#include <cstdint>
#include <type_traits>

namespace heddle::ptx {

template <class T>
inline constexpr const char* kTypeName = nullptr;
template <>
inline constexpr const char* kTypeName<std::uint8_t> = "u8";
template <>
inline constexpr const char* kTypeName<std::int8_t> = "s8";
template <>
inline constexpr const char* kTypeName<std::uint16_t> = "u16";
template <>
inline constexpr const char* kTypeName<std::int16_t> = "s16";
template <>
inline constexpr const char* kTypeName<std::uint32_t> = "u32";
template <>
inline constexpr const char* kTypeName<std::int32_t> = "s32";
template <>
inline constexpr const char* kTypeName<std::uint64_t> = "u64";
template <>
inline constexpr const char* kTypeName<std::int64_t> = "s64";
template <>
inline constexpr const char* kTypeName<float> = "f32";
template <>
inline constexpr const char* kTypeName<double> = "f64";

// Without a sign, and wide enough that sums do not overflow into C++'s int.
template <class T>
inline auto bits_of(T value) {
  using U = std::make_unsigned_t<T>;
  return static_cast<std::conditional_t<(sizeof(T) < 4), std::uint32_t, U>>(static_cast<U>(value));
}

// Twice as wide.
template <class T>
struct Doubled;
template <>
struct Doubled<std::uint16_t> {
  using type = std::uint32_t;
};
template <>
struct Doubled<std::int16_t> {
  using type = std::int32_t;
};
template <>
struct Doubled<std::uint32_t> {
  using type = std::uint64_t;
};
template <>
struct Doubled<std::int32_t> {
  using type = std::int64_t;
};
__extension__ using Uint128 = unsigned __int128;
__extension__ using Int128 = __int128;
template <>
struct Doubled<std::uint64_t> {
  using type = Uint128;
};
template <>
struct Doubled<std::int64_t> {
  using type = Int128;
};
template <class T>
using Double = typename Doubled<T>::type;

template <class T>
inline T low_product(T a, T b) {
  return static_cast<T>(bits_of(a) * bits_of(b));
}
template <class T>
inline T high_product(T a, T b) {
  return static_cast<T>(static_cast<Double<T>>(static_cast<Double<T>>(a) * static_cast<Double<T>>(b)) >> 8 * sizeof(T));
}

}  // namespace heddle::ptx

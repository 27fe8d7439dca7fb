// Numbers with units, as users write them ("228 KiB", "1.755 GHz", "600 ns", "12 cycles"), converted exactly.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace heddle {

// The unit that a parameter's value is stored in.
enum class Unit {
  none,  // a plain number, e.g. an identifier or a factor
  count,
  cycles,
  ps,
  ns,
  us,
  ms,
  s,
  bytes,
  kib,
  mib,
  gib,
  hz,
  khz,
  mhz,
  ghz,
  per_cycle,
  bytes_per_cycle,
  percent,
  pj,
  nj,
  watts,
  volts,
  mm,
};

// "cycles", "KiB", "GHz"; empty for `none` and `count`.
std::string_view unit_text(Unit unit);

// "12 cycles", "50 %", "3".
std::string with_unit(std::string_view number, Unit unit);

// What a value may be: all bounds are inclusive and in `unit`.
template <class T>
struct Limits {
  Unit unit = Unit::none;
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

// The shortest text that reads back as the same number.
std::string number_text(std::int64_t value);
std::string number_text(std::uint64_t value);
std::string number_text(double value);
template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return number_text(static_cast<double>(value));
  } else if constexpr (std::is_signed_v<T>) {
    return number_text(static_cast<std::int64_t>(value));
  } else {
    return number_text(static_cast<std::uint64_t>(value));
  }
}

// "1 to 10000 cycles", "at least 1", or "any integer" where the type alone limits it.
template <class T>
std::string range_text(const Limits<T>& limits);

enum class BareNumber {
  in_own_unit,  // "600" means 600 of the wanted unit
  refused,      // a unit is required, save for 0
};

// Reads `text` as a number in limits.unit. A number without a unit is in that unit; another unit of the same family is
// converted; units of other families are refused. Integers: a fraction that is left after conversion is an error, never
// rounded. "0x…" is accepted without a unit. Throws InputError without a place: the caller knows file and line.
template <class T>
T parse_quantity(std::string_view text, const Limits<T>& limits, BareNumber bare = BareNumber::in_own_unit);

namespace detail {

std::uint64_t parse_magnitude(std::string_view text, Unit unit, BareNumber bare, bool& negative);
double parse_real(std::string_view text, Unit unit, BareNumber bare);
[[noreturn]] void throw_out_of_range(std::string_view text);
[[noreturn]] void throw_negative(std::string_view text);
std::string range_text(const std::string& min, const std::string& max, Unit unit, bool integer);

}  // namespace detail

template <class T>
std::string range_text(const Limits<T>& limits) {
  const bool low = limits.min != std::numeric_limits<T>::lowest();
  const bool high = limits.max != std::numeric_limits<T>::max();
  // The type's own bounds are noise to a reader, save for the 0 of an unsigned type.
  return detail::range_text(low || std::is_unsigned_v<T> ? number_text(limits.min) : std::string(),
                            high ? number_text(limits.max) : std::string(), limits.unit, std::is_integral_v<T>);
}

template <class T>
T parse_quantity(std::string_view text, const Limits<T>& limits, BareNumber bare) {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
  T value{};
  if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(detail::parse_real(text, limits.unit, bare));
  } else {
    bool negative = false;
    const std::uint64_t magnitude = detail::parse_magnitude(text, limits.unit, bare, negative);
    if (negative && std::is_unsigned_v<T>) detail::throw_negative(text);
    // The most negative value has no positive counterpart, hence the separate bound.
    const auto top = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    if (magnitude > top + (negative ? 1U : 0U)) detail::throw_out_of_range(text);
    value = negative ? static_cast<T>(std::uint64_t{0} - magnitude) : static_cast<T>(magnitude);
  }
  if (!(value >= limits.min && value <= limits.max)) detail::throw_out_of_range(text);
  return value;
}

}  // namespace heddle

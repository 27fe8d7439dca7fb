#include "arch/swizzle.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint32_t kRows = 8;
constexpr std::uint32_t kUnits = 8;  // of a row; as many groups of banks

// TMA-20: the lowest bits of the unit, as many as a span has, ^= those of the row.
SwizzleTable::Units default_units(Swizzle swizzle) {
  const std::uint32_t bits = swizzle_span(swizzle) / kSwizzleUnit - 1;
  SwizzleTable::Units units{};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    for (std::uint32_t unit = 0; unit < kUnits; ++unit)
      units[row][unit] = static_cast<std::uint8_t>(unit ^ (row & bits));
  }
  return units;
}

bool seen_before(const std::uint32_t* addresses, std::uint32_t index) {
  return std::find(addresses, addresses + index, addresses[index]) != addresses + index;
}

}  // namespace

std::uint32_t swizzle_span(Swizzle swizzle) { return kSwizzleUnit << static_cast<unsigned>(swizzle); }

std::uint32_t swizzle_period(Swizzle swizzle) { return swizzle == Swizzle::none ? 16 : 8 * swizzle_span(swizzle); }

const char* swizzle_name(Swizzle swizzle) {
  constexpr std::array<const char*, 4> kNames{"none", "32", "64", "128"};
  return kNames[static_cast<std::size_t>(swizzle)];
}

SwizzleTable::SwizzleTable() {
  for (std::size_t mode = 0; mode < units_.size(); ++mode) units_[mode] = default_units(static_cast<Swizzle>(mode));
}

void SwizzleTable::set(Swizzle swizzle, const std::vector<std::uint32_t>& units, const char* key) {
  if (units.size() != std::size_t{kRows} * kUnits) {
    throw InputError(fmt::format("{}: {} numbers are no swizzle table", key, units.size()),
                     "give 64: for each of 8 rows of 128 bytes where its 8 units of 16 bytes lie");
  }
  const std::uint32_t span = swizzle_span(swizzle) / kSwizzleUnit;
  Units table{};
  for (std::uint32_t row = 0; row < kRows; ++row) {
    std::uint32_t taken = 0;
    for (std::uint32_t unit = 0; unit < kUnits; ++unit) {
      const std::uint32_t to = units[row * kUnits + unit];
      // A unit that left its span could leave the tile as well, which may end within a row.
      if (to >= kUnits || to / span != unit / span || (taken >> to & 1) != 0) {
        throw InputError(
            fmt::format("{}: unit {} of row {} cannot lie at {}", key, unit, row, to),
            fmt::format("give every row {} numbers, each group of {} in an order of its own", kUnits, span));
      }
      taken |= 1U << to;
      table[row][unit] = static_cast<std::uint8_t>(to);
    }
  }
  units_[static_cast<std::size_t>(swizzle)] = table;
}

std::uint32_t unit_cycles(const std::uint32_t* addresses, std::uint32_t count) {
  std::array<std::uint32_t, kUnits> units{};  // different ones of each group of banks
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t& of_group = units[addresses[i] / kSwizzleUnit % kUnits];
    if (of_group != 0 && seen_before(addresses, i)) continue;
    most = std::max(most, ++of_group);
  }
  return most;
}

}  // namespace heddle::arch

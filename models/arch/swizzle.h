// How tiles lie in shared memory, so that rows and columns of them are read without bank conflicts (TMA-20, TMA-21).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace heddle::arch {

enum class Swizzle : std::uint8_t { none, bytes32, bytes64, bytes128 };
// Bytes that are exchanged among each other: 16 (none), 32, 64, 128. A row of a tile must not be longer.
std::uint32_t swizzle_span(Swizzle swizzle);
// Bytes after which the pattern repeats: 16 (none), 256, 512, 1024.
std::uint32_t swizzle_period(Swizzle swizzle);
// "none", "32", "64", "128"
const char* swizzle_name(Swizzle swizzle);

constexpr std::uint32_t kSwizzleUnit = 16;  // bytes that stay together

// Where the bytes of an address within the CTA's shared memory lie: the addresses are offsets in the CTA's window, not
// physical ones. By default 32: a[4] ^= a[7]; 64: a[5:4] ^= a[8:7]; 128: a[6:4] ^= a[9:7].
class SwizzleTable {
 public:
  // entry [row of 128 bytes, modulo 8][unit of 16 bytes in it]: the unit where it lies.
  using Units = std::array<std::array<std::uint8_t, 8>, 8>;

  SwizzleTable();
  // Another table for one mode, as 64 numbers: eight rows of eight units. Throws InputError, naming `key`, unless every
  // row is a permutation of its units that keeps each span of the mode together.
  void set(Swizzle swizzle, const std::vector<std::uint32_t>& units, const char* key);

  std::uint32_t operator()(Swizzle swizzle, std::uint32_t address) const {
    if (swizzle == Swizzle::none) return address;
    const Units& units = units_[static_cast<std::size_t>(swizzle)];
    return (address & ~std::uint32_t{0x70}) | static_cast<std::uint32_t>(units[address >> 7 & 7][address >> 4 & 7])
                                                  << 4;
  }

 private:
  std::array<Units, 4> units_{};
};

// Cycles that the banks need to read or write 16-byte units at those addresses (multiples of 16) together: 32 banks of
// 4 bytes are eight groups, each of which serves one unit per cycle; the same unit twice is one.
std::uint32_t unit_cycles(const std::uint32_t* addresses, std::uint32_t count);

}  // namespace heddle::arch

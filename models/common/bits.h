// Sets of small numbers as bits of a word: lanes of a warp, SMs of a GPC, sectors of a line.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heddle::bits {

// Members of the set.
constexpr std::uint32_t count(std::uint64_t set) { return static_cast<std::uint32_t>(__builtin_popcountll(set)); }
// The same of a set of numbers below 4, as of the sectors of a line.
constexpr std::uint32_t count4(std::uint32_t set) { return 0x4332'3221'3221'2110ULL >> 4 * (set & 15) & 15; }
// The lowest member of a set that is not empty.
constexpr std::uint32_t lowest(std::uint64_t set) { return static_cast<std::uint32_t>(__builtin_ctzll(set)); }
// The highest member of a set that is not empty.
constexpr std::uint32_t highest(std::uint64_t set) { return static_cast<std::uint32_t>(63 - __builtin_clzll(set)); }
constexpr bool contains(std::uint64_t set, std::uint32_t member) { return (set >> member & 1) != 0; }
constexpr std::uint64_t one(std::uint32_t member) { return std::uint64_t{1} << member; }
// The members below `size`, which is at most 64.
constexpr std::uint64_t below(std::uint32_t size) { return size >= 64 ? ~std::uint64_t{0} : one(size) - 1; }
constexpr std::uint64_t without_lowest(std::uint64_t set) { return set & (set - 1); }
// The member with `index` members below it; the set has more than `index`.
constexpr std::uint32_t nth(std::uint64_t set, std::uint32_t index) {
  for (; index > 0; --index) set = without_lowest(set);
  return lowest(set);
}

// Calls visit(member) for every member, lowest first.
template <class Visit>
void for_each(std::uint64_t set, Visit&& visit) {
  for (; set != 0; set = without_lowest(set)) visit(lowest(set));
}

}  // namespace heddle::bits

namespace heddle {

// Cuts a range of addresses at the borders of equal blocks, as lines, sectors or pages: calls visit(address, bytes) for
// every piece of [address, address + bytes) that lies in one block of `block` bytes, lowest first. `block` is above 0.
template <class Visit>
void for_each_block(std::uint64_t address, std::uint64_t bytes, std::uint64_t block, Visit&& visit) {
  while (bytes > 0) {
    const std::uint64_t piece = std::min(bytes, block - address % block);
    visit(address, piece);
    address += piece;
    bytes -= piece;
  }
}

}  // namespace heddle

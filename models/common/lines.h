// A range of addresses, cut at the borders of equal blocks: the lines, sectors or pages that it touches.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heddle {

// Calls visit(address, bytes) for every piece of [address, address + bytes) that lies in one block of `block` bytes,
// lowest first. `block` is above 0.
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

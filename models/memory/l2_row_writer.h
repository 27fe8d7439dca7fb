// Writes of an L2 slice that go to memory row by row.
//
// Memory writes lines of one row for the price of opening it once. So when a dirty line leaves the cache, the other
// dirty lines of its row are written with it, if they would leave soon as well: they stay, clean. The idea is that of
// Stuecheli, Kaseridis, Daly, Hunter and John, The virtual write queue: coordinating DRAM and last-level cache
// policies, ISCA 2010: the ways of the cache next to eviction serve the memory's scheduler as a large write queue.
#pragma once

#include <cstdint>

#include "arch/address_map.h"
#include "common/stats.h"
#include "memory/l2_array.h"
#include "memory/l2_command.h"
#include "memory/l2_write_buffer.h"

namespace heddle::memory {

class L2RowWriter {
 public:
  // `eager_ways` of the configuration: a line is written along if so many of its set at most were used less recently,
  // itself included; 0: none is. `along` counts them.
  L2RowWriter(L2Array& array, L2WriteBuffer& buffer, const L2Config& config, Counter& along);

  // A dirty line leaves: others of its row go along, as far as the write buffer has room.
  void write_along(std::uint64_t line);

 private:
  // It is dirty, nobody works on it, memory need not be read to complete its sectors, and it would leave soon.
  bool goes_along(std::uint32_t index) const;

  L2Array& array_;
  L2WriteBuffer& buffer_;
  const std::uint32_t ways_;
  Counter& along_;
  const arch::AddressMap* map_;
  const std::uint32_t row_lines_;
};

}  // namespace heddle::memory

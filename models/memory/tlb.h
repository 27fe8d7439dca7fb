// A translation look-aside buffer: pages of both sizes, by subcontext (MEM-04). Plain C++.
//
// Set associative, least recently used. A page is in the set that its own number (of its size) selects; a look-up asks
// one set for each size. Only pages that are there are kept, faults never.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "arch/page_table.h"

namespace heddle::memory {

class Tlb {
 public:
  // `entries` are rounded down to whole sets; with fewer than `ways`, there is one set of them. Both at least 1.
  Tlb(std::uint32_t entries, std::uint32_t ways);

  // Null: a miss. A use; valid until the next call.
  const arch::Translation* find(std::uint8_t subcontext, std::uint64_t address);
  // The same, and no use.
  const arch::Translation* peek(std::uint8_t subcontext, std::uint64_t address) const;
  // The page with that number is replaced, if it is here.
  void insert(std::uint8_t subcontext, const arch::Translation& page);
  // What it knows of a subcontext goes.
  void invalidate(std::uint8_t subcontext);
  void reset();

  std::uint32_t sets() const { return sets_; }
  std::uint32_t ways() const { return ways_; }
  std::uint32_t set_of(std::uint8_t subcontext, std::uint64_t address, std::uint32_t page_bits) const;
  std::uint32_t size() const;  // pages here

 private:
  struct Entry {
    arch::Translation page;
    std::uint64_t used = 0;  // 0: free
    std::uint8_t subcontext = 0;
  };
  const Entry* look_up(std::uint8_t subcontext, std::uint64_t address, std::uint32_t page_bits) const;
  Entry* look_up(std::uint8_t subcontext, std::uint64_t address, std::uint32_t page_bits) {
    return const_cast<Entry*>(std::as_const(*this).look_up(subcontext, address, page_bits));
  }

  std::uint32_t ways_;
  std::uint32_t sets_;
  std::vector<Entry> entries_;  // [set][way]
  std::uint64_t uses_ = 0;
};

}  // namespace heddle::memory

// Blocking accesses to an L2 slice: done at once, with memory called from inside.
//
// Memory may suspend the caller, and another access may come in the meantime. So lines under way are pinned, and bytes
// under way to memory are entries of the write buffer, as everywhere. The path keeps its own order with requests that
// wait for memory: between different initiators, none is promised.
#pragma once

#include <cstdint>

#include "memory/l2_array.h"
#include "memory/l2_poison.h"
#include "memory/l2_write_buffer.h"

namespace heddle::memory {

class L2BlockingPath {
 public:
  L2BlockingPath(L2Array& array, L2Poison& poison, L2WriteBuffer& buffer, L2Counters& counters)
      : array_(array), poison_(poison), buffer_(buffer), counters_(counters) {}

  // Returns kL2Ok or memory's error.
  int serve(const L2Access& access, L2Memory& memory);

 private:
  static constexpr std::uint32_t kNone = L2Array::kNone;

  std::uint32_t allocate(std::uint64_t line, L2Memory& memory);
  int read(std::uint64_t line, std::uint32_t sectors, std::uint8_t* image, L2Memory& memory);
  int fetch(std::uint32_t index, std::uint32_t sectors, L2Memory& memory);
  int flush(L2Memory& memory);
  int bypass(const L2Access& access, L2Memory& memory);

  L2Array& array_;
  L2Poison& poison_;
  L2WriteBuffer& buffer_;
  L2Counters& counters_;
};

}  // namespace heddle::memory

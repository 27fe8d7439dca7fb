// Sectors of memory whose data are corrupt (an uncorrectable error), in the cache or out of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/bits.h"
#include "memory/l2_access.h"

namespace heddle::memory {

// A sector stays corrupt until a write covers all of it.
class L2Poison {
 public:
  bool any() const { return !sectors_.empty(); }

  void add(std::uint64_t line, std::uint32_t sectors) {
    bits::for_each(sectors, [&](std::uint32_t sector) {
      const std::uint64_t number = line * arch::kSectorsPerLine + sector;
      if (std::find(sectors_.begin(), sectors_.end(), number) == sectors_.end()) sectors_.push_back(number);
    });
  }
  // One of these sectors is corrupt.
  bool touches(std::uint64_t line, std::uint32_t sectors) const {
    return std::any_of(sectors_.begin(), sectors_.end(), [&](std::uint64_t number) {
      return number / arch::kSectorsPerLine == line &&
             bits::contains(sectors, static_cast<std::uint32_t>(number % arch::kSectorsPerLine));
    });
  }
  // An access takes effect: a write clears what it covers; a reader of corrupt data is told so.
  void apply(const L2Access& access) {
    if (access.kind == L2Access::Kind::prefetch) return;
    if (access.kind == L2Access::Kind::write) return clear(access.line, access.bytes);
    if (access.extension != nullptr && touches(access.line, access.bytes.touched())) access.extension->poisoned = true;
  }
  // These bytes are new.
  void clear(std::uint64_t line, const LineMask& written) {
    const auto is_new = [&](std::uint64_t number) {
      const LineMask whole = LineMask::sectors(1U << number % arch::kSectorsPerLine);
      return number / arch::kSectorsPerLine == line && (written & whole) == whole;
    };
    sectors_.erase(std::remove_if(sectors_.begin(), sectors_.end(), is_new), sectors_.end());
  }
  void reset() { sectors_.clear(); }

 private:
  std::vector<std::uint64_t> sectors_;  // by number in memory: few, if any
};

}  // namespace heddle::memory

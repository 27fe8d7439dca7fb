// The data port of an L2 slice: one access at a time, for as many cycles as its bytes take.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/bits.h"
#include "common/cycle.h"
#include "memory/l2_access.h"
#include "memory/l2_params.h"

namespace heddle::memory {

class L2DataPort {
 public:
  explicit L2DataPort(const L2Params& params) : atomic_rate_(params.atomic_rate) {
    for (std::uint32_t i = 0; i <= arch::kSectorsPerLine; ++i) {
      const std::uint32_t bytes = i * arch::kSectorBytes;
      sector_cycles_[i] = std::max<Cycle>(1, (bytes + params.bandwidth - 1) / params.bandwidth);
    }
  }

  Cycle cycles_of(const L2Access& access) const {
    switch (access.kind) {
      case L2Access::Kind::read:
      case L2Access::Kind::write:
        return sector_cycles_[bits::count(access.bytes.touched())];
      case L2Access::Kind::atomic:
      case L2Access::Kind::reduce:
        return atomic_cycles(access, atomic_rate_);
      case L2Access::Kind::prefetch:
      case L2Access::Kind::write_back:
        break;
    }
    return 1;
  }
  Cycle free_at() const { return free_at_; }
  // Takes the port as soon as it is free. Returns when that is: `now` or later.
  Cycle take(Cycle now, Cycle cycles) {
    const Cycle start = std::max(now, free_at_);
    free_at_ = start + cycles;
    return start;
  }
  void reset() { free_at_ = 0; }

 private:
  std::array<Cycle, arch::kSectorsPerLine + 1> sector_cycles_{};  // by number of sectors
  std::uint32_t atomic_rate_;
  Cycle free_at_ = 0;
};

}  // namespace heddle::memory

// What copy engines move past the L2, since nothing of it would be left there.
#pragma once

#include <cstdint>

#include "arch/address_map.h"
#include "common/memory_socket.h"
#include "memory/l2_command.h"
#include "memory/l2_presence.h"
#include "memory/memory_params.h"
#include "memory/write_watch.h"

namespace heddle::memory {

// Ranges of which no slice holds anything, and of which nothing would be left here when all has been moved: they go
// past the cache, to memory and back. One slice does that for all, since each would take its part in the same way.
class L2PastRanges final : public RangeTarget {
 public:
  struct Statistics {
    Counter& requests;
    L2Counters& core;
  };
  // `presence`: null: never. `watch`: null: nobody watches lines. All must outlive it.
  L2PastRanges(MemoryOut& memory, const arch::AddressMap& map, const L2Params& params, const L2Presence* presence,
               WriteWatch* watch, const Statistics& stats);

  bool move(RangeMove& range, std::uint32_t port) override;

 private:
  MemoryOut& memory_;
  RangePort behind_;
  bool asked_ = false;  // who is behind
  const arch::AddressMap& map_;
  const L2Presence* const presence_;
  WriteWatch* const watch_;
  const Statistics stats_;
  const std::uint64_t held_;  // bytes, by all slices
  const Cycle tags_;
  const Cycle memory_way_;
  const Cycle data_;
};

}  // namespace heddle::memory

// When the registers of one warp hold their values: what the next operation has to wait for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "arch/warp_program.h"
#include "common/cycle.h"

namespace heddle::sm {

constexpr Cycle kNeverReady = ~Cycle{0};

class Scoreboard {
 public:
  // For a warp that begins: all registers hold values.
  void start(std::uint32_t registers) {
    entries_.assign(registers, {});
    latest_ = 0;
    under_way_ = 0;
  }

  // The registers are written by something that ends at `ready`, or at a time that is not known yet (kNeverReady).
  void write(arch::RegisterRange range, Cycle ready) { set(range, ready, false); }
  // The same for accumulators of a matrix multiply: a later one adds to them without waiting.
  void accumulate(arch::RegisterRange range, Cycle ready) { set(range, ready, true); }

  // The cycle from which the operation finds all its registers; kNeverReady while a time is not known. Written
  // registers count as well: a late write must not overtake a later one.
  Cycle ready(const arch::Demand& demand, Cycle now) const {
    if (under_way_ == 0 && latest_ <= now) return now;
    Cycle when = now;
    for (const arch::RegisterRange& range : demand.reads) when = std::max(when, all(range));
    for (const arch::RegisterRange& range : demand.writes) when = std::max(when, all(range));
    const arch::RegisterRange& chain = demand.accumulators;
    for (std::uint32_t i = 0; i < chain.count; ++i) {
      const Entry& entry = at(chain.first + i);
      if (!entry.accumulator) when = std::max(when, entry.ready);
    }
    return when;
  }

  // Everything that was written is there.
  bool settled(Cycle now) const { return under_way_ == 0 && latest_ <= now; }
  // Registers whose time is not known.
  std::uint32_t under_way() const { return under_way_; }

 private:
  struct Entry {
    Cycle ready = 0;
    bool accumulator = false;
  };

  const Entry& at(std::uint32_t index) const {
    HEDDLE_CHECK(index < entries_.size(), "a program names a register that it did not ask for");
    return entries_[index];
  }
  Cycle all(arch::RegisterRange range) const {
    Cycle when = 0;
    for (std::uint32_t i = 0; i < range.count; ++i) when = std::max(when, at(range.first + i).ready);
    return when;
  }
  void set(arch::RegisterRange range, Cycle ready, bool accumulator) {
    HEDDLE_CHECK(range.first + std::uint32_t{range.count} <= entries_.size(),
                 "a program names a register that it did not ask for");
    for (std::uint32_t i = 0; i < range.count; ++i) {
      Entry& entry = entries_[range.first + i];
      if (entry.ready == kNeverReady) --under_way_;
      entry = {ready, accumulator};
    }
    if (ready == kNeverReady) {
      under_way_ += range.count;
    } else {
      latest_ = std::max(latest_, ready);
    }
  }

  std::vector<Entry> entries_;
  Cycle latest_ = 0;  // of all times that are known
  std::uint32_t under_way_ = 0;
};

}  // namespace heddle::sm

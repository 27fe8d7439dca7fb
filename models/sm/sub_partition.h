// One of the four sub-partitions of an SM: which of its warps issues next, and when (SM-01, SM-03).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "arch/warp_program.h"
#include "common/bits.h"
#include "common/cycle.h"
#include "sm/sm_params.h"

namespace heddle::sm {

// Knows of each warp only when it can issue, to what unit, and its age. One instruction issues per cycle; every unit
// takes an instruction when it is done with the last one. The load-store unit belongs to all sub-partitions: when it
// takes the next instruction is told from outside.
class SubPartition {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  SubPartition(WarpPolicy policy, std::uint32_t slots);

  // A warp takes the slot; smaller ages are older. It cannot issue before ready().
  void enter(std::uint32_t slot, std::uint64_t age);
  void leave(std::uint32_t slot);
  std::uint32_t resident() const { return resident_; }
  // The lowest free slot; kNone without one.
  std::uint32_t free_slot() const;

  // The warp's next instruction can issue from `when` on, to `unit`.
  void ready(std::uint32_t slot, Cycle when, arch::Unit unit) {
    slots_[slot].when = when;
    slots_[slot].unit = unit;
    pending_[slot / 64] |= std::uint64_t{1} << (slot % 64);
  }
  void block(std::uint32_t slot) {
    slots_[slot].when = kNever;
    pending_[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  }

  // The slot that issues at `now`; kNone if none can.
  std::uint32_t choose(Cycle now, Cycle memory_free) const;
  // The choice has issued `count` instructions, from `now` on; each takes its unit for `interval` cycles.
  void issued(std::uint32_t slot, Cycle now, std::uint64_t count, Cycle interval);
  // The unit works for that warp from `now` on, for `interval` cycles, without an instruction that issues.
  void use(std::uint32_t slot, arch::Unit unit, Cycle now, Cycle interval);
  Cycle free_from(arch::Unit unit) const { return unit_free_[static_cast<std::size_t>(unit)]; }
  // The warp was killed: those of its instructions that have not begun before `now` never do.
  void cut(std::uint32_t slot, Cycle now);
  // Whoever issued last has no privilege at the next choice.
  void end_burst() {
    if (policy_ == WarpPolicy::greedy_oldest) last_ = kNone;
  }
  // The first cycle in which something can issue; kNever if that takes a ready() first.
  Cycle next(Cycle memory_free) const;
  // The first cycle from which that warp could issue if it were alone.
  Cycle next_of(std::uint32_t slot, Cycle memory_free) const;
  // True if another warp than that one has work and is not blocked until `until`.
  bool others_before(std::uint32_t slot, Cycle until) const;

  void reset();

 private:
  Cycle unit_free(arch::Unit unit, Cycle memory_free) const {
    return unit == arch::Unit::memory ? memory_free : unit_free_[static_cast<std::size_t>(unit)];
  }
  template <class Visit>
  void for_each_pending(Visit&& visit) const {
    for (std::uint32_t word = 0; word < pending_.size(); ++word) {
      bits::for_each(pending_[word], [&](std::uint32_t bit) { visit(word * 64 + bit); });
    }
  }
  bool better(std::uint32_t slot, std::uint32_t best) const;

  // What a unit does: `slot` began to use it at `begin`.
  struct Use {
    std::uint32_t slot = kNone;
    Cycle begin = 0;
    Cycle interval = 1;
  };

  // Of a warp, in one place.
  struct Slot {
    Cycle when = kNever;  // from then on it can issue
    std::uint64_t age : 55;
    std::uint64_t used : 1;
    arch::Unit unit;  // to there
    Slot() : age(0), used(0), unit(arch::Unit::none) {}
  };

  WarpPolicy policy_;
  std::vector<Slot> slots_;
  std::uint32_t resident_ = 0;
  std::vector<std::uint64_t> pending_;  // a bit for each slot whose warp has a time
  std::array<Cycle, arch::kUnits> unit_free_{};
  std::array<Use, arch::kUnits> unit_use_{};
  Cycle port_free_ = 0;
  Use port_use_;
  std::uint32_t last_ = kNone;
};

// When the registers of one warp hold their values: what the next operation has to wait for.
class Scoreboard {
 public:
  // For a warp that begins: all registers hold values.
  void start(std::uint32_t registers) {
    entries_.assign(registers, {});
    latest_ = 0;
    under_way_ = 0;
  }

  // The registers are written by something that ends at `ready`, or at a time that is not known yet (kNever).
  void write(arch::RegisterRange range, Cycle ready) { set(range, ready, false); }
  // The same for accumulators of a matrix multiply: a later one adds to them without waiting.
  void accumulate(arch::RegisterRange range, Cycle ready) { set(range, ready, true); }

  // The cycle from which the operation finds all its registers; kNever while a time is not known. Written
  // registers count as well: a late write must not overtake a later one.
  Cycle ready(const arch::OperationNeeds& demand, Cycle now) const {
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
      if (entry.ready == kNever) --under_way_;
      entry = {ready, accumulator};
    }
    if (ready == kNever) {
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

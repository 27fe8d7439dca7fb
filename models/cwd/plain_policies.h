// The policies for plain grids that are shipped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "common/bits.h"
#include "cwd/plain_policy.h"

namespace heddle::cwd {

// Filling the lake (CWD-03 to CWD-06).
class LakePlain : public PlainPolicy {
 public:
  explicit LakePlain(const PlainSetup& setup) : LakePlain(setup, {}) {}
  const Placement& place(const PlainView& view) override { return lake_.place(view.slots, view.ctas); }

 protected:
  LakePlain(const PlainSetup& setup, const LakeOptions& options)
      : lake_(setup.topology, setup.max_slots, setup.level_search, setup.sm_priority, options) {}

 private:
  LakeFill lake_;
};

// The prior art (CWD-08).
class OneAtATimePlain final : public LakePlain {
 public:
  explicit OneAtATimePlain(const PlainSetup& setup) : LakePlain(setup, {true, {}}) {}
};

// The lake, but of every SM a share of its slots is left free, so that what runs there runs faster ([0146]).
class CappedPlain final : public LakePlain {
 public:
  explicit CappedPlain(const PlainSetup& setup) : LakePlain(setup), most_percent_(setup.most_percent) {}

  bool withholds() const override { return true; }
  void withhold(std::vector<std::uint16_t>& slots, std::uint32_t empty) const override {
    const std::uint32_t most = std::max(1U, empty * most_percent_ / 100);
    const std::uint32_t kept = empty > most ? empty - most : 0;
    for (std::uint16_t& free : slots) free = static_cast<std::uint16_t>(free > kept ? free - kept : 0);
  }

 private:
  std::uint32_t most_percent_;
};

// What the policies below have in common: masks that begin empty, and the SM with most free slots of some.
class MaskPlain : public PlainPolicy {
 protected:
  explicit MaskPlain(const PlainSetup& setup) : topology_(setup.topology), priority_(setup.sm_priority) {}

  void begin() {
    result_.ctas = 0;
    result_.steps = 0;
    result_.levels.clear();
  }
  LevelMask& add_level(std::uint32_t level) {
    result_.levels.push_back({level, 0, SmMask(topology_.gpcs(), 0)});
    return result_.levels.back();
  }
  void put(LevelMask& level, std::uint32_t sm) {
    level.mask[topology_.sm(sm).gpc] |= bits::one(topology_.sm(sm).in_gpc);
    ++level.ctas;
    ++result_.ctas;
  }

  const arch::Topology& topology_;
  const std::vector<std::uint32_t> priority_;
  Placement result_;
};

// CTAs go round the GPCs: consecutive ones are on different GPCs, each on the SM of its GPC with most free slots. A
// step is a round, in which every GPC that has room receives one. The next session goes on with the GPC at which this
// one has stopped.
class GpcStripedPlain final : public MaskPlain {
 public:
  explicit GpcStripedPlain(const PlainSetup& setup) : MaskPlain(setup), sms_(setup.topology.gpcs()) {
    for (const std::uint32_t sm : priority_) sms_[setup.topology.sm(sm).gpc].push_back(sm);
  }

  const Placement& place(const PlainView& view) override {
    begin();
    slots_ = view.slots;
    const auto gpcs = static_cast<std::uint32_t>(sms_.size());
    std::uint64_t left = std::min(view.ctas, std::accumulate(slots_.begin(), slots_.end(), std::uint64_t{0}));
    while (left > 0) {
      LevelMask& round = add_level(0);
      for (; next_ < gpcs && left > round.ctas; ++next_) serve(next_, round);
      left -= round.ctas;
      if (round.ctas > 0) {
        ++result_.steps;
      } else {
        result_.levels.pop_back();
      }
      if (next_ == gpcs) next_ = 0;
    }
    return result_;
  }
  void reset() override { next_ = 0; }

 private:
  void serve(std::uint32_t gpc, LevelMask& round) {
    const auto best = std::max_element(sms_[gpc].begin(), sms_[gpc].end(), [this](std::uint32_t a, std::uint32_t b) {
      return slots_[a] < slots_[b];  // among equals the first
    });
    if (slots_[*best] == 0) return;
    --slots_[*best];
    put(round, *best);
  }

  std::vector<std::vector<std::uint32_t>> sms_;  // by GPC, most preferred first
  std::vector<std::uint16_t> slots_;
  std::uint32_t next_ = 0;  // GPC
};

// As few SMs awake as possible: an SM is filled before the next one, first those that have least room, and so are awake
// already. A step opens an SM. Masks go round: the first CTA of every SM, then the second of those that get one.
class PackedPlain final : public MaskPlain {
 public:
  explicit PackedPlain(const PlainSetup& setup) : MaskPlain(setup) {}

  const Placement& place(const PlainView& view) override {
    begin();
    order_.clear();
    for (const std::uint32_t sm : priority_) {
      if (view.slots[sm] > 0) order_.push_back({sm, view.slots[sm]});
    }
    std::stable_sort(order_.begin(), order_.end(), [](const Share& a, const Share& b) { return a.ctas < b.ctas; });
    std::uint64_t left = view.ctas;
    std::size_t opened = 0;
    for (; opened < order_.size() && left > 0; ++opened) {
      order_[opened].ctas = static_cast<std::uint32_t>(std::min<std::uint64_t>(order_[opened].ctas, left));
      left -= order_[opened].ctas;
    }
    order_.resize(opened);
    result_.steps = static_cast<std::uint32_t>(opened);
    for (std::uint32_t round = 0; !order_.empty(); ++round) {
      LevelMask& level = add_level(0);
      for (const Share& share : order_) put(level, share.sm);
      order_.erase(
          std::remove_if(order_.begin(), order_.end(), [round](const Share& share) { return share.ctas == round + 1; }),
          order_.end());
    }
    return result_;
  }

 private:
  struct Share {
    std::uint32_t sm = 0;
    std::uint32_t ctas = 0;
  };
  std::vector<Share> order_;
};

// Few SMs while a CGA waits, so that it finds room sooner; otherwise the lake.
class YieldingPlain final : public PlainPolicy {
 public:
  explicit YieldingPlain(const PlainSetup& setup) : lake_(setup), packed_(setup) {}

  const Placement& place(const PlainView& view) override {
    if (view.waiting.larger_than(1)) return packed_.place(view);
    return lake_.place(view);
  }

 private:
  LakePlain lake_;
  PackedPlain packed_;
};

}  // namespace heddle::cwd

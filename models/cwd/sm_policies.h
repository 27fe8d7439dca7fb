// Questions that policies ask of the SMs that they see; sets of SMs are bits of a GPC's mask.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/bits.h"
#include "cwd/sm_policy.h"

namespace heddle::cwd {

// The members that have at least `level` free slots.
inline std::uint64_t with_free(const SmView& view, std::uint32_t level) {
  std::uint64_t found = 0;
  bits::for_each(view.members, [&](std::uint32_t sm) {
    if (view.free[sm] >= level) found |= bits::one(sm);
  });
  return found;
}

inline std::uint32_t most_free(const SmView& view) {
  std::uint32_t most = 0;
  bits::for_each(view.members, [&](std::uint32_t sm) { most = std::max<std::uint32_t>(most, view.free[sm]); });
  return most;
}

inline std::uint32_t total_free(const SmView& view) {
  std::uint32_t total = 0;
  bits::for_each(view.members, [&](std::uint32_t sm) { total += view.free[sm]; });
  return total;
}

// The first `count` of the candidates in priority order: those whose exclusive prefix population count is below it
// (CWD-05).
inline std::uint64_t first_by_priority(std::uint64_t candidates, std::uint32_t count,
                                       const std::vector<std::uint32_t>& priority) {
  std::uint64_t selected = 0;
  for (const std::uint32_t sm : priority) {
    if (count == 0) break;
    if (!bits::contains(candidates, sm)) continue;
    selected |= bits::one(sm);
    --count;
  }
  return selected;
}

// Masks from the launch registers, which count the CTAs that every SM gets ([0194]): one that names all SMs with a CTA,
// then one of those with a second, and so on (CWD-31).
inline void push_masks(const GpcSlots& given, std::uint64_t members, SmChoice& choice) {
  std::uint64_t served = 0;
  bits::for_each(members, [&](std::uint32_t sm) {
    if (given[sm] > 0) served |= bits::one(sm);
  });
  for (std::uint32_t round = 1; served != 0; ++round) {
    choice.masks.push_back(served);
    bits::for_each(served, [&](std::uint32_t sm) {
      if (given[sm] == round) served &= ~bits::one(sm);
    });
  }
}

// Filling the lake within one domain (CWD-15): CWD-03 to CWD-05 for the CTAs of one CGA. The final level is searched as
// in a plain grid (CWD-04).
class LakePolicy final : public SmPolicy {
 public:
  explicit LakePolicy(const SmSetup& setup) : setup_(setup) {}

  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) override {
    const std::uint32_t highest = most_free(view);
    at_least_.assign(std::size_t{highest} + 1, 0);
    bits::for_each(view.members, [&](std::uint32_t sm) { ++at_least_[view.free[sm]]; });
    for (std::uint32_t level = highest; level-- > 0;) at_least_[level] += at_least_[level + 1];
    const FinalLevel final_level = find_final_level(at_least_, ctas, setup_.level_search, setup_.max_slots);
    choice.steps += std::max(1U, final_level.steps);
    if (total_free(view) < ctas) return false;  // the search has found out on the lowest level
    GpcSlots given{};
    for (std::uint32_t level = highest; level >= final_level.level; --level) {
      const std::uint64_t reached = with_free(view, level);
      const bool partly = level == final_level.level && bits::count(reached) > ctas;
      last_ = partly ? first_by_priority(reached, ctas, view.priority) : reached;
      choice.counts_prefix = choice.counts_prefix || partly;
      bits::for_each(last_, [&given](std::uint32_t sm) { ++given[sm]; });
      ctas -= bits::count(last_);
    }
    push_masks(given, view.members, choice);
    return true;
  }
  // The SMs that receive a CTA on the final level of the last choice.
  std::uint64_t last() const { return last_; }

 private:
  const SmSetup setup_;
  std::vector<std::uint32_t> at_least_;  // SMs with so many slots or more
  std::uint64_t last_ = 0;
};

// The opposite of the lake, for experiments: as few SMs as possible are opened up, and empty ones stay empty.

// The SM with fewest free slots is filled first, then the next; equals in priority order.
class PackedPolicy final : public SmPolicy {
 public:
  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) override {
    GpcSlots given{};
    std::uint64_t open = with_free(view, 1);  // SMs that have not had their turn
    while (ctas > 0) {
      ++choice.steps;
      std::uint32_t fullest = arch::kMaxSmsPerGpc;
      for (const std::uint32_t sm : view.priority) {
        if ((open & bits::one(sm)) == 0) continue;
        if (fullest == arch::kMaxSmsPerGpc || view.free[sm] < view.free[fullest]) fullest = sm;
      }
      if (fullest == arch::kMaxSmsPerGpc) return false;
      open &= ~bits::one(fullest);
      given[fullest] = static_cast<std::uint16_t>(std::min<std::uint32_t>(ctas, view.free[fullest]));
      ctas -= given[fullest];
    }
    push_masks(given, view.members, choice);
    return true;
  }
};

// The prior art (CWD-08): one CTA per decision, to the least used of all SMs.
class OneAtATimePolicy final : public SmPolicy {
 public:
  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) override {
    GpcSlots left = view.free;
    for (; ctas > 0; --ctas) {
      ++choice.steps;
      std::uint64_t best = 0;
      std::uint32_t most = 0;
      std::uint32_t where = 0;
      for (const std::uint32_t sm : view.priority) {
        if ((view.members & bits::one(sm)) == 0 || left[sm] <= most) continue;  // among equals the preferred one stays
        best = bits::one(sm);
        most = left[sm];
        where = sm;
      }
      if (best == 0) return false;
      --left[where];
      choice.masks.push_back(best);
    }
    return true;
  }
};

// Multicast (CWD-16): load balancing with one restriction, at most one CTA of a CGA on an SM ([0140]b, [0214]).
//
// First come the TPCs both of whose SMs can take a CTA (all of them, where there are more), then those of which one
// can, or some; a TPC that has one SM only is of these. Within a class a TPC stands on the level of its fullest SM that
// can take a CTA, and the levels are searched from the emptiest TPCs on, as those of the lake are; TPCs of the final
// level are taken in the order of their most preferred SM that can. Where a TPC has more such SMs than CTAs are left,
// the emptiest take them.
class TpcPairsPolicy final : public SmPolicy {
 public:
  explicit TpcPairsPolicy(const SmSetup& setup) : setup_(setup) {}

  bool one_per_sm() const override { return true; }

  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) override {
    rank(view);
    const std::uint32_t able = sms_of(whole_) + sms_of(broken_);
    if (able < ctas) {
      ++choice.steps;  // the sum over all SMs
      return false;
    }
    std::uint64_t mask = 0;
    for (std::vector<Tpc>* tpcs : {&whole_, &broken_}) {
      if (ctas > 0 && !tpcs->empty()) choice.steps += search(*tpcs, ctas);
      std::uint32_t final_level = 0;
      for (const Tpc& tpc : *tpcs) {
        // SMs of the final level are left out, of its last TPC or of others.
        const bool cut = ctas == 0 ? tpc.level == final_level : bits::count(tpc.sms) > ctas;
        choice.counts_prefix = choice.counts_prefix || cut;
        if (ctas == 0) break;
        final_level = tpc.level;
        const std::uint64_t taken = bits::count(tpc.sms) <= ctas ? tpc.sms : emptiest(view, tpc.sms, ctas);
        mask |= taken;
        ctas -= bits::count(taken);
      }
    }
    choice.masks.push_back(mask);
    return true;
  }

 private:
  struct Tpc {
    std::uint64_t sms = 0;  // of the domain that can take a CTA
    std::uint32_t level = 0;
  };

  static std::uint32_t sms_of(const std::vector<Tpc>& tpcs) {
    std::uint32_t sms = 0;
    for (const Tpc& tpc : tpcs) sms += bits::count(tpc.sms);
    return sms;
  }

  // Both classes, the emptiest TPCs first.
  void rank(const SmView& view) {
    whole_.clear();
    broken_.clear();
    std::array<std::uint64_t, arch::kMaxSmsPerGpc> tpc_of{};  // by SM: the SMs of its TPC
    for (const arch::Topology::Tpc& tpc : view.gpc.tpcs) {
      std::uint64_t sms = 0;
      for (std::uint32_t i = 0; i < tpc.sms; ++i) sms |= bits::one(tpc.first_sm + i);
      for (std::uint32_t i = 0; i < tpc.sms; ++i) tpc_of[tpc.first_sm + i] = sms & view.members;
    }
    const std::uint64_t able = with_free(view, 1);
    std::uint64_t seen = 0;
    for (const std::uint32_t sm : view.priority) {
      if (!bits::contains(able, sm) || bits::contains(seen, sm)) continue;
      seen |= tpc_of[sm];
      Tpc tpc{tpc_of[sm] & able, view.free[sm]};
      bits::for_each(tpc.sms,
                     [&](std::uint32_t other) { tpc.level = std::min<std::uint32_t>(tpc.level, view.free[other]); });
      const bool whole = tpc.sms == tpc_of[sm] && bits::count(tpc.sms) > 1;
      (whole ? whole_ : broken_).push_back(tpc);
    }
    for (std::vector<Tpc>* tpcs : {&whole_, &broken_}) {
      std::stable_sort(tpcs->begin(), tpcs->end(), [](const Tpc& a, const Tpc& b) { return a.level > b.level; });
    }
  }

  // Steps that finding the final level of a class takes; a class that goes as a whole takes one, for the sum.
  std::uint32_t search(const std::vector<Tpc>& tpcs, std::uint32_t ctas) const {
    if (sms_of(tpcs) <= ctas) return 1;
    std::uint32_t final_level = 0;
    for (const Tpc& tpc : tpcs) {
      final_level = tpc.level;
      if (bits::count(tpc.sms) >= ctas) break;
      ctas -= bits::count(tpc.sms);
    }
    return level_search_steps(setup_.level_search, tpcs.front().level, final_level, setup_.max_slots);
  }

  // So many of the SMs.
  static std::uint64_t emptiest(const SmView& view, std::uint64_t sms, std::uint32_t count) {
    std::uint64_t taken = 0;
    for (; count > 0; --count) {
      std::uint32_t best = arch::kMaxSmsPerGpc;
      for (const std::uint32_t sm : view.priority) {
        if (!bits::contains(sms & ~taken, sm)) continue;
        if (best == arch::kMaxSmsPerGpc || view.free[sm] > view.free[best]) best = sm;
      }
      taken |= bits::one(best);
    }
    return taken;
  }

  const SmSetup setup_;
  std::vector<Tpc> whole_;
  std::vector<Tpc> broken_;
};

// As the lake, but SMs that tie take turns: the order of priority begins behind the SM that was served last, so that no
// SM is always the first to work. It remembers that for every domain.
class RotatingPolicy final : public SmPolicy {
 public:
  explicit RotatingPolicy(const SmSetup& setup) : lake_(setup) {}

  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) override {
    std::uint32_t& first = first_[{view.gpc_id, view.members}];  // position in the priority order
    order_ = view.priority;
    std::rotate(order_.begin(), order_.begin() + first, order_.end());
    SmView rotated{view.gpc, view.members, view.free, order_, view.gpc_id, view.waiting};
    if (!lake_.choose(rotated, ctas, choice)) return false;
    const auto sms = static_cast<std::uint32_t>(order_.size());
    for (std::uint32_t i = sms; i-- > 0;) {
      if (!bits::contains(lake_.last(), order_[i])) continue;
      first = (first + i + 1) % sms;
      break;
    }
    return true;
  }
  void reset() override { first_.clear(); }

 private:
  LakePolicy lake_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> first_;  // by GPC and SMs of the domain
  std::vector<std::uint32_t> order_;
};

// Fills SMs one by one while a CGA of more CTAs waits, so that it finds empty ones; otherwise as the lake.
class YieldingPolicy final : public SmPolicy {
 public:
  explicit YieldingPolicy(const SmSetup& setup) : lake_(setup) {}

  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) override {
    if (view.waiting.larger_than(ctas)) return packed_.choose(view, ctas, choice);
    return lake_.choose(view, ctas, choice);
  }

 private:
  LakePolicy lake_;
  PackedPolicy packed_;
};

}  // namespace heddle::cwd

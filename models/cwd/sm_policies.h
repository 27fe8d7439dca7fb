// Questions that policies ask of the SMs that they see; sets of SMs are bits of a GPC's mask.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
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

// Filling the lake within one domain (CWD-15): CWD-03 to CWD-05 for the CTAs of one CGA.
class LakePolicy final : public SmPolicy {
 public:
  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) const override {
    std::uint32_t level = most_free(view);
    if (total_free(view) < ctas) {
      choice.steps += std::max(1U, level);  // the scan finds out on the lowest level
      return false;
    }
    for (; ctas > 0; --level) {
      const std::uint64_t reached = with_free(view, level);
      const bool final_level = bits::count(reached) >= ctas;
      const std::uint64_t mask = final_level ? first_by_priority(reached, ctas, view.priority) : reached;
      choice.masks.push_back(mask);
      ++choice.steps;
      ctas -= bits::count(mask);
    }
    return true;
  }
};

// The opposite of the lake, for experiments: as few SMs as possible are opened up, and empty ones stay empty.

// The SM with fewest free slots is filled first, then the next; equals in priority order. The masks go round: the first
// CTA of every SM, then the second of those that have one, so that they are few (CWD-30).
class PackedPolicy final : public SmPolicy {
 public:
  bool counts_prefix() const override { return false; }
  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) const override {
    GpcSlots given{};
    std::uint64_t open = with_free(view, 1);  // SMs that have not had their turn
    std::uint64_t served = 0;
    while (ctas > 0) {
      ++choice.steps;
      std::uint32_t fullest = arch::kMaxSmsPerGpc;
      for (const std::uint32_t sm : view.priority) {
        if ((open & bits::one(sm)) == 0) continue;
        if (fullest == arch::kMaxSmsPerGpc || view.free[sm] < view.free[fullest]) fullest = sm;
      }
      if (fullest == arch::kMaxSmsPerGpc) return false;
      open &= ~bits::one(fullest);
      served |= bits::one(fullest);
      given[fullest] = static_cast<std::uint16_t>(std::min<std::uint32_t>(ctas, view.free[fullest]));
      ctas -= given[fullest];
    }
    for (std::uint32_t round = 1; served != 0; ++round) {
      choice.masks.push_back(served);
      bits::for_each(served, [&](std::uint32_t sm) {
        if (given[sm] == round) served &= ~bits::one(sm);
      });
    }
    return true;
  }
};

// The prior art (CWD-08): one CTA per decision, to the least used of all SMs.
class OneAtATimePolicy final : public SmPolicy {
 public:
  bool counts_prefix() const override { return false; }
  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) const override {
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

// Multicast (CWD-16): at most one CTA of a CGA on an SM; whole TPCs first.

// First the TPCs all of whose SMs can take a CTA (one SM may be all), then those of which some can. Within a class in
// the order of a TPC's most preferred SM, whether or not that one can take a CTA; within a TPC in SM priority order, so
// that an odd last CTA takes the first SM of the next TPC.
class TpcPairsPolicy final : public SmPolicy {
 public:
  bool one_per_sm() const override { return true; }

  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) const override {
    ++choice.steps;  // classes and prefix counts are found in parallel
    const std::uint64_t able = with_free(view, 1);
    if (bits::count(able) < ctas) return false;

    std::array<std::uint64_t, arch::kMaxSmsPerGpc> tpc_of{};  // by SM: the SMs of its TPC
    std::uint64_t whole = 0;                                  // SMs of TPCs of the first class
    for (const arch::Topology::Tpc& tpc : view.gpc.tpcs) {
      std::uint64_t sms = 0;
      for (std::uint32_t i = 0; i < tpc.sms; ++i) sms |= bits::one(tpc.first_sm + i);
      for (std::uint32_t i = 0; i < tpc.sms; ++i) tpc_of[tpc.first_sm + i] = sms;
      sms &= view.members;
      if ((sms & able) == sms) whole |= sms;
    }

    std::uint64_t mask = 0;
    for (const std::uint64_t of_class : {whole, able & ~whole}) {
      std::uint64_t served = 0;  // SMs of TPCs that have had their turn
      for (const std::uint32_t sm : view.priority) {
        if (ctas == 0) break;
        if ((served & bits::one(sm)) != 0) continue;
        served |= tpc_of[sm];
        const std::uint64_t candidates = tpc_of[sm] & of_class;
        if (candidates == 0) continue;
        const bool all = bits::count(candidates) <= ctas;
        const std::uint64_t chosen = all ? candidates : first_by_priority(candidates, ctas, view.priority);
        mask |= chosen;
        ctas -= bits::count(chosen);
      }
    }
    choice.masks.push_back(mask);
    return true;
  }
};

}  // namespace heddle::cwd

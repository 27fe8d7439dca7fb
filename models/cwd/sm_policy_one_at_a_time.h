// The prior art (CWD-08): one CTA per decision, to the least used of all SMs.
#pragma once

#include "cwd/sm_bits.h"
#include "cwd/sm_policy.h"

namespace heddle::cwd {

class OneAtATimePolicy final : public SmPolicy {
 public:
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

}  // namespace heddle::cwd

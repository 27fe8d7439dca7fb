// Filling the lake within one domain (CWD-15): CWD-03 to CWD-05 for the CTAs of one CGA.
#pragma once

#include <algorithm>

#include "cwd/sm_bits.h"
#include "cwd/sm_policy.h"

namespace heddle::cwd {

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

}  // namespace heddle::cwd

// The opposite of the lake, for experiments: as few SMs as possible are opened up, and empty ones stay empty.
#pragma once

#include <algorithm>

#include "cwd/sm_bits.h"
#include "cwd/sm_policy.h"

namespace heddle::cwd {

// The SM with fewest free slots is filled first, then the next; equals in priority order. The masks go round: the first
// CTA of every SM, then the second of those that have one, so that they are few (CWD-30).
class PackedPolicy final : public SmPolicy {
 public:
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

}  // namespace heddle::cwd

// Questions that policies ask of the SMs that they see; sets of SMs are bits of a GPC's mask.
#pragma once

#include <algorithm>
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

}  // namespace heddle::cwd

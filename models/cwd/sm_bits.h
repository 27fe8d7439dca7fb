// Sets of SMs as bits of a GPC's mask: what policies and models do with them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cwd/sm_policy.h"

namespace heddle::cwd {

constexpr std::uint64_t sm_bit(std::uint32_t index) { return std::uint64_t{1} << index; }

inline std::uint32_t population(std::uint64_t mask) { return static_cast<std::uint32_t>(__builtin_popcountll(mask)); }

// Calls visit(bit index) for every member, lowest first.
template <class Visit>
void for_each_sm(std::uint64_t mask, Visit visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<std::uint32_t>(__builtin_ctzll(mask)));
}

// The members that have at least `level` free slots.
inline std::uint64_t with_free(const SmView& view, std::uint32_t level) {
  std::uint64_t found = 0;
  for_each_sm(view.members, [&](std::uint32_t sm) {
    if (view.free[sm] >= level) found |= sm_bit(sm);
  });
  return found;
}

inline std::uint32_t most_free(const SmView& view) {
  std::uint32_t most = 0;
  for_each_sm(view.members, [&](std::uint32_t sm) { most = std::max<std::uint32_t>(most, view.free[sm]); });
  return most;
}

inline std::uint32_t total_free(const SmView& view) {
  std::uint32_t total = 0;
  for_each_sm(view.members, [&](std::uint32_t sm) { total += view.free[sm]; });
  return total;
}

// The first `count` of the candidates in priority order: those whose exclusive prefix population count is below it
// (CWD-05).
inline std::uint64_t first_by_priority(std::uint64_t candidates, std::uint32_t count,
                                       const std::vector<std::uint32_t>& priority) {
  std::uint64_t selected = 0;
  for (const std::uint32_t sm : priority) {
    if (count == 0) break;
    if ((candidates & sm_bit(sm)) == 0) continue;
    selected |= sm_bit(sm);
    --count;
  }
  return selected;
}

}  // namespace heddle::cwd

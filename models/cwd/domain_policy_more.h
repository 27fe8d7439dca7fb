// Policies for the choice between domains that remember what they did, or look at what waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cwd/domain_policy.h"

namespace heddle::cwd {

// All that tie for the greatest speed receive a CGA in the same step (CWD-13). `kept_free`: a domain that is left out,
// or none.
constexpr std::uint32_t kNoDomain = ~std::uint32_t{0};
inline void choose_fastest(const DomainView& view, std::uint32_t kept_free, std::vector<std::uint32_t>& chosen) {
  const auto can = [&](std::uint32_t domain) { return view.answers[domain].valid && domain != kept_free; };
  std::uint32_t greatest = 0;
  for (const std::uint32_t domain : view.priority) {
    if (can(domain)) greatest = std::max(greatest, view.answers[domain].speed);
  }
  std::uint64_t cgas = view.cgas;
  for (const std::uint32_t domain : view.priority) {
    if (cgas == 0) break;
    if (!can(domain) || view.answers[domain].speed != greatest) continue;
    chosen.push_back(domain);
    --cgas;
  }
}

// CGAs go round the domains that have room, whatever their speed. It goes on where it stopped, in the next session too.
class RoundRobinPolicy final : public DomainPolicy {
 public:
  void choose(const DomainView& view, std::vector<std::uint32_t>& chosen) override {
    std::uint32_t& next = next_[{view.level, view.within}];  // position in the priority order
    const auto domains = static_cast<std::uint32_t>(view.priority.size());
    const std::uint32_t first = next;
    std::uint64_t cgas = view.cgas;
    for (std::uint32_t i = 0; i < domains && cgas > 0; ++i) {
      const std::uint32_t position = (first + i) % domains;
      if (!view.answers[view.priority[position]].valid) continue;
      chosen.push_back(view.priority[position]);
      next = (position + 1) % domains;
      --cgas;
    }
  }
  void reset() override { next_.clear(); }

 private:
  std::map<std::pair<arch::CgaLevel, std::uint32_t>, std::uint32_t> next_;  // by level and domain around it
};

// While a larger CGA waits, the domain with most slots left is kept for it, unless no other has room; otherwise as
// `fastest`.
class LookaheadPolicy final : public DomainPolicy {
 public:
  bool serves_ties() const override { return true; }
  void choose(const DomainView& view, std::vector<std::uint32_t>& chosen) override {
    std::uint32_t emptiest = kNoDomain;
    std::uint32_t valid = 0;
    for (const std::uint32_t domain : view.priority) {
      if (!view.answers[domain].valid) continue;
      ++valid;
      if (emptiest == kNoDomain || view.answers[domain].free > view.answers[emptiest].free) emptiest = domain;
    }
    const bool keep = valid > 1 && view.waiting.larger_than(view.ctas);
    choose_fastest(view, keep ? emptiest : kNoDomain, chosen);
  }
};

}  // namespace heddle::cwd

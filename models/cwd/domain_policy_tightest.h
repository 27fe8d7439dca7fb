// Best fit: a CGA goes where least room would remain, so that the emptiest domains stay free for larger CGAs.
#pragma once

#include <cstdint>
#include <vector>

#include "cwd/domain_policy.h"

namespace heddle::cwd {

class TightestPolicy final : public DomainPolicy {
 public:
  void choose(const DomainView& view, std::vector<std::uint32_t>& chosen) override {
    const DomainAnswer* best = nullptr;
    std::uint32_t where = 0;
    for (const std::uint32_t domain : view.priority) {  // among equals the first one stays
      const DomainAnswer& answer = view.answers[domain];
      if (!answer.valid || (best != nullptr && answer.speed >= best->speed)) continue;
      best = &answer;
      where = domain;
    }
    if (best != nullptr) chosen.push_back(where);
  }
};

}  // namespace heddle::cwd

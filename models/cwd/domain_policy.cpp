#include "cwd/domain_policy.h"

#include <algorithm>

#include "cwd/domain_policy_tightest.h"
#include "cwd/policy_table.h"

namespace heddle::cwd {
namespace {

// All that tie for the greatest speed receive a CGA in the same step (CWD-13).
class FastestPolicy final : public DomainPolicy {
 public:
  bool serves_ties() const override { return true; }
  void choose(const std::vector<DomainAnswer>& answers, const std::vector<std::uint32_t>& priority, std::uint64_t cgas,
              std::vector<std::uint32_t>& chosen) const override {
    std::uint32_t greatest = 0;
    for (const DomainAnswer& answer : answers) {
      if (answer.valid) greatest = std::max(greatest, answer.speed);
    }
    for (const std::uint32_t domain : priority) {
      if (cgas == 0) break;
      if (!answers[domain].valid || answers[domain].speed != greatest) continue;
      chosen.push_back(domain);
      --cgas;
    }
  }
};

class FirstFitPolicy final : public DomainPolicy {
 public:
  void choose(const std::vector<DomainAnswer>& answers, const std::vector<std::uint32_t>& priority, std::uint64_t,
              std::vector<std::uint32_t>& chosen) const override {
    const auto first = std::find_if(priority.begin(), priority.end(),
                                    [&answers](std::uint32_t domain) { return answers[domain].valid; });
    if (first != priority.end()) chosen.push_back(*first);
  }
};

template <class Made>
PolicyEntry<DomainPolicy> entry(const char* name, const char* description) {
  return policy_entry<DomainPolicy, Made>(name, description);
}

PolicyTable<DomainPolicy> table() {
  return {
      entry<FastestPolicy>("fastest", "all that tie for the greatest speed, at the same time (CWD-13)"),
      entry<FirstFitPolicy>("first_fit", "the first in priority order that has room"),
      entry<TightestPolicy>("tightest", "the one where least room remains"),
  };
}

}  // namespace

std::unique_ptr<DomainPolicy> make_domain_policy(const std::string& name) {
  return make_policy(table(), name, "policy for the choice between GPCs");
}

std::vector<std::pair<std::string, std::string>> domain_policies() { return list_policies(table()); }

}  // namespace heddle::cwd

#include "cwd/domain_policy.h"

#include <algorithm>

#include "cwd/domain_policy_more.h"
#include "cwd/domain_policy_tightest.h"
#include "cwd/policy_table.h"

namespace heddle::cwd {
namespace {

struct DomainSetup {};  // these policies need to know nothing of the machine

class FastestPolicy final : public DomainPolicy {
 public:
  bool serves_ties() const override { return true; }
  void choose(const DomainView& view, std::vector<std::uint32_t>& chosen) override {
    choose_fastest(view, kNoDomain, chosen);
  }
};

class FirstFitPolicy final : public DomainPolicy {
 public:
  void choose(const DomainView& view, std::vector<std::uint32_t>& chosen) override {
    const auto first = std::find_if(view.priority.begin(), view.priority.end(),
                                    [&view](std::uint32_t domain) { return view.answers[domain].valid; });
    if (first != view.priority.end()) chosen.push_back(*first);
  }
};

template <class Made>
PolicyEntry<DomainPolicy, DomainSetup> entry(const char* name, const char* description) {
  return policy_entry<DomainPolicy, DomainSetup, Made>(name, description);
}

PolicyTable<DomainPolicy, DomainSetup> table() {
  return {
      entry<FastestPolicy>("fastest", "all that tie for the greatest speed, at the same time (CWD-13)"),
      entry<FirstFitPolicy>("first_fit", "the first in priority order that has room"),
      entry<TightestPolicy>("tightest", "the one where least room remains"),
      entry<RoundRobinPolicy>("round_robin", "one after another, whatever their speed, from where it stopped"),
      entry<LookaheadPolicy>("lookahead", "as fastest, but the emptiest is kept for a larger CGA that waits"),
  };
}

}  // namespace

std::unique_ptr<DomainPolicy> make_domain_policy(const std::string& name) {
  return make_policy(table(), name, DomainSetup{}, "policy for the choice between GPCs");
}

std::vector<std::pair<std::string, std::string>> domain_policies() { return list_policies(table()); }

}  // namespace heddle::cwd

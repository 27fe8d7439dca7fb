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

void CutTies::narrow(std::vector<DomainAnswer>& answers, const std::vector<std::uint32_t>& priority) {
  if (!last_.has_value()) return;
  const protocol::CutTie tie = *last_;
  last_.reset();
  std::uint32_t fastest = 0;
  bool after = false;  // the last one served
  bool any = false;
  std::vector<bool> goes_on(answers.size());
  for (const std::uint32_t domain : priority) {
    const DomainAnswer& answer = answers[domain];
    if (answer.valid && (after || !tie.stands)) fastest = std::max(fastest, answer.speed);
    if (after && answer.valid && answer.speed == tie.speed) goes_on[domain] = any = true;
    after = after || domain == tie.domain;
  }
  if (!any || fastest != tie.speed) return;
  for (std::size_t d = 0; d < answers.size(); ++d) answers[d].valid = answers[d].valid && goes_on[d];
}

void CutTies::note(const std::vector<DomainAnswer>& answers, const std::vector<std::uint32_t>& chosen) {
  const std::uint32_t last = chosen.back();
  for (std::uint32_t d = 0; d < answers.size(); ++d) {
    if (!answers[d].valid || answers[d].speed != answers[last].speed) continue;
    if (std::find(chosen.begin(), chosen.end(), d) == chosen.end()) noted_ = {last, answers[last].speed};
  }
}

std::unique_ptr<DomainPolicy> make_domain_policy(const std::string& name) {
  return make_policy(table(), name, DomainSetup{}, "policy for the choice between GPCs");
}

std::vector<std::pair<std::string, std::string>> domain_policies() { return list_policies(table()); }

}  // namespace heddle::cwd

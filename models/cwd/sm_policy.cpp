#include "cwd/sm_policy.h"

#include "cwd/policy_table.h"
#include "cwd/sm_policies.h"

namespace heddle::cwd {
namespace {

template <class Made>
PolicyEntry<SmPolicy> entry(const char* name, const char* description) {
  return policy_entry<SmPolicy, Made>(name, description);
}

PolicyTable<SmPolicy> table() {
  return {
      entry<LakePolicy>("lake", "most free slots first, a whole level of SMs at once (CWD-15)"),
      entry<TpcPairsPolicy>("tpc_pairs", "one CTA per SM, TPCs with room on all their SMs first (CWD-16)"),
      entry<OneAtATimePolicy>("one_at_a_time", "the prior art: one CTA per step, to the least used SM (CWD-08)"),
      entry<PackedPolicy>("packed", "fewest free slots first: one SM is filled before the next"),
  };
}

}  // namespace

std::unique_ptr<SmPolicy> make_sm_policy(const std::string& name) {
  return make_policy(table(), name, "policy for the SMs of a GPC");
}

std::vector<std::pair<std::string, std::string>> sm_policies() { return list_policies(table()); }

}  // namespace heddle::cwd

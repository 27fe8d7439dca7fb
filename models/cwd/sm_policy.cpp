#include "cwd/sm_policy.h"

#include "cwd/policy_table.h"
#include "cwd/sm_policies.h"

namespace heddle::cwd {
namespace {

template <class Made>
PolicyEntry<SmPolicy, SmSetup> entry(const char* name, const char* description) {
  return policy_entry<SmPolicy, SmSetup, Made>(name, description);
}

PolicyTable<SmPolicy, SmSetup> table() {
  return {
      entry<LakePolicy>("lake", "most free slots first, a whole level of SMs at once (CWD-15)"),
      entry<TpcPairsPolicy>("tpc_pairs",
                            "one CTA per SM, TPCs with room on both SMs first, the emptiest of them (CWD-16)"),
      entry<OneAtATimePolicy>("one_at_a_time", "the prior art: one CTA per step, to the least used SM (CWD-08)"),
      entry<PackedPolicy>("packed", "fewest free slots first: one SM is filled before the next"),
      entry<RotatingPolicy>("rotating", "as lake, but ties begin behind the SM that was served last"),
      entry<YieldingPolicy>("yielding", "as packed while a larger CGA waits, else as lake"),
  };
}

}  // namespace

std::unique_ptr<SmPolicy> make_sm_policy(const std::string& name, const SmSetup& setup) {
  return make_policy(table(), name, setup, "policy for the SMs of a GPC");
}

std::vector<std::pair<std::string, std::string>> sm_policies() { return list_policies(table()); }

}  // namespace heddle::cwd

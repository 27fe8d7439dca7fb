#include "cwd/plain_policy.h"

#include "cwd/plain_policies.h"
#include "cwd/policy_table.h"

namespace heddle::cwd {
namespace {

template <class Made>
PolicyEntry<PlainPolicy, PlainSetup> entry(const char* name, const char* description) {
  return policy_entry<PlainPolicy, PlainSetup, Made>(name, description);
}

PolicyTable<PlainPolicy, PlainSetup> table() {
  return {
      entry<LakePlain>("lake", "most free slots first, a whole level of SMs at once (CWD-03)"),
      entry<GpcStripedPlain>("gpc_striped", "consecutive CTAs go round the GPCs"),
      entry<PackedPlain>("packed", "fewest SMs awake: one is filled before the next, those that work already first"),
      entry<CappedPlain>("capped", "as lake, but a share of every SM is left free (plain_share)"),
      entry<YieldingPlain>("yielding", "as packed while a CGA waits, else as lake"),
      entry<OneAtATimePlain>("one_at_a_time", "the prior art: one CTA per step, to the least used SM (CWD-08)"),
  };
}

}  // namespace

std::unique_ptr<PlainPolicy> make_plain_policy(const std::string& name, const PlainSetup& setup) {
  return make_policy(table(), name, setup, "policy for plain grids");
}

std::vector<std::pair<std::string, std::string>> plain_policies() { return list_policies(table()); }

}  // namespace heddle::cwd

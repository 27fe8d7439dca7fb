// Which SMs of a GPC (or of a CPC) the CTAs of one CGA go to (CWD-15, CWD-16). To add one:
// docs/howto/add-a-placement-policy.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/topology.h"
#include "cwd/lake_fill.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

using GpcSlots = std::array<std::uint16_t, arch::kMaxSmsPerGpc>;  // free slots by bit of the GPC's masks

// The SMs of one domain, as a policy sees them. Bits are those of the GPC's masks.
struct SmView {
  const arch::Topology::Gpc& gpc;
  std::uint64_t members;                                           // the SMs of the domain
  const GpcSlots& free;                                            // beyond the members: not to be looked at
  const std::vector<std::uint32_t>& priority;                      // all bits of the GPC, most preferred first
  std::uint32_t gpc_id = 0;                                        // which GPC it is
  const protocol::WaitingWork& waiting = protocol::kNothingWaits;  // behind the task whose CGA this is
};

// The answer: CTAs in launch order. Each mask gives one CTA to each of its SMs, the least significant bit first.
struct SmChoice {
  std::vector<std::uint64_t> masks;
  std::uint32_t steps = 0;  // decisions one after another: they take time
  // SMs of equal load were selected by a prefix count over all of the domain, which takes time (CWD-05). A policy that
  // finds SM after SM pays its steps instead.
  bool counts_prefix = false;
};

class SmPolicy {
 public:
  virtual ~SmPolicy() = default;
  // All `ctas` CTAs (1 or more) or none: then false, and the masks do not matter. Never more on an SM than its free
  // slots. Appends to the masks and adds to the steps, which count for a refusal too. A policy may remember what it has
  // chosen, by GPC: the same object serves all of them. A choice is an answer to a query, which may be cancelled.
  virtual bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) = 0;
  // Whether it never puts two CTAs of a CGA on an SM, as multicast mode demands (CWD-16).
  virtual bool one_per_sm() const { return false; }
  // Forgets what it remembers.
  virtual void reset() {}
};

// What the machine tells its policies once.
struct SmSetup {
  LevelSearch level_search = LevelSearch::scan;
  std::uint32_t max_slots = 32;  // the most free slots that an SM can have: what a bisection searches (CWD-04)
};

// A policy by name. Throws InputError with the nearest name.
std::unique_ptr<SmPolicy> make_sm_policy(const std::string& name, const SmSetup& setup = {});
// All of them: name, and a line of description.
std::vector<std::pair<std::string, std::string>> sm_policies();

}  // namespace heddle::cwd

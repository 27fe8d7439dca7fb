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

namespace heddle::cwd {

using GpcSlots = std::array<std::uint16_t, arch::kMaxSmsPerGpc>;  // free slots by bit of the GPC's masks

// The SMs of one domain, as a policy sees them. Bits are those of the GPC's masks.
struct SmView {
  const arch::Topology::Gpc& gpc;
  std::uint64_t members;                       // the SMs of the domain
  const GpcSlots& free;                        // beyond the members: not to be looked at
  const std::vector<std::uint32_t>& priority;  // all bits of the GPC, most preferred first
};

// The answer: CTAs in launch order. Each mask gives one CTA to each of its SMs, the least significant bit first.
struct SmChoice {
  std::vector<std::uint64_t> masks;
  std::uint32_t steps = 0;  // decisions one after another: they take time
};

class SmPolicy {
 public:
  virtual ~SmPolicy() = default;
  // All `ctas` CTAs (1 or more) or none: then false, and the masks do not matter. Never more on an SM than its free
  // slots. Appends to the masks and adds to the steps, which count for a refusal too. Has no state: the same view gives
  // the same choice.
  virtual bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) const = 0;
  // Whether it never puts two CTAs of a CGA on an SM, as multicast mode demands (CWD-16).
  virtual bool one_per_sm() const { return false; }
  // Whether it selects among SMs of equal load by a prefix count over all of them, which takes time (CWD-05); one that
  // finds SM after SM pays its steps instead.
  virtual bool counts_prefix() const { return true; }
};

// A policy by name. Throws InputError with the nearest name.
std::unique_ptr<SmPolicy> make_sm_policy(const std::string& name);
// All of them: name, and a line of description.
std::vector<std::pair<std::string, std::string>> sm_policies();

}  // namespace heddle::cwd

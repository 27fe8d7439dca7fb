// Which SMs the CTAs of a plain grid go to (CWD-03 to CWD-08). To add a policy: docs/howto/add-a-placement-policy.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/topology.h"
#include "cwd/lake_fill.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

// What a policy sees when a session of a plain grid begins.
struct PlainView {
  const std::vector<std::uint16_t>& slots;  // free slots by SM id, less what the policy withholds; one at least is free
  std::uint64_t ctas = 1;                   // most CTAs that the session may place
  const protocol::WaitingWork& waiting = protocol::kNothingWaits;  // behind the grid
};

class PlainPolicy {
 public:
  virtual ~PlainPolicy() = default;
  // As many of the CTAs as have room, at least one; never more on an SM than its free slots. The levels of the answer
  // are masks in launch order, and a level is no more than a number to show. Valid until the next call. A policy may
  // remember what it has placed.
  virtual const Placement& place(const PlainView& view) = 0;
  // Whether it leaves slots free that a grid could use. Then withhold() takes them from `slots` before every session;
  // `empty`: slots of an empty SM, at least one of which stays.
  virtual bool withholds() const { return false; }
  virtual void withhold(std::vector<std::uint16_t>& /*slots*/, std::uint32_t /*empty*/) const {}
  // Forgets what it remembers.
  virtual void reset() {}
};

// What the machine tells its policies once. The topology must outlive them.
struct PlainSetup {
  const arch::Topology& topology;
  std::uint32_t max_slots = 32;  // the most free slots that an SM can have
  LevelSearch level_search = LevelSearch::bisection;
  std::vector<std::uint32_t> sm_priority;  // SM ids, most preferred first
  std::uint32_t most_percent = 100;        // capped: of the slots of an empty SM
};

// A policy by name. Throws InputError with the nearest name.
std::unique_ptr<PlainPolicy> make_plain_policy(const std::string& name, const PlainSetup& setup);
// All of them: name, and a line of description.
std::vector<std::pair<std::string, std::string>> plain_policies();

}  // namespace heddle::cwd

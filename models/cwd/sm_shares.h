// Shares below a TPC (PRT-11): on how many SMs a subcontext may have CTAs at a time, and how many of the warps of an SM
// they may have there. They hold beside masks and credits, in every mode.
//
// A share is a percentage of the machine's SMs, or of an SM's warps, rounded up, as that of threads of CUDA's
// Multi-Process Service is. 100: no limit, which is what every subcontext has at first.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/topology.h"
#include "protocol/host_task.h"

namespace heddle::cwd {

using protocol::ShareRefusal;

class SmShares {
 public:
  // `warps`: of an SM. `priority`: SM ids, most preferred first. The topology must outlive it.
  SmShares(const arch::Topology& topology, std::uint32_t warps, std::vector<std::uint32_t> priority);

  // 1 to 100. What runs is not stopped: of more SMs than it may have, those with the fewest of its CTAs get nothing
  // any more.
  ShareRefusal set_sms(std::uint32_t subcontext, std::uint64_t percent);
  ShareRefusal set_warps(std::uint32_t subcontext, std::uint64_t percent);

  std::uint32_t most_sms(std::uint32_t subcontext) const { return rows_[subcontext].most_sms; }
  std::uint32_t most_warps(std::uint32_t subcontext) const { return rows_[subcontext].most_warps; }
  // Of the warps of an SM, from 0 to 1.
  double part_of_sm(std::uint32_t subcontext) const { return static_cast<double>(most_warps(subcontext)) / warps_; }
  bool limited(std::uint32_t subcontext) const {
    return most_sms(subcontext) < topology_.sms() || most_warps(subcontext) < warps_;
  }
  std::uint32_t sms_held(std::uint32_t subcontext) const { return rows_[subcontext].held; }
  std::uint32_t warps_on(std::uint32_t subcontext, std::uint32_t sm) const { return rows_[subcontext].warps[sm]; }

  // A CTA of so many warps goes to the SM, or has ended there.
  void launch(std::uint32_t subcontext, std::uint32_t sm, std::uint32_t warps);
  void complete(std::uint32_t subcontext, std::uint32_t sm, std::uint32_t warps);

  // What a CTA asks for.
  struct Need {
    std::uint32_t warps = 1;
    bool clustered = false;              // CGAs need SMs of one GPC
    std::optional<std::uint32_t> first;  // GPC whose SMs come first, and then those of the GPCs after it
  };
  // Takes from the free slots, by SM id, what the subcontext cannot have. Of SMs that it does not hold it sees as many
  // as it may still take: for CGAs those of one GPC after another, else those with most free slots; equal ones in the
  // order of priority. True if something was taken.
  bool restrict(std::uint32_t subcontext, const Need& need, std::vector<std::uint16_t>& slots);

  // Some subcontext is.
  bool any_limited() const;
  // Nothing runs.
  bool empty() const;
  void reset();

 private:
  struct Row {
    std::vector<std::uint32_t> ctas;  // by SM
    std::vector<std::uint32_t> warps;
    std::uint32_t held = 0;  // SMs
    std::uint32_t most_sms = 0;
    std::uint32_t most_warps = 0;
  };
  bool limit_warps(const Row& row, std::uint32_t warps, std::vector<std::uint16_t>& slots) const;
  bool limit_sms(const Row& row, const Need& need, std::vector<std::uint16_t>& slots);

  const arch::Topology& topology_;
  const std::uint32_t warps_;
  std::vector<std::uint32_t> rank_;  // by SM id: its place in the priority order
  std::vector<Row> rows_;            // by subcontext
  // The last look at what is free.
  std::vector<std::uint32_t> order_;
  std::vector<std::uint32_t> open_;  // by GPC: SMs that it could use
};

}  // namespace heddle::cwd

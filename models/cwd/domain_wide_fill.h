// CGAs of CTAs over a whole domain: a GPU_CGA of CTAs goes to SMs of the GPU as a plain grid does, a uGPU_CGA of CTAs
// to SMs of one uGPU, all or nothing (CWD-09).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/cluster.h"
#include "cwd/domain_policy.h"
#include "cwd/lake_fill.h"

namespace heddle::cwd {

// One GPU_CGA or uGPU_CGA of CTAs that has a place.
struct DomainWideCga {
  std::uint32_t ugpu = 0;   // of a uGPU_CGA
  std::uint32_t speed = 0;  // fewest free slots left on an SM that receives a CTA
  Placement placement;      // levels: masks in launch order
};

class DomainWideFill {
 public:
  // Topology and policy must outlive it. Among uGPUs of equal speed the lower ones come first.
  DomainWideFill(const arch::Topology& topology, std::uint32_t max_slots, LevelSearch method,
                 const std::vector<std::uint32_t>& sm_priority, const DomainPolicy& policy, bool one_at_a_time = false);

  // Up to `units` CGAs of `ctas` CTAs each, in launch order; `level`: gpu or ugpu. `slots`: free slots by SM id; works
  // on a copy.
  const std::vector<DomainWideCga>& place(const std::vector<std::uint16_t>& slots, std::uint64_t ctas,
                                          std::uint64_t units, arch::CgaLevel level);
  // Of the last call: steps one after another (uGPUs search in parallel), and what it left of the slots.
  std::uint32_t steps() const { return steps_; }
  const std::vector<std::uint16_t>& left() const { return left_; }

 private:
  struct Arena {
    LakeFill lake;
    std::vector<std::uint32_t> sm_ids;
    bool known = false;  // the answer and the placement stand
    Placement placement;
  };
  std::uint32_t search(Arena& arena, DomainAnswer& answer, std::uint64_t ctas);
  void take(const Placement& placement);

  const arch::Topology& topology_;
  const DomainPolicy& policy_;
  std::vector<Arena> whole_;  // one: the GPU
  std::vector<Arena> ugpus_;
  std::vector<std::uint32_t> priority_;
  std::vector<DomainAnswer> answers_;
  std::vector<std::uint32_t> chosen_;
  std::vector<std::uint16_t> left_;
  std::vector<DomainWideCga> units_;
  std::uint32_t steps_ = 0;
};

}  // namespace heddle::cwd

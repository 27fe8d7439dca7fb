// "Filling the lake": which SMs receive the CTAs of a plain grid (CWD-03 to CWD-06).
//
// SMs are levels of free slots; CTAs go to the SMs with most free slots first, one level at a time, and every SM on a
// level receives one. Only the final level can be partly filled.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/cluster.h"
#include "arch/topology.h"
#include "cwd/cost_laws.h"
#include "cwd/domain_policy.h"

namespace heddle::cwd {

enum class LevelSearch {
  scan,       // from the highest level down, one level per step
  bisection,  // half the levels per step
};

// One bit per SM of each GPC, as in launch packets: element = GPC, bit = SM of the GPC.
using SmMask = std::vector<std::uint64_t>;

struct FinalLevel {
  std::uint32_t level = 0;  // 1 …; the final level is the one on which the last CTA is placed. 0: no slot, or no CTA
  std::uint64_t above = 0;  // CTAs that the levels above it take
  std::uint32_t steps = 0;  // of the search
};

// `at_least[l]`: SMs with at least l free slots; at_least[0] is not used. `levels`: the search space of the bisection,
// the most slots that an SM can have.
FinalLevel find_final_level(const std::vector<std::uint32_t>& at_least, std::uint64_t ctas, LevelSearch method,
                            std::uint32_t levels);

// Steps of a search among levels from 1 to `levels` of which `highest` is the highest that exists, and `final_level`
// the one that is found.
std::uint32_t level_search_steps(LevelSearch method, std::uint32_t highest, std::uint32_t final_level,
                                 std::uint32_t levels);

// Those members of `candidates` whose number of earlier members, in `priority` order, is below `remaining`: the
// exclusive prefix population count of CWD-05. `priority` lists SM ids.
SmMask select_by_prefix(const SmMask& candidates, std::uint64_t remaining, const std::vector<std::uint32_t>& priority,
                        const arch::Topology& topology);

struct LevelMask {
  std::uint32_t level = 0;
  std::uint64_t ctas = 0;
  SmMask mask;
};

struct Placement {
  std::uint64_t ctas = 0;   // placed in all; less than asked for when the slots ran out (CWD-06)
  std::uint32_t steps = 0;  // of the level search
  std::uint32_t prefix_levels =
      0;                          // of the tree of the prefix count, up and down; 0: no level is partly filled (CWD-05)
  bool one_by_one = false;        // every step decides one mask, which can leave at once (CWD-08)
  std::vector<LevelMask> levels;  // highest first: the order of launching
};

struct LakeOptions {
  // The prior art, for comparison: every step compares all SMs and gives one CTA to the SM with most free slots
  // (CWD-08). Every mask then has one bit; a step is a CTA.
  bool one_at_a_time = false;
  // The GPCs of the lake, for uGPU_CGAs; empty: all. Other GPCs' SMs receive nothing, whatever their slots.
  std::vector<std::uint32_t> gpcs;
};

class LakeFill {
 public:
  // `max_slots`: the most free slots that an SM can have. `priority`: SM ids, a permutation.
  LakeFill(const arch::Topology& topology, std::uint32_t max_slots, LevelSearch method,
           std::vector<std::uint32_t> priority, const LakeOptions& options = {});

  // `slots`: free slots by SM id. Never places more CTAs on an SM than its slots (CWD-07).
  const Placement& place(const std::vector<std::uint16_t>& slots, std::uint64_t ctas);

 private:
  const Placement& fill(const std::vector<std::uint16_t>& slots, std::uint64_t ctas);
  void push_one_at_a_time(std::uint32_t level, const SmMask& reached, std::uint64_t ctas);

  const arch::Topology& topology_;
  std::uint32_t max_slots_;
  LevelSearch method_;
  std::vector<std::uint32_t> priority_;
  bool one_at_a_time_;
  std::uint32_t prefix_levels_;         // of a prefix count over the lake's SMs
  std::vector<std::uint32_t> outside_;  // SMs beyond the lake
  std::vector<std::uint16_t> inside_;   // free slots of the last call, if there are any such
  std::vector<std::uint32_t> gpc_of_;
  std::vector<std::uint64_t> bit_of_;
  std::vector<std::uint32_t> at_least_;
  std::vector<std::uint64_t> at_level_;  // masks of the SMs exactly on a level: [level][GPC]
  Placement result_;
};

// CGAs of CTAs over a whole domain: a GPU_CGA of CTAs goes to SMs of the GPU as a plain grid does, a uGPU_CGA of CTAs
// to SMs of one uGPU, all or nothing (CWD-09).

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
                 const std::vector<std::uint32_t>& sm_priority, DomainPolicy& policy, bool one_at_a_time = false);

  // Up to `units` CGAs of `ctas` CTAs each, in launch order; `level`: gpu or ugpu. `slots`: free slots by SM id; works
  // on a copy. `waiting`: behind the task of the session. `tie`: that the task's last session cut off.
  const std::vector<DomainWideCga>& place(const std::vector<std::uint16_t>& slots, std::uint64_t ctas,
                                          std::uint64_t units, arch::CgaLevel level,
                                          const protocol::WaitingWork& waiting = protocol::kNothingWaits,
                                          const std::optional<protocol::CutTie>& tie = {});
  // The tie of uGPUs in which the CGAs of the last call ran out, if one was cut off (CWD-13).
  const std::optional<protocol::CutTie>& cut_tie() const { return ties_.noted(); }
  // Of the last call: its work, for which uGPUs search in parallel and are then compared, and what it left of the
  // slots.
  const SearchWork& work() const { return work_; }
  const std::vector<std::uint16_t>& left() const { return left_; }

 private:
  struct Arena {
    LakeFill lake;
    std::vector<std::uint32_t> sm_ids;
    bool known = false;  // the answer and the placement stand
    Placement placement;
  };
  bool search(Arena& arena, DomainAnswer& answer, std::uint64_t ctas);
  void take(const Placement& placement);

  const arch::Topology& topology_;
  DomainPolicy& policy_;
  std::vector<Arena> whole_;  // one: the GPU
  std::vector<Arena> ugpus_;
  std::vector<std::uint32_t> priority_;
  std::vector<DomainAnswer> answers_;
  std::vector<DomainAnswer> offered_;  // of them, those among which a step chooses
  std::vector<std::uint32_t> chosen_;
  CutTies ties_;
  std::vector<std::uint16_t> left_;
  std::vector<DomainWideCga> units_;
  SearchWork work_;
};

}  // namespace heddle::cwd

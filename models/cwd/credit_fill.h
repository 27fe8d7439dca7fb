// Which SMs receive the CTAs of a plain grid under dynamic partitioning, CTA by CTA (PRT-03).
//
// With a credit left, every enabled TPC with room is a candidate; without one, the TPCs that the subcontext holds. A
// CTA goes to an SM whose free slots are at least those of every other candidate; among equals one of a held TPC comes
// first, then the SM priority order decides. A TPC is held from its first CTA on.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "cwd/lake_fill.h"
#include "cwd/tpc_quota.h"

namespace heddle::cwd {

// What the subcontext has to spend.
struct CreditPurse {
  std::int64_t credits = 0;
  std::uint32_t blocks = 0;
};

class CreditFill {
 public:
  // `priority`: SM ids, a permutation. `tpc_of`: by SM id, TPCs counted over the machine. `one_at_a_time`: every mask
  // has one bit, and a step is a CTA (CWD-08); otherwise it is a level, of which every SM receives one CTA.
  CreditFill(std::vector<std::uint32_t> priority, std::vector<std::uint32_t> tpc_of, const arch::Topology& topology,
             bool one_at_a_time);

  // `slots`: free slots by SM id; TPCs with a bar have none. `prices`: by TPC. Places as many of the CTAs as it can.
  const Placement& place(const std::vector<std::uint16_t>& slots, std::uint64_t ctas,
                         const std::vector<TpcPrice>& prices, const CreditPurse& purse);
  // TPCs that the last placement takes newly: credits that it needs.
  std::uint32_t new_tpcs() const { return new_tpcs_; }

 private:
  void fill_level(std::uint32_t level);
  bool pay(std::uint32_t tpc);
  void put(std::uint32_t sm, std::uint32_t level);
  bool open(std::uint32_t sm, std::uint32_t level) const;

  const arch::Topology& topology_;
  std::vector<std::uint32_t> priority_;
  std::vector<std::uint32_t> tpc_of_;
  std::vector<std::vector<std::uint32_t>> members_;  // by TPC: SMs in priority order
  bool one_at_a_time_;

  std::vector<std::uint16_t> slots_;
  std::vector<TpcPrice> prices_;
  CreditPurse purse_;
  std::uint64_t left_ = 0;
  std::uint32_t new_tpcs_ = 0;
  Placement result_;
};

}  // namespace heddle::cwd

// The barriers at which warps wait for each other: the named ones of a CTA, and that of a CGA (CGA-13).
#pragma once

#include <cstdint>

#include "arch/gpu_observation.h"
#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"

namespace heddle::sm {

class WarpScheduler;

class BarrierUnit final : private SmUnit, public IssueUnit {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    ReleaseQueue& releases;
    CtaSupervisor& supervisor;
    L1Cache& l1;
    PacketSender<protocol::ClusterNoticePacket>& notices;
  };
  BarrierUnit(const UnitContext& context, const Peers& peers)
      : SmUnit(context), peers_(peers), clusters_(gpu_observation(context.time).clusters) {}

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  IssueResult issue_deferred(std::uint32_t slot, const arch::Operation& operation) override;

  // The warp no longer counts at any barrier. False: a barrier of its CTA waits for a count that cannot be reached.
  bool warp_exits(std::uint32_t slot);
  // The barrier of the CGA has completed a phase, for the CTA, at `when`.
  void pass(Cta& cta, Cycle when);
  void reset() { free_ = 0; }

 private:
  IssueResult arrive(std::uint32_t slot, const arch::Operation& operation);
  void open(Cta& cta);
  IssueResult arrive_cluster(std::uint32_t slot);
  IssueResult wait_cluster(std::uint32_t slot, const arch::Operation& operation);
  void check_arrived(Cta& cta);

  Peers peers_;
  ClusterMap& clusters_;
  Cycle free_ = 0;  // when the next warp can arrive
};

}  // namespace heddle::sm

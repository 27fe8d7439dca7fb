// The barriers at which warps wait for each other: the named ones of a CTA, and that of a CGA (CGA-13).
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "arch/gpu_observation.h"
#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/cta_table.h"
#include "sm/dsmem_access.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"
#include "sm/l2_port.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

class LoadStoreUnit;
class WarpScheduler;

class BarrierUnit final : private SmUnit, public IssueUnit {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    ReleaseQueue& releases;
    CtaSupervisor& supervisor;
    L1Cache& l1;
    PacketSender<protocol::ClusterNoticePacket>& notices;
    SharedMemory& shared;
  };
  BarrierUnit(const UnitContext& context, const Peers& peers)
      : SmUnit(context), peers_(peers), clusters_(gpu_observation(context.time).clusters) {}

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  IssueResult issue_deferred(std::uint32_t slot, const arch::Operation& operation) override;

  // The warp no longer counts at any barrier. False: a barrier of its CTA waits for a count that cannot be reached.
  bool warp_exits(std::uint32_t slot);
  // The barrier of the CGA of that level has completed a phase, for the CTA, at `when`.
  void pass(Cta& cta, arch::CgaLevel level, Cycle when);
  // The CTA has been restored with its CGA, whose barrier knows nothing of it yet.
  void restored(Cta& cta) { check_arrived(cta, arch::barrier_index(arch::CgaLevel::gpc)); }
  void reset() { free_ = 0; }

 private:
  IssueResult arrive(std::uint32_t slot, const arch::Operation& operation);
  void open(Cta& cta);
  IssueResult arrive_cluster(std::uint32_t slot, std::size_t level);
  IssueResult wait_cluster(std::uint32_t slot, std::size_t level, arch::Order order);
  void check_arrived(Cta& cta, std::size_t level);

  Peers peers_;
  ClusterMap& clusters_;
  Cycle free_ = 0;  // when the next warp can arrive
};

// Asynchronous transaction barriers in a CTA's own shared memory (CGA-14). Those of other CTAs are DSMEM accesses.
class MbarrierUnit final : private SmUnit, public IssueUnit, public WindowListener {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    ReleaseQueue& releases;
    LoadStoreUnit& accesses;  // for those of other CTAs
    CtaSupervisor& supervisor;
    SharedMemory& shared;
    IssuePort& port;
    L1Cache& l1;
  };
  MbarrierUnit(const UnitContext& context, const Peers& peers) : SmUnit(context), peers_(peers) {}

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  IssueResult issue_deferred(std::uint32_t slot, const arch::Operation& operation) override;

  // Something in the CTA's window has changed, and is to be seen at `when`. A warp that waits for what is no mbarrier
  // any more stops its CTA.
  void look_at_waiters(Cta& cta, Cycle when);
  void window_changed(std::uint32_t window, std::uint32_t offset, Cycle when) override;
  // A warp has been restored that waited at its last operation, with those of its lanes; look_at_waiters() follows.
  void resume_wait(std::uint32_t slot, arch::LaneMask lanes, bool acquires);

  // For messages: how many phases of the mbarrier there have completed since the warp last found one complete, or since
  // it was initialised. Two are too many: their parity is that of none.
  struct Passes {
    std::uint64_t since_passed = 0;
  };
  Passes passes(std::uint32_t slot, std::uint64_t address) const;
  void reset() { phases_.clear(); }

 private:
  // Of an mbarrier since it was initialised.
  struct Phases {
    std::uint32_t parity = 0;
    std::uint64_t completed = 0;
    Cycle visible = 0;                  // when the last of these is to be seen
    std::vector<std::uint64_t> passed;  // by warp of its CTA: of those
  };
  static std::uint64_t key_of(std::uint32_t window, std::uint64_t address) {
    return std::uint64_t{window} << 32U | address;
  }
  void note_change(std::uint32_t window, std::uint64_t address, Cycle visible);
  void note_passed(const Warp& warp, std::uint64_t address);
  // Lanes whose phase has not completed. A lane that waits for what is no mbarrier is a fault.
  struct Waiting {
    arch::LaneMask lanes = 0;
    std::optional<IssueFault> wrong;
  };
  std::optional<IssueFault> check(std::uint32_t slot, const arch::Operation& operation) const;
  IssueResult change(std::uint32_t slot, const arch::Operation& operation);
  IssueResult wait(std::uint32_t slot, const arch::Operation& operation);
  Waiting waiting_lanes(std::uint32_t slot, const arch::Operation& operation) const;
  // Those lanes have found their phases complete; gives when the last of these is to be seen.
  Cycle note_passed(const Warp& warp, const arch::Operation& operation, arch::LaneMask lanes);
  Cycle visible_of(const Warp& warp, std::uint64_t address) const;
  void passed(std::uint32_t slot, Cycle when);
  // The port for an operation on one word of shared memory; gives the cycle in which its result is there.
  Cycle touch_shared() { return peers_.port.take(now(), 1) + params_.memory.shared_latency; }

  Peers peers_;
  std::unordered_map<std::uint64_t, Phases> phases_;  // by window and address; looked up only
};

}  // namespace heddle::sm

// Memory accesses of warps: what is wrong with them, which path they take, and what the warp waits for (MEM-05,
// MEM-06).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sm/accesses.h"
#include "sm/global_path.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"
#include "sm/l2_port.h"
#include "sm/shared_memory.h"
#include "sm/warp.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

struct Cta;
class ClusterTables;
class DeviceLaunchUnit;
class DsmemClient;
class Faults;
class FenceUnit;
class MbarrierUnit;

class LoadStoreUnit final : private SmUnit, public IssueUnit, public LoadClient {
 public:
  struct Paths {
    SharedMemory& shared;
    L1Cache& l1;
    IssuePort& port;
    GlobalPath& global;
    DsmemClient& dsmem;
    ClusterTables& tables;
  };
  struct Peers {
    WarpScheduler& scheduler;
    FenceUnit& fences;
    MbarrierUnit& mbarriers;
    Faults& faults;
    CtaSupervisor& supervisor;
  };
  LoadStoreUnit(const UnitContext& context, const Paths& paths, const Peers& peers)
      : SmUnit(context),
        paths_(paths),
        peers_(peers),
        copies_(context, peers.scheduler, &Warp::copies, WarpWait::copies, context.stats.stall_memory) {
    paths.global.serve_loads(*this);
  }

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  IssueResult issue_deferred(std::uint32_t slot, const arch::Operation& operation) override {
    return access(slot, operation);
  }
  // An access to device memory or to that of the cluster, which has been checked. What its release has to wait for has
  // been waited for.
  IssueResult access(std::uint32_t slot, const arch::Operation& operation);
  // What the source of a DSMEM access can see to be wrong with it: it has no target.
  std::optional<IssueFault> check_cluster(std::uint32_t slot, const arch::Operation& operation, std::uint32_t width);

  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override;
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;
  void load_ended(const PutOffLoad& load, const MemoryResult& result) override;

 private:
  std::optional<IssueFault> check(std::uint32_t slot, const arch::Operation& operation);
  std::optional<IssueFault> check_shared(std::uint32_t slot, const arch::Operation& operation) const;
  std::optional<IssueFault> check_copy(std::uint32_t slot, const arch::Operation& operation) const;
  std::optional<IssueFault> check_local(std::uint32_t slot, const arch::Operation& operation) const;
  IssueResult access_shared(std::uint32_t slot, const arch::Operation& operation);
  IssueResult access_local(std::uint32_t slot, const arch::Operation& operation);
  MemoryResult access_cluster(std::uint32_t slot, const arch::Operation& operation);
  static void count(Cta& cta, const MemoryResult& result);
  void check_races(const Cta& cta, const arch::Operation& operation) const;

  Paths paths_;
  Peers peers_;
  GroupWait copies_;
};

// Releases and fences: warps that wait until earlier requests of the SM have been answered (MEM-06).
class FenceUnit final : private SmUnit,
                        public IssueUnit,
                        public ReleaseQueue,
                        public FenceListener,
                        private EventHandler {
 public:
  struct Peers {
    FenceTracker& tracker;
    GlobalPath& global;
    L1Cache& l1;
    AccessClient& flushes;  // told of write-backs
    WarpScheduler& scheduler;
    DeviceLaunchUnit& launches;
  };
  FenceUnit(const UnitContext& context, const Peers& peers) : SmUnit(context), peers_(peers) {
    peers.tracker.listen(*this);
  }

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  IssueResult defer(std::uint32_t slot, const arch::Operation& operation) override;
  // All requests of the SM up to now have to be answered, reads included: what was read before must not come later.
  // Then the warp goes as far as `reach` says, and not before `earliest`, and does what WarpNext says.
  void wait(std::uint32_t slot, FenceReach reach, Cycle earliest = 0);
  // The slices have answered.
  void flushed(std::uint32_t slot, Cycle when) { released(slot, when); }
  // The warp has been killed.
  void forget(std::uint32_t slot);

  void request_ended(FenceTracker::Epoch epoch, Cycle when) override;
  void reset() { waiting_.clear(); }

 private:
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void acknowledge(std::uint32_t slot);
  void acknowledged(std::uint32_t slot);
  void released(std::uint32_t slot, Cycle when);

  Peers peers_;
  std::vector<std::uint32_t> waiting_;  // warp slots
};

}  // namespace heddle::sm

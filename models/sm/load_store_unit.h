// Memory accesses of warps: what is wrong with them, which path they take, and what the warp waits for (MEM-05,
// MEM-06).
#pragma once

#include <cstdint>
#include <optional>

#include "sm/accesses.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"
#include "sm/memory_port.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

class ClusterTables;
class DsmemClient;
class Faults;
class FenceUnit;
class GlobalPath;
class MbarrierUnit;
class WarpScheduler;

class LoadStoreUnit final : private SmUnit, public IssueUnit, public AccessClient {
 public:
  struct Paths {
    SharedMemory& shared;
    L1Cache& l1;
    MemoryPort& port;
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
      : SmUnit(context), paths_(paths), peers_(peers) {}

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

 private:
  std::optional<IssueFault> check(std::uint32_t slot, const arch::Operation& operation);
  std::optional<IssueFault> check_shared(std::uint32_t slot, const arch::Operation& operation) const;
  std::optional<IssueFault> check_copy(std::uint32_t slot, const arch::Operation& operation) const;
  IssueResult access_shared(std::uint32_t slot, const arch::Operation& operation);
  MemoryResult access_cluster(std::uint32_t slot, const arch::Operation& operation);
  IssueResult wait_for_copies(std::uint32_t slot, std::uint32_t groups);

  Paths paths_;
  Peers peers_;
};

}  // namespace heddle::sm

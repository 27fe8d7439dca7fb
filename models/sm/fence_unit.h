// Releases and fences: warps that wait until earlier requests of the SM have been answered (MEM-06).
#pragma once

#include <cstdint>
#include <vector>

#include "sm/accesses.h"
#include "sm/fence_tracker.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"

namespace heddle::sm {

class DeviceLaunchUnit;
class GlobalPath;
class WarpScheduler;

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
  // Then the warp does what WarpNext says. `flushes`: the slices write back what they hold as well.
  void wait(std::uint32_t slot, bool flushes);
  // The slices have written back.
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

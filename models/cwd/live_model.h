// What the CWD knows of the SMs: resources in use and free slots per task, updated by launches and completions
// (CWD-02).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/sm_limits.h"
#include "arch/topology.h"
#include "common/error.h"

namespace heddle::cwd {

// The resource tracker (TRT) of one TPC: what is in use on its SMs.
class ResourceTracker {
 public:
  ResourceTracker(const arch::ResourceVector& capacity, std::uint32_t sms)
      : capacity_(capacity), used_(sms), base_(sms) {}

  // `sm`: in the TPC.
  void launch(std::uint32_t sm, const arch::ResourceVector& need) {
    used_[sm].add(need);
    HEDDLE_CHECK(used_[sm].within(capacity_), "a CTA was launched on an SM without room for it");
  }
  void complete(std::uint32_t sm, const arch::ResourceVector& need) { used_[sm].subtract(need); }
  std::uint32_t free_slots(std::uint32_t sm, const arch::ResourceVector& need) const {
    return enabled_ ? arch::free_slots(capacity_, used_[sm], need) : 0;
  }
  const arch::ResourceVector& used(std::uint32_t sm) const { return used_[sm]; }

  // The entry of the TPC enable table: a disabled TPC has no free slots.
  bool enabled() const { return enabled_; }
  void enable(bool enabled) { enabled_ = enabled; }

  // What something else than CTAs holds, from the start and after every reset. It must fit.
  void preload(std::uint32_t sm, const arch::ResourceVector& amount) {
    base_[sm].add(amount);
    used_[sm].add(amount);
    HEDDLE_CHECK(used_[sm].within(capacity_), "an SM is to hold more than it can");
  }
  void unload(std::uint32_t sm, const arch::ResourceVector& amount) { used_[sm].subtract(amount); }

  void reset() {
    used_ = base_;
    enabled_ = true;
  }

 private:
  arch::ResourceVector capacity_;
  std::vector<arch::ResourceVector> used_;  // by SM of the TPC
  std::vector<arch::ResourceVector> base_;
  bool enabled_ = true;
};

class LiveModel {
 public:
  // `slots`: size of the task table. SMs and TPCs are named by their ids in the machine.
  LiveModel(const arch::ResourceVector& capacity, const arch::Topology& topology, std::uint32_t slots);

  void open(std::uint32_t slot, const arch::ResourceVector& need);
  // All CTAs of the task must have completed.
  void close(std::uint32_t slot);
  void launch(std::uint32_t slot, std::uint32_t sm);
  // A CTA of the task on the SM has given back that much shared memory before its end (CGA-09).
  void release(std::uint32_t slot, std::uint32_t sm, std::uint32_t shared_bytes);
  // `released`: of the CTA's shared memory, what it has given back before.
  void complete(std::uint32_t slot, std::uint32_t sm, std::uint32_t released = 0);

  // Free slots of every SM for the task, brought up to date. A session copies them: the snapshot (CWD-02).
  const std::vector<std::uint16_t>& free_slots(std::uint32_t slot);
  // Their sum: 0 only if no SM has a free slot for the task; cheap.
  std::uint64_t total_free(std::uint32_t slot);

  // TPC enable table. TPCs are numbered GPC by GPC.
  void enable(std::uint32_t tpc, bool enabled);
  bool enabled(std::uint32_t tpc) const { return trackers_[tpc].enabled(); }
  // TPCs of the GPC that are enabled.
  std::uint32_t enabled_tpcs(std::uint32_t gpc) const { return enabled_tpcs_[gpc]; }
  std::uint32_t tpcs() const { return static_cast<std::uint32_t>(trackers_.size()); }
  std::uint32_t tpc_of(std::uint32_t sm) const { return place_[sm].tpc; }
  std::uint32_t first_tpc(std::uint32_t gpc) const { return first_tpc_[gpc]; }
  std::uint32_t gpc_of(std::uint32_t tpc) const { return gpc_of_[tpc]; }

  // What something else than CTAs holds on an SM, from the start and after every reset, until it is unloaded.
  void preload(std::uint32_t sm, const arch::ResourceVector& amount);
  void unload(std::uint32_t sm, const arch::ResourceVector& amount);

  std::uint32_t running(std::uint32_t slot) const { return tasks_[slot].running; }
  const arch::ResourceVector& used(std::uint32_t sm) const { return trackers_[place_[sm].tpc].used(place_[sm].sm); }
  // No task, and no CTA anywhere: nothing in use but what was preloaded and is still there.
  bool empty() const;
  void reset();

 private:
  struct Place {
    std::uint32_t tpc = 0;
    std::uint32_t sm = 0;  // in the TPC
  };
  struct Task {
    bool open = false;
    arch::ResourceVector need;
    std::uint32_t running = 0;            // CTAs on all SMs
    std::vector<std::uint16_t> on_sm;     // CTAs of the task by SM
    std::vector<std::uint32_t> released;  // shared memory by SM that those have given back
    std::vector<std::uint16_t> slots;     // free slots by SM, except where stale
    std::uint64_t total = 0;              // sum of slots
    std::vector<std::uint8_t> stale;      // by SM: another task changed the SM
    std::vector<std::uint32_t> stale_list;
  };
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  void touch(Task& task, std::uint32_t sm);
  // All tasks but that one have to count the SM's free slots anew.
  void touch_others(std::uint32_t slot, std::uint32_t sm);
  void refresh(Task& task);

  std::vector<Place> place_;                    // by SM id
  std::vector<ResourceTracker> trackers_;       // by TPC
  std::vector<std::uint32_t> gpc_of_;           // by TPC
  std::vector<std::uint32_t> first_tpc_;        // by GPC
  std::vector<std::uint32_t> enabled_tpcs_;     // by GPC
  std::vector<arch::ResourceVector> expected_;  // by SM: what is preloaded now
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> open_;  // slots in use
  std::vector<arch::ResourceVector> preloaded_;
};

}  // namespace heddle::cwd

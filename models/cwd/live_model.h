// What the CWD knows of the SMs: resources in use and free slots per task, updated by launches and completions
// (CWD-02).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/sm_limits.h"
#include "arch/topology.h"
#include "cwd/resource_tracker.h"

namespace heddle::cwd {

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
  std::uint32_t tpcs() const { return static_cast<std::uint32_t>(trackers_.size()); }
  std::uint32_t tpc_of(std::uint32_t sm) const { return place_[sm].tpc; }

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

  std::vector<Place> place_;  // by SM id
  std::vector<ResourceTracker> trackers_;
  std::vector<arch::ResourceVector> expected_;  // by SM: what is preloaded now
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> open_;  // slots in use
  std::vector<arch::ResourceVector> preloaded_;
};

}  // namespace heddle::cwd

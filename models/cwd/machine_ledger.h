// What tasks have taken of the machine, and what is left of it: resources and free slots of the SMs (CWD-02), places in
// the pools of the GPCs (TSK-04), and what CGAs take besides (CWD-19). What subcontexts hold is the partition's.
#pragma once

#include <cstdint>

#include "cwd/cga_ledger.h"
#include "cwd/cwd_params.h"
#include "cwd/gpc_pools.h"
#include "cwd/live_model.h"

namespace heddle::cwd {

// What every GPC has for CGAs; the GPMs keep it, the distributor counts it (CWD-19).
struct GpcCgaLimits {
  std::uint32_t ids = 256;
  std::uint32_t barriers = 256;

  // GPC_CGAs that a GPC can hold at a time.
  std::uint32_t cgas() const { return ids < barriers ? ids : barriers; }
};

class MachineLedger {
 public:
  MachineLedger(const arch::Topology& topology, const arch::ResourceVector& sm_capacity, const CwdParams& params,
                const GpcCgaLimits& limits)
      : live_(sm_capacity, topology, params.table_slots + params.evicted_tasks),
        pools_(topology.gpcs(), params.pending_pool, params.active_pool),
        cgas_(topology.gpcs(), {limits.ids, limits.barriers, params.gpu_cga_barriers, params.memory_slots}) {}

  LiveModel& live() { return live_; }
  const LiveModel& live() const { return live_; }
  GpcPools& pools() { return pools_; }
  CgaLedger& cgas() { return cgas_; }
  const CgaLedger& cgas() const { return cgas_; }

  // The number of the machine's state: it goes up when something becomes free, so that a task that did not fit in one
  // state need not be tried again in the same.
  std::uint64_t version() const { return version_; }
  void freed() { ++version_; }
  // The same for places of pending pools.
  std::uint64_t pool_version() const { return pool_version_; }
  void pools_freed() { ++pool_version_; }

  // Nothing is taken.
  bool empty() const { return live_.empty() && cgas_.empty() && pools_.empty(); }
  void reset() {
    live_.reset();
    pools_.reset();
    cgas_.reset();
    version_ = pool_version_ = 1;
  }

 private:
  LiveModel live_;
  GpcPools pools_;
  CgaLedger cgas_;
  std::uint64_t version_ = 1;
  std::uint64_t pool_version_ = 1;
};

}  // namespace heddle::cwd

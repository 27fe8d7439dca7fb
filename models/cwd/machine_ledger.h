// What tasks have taken of the machine, and what is left of it: resources and free slots of the SMs (CWD-02), places in
// the pools of the GPCs (TSK-04), and what CGAs take besides (CWD-19). What subcontexts hold is the partition's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "cwd/cost_laws.h"
#include "cwd/cwd_params.h"
#include "cwd/gpc_model.h"
#include "protocol/cwd_gpm.h"

namespace heddle::cwd {

// What CGAs take besides free slots: ids and barrier slots of their GPC, an sm_cga_slot on each of its SMs (CWD-01),
// barriers of GPU_CGAs, CGA memory slots (CWD-19, CWD-22). A session asks what is left before it begins and takes it
// when its CGAs are accepted: nothing of a CGA starts before all that it needs is reserved.
struct CgaLimits {
  std::uint32_t ids = 256;          // gpc_local_cga_ids of a GPC
  std::uint32_t barriers = 256;     // barrier slots of a GPC
  std::uint32_t sm_slots = 256;     // sm_cga_slots of an SM
  std::uint32_t gpu_barriers = 16;  // barriers of GPU_CGAs and uGPU_CGAs
  std::uint32_t memory_slots = 16;  // CGA memory slots of each subcontext
};

class CgaLedger {
 public:
  // `sms`: of each GPC.
  CgaLedger(const std::vector<std::uint32_t>& sms, const CgaLimits& limits);

  // GPC_CGAs that can still get what they need of the GPC: an id, a barrier slot, and an sm_cga_slot on every SM.
  std::uint32_t gpc_cgas(std::uint32_t gpc) const { return std::min(gpc_left_[gpc], sm_slots(gpc)); }
  // It is an sm_cga_slot that they lack.
  bool lacks_sm_slot(std::uint32_t gpc) const { return gpc_left_[gpc] > 0 && sm_slots(gpc) == 0; }
  std::uint32_t gpu_barriers() const { return static_cast<std::uint32_t>(gpu_barriers_left_.size()); }
  std::uint32_t memory_slots(std::uint32_t subcontext) const {
    return static_cast<std::uint32_t>(memory_left_[subcontext].size());
  }

  // What an outermost CGA has taken.
  struct Taken {
    std::optional<protocol::CgaMemorySlot> memory_slot;
    std::vector<protocol::BarrierSlot> barriers;  // its own, then those of the uGPU_CGAs that it consists of
  };
  // An outermost CGA is accepted. `barriers`: of the GPU that it takes. `parts`: the GPC_CGAs (or, without that level,
  // the CTAs) that must complete before what it takes here comes back.
  Taken open(std::uint64_t sequence, std::uint32_t subcontext, std::uint32_t barriers, bool linear_memory,
             std::uint64_t parts);
  void take_gpc_cga(std::uint32_t gpc);
  // cga_complete of a GPC_CGA.
  void give_gpc_cga(std::uint32_t gpc);
  // SMs of the GPC have an sm_cga_slot more.
  void give_sm_slots(std::uint32_t gpc, std::uint64_t sms);
  // Parts of the outermost CGA have completed; true if that made something free.
  bool complete(std::uint64_t sequence, std::uint64_t parts);

  bool empty() const;
  void reset();

 private:
  struct Open {
    std::uint32_t subcontext = 0;
    Taken taken;
    std::uint64_t parts = 0;
  };
  std::uint32_t per_gpc() const { return std::min(limits_.ids, limits_.barriers); }
  // sm_cga_slots that are left on the SM of the GPC that has fewest. They are free before the id is: where there are as
  // many, they are not what a CGA lacks.
  std::uint32_t sm_slots(std::uint32_t gpc) const {
    if (limits_.sm_slots >= per_gpc()) return gpc_left_[gpc];
    return *std::min_element(sm_slots_left_[gpc].begin(), sm_slots_left_[gpc].end());
  }

  CgaLimits limits_;
  std::vector<std::uint32_t> gpc_left_;
  std::vector<std::vector<std::uint32_t>> sm_slots_left_;  // by GPC and SM of it
  std::vector<protocol::BarrierSlot> gpu_barriers_left_;   // the last one is given next
  std::vector<std::vector<protocol::CgaMemorySlot>>
      memory_left_;                               // by subcontext: free slots, the last one is given next
  std::unordered_map<std::uint64_t, Open> open_;  // by sequence number: those that took something
};

// The pools in front of each GPC (TSK-04): which tasks of the task table it may receive CTAs of.
//
// The active pool holds the tasks that the GPC runs now. A member that has no CTA there yields its place to any task
// that needs one, and one whose CTAs run yields it to a more urgent task: its CTAs run on, and it launches there again
// once it has found a place again. The pending pool holds the most urgent ones of the tasks that wait to get there.
//
// Where subcontexts share the machine, each of those that may run on the GPC has an equal part of the active pool, of
// one place where there are as many. Who has less finds a place at once: one that has more than its part yields one,
// whatever its priority. What nobody asks for is anybody's (PRT-02).
class GpcPools {
 public:
  // Sizes in tasks; 0: without limit. Tasks are named by the operation that their CTAs run as.
  GpcPools(std::uint32_t gpcs, std::uint32_t pending, std::uint32_t active);

  // False: every task may go anywhere at any time.
  bool limited() const { return pending_size_ > 0 || active_size_ > 0; }
  // The task holds a place there, whether it has CTAs there or not.
  bool active(std::uint32_t task, std::uint32_t gpc) const;
  // So many subcontexts have a part of the active pool from now on; 0: it is common.
  void share(std::uint32_t gpc, std::uint32_t sharers) { sharers_[gpc] = sharers; }
  // A session of the task may place CTAs there: it holds a place, or it is pending there and finds one. `owner`: its
  // subcontext.
  bool admits(std::uint32_t task, std::int32_t priority, std::uint32_t gpc, std::uint32_t owner = 0) const;

  // The tasks with CTAs left are looked at in their order, most urgent first: after begin_walk() none has been, and
  // wait_at() says of the last one that it could run there. It takes a place of the pending pool unless it is active.
  void begin_walk();
  void wait_at(std::uint32_t task, std::uint32_t gpc);
  bool pending(std::uint32_t gpc) const { return pending_size_ == 0 || waiting_[gpc] < pending_size_; }

  // CTAs of the task have been placed there. True if another has yielded its place for that.
  bool launch(std::uint32_t task, std::int32_t priority, std::uint32_t gpc, std::uint32_t ctas,
              std::uint32_t owner = 0);
  void complete(std::uint32_t task, std::uint32_t gpc, std::uint32_t ctas);

  // The tasks that hold a place there and have CTAs there.
  std::vector<std::uint32_t> running(std::uint32_t gpc) const;
  // No CTA anywhere.
  bool empty() const;
  void reset();

 private:
  // A task with a place in the active pool, or with CTAs there from the time when it had one.
  struct Member {
    std::uint32_t task = 0;
    std::int32_t priority = 0;
    std::uint32_t ctas = 0;
    std::uint32_t owner = 0;
    bool active = false;
  };
  using Members = std::vector<Member>;  // in the order in which they came to be active
  static constexpr std::size_t kNone = ~std::size_t{0};

  static std::size_t find(const Members& members, std::uint32_t task);
  // The member that would yield to a task of that priority and subcontext, or kNone.
  std::size_t who_yields(std::uint32_t gpc, std::int32_t priority, std::uint32_t owner) const;
  bool has_place(std::uint32_t gpc) const;
  // Places of the GPC's active pool that are each sharer's, and those that it has.
  std::uint32_t part(std::uint32_t gpc) const { return std::max(1U, active_size_ / sharers_[gpc]); }
  std::uint32_t held(std::uint32_t gpc, std::uint32_t owner) const;

  std::uint32_t pending_size_;
  std::uint32_t active_size_;
  std::vector<Members> members_;        // by GPC
  std::vector<std::uint32_t> waiting_;  // by GPC: tasks of this walk that wait to get there
  std::vector<std::uint32_t> sharers_;  // by GPC: subcontexts with a part
};

// What every GPC has for CGAs; the GPMs keep it, the distributor counts it (CWD-19).
struct GpcCgaLimits {
  std::uint32_t ids = 256;
  std::uint32_t barriers = 256;
  std::uint32_t sm_slots = 256;  // of each of its SMs

  // GPC_CGAs that a GPC can hold at a time.
  std::uint32_t cgas() const { return std::min({ids, barriers, sm_slots}); }
};

class MachineLedger {
 public:
  MachineLedger(const arch::Topology& topology, const arch::ResourceVector& sm_capacity, const CwdParams& params,
                const GpcCgaLimits& limits)
      : live_(sm_capacity, topology, params.table_slots + params.evicted_tasks),
        updates_(params.trt_updates),
        pools_(topology.gpcs(), params.pending_pool, params.active_pool),
        cgas_(topology.sms_per_gpc(),
              {limits.ids, limits.barriers, limits.sm_slots, params.gpu_cga_barriers, params.memory_slots}) {}

  LiveModel& live() { return live_; }
  const LiveModel& live() const { return live_; }
  // The way of launches and completions into the resource trackers, SM by SM (CWD-28). The live model counts them at
  // once; a session waits for those before it.
  RateQueue& updates() { return updates_; }
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
    updates_.reset();
    pools_.reset();
    cgas_.reset();
    version_ = pool_version_ = 1;
  }

 private:
  LiveModel live_;
  RateQueue updates_;
  GpcPools pools_;
  CgaLedger cgas_;
  std::uint64_t version_ = 1;
  std::uint64_t pool_version_ = 1;
};

}  // namespace heddle::cwd

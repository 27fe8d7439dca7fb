// A session in zero time: where the CGAs of a grid would go, given the free slots of every SM. Answers questions about
// the machine (occupancy, what can never fit); the shells run the same session over links.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/cluster.h"
#include "arch/topology.h"
#include "cwd/cluster_session.h"
#include "cwd/cost_laws.h"
#include "cwd/cwd_params.h"
#include "cwd/machine_ledger.h"
#include "cwd/task_table.h"

namespace heddle::cwd {

// CGAs of CTAs over a whole GPU or uGPU, placed as a plain grid is (CWD-09, lake_fill.h);
// all other CGAs are placed by a ClusterSession.
inline bool is_domain_wide(const arch::ClusterShape& shape) { return shape.any() && !shape.has(arch::CgaLevel::gpc); }

// Barriers of the GPU that an outermost CGA of that size takes: every GPU_CGA and uGPU_CGA has one (CWD-09).
std::uint32_t wide_barriers(const arch::ClusterShape& cluster, std::uint32_t size);

// What a session is asked for by a grid of such CGAs, well formed (arch::why_malformed) and with the outermost CGA of
// that size (ClusterShape::size). Of domain-wide CGAs, the request says nothing but `units`, and there is no GPC_CGA.
SessionRequest request_for(const arch::ClusterShape& shape, std::uint32_t size_index, std::uint64_t units);
GpcCgaShape gpc_cga_shape_for(const arch::ClusterShape& shape, std::uint32_t size_index);

// The policies for CGAs that a configuration names. They may remember what they did.
struct Policies {
  std::unique_ptr<SmPolicy> load_balancing;
  std::unique_ptr<SmPolicy> multicast;
  std::unique_ptr<DomainPolicy> domain;

  // `max_slots`: the most free slots that an SM can have.
  explicit Policies(const CwdParams& params, std::uint32_t max_slots = 32)
      : load_balancing(make_sm_policy(params.load_balancing, {params.level_search, max_slots})),
        multicast(make_sm_policy(params.multicast, {params.level_search, max_slots})),
        domain(make_domain_policy(params.domain_policy)) {}
  void reset() const {
    load_balancing->reset();
    multicast->reset();
    domain->reset();
  }
};

class ClusterPlacer {
 public:
  // Topology and policies must outlive it. Priorities: SM ids and GPCs of the machine, most preferred first.
  ClusterPlacer(const arch::Topology& topology, const Policies& policies, const std::vector<std::uint32_t>& sm_priority,
                const std::vector<std::uint32_t>& gpc_priority);

  struct Placed {
    Home home;
    std::vector<std::uint64_t> masks;  // of its GPC, in launch order
  };

  // `slots`: free slots by SM id. `cgas_per_gpc`: most GPC_CGAs that the session may place on each GPC, whatever its
  // slots. The GPC_CGAs that have a place, in launch order. Policies have forgotten what they did before.
  const std::vector<Placed>& place(const std::vector<std::uint16_t>& slots, const GpcCgaShape& shape,
                                   arch::CgaMode mode, const std::vector<std::uint32_t>& cgas_per_gpc,
                                   const SessionRequest& request);
  // Of the last session.
  const ClusterSession& session() const { return session_; }
  const SearchWork& work() const { return work_; }  // GPCs answer in parallel
  std::vector<std::uint16_t> left() const;          // free slots by SM id, without what was placed

 private:
  void carry_out(const Command& command);

  const arch::Topology& topology_;
  const Policies& policies_;
  ClusterSession session_;
  std::vector<GpcModel> models_;
  struct Reserved {
    std::vector<std::vector<std::uint64_t>> masks;  // by reservation, in order
    std::size_t accepted = 0;
  };
  std::vector<Reserved> reserved_;  // by GPC
  std::vector<Placed> placed_;
  SearchWork work_;
  SearchWork slowest_;  // of the answers of a step
};

// How many GPC_CGAs of a grid an empty GPC can hold, by what the hardware knows of it: its enabled SMs and the CGA's
// shape (CWD-20). The mimic of the GPC finds out.
class GpcCapacity {
 public:
  // The topology must outlive it. `sm_priority`: as for ClusterPlacer.
  GpcCapacity(const arch::Topology& topology, const CwdParams& params, const std::vector<std::uint32_t>& sm_priority,
              const arch::ResourceVector& sm_capacity);

  // The counters of a task that has arrived.
  void init(const protocol::TaskPacket& task, const LiveModel& live, GpcCgaRoom& room);
  // TPCs of the GPC have been switched on or off: what it can hold of the task's GPC_CGAs has changed.
  void update(const protocol::TaskPacket& task, const LiveModel& live, std::uint32_t gpc, GpcCgaRoom& room);

 private:
  std::uint32_t most(const protocol::TaskPacket& task, std::uint32_t size, const LiveModel& live, std::uint32_t gpc);

  const arch::Topology& topology_;
  const arch::ResourceVector capacity_;
  const Policies policies_;  // of its own: what sessions remember is not touched
  std::vector<GpcModel> models_;
};

// What a session of a grid of CGAs may place, before it is asked, by counters of the hardware: limits besides free
// slots (CWD-19, CWD-20, CWD-23). Whether free slots suffice only the session finds out (CWD-18).
class ClusterRoom {
 public:
  // `session_limit`: most CTAs of a session. Topology and ledger must outlive it.
  ClusterRoom(const arch::Topology& topology, const CgaLedger& ledger, std::uint64_t session_limit)
      : topology_(topology), ledger_(ledger), session_limit_(session_limit) {}

  // `size`, here and below: size index of the outermost CGA. `slots`: free slots by SM id.
  //
  // The outermost CGAs that a session may place: those that remain, at most the session's limit, and at most what is
  // left of everything that outermost CGAs take besides free slots. Where that is none, returns why.
  WaitReason limit(const TaskEntry& entry, std::uint32_t size, std::uint64_t& units) const;
  // GPC_CGAs that the GPC can take, for whatever is limited besides free slots.
  std::uint32_t on_gpc(const TaskEntry& entry, std::uint32_t size, std::uint32_t gpc) const;
  // The counters of the GPCs leave room for an outermost CGA: a session may be tried.
  bool counters_allow(const TaskEntry& entry, std::uint32_t size) const;
  // For statistics: why a CGA finds no home: free slots would do, but something else is short where they are; or they
  // would not.
  WaitReason why_no_home(const TaskEntry& entry, std::uint32_t size, const std::vector<std::uint16_t>& slots) const;

 private:
  struct Free {
    std::uint64_t slots = 0;
    std::uint64_t sms = 0;  // with a free slot
    // What counts for the CTAs of one GPC_CGA.
    std::uint64_t for_one(const TaskEntry& entry) const {
      return entry.task.cluster.mode == arch::CgaMode::multicast ? sms : slots;
    }
  };
  Free free_on(std::uint32_t gpc, const std::vector<std::uint16_t>& slots) const;

  const arch::Topology& topology_;
  const CgaLedger& ledger_;
  std::uint64_t session_limit_;
};

}  // namespace heddle::cwd

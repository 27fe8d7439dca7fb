// Parameters of the compute work distributor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/param_fwd.h"

namespace YAML {
class Node;
}

namespace heddle {
struct SourcePos;
}
#include "cwd/cost_laws.h"
#include "cwd/lake_fill.h"
#include "protocol/cwd_gpm.h"
#include "protocol/host_task.h"

namespace heddle::cwd {

// The order in which SMs of equal load (CWD-05), or GPCs of equal speed (CWD-13), are served.
struct UnitOrder {
  enum class Order { ascending, descending, listed };
  Order order = Order::ascending;
  std::vector<std::uint32_t> ids;  // listed: a permutation of the machine's

  // The order for a machine of that many units. `what`: the parameter, for messages. Throws InputError if a list does
  // not fit the machine.
  std::vector<std::uint32_t> resolve(std::uint32_t units, const char* what) const;
};

// Who receives launch packets (CWD-35).
enum class Broadcast : std::uint8_t {
  all,     // every GPC
  usable,  // GPCs that the grid's subcontext may use
};

// How a more urgent task comes to the slots of less urgent ones (TSK-16).
enum class PreemptionMode : std::uint8_t {
  drain,        // tasks that have begun start all their CTAs first
  cta,          // it has the slots that become free, before any other
  instruction,  // CTAs that run are saved, and go on later
};

struct CwdParams {
  CwdParams();  // out of line: gcc 12 otherwise warns of members that it takes for uninitialised

  std::uint32_t table_slots = 128;  // tasks
  LevelSearch level_search = LevelSearch::bisection;
  UnitOrder sm_priority;
  std::uint32_t session_pipeline = 4;  // cycles
  std::uint32_t session_step = 1;      // cycles per step of the level search
  std::uint64_t session_limit = 4096;  // CTAs
  std::uint32_t sessions = 1;          // in flight: one that queries, the others with masks to make
  std::uint32_t snapshot_sms = 64;     // SMs per cycle
  double trt_updates = 64;             // SMs per cycle
  double end_reports = 8;              // per cycle
  double prefix_step = 0.25;           // cycles per level of the tree
  double compare_step = 0.25;          // cycles per level of the tree
  std::uint32_t mask_buffers = 2;      // sessions
  double cta_commits = 0.84;           // CTAs per cycle; 0: without limit
  std::uint32_t port_bits = 64;        // bits per cycle; 0: without limit
  Broadcast broadcast = Broadcast::all;
  bool local_memory_broadcast = true;
  std::uint32_t gpc_distance = 60;   // cycles
  std::uint32_t gpc_queue = 128;     // launch packets
  std::uint32_t done_distance = 20;  // cycles
  bool backfill = false;
  PreemptionMode preemption = PreemptionMode::cta;
  std::uint32_t preempt_again = 20'000;  // cycles
  std::uint64_t ageing = 0;              // cycles for each step of priority; 0: none
  std::uint64_t time_slice = 0;          // cycles; 0: none
  std::uint32_t evicted_tasks = 32;      // evicted tasks that have a number
  std::uint32_t pending_pool = 32;       // tasks, of each GPC; 0: all
  std::uint32_t active_pool = 4;         // tasks, of each GPC; 0: all

  // Clusters.
  std::string load_balancing = "lake";    // SmPolicy of load-balancing mode
  std::string multicast = "tpc_pairs";    // SmPolicy of multicast mode
  std::string domain_policy = "fastest";  // DomainPolicy between GPCs, uGPUs and CPCs
  UnitOrder gpc_priority;
  std::uint32_t max_gpc_cga = 16;           // CTAs
  std::uint32_t query_distance = 1;         // cycles between the GPU2GPC unit and a GPC2SM unit, each way
  std::uint32_t ugpu_distance = 4;          // cycles between the GPU level and the distributor of a uGPU, each way
  std::uint32_t mask_cycles = 2;            // cycles
  std::uint32_t masks_per_packet = 2;       // 1 … 1 + kFurtherMasks
  std::uint64_t age_limit = 100'000;        // cycles
  std::uint32_t gpu_cga_barriers = 16;      // GPU_CGAs and uGPU_CGAs at once
  std::uint32_t barrier_report_cycles = 1;  // per report of a GPC
  std::uint32_t memory_slots = 16;          // CGA memory slots of a subcontext
  protocol::PartitionMode partition = protocol::PartitionMode::none;
  std::uint32_t tpc_credits = 0;          // TPCs that a subcontext may hold; 0: all
  std::uint32_t local_memory_blocks = 0;  // 0: one per TPC

  // Plain grids.
  std::string plain = "lake";      // PlainPolicy
  std::uint32_t plain_share = 75;  // percent: of the slots of an SM, what `capped` uses

  // The prior art, for comparison.
  bool central_raster = false;
  std::uint32_t raster_cycles = 2;  // cycles per CTA id

  std::uint32_t broadcast_width = 4096;      // GPCs per cycle
  std::vector<std::uint32_t> gpc_distances;  // by GPC; empty: gpc_distance for all

  // CTAs that belong to no GPC_CGA are placed one per step, as distributors did before (CWD-08).
  bool one_at_a_time() const { return plain == "one_at_a_time"; }

  std::uint32_t distance_of(std::uint32_t gpc) const {
    return gpc_distances.empty() ? gpc_distance : gpc_distances[gpc];
  }
  // Distance of the nearest GPC.
  std::uint32_t nearest_gpc() const {
    return gpc_distances.empty() ? gpc_distance : *std::min_element(gpc_distances.begin(), gpc_distances.end());
  }

  // Cycles of a search; a time of many parts is rounded up once.
  Cycle search_cycles(const SearchWork& work) const {
    return Cycle{session_step} * work.steps + 2 * Cycle{query_distance} * work.queries +
           tree_cycles(work.prefix_levels, prefix_step) + tree_cycles(work.compare_levels, compare_step);
  }

  // Cycles that a query takes each way beyond query_distance: for CGAs of a uGPU, through its distributor (CWD-46).
  std::uint32_t ugpu_way(bool ugpu_cgas, std::uint32_t ugpus) const {
    return ugpu_cgas && ugpus > 1 ? ugpu_distance : 0;
  }

  static void describe(ParamTable<CwdParams>& t);
};

}  // namespace heddle::cwd

namespace heddle {

template <>
struct ParamTraits<cwd::UnitOrder> {
  static constexpr const char* kType = "order";
  static constexpr const char* kRange = "ascending, descending, or a list of all ids";
  static cwd::UnitOrder parse(const YAML::Node& node, const SourcePos& where);
  static YAML::Node format(const cwd::UnitOrder& value);
};

}  // namespace heddle

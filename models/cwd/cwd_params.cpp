#include "cwd/cwd_params.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "common/param_table.h"
#include "common/params.h"
#include "cwd/domain_policy.h"
#include "cwd/plain_policy.h"
#include "cwd/sm_policy.h"

namespace heddle::cwd {

std::vector<std::uint32_t> UnitOrder::resolve(std::uint32_t units, const char* what) const {
  std::vector<std::uint32_t> result(units);
  std::iota(result.begin(), result.end(), 0U);
  if (order == Order::ascending) return result;
  if (order == Order::descending) {
    std::reverse(result.begin(), result.end());
    return result;
  }
  std::vector<std::uint32_t> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != result) {
    throw InputError(fmt::format("{} lists {} ids that are not a permutation of 0 to {}", what, ids.size(), units - 1),
                     "list every one of the machine once, or say ascending or descending");
  }
  return ids;
}

namespace {

const char* const kChoice = "choice of the specification";
const char* const kPools = "US patents on task pools of GPCs: 32 pending and 4 active";

// "lake: …; packed: …"
std::string list_of(const std::vector<std::pair<std::string, std::string>>& policies) {
  std::string text;
  for (const auto& [name, description] : policies)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name, description);
  return text;
}

std::vector<std::string> names_of(const std::vector<std::pair<std::string, std::string>>& policies) {
  std::vector<std::string> names;
  for (const auto& policy : policies) names.push_back(policy.first);
  return names;
}

void describe_clusters(ParamTable<CwdParams>& t) {
  t.add_choice("load_balancing", &CwdParams::load_balancing, names_of(sm_policies()),
               "which SMs of a GPC the CTAs of a CGA go to in load-balancing mode; " + list_of(sm_policies()),
               "CWD-15");
  t.add_choice("multicast", &CwdParams::multicast, names_of(sm_policies()),
               "the same in multicast mode (names as of load_balancing)", "CWD-16");
  t.add_choice("domain_policy", &CwdParams::domain_policy, names_of(domain_policies()),
               "which GPCs, uGPUs and CPCs receive CGAs; " + list_of(domain_policies()), "CWD-13");
  t.add("gpc_priority", &CwdParams::gpc_priority, "which GPCs of equal speed are served first (CWD-13)", kChoice);
  t.add("max_gpc_cga", &CwdParams::max_gpc_cga, {Unit::count, 1, arch::kMaxCgaCtas}, "most CTAs of a GPC_CGA",
        "CUDA programming guide: 8 is portable, H100 allows 16");
  t.add("query_distance", &CwdParams::query_distance, {Unit::cycles, 0, 1000},
        "cycles between the GPU2GPC unit and a GPC2SM unit, each way; as far as the GPCs where these were asked "
        "themselves",
        "assumption: both lie in the distributor, GPC2SM units side by side");
  t.add(
      "ugpu_distance", &CwdParams::ugpu_distance, {Unit::cycles, 0, 1000},
      "cycles between the GPU level of the distributor and the level of a uGPU, each way: of queries for CGAs that lie "
      "within one uGPU, on a machine that has several (CWD-46)",
      "assumption: the distributor of a uGPU lies in the uGPU");
  t.add(
      "mask_cycles", &CwdParams::mask_cycles, {Unit::cycles, 0, 1000},
      "cycles in which the mask generator of a GPC makes one SM mask, of a level of a plain grid or of an accepted CGA",
      "assumption");
  t.add("masks_per_packet", &CwdParams::masks_per_packet, {Unit::count, 1, 1 + protocol::kFurtherMasks},
        "SM masks of a GPC_CGA that one launch packet holds (CWD-31)", "assumption");
  t.add("age_limit", &CwdParams::age_limit, {Unit::cycles, 0, 1'000'000'000'000U},
        "how long a CGA that finds no home lets tasks behind it go first, less urgent ones among them; so long may "
        "clusters of "
        "an urgent kernel wait behind CTAs of others; 0: none passes it (CWD-26)",
        "assumption");
  t.add("gpu_cga_barriers", &CwdParams::gpu_cga_barriers, {Unit::count, 0, 4096},
        "hardware barriers for GPU_CGAs and uGPU_CGAs: how many of these there are at once", "assumption");
  t.add("barrier_report_cycles", &CwdParams::barrier_report_cycles, {Unit::cycles, 0, 100'000},
        "cycles that the distributor takes for each report of a GPC about such a barrier, one after another",
        "assumption");
  t.add("memory_slots", &CwdParams::memory_slots, {Unit::count, 0, 4096},
        "CGA memory slots of each subcontext (CWD-22)", kChoice);
  t.add_choice("partition", &CwdParams::partition,
               {{"none", protocol::PartitionMode::none},
                {"static", protocol::PartitionMode::static_},
                {"dynamic", protocol::PartitionMode::dynamic}},
               "how subcontexts share the TPCs at the start: without limits, by masks that do not overlap, or by "
               "credits (PRT-02, PRT-05)",
               "choice: no partitioning");
  t.add("tpc_credits", &CwdParams::tpc_credits, {Unit::count, 0, 4096},
        "TPCs that each subcontext may hold at once under dynamic partitioning, at the start; 0: all", "choice: all");
  t.add("local_memory_blocks", &CwdParams::local_memory_blocks, {Unit::count, 0, 65'536},
        "local-memory blocks of each subcontext, each for one TPC; 0: one per TPC",
        "choice of the specification (PRT-06)");
}

void describe_plain(ParamTable<CwdParams>& t) {
  t.add_choice(
      "plain", &CwdParams::plain, names_of(plain_policies()),
      "which SMs the CTAs of plain grids go to (CGAs of CTAs over a whole domain: one by one with one_at_a_time, "
      "else as with lake; so do plain grids of subcontexts that pay for TPCs); " +
          list_of(plain_policies()),
      "CWD-03");
  t.add("plain_share", &CwdParams::plain_share, {Unit::percent, 1, 100},
        "share of an SM's slots that plain grids use with the policy capped; one slot at least", "assumption");
}

void describe_comparisons(ParamTable<CwdParams>& t) {
  t.add("central_raster", &CwdParams::central_raster,
        "make CTA ids in the distributor and send one with every CTA (CWD-43)", "choice: off");
  t.add("raster_cycles", &CwdParams::raster_cycles, {Unit::cycles, 0, 10'000},
        "cycles that the distributor takes to make a CTA id, where it rasterises, or a coordinate that late TPCs are "
        "told",
        "assumption");
  t.add("broadcast_width", &CwdParams::broadcast_width, {Unit::count, 1, 4096},
        "GPCs that a launch packet reaches per cycle on its way to all of them (CWD-35)", "assumption: all at once");
  t.add("gpc_distances", &CwdParams::gpc_distances,
        "cycles from the distributor to each GPC and back to it, one number per GPC; empty: gpc_distance and "
        "gpc.gpm_to_cwd",
        "choice: all alike");
}

// Costs that grow with the machine (CWD-28).
void describe_cost_laws(ParamTable<CwdParams>& t) {
  t.add("sessions", &CwdParams::sessions, {Unit::count, 1, 64},
        "launch sessions in flight: one decides, while the masks of the others are made (CWD-27)",
        "choice of the specification");
  t.add(
      "snapshot_sms", &CwdParams::snapshot_sms, {Unit::count, 1, 65'536},
      "SMs per cycle whose free slots are copied into a session's shadow state: it takes ceil(SMs / this) cycles, the "
      "first of which is one of session_pipeline (CWD-28)",
      "assumption");
  t.add("trt_updates", &CwdParams::trt_updates, {Unit::per_cycle, 0.01, 65'536.0},
        "SMs per cycle that resource trackers update for launches and completions; a session begins its copy when all "
        "updates before it are in (CWD-28)",
        "assumption");
  t.add("end_reports", &CwdParams::end_reports, {Unit::per_cycle, 0.01, 65'536.0},
        "reports of ended CTAs and CGAs, from all GPCs, that the distributor takes in per cycle (CWD-28)",
        "assumption: as many as the GPCs of a large GPU send");
  t.add("prefix_step", &CwdParams::prefix_step, {Unit::cycles, 0.0, 1000.0},
        "cycles per level of the prefix population count of a partly filled level, which has 2 ceil(log2 SMs): SMs of "
        "the machine for plain grids, of the GPC or CPC for a GPC_CGA (CWD-05)",
        "assumption: four levels of adders in a cycle");
  t.add("compare_step", &CwdParams::compare_step, {Unit::cycles, 0.0, 1000.0},
        "cycles per level of the comparison of the GPCs' answers to a query, which has ceil(log2 GPCs) (CWD-13)",
        "assumption: four levels of comparators in a cycle");
}

}  // namespace

CwdParams::CwdParams() = default;

void CwdParams::describe(ParamTable<CwdParams>& t) {
  t.add("table_slots", &CwdParams::table_slots, {Unit::count, 1, 4096},
        "slots of the task table: tasks that run or wait in the distributor",
        "CUDA programming guide: 128 resident grids per device");
  t.add_choice("level_search", &CwdParams::level_search,
               {{"scan", LevelSearch::scan}, {"bisection", LevelSearch::bisection}},
               "how the final level of a plain grid, or of a CGA within a GPC, is found; both give the same placement "
               "(CWD-04)",
               "choice of the specification");
  t.add("sm_priority", &CwdParams::sm_priority, "which SMs of the final, partly filled level are served first (CWD-05)",
        "choice of the specification");
  t.add("session_pipeline", &CwdParams::session_pipeline, {Unit::cycles, 0, 100'000},
        "fixed length of a launch session, besides its search", "assumption");
  t.add("session_step", &CwdParams::session_step, {Unit::cycles, 0, 100'000}, "length of one step of the level search",
        "assumption");
  t.add("session_limit", &CwdParams::session_limit, {Unit::count, 1, 1'000'000'000},
        "most CTAs that one session places", "assumption: more than a machine holds of most kernels");
  t.add("mask_buffers", &CwdParams::mask_buffers, {Unit::count, 1, 1024},
        "sessions whose masks can wait for the launch port", "assumption: one is sent while the next is computed");
  t.add("cta_commits", &CwdParams::cta_commits, {Unit::per_cycle, 0.0, 65'536.0},
        "CTAs per cycle that are entered in the tables of the distributor, of SMs, tasks and subcontexts, as their "
        "launch "
        "packet leaves; 0: any number",
        "fitted to te42kyfo/gpu-benches small-kernels on H200: 0.60 ns per CTA at 1.98 GHz");
  t.add("port_bits", &CwdParams::port_bits, {Unit::count, 0, 1'000'000},
        "bits of launch packets that leave per cycle: a packet takes as many whole cycles as it needs (CWD-31); 0: any "
        "number",
        "assumption: a packet of one mask per cycle on an H100");
  t.add_choice(
      "broadcast", &CwdParams::broadcast, {{"all", Broadcast::all}, {"usable", Broadcast::usable}},
      "which GPCs receive a launch packet: all of them, or those that the subcontext of the grid may use (CWD-35)",
      "choice of the specification");
  t.add("local_memory_broadcast", &CwdParams::local_memory_broadcast,
        "whether local-memory block indices go to all GPCs, or only to the one that has the TPC (CWD-32)",
        "choice of the specification");
  t.add("gpc_distance", &CwdParams::gpc_distance, {Unit::cycles, 0, 100'000}, "cycles from the distributor to a GPC",
        "assumption: the round trip is far longer than a session (CWD-33)");
  t.add(
      "gpc_queue", &CwdParams::gpc_queue, {Unit::count, 1, 65'536},
      "launch packets that a GPC can take in, of whatever GPC they are: credits. To keep up with a packet per cycle it "
      "needs as many as the way there and back has cycles",
      "assumption: 60 cycles each way, and a few");
  t.add("done_distance", &CwdParams::done_distance, {Unit::cycles, 0, 100'000},
        "cycles from the distributor back to task management", "assumption");
  t.add("backfill", &CwdParams::backfill,
        "whether a task may launch CTAs while a more urgent or older one waits for free slots of SMs; clusters that "
        "wait for a "
        "home are passed either way, for as long as age_limit says",
        "public studies of NVIDIA GPUs find that it may not");
  t.add_choice(
      "preemption", &CwdParams::preemption,
      {{"drain", PreemptionMode::drain}, {"cta", PreemptionMode::cta}, {"instruction", PreemptionMode::instruction}},
      "how a more urgent task comes to slots that others have: drain (tasks that have begun start all their "
      "CTAs first), cta (it has what becomes free), instruction (CTAs that run are saved)",
      "NVIDIA: compute preemption at the level of thread blocks, and of instructions");
  t.add("preempt_again", &CwdParams::preempt_again, {Unit::cycles, 1, 1'000'000'000},
        "after which a task that still waits has CTAs saved again", "assumption");
  t.add("ageing", &CwdParams::ageing, {Unit::cycles, 0, 1'000'000'000'000U},
        "for which a task has started no CTA when it counts as more urgent by one, among those of the task table; 0: "
        "never",
        "assumption");
  t.add("time_slice", &CwdParams::time_slice, {Unit::cycles, 0, 1'000'000'000'000U},
        "after which CTAs of one subcontext are saved, and another one's start; 0: subcontexts run beside each other",
        "NVIDIA: processes without a shared context have the GPU in turn");
  t.add(
      "evicted_tasks", &CwdParams::evicted_tasks, {Unit::count, 0, 4096},
      "evicted tasks at a time that have a number, as CTAs of them run on, or as entries of their queues arrive: what "
      "runs names its task by the number. With none left no task is evicted until one of them has ended (TSK-03)",
      "assumption");
  t.add("pending_pool", &CwdParams::pending_pool, {Unit::count, 0, 4096},
        "tasks that wait in front of each GPC; 0: all (TSK-04)", kPools);
  t.add("active_pool", &CwdParams::active_pool, {Unit::count, 0, 4096},
        "tasks that each GPC runs at a time, while equally or more urgent ones wait; 0: all (TSK-04)", kPools);
  describe_cost_laws(t);
  describe_clusters(t);
  describe_plain(t);
  describe_comparisons(t);
}

}  // namespace heddle::cwd

namespace heddle {

cwd::UnitOrder ParamTraits<cwd::UnitOrder>::parse(const YAML::Node& node, const SourcePos& where) {
  cwd::UnitOrder result;
  const char* remedy = "say ascending, descending, or list all ids";
  if (node.IsScalar()) {
    const auto text = node.as<std::string>();
    if (text == "descending") {
      result.order = cwd::UnitOrder::Order::descending;
    } else if (text != "ascending") {
      throw InputError(where, fmt::format("'{}' is not an order", text), remedy);
    }
    return result;
  }
  if (!node.IsSequence()) throw InputError(where, "not an order", remedy);
  result.order = cwd::UnitOrder::Order::listed;
  for (const YAML::Node& item : node) {
    try {
      result.ids.push_back(item.as<std::uint32_t>());
    } catch (const YAML::Exception&) {
      throw InputError(where, "an order lists ids, whole numbers from 0", remedy);
    }
  }
  return result;
}

YAML::Node ParamTraits<cwd::UnitOrder>::format(const cwd::UnitOrder& value) {
  if (value.order == cwd::UnitOrder::Order::ascending) return YAML::Node("ascending");
  if (value.order == cwd::UnitOrder::Order::descending) return YAML::Node("descending");
  YAML::Node list(YAML::NodeType::Sequence);
  for (const std::uint32_t id : value.ids) list.push_back(id);
  return list;
}

}  // namespace heddle

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/memory_op.h"
#include "cli/run_outcome.h"
#include "cli/stat_sums.h"
#include "memory/hbm_banks.h"

namespace heddle::cli {
namespace {

using nlohmann::json;

json instructions_of(const StatSums& sums) {
  constexpr std::array<std::pair<const char*, const char*>, 7> kUnits{
      {{"fp32", "fp32"},
       {"int32", "int32"},
       {"fp64", "fp64"},
       {"sfu", "special functions"},
       {"tensor", "tensor"},
       {"memory", "memory"},
       {"none", "no unit: barriers, commits, waits, exits"}}};
  json rows = json::array();
  for (const auto& [unit, text] : kUnits) {
    const double count = sums.sms(std::string("instructions.") + unit);
    if (count > 0) rows.push_back({{"label", text}, {"count", count}});
  }
  return rows;
}

json warp_time_of(const StatSums& sums) {
  constexpr std::array<std::pair<const char*, const char*>, 12> kReasons{
      {{"memory", "waiting for memory: a load, an acknowledgement, a copy"},
       {"scoreboard", "waiting for a unit's result"},
       {"fetch", "waiting for instructions"},
       {"constants", "waiting for the parameters of their kernel"},
       {"barrier", "waiting at a barrier"},
       {"cluster", "waiting at the barrier of the cluster"},
       {"mbarrier", "waiting for an mbarrier"},
       {"bulk_queue", "waiting for a place in the queue of the tensor memory access unit"},
       {"bulk", "waiting for own bulk requests"},
       {"launch", "launching kernels, or appending to queues"},
       {"children", "waiting for kernels that they launched"},
       {"issue", "ready, waiting for a turn or for a free unit"}}};
  const double all = sums.sms("warp_cycles");
  if (all == 0) return json::array();
  json rows = json::array();
  double left = all;
  for (const auto& [reason, text] : kReasons) {
    const double cycles = sums.sms(std::string("stall.") + reason);
    if (cycles == 0) continue;
    left -= cycles;
    rows.push_back({{"label", text}, {"cycles", cycles}, {"share_percent", share_of(cycles, all)}});
  }
  left = std::max(left, 0.0);
  rows.push_back({{"label", "issuing, starting or ending"}, {"cycles", left}, {"share_percent", share_of(left, all)}});
  return rows;
}

}  // namespace

namespace {

// Of operations that `counts`, the time in which at least one ran, in nanoseconds.
template <class Counts>
double time_of(const RunOutcome& outcome, std::size_t gpu, Counts&& counts) {
  std::vector<std::pair<double, double>> spans;
  const std::vector<workload::Op>& ops = outcome.inputs->workloads[gpu].ops;
  const std::vector<replay::OpResult>& results = outcome.result.jobs[gpu].results;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!counts(ops[i]) || !results[i].done || results[i].rejected) continue;
    spans.emplace_back(results[i].start, results[i].end);
  }
  std::sort(spans.begin(), spans.end());
  double time = 0;
  double end = -1e300;
  for (const auto& [from, to] : spans) {
    time += std::max(0.0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return time;
}

}  // namespace

double program_time(const RunOutcome& outcome, std::size_t gpu) {
  return time_of(outcome, gpu, [](const workload::Op& op) { return op.kernel.program != nullptr; });
}

json memory_of(const RunOutcome& outcome, std::size_t gpu) {
  const StatSums sums(outcome, gpu);
  const json instructions = instructions_of(sums);
  if (instructions.empty()) return nullptr;
  const gpu::GpuParams& params = outcome.machines->gpus[gpu].params;
  const double ns = program_time(outcome, gpu);
  const double sms = params.machine.shape.sms();
  const double line = arch::kLineBytes;
  const double hits = sums.sms("l1.hits");
  const double sectors = hits + sums.sms("l1.misses");
  const double conflicts = sums.sms("shared.conflicts");
  const double wavefronts = sums.sms("shared.wavefronts");
  const double requests = sums.slices("requests");
  const double pins = memory::table_of(params.hbm.standard).pins;

  json levels = json::array();
  // A gigabyte per second is a byte per nanosecond.
  const auto level = [&levels](const char* name, const char* what, double bytes, double time, double peak,
                               const json& hit) {
    levels.push_back({{"name", name},
                      {"what", what},
                      {"bytes", bytes},
                      {"gb_per_s", time > 0 ? json(bytes / time) : json()},
                      {"peak_gb_per_s", peak},
                      {"share_percent", share_of(bytes, time * peak)},
                      {"hit_percent", hit}});
  };
  const double clock = params.machine.clock;
  level("Shared memory", "wavefronts of 128 bytes, of all SMs", line * wavefronts, ns, line * sms * clock, nullptr);
  level("L1", "sectors that loads asked for, of all SMs", arch::kSectorBytes * sectors, ns, line * sms * clock,
        share_of(hits, sectors));
  // In `lt` nothing passes links.
  if (const double delivered = sums.one("xbar.sm_bytes"); delivered > 0) {
    level("Crossbar to SMs", "responses with their headers, and copies of multicasts", delivered, ns,
          params.xbar.sm_read_bandwidth * sms * clock, nullptr);
  }
  const double moved = time_of(outcome, gpu, [](const workload::Op& op) {
    return op.kernel.program != nullptr || op.kind != workload::OpKind::kernel;
  });
  level("L2", "sectors read, written or changed, for copies as well and over their time", sums.owners("l2_bytes"),
        moved, static_cast<double>(params.l2.bandwidth) * params.l2.slices * clock,
        share_of(sums.slices("hits"), requests));
  level("Device memory", "reads and writes of the L2, over the same time",
        sums.one("hbm.read_bytes") + sums.one("hbm.written_bytes"), moved,
        params.hbm.pin_rate / 8 * pins * params.hbm.channels, nullptr);

  json counts = json::array();
  const auto count = [&counts](const char* label, double value, const std::string& note) {
    counts.push_back({{"label", label}, {"count", value}, {"note", note}});
  };
  count("Requests to the L2", requests, "at most a line of 128 bytes each");
  count("Of these, joined to a miss", sums.slices("merges"), "waited behind an earlier request for the same line");
  count("Sectors read from device memory", sums.slices("fills"), "32 bytes each");
  count("Sectors written back", sums.slices("write_backs"), "the L2 keeps what was written until it needs the room");
  count("Values changed by atomics", sums.slices("atomics"), "in the L2");
  count("Shared-memory cycles", wavefronts,
        conflicts > 0 ? fmt::format("{} of them bank conflicts", percent_text(conflicts / wavefronts, 1))
                      : "no bank conflicts");
  return {{"us", ns / 1e3},
          {"levels", levels},
          {"counts", counts},
          {"instructions", instructions},
          {"warp_time", warp_time_of(sums)}};
}

json faults_of(const RunOutcome& outcome, std::size_t gpu) {
  json rows;
  for (const Fault& fault : outcome.faults) {
    if (fault.gpu != gpu) continue;
    const arch::FaultRecord& r = fault.record;
    // Of a CGA's error warp and step are not known (CGA-08).
    const std::string step =
        r.of_cga     ? fmt::format("access of CTA {} of CGA {} to its CTA {}", r.cta_id_in_cga, r.cga, r.target)
        : r.of_tasks ? "task management: " + r.where
                     : (r.where.empty() ? arch::op_name(r.operation) : r.where);
    const std::string what = r.kind == arch::FaultKind::tensor
                                 ? fmt::format("{}: {}", arch::fault_text(r.kind), arch::rule_text(r.rule))
                                 : arch::fault_text(r.kind);
    const auto known = [&r](auto value) { return r.of_cga || r.of_tasks ? json() : json(value); };
    const auto place = [&r](auto value) { return r.of_tasks ? json() : json(value); };
    rows.push_back({{"kernel", fault.kernel},
                    {"sm", place(r.sm)},
                    {"cta", place(r.cta)},
                    {"warp", known(r.warp)},
                    {"lane", known(r.lane)},
                    {"step", step},
                    {"address", has_address(r) ? json(fmt::format("0x{:x}", r.address)) : json()},
                    {"what", what},
                    {"us", static_cast<double>(r.cycle) * outcome.result.jobs[gpu].cycle_ns / 1e3},
                    {"expected", fault.expected}});
  }
  return rows;
}

}  // namespace heddle::cli

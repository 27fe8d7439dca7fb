#include "cli/kernel_use.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/memory_op.h"
#include "arch/sm_limits.h"
#include "arch/topology.h"
#include "arch/warp_program.h"
#include "common/error.h"
#include "memory/hbm_banks.h"
#include "protocol/packet_task.h"
#include "replay/csv_field.h"
#include "sm/sm_params.h"

namespace heddle::cli {
namespace {

using nlohmann::json;

constexpr double kWhole = 100;

double hundredth(double percent) { return std::round(percent * kWhole) / kWhole; }

double part_percent(double part, double whole) { return whole > 0 ? kWhole * part / whole : -1; }

// Launched by a program, not by the host.
bool of_program(std::uint32_t operation) {
  return (operation & protocol::kDispatchBit) == 0 && (operation & protocol::kChildBit) != 0;
}

double gpcs_of(const gpu::GpuParams& params) {
  return static_cast<double>(arch::Topology(params.machine.shape, params.machine.ugpus).gpcs());
}

// A program that has run, with its kernel.
struct StalledProgram {
  std::string kernel;
  std::shared_ptr<const arch::WarpProgram> program;
  const std::vector<KernelAccount::Stalls>* lines = nullptr;

  std::string text(std::uint32_t pc) const {
    arch::WarpState state;
    state.pc = pc;
    return program == nullptr ? std::string() : program->describe(state);
  }
};

std::uint64_t sum_of_stalls(const KernelAccount::Stalls& stalls) {
  std::uint64_t sum = 0;
  for (const std::uint64_t cycles : stalls) sum += cycles;
  return sum;
}

// In the order of their first CTAs.
std::vector<StalledProgram> stalled_programs(const RunOutcome& outcome, std::size_t gpu) {
  const replay::JobResult& job = outcome.result.jobs[gpu];
  const workload::Workload& workload = *outcome.workloads[gpu];
  std::vector<StalledProgram> programs;
  if (job.observation->kernels == nullptr) return programs;
  const KernelAccount& account = *job.observation->kernels;
  std::unordered_map<std::string, const arch::KernelRecord*> launched;  // looked up only
  for (const workload::LaunchedKernel& kernel : workload.launched) launched.emplace(kernel.kernel.name, &kernel.kernel);
  std::set<std::uint32_t> seen;
  for (const KernelAccount::Row& row : account.rows()) {
    if (row.program == KernelAccount::kNoProgram || row.program >= account.lines().size()) continue;
    if (!seen.insert(row.program).second) continue;
    if (!of_program(row.operation) && job.operation_of(row.operation) < workload.ops.size()) {
      const arch::KernelRecord& kernel = workload.ops[job.operation_of(row.operation)].kernel;
      programs.push_back({kernel.name, kernel.program, &account.lines()[row.program]});
      continue;
    }
    // Its task may not have ended.
    const std::string name = account.kernel_with(row.program);
    const auto found = launched.find(name);
    programs.push_back(
        {name, found == launched.end() ? nullptr : found->second->program, &account.lines()[row.program]});
  }
  return programs;
}

}  // namespace

double KernelUse::l1_hit_percent() const {
  return part_percent(of(KernelCount::l1_hits), of(KernelCount::l1_hits) + of(KernelCount::l1_misses));
}

double KernelUse::l2_hit_percent() const {
  return part_percent(of(KernelCount::l2_hits), of(KernelCount::l2_requests));
}

KernelCeilings::KernelCeilings(const gpu::GpuParams& params)
    : sms(params.machine.shape.sms()),
      clock(params.machine.clock),
      instructions(sms * sm::kSubPartitions),
      warps(sms * arch::capacity_of(params.sm.limits)[arch::Resource::warps]),
      partitions(sms * sm::kSubPartitions),
      tensor(partitions * params.sm.issue.tensor_flops),
      l1(sms * arch::kLineBytes),
      l2(static_cast<double>(params.l2.bandwidth) * params.l2.slices),
      dram(params.hbm.pin_rate / 8 * memory::table_of(params.hbm.standard).pins * params.hbm.channels /
           params.machine.clock) {
  // Links of GPCs are as wide as their SMs are many, or all alike.
  const double gpcs = params.xbar.gpc_sms > 0 ? sms / params.xbar.gpc_sms : gpcs_of(params);
  requests = std::min(sms * params.xbar.sm_bandwidth, gpcs * params.xbar.gpc_bandwidth);
  responses = std::min(sms * params.xbar.sm_read_bandwidth, gpcs * params.xbar.gpc_read_bandwidth);
}

std::array<ResourceUse, kUsedResources> resource_use(const KernelUse& use, const KernelCeilings& ceilings,
                                                     double cycles) {
  const auto percent = [cycles](double amount, double per_cycle) {
    return std::max(0.0, part_percent(amount, per_cycle * cycles));
  };
  const auto taken = [&](KernelCount count) { return percent(use.of(count), ceilings.partitions); };
  const double sectors = use.of(KernelCount::l1_hits) + use.of(KernelCount::l1_misses);
  return {{
      {"issue", "issue slots", percent(use.of(KernelCount::instructions), ceilings.instructions)},
      {"tensor", "tensor cores", taken(KernelCount::tensor_cycles)},
      {"fp32", "fp32 units", taken(KernelCount::fp32_cycles)},
      {"fp64", "fp64 units", taken(KernelCount::fp64_cycles)},
      {"int32", "integer units", taken(KernelCount::int32_cycles)},
      {"sfu", "special-function units", taken(KernelCount::sfu_cycles)},
      {"shared", "shared memory", percent(use.of(KernelCount::shared_cycles), ceilings.sms)},
      {"l1", "L1", percent(arch::kSectorBytes * sectors, ceilings.l1)},
      {"crossbar", "crossbar",
       std::max(percent(use.of(KernelCount::request_bytes), ceilings.requests),
                percent(use.of(KernelCount::response_bytes), ceilings.responses))},
      {"l2", "L2", percent(use.of(KernelCount::l2_bytes), ceilings.l2)},
      {"atomics", "atomics", percent(static_cast<double>(use.busiest_slice), 1)},
      {"dram", "device memory",
       percent(use.of(KernelCount::dram_read) + use.of(KernelCount::dram_written), ceilings.dram)},
  }};
}

double achieved_occupancy(const KernelUse& use, const KernelCeilings& ceilings, double cycles) {
  return std::max(0.0, part_percent(use.of(KernelCount::warp_cycles), ceilings.warps * cycles));
}

double places_percent(const arch::SmLimits& limits, const arch::KernelShape& kernel) {
  const arch::ResourceVector capacity = arch::capacity_of(limits);
  const arch::ResourceVector need = arch::need_of(limits, kernel);
  const double ctas = arch::free_slots(capacity, {}, need);
  return part_percent(ctas * need[arch::Resource::warps], capacity[arch::Resource::warps]);
}

KernelLimit limit_of(const KernelUse& use, const KernelCeilings& ceilings, double cycles, double places,
                     const MachineUse& machine, bool timed) {
  const std::array<ResourceUse, kUsedResources> own = resource_use(use, ceilings, cycles);
  std::array<std::size_t, kUsedResources> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&own](std::size_t a, std::size_t b) { return own[a].percent > own[b].percent; });
  const ResourceUse& most = own[order.front()];
  const double together = machine.resources[order.front()];
  const double held = part_percent(achieved_occupancy(use, ceilings, cycles), places);
  KernelLimit limit{most.title, most.percent, {}};
  const bool full = most.percent >= kLimitPercent;
  const bool shared = !full && most.percent > 0 && together >= kLimitPercent;
  if (shared) {
    limit.title += ", with other kernels";
    limit.percent = together;
  } else if (!full) {
    if (held >= 0 && held < kLimitPercent) {
      const bool taken = part_percent(machine.occupancy, places) >= kLimitPercent;
      limit.title = taken ? "other kernels" : "launch and grid";
      limit.percent = taken ? machine.occupancy : held;
    } else {
      limit.title = timed ? "its own duration" : "latency";
      limit.percent = timed ? held : most.percent;
    }
  }
  const std::size_t next = full || shared ? 1 : 0;
  for (std::size_t i = next; i < next + 2; ++i) limit.next.push_back(own[order[i]]);
  return limit;
}

KernelUses::KernelUses(const RunOutcome& outcome, std::size_t gpu) {
  const replay::JobResult& job = outcome.result.jobs[gpu];
  if (job.observation->kernels == nullptr) return;
  counted_ = true;
  const std::vector<KernelAccount::Row>& rows = job.observation->kernels->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const KernelAccount::Row& row = rows[i];
    if (i == KernelAccount::kNobody) {
      rest_.add(row);
    } else if (!row.name.empty()) {
      by_name_[row.name].add(row);
    } else if (of_program(row.operation)) {
      tasks_[row.operation].add(row);
    } else {
      operations_[job.operation_of(row.operation)].add(row);
    }
  }
  const auto is_listed = [&job](std::size_t operation) {
    return operation < job.results.size() && job.results[operation].done;
  };
  for (auto at = operations_.begin(); at != operations_.end();) {
    if (!is_listed(at->first)) rest_.add(at->second);
    at = is_listed(at->first) ? std::next(at) : operations_.erase(at);
  }
  std::set<std::uint32_t> listed;
  for (const LaunchedKernels::Task& task : job.observation->launched.tasks()) listed.insert(task.task);
  for (auto at = tasks_.begin(); at != tasks_.end();) {
    const bool stays = listed.count(at->first) > 0;
    if (!stays) rest_.add(at->second);
    at = stays ? std::next(at) : tasks_.erase(at);
  }
}

json use_stats_of(const RunOutcome& outcome, std::size_t gpu) {
  const KernelUses uses(outcome, gpu);
  if (!uses.counted()) return nullptr;
  const auto counts_of = [](const KernelUse& use) {
    json counts = json::object();
    for (const KernelCountRow& row : kKernelCountRows)
      counts[row.key] = use.counts[static_cast<std::size_t>(row.count)];
    json stalls = json::object();
    for (const WarpStallRow& row : kWarpStallRows) {
      const std::uint64_t cycles = use.stalls[static_cast<std::size_t>(row.why)];
      if (cycles > 0) stalls[row.key] = cycles;
    }
    counts["stalls"] = std::move(stalls);
    return counts;
  };
  json sums = json::array();
  for (const auto& [name, use] : uses.by_name()) {
    json row = counts_of(use);
    row["kernel"] = name;
    sums.push_back(std::move(row));
  }
  return {{"rest", counts_of(uses.rest())}, {"sums", std::move(sums)}};
}

void write_stalls(const RunOutcome& outcome, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << "gpu,kernel,instruction,step,reason,warp_cycles\n";
  for (std::size_t gpu = 0; gpu < outcome.result.jobs.size(); ++gpu) {
    for (const StalledProgram& program : stalled_programs(outcome, gpu)) {
      for (std::uint32_t pc = 0; pc < program.lines->size(); ++pc) {
        for (const WarpStallRow& row : kWarpStallRows) {
          const std::uint64_t cycles = (*program.lines)[pc][static_cast<std::size_t>(row.why)];
          if (cycles == 0) continue;
          file << fmt::format("{},{},{},{},{},{}\n", outcome.machines->gpus[gpu].instance,
                              replay::csv_field(program.kernel), pc, replay::csv_field(program.text(pc)), row.key,
                              cycles);
        }
      }
    }
  }
  file.close();
  if (!file) throw InputError({path, 0, 0}, "cannot be written", "choose another place for it, or free the disk");
}

namespace {

// All launches of a kernel.
struct NamedUse {
  std::string name;
  std::size_t launches = 0;
  double ns = 0;       // sum of their durations
  double places = -1;  // percent of an SM's warps; negative: nobody knows
  bool timed = false;  // its CTAs run for a given time
  KernelUse use;
  MachineUse machine;
};

// A launch whose use is known, and when it ran, in ns.
struct UsedTime {
  std::size_t row = 0;
  double start = 0;
  double end = 0;
  const KernelUse* use = nullptr;
};

// What all launches used while those of each row ran: each as much at any time as on its mean.
void find_machine_use(const std::vector<UsedTime>& launches, const KernelCeilings& ceilings,
                      std::vector<NamedUse>& rows) {
  using Load = std::array<double, kUsedResources + 1>;  // percent; the last is the occupancy
  std::map<double, Load> changes;
  for (const UsedTime& launch : launches) {
    const double cycles = (launch.end - launch.start) * ceilings.clock;
    if (cycles <= 0) continue;
    const auto own = resource_use(*launch.use, ceilings, cycles);
    Load& begin = changes[launch.start];
    Load& end = changes[launch.end];
    for (std::size_t i = 0; i <= kUsedResources; ++i) {
      const double load = i < kUsedResources ? own[i].percent : achieved_occupancy(*launch.use, ceilings, cycles);
      begin[i] += load;
      end[i] -= load;
    }
  }
  // From rates to their integrals.
  Load rate{};
  Load sum{};
  double last = 0;
  for (auto& [when, load] : changes) {
    for (std::size_t i = 0; i <= kUsedResources; ++i) {
      sum[i] += rate[i] * (when - last);
      rate[i] += load[i];
    }
    load = sum;
    last = when;
  }
  std::vector<Load> used(rows.size());
  std::vector<double> ran(rows.size());
  for (const UsedTime& launch : launches) {
    if (launch.end <= launch.start) continue;
    const Load& begin = changes.at(launch.start);
    const Load& end = changes.at(launch.end);
    ran[launch.row] += launch.end - launch.start;
    for (std::size_t i = 0; i <= kUsedResources; ++i) used[launch.row][i] += end[i] - begin[i];
  }
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (ran[k] <= 0) continue;
    for (std::size_t i = 0; i < kUsedResources; ++i) rows[k].machine.resources[i] = used[k][i] / ran[k];
    rows[k].machine.occupancy = used[k][kUsedResources] / ran[k];
  }
}

bool runs_for_a_time(const arch::KernelRecord& kernel) { return kernel.program == nullptr && kernel.demand == nullptr; }

// The longest first.
std::vector<NamedUse> uses_by_name(const RunOutcome& outcome, std::size_t gpu, const KernelUses& uses,
                                   const KernelCeilings& ceilings) {
  const replay::JobResult& job = outcome.result.jobs[gpu];
  const workload::Workload& workload = *outcome.workloads[gpu];
  const arch::SmLimits& limits = outcome.machines->gpus[gpu].params.sm.limits;
  std::vector<NamedUse> rows;
  std::vector<UsedTime> launches;
  std::unordered_map<std::string, std::size_t> places;  // looked up only
  const auto row_of = [&](const std::string& name) -> NamedUse& {
    const auto [place, fresh] = places.emplace(name, rows.size());
    if (fresh) rows.push_back({name, 0, 0, -1, false, {}, {}});
    return rows[place->second];
  };
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const replay::OpResult& result = job.results[i];
    if (workload.ops[i].kind != workload::OpKind::kernel || !result.done || result.rejected) continue;
    NamedUse& row = row_of(workload.ops[i].kernel.name);
    if (row.places < 0) row.places = places_percent(limits, workload.ops[i].kernel);
    ++row.launches;
    row.ns += result.end - result.start;
    row.timed = runs_for_a_time(workload.ops[i].kernel);
    const KernelUse* use = uses.of_operation(i);
    if (use == nullptr) continue;
    row.use.add(*use);
    launches.push_back({places.at(row.name), result.start, result.end, use});
  }
  std::unordered_map<std::string, const arch::KernelRecord*> launched;  // looked up only
  for (const workload::LaunchedKernel& kernel : workload.launched) launched.emplace(kernel.kernel.name, &kernel.kernel);
  for (const auto& [key, sum] : job.observation->launched.sums()) {
    if (sum.started == 0) continue;
    NamedUse& row = row_of(key.name);
    const auto kernel = launched.find(row.name);
    if (row.places < 0 && kernel != launched.end()) row.places = places_percent(limits, *kernel->second);
    row.timed = kernel != launched.end() && runs_for_a_time(*kernel->second);
    row.launches += sum.started;
    row.ns += static_cast<double>(sum.ran) * job.cycle_ns;
  }
  for (const LaunchedKernels::Task& task : job.observation->launched.tasks()) {
    const KernelUse* use = uses.of_task(task.task);
    if (use == nullptr || task.start == 0) continue;
    row_of(task.key->name).use.add(*use);
    const auto ns_of = [&job](std::uint64_t cycle) { return static_cast<double>(cycle) * job.cycle_ns - job.lead_ns; };
    launches.push_back({places.at(task.key->name), ns_of(task.start), ns_of(task.end), use});
  }
  for (const auto& [name, use] : uses.by_name()) row_of(name).use.add(use);
  find_machine_use(launches, ceilings, rows);
  std::stable_sort(rows.begin(), rows.end(), [](const NamedUse& a, const NamedUse& b) { return a.ns > b.ns; });
  return rows;
}

json stalls_json(const KernelAccount::Stalls& stalls, double all) {
  std::vector<std::pair<std::uint64_t, const WarpStallRow*>> parts;
  for (const WarpStallRow& row : kWarpStallRows) {
    const std::uint64_t cycles = stalls[static_cast<std::size_t>(row.why)];
    if (cycles > 0) parts.emplace_back(cycles, &row);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  json list = json::array();
  for (const auto& [cycles, row] : parts) {
    list.push_back({{"reason", row->key},
                    {"what", row->text},
                    {"warp_cycles", cycles},
                    {"share_percent", hundredth(part_percent(static_cast<double>(cycles), all))}});
  }
  return list;
}

json row_json(const NamedUse& row, const KernelCeilings& ceilings) {
  const double cycles = row.ns * ceilings.clock;
  const KernelUse& use = row.use;
  const KernelLimit limit = limit_of(use, ceilings, cycles, row.places, row.machine, row.timed);
  const auto known = [](double percent) { return percent < 0 ? json() : json(hundredth(percent)); };
  json resources = json::object();
  for (const ResourceUse& one : resource_use(use, ceilings, cycles)) resources[one.key] = hundredth(one.percent);
  json next = json::array();
  for (const ResourceUse& one : limit.next) next.push_back({{"label", one.title}, {"percent", hundredth(one.percent)}});
  double waited = 0;
  for (const std::uint64_t one : use.stalls) waited += static_cast<double>(one);
  return {{"name", row.name},
          {"launches", row.launches},
          {"us", row.ns / 1e3},
          {"instructions", use.of(KernelCount::instructions)},
          {"operations", use.of(KernelCount::tensor_cycles) * ceilings.tensor / ceilings.partitions},
          {"l1_bytes", arch::kSectorBytes * (use.of(KernelCount::l1_hits) + use.of(KernelCount::l1_misses))},
          {"l1_hit_percent", known(use.l1_hit_percent())},
          {"l2_bytes", use.of(KernelCount::l2_bytes)},
          {"l2_hit_percent", known(use.l2_hit_percent())},
          {"dram_bytes", use.of(KernelCount::dram_read) + use.of(KernelCount::dram_written)},
          {"occupancy_percent", hundredth(achieved_occupancy(use, ceilings, cycles))},
          {"use", resources},
          {"limit", {{"label", limit.title}, {"percent", hundredth(limit.percent)}, {"next", next}}},
          {"stalls", stalls_json(use.stalls, std::max(waited, 1.0))}};
}

json lines_json(const StalledProgram& program) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> lines;
  std::uint64_t all = 0;
  for (std::uint32_t pc = 0; pc < program.lines->size(); ++pc) {
    const std::uint64_t sum = sum_of_stalls((*program.lines)[pc]);
    all += sum;
    if (sum > 0) lines.emplace_back(sum, pc);
  }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  json rows = json::array();
  for (std::size_t i = 0; i < std::min(lines.size(), kStallRows); ++i) {
    const auto [sum, pc] = lines[i];
    rows.push_back({{"step", program.text(pc)},
                    {"instruction", pc},
                    {"warp_cycles", sum},
                    {"share_percent", hundredth(part_percent(static_cast<double>(sum), static_cast<double>(all)))},
                    {"reasons", stalls_json((*program.lines)[pc], static_cast<double>(sum))}});
  }
  return {{"kernel", program.kernel},
          {"warp_cycles", all},
          {"lines", rows},
          {"left_out", lines.size() - std::min(lines.size(), kStallRows)}};
}

}  // namespace

json kernel_use_of(const RunOutcome& outcome, std::size_t gpu) {
  const KernelUses uses(outcome, gpu);
  if (!uses.counted()) return nullptr;
  const KernelCeilings ceilings(outcome.machines->gpus[gpu].params);
  const std::vector<NamedUse> named = uses_by_name(outcome, gpu, uses, ceilings);
  json rows = json::array();
  for (std::size_t i = 0; i < std::min(named.size(), kUseRows); ++i) {
    if (named[i].ns > 0) rows.push_back(row_json(named[i], ceilings));
  }
  if (rows.empty()) return nullptr;
  std::vector<json> programs;
  for (const StalledProgram& program : stalled_programs(outcome, gpu)) {
    json lines = lines_json(program);
    if (!lines["lines"].empty()) programs.push_back(std::move(lines));
  }
  std::stable_sort(programs.begin(), programs.end(), [](const json& a, const json& b) {
    return a["warp_cycles"].get<std::uint64_t>() > b["warp_cycles"].get<std::uint64_t>();
  });
  if (programs.size() > kStallRows) programs.resize(kStallRows);
  const KernelUse& nobody = uses.rest();
  return {{"threshold_percent", kLimitPercent},
          {"rows", rows},
          {"left_out", named.size() - rows.size()},
          {"nobody",
           {{"l2_bytes", nobody.of(KernelCount::l2_bytes)},
            {"dram_read_bytes", nobody.of(KernelCount::dram_read)},
            {"dram_written_bytes", nobody.of(KernelCount::dram_written)}}},
          {"ceilings",
           {{"instructions_per_us", ceilings.instructions * ceilings.clock * 1e3},
            {"operations_per_us", ceilings.tensor * ceilings.clock * 1e3},
            {"l2_gb_per_s", ceilings.l2 * ceilings.clock},
            {"dram_gb_per_s", ceilings.dram * ceilings.clock}}},
          {"programs", programs}};
}

}  // namespace heddle::cli

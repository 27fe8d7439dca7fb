// Why SMs had no CTA: for the summary, the page and stats.json.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/idle_account.h"
#include "cli/run_outcome.h"

namespace heddle::cli {
namespace {

using nlohmann::json;

struct IdlePart {
  const IdleReasonRow* row = nullptr;
  std::uint64_t cycles = 0;
};

// Those that there are, the largest first.
std::vector<IdlePart> idle_parts(const std::array<std::uint64_t, kIdleReasons>& cycles) {
  std::vector<IdlePart> parts;
  for (const IdleReasonRow& row : kIdleReasonRows) {
    const std::uint64_t own = cycles[static_cast<std::size_t>(row.reason)];
    if (own > 0) parts.push_back({&row, own});
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const IdlePart& a, const IdlePart& b) { return a.cycles > b.cycles; });
  return parts;
}

std::uint64_t sum_of_idle(const std::vector<IdlePart>& parts) {
  std::uint64_t sum = 0;
  for (const IdlePart& part : parts) sum += part.cycles;
  return sum;
}

std::array<std::uint64_t, kIdleReasons> idle_cycles(const IdleAccount& account) {
  std::array<std::uint64_t, kIdleReasons> cycles{};
  for (const IdleReasonRow& row : kIdleReasonRows) {
    cycles[static_cast<std::size_t>(row.reason)] = account.cycles(row.reason);
  }
  return cycles;
}

// By name, the kernel first that most idle time has to do with.
std::vector<std::pair<std::string, std::vector<IdlePart>>> idle_by_name(const workload::Workload& workload,
                                                                        const replay::JobResult& job) {
  std::map<std::string, std::array<std::uint64_t, kIdleReasons>> sums;
  for (const IdleKernels::Kernel& kernel : job.observation->idle->kernels().all()) {
    std::string name = kernel.name;
    if (kernel.operation) {
      const std::size_t operation = job.operation_of(*kernel.operation);
      if (operation < workload.ops.size()) name = workload.ops[operation].kernel.name;
    }
    std::array<std::uint64_t, kIdleReasons>& sum = sums[name];
    for (std::size_t i = 0; i < kIdleReasons; ++i) sum[i] += kernel.cycles[i];
  }
  std::vector<std::pair<std::string, std::vector<IdlePart>>> rows;
  for (const auto& [name, cycles] : sums) rows.emplace_back(name, idle_parts(cycles));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return sum_of_idle(a.second) > sum_of_idle(b.second); });
  return rows;
}

double idle_percent(std::uint64_t part, std::uint64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

json idle_stats_of(const workload::Workload& workload, const replay::JobResult& job) {
  json kernels = json::array();
  for (const auto& [name, parts] : idle_by_name(workload, job)) {
    json cycles = json::object();
    for (const IdlePart& part : parts) cycles[part.row->key] = part.cycles;
    kernels.push_back({{"kernel", name}, {"sm_cycles", sum_of_idle(parts)}, {"reasons", cycles}});
  }
  if (kernels.empty()) return nullptr;
  return kernels;
}

json idle_of(const RunOutcome& outcome, std::size_t gpu) {
  const replay::JobResult& job = outcome.result.jobs[gpu];
  const std::vector<IdlePart> parts = idle_parts(idle_cycles(*job.observation->idle));
  const std::uint64_t idle = sum_of_idle(parts);
  const auto all = outcome.stats[outcome.machines->gpus[gpu].instance + ".sm_cycles"]["value"].get<std::uint64_t>();
  if (idle == 0 || all == 0) return nullptr;
  json reasons = json::array();
  for (const IdlePart& part : parts) {
    reasons.push_back({{"label", part.row->title},
                       {"what", part.row->text},
                       {"sm_us", static_cast<double>(part.cycles) * job.cycle_ns / 1e3},
                       {"share_percent", idle_percent(part.cycles, idle)}});
  }
  json kernels = json::array();
  const auto rows = idle_by_name(*outcome.workloads[gpu], job);
  for (std::size_t i = 0; i < std::min(rows.size(), kIdleKernels); ++i) {
    const auto& [name, own] = rows[i];
    const std::uint64_t sum = sum_of_idle(own);
    if (sum == 0) break;
    json why = json::array();
    for (const IdlePart& part : own) {
      why.push_back({{"label", part.row->title}, {"share_percent", idle_percent(part.cycles, sum)}});
    }
    kernels.push_back({{"name", name},
                       {"sm_us", static_cast<double>(sum) * job.cycle_ns / 1e3},
                       {"share_percent", idle_percent(sum, idle)},
                       {"reasons", why}});
  }
  return {{"idle_percent", idle_percent(idle, all)},
          {"sm_us", static_cast<double>(idle) * job.cycle_ns / 1e3},
          {"reasons", reasons},
          {"kernels", kernels},
          {"left_out", rows.size() - std::min(rows.size(), kIdleKernels)}};
}

std::string idle_line(const RunOutcome& outcome, std::size_t gpu) {
  const std::vector<IdlePart> parts = idle_parts(idle_cycles(*outcome.result.jobs[gpu].observation->idle));
  const std::uint64_t idle = sum_of_idle(parts);
  const auto all = outcome.stats[outcome.machines->gpus[gpu].instance + ".sm_cycles"]["value"].get<std::uint64_t>();
  if (idle == 0 || all == 0) return {};
  constexpr std::size_t kTold = 3;
  std::string line = fmt::format("{} of the time of all SMs, of that ", percent_text(idle_percent(idle, all) / 100, 1));
  for (std::size_t i = 0; i < std::min(parts.size(), kTold); ++i) {
    line += fmt::format("{}{} {}", i == 0 ? "" : "; ", parts[i].row->title,
                        percent_text(idle_percent(parts[i].cycles, idle) / 100, 1));
  }
  return line;
}

}  // namespace heddle::cli

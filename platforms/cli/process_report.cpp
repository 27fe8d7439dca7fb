// What each subcontext took and got (PRT-09): statistics of its kernels, and the rows of the page.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"
#include "cli/stat_sums.h"

namespace heddle::cli {
namespace {

using nlohmann::json;

// The statistics of a GPU's subcontexts, by number, with what stands behind "<instance>.<block>.subcontext<n>.".
std::map<std::uint32_t, std::map<std::string, json>> by_subcontext(const json& stats, const std::string& prefix) {
  std::map<std::uint32_t, std::map<std::string, json>> found;
  const auto& all = stats.get_ref<const json::object_t&>();
  for (auto at = all.lower_bound(prefix); at != all.end() && at->first.compare(0, prefix.size(), prefix) == 0; ++at) {
    const auto& [path, entry] = *at;
    const std::size_t dot = path.find('.', prefix.size());
    const std::string number = path.substr(prefix.size(), dot - prefix.size());
    if (dot == std::string::npos || number.empty() || number.find_first_not_of("0123456789") != std::string::npos)
      continue;
    found[static_cast<std::uint32_t>(std::stoul(number))][path.substr(dot + 1)] = entry;
  }
  return found;
}

double value_of(const std::map<std::string, json>& entries, const std::string& name) {
  const auto found = entries.find(name);
  return found == entries.end() ? 0 : found->second["value"].get<double>();
}

json known_value(const std::map<std::string, json>& entries, const std::string& name) {
  const auto found = entries.find(name);
  return found == entries.end() ? json() : found->second["value"];
}

// Whose doing a wait is, as far as its reason says so.
const char* cause_of(const std::string& reason) {
  if (reason == "credits") return "its own credits";
  if (reason == "tpc_mask") return "its own mask, and what runs there";
  if (reason == "local_memory") return "its own blocks";
  if (reason == "share") return "its own shares of SMs and warps";
  if (reason == "pool") return "its own tasks, or whoever has more than its part";
  if (reason == "memory_slot" || reason == "flush") return "its own clusters";
  return "whoever holds the machine, itself included";
}

// `bytes`: what the memory system counts of the subcontext.
json waits_of(const std::map<std::string, json>& entries, const std::map<std::string, json>& bytes, double cycle_us) {
  constexpr const char* kWait = "wait.";
  json rows = json::array();
  for (const auto& [name, entry] : entries) {
    if (name.rfind(kWait, 0) != 0) continue;
    const double cycles = entry["value"].get<double>();
    if (cycles == 0) continue;
    const auto text = entry["description"].get<std::string>();
    const std::string reason = name.substr(std::string(kWait).size());
    rows.push_back(
        {{"reason", text.substr(text.rfind(": ") + 2)}, {"us", cycles * cycle_us}, {"cause", cause_of(reason)}});
  }
  if (const double held = value_of(bytes, "limited_cycles"); held > 0) {
    rows.push_back({{"reason", "limit of bandwidth: first requests of queues at L2 slices"},
                    {"us", held * cycle_us},
                    {"cause", "its own limit"}});
  }
  return rows;
}

}  // namespace

void publish_processes(const std::string& instance, const workload::Workload& workload, const replay::JobResult& job,
                       Stats& stats) {
  std::set<std::uint32_t> seen;
  for (const workload::Op& op : workload.ops) {
    if (op.kind == workload::OpKind::kernel) seen.insert(op.kernel.subcontext);
  }
  if (seen.empty() || (seen.size() == 1 && *seen.begin() == 0)) return;
  for (const std::uint32_t subcontext : seen) {
    const std::string prefix = fmt::format("{}.subcontext{}", instance, subcontext);
    Counter& open =
        stats.counter(prefix + ".open", "kernels", "kernels of the subcontext that had not ended with the run");
    Histogram& latency =
        stats.histogram(prefix + ".latency", "ns", "from the submission of a kernel of the subcontext to its end");
    for (std::size_t i = 0; i < workload.ops.size(); ++i) {
      const workload::Op& op = workload.ops[i];
      if (op.kind != workload::OpKind::kernel || op.kernel.subcontext != subcontext) continue;
      const replay::OpResult& result = job.results[i];
      if (!result.done) open.add();
      if (!result.done || result.rejected) continue;
      latency.add(static_cast<std::uint64_t>(std::max(0.0, result.end - result.submitted)));
    }
  }
}

json processes_of(const RunOutcome& outcome, std::size_t gpu) {
  const std::string instance = outcome.machines->gpus[gpu].instance;
  const auto shares = by_subcontext(outcome.stats, instance + ".cwd.subcontext");
  if (shares.empty()) return nullptr;
  const auto kernels = by_subcontext(outcome.stats, instance + ".subcontext");
  const auto moved = by_subcontext(outcome.stats, instance + ".memory.subcontext");
  const double cycle_us = outcome.result.jobs[gpu].cycle_ns / 1e3;
  const double sms = outcome.machines->gpus[gpu].params.machine.shape.sms();

  std::set<std::uint32_t> numbers;
  for (const auto& [number, entries] : shares) numbers.insert(number);
  for (const auto& [number, entries] : moved) numbers.insert(number);
  constexpr std::array<const char*, 5> kBytes{"l2_bytes", "xbar_request_bytes", "xbar_response_bytes", "hbm_read_bytes",
                                              "hbm_written_bytes"};
  std::map<std::string, double> totals;
  for (const auto& [number, entries] : moved) {
    for (const char* name : kBytes) totals[name] += value_of(entries, name);
  }

  const std::map<std::string, json> none;
  const auto entries_of = [&none](const auto& map, std::uint32_t number) -> const std::map<std::string, json>& {
    const auto found = map.find(number);
    return found == map.end() ? none : found->second;
  };
  json rows = json::array();
  for (const std::uint32_t number : numbers) {
    const auto& share = entries_of(shares, number);
    const auto& kernel = entries_of(kernels, number);
    const auto& bytes = entries_of(moved, number);
    const double busy = value_of(share, "busy_cycles");
    const auto us = [&kernel](const char* name) {
      const json ns = known_value(kernel, name);
      return ns.is_null() ? ns : json(ns.get<double>() / 1e3);
    };
    const auto over_busy = [busy](double sum) { return busy > 0 ? json(sum / busy) : json(); };
    const json held_most = known_value(share, "tpcs_held.max");
    json row = {{"subcontext", number},
                {"shared", !share.empty()},
                {"kernels", value_of(kernel, "latency.count")},
                {"open", value_of(kernel, "open")},
                {"mean_us", us("latency.mean")},
                {"p50_us", us("latency.p50")},
                {"p99_us", us("latency.p99")},
                {"ctas", value_of(share, "ctas_completed")},
                {"ctas_per_us", known_value(share, "ctas_per_us")},
                {"busy_us", busy * cycle_us},
                {"sm_percent", share_of(value_of(share, "sm_cycles"), busy * sms)},
                {"tpcs_mean", over_busy(value_of(share, "tpc_cycles"))},
                {"tpcs_most", held_most.is_null() ? known_value(share, "tpcs_held") : held_most},
                {"credits_left", known_value(share, "credits")},
                {"contested_us", value_of(share, "contested_cycles") * cycle_us},
                {"progress_percent",
                 value_of(share, "contested_cycles") > 0 ? json(100 * value_of(share, "progress")) : json()},
                {"waiting", value_of(share, "tasks_waiting")},
                {"waits", waits_of(share, bytes, cycle_us)},
                {"l2_hit_percent", share_of(value_of(bytes, "l2_hits"), value_of(bytes, "l2_requests"))}};
    for (const char* name : kBytes) {
      row["bytes"].push_back({value_of(bytes, name), share_of(value_of(bytes, name), totals[name])});
    }
    rows.push_back(std::move(row));
  }
  json result = {{"rows", rows}};
  const std::string fairness = instance + ".cwd.subcontext_fairness";
  if (outcome.stats.contains(fairness)) result["fairness"] = outcome.stats[fairness]["value"];
  return result;
}

}  // namespace heddle::cli

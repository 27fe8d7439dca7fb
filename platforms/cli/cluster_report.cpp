#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"
#include "protocol/packet_task.h"

namespace heddle::cli {
namespace {

using nlohmann::json;
using Total = ClusterMap::Total;
using Cluster = ClusterMap::Cluster;

const std::string& kernel_of(const workload::Workload& workload, std::uint32_t task) {
  return workload.ops.at(task).kernel.name;
}

std::uint64_t warps_of(const workload::Workload& workload, std::uint32_t task) {
  constexpr std::uint64_t kLanes = 32;
  return (workload.ops.at(task).kernel.block.count() + kLanes - 1) / kLanes;
}

json mean(double sum, double count) { return count > 0 ? json(sum / count) : json(); }

// Of one warp in one phase, if every warp of the CGA took part.
json mean_wait(std::uint64_t waited, std::uint64_t phases, std::uint64_t warps) {
  return mean(static_cast<double>(waited), static_cast<double>(phases) * static_cast<double>(warps));
}

std::uint64_t skew_of(const Cluster& cluster) {
  const auto earlier = [](const ClusterMap::Cta& a, const ClusterMap::Cta& b) { return a.begin < b.begin; };
  const auto [first, last] = std::minmax_element(cluster.ctas.begin(), cluster.ctas.end(), earlier);
  return cluster.ctas.empty() ? 0 : last->begin - first->begin;
}

std::uint64_t bytes_in(const ClusterMap& map, std::uint32_t gpc) {
  std::uint64_t bytes = 0;
  const std::uint32_t sms = static_cast<std::uint32_t>(map.sms(gpc).size());
  for (std::uint32_t from = 0; from < sms; ++from) {
    for (std::uint32_t to = 0; to < sms; ++to) bytes += map.bytes(gpc, from, to);
  }
  return bytes;
}

// Rows: SMs that sent.
json matrix_of(const ClusterMap& map, std::uint32_t gpc) {
  json rows = json::array();
  const std::uint32_t sms = static_cast<std::uint32_t>(map.sms(gpc).size());
  for (std::uint32_t from = 0; from < sms; ++from) {
    json row = json::array();
    for (std::uint32_t to = 0; to < sms; ++to) row.push_back(map.bytes(gpc, from, to));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string bytes_text(double bytes) {
  static constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

json stats_of(const workload::Workload& workload, const Total& total) {
  const double count = static_cast<double>(total.count);
  return {{"operation", total.task},
          {"kernel", kernel_of(workload, total.task)},
          {"guessed", workload.ops.at(total.task).cluster_guessed},
          {"size", total.size},
          {"cgas", total.count},
          {"unfinished", total.begun - total.count},
          {"mean_sms", mean(static_cast<double>(total.sms), count)},
          {"mean_skew", mean(static_cast<double>(total.skew), count)},
          {"max_skew", total.max_skew},
          {"mean_cycles", mean(static_cast<double>(total.lived), count)},
          {"barrier_phases", total.barriers},
          {"barrier_warp_cycles", total.waited},
          {"mean_barrier_wait", mean_wait(total.waited, total.barriers, total.size * warps_of(workload, total.task))}};
}

json stats_of(const Cluster& cluster) {
  json ctas = json::array();
  for (const ClusterMap::Cta& cta : cluster.ctas) {
    ctas.push_back(
        {{"rank", cta.rank}, {"sm", cta.sm}, {"begin", cta.begin}, {"end", cta.end == 0 ? json() : json(cta.end)}});
  }
  return {{"operation", cluster.task},
          {"cga", cluster.cga},
          {"gpc", cluster.gpc},
          {"id", cluster.local_id},
          {"size", cluster.size},
          {"skew", skew_of(cluster)},
          {"barrier_phases", cluster.barriers},
          {"barrier_warp_cycles", cluster.waited},
          {"ctas", ctas}};
}

// Kernels of one name, block and size of CGA in one row (of one name all are guessed, or none): a kernel may be
// launched thousands of times.
struct ClusterRow {
  std::string kernel;
  bool guessed = false;     // the recording does not tell the cluster
  std::uint64_t warps = 0;  // of a CTA
  Total total;              // task: any of them
};

class Rows {
 public:
  explicit Rows(const workload::Workload& workload) : workload_(&workload) {}

  std::size_t index_of(std::uint32_t task, std::uint32_t size) {
    const std::string& name = kernel_of(*workload_, task);
    const std::uint64_t warps = warps_of(*workload_, task);
    const auto [entry, added] = index_.try_emplace({name, warps, size}, rows_.size());
    if (added) {
      rows_.push_back({name, workload_->ops.at(task).cluster_guessed, warps, {}});
      rows_.back().total.size = size;
    }
    return entry->second;
  }

  void add(const Total& its) {
    Total& sum = rows_[index_of(its.task, its.size)].total;
    sum.begun += its.begun;
    sum.count += its.count;
    sum.sms += its.sms;
    sum.skew += its.skew;
    sum.max_skew = std::max(sum.max_skew, its.max_skew);
    sum.lived += its.lived;
    sum.barriers += its.barriers;
    sum.waited += its.waited;
  }

  json to_json() const {
    json rows = json::array();
    for (const ClusterRow& row : rows_) {
      const Total& total = row.total;
      const double count = static_cast<double>(total.count);
      rows.push_back({{"kernel", row.kernel},
                      {"guessed", row.guessed},
                      {"size", total.size},
                      {"warps", row.warps},
                      {"cgas", total.count},
                      {"unfinished", total.begun - total.count},
                      {"mean_sms", mean(static_cast<double>(total.sms), count)},
                      {"mean_skew", mean(static_cast<double>(total.skew), count)},
                      {"max_skew", total.max_skew},
                      {"mean_cycles", mean(static_cast<double>(total.lived), count)},
                      {"phases", total.barriers},
                      {"mean_wait", mean_wait(total.waited, total.barriers, total.size * row.warps)}});
    }
    return rows;
  }

 private:
  const workload::Workload* workload_;
  std::vector<ClusterRow> rows_;
  std::map<std::tuple<std::string, std::uint64_t, std::uint32_t>, std::size_t> index_;
};

// CGAs carry the ids of tasks; the report is about operations of the workload, and leaves out what programs launched.
template <class T>
void leave_out_children(std::vector<T>& list) {
  const auto child = [](const T& one) { return (one.task & protocol::kChildBit) != 0; };
  list.erase(std::remove_if(list.begin(), list.end(), child), list.end());
}
std::vector<Total> totals_of(const replay::JobResult& job) {
  std::vector<Total> totals = job.observation->clusters.totals();
  for (Total& total : totals) total.task = static_cast<std::uint32_t>(job.operation_of(total.task));
  leave_out_children(totals);
  return totals;
}

std::vector<Cluster> kept_of(const replay::JobResult& job) {
  std::vector<Cluster> kept = job.observation->clusters.kept();
  for (Cluster& cluster : kept) cluster.task = static_cast<std::uint32_t>(job.operation_of(cluster.task));
  leave_out_children(kept);
  return kept;
}

json first_of(const workload::Workload& workload, const replay::JobResult& job, Rows& rows) {
  json first = json::array();
  for (const Cluster& cluster : kept_of(job)) {
    json ctas = json::array();
    for (const ClusterMap::Cta& cta : cluster.ctas) {
      ctas.push_back(json::array({cta.rank, cta.sm, cta.begin, cta.end == 0 ? json() : json(cta.end)}));
    }
    const std::uint64_t warps = cluster.size * warps_of(workload, cluster.task);
    first.push_back({{"row", rows.index_of(cluster.task, cluster.size)},
                     {"operation", cluster.task},
                     {"cga", cluster.cga},
                     {"gpc", cluster.gpc},
                     {"skew", skew_of(cluster)},
                     {"phases", cluster.barriers},
                     {"mean_wait", mean_wait(cluster.waited, cluster.barriers, warps)},
                     {"ctas", std::move(ctas)}});
  }
  return first;
}

}  // namespace

json cluster_stats_of(const workload::Workload& workload, const replay::JobResult& job) {
  const ClusterMap& map = job.observation->clusters;
  if (map.totals().empty()) return nullptr;
  json totals = json::array();
  for (const Total& total : totals_of(job)) totals.push_back(stats_of(workload, total));
  json first = json::array();
  const std::vector<Cluster> kept = kept_of(job);
  for (std::size_t i = 0; i < std::min(kept.size(), kClustersInStats); ++i) first.push_back(stats_of(kept[i]));
  json dsmem = json::array();
  for (std::uint32_t gpc = 0; gpc < map.gpcs(); ++gpc) {
    if (bytes_in(map, gpc) == 0) continue;
    dsmem.push_back({{"gpc", gpc}, {"sms", map.sms(gpc)}, {"bytes", matrix_of(map, gpc)}});
  }
  return {{"totals", std::move(totals)}, {"first", std::move(first)}, {"dsmem", std::move(dsmem)}};
}

json clusters_of(const workload::Workload& workload, const replay::JobResult& job) {
  const ClusterMap& map = job.observation->clusters;
  if (map.totals().empty()) return nullptr;
  Rows rows(workload);
  for (const Total& total : totals_of(job)) rows.add(total);
  json first = first_of(workload, job, rows);
  json gpcs = json::array();
  for (std::uint32_t gpc = 0; gpc < map.gpcs(); ++gpc) {
    json paths = json::array();
    for (const std::uint32_t sm : map.sms(gpc)) paths.push_back(job.sm_paths.at(sm));
    gpcs.push_back({{"sms", map.sms(gpc)}, {"paths", std::move(paths)}});
    if (bytes_in(map, gpc) > 0) gpcs.back()["bytes"] = matrix_of(map, gpc);
  }
  return {{"cycle_us", job.cycle_ns / 1e3},
          {"totals", rows.to_json()},
          {"first", std::move(first)},
          {"gpcs", std::move(gpcs)}};
}

std::string cluster_line(const replay::JobResult& job) {
  const ClusterMap& map = job.observation->clusters;
  if (map.totals().empty()) return {};
  Total sum;
  for (const Total& total : map.totals()) {
    sum.begun += total.begun;
    sum.count += total.count;
    sum.skew += total.skew;
  }
  double bytes = 0;
  for (std::uint32_t gpc = 0; gpc < map.gpcs(); ++gpc) bytes += static_cast<double>(bytes_in(map, gpc));
  std::string line = counted(static_cast<double>(sum.begun), "CGA", "CGAs");
  const std::uint64_t cut = sum.begun - sum.count;
  if (cut > 0)
    line += fmt::format(", {} not to {} end", with_commas(static_cast<double>(cut)), cut == 1 ? "its" : "their");
  if (sum.count > 0) {
    line += fmt::format("; their CTAs began within {:.1f} cycles of each other on average",
                        static_cast<double>(sum.skew) / static_cast<double>(sum.count));
  }
  if (bytes > 0) line += fmt::format("; {} between SMs", bytes_text(bytes));
  return line;
}

}  // namespace heddle::cli

// What stats.json, the page and the summary tell of a GPU's CGAs that ran within a GPC: where, how far apart their CTAs
// began, how they waited for each other, and who accessed whose shared memory.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "replay/simulation.h"
#include "workload/workload.h"

namespace heddle::cli {

constexpr std::size_t kClustersInStats = 100;  // in detail

// The part `clusters` of a GPU in stats.json (docs/statistics.md); null without CGAs.
nlohmann::json cluster_stats_of(const workload::Workload& workload, const replay::JobResult& job);

// The same for the page, as report/report_page.h describes it.
nlohmann::json clusters_of(const workload::Workload& workload, const replay::JobResult& job);

// "64 CGAs; their CTAs began within 12.0 cycles of each other on average; 1.5 MiB between SMs"; empty without CGAs.
std::string cluster_line(const replay::JobResult& job);

}  // namespace heddle::cli

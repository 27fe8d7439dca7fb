// The parts that stats.json, the page and the summary tell of a GPU: its clusters, its memory and faults, and the
// launches by packets.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/run_outcome.h"
#include "replay/simulation.h"
#include "workload/workload.h"

namespace heddle::cli {

// Of CGAs that ran within a GPC: where, how far apart their CTAs began, how they waited for each other, and who
// accessed whose shared memory.

constexpr std::size_t kClustersInStats = 100;  // in detail

// The part `clusters` of a GPU in stats.json (docs/statistics.md); null without CGAs.
nlohmann::json cluster_stats_of(const workload::Workload& workload, const replay::JobResult& job);

// The same for the page, as report/report_page.h describes it.
nlohmann::json clusters_of(const workload::Workload& workload, const replay::JobResult& job);

// "64 CGAs; their CTAs began within 12.0 cycles of each other on average; 1.5 MiB between SMs"; empty without CGAs.
std::string cluster_line(const replay::JobResult& job);

// Of memory and faults.

// Sums of the statistics of SMs, L2 slices and HBM, beside what the machine could do in the time in which kernels with
// programs ran; null if none did. As report/report_page.h describes it.
nlohmann::json memory_of(const RunOutcome& outcome, std::size_t gpu);

// One row per fault; null if there is none.
nlohmann::json faults_of(const RunOutcome& outcome, std::size_t gpu);

// Of kernels that were launched by packets (PKT-08).

// Sums over all launches, as statistics below "<instance>.packets".
void publish_packets(const std::string& instance, const replay::JobResult& job, Stats& stats);

// One row per kernel name, in the order of first launches: launches, packets, sums by part in ns, and of these what no
// earlier kernel of the queue covers. Null if nothing was submitted by packets.
nlohmann::json packet_stats_of(const workload::Workload& workload, const replay::JobResult& job);

// The same for the page: at most kPacketRows names, the rest together. As report/report_page.h describes it.
constexpr std::size_t kPacketRows = 20;
nlohmann::json packets_of(const workload::Workload& workload, const replay::JobResult& job);

// "600 kernels in 120 packets; 41 % of the queues' time is execution, 23 % wait, …"; empty without packets.
std::string packet_line(const replay::JobResult& job);

// One row per kernel launch, with all its times. Throws InputError if the file cannot be written.
void write_packets(const RunOutcome& outcome, const std::string& path);

}  // namespace heddle::cli

// What stats.json, packets.csv, the page and the summary say of kernels that were launched by packets (PKT-08).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/run_outcome.h"

namespace heddle::cli {

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

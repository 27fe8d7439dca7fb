#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"
#include "replay/csv_field.h"

namespace heddle::cli {
namespace {

using nlohmann::json;
using replay::kParts;
using replay::PacketLaunch;
using replay::Part;
using replay::Parts;

// Launches of one kernel name.
struct PacketRow {
  std::string kernel;
  std::size_t launches = 0;
  std::set<std::pair<std::uint32_t, std::uint64_t>> packets;
  double first = 0;  // start of the first
  Parts all{};
  Parts own{};
};

std::vector<PacketRow> rows_of(const workload::Workload& workload, const replay::JobResult& job) {
  const std::vector<Parts> own = replay::own_parts(job.launches);
  std::map<std::string, std::size_t> index;
  std::vector<PacketRow> rows;
  for (std::size_t i = 0; i < job.launches.size(); ++i) {
    const PacketLaunch& launch = job.launches[i];
    const std::string& name = workload.ops[launch.op].kernel.name;
    const auto [found, fresh] = index.emplace(name, rows.size());
    if (fresh) {
      rows.emplace_back();
      rows.back().kernel = name;
      rows.back().first = launch.times.front();
    }
    PacketRow& row = rows[found->second];
    ++row.launches;
    row.packets.emplace(launch.queue, launch.index);
    row.first = std::min(row.first, launch.times.front());
    for (std::size_t p = 0; p < kParts; ++p) {
      row.all[p] += launch.part_ns(static_cast<Part>(p));
      row.own[p] += own[i][p];
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const PacketRow& a, const PacketRow& b) { return a.first < b.first; });
  return rows;
}

PacketRow total_of(const std::vector<PacketRow>& rows) {
  PacketRow total;
  for (const PacketRow& row : rows) {
    total.launches += row.launches;
    total.packets.insert(row.packets.begin(), row.packets.end());
    for (std::size_t p = 0; p < kParts; ++p) {
      total.all[p] += row.all[p];
      total.own[p] += row.own[p];
    }
  }
  return total;
}

json by_part(const Parts& parts) {
  json result = json::object();
  for (std::size_t p = 0; p < kParts; ++p) {
    result[replay::part_key(static_cast<Part>(p))] = std::round(parts[p] * 1e3) / 1e3;
  }
  return result;
}

// For the page: microseconds, in the order of the parts.
json list_of(const Parts& parts) {
  json result = json::array();
  for (const double ns : parts) result.push_back(std::round(ns) / 1e3);
  return result;
}

json page_row(const PacketRow& row) {
  return {{"kernel", row.kernel},
          {"launches", row.launches},
          {"packets", row.packets.size()},
          {"own_us", list_of(row.own)},
          {"all_us", list_of(row.all)}};
}

const char* type_name(arch::PacketType type) {
  switch (type) {
    case arch::PacketType::reference_dispatch:
      return "reference";
    case arch::PacketType::condensed_dispatch:
      return "condensed";
    default:
      return "plain";
  }
}

}  // namespace

void publish_packets(const std::string& instance, const replay::JobResult& job, Stats& stats) {
  const std::string prefix = instance + ".packets.";
  std::set<std::pair<std::uint32_t, std::uint64_t>> packets;
  Parts all{};
  Parts own{};
  const std::vector<Parts> parts = replay::own_parts(job.launches);
  for (std::size_t i = 0; i < job.launches.size(); ++i) {
    packets.emplace(job.launches[i].queue, job.launches[i].index);
    for (std::size_t p = 0; p < kParts; ++p) {
      all[p] += job.launches[i].part_ns(static_cast<Part>(p));
      own[p] += parts[i][p];
    }
  }
  stats.counter(prefix + "launches", "kernels", "kernels that were launched by packets").add(job.launches.size());
  stats.counter(prefix + "packets", "packets", "packets that launched kernels").add(packets.size());
  stats.counter(prefix + "stopped", "queues", "queues that stopped with an error").add(job.problems.size());
  for (std::size_t p = 0; p < kParts; ++p) {
    const auto part = static_cast<Part>(p);
    stats.gauge(prefix + replay::part_key(part), "ns", fmt::format("sum over kernels: {}", replay::part_text(part)))
        .set(all[p]);
    stats
        .gauge(prefix + "own." + replay::part_key(part), "ns",
               fmt::format("of it, while no earlier kernel of the queue is on its way: {}", replay::part_text(part)))
        .set(own[p]);
  }
}

json packet_stats_of(const workload::Workload& workload, const replay::JobResult& job) {
  if (!job.by_packets) return nullptr;
  json result = json::array();
  for (const PacketRow& row : rows_of(workload, job)) {
    result.push_back({{"kernel", row.kernel},
                      {"launches", row.launches},
                      {"packets", row.packets.size()},
                      {"ns", by_part(row.all)},
                      {"own_ns", by_part(row.own)}});
  }
  return result;
}

json packets_of(const workload::Workload& workload, const replay::JobResult& job) {
  if (!job.by_packets || job.launches.empty()) return nullptr;
  std::vector<PacketRow> rows = rows_of(workload, job);
  const PacketRow total = total_of(rows);
  json result = {{"parts", json::array()}, {"rows", json::array()}, {"total", page_row(total)}};
  for (std::size_t p = 0; p < kParts; ++p) {
    const auto part = static_cast<Part>(p);
    result["parts"].push_back({{"key", replay::part_key(part)}, {"what", replay::part_text(part)}});
  }
  if (rows.size() > kPacketRows) {
    const std::vector<PacketRow> rest(rows.begin() + kPacketRows - 1, rows.end());
    PacketRow others = total_of(rest);
    others.kernel = fmt::format("{} other kernels", rest.size());
    rows.resize(kPacketRows - 1);
    rows.push_back(std::move(others));
  }
  for (const PacketRow& row : rows) result["rows"].push_back(page_row(row));
  return result;
}

std::string packet_line(const replay::JobResult& job) {
  if (!job.by_packets) return {};
  std::set<std::pair<std::uint32_t, std::uint64_t>> packets;
  Parts own{};
  double sum = 0;
  const std::vector<Parts> parts = replay::own_parts(job.launches);
  for (std::size_t i = 0; i < job.launches.size(); ++i) {
    packets.emplace(job.launches[i].queue, job.launches[i].index);
    for (std::size_t p = 0; p < kParts; ++p) {
      own[p] += parts[i][p];
      sum += parts[i][p];
    }
  }
  std::string line = fmt::format("{} in {}", counted(static_cast<double>(job.launches.size()), "kernel", "kernels"),
                                 counted(static_cast<double>(packets.size()), "packet", "packets"));
  if (sum <= 0) return line;
  const double execution = own[static_cast<std::size_t>(Part::execution)];
  return line + fmt::format("; of the time of its queues, {} is execution and {} the way there and back",
                            percent_text(execution / sum, 1), percent_text(1 - execution / sum, 1));
}

void write_packets(const RunOutcome& outcome, const std::string& path) {
  std::string text =
      "gpu,kernel,operation,queue,packet,type,kernel_in_packet,kernels_in_packet,status,begin_ns,doorbell_ns,fetched_"
      "ns,"
      "ready_ns,decoded_ns,dispatched_ns,started_ns,ended_ns,cleaned_ns,reason\n";
  for (std::size_t i = 0; i < outcome.result.jobs.size(); ++i) {
    const workload::Workload& workload = outcome.inputs->workloads[i];
    for (const PacketLaunch& launch : outcome.result.jobs[i].launches) {
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{:#x}", outcome.machines->gpus[i].instance,
                      replay::csv_field(workload.ops[launch.op].kernel.name), launch.op, launch.queue, launch.index,
                      type_name(launch.type), launch.kernel, launch.kernels, static_cast<std::uint32_t>(launch.status));
      for (const double ns : launch.times) text += fmt::format(",{:.3f}", ns);
      const char* reason = launch.reason == arch::Reason::none ? "" : arch::reason_text(launch.reason);
      text += "," + replay::csv_field(reason) + "\n";
    }
  }
  write_text(text, path);
}

}  // namespace heddle::cli

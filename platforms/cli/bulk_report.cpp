#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/mbarrier.h"
#include "cli/run_outcome.h"
#include "cli/stat_sums.h"
#include "memory/hbm_banks.h"
#include "sm/warp.h"

namespace heddle::cli {
namespace {

using nlohmann::json;
using Row = BulkMap::Row;
using Source = BulkMap::Source;

// As the scenario calls the tensor; otherwise its address.
std::string name_of(const workload::Workload& workload, const Row& row) {
  if (row.sum.source == Source::block) return "blocks";
  const bool carried = row.sum.source == Source::carried;
  const auto found =
      std::find_if(workload.memory.begin(), workload.memory.end(), [&](const workload::MemoryRegion& region) {
        if (region.contents.kind != workload::RegionContents::Kind::tensor) return false;
        if (region.subcontext.value_or(0) != row.sum.subcontext) return false;
        return (carried ? region.contents.tensor.address : region.address) == row.sum.address;
      });
  if (found != workload.memory.end()) return found->name;
  return fmt::format("0x{:x}", row.sum.address);
}

const char* source_name(Source source) {
  constexpr std::array<const char*, 3> kNames{"block", "descriptor", "carried"};
  return kNames[static_cast<std::size_t>(source)];
}

json mean_of(const Row& row) {
  const std::uint64_t ended = row.requests - row.wrong;
  return ended == 0 ? json() : json(static_cast<double>(row.sum.cycles) / static_cast<double>(ended));
}

// Rows with the most bytes first; equal ones in the order of their first request.
std::vector<Row> by_bytes(const BulkMap& map) {
  std::vector<Row> rows = map.rows();
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.sum.bytes > b.sum.bytes; });
  return rows;
}

json kinds_of(const RunOutcome& outcome, const BulkMap& map, const std::string& instance) {
  json kinds = json::array();
  for (std::size_t kind = 0; kind <= static_cast<std::size_t>(arch::BulkKind::send); ++kind) {
    std::uint64_t requests = 0;
    std::uint64_t wrong = 0;
    for (const Row& row : map.rows()) {
      if (row.sum.kind != static_cast<arch::BulkKind>(kind)) continue;
      requests += row.requests;
      wrong += row.wrong;
    }
    if (requests == 0) continue;
    const std::string name = arch::bulk_name(static_cast<arch::BulkKind>(kind));
    const std::string prefix = instance + ".bulk." + name + ".";
    const auto value = [&](const char* what) {
      const auto found = outcome.stats.find(prefix + what);
      return found == outcome.stats.end() ? json() : (*found)["value"];
    };
    kinds.push_back({{"kind", name},
                     {"requests", requests},
                     {"wrong", wrong},
                     {"bytes", value("bytes")},
                     {"mean_cycles", value("cycles.mean")},
                     {"p95_cycles", value("cycles.p95")},
                     {"longest_cycles", value("cycles.max")}});
  }
  return kinds;
}

// What of links and ports such requests took, and how much these were used by anybody; without a share those that do
// not know whose work it is.
json shares_of(const RunOutcome& outcome, std::size_t gpu) {
  const gpu::GpuParams& params = outcome.machines->gpus[gpu].params;
  const StatSums sums(outcome, gpu);
  const double cycles = program_time(outcome, gpu) * params.machine.clock;
  const double sms = params.machine.shape.sms();
  double gpcs = 0;  // that have the rates of GPCs which the parameters name
  for (const auto its : outcome.result.jobs[gpu].sms_per_gpc) gpcs += params.xbar.gpc_share(its);
  json rows = json::array();
  const auto row = [&](const char* label, std::optional<double> bulk, double all, double peak, const char* note) {
    if (all == 0) return;
    rows.push_back({{"label", label},
                    {"share_percent", bulk ? share_of(*bulk, all) : json()},
                    {"busy_percent", share_of(all, peak * cycles)},
                    {"note", note}});
  };
  const auto of_gpcs = [&](const char* name) {
    double total = 0;
    for (std::size_t i = 0; i < outcome.result.jobs[gpu].sms_per_gpc.size(); ++i) {
      total += sums.one(fmt::format("xbar.gpc{}.{}", i, name));
    }
    return total;
  };
  row("Links to SMs", sums.one("xbar.bulk.sm_bytes"), sums.one("xbar.sm_bytes"), sms * params.xbar.sm_read_bandwidth,
      "bytes of answers, copies of multicasts included");
  row("Links from SMs", sums.one("xbar.bulk.request_bytes"), of_gpcs("request_bytes"), sms * params.xbar.sm_bandwidth,
      "bytes of requests, and of what they write");
  row("Crossbar to GPCs", sums.one("xbar.bulk.response_bytes"), of_gpcs("response_bytes"),
      gpcs * params.xbar.gpc_read_bandwidth, "bytes of answers, before multicasts are copied");
  row("Crossbar from GPCs", sums.one("xbar.bulk.request_bytes"), of_gpcs("request_bytes"),
      gpcs * params.xbar.gpc_bandwidth, "bytes of requests, and of what they write");
  const double copies = sums.one("xbar.multicast_packets");
  row("Copies of multicasts", copies, copies, gpcs * params.xbar.copies, "made where an answer comes into its GPC");
  row("L2 slices", sums.one("xbar.bulk.response_bytes"), of_gpcs("response_bytes"),
      params.l2.slices * params.xbar.slice_bandwidth, "bytes of their answers");
  row("Device memory", std::nullopt, sums.one("hbm.read_bytes") + sums.one("hbm.written_bytes"),
      params.hbm.pin_rate / 8 * memory::table_of(params.hbm.standard).pins * params.hbm.channels / params.machine.clock,
      "reads and writes of the L2");
  row("Tensor cores", std::nullopt, sums.sms("tensor.cycles"), sm::kSubPartitions * sms, "cycles of four partitions");
  row("Ports of shared memory", sums.sms("bulk.port_cycles"), sums.sms("shared.wavefronts"), sms,
      "cycles of 128 bytes; the warps' accesses and matrix operands take the others");
  return rows;
}

// What each unit did, those with most bytes first.
json units_of(const RunOutcome& outcome, std::size_t gpu) {
  struct Unit {
    std::string name;  // "gpc0.tmau1"
    double requests = 0;
    double bytes = 0;
  };
  const std::string instance = outcome.machines->gpus[gpu].instance + ".";
  const StatSums sums(outcome, gpu);
  std::vector<Unit> units;
  for (const auto& [path, statistic] : outcome.stats.items()) {
    const std::size_t unit = path.find(".tmau");
    if (unit == std::string::npos || path.compare(0, instance.size(), instance) != 0) continue;
    const std::size_t end = path.find('.', unit + 1);
    if (end == std::string::npos) continue;  // of no unit: what all of them take of the energy
    const std::string name = path.substr(instance.size(), end - instance.size());
    if (units.empty() || units.back().name != name) units.push_back({name, 0, 0});  // they are sorted
    if (path.compare(end, 10, ".requests.") == 0) units.back().requests += statistic["value"].get<double>();
    if (path.compare(end, 6, ".bytes") == 0) units.back().bytes += statistic["value"].get<double>();
  }
  units.erase(std::remove_if(units.begin(), units.end(), [](const Unit& unit) { return unit.requests == 0; }),
              units.end());
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.bytes > b.bytes; });
  json rows = json::array();
  for (std::size_t i = 0; i < std::min(units.size(), kBulkUnits); ++i) {
    const auto value = [&](const char* name) { return sums.one(units[i].name + "." + name); };
    rows.push_back({{"unit", units[i].name},
                    {"requests", units[i].requests},
                    {"lines", value("lines")},
                    {"bytes_in", value("bytes_in")},
                    {"bytes_out", value("bytes_out")},
                    {"generator_cycles", value("stage.generator")},
                    {"queue_cycles", value("stage.queue")},
                    {"outstanding_cycles", value("wait.outstanding")},
                    {"crossbar_cycles", value("wait.crossbar")}});
  }
  return {{"rows", std::move(rows)}, {"left_out", units.size() - std::min(units.size(), kBulkUnits)}};
}

}  // namespace

json bulk_stats_of(const workload::Workload& workload, const replay::JobResult& job) {
  const BulkMap& map = job.observation->bulk;
  if (map.rows().empty()) return nullptr;
  json rows = json::array();
  for (const Row& row : map.rows()) {
    rows.push_back({{"source", source_name(row.sum.source)},
                    {"name", name_of(workload, row)},
                    {"subcontext", row.sum.subcontext},
                    {"address", row.sum.address},
                    {"kind", arch::bulk_name(row.sum.kind)},
                    {"requests", row.requests},
                    {"wrong", row.wrong},
                    {"bytes", row.sum.bytes},
                    {"fetched", row.sum.fetched},
                    {"used", row.sum.used},
                    {"lines", row.sum.lines},
                    {"cycles", row.sum.cycles},
                    {"longest", row.longest},
                    {"descriptor_cycles", row.sum.described_for}});
  }
  return rows;
}

json bulk_of(const RunOutcome& outcome, std::size_t gpu) {
  const BulkMap& map = outcome.result.jobs[gpu].observation->bulk;
  if (map.rows().empty()) return nullptr;
  const workload::Workload& workload = outcome.inputs->workloads[gpu];
  const std::vector<Row> rows = by_bytes(map);
  json tensors = json::array();
  for (std::size_t i = 0; i < std::min(rows.size(), kBulkRows); ++i) {
    const Row& row = rows[i];
    const bool described = row.sum.source == Source::descriptor;
    tensors.push_back(
        {{"name", name_of(workload, row)},
         {"kind", arch::bulk_name(row.sum.kind)},
         {"requests", row.requests},
         {"wrong", row.wrong},
         {"bytes", row.sum.bytes},
         {"fetched", row.sum.fetched},
         {"used_percent", share_of(static_cast<double>(row.sum.used), static_cast<double>(row.sum.fetched))},
         {"mean_cycles", mean_of(row)},
         {"longest_cycles", row.longest},
         {"descriptor_cycles",
          described ? json(static_cast<double>(row.sum.described_for) / static_cast<double>(row.requests)) : json()}});
  }
  return {{"kinds", kinds_of(outcome, map, outcome.machines->gpus[gpu].instance)},
          {"tensors", std::move(tensors)},
          {"left_out", rows.size() - std::min(rows.size(), kBulkRows)},
          {"units", units_of(outcome, gpu)},
          {"shares", shares_of(outcome, gpu)}};
}

}  // namespace heddle::cli

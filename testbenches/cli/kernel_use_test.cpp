// What each kernel uses of the machine, as users see it: kernels.csv, stalls.csv and the page. Nothing is lost and
// nothing counts twice: the sums over all rows are the statistics of the machine.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/csv.h"
#include "cli/program.h"
#include "support/random.h"

namespace heddle::test::cli_kernel_use_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Takes quotes as RFC 4180 has them.
std::vector<Row> table(const std::string& csv) {
  std::vector<std::vector<std::string>> lines(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    std::string& field = lines.back().back();
    if (c == '"') {
      if (quoted && i + 1 < csv.size() && csv[i + 1] == '"')
        field += csv[i++];
      else
        quoted = !quoted;
    } else if (quoted || (c != ',' && c != '\n')) {
      field += c;
    } else if (c == ',') {
      lines.back().emplace_back();
    } else {
      lines.push_back({""});
    }
  }
  lines.pop_back();
  std::vector<Row> rows;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    REQUIRE(lines[i].size() == lines[0].size());
    Row& row = rows.emplace_back();
    for (std::size_t k = 0; k < lines[i].size(); ++k) row[lines[0][k]] = lines[i][k];
  }
  return rows;
}

const std::vector<const char*> kCounts = {
    "instructions",        "warp_cycles",     "l1_hit_sectors",    "l1_miss_sectors", "tensor_cycles",
    "tensor_operations",   "l2_requests",     "l2_hits",           "l2_bytes",        "xbar_request_bytes",
    "xbar_response_bytes", "dram_read_bytes", "dram_written_bytes"};

// What the crossbar, the slices and the memory count by themselves, without regard to whose it is.
const std::map<std::string, std::string> kBlocks = {{"xbar\\.gpc[0-9]+\\.request_bytes", "xbar_request_bytes"},
                                                    {"xbar\\.gpc[0-9]+\\.response_bytes", "xbar_response_bytes"},
                                                    {"l2\\.slice[0-9]+\\.hits", "l2_hits"},
                                                    {"hbm\\.read_bytes", "dram_read_bytes"},
                                                    {"hbm\\.written_bytes", "dram_written_bytes"}};

using Sums = std::map<std::string, double>;

// "memory=12;issue=3"
std::map<std::string, double> pairs(const std::string& text) {
  std::map<std::string, double> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ';');) {
    const std::size_t equals = part.find('=');
    parts[part.substr(0, equals)] += std::stod(part.substr(equals + 1));
  }
  return parts;
}

// Of the rows of one GPU, and of what its part of stats.json has of none of them.
Sums sums_of(const std::vector<Row>& rows, const json& gpu_part) {
  const auto gpu = gpu_part.at("instance").get<std::string>();
  Sums sums;
  std::vector<json> others = gpu_part.at("use").at("sums").get<std::vector<json>>();
  others.push_back(gpu_part.at("use").at("rest"));
  for (const json& other : others) {
    for (const char* count : kCounts) sums[count] += other.at(count).get<double>();
    sums["shared_cycles"] += other.at("shared_cycles").get<double>();
    for (const auto& [reason, cycles] : other.at("stalls").items()) sums["stall." + reason] += cycles.get<double>();
  }
  for (const Row& row : rows) {
    if (row.at("gpu") != gpu) continue;
    for (const char* count : kCounts) {
      if (!row.at(count).empty()) sums[count] += std::stod(row.at(count));
    }
    if (!row.at("shared_cycles").empty()) sums["shared_cycles"] += std::stod(row.at("shared_cycles"));
    for (const auto& [reason, cycles] : pairs(row.at("stalls"))) sums["stall." + reason] += cycles;
  }
  return sums;
}

// The same, as the blocks of the machine count it.
Sums machine_of(const json& stats, const std::string& gpu) {
  const std::regex sm("gpc[0-9]+\\.cpc[0-9]+\\.tpc[0-9]+\\.sm[0-9]+\\.(.*)");
  const std::regex owner("memory\\.subcontext[0-9]+\\.(.*)");
  const std::map<std::string, std::string> of_sm = {{"warp_cycles", "warp_cycles"},
                                                    {"l1.hits", "l1_hit_sectors"},
                                                    {"l1.misses", "l1_miss_sectors"},
                                                    {"tensor.cycles", "tensor_cycles"},
                                                    {"tensor.operations", "tensor_operations"}};
  // Requests of one partition of the L2 to the other count in slices, too, and for nobody.
  const std::map<std::string, std::string> of_owner = {{"l2_requests", "l2_requests"}, {"l2_bytes", "l2_bytes"}};
  const std::map<std::string, std::string> of_demand = {{"l2_read", "l2_bytes"},
                                                        {"l2_write", "l2_bytes"},
                                                        {"dram_read", "dram_read_bytes"},
                                                        {"dram_write", "dram_written_bytes"},
                                                        {"tensor_f16", "tensor_operations"},
                                                        {"tensor_tf32", "tensor_operations"},
                                                        {"tensor_f8", "tensor_operations"},
                                                        {"tensor_f64", "tensor_operations"}};
  std::vector<std::pair<std::regex, std::string>> blocks;
  for (const auto& [pattern, count] : kBlocks) blocks.emplace_back(std::regex(pattern), count);
  Sums sums;
  for (const auto& [path, statistic] : stats.items()) {
    if (path.compare(0, gpu.size() + 1, gpu + ".") != 0) continue;
    const std::string rest = path.substr(gpu.size() + 1);
    const double value = statistic.at("value").get<double>();
    for (const auto& [pattern, count] : blocks) {
      if (std::regex_match(rest, pattern)) sums[count] += value;
    }
    std::smatch found;
    if (std::regex_match(rest, found, sm)) {
      const std::string name = found[1];
      if (name.rfind("instructions.", 0) == 0) sums["instructions"] += value;
      if (name.rfind("stall.", 0) == 0 && value > 0) sums[name] += value;
      if (name == "shared.wavefronts") sums["shared_cycles"] += value;
      if (const auto place = of_sm.find(name); place != of_sm.end()) sums[place->second] += value;
    } else if (std::regex_match(rest, found, owner)) {
      if (const auto place = of_owner.find(found[1]); place != of_owner.end()) sums[place->second] += value;
    } else if (rest.rfind("demand.amount.", 0) == 0) {
      if (const auto place = of_demand.find(rest.substr(14)); place != of_demand.end()) sums[place->second] += value;
    }
  }
  return sums;
}

void check_run(const std::string& file, const std::string& timing) {
  CAPTURE(file, timing);
  const TempDir folder;
  const Finished run = heddle_in(folder, {"run", file, "--timing", timing, "--out", "out", "--quiet"});
  CAPTURE(run.err);
  REQUIRE((run.status == 0 || run.status == 1 || run.status == 3));
  const json document = read_json(folder.file("out/stats.json"));
  const std::vector<Row> rows = table(read_file(folder.file("out/kernels.csv")));
  const std::vector<Row> stalls = table(read_file(folder.file("out/stalls.csv")));
  for (const json& gpu : document.at("gpus")) {
    const auto instance = gpu.at("instance").get<std::string>();
    Sums own = sums_of(rows, gpu);
    Sums all = machine_of(document.at("stats"), instance);
    for (const char* count : kCounts) {
      CAPTURE(instance, count);
      // Without calendars the links of the GPCs carry nothing that they could count.
      if (timing == "lt" && std::string(count).rfind("xbar_", 0) == 0) continue;
      if (count == std::string("tensor_cycles")) {
        CHECK(own[count] >= all[count]);  // demands come to it
      } else {
        CHECK(own[count] == all[count]);
      }
    }
    CHECK(own["shared_cycles"] >= all["shared_cycles"]);  // demands come to it
    // Each line's stalls are those of its kernel: of kernels whose tasks have not ended as well.
    Sums lines;
    for (const Row& row : stalls) {
      if (row.at("gpu") == instance) lines["stall." + row.at("reason")] += std::stod(row.at("warp_cycles"));
    }
    for (const auto& [name, cycles] : all) {
      if (name.rfind("stall.", 0) != 0) continue;
      CAPTURE(instance, name);
      CHECK(own[name] == cycles);
      CHECK(lines[name] == cycles);
    }
  }
}

// That take long: a run of them in three timings is a matter of minutes.
const std::set<std::string> kLong = {"tma_gemm_4096",    "gemm_1024",      "matmul_groups",    "nested_sort",
                                     "all_reduce",       "cluster_spread", "one_at_a_time",    "raster_orders",
                                     "tma_copy_compare", "million_ctas",   "nested_quicksort", "tma_halo_conv"};

std::vector<fs::path> shipped(bool long_ones) {
  std::vector<fs::path> found;
  const std::string folder = std::string(HEDDLE_SOURCE_DIR) + "/scenarios";
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (path.extension() != ".yaml" || path.parent_path().filename() == "sweeps") continue;
    const bool is_long = kLong.count(path.stem().string()) > 0 || path.parent_path() != fs::path(folder);
    if (is_long == long_ones) found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

double value(const Row& row, const char* column) { return std::stod(row.at(column)); }

const Row& row_of(const std::vector<Row>& rows, const std::string& name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.at("name") == name; });
  REQUIRE(found != rows.end());
  return *found;
}

// Two kernels side by side: one reads 66 CTAs x 256 threads x 16 values of 4 bytes, each once; the other computes.
constexpr const char* kTwo = R"(heddle: 1
memory:
  - {name: data, bytes: 2 MiB}
kernels:
  - name: reader
    grid: 66
    block: 256
    program:
      - loop:
          var: i
          to: 16
          do:
            - load: {to: r, type: u32, at: data + 4 * ((cta.x * 16 + i) * 256 + thread.x)}
  - name: worker
    grid: 66
    block: 256
    program:
      - compute: {unit: fp32, count: 500}
submit:
  - {kernel: reader, stream: a}
  - {kernel: worker, stream: b}
)";

}  // namespace

TEST_CASE("in every shipped scenario the kernels' shares are the machine's statistics, with what is nobody's",
          "[cli][CWD-48]") {
  const std::vector<fs::path> found = shipped(false);
  CHECK(found.size() > 40);
  for (const fs::path& path : found) check_run(path.string(), "at");
}

TEST_CASE("so they are where accesses to memory are calls", "[cli][CWD-48]") {
  for (const fs::path& path : shipped(false)) check_run(path.string(), "fast");
}

TEST_CASE("so they are without costs", "[cli][CWD-48]") {
  for (const fs::path& path : shipped(false)) check_run(path.string(), "lt");
}

TEST_CASE("so they are in scenarios that take long", "[cli][CWD-48]") {
  if (!long_tests()) return;
  for (const char* timing : {"at", "fast", "lt"}) {
    for (const fs::path& path : shipped(true)) check_run(path.string(), timing);
  }
}

TEST_CASE("what a kernel reads is its own, whatever runs beside it", "[cli][CWD-48]") {
  constexpr double kBytes = 66.0 * 256 * 16 * 4;
  for (const char* timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    const TempDir folder;
    folder.write("s.yaml", kTwo);
    // Instructions and parameters come from memory, too: here they do not.
    const Results results = run_well(folder, {"s.yaml", "--timing", timing, "--set", "gpu.sm.fetch.constant_bytes=0",
                                              "--set", "gpu.sm.fetch.cache_bytes=0"});
    const std::vector<Row> rows = table(read_file(folder.file("out/kernels.csv")));
    REQUIRE(rows.size() == 2);
    const Row& reader = row_of(rows, "reader");
    const Row& worker = row_of(rows, "worker");
    CHECK(value(reader, "l2_bytes") == kBytes);
    CHECK(value(reader, "l1_miss_sectors") == kBytes / 32);
    CHECK(value(reader, "l1_hit_sectors") == 0);
    CHECK(value(reader, "dram_read_bytes") == kBytes);
    CHECK(value(reader, "l2_hit_percent") < 5);
    CHECK(value(worker, "l2_bytes") == 0);
    CHECK(value(worker, "dram_read_bytes") == 0);
    CHECK(worker.at("l1_hit_percent").empty());
    // 8 warps of each CTA; the worker's 500 and its exit.
    CHECK(value(worker, "instructions") == 66.0 * 8 * 501);
    CHECK(value(reader, "instructions") >= 66.0 * 8 * 17);
    const double cycles = value(worker, "duration_ns") * results.page().at("gpus").at(0).at("clock_ghz").get<double>();
    CHECK(value(worker, "issue_percent") ==
          Approx(100 * value(worker, "instructions") / (4 * 132 * cycles)).margin(0.02));
    CHECK(value(worker, "achieved_occupancy_percent") ==
          Approx(100 * value(worker, "warp_cycles") / (64 * 132 * cycles)).margin(0.02));
    const json rest = results.document().at("gpus").at(0).at("use").at("rest");
    CHECK(rest.at("instructions") == 0);
    CHECK(rest.at("dram_read_bytes").get<double>() < 0.01 * kBytes);
    // The reader's warps wait for memory at its load, in line 13 of the file: a load comes before the next writes the
    // same register.
    double at_load = 0;
    double memory = 0;
    for (const Row& row : table(read_file(folder.file("out/stalls.csv")))) {
      if (row.at("kernel") != "reader" || row.at("reason") != "memory") continue;
      memory += value(row, "warp_cycles");
      if (row.at("step") == "load r (line 13)") at_load += value(row, "warp_cycles");
    }
    CHECK(at_load > 0.9 * memory);
    CHECK(memory > 15 * 66 * 8 * 200);  // 15 of 16 loads of each warp, for the way to memory
  }
}

namespace {

// Kernels that fill one resource each, with what says so: its key on the page, its name as a limit, and how long a CTA
// takes of it at least, in cycles of an SM. Peaks are those that kPeaks sets.
struct Saturating {
  const char* kernel;
  const char* key;
  const char* title;
  double cycles;
};
constexpr const char* kPeaks[] = {"--set", "gpu.sm.issue.tensor_flops=1024", "--set", "gpu.sm.issue.fp32.lanes=32",
                                  "--set", "gpu.sm.issue.fp64.lanes=16",     "--set", "gpu.sm.issue.int32.lanes=16",
                                  "--set", "gpu.sm.issue.sfu.lanes=4"};
const std::vector<Saturating> kSaturating = {
    {"f16", "tensor", "tensor cores", 4e8 / (4 * 1024)},
    {"f8", "tensor", "tensor cores", 4e8 / (4 * 1024 * 2)},      // twice as many of half the width
    {"tf32", "tensor", "tensor cores", 4e8 / (4 * 1024 / 2.0)},  // and half as many of twice
    {"f64", "tensor", "tensor cores", 2e7 / (4 * 1024 / 16.0)},  // data sheet of H100: 67 of 989 Tflop/s
    {"fp32", "fp32", "fp32 units", 4e7 / (4 * 32 * 2)},          // a multiply-add is two
    {"fp64", "fp64", "fp64 units", 2e7 / (4 * 16 * 2)},
    {"int32", "int32", "integer units", 1e7 / (4 * 16)},
    {"sfu", "sfu", "special-function units", 2e6 / (4 * 4)},
    {"shared", "shared", "shared memory", 1e7 / 128},                       // 32 banks of 4 bytes
    {"sfu_program", "sfu", "special-function units", 8 * 1000 * 32.0 / 4},  // 8 warps of each partition
    {"fp64_program", "fp64", "fp64 units", 8 * 1000 * 32.0 / 16},
    {"conflicts", "shared", "shared memory", 32 * 64 * 32.0},  // 32 warps, 64 times, 32 lanes in one bank
};
constexpr const char* kSaturatingKernels = R"(heddle: 1
gpu: h100-sxm
memory:
  - {name: data, bytes: 1 MiB}
kernels:
  - {name: f16, grid: 132, block: 128, shared: 200 KiB, demand: {tensor_f16: 4e8}}
  - {name: f8, grid: 132, block: 128, shared: 200 KiB, demand: {tensor_f8: 4e8}}
  - {name: tf32, grid: 132, block: 128, shared: 200 KiB, demand: {tensor_tf32: 4e8}}
  - {name: f64, grid: 132, block: 128, shared: 200 KiB, demand: {tensor_f64: 2e7}}
  - {name: fp32, grid: 132, block: 128, shared: 200 KiB, demand: {fp32: 4e7}}
  - {name: fp64, grid: 132, block: 128, shared: 200 KiB, demand: {fp64: 2e7}}
  - {name: int32, grid: 132, block: 128, shared: 200 KiB, demand: {int32: 1e7}}
  - {name: sfu, grid: 132, block: 128, shared: 200 KiB, demand: {sfu: 2e6}}
  - {name: shared, grid: 132, block: 128, shared: 200 KiB, demand: {shared: 1e7}}
  - {name: sfu_program, grid: 132, block: 1024, program: [{compute: {unit: sfu, count: 1000}}]}
  - {name: fp64_program, grid: 132, block: 1024, program: [{compute: {unit: fp64, count: 1000}}]}
  - name: conflicts
    grid: 132
    block: 1024
    shared: 120 KiB
    program:
      - loop:
          var: i
          to: 64
          do:
            - load: {to: r, type: u32, space: shared, at: 128 * (thread.x % 32)}
  - name: atomics
    grid: 264
    block: 256
    program:
      - loop:
          var: i
          to: 16
          do:
            - atomic: {op: add, type: u32, at: data + 4 * (thread.x % 4), value: 1}
  - {name: timed, grid: 1056, block: 256, cycles: 20000}
  - {name: small, grid: 10, block: 128, program: [{compute: {unit: fp32, count: 1000}}]}
  - {name: memory, grid: 1056, block: 128, demand: {l2_read: 1e6, dram_read: 1e6}}
submit:
  - {kernel: f16, stream: a}
  - {kernel: f8, stream: a}
  - {kernel: tf32, stream: a}
  - {kernel: f64, stream: a}
  - {kernel: fp32, stream: a}
  - {kernel: fp64, stream: a}
  - {kernel: int32, stream: a}
  - {kernel: sfu, stream: a}
  - {kernel: shared, stream: a}
  - {kernel: sfu_program, stream: a}
  - {kernel: fp64_program, stream: a}
  - {kernel: conflicts, stream: a}
  - {kernel: atomics, stream: a}
  - {kernel: timed, stream: a}
  - {kernel: small, stream: a}
  - {kernel: memory, stream: a}
)";
// The last two side by side.
constexpr const char* kBeside = R"(heddle: 1
gpu: h100-sxm
kernels:
  - {name: memory, grid: 1056, block: 128, demand: {l2_read: 1e6, dram_read: 1e6}}
  - {name: l2, grid: 1056, block: 128, demand: {l2_read: 1e6}}
submit:
  - {kernel: memory, stream: a}
  - {kernel: l2, stream: b}
)";

std::map<std::string, json> limits_of(const json& use) {
  std::map<std::string, json> rows;
  const json& ceilings = use.at("ceilings");
  for (const json& row : use.at("rows")) {
    CAPTURE(row.at("name").get<std::string>(), row.dump());
    for (const auto& [key, percent] : row.at("use").items()) CHECK(percent.get<double>() <= 100);
    // No mark above the roof, over bytes of either kind.
    const auto us = row.at("us").get<double>();
    CHECK(row.at("operations").get<double>() <= us * ceilings.at("operations_per_us").get<double>());
    CHECK(row.at("instructions").get<double>() <= us * ceilings.at("instructions_per_us").get<double>());
    CHECK(row.at("l2_bytes").get<double>() <= us * 1e3 * ceilings.at("l2_gb_per_s").get<double>());
    CHECK(row.at("dram_bytes").get<double>() <= us * 1e3 * ceilings.at("dram_gb_per_s").get<double>());
    rows[row.at("name")] = row;
  }
  return rows;
}

}  // namespace

TEST_CASE("what limits a kernel is the resource that it fills, whatever the type of its operands", "[cli][CWD-48]") {
  const TempDir folder;
  folder.write("s.yaml", kSaturatingKernels);
  std::vector<std::string> arguments = {"s.yaml"};
  arguments.insert(arguments.end(), std::begin(kPeaks), std::end(kPeaks));
  const Results results = run_well(folder, arguments);
  const json gpu = results.page().at("gpus").at(0);
  const double clock = gpu.at("clock_ghz");
  std::map<std::string, json> rows = limits_of(gpu.at("kernel_use"));
  for (const Saturating& one : kSaturating) {
    CAPTURE(one.kernel);
    REQUIRE(rows.count(one.kernel) == 1);
    const json& row = rows[one.kernel];
    CAPTURE(row.dump());
    const double cycles = row.at("us").get<double>() * 1e3 * clock;
    CHECK(row.at("use").at(one.key).get<double>() == Approx(100 * one.cycles / cycles).margin(0.1));
    CHECK(row.at("use").at(one.key) > 80);
    CHECK(row.at("limit").at("label") == one.title);
  }
  // 16 x 264 x 8 requests at one slice: of the 32 lanes of each, 8 meet at an address, one after another.
  const json& atomics = rows["atomics"];
  CAPTURE(atomics.dump());
  CHECK(atomics.at("use").at("atomics").get<double>() ==
        Approx(100 * 16 * 264 * 8 * 8 / (atomics.at("us").get<double>() * 1e3 * clock)).margin(0.1));
  CHECK(atomics.at("limit").at("label") == "atomics");
  CHECK(rows["timed"].at("limit").at("label") == "its own duration");
  CHECK(rows["small"].at("limit").at("label") == "launch and grid");
  CHECK(rows["memory"].at("limit").at("label") == "device memory");
}

TEST_CASE("who shares what is full with others is not limited by launch and grid", "[cli][CWD-48]") {
  const TempDir folder;
  folder.write("s.yaml", kBeside);
  const Results results = run_well(folder, {"s.yaml"});
  std::map<std::string, json> rows = limits_of(results.page().at("gpus").at(0).at("kernel_use"));
  CAPTURE(rows["l2"].dump(), rows["memory"].dump());
  const std::string limit = rows["l2"].at("limit").at("label");
  CHECK((limit == "L2" || limit == "L2, with other kernels" || limit == "other kernels"));
}

TEST_CASE("on a machine with one L2, requests are those of its slices", "[cli][CWD-48]") {
  for (const char* timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    const TempDir folder;
    folder.write("s.yaml", kTwo);
    const Results results =
        run_well(folder, {"s.yaml", "--timing", timing, "--set", "gpu.l2.partitions=1", "--set", "gpu.l2.copies=none"});
    double slices = 0;
    const std::regex pattern("gpu0\\.l2\\.slice[0-9]+\\.requests");
    const json document = results.document();
    for (const auto& [path, statistic] : document.at("stats").items()) {
      if (std::regex_match(path, pattern)) slices += statistic.at("value").get<double>();
    }
    double kernels = document.at("gpus").at(0).at("use").at("rest").at("l2_requests").get<double>();
    for (const Row& row : table(read_file(folder.file("out/kernels.csv")))) kernels += value(row, "l2_requests");
    CHECK(slices > 0);
    CHECK(kernels == slices);
  }
}

TEST_CASE("without counters nobody counts", "[cli][CWD-48]") {
  const TempDir folder;
  folder.write("s.yaml", kTwo);
  const Results with = run_well(folder, {"s.yaml"}, "with");
  const Results without = run_well(folder, {"s.yaml", "--kernel-counters", "off"}, "without");
  CHECK(with.document().at("stats") == without.document().at("stats"));
  CHECK_FALSE(fs::exists(folder.file("without/stalls.csv")));
  for (const Row& row : table(read_file(folder.file("without/kernels.csv")))) CHECK(row.at("instructions").empty());
  CHECK_FALSE(without.page().at("gpus").at(0).contains("kernel_use"));
  CHECK(with.page().at("gpus").at(0).contains("kernel_use"));
}

}  // namespace heddle::test::cli_kernel_use_test

// What a run says of the processes that shared its machine: stats.json, the page, ctas.csv.
#include <regex>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/csv.h"
#include "cli/program.h"

namespace heddle::test::cli_process_report_test {
namespace {

using nlohmann::json;

// Process 1 reads 64 KiB and process 2 writes 16 KiB; process 3 has no credit.
constexpr const char* kScenario = R"(
heddle: 1
gpu: small
config: {gpu: {cwd: {partition: dynamic}}}
subcontexts: [{id: 1, credits: 3}, {id: 2, credits: 2}, {id: 3, credits: 0}]
memory:
  - {name: source, bytes: 64 KiB, init: {pattern: i, type: u32}}
  - {name: target, bytes: 16 KiB}
kernels:
  - {name: reader, grid: 128, block: 128, subcontext: 1, program: [{load: {to: x, type: u32, at: source + 4 * item.x}}]}
  - {name: writer, grid: 32, block: 128, subcontext: 2, program: [{store: {value: item.x, type: u32, at: target + 4 * item.x}}]}
  - {name: starved, grid: 1, block: 32, cycles: 100, subcontext: 3}
submit: [{kernel: reader, stream: a}, {kernel: writer, stream: b}]
)";

double sum_of(const json& stats, const char* pattern) {
  double sum = 0;
  for (const auto& [path, entry] : stats.items()) {
    if (std::regex_match(path, std::regex(pattern))) sum += entry.at("value").get<double>();
  }
  return sum;
}

json processes_on(const Results& results) {
  const json& gpu = results.page().at("gpus").at(0);
  return gpu.contains("processes") ? gpu.at("processes") : json();
}

}  // namespace

TEST_CASE("processes that share a machine are told apart in statistics, on the page and in ctas.csv", "[cli][PRT-09]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const Results results = run_well(dir, {"s.yaml", "--dump", "ctas"});
  const json stats = read_json(results.file("stats.json")).at("stats");
  const auto value = [&stats](const std::string& path) { return stats.at("gpu0." + path).at("value").get<double>(); };

  CHECK(value("subcontext1.latency.count") == 1);
  CHECK(value("subcontext1.latency.mean") > 0);
  CHECK(value("subcontext2.open") == 0);
  CHECK(value("cwd.subcontext1.ctas_completed") == 128);
  // Every word once, and nobody else's.
  CHECK(value("memory.subcontext1.l2_bytes") >= 64 * 1024);
  CHECK(value("memory.subcontext1.l2_bytes") < 66 * 1024);
  CHECK(value("memory.subcontext1.hbm_read_bytes") >= 64 * 1024);
  CHECK(value("memory.subcontext2.hbm_read_bytes") < 1024);
  CHECK(value("memory.subcontext2.l2_bytes") >= 16 * 1024);
  CHECK(value("memory.subcontext2.xbar_request_bytes") >= 16 * 1024);
  CHECK(value("memory.subcontext2.xbar_request_bytes") < 64 * 1024);
  CHECK(value("memory.subcontext1.xbar_response_bytes") >= 64 * 1024);
  // All of it has an owner.
  constexpr const char* kOwner = R"(gpu0\.memory\.subcontext[0-9]+\.)";
  const auto owned = [&](const std::string& name) { return sum_of(stats, (kOwner + name).c_str()); };
  CHECK(owned("l2_requests") == sum_of(stats, R"(gpu0\.l2\.slice[0-9]+\.requests)"));
  CHECK(owned("l2_hits") == sum_of(stats, R"(gpu0\.l2\.slice[0-9]+\.hits)"));
  CHECK(owned("xbar_request_bytes") == sum_of(stats, R"(gpu0\.xbar\.gpc[0-9]+\.request_bytes)"));
  CHECK(owned("xbar_response_bytes") == sum_of(stats, R"(gpu0\.xbar\.gpc[0-9]+\.response_bytes)"));
  CHECK(owned("hbm_read_bytes") == value("hbm.read_bytes"));
  CHECK(owned("hbm_written_bytes") == value("hbm.written_bytes"));

  const json page = processes_on(results);
  REQUIRE(page.is_object());
  const json& rows = page.at("rows");
  const auto row_of = [&rows](int subcontext) -> const json& {
    for (const json& row : rows) {
      if (row.at("subcontext") == subcontext) return row;
    }
    FAIL("no row of subcontext " << subcontext);
    return rows;
  };
  CHECK(row_of(1).at("ctas") == 128);
  CHECK(row_of(2).at("ctas") == 32);
  CHECK(row_of(1).at("kernels") == 1);
  CHECK(row_of(1).at("tpcs_most") == 3);
  CHECK(row_of(2).at("tpcs_most") == 2);
  CHECK(row_of(1).at("bytes").at(0).at(0) == value("memory.subcontext1.l2_bytes"));
  double share = 0;
  for (const json& row : rows) share += row.at("bytes").at(0).at(1).get<double>();
  CHECK(share == Approx(100));
  CHECK(page.at("fairness") == value("cwd.subcontext_fairness"));

  for (const Row& row : rows_of(read_file(results.file("ctas.csv")))) {
    CHECK(row.at("subcontext") == (row.at("kernel") == "reader" ? "1" : "2"));
  }
}

TEST_CASE("a process that waits for ever shows in statistics and on the page", "[cli][PRT-09]") {
  const TempDir dir;
  dir.write("s.yaml", std::regex_replace(std::string(kScenario), std::regex("submit: \\["),
                                         "submit: [{kernel: starved, stream: c}, "));
  const Finished run = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  CHECK(run.status != 0);
  const json stats = read_json(dir.file("out/stats.json")).at("stats");
  const auto value = [&stats](const std::string& path) { return stats.at("gpu0." + path).at("value").get<double>(); };
  CHECK(value("subcontext3.open") == 1);
  CHECK(value("cwd.subcontext3.tasks_waiting") == 1);
  CHECK(value("cwd.subcontext3.wait.credits") > 0);
  CHECK(value("cwd.subcontext3.progress") == 0);
  const json page = processes_on(Results(dir.file("out")));
  REQUIRE(page.is_object());
  bool shown = false;
  for (const json& row : page.at("rows")) {
    if (row.at("subcontext") != 3) continue;
    shown = true;
    CHECK(row.at("open") == 1);
    CHECK(row.at("waiting") == 1);
    REQUIRE(row.at("waits").size() == 1);
    CHECK(row.at("waits").at(0).at("reason") == "no TPC credit");
    CHECK(row.at("waits").at(0).at("cause") == "its own credits");
  }
  CHECK(shown);
}

TEST_CASE("a machine that one process has to itself is told of without a table of processes", "[cli][PRT-09]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nkernels: [{name: k, grid: 4, block: 32, cycles: 100}]\nsubmit: [{kernel: k, "
            "stream: a}]\n");
  const Results results = run_well(dir, {"s.yaml"});
  CHECK(processes_on(results).is_null());
}

}  // namespace heddle::test::cli_process_report_test

// Clusters, loads and TPC switches as a user meets them: in a scenario and in ctas.csv.
#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/csv.h"

namespace cli_clusters_test {

using namespace heddle::test;

namespace {

std::string scenario_of(const std::string& kernel, const std::string& more = "") {
  return "heddle: 1\ngpu: small\nkernels:\n  - {name: whale, cycles: 1000, " + kernel +
         "}\nsubmit:\n  - {kernel: whale, stream: a}\n" + more;
}

void refused(const TempDir& dir, const std::string& text, const std::vector<std::string>& parts,
             const std::vector<std::string>& more = {}) {
  dir.write("s.yaml", text);
  std::vector<std::string> arguments = {"run", "s.yaml", "--out", "none"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished finished = heddle_in(dir, arguments);
  INFO(text);
  INFO(finished.err);
  CHECK(finished.status == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err.rfind("heddle: ", 0) == 0);
  CHECK_FALSE(contains(finished.err, "internal error"));
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(finished.err, part));
  }
  CHECK_FALSE(std::filesystem::exists(dir.file("none/stats.json")));
}

}  // namespace

TEST_CASE("clusters that are none are refused with file and line", "[cli][CWD-10]") {
  const TempDir dir;
  refused(dir, scenario_of("grid: 8, block: 128, cluster: 3"), {"s.yaml:4", "whale", "GPC_CGA", "3", "divide", "grid"});
  refused(dir, scenario_of("grid: [4, 6], block: 128, cluster: [2, 4, 1]"), {"s.yaml:4", "y of 4", "y of 6"});
  refused(dir, scenario_of("grid: 8, block: 128, cluster: 0"), {"s.yaml:4", "cluster", "0"});
  refused(dir, scenario_of("grid: 8, block: 128, cluster: [2, 0, 1]"), {"s.yaml:4", "cluster", "0"});
  refused(dir, scenario_of("grid: [0, 2], block: 128, cluster: 2"), {"s.yaml:4", "grid", "0"});
  refused(dir, scenario_of("grid: 8, block: 0, cluster: 2"), {"s.yaml:4", "block", "0"});
  refused(dir, scenario_of("grid: 8, block: 128, cluster: {cpc: 2}"), {"CPC_CGA", "GPC_CGA"});
}

TEST_CASE("clusters that can never run are refused by kernel, resource and domain", "[cli][CWD-25]") {
  const TempDir dir;
  // Larger than the maximum, and than a smaller maximum.
  refused(dir, scenario_of("grid: 34, block: 32, cluster: 17"), {"whale", "gpu0", "GPC_CGA", "17", "16"});
  refused(dir, scenario_of("grid: 8, block: 32, cluster: 4"), {"whale", "GPC_CGA", "4", "at most 2"},
          {"--set", "gpu.cwd.max_gpc_cga=2"});
  // Larger than any GPC: GPCs of 6 and 4 SMs.
  refused(dir, scenario_of("grid: 8, block: 128, cluster: {gpc: 8, mode: multicast}"),
          {"whale", "GPC_CGA of 8 CTAs", "GPC", "6"});
  // Too much of a resource for that many in one domain.
  const std::string half = "block: 128, shared: 100 KiB, ";  // two CTAs on an SM
  const std::string most = "block: 128, shared: 200 KiB, ";  // one
  refused(dir, scenario_of(most + "grid: 7, cluster: {gpc: 7, mode: load_balancing}"),
          {"whale", "shared memory", "GPC", "7"});
  refused(dir, scenario_of(half + "grid: 13, cluster: {gpc: 13, mode: load_balancing}"),
          {"whale", "shared memory", "GPC", "13"});
  refused(dir, scenario_of(most + "grid: 11, cluster: {gpu: 11}"), {"whale", "shared memory", "GPU", "11", "10"});
  refused(dir, scenario_of(most + "grid: 12, cluster: {gpc: 6, cpc: 6}", "config: {gpu: {shape: [[4, 2], [4]]}}\n"),
          {"whale", "shared memory", "CPC", "6", "4"});
  refused(dir, scenario_of("grid: 8, block: 128, shared: 300 KiB, cluster: 2"),
          {"whale", "SM", "shared memory", "307200"});
  // The same kernels run where there is room.
  for (const std::string& kernel :
       {half + "grid: 12, cluster: {gpc: 12, mode: load_balancing}", most + "grid: 10, cluster: {gpu: 10}"}) {
    dir.write("s.yaml", scenario_of(kernel));
    CHECK(run_well(dir, {"s.yaml"}).stat("gpu0.cwd.ctas_launched") >= 10);
  }
}

TEST_CASE("loads and TPC switches of what the machine does not have are refused with their line", "[cli]") {
  const TempDir dir;
  const auto with = [](const std::string& more) { return scenario_of("grid: 8, block: 128", more); };
  refused(dir, with("load: [{sms: [3, 10], kernel: whale, ctas: 1}]\n"), {"s.yaml:7", "gpu0", "SM 10", "0 to 9"});
  refused(dir, with("load: [{gpcs: 2, kernel: whale, ctas: 1}]\n"), {"s.yaml:7", "gpu0", "GPC 2", "0 to 1"});
  refused(dir, with("load: [{sms: 1, kernel: whale, ctas: 17}]\n"), {"s.yaml:7", "SM 1", "17 CTAs", "warps"});
  refused(dir, with("tpcs: [{gpc: 1, tpc: 2, enabled: false}]\n"), {"s.yaml:7", "GPC 1", "TPC 2", "0 to 1"});
  refused(dir, with("tpcs: [{gpc: 4, tpc: 0, enabled: false}]\n"), {"s.yaml:7", "gpu0", "GPC 4"});
}

TEST_CASE("the CTAs of a cluster lie in one GPC, on SMs of their own, and start together", "[cli][CWD-11][CWD-16]") {
  const TempDir dir;
  dir.write("s.yaml", scenario_of("grid: [8, 6], block: 256, cluster: {gpc: [2, 2, 1], mode: multicast}"));
  const std::vector<Row> rows = dumped(dir, "s.yaml");
  REQUIRE(rows.size() == 48);
  std::map<std::uint64_t, std::vector<Row>> cgas;
  for (const Row& row : rows) cgas[number(row, "cga")].push_back(row);
  REQUIRE(cgas.size() == 12);
  for (const auto& [id, ctas] : cgas) {
    CAPTURE(id);
    REQUIRE(ctas.size() == 4);
    std::set<std::uint64_t> sms, gpcs, ranks;
    for (const Row& row : ctas) {
      CHECK(row.at("cga_size") == "4");
      sms.insert(number(row, "sm"));
      gpcs.insert(number(row, "gpc"));
      ranks.insert(number(row, "rank"));
      // CGA ids run over the grid of CGAs, ranks over the CGA, x fastest.
      CHECK(number(row, "cga") == number(row, "x") / 2 + 4 * (number(row, "y") / 2));
      CHECK(number(row, "rank") == number(row, "x") % 2 + 2 * (number(row, "y") % 2));
    }
    CHECK(sms.size() == 4);
    CHECK(gpcs.size() == 1);
    CHECK(ranks.size() == 4);
  }
}

TEST_CASE("what a load takes is free for nobody until it leaves", "[cli]") {
  const TempDir dir;
  // GPC 1 is full until 3 us; SM 0 for ever. The kernel itself wants one CTA per SM.
  const std::string kernel = "grid: 30, block: 1024, registers: 64";
  dir.write("s.yaml", scenario_of(kernel,
                                  "load:\n  - {gpcs: 1, kernel: whale, ctas: 1, until: 3 us}\n"
                                  "  - {sms: 0, kernel: whale, ctas: 1}\n"));
  const std::vector<Row> rows = dumped(dir, "s.yaml");
  REQUIRE(rows.size() == 30);
  std::size_t late = 0;
  for (const Row& row : rows) {
    CHECK(number(row, "sm") != 0);
    if (row.at("gpc") == "1") {
      ++late;
      CHECK(number(row, "launch") >= 3000);
    }
  }
  CHECK(late > 0);
}

TEST_CASE("a TPC that is switched off receives nothing until it is switched on", "[cli]") {
  const TempDir dir;
  const std::string kernel = "grid: 60, block: 1024, registers: 64";
  dir.write("s.yaml", scenario_of(kernel,
                                  "tpcs:\n  - {gpc: 0, tpc: 1, enabled: false}\n"
                                  "  - {gpc: 1, tpc: 0, enabled: false}\n"
                                  "  - {gpc: 1, tpc: 0, enabled: true, at: 4 us}\n"));
  const std::vector<Row> rows = dumped(dir, "s.yaml");
  REQUIRE(rows.size() == 60);
  std::size_t later = 0;
  for (const Row& row : rows) {
    CHECK_FALSE((row.at("gpc") == "0" && row.at("tpc") == "1"));
    if (row.at("gpc") == "1" && row.at("tpc") == "0") {
      ++later;
      CHECK(number(row, "launch") >= 4000);
    }
  }
  CHECK(later > 0);
}

TEST_CASE("a scenario's clusters stand in its occupancy", "[cli][CWD-24]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nkernels:\n"
            "  - {name: a, grid: 8, block: 1024, registers: 64, cycles: 1, cluster: {gpc: 4, fallback: [2]}}\n"
            "  - {name: b, grid: 8, block: 1024, registers: 64, cycles: 1, cluster: {gpu: 8}}\n"
            "submit: [{kernel: a, stream: s}, {kernel: b, stream: s}]\n");
  const Finished finished = heddle_in(dir, {"occupancy", "s.yaml", "--json"});
  INFO(finished.err);
  REQUIRE(finished.status == 0);
  const nlohmann::json kernels = nlohmann::json::parse(finished.out);
  REQUIRE(kernels.size() == 2);
  const nlohmann::json& a = kernels[0].at("clusters");
  REQUIRE(a.size() == 2);  // its size, and the one it falls back to
  CHECK(a[0].at("cluster") == 4);
  CHECK(a[0].at("active") == 2);
  CHECK(a[0].at("unused_sms") == std::vector<int>{2, 0});
  CHECK(a[1].at("cluster") == 2);
  CHECK(a[1].at("active") == 5);
  const nlohmann::json& b = kernels[1].at("clusters");
  REQUIRE(b.size() == 1);
  CHECK(b[0].at("level") == "GPU_CGA");
  CHECK(b[0].at("active") == 1);
}

}  // namespace cli_clusters_test

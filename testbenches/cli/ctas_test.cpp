// heddle run --dump ctas: where and when every CTA ran.
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/csv.h"

namespace cli_ctas_test {

using namespace heddle::test;

namespace {

const char* kScenario = R"(heddle: 1
gpu: small
kernels:
  - {name: long, grid: [7, 3, 2], block: 512, cycles: 1000}
  - {name: short, grid: [5, 9], block: 256, cycles: {min: 100, max: 300}}
submit:
  - {kernel: long, stream: a}
  - {copy: 1 KiB, stream: b, for: 100 ns}
  - {kernel: short, stream: b, repeat: 2}
)";

}  // namespace

TEST_CASE("every CTA is dumped once, in launch order, with its place and its times", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const std::vector<Row> rows = dumped(dir, "s.yaml");
  REQUIRE(rows.size() == 42 + 2 * 45);
  std::map<std::string, std::set<std::vector<std::uint64_t>>> seen;
  std::map<std::uint64_t, std::string> place_of;
  std::uint64_t last = 0;
  for (const Row& row : rows) {
    CAPTURE(row);
    CHECK(row.at("gpu") == "gpu0");
    CHECK(row.at("kernel") == (row.at("task") == "0" ? "long" : "short"));
    CHECK(number(row, "x") < (row.at("task") == "0" ? 7 : 5));
    CHECK(number(row, "y") < (row.at("task") == "0" ? 3 : 9));
    CHECK(number(row, "z") < (row.at("task") == "0" ? 2 : 1));
    seen[row.at("task")].insert({number(row, "x"), number(row, "y"), number(row, "z")});
    // A CTA of a plain grid is a CGA of its own.
    const bool is_long = row.at("task") == "0";
    CHECK(number(row, "cga") == number(row, "x") + (is_long ? 7 : 5) * (number(row, "y") + 3 * number(row, "z")));
    CHECK(row.at("rank") == "0");
    CHECK(row.at("cga_size") == "1");
    const std::string place = row.at("gpc") + "." + row.at("cpc") + "." + row.at("tpc");
    CHECK(place_of.emplace(number(row, "sm"), place).first->second == place);
    CHECK(number(row, "launch") >= last);
    last = number(row, "launch");
    CHECK(number(row, "launch") < number(row, "first_instruction"));
    const std::uint64_t run = number(row, "end") - number(row, "first_instruction");
    // It asks its MPC before it leaves, one cycle each way (CGA-11).
    CHECK(run >= (is_long ? 1000 : 100) + 2);
    CHECK(run <= (is_long ? 1000 : 300) + 2);
  }
  REQUIRE(seen.size() == 3);  // operation 1 is the copy
  CHECK(seen["0"].size() == 42);
  CHECK(seen["2"].size() == 45);
  CHECK(seen["3"].size() == 45);
  // Two GPCs of 6 and 4 SMs: SM ids go round them TPC by TPC.
  CHECK(place_of == std::map<std::uint64_t, std::string>{{0, "0.0.0"},
                                                         {1, "0.0.0"},
                                                         {2, "1.0.0"},
                                                         {3, "1.0.0"},
                                                         {4, "0.0.1"},
                                                         {5, "0.0.1"},
                                                         {6, "1.0.1"},
                                                         {7, "1.0.1"},
                                                         {8, "0.0.2"},
                                                         {9, "0.0.2"}});
}

TEST_CASE("two dumps are identical to the byte, and dumping changes nothing", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const Results a = run_well(dir, {"s.yaml", "--dump", "ctas"}, "a");
  const Results b = run_well(dir, {"s.yaml", "--dump", "ctas"}, "b");
  const Results c = run_well(dir, {"s.yaml"}, "c");
  CHECK(read_file(a.file("ctas.csv")) == read_file(b.file("ctas.csv")));
  CHECK(read_file(a.file("stats.json")) == read_file(c.file("stats.json")));
  CHECK_FALSE(std::filesystem::exists(c.file("ctas.csv")));
}

TEST_CASE("the CTAs of several GPUs stand one GPU after another", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpus: [small, h100-sxm]
kernels:
  - {name: k, grid: 300, block: 256, cycles: 100}
streams:
  - {name: a}
  - {name: b, gpu: 1}
submit:
  - {kernel: k, stream: b}
  - {kernel: k, stream: a}
)");
  const std::vector<Row> rows = dumped(dir, "s.yaml");
  REQUIRE(rows.size() == 600);
  std::set<std::string> sms;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(rows[i].at("gpu") == (i < 300 ? "gpu0" : "gpu1"));
    REQUIRE(rows[i].at("task") == "0");  // operations are counted on each GPU
    if (i >= 300) sms.insert(rows[i].at("sm"));
    if (i % 300 != 0) REQUIRE(number(rows[i - 1], "launch") <= number(rows[i], "launch"));
  }
  CHECK(sms.size() == 132);
}

TEST_CASE("a recording's CTAs can be dumped, those of the run that was asked for", "[cli]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace(6));
  const Results results = run_well(dir, {"t.json", "--dump", "ctas", "--pace", "asap"});
  const std::vector<Row> rows = rows_of(read_file(results.file("ctas.csv")));
  CHECK(static_cast<double>(rows.size()) == results.stat("gpu0.cwd.ctas_launched"));
  CHECK(rows.front().at("kernel") == "kernel_0");
}

TEST_CASE("a large table of CTAs is compressed, and names a kernel once", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  std::vector<Row> plain = dumped(dir, "s.yaml", "a");
  const auto bytes = std::filesystem::file_size(dir.file("a/ctas.csv"));
  const auto run = [&](std::uintmax_t most, const std::string& out) {
    const Finished finished = heddle_in(
        dir, {"run", "s.yaml", "--dump", "ctas", "--set", fmt::format("run.ctas_plain_bytes={}", most), "--out", out});
    CHECK(finished.status == 0);
    return finished.out;
  };
  CHECK_FALSE(contains(run(bytes, "b"), "ctas.csv.gz"));
  CHECK(read_file(dir.file("b/ctas.csv")) == read_file(dir.file("a/ctas.csv")));
  CHECK(contains(run(bytes - 1, "c"), "ctas.csv.gz"));
  CHECK_FALSE(std::filesystem::exists(dir.file("c/ctas.csv")));
  const std::vector<Row> packed = rows_of(gunzipped(dir.file("c/ctas.csv.gz")));
  REQUIRE(packed.size() == plain.size());
  std::set<std::string> named;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (!named.insert(plain[i].at("task")).second) plain[i]["kernel"].clear();
    REQUIRE(packed[i] == plain[i]);
  }
  // Where the table was, the next run puts its own.
  CHECK_FALSE(contains(run(bytes, "c"), "ctas.csv.gz"));
  CHECK_FALSE(std::filesystem::exists(dir.file("c/ctas.csv.gz")));
}

TEST_CASE("something else than CTAs cannot be dumped", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--dump", "warps"});
  CHECK(finished.status == 2);
  CHECK(contains(finished.err, "--dump warps: expected ctas"));
  // A place that cannot be written is said so.
  std::filesystem::create_directories(dir.file("out/ctas.csv"));
  const Finished blocked = heddle_in(dir, {"run", "s.yaml", "--dump", "ctas", "--out", "out"});
  CHECK(blocked.status == 2);
  CHECK(contains(blocked.err, "ctas.csv"));
}

}  // namespace cli_ctas_test

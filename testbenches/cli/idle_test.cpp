// Why SMs were idle, as users see it: in every shipped scenario all of the idle time has a reason.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/csv.h"
#include "cli/program.h"
#include "support/random.h"

namespace heddle::test::cli_idle_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// That take long: a run of them is a matter of minutes here and there.
const std::set<std::string> kLong = {"tma_gemm_4096", "gemm_1024",     "matmul_groups",
                                     "nested_sort",   "all_reduce",    "cluster_spread",
                                     "one_at_a_time", "raster_orders", "tma_copy_compare"};

std::string scenarios() { return std::string(HEDDLE_SOURCE_DIR) + "/scenarios"; }

std::vector<fs::path> shipped(bool long_ones) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(scenarios())) {
    const fs::path& path = entry.path();
    if (path.extension() != ".yaml" || path.parent_path().filename() == "sweeps") continue;
    const bool is_long = kLong.count(path.stem().string()) > 0 || path.parent_path() != fs::path(scenarios());
    if (is_long == long_ones) found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

struct Sums {
  double all = 0;
  double busy = 0;
  double idle = 0;
};

Sums sums_of(const json& stats, const std::string& gpu) {
  Sums sums;
  sums.all = stats.at(gpu + ".sm_cycles").at("value").get<double>();
  for (const auto& [path, statistic] : stats.items()) {
    const bool of_gpu = path.compare(0, gpu.size() + 1, gpu + ".") == 0;
    const double value = statistic.at("value").get<double>();
    if (of_gpu && path.compare(gpu.size(), 6, ".idle.") == 0) sums.idle += value;
    if (of_gpu && path.size() > 12 && path.substr(path.size() - 12) == ".busy_cycles" &&
        path.find(".sm") != std::string::npos) {
      sums.busy += value;
    }
  }
  return sums;
}

// Sums of statistics by what stands behind a number: "l1.hits" of all SMs.
double sum_of(const json& stats, const std::string& gpu, const std::string& unit, const std::string& name) {
  double sum = 0;
  const std::regex path(gpu + "\\." + unit + "\\." + std::regex_replace(name, std::regex("\\."), "\\."));
  for (const auto& [key, statistic] : stats.items()) {
    if (std::regex_match(key, path)) sum += statistic.at("value").get<double>();
  }
  return sum;
}

// Bytes on the page are those of the statistics, whatever way they took.
void check_bytes(const json& page, const json& stats, const std::string& gpu) {
  if (!page.contains("memory")) return;
  const std::string sm = "gpc[0-9]+\\.cpc[0-9]+\\.tpc[0-9]+\\.sm[0-9]+";
  std::map<std::string, double> expected;
  expected["Shared memory"] = 128 * sum_of(stats, gpu, sm, "shared.wavefronts");
  expected["L1"] = 32 * (sum_of(stats, gpu, sm, "l1.hits") + sum_of(stats, gpu, sm, "l1.misses"));
  expected["Crossbar to SMs"] = stats.at(gpu + ".xbar.sm_bytes").at("value");
  expected["L2"] = sum_of(stats, gpu, "memory\\.subcontext[0-9]+", "l2_bytes");
  expected["Device memory"] = stats.at(gpu + ".hbm.read_bytes").at("value").get<double>() +
                              stats.at(gpu + ".hbm.written_bytes").at("value").get<double>();
  CHECK(page.at("memory").at("levels").size() >= 4);
  for (const json& level : page.at("memory").at("levels")) {
    CAPTURE(level.dump());
    CHECK(level.at("bytes").get<double>() == expected.at(level.at("name")));
  }
}

void check_scenario(const fs::path& path) {
  CAPTURE(path.string());
  const TempDir folder;
  const Finished run = heddle_in(folder, {"run", path.string(), "--out", "out", "--quiet"});
  CAPTURE(run.err);
  REQUIRE((run.status == 0 || run.status == 3));
  const json document = read_json(folder.file("out/stats.json"));
  const json page = Results(folder.file("out")).page();
  std::size_t number = 0;
  for (const json& gpu : document.at("gpus")) {
    const auto instance = gpu.at("instance").get<std::string>();
    CAPTURE(instance);
    const Sums sums = sums_of(document.at("stats"), instance);
    CHECK(sums.all > 0);
    CHECK(std::abs(sums.idle - (sums.all - sums.busy)) <= 0.001 * (sums.all - sums.busy));
    // What kernels have to do with is a part of it.
    double own = 0;
    for (const json& kernel : gpu.value("idle", json::array())) own += kernel.at("sm_cycles").get<double>();
    CHECK(own <= sums.idle);
    check_bytes(page.at("gpus").at(number++), document.at("stats"), instance);
  }
}

}  // namespace

TEST_CASE("in every shipped scenario all idle time of SMs has a reason", "[cli][CWD-47]") {
  const std::vector<fs::path> found = shipped(false);
  CHECK(found.size() > 40);
  for (const fs::path& path : found) check_scenario(path);
}

TEST_CASE("in every shipped scenario that takes long, too", "[cli][CWD-47]") {
  if (!long_tests()) return;
  for (const fs::path& path : shipped(true)) check_scenario(path);
}

TEST_CASE("the page, the summary and the statistics tell the same of idle SMs", "[cli][CWD-47]") {
  const TempDir folder;
  folder.write("s.yaml",
               "heddle: 1\n"
               "kernels:\n"
               "  - {name: small, grid: 40, block: 256, cycles: 5000}\n"
               "  - {name: pairs, grid: 264, block: 1024, cluster: 2, cycles: 3000}\n"
               "submit:\n"
               "  - {kernel: small, stream: a}\n"
               "  - {kernel: pairs, stream: b}\n");
  const Finished run = heddle_in(folder, {"run", "s.yaml", "--out", "out", "--dump", "ctas"});
  CAPTURE(run.out, run.err);
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, "idle SMs"));
  const json document = read_json(folder.file("out/stats.json"));
  const Sums sums = sums_of(document.at("stats"), "gpu0");

  // The time with CTAs, from the list of all CTAs.
  const auto rows = rows_of(read_file(folder.file("out/ctas.csv")));
  std::map<std::string, std::vector<std::pair<double, double>>> stays;
  for (const auto& row : rows) {
    stays[row.at("sm")].emplace_back(std::stod(row.at("first_instruction")) - 20, std::stod(row.at("end")));
  }
  double busy = 0;
  for (auto& [sm, own] : stays) {
    std::sort(own.begin(), own.end());
    double end = 0;
    for (const auto& [from, until] : own) {
      busy += std::max(0.0, until - std::max(from, end));
      end = std::max(end, until);
    }
  }
  CHECK(sums.busy == busy);
  CHECK(sums.idle == sums.all - busy);

  CHECK(contains(read_file(folder.file("out/report.html")), "Why SMs were idle"));
  const json page = Results(folder.file("out")).page();
  const json& idle = page.at("gpus").at(0).at("idle");
  double shares = 0;
  for (const json& reason : idle.at("reasons")) shares += reason.at("share_percent").get<double>();
  CHECK(shares == Approx(100));
  CHECK(idle.at("idle_percent").get<double>() == Approx(100 * sums.idle / sums.all));
  CHECK(idle.at("kernels").size() == 2);
}

}  // namespace heddle::test::cli_idle_test

// The page of a run stays small, however many kernels were launched.
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "support/random.h"

namespace heddle::test::cli_page_size_test {
namespace {

constexpr std::size_t kMostBytes = 5'000'000;

// Kernels whose names are as long as those of templates, each launched so often.
std::string launches(std::size_t kernels, std::size_t each, std::size_t name_length) {
  std::string text = "heddle: 1\ngpu: small\nkernels:\n";
  const auto name = [name_length](std::size_t k) { return fmt::format("k{:04}", k) + std::string(name_length, 'x'); };
  for (std::size_t k = 0; k < kernels; ++k) {
    text += fmt::format("  - {{name: {}, grid: 1, block: 32, cycles: {}}}\n", name(k), 50 + 10 * k);
  }
  text += "submit:\n";
  for (std::size_t k = 0; k < kernels; ++k) {
    text += fmt::format("  - {{kernel: {}, stream: s{}, repeat: {}}}\n", name(k), k % 4, each);
  }
  return text;
}

}  // namespace

TEST_CASE("of more launches than a page can show it has the longest, and sums of all", "[cli]") {
  constexpr std::size_t kNames = 50;
  constexpr std::size_t kEach = 240;
  const TempDir folder;
  folder.write("s.yaml", launches(kNames, kEach, 250));
  const Results results = run_well(folder, {"s.yaml", "--timing", "lt"});
  CHECK(read_file(results.file("report.html")).size() < kMostBytes);
  const nlohmann::json& gpu = results.page().at("gpus").at(0);
  const nlohmann::json& kernels = gpu.at("kernels");
  REQUIRE(kernels.size() == 10'000);
  CHECK(gpu.at("kernels_left_out") == kNames * kEach - 10'000);
  CHECK(gpu.at("names").size() <= kNames);
  // 2,000 launches are left out: those of the 8 shortest kernels, and some of the ninth.
  for (const nlohmann::json& kernel : kernels) {
    const auto name = gpu.at("names").at(kernel.at("name").get<std::size_t>()).get<std::string>();
    CHECK(name >= "k0008");
  }
  double sum = 0;
  REQUIRE(gpu.at("kernel_totals").size() == kNames);
  for (const nlohmann::json& total : gpu.at("kernel_totals")) {
    CHECK(total.at("count") == kEach);
    sum += total.at("us").get<double>();
  }
  // As the table of all launches has it.
  double all = 0;
  const std::string csv = read_file(results.file("kernels.csv"));
  std::size_t begin = csv.find('\n') + 1;
  for (std::size_t end = 0; (end = csv.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string line = csv.substr(begin, end - begin);
    std::size_t at = 0;
    for (int column = 0; column < 16; ++column) at = line.find(',', at) + 1;
    if (line[at] != ',') all += std::stod(line.substr(at)) / 1e3;
  }
  CHECK(sum == Approx(all).epsilon(1e-6));
}

TEST_CASE("a few launches are shown with their names", "[cli]") {
  const TempDir folder;
  folder.write("s.yaml", launches(2, 3, 4));
  const Results results = run_well(folder, {"s.yaml", "--timing", "lt"});
  const nlohmann::json& gpu = results.page().at("gpus").at(0);
  CHECK(gpu.at("kernels").size() == 6);
  CHECK(gpu.at("kernels").at(0).at("name") == "k0000xxxx");
  CHECK_FALSE(gpu.contains("names"));
  CHECK_FALSE(gpu.contains("kernel_totals"));
}

TEST_CASE("a million launches of one kernel make a page of ordinary size", "[cli]") {
  if (!long_tests()) return;
  const TempDir folder;
  folder.write("s.yaml", launches(1, 1'000'000, 250));
  const Results results = run_well(folder, {"s.yaml", "--timing", "lt"});
  CHECK(read_file(results.file("report.html")).size() < kMostBytes);
  CHECK(results.page().at("gpus").at(0).at("kernel_totals").at(0).at("count") == 1'000'000);
  CHECK(read_file(results.file("stalls.csv")).size() < 1000);
}

}  // namespace heddle::test::cli_page_size_test

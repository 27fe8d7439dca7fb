// Quicksort by tasks that launch tasks (scenarios/nested_sort.yaml) with keys of all kinds, compared with a sort of the
// standard library (TSK-06, TSK-12, TSK-14).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/program.h"
#include "support/random.h"

namespace cli_nested_sort_test {

using namespace heddle::test;

namespace {

std::string bytes_of(const std::vector<std::uint32_t>& keys) {
  return {reinterpret_cast<const char*>(keys.data()), 4 * keys.size()};
}

// The scenario with other keys, which it writes to a file in the end.
void check_sorted(std::vector<std::uint32_t> keys, const std::vector<std::string>& options) {
  std::string text = read_file(scenario("nested_sort.yaml"));
  const auto replace = [&text](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace("{name: keys, bytes: 256 KiB, init: {pattern: (i * 48271) % 65536, type: u32}}",
          "{name: keys, init: {file: keys.bin}, write: sorted.bin}");
  replace("  - {memory: keys, pattern: i, type: u32}\n", "");
  const TempDir dir;
  dir.write("s.yaml", text);
  dir.write("keys.bin", bytes_of(keys));
  std::vector<std::string> arguments{"s.yaml"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Results results = run_well(dir, arguments);
  std::sort(keys.begin(), keys.end());
  CHECK((read_file(results.file("sorted.bin")) == bytes_of(keys)));
  CHECK(results.stat("gpu0.task.restores") > 10);  // parents that wait are saved
}

std::vector<std::uint32_t> random_keys(std::size_t count, std::uint32_t low, std::uint32_t high) {
  Random random(seed() + count);
  std::vector<std::uint32_t> keys(count);
  for (std::uint32_t& key : keys) key = random.between(low, high);
  return keys;
}

}  // namespace

TEST_CASE("keys in device memory are sorted by tasks that launch tasks", "[cli][TSK-06][TSK-12][TSK-14]") {
  const char* timing = GENERATE("at", "fast", "lt");
  CAPTURE(timing);
  check_sorted(random_keys(20'000, 0, 0xFFFF'FFFF), {"--timing", timing});
  check_sorted(random_keys(9'999, 0xFFFF'FF00, 0xFFFF'FFFF), {"--timing", timing});  // most of them often
  std::vector<std::uint32_t> falling(12'345);
  for (std::uint32_t i = 0; i < falling.size(); ++i) falling[i] = 20'000 - i;
  check_sorted(falling, {"--timing", timing});
}

// With HEDDLE_LONG_TESTS=1, a million of them on the default machine.
TEST_CASE("many keys are sorted by tasks that launch tasks, on a large machine", "[cli][TSK-06][TSK-12][TSK-14]") {
  check_sorted(random_keys(long_tests() ? 1'000'000 : 50'000, 0, 0xFFFF'FFFF), {"--gpu", "h100-sxm"});
}

}  // namespace cli_nested_sort_test

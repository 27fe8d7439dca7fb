// How deep programs can launch on the machine that a run has by default (TSK-06, TSK-12): trees and chains of tasks
// that all wait for what they have launched.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "support/random.h"

namespace cli_nested_depth_test {

using namespace heddle::test;

namespace {

// Tasks of one warp that launch themselves from `lanes` lanes, wait, and take a number when they go on: `order` has
// that of each level. The host's kernel launches the first of them, with that level; the last has level 0.
std::string recursion(std::uint32_t level, std::uint32_t lanes) {
  return fmt::format(
      "heddle: 1\nmemory: [{{name: count, bytes: 64}}, {{name: order, bytes: 1 KiB}}]\nkernels:\n"
      "  - name: part\n    grid: 1\n    block: 32\n    program:\n"
      "      - load: {{to: level, type: u64, at: kernarg}}\n"
      "      - if: {{cond: lane == 0, then: [{{atomic: {{op: add, type: u32, value: 1, at: count}}}}]}}\n"
      "      - if:\n          cond: level > 0\n          then:\n"
      "            - if:\n                cond: lane < {0}\n                then:\n"
      "                  - launch: {{kernel: part, mode: fire_and_forget, args: [level - 1]}}\n"
      "            - wait_children\n"
      "      - if:\n          cond: lane == 0\n          then:\n"
      "            - atomic: {{op: add, type: u32, value: 1, at: count + 4, to: gone_on}}\n"
      "            - store: {{value: gone_on, type: u32, at: order + 4 * level}}\n"
      "  - name: root\n    grid: 1\n    block: 32\n    program:\n"
      "      - if: {{cond: lane == 0, then: [{{launch: {{kernel: part, args: [{1}]}}}}]}}\n      - wait_children\n"
      "      - if: {{cond: lane == 0, then: [{{store: {{value: 1, type: u32, at: count + 8}}}}]}}\n"
      "submit: [{{kernel: root, stream: a}}]\n",
      lanes, level);
}

double saves(const Results& results) {
  double sum = 0;
  for (const auto& [path, stat] : results.document().at("stats").items()) {
    if (path.find(".nested.saves") != std::string::npos) sum += stat.at("value").get<double>();
  }
  return sum;
}

}  // namespace

TEST_CASE("a chain of 24 launches, each of which its launcher waits for, completes on the default machine",
          "[cli][TSK-06][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml", recursion(23, 1) +
                          // The deepest goes on first.
                          "expect:\n  - {memory: order, pattern: \"i < 24 ? i : 0\", type: u32}\n"
                          "  - {memory: count, pattern: \"i < 2 ? 24 : (i == 2 ? 1 : 0)\", type: u32}\n"
                          "  - {stat: gpu0.task.children, equals: 24}\n  - {stat: gpu0.faults, equals: 0}\n");
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Results results = run_well(dir, {"s.yaml", "--timing", mode});
    CHECK(saves(results) == 24);  // the host's kernel, and all but the last
  }
}

TEST_CASE(
    "a launch that goes deeper than the machine allows is a fault that says where and why, and no other task ends",
    "[cli][TSK-06]") {
  const TempDir dir;
  dir.write("s.yaml", recursion(24, 1));
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode});
    INFO(finished.out);
    CHECK(finished.status == 1);
    const Results results(dir.file("out"));
    CHECK(results.document().at("completed") == true);
    const nlohmann::json& faults = results.document().at("faults");
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].at("kind") == "nesting");
    CHECK(faults[0].at("kernel") == "part");
    for (const char* said : {"launch part (line 16)", "nested deeper than gpu.task.nested.max_depth allows"}) {
      CAPTURE(said);
      CHECK(contains(finished.out, said));
    }
    CHECK(results.stat("gpu0.task.children") == 24);
    CHECK(results.stat("gpu0.task.child_faults") == 1);
  }
  // What was above it has gone on: all but the level that was stopped, and the host's kernel behind them.
  dir.write("s.yaml", recursion(24, 1) +
                          "expect:\n  - {fault: nesting, kernel: part}\n"
                          "  - {memory: count, pattern: \"i == 0 ? 24 : (i == 1 ? 23 : (i == 2 ? 1 : 0))\", type: "
                          "u32}\n");
  (void)run_well(dir, {"s.yaml"});
  // With room for one more it completes.
  dir.write("s.yaml",
            recursion(24, 1) + "expect: [{memory: count, pattern: \"i < 2 ? 25 : (i == 2 ? 1 : 0)\", type: u32}]\n");
  (void)run_well(dir, {"s.yaml", "--set", "gpu.task.nested.max_depth=25"});
}

TEST_CASE("a recursion as a binary tree completes on the default machine", "[cli][TSK-06][TSK-12]") {
  const std::uint32_t depth = long_tests() ? 16 : 12;
  const std::uint32_t tasks = (2U << depth) - 1;
  const TempDir dir;
  dir.write("s.yaml",
            recursion(depth, 2) +
                fmt::format("expect:\n  - {{memory: count, pattern: \"i < 2 ? {0} : (i == 2 ? 1 : 0)\", type: "
                            "u32}}\n  - {{stat: gpu0.task.children, equals: {0}}}\n",
                            tasks));
  (void)run_well(dir, {"s.yaml"});
}

}  // namespace cli_nested_depth_test

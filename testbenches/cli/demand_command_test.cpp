// Kernels with demands in scenarios, from the file to the results.
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_demand_command_test {

using namespace heddle::test;

namespace {

std::string scenario_of(const std::string& kernel, const std::string& more = "", const std::string& submit = "") {
  return "heddle: 1\ngpu: small\n" + more + "kernels:\n  - {name: k, grid: 12, block: 64, " + kernel +
         "}\nsubmit: " + (submit.empty() ? "[{kernel: k, stream: a}]" : submit) + "\n";
}

Finished refused(const std::string& text, const std::vector<std::string>& command = {"run"}) {
  const TempDir dir;
  dir.write("s.yaml", text);
  std::vector<std::string> arguments = command;
  arguments.push_back("s.yaml");
  Finished finished = heddle_in(dir, arguments);
  CHECK(finished.status == 2);
  return finished;
}

Results ran(const std::string& text, const std::vector<std::string>& more = {}) {
  const TempDir dir;
  dir.write("s.yaml", text);
  std::vector<std::string> arguments = {"s.yaml"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_well(dir, arguments);
}

}  // namespace

TEST_CASE("CTAs with a demand take what it needs, in every timing", "[cli][FLU-01][FLU-05]") {
  for (const char* timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    // 256 flops per cycle and SM.
    const Results results = ran(scenario_of("demand: {fp32: 256000, l2_read: 4 KiB, dram_read: 1 KiB, floor: 100 ns}"),
                                {"--timing", timing});
    CHECK(results.stat("gpu0.demand.ctas") == 12);
    CHECK(results.stat("gpu0.demand.amount.fp32") == 12 * 256'000);
    CHECK(results.stat("gpu0.demand.amount.l2_read") == 12 * 4096);
    CHECK(results.stat("gpu0.demand.amount.dram_read") == 12 * 1024);
    CHECK(results.stat("gpu0.demand.amount.l2_write") == 0);
    // All were limited by the units, and each had its 1,000 cycles of one SM.
    CHECK(results.stat("gpu0.demand.limited.fp32") >= 12'000);
    CHECK(results.stat("gpu0.demand.limited.dram") == 0);
    CHECK(results.stat("gpu0.demand.busy.fp32") * 10 == Approx(12'000));  // of 10 SMs
  }
}

TEST_CASE("what is busy is counted of what the GPCs share, whole or in instances", "[cli][FLU-05]") {
  const auto text = [](const std::string& instances, const std::string& subcontexts, const std::string& kernels) {
    return "heddle: 1\ngpu: small\nconfig:\n  gpu:\n    copy: {engines: 2}\n" + instances + subcontexts + "kernels:\n" +
           kernels;
  };
  const std::string demand = "block: 64, demand: {l2_read: 64 KiB, dram_read: 64 KiB}}\n";
  const Results whole = ran(text("", "", "  - {name: a, grid: 200, " + demand) + "submit: [{kernel: a, stream: a}]\n");
  const Results halves = ran(
      text("    cwd: {partition: static}\n    instances:\n      - {gpcs: [0], slices: [0, 1, 2, 3], copy_engines: [0], "
           "memory: 256 MiB}\n"
           "      - {gpcs: [1], slices: [4, 5, 6, 7], copy_engines: [1], memory: 256 MiB}\n",
           "subcontexts: [{id: 1, instance: 0}, {id: 2, instance: 1}]\n",
           "  - {name: a, grid: 100, subcontext: 1, " + demand + "  - {name: b, grid: 100, subcontext: 2, " + demand) +
      "submit: [{kernel: a, stream: a}, {kernel: b, stream: b}]\n");
  for (const char* resource : {"dram", "l2_read"}) {
    CAPTURE(resource);
    const std::string path = std::string("gpu0.demand.busy.") + resource;
    CHECK(whole.stat(path) > 0);
    CHECK(halves.stat(path) == Approx(whole.stat(path)));
  }
}

TEST_CASE("packets and task metadata queues carry demands", "[cli][FLU-05]") {
  const std::string text =
      scenario_of("demand: {fp32: 256000}", "", "[{kernel: k, stream: a, repeat: 3}, {kernel: k, stream: b}]");
  for (const char* by : {"streams", "aql", "tmdq"}) {
    CAPTURE(by);
    const Results results = ran(text, {"--submit", by});
    CHECK(results.stat("gpu0.demand.ctas") == 48);
    CHECK(results.stat("gpu0.demand.amount.fp32") == 48 * 256'000);
  }
}

TEST_CASE("programs launch kernels with demands", "[cli][FLU-05]") {
  const Results results =
      ran("heddle: 1\ngpu: small\nkernels:\n  - {name: k, grid: 5, block: 64, demand: {fp32: 2560}}\n"
          "  - name: p\n    grid: 2\n    block: 32\n    program:\n"
          "      - if: {cond: lane == 0, then: [{launch: {kernel: k}}]}\n      - wait_children\n"
          "submit: [{kernel: p, stream: a}]\n");
  CHECK(results.stat("gpu0.demand.ctas") == 10);
}

TEST_CASE("CTAs with a demand that make room take the rest of their work along", "[cli][FLU-03]") {
  for (const char* cluster : {"", ", cluster: 2"}) {
    CAPTURE(cluster);
    const auto text = [&](bool urgent) {
      return std::string("heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {preemption: instruction}}}\nkernels:\n") +
             "  - {name: long, grid: 64, block: 1024" + cluster + ", demand: {fp32: 12800000}}\n" +
             "  - {name: urgent, grid: 8, block: 1024, demand: {fp32: 256000}}\n" +
             "submit:\n  - {kernel: long, stream: a}\n" +
             (urgent ? "  - {kernel: urgent, stream: b, priority: 5, at: 20 us}\n" : "");
    };
    const Results alone = ran(text(false));
    const Results both = ran(text(true));
    CHECK(both.stat("gpu0.demand.ctas") == 72);
    double saves = 0;
    for (const auto& [path, value] : both.document().at("stats").items()) {
      const std::string end = ".nested.saves";
      if (path.size() > end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0) {
        saves += value.at("value").get<double>();
      }
    }
    CHECK(saves > 0);
    // What they had done is not done again: the SMs were busy for what all CTAs need, and hardly longer.
    CHECK(both.stat("gpu0.demand.busy.fp32") == Approx(alone.stat("gpu0.demand.busy.fp32") + 800));
    const double limited = both.stat("gpu0.demand.limited.fp32") - alone.stat("gpu0.demand.limited.fp32");
    CHECK(limited < 0.1 * alone.stat("gpu0.demand.limited.fp32"));
  }
}

TEST_CASE("a kernel has one of duration, program and demand, and demands are judged", "[cli][FLU-06]") {
  struct Case {
    std::string kernel;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"cycles: 5, demand: {fp32: 1}", "kernel k: `cycles` and `demand` stand side by side"},
      {"registers: 5", "the key \"cycles\" is missing"},
      {"demand: {dram_raed: 1 KiB}", "dram_read"},
      {"demand: {l2_read: 1 KiB, dram_read: 2 KiB}", "it is a part of l2_read, which is 1024 bytes"},
      {"demand: {l2_write: 1 KiB, dram_write: 2 KiB}", "it is a part of l2_write, which is 1024 bytes"},
      {"demand: {bulk_read: 1}", "it is a part of l2_read, which is 0 bytes"},
      {"demand: {l2_read: 1 KiB, in_flight: 2 KiB}", "it is a part of l2_read, which is 1024 bytes"},
      {"demand: {l2_read: 1 KiB, stages: 2}", "they are parts of in_flight, which is not given"},
      {"demand: {l2_read: 1 KiB, in_flight: 1 KiB, stages: 0}", "stages"},
      {"demand: {fp32: -1}", "fp32"},
      {"demand: {floor: 800}", "floor"},
      {"demand: {fp32: 1.1e15}", "fp32"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.kernel);
    const Finished finished = refused(scenario_of(wrong.kernel));
    CHECK_THAT(finished.err, Catch::Contains(wrong.message));
    CHECK_THAT(finished.err, Catch::Contains("s.yaml:4"));
  }
}

TEST_CASE("what demands cannot do is refused", "[cli][FLU-06]") {
  const std::string demand = "demand: {fp32: 2560}";
  CHECK_THAT(refused(scenario_of(demand, "subcontexts: [{id: 0, bandwidth: 20 %}]\n")).err,
             Catch::Contains("s.yaml:3") && Catch::Contains("share or a limit of bandwidth"));
  CHECK_THAT(refused(scenario_of(demand,
                                 "subcontexts: [{id: 0}]\nshare: [{subcontext: 0, bandwidth_limit: 20 %, at: 1 us}]\n"))
                 .err,
             Catch::Contains("s.yaml:4") && Catch::Contains("share or a limit of bandwidth"));
  // A program may launch it.
  CHECK_THAT(refused("heddle: 1\ngpu: small\nsubcontexts: [{id: 0, bandwidth: 20 %}]\nkernels:\n"
                     "  - {name: k, grid: 5, block: 64, demand: {fp32: 2560}}\n"
                     "  - name: p\n    grid: 2\n    block: 32\n    program:\n"
                     "      - if: {cond: lane == 0, then: [{launch: {kernel: k}}]}\n"
                     "submit: [{kernel: p, stream: a}]\n")
                 .err,
             Catch::Contains("s.yaml:3") && Catch::Contains("kernel k has a demand"));
  CHECK_THAT(refused("heddle: 1\nkernels:\n  - {name: k, grid: 12, block: 64, demand: {fp32: 2560}}\n",
                     {"compile", "-o", "k.hdl"})
                 .err,
             Catch::Contains("a program or a duration"));
}

}  // namespace cli_demand_command_test

// How subcontexts share the bandwidth between SMs and memory, as users see it (PRT-11): whole machines.
#include <algorithm>
#include <cstdint>
#include <string>

#include "cli/csv.h"
#include "cli/program.h"

namespace cli_bandwidth_command_test {

using namespace heddle::test;

namespace {

// Process 1 has all TPCs of GPC 0, and process 2 those of GPC 1. L1s do not keep what streams.
std::string two_processes(const std::string& one, const std::string& two, const std::string& rest) {
  return "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: static}}}\nsubcontexts:\n"
         "  - {id: 1, tpcs: [[0, 0], [0, 1], [0, 2]]" +
         one + "}\n  - {id: 2, tpcs: [[1, 0], [1, 1]]" + two +
         "}\nmemory:\n  - {name: a, bytes: 64 MiB}\n  - {name: b, bytes: 64 MiB}\n  - {name: c, bytes: 256 KiB}\n" +
         rest;
}

// Every CTA reads, or writes, `steps` times 8 KiB side by side, and no two CTAs the same bytes unless `bytes` is small.
std::string stream(const std::string& name, int subcontext, const std::string& region, int grid, int steps,
                   const std::string& bytes, bool writes = false) {
  const std::string at = region + " + (" + std::to_string(8192 * steps) + " * cta + 16 * thread + 8192 * i) % " + bytes;
  return "  - name: " + name + "\n    grid: " + std::to_string(grid) +
         "\n    block: 512\n    subcontext: " + std::to_string(subcontext) +
         "\n    program:\n      - loop: {var: i, to: " + std::to_string(steps) + ", do: [{" +
         (writes ? "store: {value: [1, 2, 3, 4]" : "load: {to: [w, x, y, z]") +
         ", type: u32, order: relaxed, scope: gpu, at: " + at + "}}]}\n";
}

// One warp, one access after another, of lines of a region.
std::string chase(const std::string& region, std::uint32_t lines, int loads) {
  return "  - name: victim\n    grid: 1\n    block: 32\n    subcontext: 2\n    program:\n"
         "      - set: {p: 12345, type: u32}\n      - loop:\n          var: i\n          to: " +
         std::to_string(loads) +
         "\n          do:\n"
         "            - load: {to: v, type: u32, order: relaxed, scope: gpu, at: " +
         region + " + p % " + std::to_string(lines) + " * 128}\n            - set: {p: p * 1664525 + 1013904223 + v}\n";
}

// Cycles from the victim's start to its end.
double cycles_of(const TempDir& dir, const std::string& kernel) {
  double begin = 1e18;
  double end = 0;
  for (const Row& row : dumped(dir, "s.yaml")) {
    if (row.at("kernel") != kernel) continue;
    begin = std::min(begin, static_cast<double>(number(row, "launch")));
    end = std::max(end, static_cast<double>(number(row, "end")));
  }
  return end - begin;
}

// The part of subcontext 1 in what both have finished while both had CTAs to start, but for the first fifth of it.
struct Division {
  double part = 0;
  double bytes_per_cycle = 0;
};
Division division(const TempDir& dir, double bytes_of_cta) {
  const auto rows = dumped(dir, "s.yaml");
  double last[2] = {0, 0};
  for (const Row& row : rows) {
    double& of = last[row.at("kernel") == "one" ? 0 : 1];
    of = std::max(of, static_cast<double>(number(row, "launch")));
  }
  const double end = last[1] == 0 ? last[0] : std::min(last[0], last[1]);
  double done[2] = {0, 0};
  for (const Row& row : rows) {
    const auto when = static_cast<double>(number(row, "end"));
    if (when > end / 5 && when <= end) done[row.at("kernel") == "one" ? 0 : 1] += bytes_of_cta;
  }
  return {done[0] / (done[0] + done[1]), (done[0] + done[1]) / (end * 0.8)};
}

constexpr const char* kBoth = "submit: [{kernel: one, stream: a}, {kernel: two, stream: b}]\n";

}  // namespace

TEST_CASE("a share of bandwidth protects a process beside one that streams from memory", "[cli][PRT-11]") {
  const TempDir dir;
  const auto victim = [&](const std::string& share, bool hog, const std::string& region, std::uint32_t lines) {
    dir.write("s.yaml",
              two_processes("", share,
                            "kernels:\n" + (hog ? stream("hog", 1, "a", 240, 16, "67108864") : std::string()) +
                                chase(region, lines, 120) + "submit:\n" +
                                (hog ? std::string("  - {kernel: hog, stream: a}\n") : std::string()) +
                                "  - {kernel: victim, stream: v, at: 3 us}\n"));
    return cycles_of(dir, "victim");
  };
  // Lines of memory, and lines that the L2 holds.
  for (const auto& [region, lines] : {std::pair<std::string, std::uint32_t>{"b", 524288}, {"c", 16}}) {
    CAPTURE(region);
    const double alone = victim("", false, region, lines);
    const double beside = victim("", true, region, lines);
    const double shared = victim(", bandwidth: 20 %", true, region, lines);
    CAPTURE(alone, beside, shared);
    CHECK(beside > 1.5 * alone);
    CHECK(shared < 1.35 * alone);
    CHECK(shared < alone + 0.3 * (beside - alone));
  }
}

TEST_CASE("processes that all want more get memory by their shares, and one alone gets all", "[cli][PRT-11]") {
  const TempDir dir;
  const auto divide = [&](const std::string& one, const std::string& two, bool writes) {
    dir.write("s.yaml", two_processes(one, two,
                                      "kernels:\n" + stream("one", 1, "a", 1000, 2, "67108864") +
                                          stream("two", 2, "b", 1000, 2, "67108864", writes) + kBoth));
    return division(dir, 2 * 8192);
  };
  const Division without = divide("", "", false);
  for (const int percent : {25, 50, 75}) {
    for (const bool writes : {false, true}) {  // process 2
      CAPTURE(percent, writes);
      const Division found = divide(", bandwidth: " + std::to_string(percent) + " %",
                                    ", bandwidth: " + std::to_string(100 - percent) + " %", writes);
      CHECK(found.part == Approx(percent / 100.0).margin(0.03));
      if (!writes) CHECK(found.bytes_per_cycle > 0.95 * without.bytes_per_cycle);  // nothing is lost by it
    }
  }
  // What the others leave is one's, whatever its share.
  const auto alone = [&](const std::string& share) {
    dir.write("s.yaml", two_processes(share, "",
                                      "kernels:\n" + stream("one", 1, "a", 400, 2, "67108864") +
                                          "submit: [{kernel: one, stream: a}]\n"));
    return division(dir, 2 * 8192).bytes_per_cycle;
  };
  CHECK(alone(", bandwidth: 10 %") > 0.97 * alone(""));
}

TEST_CASE("processes that all want more get the L2 by their shares", "[cli][PRT-11]") {
  // All bytes are in the L2 after the first pass. A data port of eight bytes per cycle is slower than all else.
  const TempDir dir;
  for (const int percent : {30, 60}) {
    CAPTURE(percent);
    std::string text = two_processes(", bandwidth: " + std::to_string(percent) + " %",
                                     ", bandwidth: " + std::to_string(100 - percent) + " %",
                                     "kernels:\n" + stream("one", 1, "c", 400, 2, "131072") +
                                         stream("two", 2, "c + 131072", 400, 2, "131072") + kBoth);
    text.replace(text.find("partition: static}"), 18, "partition: static}, l2: {bandwidth: 8}");
    dir.write("s.yaml", text);
    const Division found = division(dir, 2 * 8192);
    CHECK(found.part == Approx(percent / 100.0).margin(0.03));
    CHECK(found.bytes_per_cycle > 55);
  }
}

TEST_CASE("a limit of bandwidth is kept, also where nobody else asks, and its waits are counted", "[cli][PRT-11]") {
  const TempDir dir;
  // Four pseudo-channels of 32 pins at 5.234 Gbit/s, in bytes per cycle of 1 ns.
  constexpr double kPeak = 4 * 32 * 5.234 / 8;
  const auto limited = [&](int percent, bool writes) {
    dir.write("s.yaml", two_processes(", bandwidth_limit: " + std::to_string(percent) + " %", "",
                                      "kernels:\n" + stream("one", 1, "a", 1000, 2, "67108864", writes) +
                                          "submit: [{kernel: one, stream: a}]\n"));
  };
  for (const int percent : {10, 40}) {
    for (const bool writes : {false, true}) {
      CAPTURE(percent, writes);
      limited(percent, writes);
      const Results results = run_well(dir, {"s.yaml"});
      const double cycles = results.stat("gpu0.cwd.subcontext1.busy_cycles");
      // What was written and has not left the L2 counts as well: it will.
      const double bytes = writes ? results.stat("gpu0.memory.subcontext1.l2_bytes")
                                  : results.stat("gpu0.memory.subcontext1.hbm_read_bytes");
      if (writes) CHECK(results.stat("gpu0.memory.subcontext1.hbm_written_bytes") > bytes - (1 << 20) - 1);
      CAPTURE(cycles, bytes, bytes / cycles);
      CHECK(results.stat("gpu0.memory.subcontext1.limited") > 100);
      CHECK(results.stat("gpu0.memory.subcontext1.limited_cycles") > 1000);
      CHECK(bytes / cycles == Approx(percent / 100.0 * kPeak).epsilon(0.03));
    }
  }
}

TEST_CASE("the host changes shares and limits while work runs", "[cli][PRT-11][PRT-07]") {
  const TempDir dir;
  dir.write("s.yaml", two_processes(", bandwidth: 75 %", ", bandwidth: 25 %",
                                    "share:\n  - {at: 100 us, subcontext: 1, bandwidth: 25 %}\n"
                                    "  - {at: 100 us, subcontext: 2, bandwidth: 75 %}\n"
                                    "kernels:\n" +
                                        stream("one", 1, "a", 1400, 2, "67108864") +
                                        stream("two", 2, "b", 1400, 2, "67108864") + kBoth));
  double done[2][2] = {{0, 0}, {0, 0}};
  for (const Row& row : dumped(dir, "s.yaml")) {
    const auto when = static_cast<double>(number(row, "end"));
    const int who = row.at("kernel") == "one" ? 0 : 1;
    if (when > 20'000 && when <= 100'000) ++done[0][who];
    if (when > 120'000 && when <= 200'000) ++done[1][who];
  }
  CHECK(done[0][0] / (done[0][0] + done[0][1]) == Approx(0.75).margin(0.03));
  CHECK(done[1][0] / (done[1][0] + done[1][1]) == Approx(0.25).margin(0.03));
}

TEST_CASE("what kernels compute does not depend on shares that come while they run", "[cli][PRT-11]") {
  const TempDir dir;
  for (const char* name : {"saxpy", "histogram", "nested_quicksort", "tensor_copies", "aql_copy_overlap"}) {
    CAPTURE(name);
    dir.write("s.yaml", read_file(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/" + name + ".yaml") +
                            "\nshare:\n  - {at: 2 us, subcontext: 0, bandwidth: 50 %}\n"
                            "  - {at: 4 us, subcontext: 0, bandwidth_limit: 60 %}\n");
    (void)run_well(dir, {"s.yaml"});  // which the scenario's own expectations judge
  }
}

TEST_CASE("shares of bandwidth that contradict each other are refused with their line", "[cli][PRT-11][PRT-12]") {
  const TempDir dir;
  const auto refused = [&](const std::string& one, const std::string& two, const std::string& share,
                           const std::string& line, const std::string& what, const std::string& set = "") {
    CAPTURE(one, two, share);
    dir.write("s.yaml", two_processes(one, two,
                                      share + "kernels: [{name: k, grid: 1, block: 32, cycles: 10, subcontext: 1}]\n"
                                              "submit: [{kernel: k, stream: a}]\n"));
    std::vector<std::string> arguments{"run", "s.yaml", "--out", "out"};
    if (!set.empty()) arguments.insert(arguments.end(), {"--set", set});
    const Finished run = heddle_in(dir, arguments);
    CHECK(run.status == 2);
    CAPTURE(run.err);
    CHECK(contains(run.err, "s.yaml:" + line + ":"));
    CHECK(contains(run.err, what));
  };
  refused(", bandwidth: 60 %", ", bandwidth: 50 %", "", "6", "more than 100 %");
  refused(", bandwidth: 60 %, bandwidth_limit: 50 %", "", "", "5", "a limit below a share");
  refused(", bandwidth: 0 %", "", "", "5", "bandwidth");
  refused(", bandwidth: 101 %", "", "", "5", "bandwidth");
  refused(", bandwidth: 33.33 %", "", "", "5", "steps of 0.1 %");
  refused(", bandwidth: 50", "", "", "5", "bandwidth");
  refused(", bandwith: 50 %", "", "", "5", "bandwidth");
  refused(", bandwidth: 50 %", ", bandwidth: 50 %", "share: [{at: 1 us, subcontext: 1, bandwidth: 60 %}]\n", "11",
          "more than 100 %");
  refused("", "", "share: [{at: 1 us, subcontext: 64, bandwidth: 60 %}]\n", "11", "subcontext");
  refused("", "", "share: [{at: 1 us, subcontext: 1, credits: 3, bandwidth: 60 %}]\n", "11", "what changes");
  refused(", bandwidth: 50 %", "", "", "5", "nothing contends", "gpu.timing=lt");
}

TEST_CASE("a limit that is lifted holds nobody up any longer", "[cli][PRT-11]") {
  const TempDir dir;
  const auto end_of = [&dir](const std::string& share) {
    dir.write("s.yaml", two_processes("", "",
                                      share + "kernels:\n" + stream("one", 1, "a", 100, 2, "67108864") +
                                          "submit: [{kernel: one, stream: a}]\n"));
    return cycles_of(dir, "one");
  };
  const double without = end_of("");
  const double lifted = end_of(
      "share:\n  - {subcontext: 1, bandwidth_limit: 0.1 %}\n  - {at: 5 us, subcontext: 1, bandwidth_limit: 100 %}\n");
  CAPTURE(without, lifted);
  CHECK(lifted < without + 12'000);  // 5000 of them under the limit
}

TEST_CASE("a limit of the first subcontext does not hold up what the machine does for others", "[cli][PRT-11]") {
  const TempDir dir;
  const auto start_of = [&dir](const std::string& limit) {
    dir.write("s.yaml",
              "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: static}}}\nsubcontexts:\n"
              "  - {id: 0, tpcs: [[0, 0], [0, 1], [0, 2]]" +
                  limit + "}\n  - {id: 1, tpcs: [[1, 0], [1, 1]]}\nmemory: [{name: a, bytes: 16 MiB}]\nkernels:\n" +
                  stream("one", 0, "a", 40, 2, "16777216") +
                  "  - name: child\n    grid: 1\n    block: 32\n    program: [{compute: {unit: fp32}}]\n"
                  "  - name: victim\n    grid: 1\n    block: 32\n    subcontext: 1\n    program:\n"
                  "      - if: {cond: lane == 0, then: [{launch: {kernel: child}}]}\n      - wait_children\n"
                  "submit: [{kernel: one, stream: a}, {kernel: victim, stream: v, at: 5 us}]\n");
    return cycles_of(dir, "victim");
  };
  const double without = start_of("");
  const double limited = start_of(", bandwidth_limit: 1 %");
  CAPTURE(without, limited);
  CHECK(limited < 1.5 * without);
}

}  // namespace cli_bandwidth_command_test

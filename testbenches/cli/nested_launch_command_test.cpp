// What programs see of their launches: results, waits for some of them, streams, and CTAs that are saved while they
// wait (TSK-11, TSK-12, TSK-16). Values are checked in memory, by the scenarios themselves.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_nested_launch_command_test {

using namespace heddle::test;

namespace {

// Short ways of the device runtime, and CTAs that are saved early.
std::string head(const std::string& more = "") { return "heddle: 1\ngpu: small\nconfig:\n  gpu:\n" + more; }
std::string sm(bool save, const std::string& more = "") {
  return fmt::format("    sm: {{nested: {{launch_instructions: 12, save: {}, save_delay: 200}}{}}}\n", save, more);
}

const std::string kLeaf =
    "  - name: leaf\n    grid: 1\n    block: 1\n    program:\n"
    "      - compute: {unit: fp32, count: 3000}\n"
    "      - atomic: {op: add, type: u32, at: ended, value: 1}\n";

// One that runs for as long as a warp needs for 32 launches, and longer.
const std::string kLong =
    "  - name: long\n    grid: 1\n    block: 1\n    program:\n"
    "      - compute: {unit: fp32, count: 300000}\n"
    "      - atomic: {op: add, type: u32, at: ended, value: 1}\n";

// A statistic of all SMs.
double sum(const Results& results, const std::string& name) {
  double sum = 0;
  for (const auto& [path, stat] : results.document().at("stats").items()) {
    const bool ends = path.size() > name.size() && path.compare(path.size() - name.size(), name.size(), name) == 0;
    if (ends) sum += stat.at("value").get<double>();
  }
  return sum;
}

const std::vector<std::string> kTimings = {"at", "fast", "lt"};

}  // namespace

TEST_CASE("a launch that finds no record gives 0, and its lane goes on", "[cli][TSK-12]") {
  const TempDir dir;
  for (const std::string& timing : kTimings) {
    for (const std::string overflow : {"error", "spill"}) {
      CAPTURE(timing, overflow);
      const bool spills = overflow == "spill";
      dir.write(
          "s.yaml",
          head(sm(true)) +
              "    cwd: {table_slots: 4, evicted_tasks: 2}\n    task: {nested: {pending_launches: 12, "
              "contexts: 1, overflow: " +
              overflow + "}}\n" +
              "memory: [{name: ended, bytes: 4}, {name: known, bytes: 4}, {name: verdict, bytes: 8}]\nkernels:\n" +
              kLong +
              "  - name: parent\n    grid: 1\n    block: 32\n    program:\n"
              "      - launch: {kernel: long, mode: fire_and_forget, to: handle}\n"
              "      - if: {cond: handle != 0, then: [{atomic: {op: add, type: u32, at: known, value: 1}}]}\n"
              "      - wait_children\n"
              "      - load: {to: count, type: u32, at: ended, order: relaxed}\n"
              "      - load: {to: all, type: u32, at: known, order: relaxed}\n"
              "      - if:\n          cond: lane == 0\n          then:\n"
              "            - store: {value: \"count == all ? 1 : 0\", type: u32, at: verdict}\n"
              "            - store: {value: all, type: u32, at: verdict + 4}\n"
              "submit: [{kernel: parent, stream: a}]\n"
              "expect:\n  - {stat: gpu0.faults, equals: 0}\n"
              "  - {memory: verdict, pattern: \"i == 0 ? 1 : " +
              std::string(spills ? "32" : "11") + "\", type: u32}\n");
      const Results results = run_well(dir, {"s.yaml", "--timing", timing});
      // The parent has a record as well.
      CHECK(results.stat("gpu0.task.children") == (spills ? 32 : 11));
      CHECK(sum(results, ".nested.refused") == (spills ? 0 : 21));
      CHECK((sum(results, ".nested.spilled") > 0) == spills);
    }
  }
}

TEST_CASE("a launch that finds no record is a fault if nobody takes its result", "[cli][TSK-12]") {
  const TempDir dir;
  for (const std::string& timing : kTimings) {
    CAPTURE(timing);
    dir.write("s.yaml", head(sm(true)) +
                            "    cwd: {table_slots: 4, evicted_tasks: 2}\n    task: {nested: {pending_launches: 12, "
                            "overflow: error}}\n"
                            "memory: [{name: ended, bytes: 4}]\nkernels:\n" +
                            kLong +
                            "  - name: parent\n    grid: 1\n    block: 32\n    program:\n"
                            "      - launch: {kernel: long, mode: fire_and_forget}\n"
                            "      - wait_children\n"
                            "submit: [{kernel: parent, stream: a}, {kernel: long, stream: a}]\n"
                            // Those before it have been launched, and the operation behind it goes on.
                            "expect:\n  - {fault: launch_limit, kernel: parent}\n"
                            "  - {memory: ended, pattern: 12, type: u32}\n");
    (void)run_well(dir, {"s.yaml", "--timing", timing});
  }
}

TEST_CASE("a program waits for one stream, one launch, or all of them", "[cli][TSK-12][TSK-16]") {
  const TempDir dir;
  for (const std::string& timing : kTimings) {
    for (const bool save : {false, true}) {
      for (const char* shared_by : {"cta", "grid"}) {
        CAPTURE(timing, save, shared_by);
        dir.write(
            "s.yaml",
            head(sm(save)) + fmt::format("    task: {{nested: {{shared_by: {}}}}}\n", shared_by) +
                "memory: [{name: flags, bytes: 16}, {name: seen, bytes: 64}]\nkernels:\n"
                "  - name: slow\n    grid: 1\n    block: 1\n    program:\n"
                "      - load: {to: which, type: u64, at: kernarg}\n"
                "      - compute: {unit: fp32, count: 60000}\n"
                "      - store: {value: 1, type: u32, at: flags + 4 * which}\n"
                "  - name: quick\n    grid: 1\n    block: 1\n    program:\n"
                "      - load: {to: which, type: u64, at: kernarg}\n"
                "      - compute: {unit: fp32, count: 2000}\n"
                "      - store: {value: 1, type: u32, at: flags + 4 * which}\n"
                "  - name: parent\n    grid: 1\n    block: 1\n    program:\n"
                "      - stream_create: s\n"
                "      - launch: {kernel: slow, args: 0}\n"
                "      - launch: {kernel: quick, stream: s, args: 1, to: first}\n"
                "      - launch: {kernel: quick, stream: s, args: 2}\n"
                "      - wait_children: {launch: first}\n"
                "      - load: {to: [a, b, c, d], type: u32, at: flags}\n"
                "      - store: {value: [a, b, a, d], type: u32, at: seen}\n"  // the second may have ended, or not
                "      - wait_children: {stream: s}\n"
                "      - load: {to: [e, f, g, h], type: u32, at: flags}\n"
                "      - store: {value: [e, f, g, h], type: u32, at: seen + 16}\n"
                "      - launch: {kernel: quick, mode: fire_and_forget, args: 3, to: third}\n"
                "      - wait_children: {launch: third}\n"
                "      - wait_children: {launch: 0}\n"
                "      - wait_children: {launch: first}\n"  // over long since
                "      - wait_children: {stream: s}\n"
                "      - load: {to: [j, k, l, m], type: u32, at: flags}\n"
                "      - store: {value: [j, k, l, m], type: u32, at: seen + 32}\n"
                "      - wait_children\n"
                "      - load: {to: [n, o, p, q], type: u32, at: flags}\n"
                "      - store: {value: [n, o, p, q], type: u32, at: seen + 48}\n"
                "submit: [{kernel: parent, stream: a}]\n"
                "expect:\n  - {memory: seen, type: u32, pattern: \"i == 1 || i == 5 || i == 6 || (i > 8) ? 1 : "
                "0\"}\n");
        const Results results = run_well(dir, {"s.yaml", "--timing", timing});
        // Whoever waits for some tasks of a context that it shares could not be found.
        const double saves = sum(results, ".nested.saves");
        if (!save) CHECK(saves == 0);
        if (save) CHECK(saves >= (std::string(shared_by) == "cta" ? 2 : 1));
        CHECK(sum(results, ".nested.restores") == saves);
      }
    }
  }
}

TEST_CASE("a stream that was destroyed is used no more", "[cli][TSK-11]") {
  const TempDir dir;
  for (const std::string& timing : kTimings) {
    for (const std::string wrong :
         {"launch: {kernel: leaf, stream: s}", "wait_children: {stream: s}", "stream_destroy: s"}) {
      CAPTURE(timing, wrong);
      dir.write("s.yaml", head(sm(true)) + "memory: [{name: ended, bytes: 4}]\nkernels:\n" + kLeaf +
                              "  - name: parent\n    grid: 1\n    block: 1\n    program:\n"
                              "      - stream_create: s\n"
                              "      - launch: {kernel: leaf, stream: s}\n"
                              "      - stream_destroy: s\n"  // what was launched into it completes
                              "      - stream_create: t\n"
                              "      - " +
                              wrong +
                              "\n"
                              "submit: [{kernel: parent, stream: a}]\n"
                              "expect:\n  - {fault: child, kernel: parent}\n"
                              "  - {memory: ended, pattern: 1, type: u32}\n");
      (void)run_well(dir, {"s.yaml", "--timing", timing});
    }
  }
}

TEST_CASE("who waits for a launch that can never wake it is told so", "[cli][TSK-12][TSK-16]") {
  const TempDir dir;
  for (const std::string& timing : kTimings) {
    for (const bool save : {false, true}) {
      CAPTURE(timing, save);
      // A launch that another CTA has made, and that goes on or is long over.
      const std::string foreign =
          head(sm(save)) + "memory: [{name: ended, bytes: 4}, {name: cell, bytes: 8}]\nkernels:\n" + kLeaf +
          "  - name: maker\n    grid: 1\n    block: 1\n    program:\n"
          "      - launch: {kernel: leaf, to: h}\n"
          "      - store: {value: h, type: u64, at: cell, order: release}\n      - wait_children\n"
          "  - name: taker\n    grid: 1\n    block: 1\n    program:\n"
          "      - set: {h: 0, type: u64}\n      - launch: {kernel: leaf}\n      - wait_children\n"
          "      - while: {cond: h == 0, do: [{load: {to: h, type: u64, at: cell, order: acquire}}]}\n";
      dir.write("s.yaml", foreign +
                              "      - wait_children: {launch: h}\n      - atomic: {op: add, type: u32, at: ended, "
                              "value: 100}\nsubmit: [{kernel: taker, stream: b}, {kernel: maker, stream: a, at: 30 "
                              "us}]\nexpect:\n  - {fault: child, kernel: taker}\n"
                              "  - {memory: ended, pattern: 2, type: u32}\n");
      (void)run_well(dir, {"s.yaml", "--timing", timing});
      dir.write("s.yaml", foreign +
                              "      - compute: {unit: fp32, count: 60000}\n      - wait_children: {launch: h}\n"
                              "      - atomic: {op: add, type: u32, at: ended, value: 100}\n"
                              "submit: [{kernel: taker, stream: b}, {kernel: maker, stream: a, at: 30 us}]\nexpect:\n"
                              "  - {memory: ended, pattern: 102, type: u32}\n");
      (void)run_well(dir, {"s.yaml", "--timing", timing});
      // A tail launch of its own, which begins when it has ended; and does so when a fault has ended it.
      dir.write("s.yaml", head(sm(save)) + "memory: [{name: ended, bytes: 4}]\nkernels:\n" + kLeaf +
                              "  - name: parent\n    grid: 1\n    block: 1\n    program:\n"
                              "      - launch: {kernel: leaf}\n      - launch: {kernel: leaf, mode: tail, to: h}\n"
                              "      - wait_children: {launch: h}\n"
                              "submit: [{kernel: parent, stream: a}]\nexpect:\n  - {fault: child, kernel: parent}\n"
                              "  - {memory: ended, pattern: 2, type: u32}\n");
      (void)run_well(dir, {"s.yaml", "--timing", timing});
    }
  }
}

TEST_CASE("streams take TMDQs that are free, and there are so many of them", "[cli][TSK-11]") {
  const TempDir dir;
  for (const std::string& timing : kTimings) {
    CAPTURE(timing);
    // One stream at a time never shares a TMDQ with stream 0.
    dir.write("free.yaml", head(sm(false)) +
                               "    task: {nested: {tmdqs: 2}}\n"
                               "memory: [{name: ended, bytes: 4}]\nkernels:\n" +
                               kLeaf +
                               "  - name: parent\n    grid: 1\n    block: 1\n    program:\n"
                               "      - launch: {kernel: leaf}\n"
                               "      - loop:\n          var: i\n          to: 100\n          do:\n"
                               "            - stream_create: s\n"
                               "            - launch: {kernel: leaf, stream: s}\n"
                               "            - wait_children: {stream: s}\n"
                               "            - stream_destroy: s\n"
                               "submit: [{kernel: parent, stream: a}]\n"
                               "expect:\n  - {memory: ended, pattern: 101, type: u32}\n"
                               "  - {stat: gpu0.task.false_dependencies, equals: 0}\n");
    (void)run_well(dir, {"free.yaml", "--timing", timing});
    dir.write("many.yaml", head(sm(false)) +
                               "    task: {nested: {tmdqs: 1}}\n"
                               "memory: [{name: numbers, bytes: 256}]\nkernels:\n"
                               "  - name: parent\n    grid: 1\n    block: 1\n    program:\n"
                               "      - loop:\n          var: i\n          to: 64\n          do:\n"
                               "            - stream_create: s\n"
                               "            - store: {value: s, type: u32, at: numbers + 4 * i}\n"
                               "submit: [{kernel: parent, stream: a}]\n"
                               "expect:\n  - {memory: numbers, type: u32, pattern: \"i < 63 ? 256 * (i + 1) : "
                               "4294967295\"}\n");
    (void)run_well(dir, {"many.yaml", "--timing", timing});
  }
}

namespace {

// Grids of parents on a machine that they fill: each thread has values in registers, in shared and in local memory,
// launches, waits, and looks at them again.
struct Parents {
  std::uint32_t ctas = 60;
  std::uint32_t threads = 64;
  std::uint32_t registers = 0;
  std::uint32_t shared = 4096;
  std::uint32_t local = 0;
  bool queue = false;
  bool shared_context = false;
  std::uint32_t rounds = 2;
};

std::string text_of(const Parents& parents) {
  const std::uint32_t all = parents.ctas * parents.threads;
  std::string text = head(sm(true, ", limits: {ctas: 1}"));
  text += fmt::format("    cwd: {{table_slots: 4}}\n    task: {{nested: {{shared_by: {}}}}}\n",
                      parents.shared_context ? "grid" : "cta");
  text += fmt::format(
      "memory:\n  - {{name: ended, bytes: 4}}\n  - {{name: input, bytes: {0}, init: {{pattern: 11 * i + 5, type: "
      "u32}}}}\n"
      "  - {{name: out, bytes: {0}}}\n",
      4 * all);
  if (parents.queue) {
    text +=
        fmt::format("queues:\n  - {{name: work, capacity: {0}, initial: {{count: {0}, value: i}}}}\n", parents.ctas);
  }
  text += "kernels:\n" + kLeaf;
  text += fmt::format("  - name: parent\n    grid: {}\n    block: {}\n    shared: {}\n",
                      parents.queue ? 1 : parents.ctas, parents.threads, parents.shared);
  if (parents.registers != 0) text += fmt::format("    registers: {}\n", parents.registers);
  if (parents.local != 0) text += fmt::format("    local: {} B\n", parents.local);
  text += "    program:\n";
  text +=
      parents.queue ? "      - load: {to: cta_number, type: u64, at: kernarg}\n" : "      - let: {cta_number: cta.x}\n";
  text += fmt::format(
      "      - let: {{i: cta_number * {} + thread.x}}\n"
      "      - load: {{to: mine, type: u32, at: input + 4 * i}}\n"
      "      - store: {{space: shared, value: 3 * i + 1, type: u32, at: 4 * thread.x}}\n",
      parents.threads);
  if (parents.local != 0) {
    text += "      - store: {space: local, value: 5 * i + 2, type: u32, at: 0}\n";
    text += fmt::format("      - store: {{space: local, value: 7 * i + 3, type: u32, at: {}}}\n", parents.local - 4);
  }
  text += fmt::format(
      "      - barrier\n      - loop:\n          var: round\n          to: {}\n          do:\n"
      "            - if: {{cond: thread.x == 0, then: [{{launch: {{kernel: leaf}}}}]}}\n"
      "            - if: {{cond: warp == 0, then: [wait_children]}}\n            - barrier\n",
      parents.rounds);
  text += fmt::format("      - load: {{space: shared, to: other, type: u32, at: 4 * ((thread.x + 33) % {})}}\n",
                      parents.threads);
  std::string local_sum;
  if (parents.local != 0) {
    text += "      - load: {space: local, to: low, type: u32, at: 0}\n";
    text += fmt::format("      - load: {{space: local, to: high, type: u32, at: {}}}\n", parents.local - 4);
    local_sum = " + low + high";
  }
  text += "      - store: {value: mine + other" + local_sum + ", type: u32, at: out + 4 * i}\n";
  text += std::string("submit: [{kernel: parent, stream: a") + (parents.queue ? ", queue: work" : "") + "}]\n";
  text += fmt::format(
      "expect:\n  - {{stat: gpu0.faults, equals: 0}}\n  - {{memory: ended, pattern: {}, type: u32}}\n"
      "  - {{memory: out, type: u32, pattern: \"11 * i + 5 + 3 * (i - i % {t} + (i % {t} + 33) % {t}) + 1{local}\"}}\n",
      parents.ctas * parents.rounds, fmt::arg("t", parents.threads),
      fmt::arg("local", parents.local != 0 ? " + 12 * i + 5" : ""));
  return text;
}

// All of them have come back; how many bytes a save had.
double run_parents(const Parents& parents) {
  const TempDir dir;
  dir.write("s.yaml", text_of(parents));
  double bytes = 0;
  for (const std::string& timing : kTimings) {
    CAPTURE(timing);
    const Results results = run_well(dir, {"s.yaml", "--timing", timing});
    const double saves = sum(results, ".nested.saves");
    CHECK(saves >= parents.ctas);
    CHECK(sum(results, ".nested.restores") == saves);
    CHECK(sum(results, ".nested.saves_refused.too_large") == 0);
    bytes = sum(results, ".nested.save_bytes") / saves;
  }
  return bytes;
}

}  // namespace

TEST_CASE("parents fill the machine, are saved, and find their registers and shared memory again", "[cli][TSK-12]") {
  CHECK(run_parents({}) > 4096);
}

TEST_CASE("parents with local memory fill the machine, are saved, and find it again", "[cli][TSK-12]") {
  Parents parents;
  const double without = run_parents(parents);
  parents.local = 160;
  const double with = run_parents(parents);
  CHECK(with - without >= 160 * 64);
}

TEST_CASE("CTAs of a queue task fill the machine while they wait, are saved, and give their entries back",
          "[cli][TSK-05][TSK-12]") {
  Parents parents;
  parents.queue = true;
  run_parents(parents);
  parents.local = 32;
  run_parents(parents);
}

TEST_CASE("CTAs that share a context fill the machine while they wait, are saved, and all come back",
          "[cli][TSK-07][TSK-12]") {
  Parents parents;
  parents.shared_context = true;
  run_parents(parents);
  parents.local = 32;
  run_parents(parents);
  parents.queue = true;
  run_parents(parents);
}

TEST_CASE("what is saved of a CTA is all registers that it has been allocated, and its shared memory",
          "[cli][TSK-12]") {
  Parents parents;
  parents.ctas = 20;
  parents.threads = 1024;
  parents.registers = 64;
  parents.shared = 4096;
  parents.rounds = 1;
  const double bytes = run_parents(parents);
  CHECK(bytes >= 256 * 1024);
  CHECK(bytes < 300 * 1024);
  parents.shared = 48 * 1024;
  CHECK(run_parents(parents) >= (256 + 48) * 1024);
}

}  // namespace cli_nested_launch_command_test

// CTAs and CGAs that are saved while they wait, or to make room, on a machine that is full of them: what they compute
// is the same (TSK-12, TSK-16).
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_save_command_test {

using namespace heddle::test;

namespace {

struct Variant {
  std::string name;
  std::string parent;  // its attributes and program
  std::string expect;
};

// A child that takes long, so that parents are saved meanwhile: it notes its argument.
const char* const kChild =
    "  - name: child\n    grid: 1\n    block: 32\n    program:\n"
    "      - load: {to: n, type: u64, at: kernarg}\n"
    "      - compute: {unit: int32, count: 12000}\n"
    "      - if: {cond: lane == 0, then: [{store: {value: n + 1, at: out + 4 * n, type: u32}}]}\n";
const char* const kLaunch = "            - if: {cond: thread == 0, then: [{launch: {kernel: child, args: [cta]}}]}\n";

std::string scenario_of(const Variant& variant) {
  return std::string(
             "heddle: 1\ngpu: small\nmemory: [{name: out, bytes: 4 KiB}, {name: back, bytes: 4 KiB}]\nkernels:\n") +
         kChild + "  - name: parent\n" + variant.parent + "submit: [{kernel: parent, stream: a}]\nexpect:\n" +
         variant.expect;
}

std::vector<Variant> variants() {
  return {
      {"all CTAs of a CGA wait for children",
       "    grid: 160\n    block: 512\n    shared: 48 KiB\n    cluster: {gpc: 2}\n    program:\n"
       "      - store: {value: 7 * cta + thread, at: 4 * thread, type: u32, space: shared}\n"
       "      - if:\n          cond: 1 == 1\n          then:\n" +
           std::string(kLaunch) +
           "      - barrier\n      - wait_children\n"
           "      - load: {to: v, type: u32, at: 4 * thread, space: shared}\n"
           "      - if: {cond: thread == 3, then: [{store: {value: v, at: back + 4 * cta, type: u32}}]}\n"
           "      - cluster_arrive\n      - cluster_wait\n",
       "  - {memory: out, pattern: \"i < 160 ? i + 1 : 0\", type: u32}\n"
       "  - {memory: back, pattern: \"i < 160 ? 7 * i + 3 : 0\", type: u32}\n"},
      {"one waits for children, the others at the barrier of the CGA",
       "    grid: 120\n    block: 128\n    shared: 40 KiB\n    cluster: {gpc: 4}\n    program:\n"
       "      - store: {value: 1000 * cta + thread, at: 4 * thread, type: u32, space: shared}\n      - barrier\n"
       "      - if:\n          cond: rank == 0\n          then:\n" +
           std::string(kLaunch) +
           "            - wait_children\n      - cluster_arrive\n      - cluster_wait\n"
           "      - load: {to: v, type: u32, at: 4 * thread, space: cluster, rank: (rank + 1) % 4}\n"
           "      - if: {cond: thread == 5, then: [{store: {value: v, at: back + 4 * cta, type: u32}}]}\n"
           "      - cluster_arrive\n      - cluster_wait\n",
       "  - {memory: out, pattern: \"i < 120 ? (i % 4 == 0 ? i + 1 : 0) : 0\", type: u32}\n"
       "  - {memory: back, pattern: \"i < 120 ? 1000 * (4 * floor(i / 4) + (i + 1) % 4) + 5 : 0\", type: u32}\n"},
      {"one waits at an mbarrier of the CGA, one has exited",
       "    grid: 180\n    block: 64\n    shared: 60 KiB\n    cluster: {gpc: 3}\n    program:\n"
       "      - if: {cond: thread == 0, then: [{mbarrier_init: {at: 0, count: 1}}]}\n      - barrier\n"
       "      - cluster_arrive\n      - cluster_wait\n"
       "      - if:\n          cond: rank == 0\n          then:\n" +
           std::string(kLaunch) +
           "            - wait_children\n"
           "            - if: {cond: thread == 0, then: [{mbarrier_arrive: {at: 0, rank: 1, scope: gpu}}]}\n"
           "      - if:\n          cond: rank == 1\n          then:\n"
           "            - mbarrier_wait: {at: 0, parity: 0, scope: gpu}\n"
           "            - load: {to: v, type: u32, at: \"out + 4 * (cta - 1)\"}\n"
           "            - if: {cond: thread == 5, then: [{store: {value: v, at: back + 4 * cta, type: u32}}]}\n",
       "  - {memory: out, pattern: \"i < 180 ? (i % 3 == 0 ? i + 1 : 0) : 0\", type: u32}\n"
       "  - {memory: back, pattern: \"i < 180 ? (i % 3 == 1 ? i : 0) : 0\", type: u32}\n"},
  };
}

// The scenario runs as it should in that timing.
Results run_in(const char* mode, const std::string& text, const std::vector<std::string>& more = {}) {
  const TempDir dir;
  dir.write("s.yaml", text);
  std::vector<std::string> arguments{"s.yaml", "--timing", mode, "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_well(dir, arguments);
}

double stat(const Results& results, const std::string& path) {
  return results.document().at("stats").at(path).at("value").get<double>();
}

}  // namespace

TEST_CASE("a machine full of CGAs whose parents wait goes on: they are saved as a whole, and come back right",
          "[cli][TSK-12]") {
  for (const Variant& variant : variants()) {
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(variant.name, mode);
      const Results results = run_in(mode, scenario_of(variant));
      CHECK(stat(results, "gpu0.task.restores") > 0);
    }
  }
}

TEST_CASE("what CTAs compute that are saved at any instruction to make room is the same", "[cli][TSK-16]") {
  const std::string text =
      "heddle: 1\ngpu: small\nmemory: [{name: out, bytes: 4 KiB}, {name: sums, bytes: 4 KiB}]\nkernels:\n"
      "  - name: hog\n    grid: 60\n    block: 1024\n    registers: 32\n    shared: 8 KiB\n    program:\n"
      "      - set: {a: 7 * thread + cta, type: u32}\n"
      "      - store: {value: a, at: 4 * thread, type: u32, space: shared}\n"
      "      - loop: {var: i, to: 30, do: [{compute: {unit: int32, count: 90}}, {load: {to: b, type: u32, at: 4 * "
      "thread, "
      "space: shared}}, {set: {a: a + b}}, {store: {value: b + 1, at: 4 * thread, type: u32, space: shared}}, "
      "barrier]}\n"
      "      - if: {cond: thread == 9, then: [{store: {value: a, at: out + 4 * cta, type: u32}}]}\n"
      "      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u32, value: 1, at: sums + 4 * cta}}]}\n"
      "  - {name: urgent, grid: 20, block: 1024, cycles: 3000}\n"
      "submit:\n  - {kernel: hog, stream: a}\n"
      "  - {kernel: urgent, stream: b, at: 20 us, priority: 5}\n  - {kernel: urgent, stream: b, at: 60 us, priority: "
      "5}\n"
      "  - {kernel: urgent, stream: b, at: 90 us, priority: 5}\nexpect:\n"
      // a + 30 b + 0 + 1 + ... + 29, with a = b = 63 + cta
      "  - {memory: out, pattern: \"i < 60 ? 31 * (63 + i) + 435 : 0\", type: u32}\n"
      "  - {memory: sums, pattern: \"i < 60 ? 32 : 0\", type: u32}\n";
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Results results = run_in(mode, text, {"--set", "gpu.cwd.preemption=instruction"});
    CHECK(stat(results, "gpu0.cwd.ctas_preempted") >= 20);
  }
}

// A ring of CTAs that hand their values on: after 28 rounds every value is where it was, 28 times one more.
TEST_CASE("a CGA that makes room is stopped and saved as a whole, and goes on where it was", "[cli][TSK-12][TSK-16]") {
  const std::string text =
      "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {preemption: instruction, preempt_again: 3000}}}\n"
      "memory: [{name: out, bytes: 4 KiB}, {name: sums, bytes: 4 KiB}]\nkernels:\n"
      "  - name: hog\n    grid: 80\n    block: 512\n    registers: 32\n    shared: 8 KiB\n    cluster: 4\n"
      "    program:\n      - set: {a: 7 * cta + thread, type: u32}\n      - cluster_barrier\n"
      "      - loop: {var: i, to: 28, do: [{compute: {unit: int32, count: 90}}, {store: {value: a, type: u32, at: 4 * "
      "thread, space: cluster, rank: (rank + 1) % 4}}, cluster_barrier, {load: {to: b, type: u32, at: 4 * thread, "
      "space: shared}}, {set: {a: b + 1}}, cluster_barrier]}\n"
      "      - if: {cond: thread == 9, then: [{store: {value: a, at: out + 4 * cta, type: u32}}]}\n"
      "      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u32, value: 1, at: sums + 4 * cta}}]}\n"
      "  - {name: urgent, grid: 20, block: 1024, cycles: 3000}\n"
      "  - {name: clusters, grid: 16, cluster: 8, block: 1024, cycles: 3000}\n"
      "submit:\n  - {kernel: hog, stream: a}\n  - {kernel: urgent, stream: b, at: 12 us, priority: 5}\n"
      "  - {kernel: clusters, stream: b, at: 40 us, priority: 5}\n"
      "  - {kernel: clusters, stream: b, at: 70 us, priority: 5}\nexpect:\n"
      "  - {memory: out, pattern: \"i < 80 ? 7 * i + 9 + 28 : 0\", type: u32}\n"
      "  - {memory: sums, pattern: \"i < 80 ? 16 : 0\", type: u32}\n";
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Results results = run_in(mode, text);
    CHECK(stat(results, "gpu0.cwd.ctas_preempted") >= 40);
  }
}

TEST_CASE("CTAs of a grid that shares a context are stopped before and after they wait for children",
          "[cli][TSK-07][TSK-16]") {
  std::string text =
      "heddle: 1\ngpu: small\nconfig: {gpu: {task: {nested: {shared_by: grid}}, cwd: {preemption: instruction, "
      "preempt_again: 2000}}}\nmemory: [{name: out, bytes: 4 KiB}, {name: kids, bytes: 4 KiB}]\nkernels:\n"
      "  - name: child\n    grid: 2\n    block: 32\n    program:\n      - load: {to: n, type: u64, at: kernarg}\n"
      "      - compute: {unit: int32, count: 3000}\n"
      "      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u32, value: 1, at: kids + 4 * n}}]}\n"
      "  - name: parent\n    grid: 60\n    block: 256\n    registers: 64\n    shared: 8 KiB\n    program:\n"
      "      - set: {a: 3 * cta + thread, type: u32}\n      - store: {value: a, at: 4 * thread, type: u32, space: "
      "shared}\n      - if: {cond: thread == 0, then: [{launch: {kernel: child, args: [cta]}}]}\n"
      "      - loop: {var: i, to: 20, do: [{compute: {unit: int32, count: 300}}, {set: {a: a + 1}}]}\n"
      "      - wait_children\n"
      "      - loop: {var: j, to: 20, do: [{compute: {unit: int32, count: 300}}, {set: {a: a + 1}}]}\n"
      "      - load: {to: b, at: 4 * thread, type: u32, space: shared}\n"
      "      - if: {cond: thread == 7, then: [{store: {value: a + b, at: out + 4 * cta, type: u32}}]}\n"
      "  - {name: urgent, grid: 20, block: 1024, cycles: 3000}\nsubmit:\n  - {kernel: parent, stream: a}\n";
  for (const int at : {12, 30, 60, 90}) {
    text += "  - {kernel: urgent, stream: b, at: " + std::to_string(at) + " us, priority: 5}\n";
  }
  text +=
      "expect:\n  - {memory: out, pattern: \"i < 60 ? 2 * (3 * i + 7) + 40 : 0\", type: u32}\n"
      "  - {memory: kids, pattern: \"i < 60 ? 2 : 0\", type: u32}\n";
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Results results = run_in(mode, text);
    CHECK(stat(results, "gpu0.cwd.ctas_preempted") >= 20);
  }
}

double saves_of(const Results& results) {
  double saves = 0;
  for (const auto& [path, its] : results.document().at("stats").items()) {
    const bool counts = path.size() > 13 && path.compare(path.size() - 13, 13, ".nested.saves") == 0;
    if (counts) saves += its.at("value").get<double>();
  }
  return saves;
}

// A root that launches a tree of `lanes` to the power of `level` leaves.
std::string tree(const std::string& config, int level, int lanes, int tasks) {
  return "heddle: 1\ngpu: small\nconfig: " + config +
         "\nmemory: [{name: count, bytes: 64}]\nkernels:\n"
         "  - name: part\n    grid: 1\n    block: 32\n    program:\n      - load: {to: level, type: u64, at: kernarg}\n"
         "      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u32, value: 1, at: count}}]}\n"
         "      - if: {cond: level > 0, then: [{if: {cond: lane < " +
         std::to_string(lanes) +
         ", then: [{launch: {kernel: part, mode: fire_and_forget, args: [level - 1]}}]}}, wait_children]}\n"
         "  - name: root\n    grid: 1\n    block: 32\n    program:\n      - if: {cond: lane == 0, then: [{launch: "
         "{kernel: part, args: [" +
         std::to_string(level) +
         "]}}]}\n      - wait_children\nsubmit: [{kernel: root, stream: a}]\nexpect: [{memory: count, pattern: \"i < 1 "
         "? " +
         std::to_string(tasks) + " : 0\", type: u32}]\n";
}

TEST_CASE("CTAs that wait keep their slots until somebody wants them, and a machine full of them goes on",
          "[cli][TSK-12]") {
  const std::string wanted = "nested: {save: wanted}}, cwd: {preemption: instruction";
  const std::string parents =
      "      - if: {cond: thread == 0, then: [{launch: {kernel: child}}]}\n      - wait_children\n"
      "      - if: {cond: thread == 0, then: [{atomic: {op: add, type: u32, value: 1, at: y}}]}\n"
      "submit: [{kernel: parent, stream: a}]\n";
  struct Case {
    std::string name;
    std::string text;
    bool saves;
  };
  const std::vector<Case> cases = {
      {"room for all", tree("{gpu: {sm: {" + wanted + ", active_pool: 0, pending_pool: 0}}}", 4, 2, 31), false},
      {"a tree that does not fit", tree("{gpu: {sm: {limits: {ctas: 1}, " + wanted + "}}}", 7, 2, 255), true},
      {"few places of the task table",
       tree("{gpu: {sm: {limits: {ctas: 2}, " + wanted + ", table_slots: 4}}}", 16, 1, 17), true},
      {"a machine full of parents",
       "heddle: 1\ngpu: small\nconfig: {gpu: {sm: {" + wanted +
           "}}}\nmemory: [{name: y, bytes: 4 KiB}]\nkernels:\n"
           "  - {name: child, grid: 1, block: 512, shared: 48 KiB, program: [{compute: {unit: int32, count: 100}}]}\n"
           "  - name: parent\n    grid: 160\n    block: 512\n    shared: 48 KiB\n    program:\n" +
           parents + "expect: [{memory: y, pattern: \"i < 1 ? 160 : 0\", type: u32}]\n",
       true},
      {"a machine full of CGAs of parents, whose children are CGAs",
       "heddle: 1\ngpu: small\nconfig: {gpu: {sm: {limits: {ctas: 2}, " + wanted +
           "}}}\nmemory: [{name: y, bytes: 4 KiB}]\nkernels:\n"
           "  - {name: child, grid: 2, cluster: 2, block: 32, program: [{compute: {unit: int32, count: 100}}, "
           "cluster_barrier]}\n"
           "  - name: parent\n    grid: 40\n    block: 32\n    cluster: 2\n    program:\n      - cluster_barrier\n" +
           parents + "expect: [{memory: y, pattern: \"i < 1 ? 40 : 0\", type: u32}]\n",
       true}};
  for (const Case& one : cases) {
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(one.name, mode);
      const Results results = run_in(mode, one.text);
      CHECK((saves_of(results) > 0) == one.saves);
    }
  }
}

TEST_CASE("CTAs that are to be saved when they are wanted need somebody who asks", "[cli][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml", tree("{gpu: {sm: {nested: {save: wanted}}}}", 2, 1, 3));
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet"});
  CHECK(finished.status == 2);
  CHECK(finished.err.find("gpu.cwd.preemption") != std::string::npos);
}

TEST_CASE("an urgent task has as many CTAs saved as it needs, of less urgent ones alone", "[cli][TSK-16]") {
  const std::string config =
      "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {preemption: instruction, gpc_distances: [10, 40]}}}\nkernels:\n";
  const auto hog = [](const char* name, int grid) {
    return "  - {name: " + std::string(name) + ", grid: " + std::to_string(grid) +
           ", block: 1024, program: [{loop: {var: i, to: 200, do: [{compute: {unit: int32, count: 200}}]}}]}\n";
  };
  const auto urgent = [](int grid) {
    return "  - {name: urgent, grid: " + std::to_string(grid) + ", block: 1024, cycles: 1000}\n";
  };
  const TempDir dir;
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const auto run = [&](const std::string& kernels, const std::string& submit) {
      dir.write("s.yaml", config + kernels + "submit:\n" + submit);
      return run_well(dir, {"s.yaml", "--timing", mode});
    };
    // The last CTA of a machine that is full.
    const Results one = run(hog("hog", 20) + urgent(1),
                            "  - {kernel: hog, stream: a}\n  - {kernel: urgent, stream: b, at: 20 us, priority: 5}\n");
    CHECK(stat(one, "gpu0.cwd.ctas_preempted") == 1);
    CHECK(stat(one, "gpu0.task.launch_latency.max") < 60'000);  // ns; a CTA takes several times as long
    // Every SM has a CTA that is more urgent, and one that is less.
    const Results some = run(hog("more", 10) + hog("less", 10) + urgent(4),
                             "  - {kernel: more, stream: a, priority: 9}\n  - {kernel: less, stream: b, at: 5 us}\n"
                             "  - {kernel: urgent, stream: c, at: 20 us, priority: 5}\n");
    CHECK(stat(some, "gpu0.cwd.ctas_preempted") == 4);
    CHECK(stat(some, "gpu0.task.launch_latency.max") < 60'000);
  }
}

TEST_CASE("subcontexts have the machine in turn, and compute the same", "[cli][TSK-16]") {
  std::string text =
      "heddle: 1\ngpu: small\nmemory: [{name: out, bytes: 4 KiB}]\nsubcontexts: [{id: 1}, {id: 2}]\nkernels:\n";
  for (int s = 1; s <= 2; ++s) {
    text += "  - name: k" + std::to_string(s) + "\n    subcontext: " + std::to_string(s) +
            "\n    grid: 60\n    block: 1024\n    registers: 32\n    program:\n"
            "      - set: {a: thread + cta, type: u32}\n"
            "      - loop: {var: i, to: 20, do: [{compute: {unit: int32, count: 200}}, {set: {a: a + 3}}]}\n"
            "      - if: {cond: thread == 1, then: [{store: {value: a, at: out + 4 * (" +
            std::to_string(60 * (s - 1)) + " + cta), type: u32}}]}\n";
  }
  text +=
      "submit: [{kernel: k1, stream: a}, {kernel: k2, stream: b, at: 5 us}]\nexpect:\n"
      "  - {memory: out, pattern: \"i < 120 ? i % 60 + 61 : 0\", type: u32}\n";
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Results results = run_in(mode, text, {"--set", "gpu.cwd.time_slice=100000"});
    CHECK(stat(results, "gpu0.cwd.time_slices") >= 3);
    CHECK(stat(results, "gpu0.cwd.ctas_preempted") >= 20);
  }
}

namespace {

// Two warps: one appends more than the queue holds, and the other one has to end before the consumer goes on.
std::string appending(const std::string& config, const std::string& attributes, const std::string& other,
                      const std::string& at, bool slices) {
  const std::string in = slices ? "    subcontext: 1\n" : "";
  return "heddle: 1\ngpu: small\nconfig: " + config +
         "\nmemory: [{name: flag, bytes: 4}, {name: count, bytes: 4}]\nqueues: [{name: work, capacity: 2}]\n" +
         (slices ? "subcontexts: [{id: 1}, {id: 2}]\n" : "") + "kernels:\n  - name: producer\n    block: 64\n" +
         attributes + in +
         "    program:\n"
         "      - if:\n          cond: warp == 0\n          then:\n"
         "            - if: {cond: lane < 6, then: [{append: {queue: work, value: lane}}]}\n"
         "          else:\n"
         "            - compute: {unit: int32, count: 60000}\n"
         "            - if: {cond: lane == 0, then: [{store: {value: 1, at: flag, type: u32, order: release, scope: "
         "gpu}}]}\n"
         "  - name: consumer\n    grid: 1\n    block: 32\n" +
         in +
         "    program:\n      - set: {f: 0, type: u32}\n"
         "      - while: {cond: f == 0, do: [{load: {to: f, type: u32, at: flag, order: acquire, scope: gpu}}]}\n"
         "      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u32, value: 1, at: count}}]}\n"
         "  - name: other\n    grid: 10\n    block: 32\n" +
         other +
         "submit:\n  - {kernel: producer, stream: a, id: p}\n"
         "  - {kernel: consumer, stream: c, queue: work, until: p}\n  - {kernel: other, stream: b, " +
         at + "}\n";
}

std::string parents_with(const std::string& config, const std::string& parent, const std::string& child,
                         const std::string& wait, const std::string& urgent) {
  return "heddle: 1\ngpu: small\nconfig: " + config + "\nmemory: [{name: out, bytes: 4 KiB}]\nkernels:\n" +
         "  - {name: child, " + child + "}\n  - name: parent\n    grid: 10\n    block: 32\n    shared: 100 KiB\n" +
         parent + "      - if: {cond: lane == 0, then: [{launch: {kernel: child}}]}\n      - " + wait +
         "\n      - if: {cond: lane == 0, then: [{store: {value: 1, at: out + 4 * cta, type: u32}}]}\n"
         "  - {name: urgent, grid: 20, block: 32, shared: 150 KiB, " +
         urgent + "program: [{compute: {unit: int32, count: 1000}}]}\nsubmit:\n  - {kernel: parent, stream: a}\n";
}

}  // namespace

TEST_CASE("CTAs that wait for a free entry of a queue go on as a whole when they are to make room", "[cli][TSK-16]") {
  const std::string instruction = "{gpu: {cwd: {preemption: instruction}}}";
  const std::string urgent = "    shared: 150 KiB\n    program: [{compute: {unit: int32, count: 1000}}]\n";
  const std::string cgas = "    grid: 2\n    cluster: {gpc: 2}\n    shared: 150 KiB\n";
  struct Case {
    std::string name;
    std::string text;
    int entries;
  };
  const std::vector<Case> cases = {
      {"an urgent task",
       appending(instruction, "    grid: 1\n    shared: 150 KiB\n", urgent, "priority: 5, at: 20 us", false), 6},
      {"an urgent task, and CGAs", appending(instruction, cgas, urgent, "priority: 5, at: 20 us", false), 12},
      {"time slices",
       appending("{gpu: {cwd: {preemption: instruction, time_slice: 20000}}}", "    grid: 1\n",
                 "    subcontext: 2\n    program: [{compute: {unit: int32, count: 100000}}]\n", "at: 5 us", true),
       6}};
  for (const Case& one : cases) {
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(one.name, mode);
      const TempDir dir;
      dir.write("s.yaml",
                one.text + "expect: [{memory: count, pattern: \"" + std::to_string(one.entries) + "\", type: u32}]\n");
      const Finished finished =
          heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode, "--quiet", "--set", "run.wall_limit=60"});
      CAPTURE(finished.err);
      CHECK(finished.status == 0);
    }
  }
}

TEST_CASE("who empties a queue goes on beside urgent tasks that wait for the slots of those who append",
          "[cli][TSK-08][TSK-16]") {
  for (const char* cluster : {"", "cluster: {gpc: 2}, "}) {
    const std::string text =
        "heddle: 1\ngpu: small\nmemory: [{name: count, bytes: 4}]\nqueues: [{name: work, capacity: 2}]\nkernels:\n"
        "  - name: producer\n    grid: 10\n    block: 64\n    shared: 150 KiB\n    program:\n"
        "      - compute: {unit: int32, count: 2000}\n"
        "      - loop: {var: i, to: 40, do: [{if: {cond: thread == 0, then: [{append: {queue: work, value: i}}]}}]}\n"
        "  - name: consumer\n    grid: 1\n    block: 32\n    shared: 32 KiB\n    program:\n"
        "      - compute: {unit: int32, count: 2000}\n"
        "      - if: {cond: lane == 0, then: [{atomic: {op: add, type: u32, value: 1, at: count}}]}\n"
        "  - {name: urgent, grid: 20, block: 32, shared: 150 KiB, " +
        std::string(cluster) +
        "program: [{compute: {unit: int32, count: 1000}}]}\n"
        "submit:\n  - {kernel: producer, stream: a, id: p}\n"
        "  - {kernel: consumer, stream: c, queue: work, until: p}\n"
        "  - {kernel: urgent, stream: b, priority: 5, at: 20 us}\n"
        "expect: [{memory: count, pattern: \"400\", type: u32}]\n";
    for (const char* preemption : {"instruction", "cta", "drain"}) {
      CAPTURE(cluster, preemption);
      const TempDir dir;
      dir.write("s.yaml", text);
      const Finished finished =
          heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet", "--set", "gpu.sm.nested.save=wait", "--set",
                          "gpu.cwd.preemption=" + std::string(preemption)});
      CAPTURE(finished.err);
      CHECK(finished.status == 0);
    }
  }
}

// Of two CTAs one waits for its child, and the other one has no room in memory, or does not stop.
TEST_CASE("a member of a CGA that is woken before another one refuses to be saved goes on", "[cli][TSK-12][TSK-16]") {
  const std::string text =
      "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {preemption: instruction}, task: {nested: {memory: 0.1}}}}\n"
      "memory: [{name: out, bytes: 4 KiB}]\nkernels:\n"
      "  - {name: child, grid: 1, block: 32, program: [{compute: {unit: int32, count: 8000}}]}\n"
      "  - {name: leaf, grid: 1, block: 32, program: [{compute: {unit: int32, count: 10}}]}\n"
      "  - name: parent\n    grid: 2\n    block: 32\n    shared: 110 KiB\n    cluster: {gpc: 2}\n    program:\n"
      "      - compute: {unit: int32, count: 5000}\n"
      "      - if:\n          cond: rank == 0\n          then:\n"
      "            - if: {cond: lane == 0, then: [{launch: {kernel: child}}]}\n            - wait_children\n"
      "            - if: {cond: lane == 0, then: [{store: {value: 1, at: out, type: u32}}]}\n"
      "          else:\n            - launch: {kernel: leaf, mode: fire_and_forget}\n"
      "            - compute: {unit: int32, count: 5000}\n"
      "  - {name: urgent, grid: 10, block: 32, shared: 150 KiB, program: [{compute: {unit: int32, count: 1000}}]}\n"
      "submit:\n  - {kernel: parent, stream: a}\n  - {kernel: urgent, stream: b, priority: 5, at: 20 us}\n"
      "expect: [{memory: out, pattern: \"i == 0 ? 1 : 0\", type: u32}]\n";
  const TempDir dir;
  dir.write("s.yaml", text);
  for (const char* save : {"off", "wait", "wanted"}) {
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(save, mode);
      const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode, "--quiet", "--set",
                                                "gpu.sm.nested.save=" + std::string(save)});
      CAPTURE(finished.err);
      CHECK(finished.status == 0);
    }
  }
}

TEST_CASE("children of parents that stay in their slots go on beside urgent tasks that wait for those slots",
          "[cli][TSK-12][TSK-16]") {
  const std::string off = "{gpu: {sm: {nested: {save: off}}}}";
  const std::string linear = "    cluster: {gpc: 2, linear_memory: true}\n    program:\n";
  const std::string plain = "    program:\n";
  const std::string work = "      - compute: {unit: int32, count: 20000}\n";
  const std::string small = "grid: 1, block: 32, program: [{compute: {unit: int32, count: 1000}}]";
  const std::string large = "grid: 8, block: 1024, program: [{compute: {unit: int32, count: 3000}}]";
  const std::string cgas = "cluster: {gpc: 2}, ";
  struct Case {
    std::string name;
    std::string text;
    const char* at;
  };
  const std::vector<Case> cases = {
      {"linear memory", parents_with("{}", linear + work, small, "wait_children", ""), "5 us"},
      {"linear memory, and urgent CGAs", parents_with("{}", linear + work, small, "wait_children", cgas), "5 us"},
      {"no saves", parents_with(off, plain + work, small, "wait_children", ""), "5 us"},
      {"no saves, and urgent CGAs", parents_with(off, plain + work, small, "wait_children", cgas), "5 us"},
      {"large children, and urgent CGAs",
       parents_with("{}", plain + "      - compute: {unit: int32, count: 2000}\n", large, "wait_children: {stream: 0}",
                    cgas),
       "15 us"}};
  for (const Case& one : cases) {
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(one.name, mode);
      const Results results = run_in(mode, one.text + "  - {kernel: urgent, stream: b, priority: 5, at: " + one.at +
                                               "}\nexpect: [{memory: out, pattern: \"i < 10 ? 1 : 0\", type: u32}]\n");
    }
  }
}

TEST_CASE("who waits for ever for chunks, or for what is claimed, is told so", "[cli][TSK-12][TSK-16]") {
  const TempDir dir;
  const auto said = [&dir](const std::string& text) {
    dir.write("s.yaml", text);
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet"});
    CHECK(finished.status == 3);
    return finished.err;
  };
  // Three levels, of which every CTA needs an SM.
  const auto level = [](const char* name, int grid, const char* child) {
    return "  - name: " + std::string(name) + "\n    grid: " + std::to_string(grid) +
           "\n    block: 32\n    shared: 200 KiB\n    program:\n      - if: {cond: lane == 0, then: [{launch: "
           "{kernel: " +
           child + "}}]}\n      - wait_children\n";
  };
  const std::string chunks = said(
      "heddle: 1\ngpu: small\nconfig: {gpu: {task: {nested: {memory: 0.1}}}}\nkernels:\n"
      "  - {name: last, grid: 1, block: 32, shared: 200 KiB, cycles: 1000}\n" +
      level("third", 1, "last") + level("second", 1, "third") + level("first", 10, "second") +
      "submit: [{kernel: first, stream: a}]\n");
  CAPTURE(chunks);
  CHECK(contains(chunks, " free chunks of gpu.task.nested.memory to save SM "));
  // Nobody who is less urgent sets the flag that those wait for who are in the way.
  const std::string claimed = said(
      "heddle: 1\ngpu: small\nmemory: [{name: flag, bytes: 4}]\nkernels:\n"
      "  - {name: sets, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: flag}}]}\n"
      "  - name: spins\n    grid: 10\n    block: 32\n    shared: 100 KiB\n    program:\n      - set: {f: 0, type: "
      "u32}\n"
      "      - while: {cond: f == 0, do: [{load: {to: f, type: u32, at: flag, order: acquire, scope: gpu}}]}\n"
      "  - {name: urgent, grid: 20, block: 32, shared: 150 KiB, cluster: {gpc: 2}, cycles: 1000}\n"
      "submit:\n  - {kernel: spins, stream: a}\n  - {kernel: urgent, stream: b, priority: 5, at: 5 us}\n"
      "  - {kernel: sets, stream: c, at: 10 us}\n");
  CAPTURE(claimed);
  CHECK(contains(claimed,
                 "sets (operation 2, stream c) waits: for free slots for 1 more CTAs; those that there are belong "
                 "to the claim of urgent"));
}

// Both want the same of every SM: the first has what CTAs that wait give up, and the second needs as much again.
TEST_CASE("SMs are asked anew for each task that wants slots of CTAs that wait", "[cli][TSK-12][TSK-16]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nconfig: {gpu: {sm: {limits: {ctas: 2}, nested: {save: wanted}}, "
            "cwd: {preemption: instruction}, task: {nested: {shared_by: grid}}}}\nkernels:\n"
            "  - {name: child, grid: 1, block: 32, cycles: 2000000}\n"
            "  - {name: long, grid: 10, block: 32, cycles: 1000000}\n"
            "  - {name: short, grid: 10, block: 32, cycles: 1000}\n"
            "  - name: parent\n    grid: 19\n    block: 32\n    program:\n"
            "      - if: {cond: thread == 0 && cta == 0, then: [{launch: {kernel: child}}]}\n"
            "      - compute: {unit: int32, count: 5000}\n      - wait_children\n"
            "submit:\n  - {kernel: parent, stream: a}\n  - {kernel: long, stream: b, at: 100 us}\n"
            "  - {kernel: short, stream: c, at: 101 us}\n");
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    // ns; the long one has its slots for 1 ms
    CHECK(stat(run_well(dir, {"s.yaml", "--timing", mode}), "gpu0.task.launch_latency.max") < 100'000);
  }
}

TEST_CASE("a kernel of cycles is saved in the slots that CTAs with programs had before, and goes on",
          "[cli][TSK-12][TSK-16]") {
  const TempDir dir;
  std::string text =
      "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {preemption: instruction, preempt_again: 500}, sm: {limits: {ctas: "
      "1}}}}\nkernels:\n  - {name: hog, grid: 10, block: 256, cycles: 20000, registers: 32}\n"
      "  - {name: u, grid: 10, block: 32, program: [{compute: {unit: int32, count: 500}}]}\nsubmit:\n"
      "  - {kernel: hog, stream: h}\n";
  for (int i = 1; i <= 4; ++i) {
    text += "  - {kernel: u, stream: s" + std::to_string(i) + ", at: " + std::to_string(10 * i) + " us, priority: 2}\n";
  }
  dir.write("s.yaml", text);
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet"});
  CAPTURE(finished.err);
  CHECK(finished.status == 0);
  CHECK(stat(Results(dir.file("out")), "gpu0.cwd.ctas_preempted") >= 10);
}

TEST_CASE("a saved CTA with local memory whose kernel is stopped by a fault gives back what it has in memory",
          "[cli][TSK-12][PRT-11]") {
  const TempDir dir;
  // All wait for children that take longer and longer: the first that is back stops the others, which are saved then.
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nconfig: {gpu: {sm: {nested: {save_delay: 100}}}}\nkernels:\n"
            "  - name: child\n    grid: 1\n    block: 32\n    program:\n"
            "      - load: {to: n, type: u64, at: kernarg}\n"
            "      - while: {cond: \"n > 0\", do: [{compute: {unit: int32, count: 20000}}, {set: {n: n - 1}}]}\n"
            "      - compute: {unit: int32, count: 20000}\n"
            "  - name: parent\n    grid: 5\n    block: 32\n    local: 32 B\n    program:\n"
            "      - if: {cond: lane == 0, then: [{launch: {kernel: child, args: [cta]}}]}\n      - wait_children\n"
            "      - load: {to: x, type: u32, at: 1099511627776}\n"
            "submit: [{kernel: parent, stream: a}]\nexpect: [{fault: address, kernel: parent}]\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet"});
  CAPTURE(finished.err);
  CHECK(finished.status == 0);
  const Results results(dir.file("out"));
  double saves = 0;
  for (const auto& [path, its] : results.document().at("stats").items()) {
    const bool counts = path.size() > 13 && path.compare(path.size() - 13, 13, ".nested.saves") == 0;
    if (counts) saves += its.at("value").get<double>();
  }
  CHECK(saves == 5);
}

TEST_CASE("a stream is destroyed whatever values the program stored before", "[cli][TSK-11]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nmemory: [{name: y, bytes: 256, init: {pattern: \"4294967296 * 7\", type: u64}}]\n"
            "kernels:\n  - {name: child, grid: 1, block: 32, program: [{compute: {unit: int32, count: 10}}]}\n"
            "  - name: p\n    grid: 1\n    block: 32\n    program:\n"
            "      - load: {to: a, type: u64, at: y}\n      - set: {h: 0, type: u64}\n      - stream_create: s\n"
            "      - if: {cond: lane == 0, then: [{launch: {kernel: child, stream: s, to: h}}, {wait_children: "
            "{launch: h}}]}\n"
            "      - store: {value: a, type: u64, at: y + 8 * lane}\n      - stream_destroy: s\n"
            "submit: [{kernel: p, stream: a}]\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet"});
  CAPTURE(finished.err);
  CHECK(finished.status == 0);
}

}  // namespace cli_save_command_test

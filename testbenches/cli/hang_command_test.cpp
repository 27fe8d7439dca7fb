// Runs that can never end, and how soon they are found out; and runs that only look as if they could not.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_hang_command_test {

using namespace heddle::test;

namespace {

struct Hang {
  const char* what;
  std::string scenario;
  std::vector<std::string> said;  // in the line of the cause
  std::vector<std::string> options = {};
};

std::string kernel(const std::string& head, const std::string& steps, const std::string& submit = "") {
  return "heddle: 1\ngpu: small\nmemory:\n  - {name: flag, bytes: 4 KiB}\nkernels:\n  - name: k\n" + head +
         "    program:\n" + steps + "submit:\n  - {kernel: k, stream: a}\n" + submit;
}

const char* const kSmall = "    grid: 4\n    block: 64\n    shared: 1 KiB\n";

std::string parents(const std::string& gpu, const std::string& parent, const std::string& child) {
  return "heddle: 1\n" + gpu + "kernels:\n  - name: parent\n" + parent +
         "    program:\n"
         "      - if: {cond: thread == 0, then: [{launch: {kernel: child}}]}\n"
         "      - barrier\n"
         "      - wait_children\n"
         "  - {name: child, cycles: 1000, " +
         child + "}\nsubmit:\n  - {kernel: parent, stream: a}\n";
}

std::vector<Hang> hangs() {
  const std::string set = "      - set: {seen: 0, type: u32}\n";
  std::vector<Hang> all;
  all.push_back({"a program that waits for a flag that nobody sets",
                 kernel(kSmall, set + "      - while: {cond: seen == 0, do: [{load: {to: seen, type: u32, at: flag, "
                                      "order: acquire}}]}\n"),
                 {"in a loop of 2 operations", "load seen (line 12)", "device memory at 0x"}});
  all.push_back({"a lock that nobody gives back",
                 kernel(kSmall,
                        "      - set: {had: 1, type: u32}\n"
                        "      - while: {cond: had != 0, do: [{atomic: {op: exchange, type: u32, at: flag, value: "
                        "1, to: had}}]}\n"),
                 {"in a loop of ", "atomic exchange (line 12)"}});
  all.push_back({"a program that waits, and writes the same again and again",
                 kernel(kSmall, set + "      - while: {cond: seen == 0, do: [{load: {to: seen, type: u32, at: flag, "
                                      "order: acquire}}, {store: {type: u32, value: thread, at: flag + 512 + 4 * "
                                      "thread}}]}\n"),
                 {"in a loop of 3 operations", "load seen (line 12)"}});
  all.push_back({"a grid barrier to which a CTA never comes",
                 kernel("    grid: 4\n    block: 64\n    cooperative: true\n",
                        "      - if: {cond: cta == 3, then: [exit]}\n      - grid_barrier: {at: flag}\n"),
                 {"in a loop of 2 operations", "grid_barrier, whose last CTAs have not arrived (line 12)",
                  "device memory at 0x"}});
  all.push_back({"a loop about nothing",
                 kernel(kSmall, "      - while: {cond: 1, do: [{compute: {unit: fp32, count: 10}}]}\n"),
                 {"in a loop of ", "for nothing that could change: next comes "}});
  all.push_back({"a CTA whose warps arrive at different barriers",
                 kernel(kSmall, "      - barrier: {number: warp, threads: 64}\n"),
                 {"in barrier (line 11), at barrier 1, where 1 of 2 warps have arrived, for SM "}});
  all.push_back({"a barrier at which a warp is missing that polls",
                 kernel(kSmall, set + "      - if: {cond: warp == 1, then: [{while: {cond: seen == 0, do: [{load: {to: "
                                      "seen, type: u32, at: flag, order: acquire}}]}}]}\n"
                                      "      - barrier\n"),
                 {"warp 1 waits: in a loop of 2 operations", "load seen (line 12)"}});
  all.push_back({"an mbarrier at which an arrival is missing",
                 kernel(kSmall,
                        "      - if: {cond: thread == 0, then: [{mbarrier_init: {at: 0, count: 3}}]}\n"
                        "      - barrier\n"
                        "      - if: {cond: lane == 0, then: [{mbarrier_arrive: {at: 0}}]}\n"
                        "      - mbarrier_wait: {at: 0, parity: 0}\n"),
                 {"in mbarrier_wait (line 14), for parity 0 of the mbarrier at 0x0: its phase has parity 0, and 1 of 3 "
                  "arrivals and 0 bytes are outstanding, for nobody that is left"}});
  all.push_back({"an mbarrier of which a warp misses two phases",
                 kernel(kSmall,
                        "      - if: {cond: thread == 0, then: [{mbarrier_init: {at: 0, count: 1}}]}\n"
                        "      - barrier\n"
                        "      - if: {cond: thread == 0, then: [{mbarrier_arrive: {at: 0}}, {mbarrier_arrive: "
                        "{at: 0}}]}\n"
                        "      - barrier\n"
                        "      - if: {cond: warp == 1, then: [{mbarrier_wait: {at: 0, parity: 0}}]}\n"),
                 {"warp 1 waits: in mbarrier_wait (line 15)", "1 of 1 arrivals",
                  "2 have completed since the warp last went on there", "the warp has come too late"}});
  all.push_back({"an mbarrier of which a warp waits for the same phase twice",
                 kernel(kSmall,
                        "      - if: {cond: thread == 0, then: [{mbarrier_init: {at: 0, count: 1}}]}\n"
                        "      - barrier\n"
                        "      - if: {cond: thread == 0, then: [{mbarrier_arrive: {at: 0}}]}\n"
                        "      - mbarrier_wait: {at: 0, parity: 0}\n"
                        "      - barrier\n"
                        "      - if: {cond: thread == 0, then: [{mbarrier_arrive: {at: 0}}]}\n"
                        "      - barrier\n"
                        "      - mbarrier_wait: {at: 0, parity: 0}\n"),
                 {"in mbarrier_wait (line 18)", "1 has completed since the warp last went on there",
                  "waits for the next with the same parity"}});
  all.push_back({"parents for whose state there is no room, which hold every SM",
                 parents("gpu: h100-sxm\nconfig: {gpu: {task: {nested: {memory: 0}}}}\n",
                         "    grid: 528\n    block: 512\n    shared: 48 KiB\n", "grid: 1, block: 512, shared: 48 KiB"),
                 {"child #1 waits: for free slots for 1 more CTAs; the slots are with parent"}});
  all.push_back({"parents in clusters for whose states there is no room, which hold every SM",
                 parents("gpu: small\nconfig: {gpu: {sm: {limits: {ctas: 2}}, task: {nested: {memory: 0}}}}\n",
                         "    grid: 40\n    block: 32\n    cluster: 2\n", "grid: 1, block: 32"),
                 {"the slots are with parent"}});
  all.push_back({"parents that share a context, for whose states there is no room, and that hold every SM",
                 parents("gpu: small\nconfig: {gpu: {sm: {limits: {ctas: 2}}, "
                         "task: {nested: {shared_by: grid, memory: 0}}}}\n",
                         "    grid: 40\n    block: 32\n", "grid: 1, block: 32"),
                 {"the slots are with parent"}});
  const std::string no_expectations = read_file(scenario("nested_deadlock.yaml"));
  all.push_back({"a recursion whose parents are not saved, as they hold every SM",
                 no_expectations.substr(0, no_expectations.find("expect:")),
                 {"part #", "for free slots for 1 more CTAs; the slots are with part #"}});
  all.push_back({"parents that are not saved and leave no room for the large CTAs of their child",
                 "heddle: 1\ngpu: small\nconfig: {gpu: {sm: {nested: {save: false}}}}\nkernels:\n"
                 "  - {name: big, grid: 10, block: 1024, registers: 64, cycles: 1000}\n"
                 "  - name: parent\n    grid: 10\n    block: 32\n    shared: 200 KiB\n    program:\n"
                 "      - if: {cond: lane == 0, then: [{launch: {kernel: big}}]}\n      - wait_children\n"
                 "submit: [{kernel: parent, stream: a}]\n",
                 {"big #1 waits: for free slots for 10 more CTAs; the slots are with parent"}});
  const std::string spin =
      "      - set: {seen: 0, type: u32}\n"
      "      - while: {cond: seen == 0, do: [{load: {to: seen, type: u32, at: flag, order: "
      "acquire}}]}\n";
  const std::string sets =
      "  - {name: sets, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: flag, "
      "order: release}}]}\n";
  const auto launches = [&sets](const std::string& config, const std::string& others, const std::string& grid,
                                const std::string& steps) {
    return "heddle: 1\ngpu: small\n" + config + "memory: [{name: flag, bytes: 4 KiB}]\nkernels:\n" + sets + others +
           "  - name: parent\n    grid: " + grid + "\n    block: 32\n    program:\n" + steps +
           "submit: [{kernel: parent, stream: a}]\n";
  };
  all.push_back(
      {"a parent that polls for what its tail launch writes",
       launches("", "", "1", "      - if: {cond: lane == 0, then: [{launch: {kernel: sets, mode: tail}}]}\n" + spin),
       {"of parent (operation 0, stream a) waits: in a loop of 2 operations", "load seen (line 12)"}});
  all.push_back({"parents that poll for what their child writes, and hold every SM",
                 launches("config: {gpu: {sm: {limits: {ctas: 1}}}}\n", "", "10",
                          "      - if: {cond: lane == 0, then: [{launch: {kernel: sets}}]}\n" + spin),
                 {"of parent (operation 0, stream a) waits: in a loop of 2 operations", "load seen (line 13)"}});
  const std::string waits = "  - name: waits\n    grid: 1\n    block: 32\n    program:\n" + spin;
  all.push_back({"a child that waits for the one behind it in its stream",
                 launches("", waits, "1",
                          "      - if: {cond: lane == 0, then: [{launch: {kernel: waits}}, {launch: {kernel: "
                          "sets}}]}\n      - wait_children\n"),
                 {"of waits #1 waits: in a loop of 2 operations", "load seen (line 11)"}});
  all.push_back({"a child that waits for one of another stream, which shares its TMDQ",
                 launches("config: {gpu: {task: {nested: {tmdqs: 1}}}}\n", waits, "1",
                          "      - stream_create: other\n"
                          "      - if: {cond: lane == 0, then: [{launch: {kernel: waits}}, {launch: {kernel: sets, "
                          "stream: other}}]}\n      - wait_children\n"),
                 {"of waits #1 waits: in a loop of 2 operations", "load seen (line 12)"}});
  all.push_back({"children at the end of a chain of waits, at an mbarrier at which nobody arrives",
                 "heddle: 1\ngpu: small\nkernels:\n"
                 "  - name: hang\n    grid: 1\n    block: 64\n    shared: 64 B\n    program:\n"
                 "      - if: {cond: thread == 0, then: [{mbarrier_init: {at: 0, count: 1}}]}\n      - barrier\n"
                 "      - mbarrier_wait: {at: 0, parity: 0}\n"
                 "  - name: middle\n    grid: 2\n    block: 32\n    program:\n"
                 "      - if: {cond: lane == 0, then: [{launch: {kernel: hang}}]}\n      - wait_children\n"
                 "  - name: parent\n    grid: 4\n    block: 32\n    program:\n"
                 "      - if: {cond: lane == 0, then: [{launch: {kernel: middle}}]}\n      - wait_children\n"
                 "submit: [{kernel: parent, stream: a}, {kernel: parent, stream: b, id: x}, {kernel: middle, stream: "
                 "a, after: x}]\n",
                 {"of hang #", "in mbarrier_wait (line 11), for parity 0 of the mbarrier at 0x0",
                  "1 of 1 arrivals and 0 bytes are outstanding, for nobody that is left"}});
  all.push_back({"an mbarrier that expects more bytes than come",
                 kernel(kSmall,
                        "      - if: {cond: thread == 0, then: [{mbarrier_init: {at: 512, count: 1}}, "
                        "{mbarrier_arrive: {at: 512, expect: 512}}, {bulk_load: {from: flag, to: 0, bytes: 256, "
                        "barrier: 512}}]}\n      - barrier\n      - mbarrier_wait: {at: 512, parity: 0}\n"),
                 {"in mbarrier_wait (line 13)", "0 of 1 arrivals and 256 bytes are outstanding"}});
  all.push_back({"a cluster barrier at which a CTA is missing that polls",
                 kernel("    grid: 8\n    block: 64\n    cluster: 4\n",
                        "      - set: {seen: 0, type: u32}\n"
                        "      - if: {cond: rank == 2, then: [{while: {cond: seen == 0, do: [{load: {to: seen, type: "
                        "u32, at: flag, order: acquire}}]}}]}\n      - cluster_barrier\n"),
                 {"CTA 2, warp ", "in a loop of 2 operations", "load seen (line 12)"}});
  all.push_back({"a full queue whose entries append another one",
                 "heddle: 1\ngpu: small\nqueues: [{name: work, capacity: 2, initial: {count: 2, value: 1}}]\nkernels:\n"
                 "  - name: take\n    grid: 1\n    block: 32\n    program:\n"
                 "      - if: {cond: lane == 0, then: [{append: {queue: work, value: [2]}}]}\n"
                 "submit: [{kernel: take, stream: a, queue: work}]\n",
                 {"in append work (line 9), for a free entry of the queue at 0x100000"}});
  all.push_back({"a process without credits",
                 "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: dynamic}}}\n"
                 "subcontexts: [{id: 1, credits: 0}, {id: 2, credits: 2}]\nkernels:\n"
                 "  - {name: first, grid: 4, block: 32, cycles: 1000, subcontext: 1}\n"
                 "  - {name: second, grid: 4, block: 32, cycles: 1000, subcontext: 2}\n"
                 "submit:\n  - {kernel: first, stream: a}\n  - {kernel: second, stream: b}\n",
                 {"first", "subcontext 1"}});
  all.push_back({"a queue task that is held open by who waits for it",
                 "heddle: 1\ngpu: small\nqueues: [{name: work, capacity: 64, initial: {count: 1, value: 1}}]\n"
                 "kernels:\n  - {name: take, grid: 1, block: 32, program: [{compute: {unit: fp32, count: 10}}]}\n"
                 "  - {name: feed, grid: 1, block: 32, cycles: 100}\n"
                 "submit:\n  - {kernel: take, stream: a, queue: work, until: [f]}\n"
                 "  - {id: f, kernel: feed, stream: a}\n",
                 {"take (operation 0, stream a) waits: for the end of feed"}});
  all.push_back({"operations behind a program that waits", read_file(scenario("no_progress.yaml")), {"mbarrier_wait"}});
  all.push_back({"packets behind a program that waits",
                 read_file(scenario("no_progress.yaml")),
                 {"mbarrier_wait"},
                 {"--submit", "aql"}});
  return all;
}

}  // namespace

// Two million events are a few seconds of any computer; none of these needs twice as many. What checks every access
// takes its time.
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
constexpr double kSeconds = 100;
#else
constexpr double kSeconds = 10;
#endif
TEST_CASE("what can never end is found out by default, with the cause first", "[cli][TSK-12]") {
  const TempDir dir;
  for (const Hang& hang : hangs()) {
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(hang.what, mode);
      dir.write("s.yaml", hang.scenario);
      std::vector<std::string> arguments = {"run", "s.yaml", "--out", "out", "--timing", mode};
      arguments.insert(arguments.end(), hang.options.begin(), hang.options.end());
      const Finished finished = heddle_in(dir, arguments);
      INFO(finished.err);
      CHECK(finished.status == 3);
      CHECK(finished.cpu_seconds < kSeconds);
      const Results results(dir.file("out"));
      CHECK(results.document().at("completed") == false);
      CHECK(results.document().at("partial") == false);
      CHECK(results.stat("sim.events") < 4'000'000);
      const nlohmann::json& waits = results.document().at("waits");
      REQUIRE_FALSE(waits.empty());
      const std::string cause = waits.at(0).get<std::string>();
      CHECK(cause.rfind("the cause: ", 0) == 0);
      for (const std::string& part : hang.said) {
        CAPTURE(part, cause);
        CHECK(contains(cause, part));
      }
      CHECK(contains(finished.err, cause));
      CHECK(results.page().at("stopped").at("waits") == waits);
    }
  }
}

TEST_CASE("a kernel launched ahead of the end of one that never ends says whom it waits for", "[cli][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nkernels:\n  - {name: first, grid: 1, block: 32, shared: 64, program: "
            "[{if: {cond: lane == 0, then: [{mbarrier_init: {at: 0, count: 1}}]}}, launch_dependents, "
            "{mbarrier_wait: {at: 0, parity: 0}}]}\n"
            "  - {name: second, grid: 1, block: 32, program: [grid_dependency_wait]}\nsubmit:\n"
            "  - {kernel: first, stream: a}\n  - {kernel: second, stream: a, programmatic: true}\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  CHECK(finished.status == 3);
  INFO(finished.err);
  CHECK(contains(finished.err, "the cause: SM 0, CTA 0, warp 0 waits: in mbarrier_wait (line 4)"));
  CHECK(contains(finished.err,
                 "SM 1, CTA 0, warp 0 waits: in grid_dependency_wait (line 5), for the grid dependency of second "
                 "(operation 1, stream a)"));
  CHECK(contains(finished.err,
                 "the grid dependency of second (operation 1, stream a) waits: for the end of first (operation 0, "
                 "stream a)"));
}

TEST_CASE("a run without progress ends at the same event every time", "[cli][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml", hangs().front().scenario);
  std::vector<std::string> written;
  for (const char* out : {"one", "two"}) {
    CHECK(heddle_in(dir, {"run", "s.yaml", "--out", out, "--quiet"}).status == 3);
    written.push_back(read_file(Results(dir.file(out)).file("stats.json")));
  }
  CHECK(written[0] == written[1]);
}

// With a patience so short that it begins anew hundreds of times.
TEST_CASE("what goes on is not taken for what cannot end", "[cli][TSK-12]") {
  const std::string set = "      - set: {seen: 0, type: u32}\n";
  const std::string spin =
      "      - while: {cond: seen == 0, do: [{load: {to: seen, type: u32, at: flag, order: acquire}}]}\n";
  const std::string spinner = "  - name: spin\n    grid: 8\n    block: 32\n    program:\n" + set + spin;
  const auto scenario = [](const std::string& kernels, const std::string& submit, const std::string& config = {}) {
    return "heddle: 1\ngpu: small\n" + config + "memory:\n  - {name: flag, bytes: 4 KiB}\nkernels:\n" + kernels +
           "submit:\n" + submit;
  };
  const std::string both = "  - {kernel: spin, stream: a}\n  - {kernel: sets, stream: b}\n";
  const std::string sets = "  - name: sets\n    grid: 1\n    block: 32\n    program:\n";
  const std::string store = "      - store: {type: u32, value: 1, at: flag, order: release, scope: gpu}\n";
  struct Case {
    const char* what;
    std::string text;
  };
  const std::vector<Case> cases = {
      {"a computation of one CTA",
       scenario("  - name: k\n    grid: 1\n    block: 32\n    program:\n      - set: {x: 0, type: u32}\n"
                "      - loop: {var: i, to: 200000, do: [{set: {x: x + i}}]}\n",
                "  - {kernel: k, stream: a}\n")},
      {"a long operation of another warp, for which all others wait",
       scenario(spinner + sets + "      - compute: {unit: fp32, count: 1000000}\n" + store, both)},
      {"a computation of another warp", scenario(spinner + sets +
                                                     "      - set: {x: 0, type: u32}\n"
                                                     "      - loop: {var: i, to: 30000, do: [{set: {x: x + i}}]}\n" +
                                                     store,
                                                 both)},
      {"a CTA of a fixed duration, and what comes after it",
       scenario(spinner + sets + store + "  - {name: lasts, grid: 1, block: 32, cycles: 1500000}\n",
                "  - {kernel: spin, stream: a}\n  - {kernel: lasts, stream: b}\n  - {kernel: sets, stream: b}\n")},
      {"a host that submits much later",
       scenario(spinner + sets + store, "  - {kernel: spin, stream: a}\n  - {kernel: sets, stream: b, at: 1 ms}\n")},
      {"a counter in memory that nobody keeps in a register",
       scenario("  - name: k\n    grid: 1\n    block: 32\n    program:\n      - set: {n: 0, type: u64}\n"
                "      - set: {more: 1, type: u32}\n"
                "      - while: {cond: more == 1, do: [{load: {to: n, type: u64, at: flag, order: acquire}}, {store: "
                "{type: u64, value: n + 1, at: flag}}, {set: {more: 'select(n < 3000, 1, 0)'}}, {set: {n: 0}}]}\n",
                "  - {kernel: k, stream: a}\n")},
      {"a counter in memory by reductions",
       scenario("  - name: k\n    grid: 1\n    block: 32\n    program:\n      - set: {more: 1, type: u32}\n"
                "      - while: {cond: more == 1, do: [{atomic: {op: add, type: u32, at: flag, value: 1}}, {load: {to: "
                "seen, type: u32, at: flag, order: acquire}}, {set: {more: 'select(seen < 100000, 1, 0)'}}]}\n",
                "  - {kernel: k, stream: a}\n")},
      {"a time-out by the clock",
       scenario(
           "  - name: k\n    grid: 1\n    block: 32\n    program:\n      - set: {go: 1, type: u32}\n"
           "      - special: {to: begin, register: clock}\n"
           "      - while: {cond: go == 1, do: [{load: {to: seen, type: u32, at: flag, order: acquire}}, {special: "
           "{to: at, register: clock}}, {set: {go: 'select(at - begin < 1000000, 1, 0)'}}, {set: {at: 0}}]}\n",
           "  - {kernel: k, stream: a}\n")},
  };
  const TempDir dir;
  for (const Case& c : cases) {
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(c.what, mode);
      dir.write("s.yaml", c.text);
      const Finished finished =
          heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode, "--set", "run.no_progress_events=1000"});
      INFO(finished.err);
      CHECK(finished.status == 0);
    }
  }
}

TEST_CASE("a loop that counts without an end is given up after a number of events, and the run says what it saw",
          "[cli][TSK-12]") {
  const TempDir dir;
  const std::string counts = kernel(kSmall,
                                    "      - set: {n: 1, type: u64}\n      - while: {cond: n > 0, do: [{set: {n: "
                                    "n + 2}}]}\n");
  dir.write("s.yaml", counts);
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--set", "run.no_progress_events=20000",
                                            "--set", "run.no_progress_instructions=100000"});
  INFO(finished.err);
  CHECK(finished.status == 3);
  CHECK(contains(finished.err, "nothing but instructions was seen"));
  CHECK(contains(finished.err, "run.no_progress_instructions"));
  CHECK(contains(finished.err, "for nothing: it runs, and next comes "));
  CHECK(Results(dir.file("out")).stat("sim.events") < 400'000);
}

TEST_CASE("a run that is stopped at its limit of wall time says that its results are partial", "[cli][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml",
            kernel(kSmall, "      - set: {n: 1, type: u64}\n      - while: {cond: n > 0, do: [{set: {n: n + 2}}]}\n") +
                "expect:\n  - {stat: gpu0.task.kernels, equals: 1}\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--set", "run.wall_limit=0.05 s"});
  INFO(finished.err);
  CHECK(finished.status == 5);
  CHECK(contains(finished.err, "heddle: partial: stopped after 0.05 s"));
  CHECK(contains(finished.out, "run.wall_limit"));
  const Results results(dir.file("out"));
  CHECK(results.document().at("completed") == false);
  CHECK(results.document().at("partial") == true);
  CHECK(results.document().at("expectations").empty());  // nothing can be said of them
  CHECK(results.page().at("stopped").at("what") == "Partial");
}

TEST_CASE("a long chain of waits is told in a few lines", "[cli][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: dynamic}}}\n"
            "subcontexts: [{id: 1, credits: 0}, {id: 2, credits: 2}]\nkernels:\n"
            "  - {name: first, grid: 4, block: 32, cycles: 1000, subcontext: 1}\n"
            "submit:\n  - {kernel: first, stream: a, repeat: 5000}\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  CHECK(finished.status == 3);
  INFO(finished.err);
  CHECK(finished.err.size() < 2000);
  CHECK(finished.out.size() < 4000);
  CHECK(contains(finished.err, "more lines like this one"));
}

TEST_CASE("streams that wait for an event which cannot come to pass are in the chain of waits", "[cli][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nqueues: [{name: work, capacity: 4}]\nkernels:\n"
            "  - name: parent\n    grid: 1\n    block: 1\n    program:\n"
            "      - stream_create: left\n"
            "      - stream_create: right\n"
            "      - event_create: ready\n"
            "      - launch: {kernel: take, queue: work, open: true, stream: left}\n"
            "      - event_record: {event: ready, stream: left}\n"
            "      - stream_wait: {event: ready, stream: right}\n"
            "      - launch: {kernel: leaf, stream: right}\n"
            "      - wait_children: {stream: right}\n"
            "  - {name: take, grid: 1, block: 1, program: [{compute: {unit: fp32, count: 10}}]}\n"
            "  - {name: leaf, grid: 1, block: 1, cycles: 10}\n"
            "submit:\n  - {kernel: parent, stream: a}\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  INFO(finished.err);
  CHECK(finished.status == 3);
  const nlohmann::json waits = Results(dir.file("out")).document().at("waits");
  const auto said = [&waits](const std::string& text) {
    return std::any_of(waits.begin(), waits.end(), [&text](const nlohmann::json& line) {
      return line.get<std::string>().find(text) != std::string::npos;
    });
  };
  CHECK(waits.at(0).get<std::string>().find("take #1 waits: for entries, or the close, of its queue at 0x") !=
        std::string::npos);
  CHECK(said("children of parent"));
  CHECK(said("for the end of a stream's wait for an event, at 0x"));
  CHECK(said("waits: for the record of an event, at 0x"));
  CHECK(said("for its turn in its TMDQ, behind take #1"));
}

}  // namespace cli_hang_command_test

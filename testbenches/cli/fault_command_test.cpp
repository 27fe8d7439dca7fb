// What a run says of operations that the device could not carry out, and of programs that never end.
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_fault_command_test {

using namespace heddle::test;

namespace {

// Two kernels that are right, beside and behind one called "bad", which has 8 CTAs of 64 threads.
std::string with_bad_kernel(const std::string& steps, const std::string& expect = {}) {
  return R"(heddle: 1
gpu: small
memory:
  - {name: y, bytes: 4 KiB}
  - {name: z, bytes: 4 KiB, write: z.u32}
kernels:
  - name: good
    grid: 8
    block: 128
    program:
      - let: {i: 128 * cta + thread}
      - atomic: {op: add, type: u32, at: z + 4 * i, value: i}
  - name: bad
    grid: [4, 2]
    block: 64
    shared: 128 B
    program:
)" + steps +
         R"(submit:
  - {kernel: bad, stream: a}
  - {kernel: good, stream: b}
  - {kernel: good, stream: a}
expect:
  - {memory: z, pattern: 2 * i, type: u32}
)" + expect;
}

// Lane 5 of the second warp of CTA 6 does it, on line 20.
std::string one_lane(const std::string& step) {
  return "      - if:\n          cond: cta == 6 && thread == 37\n          then: [" + step + "]\n";
}

struct Case {
  const char* kind;
  const char* said;
  std::string steps;
};

const Case kCases[] = {
    {"address", "load a (line 20) from 0xfffffff0: address outside memory",
     one_lane("{load: {to: a, type: u32, at: 0xfffffff0}}")},
    {"misaligned", "store (line 20) to 0x100002: address not aligned to the width of the access",
     one_lane("{store: {value: 1, type: u32, at: y + 2}}")},
    {"shared_bounds", "atomic add (line 20) at 0x80: beyond the CTA's shared memory",
     one_lane("{atomic: {op: add, type: u32, space: shared, at: 128, value: 1}}")},
};

}  // namespace

TEST_CASE("a fault names kernel, place, step and address; its kernel ends, and the others go on", "[cli][MEM-05]") {
  const TempDir dir;
  for (const Case& c : kCases) {
    CAPTURE(c.kind);
    dir.write("s.yaml", with_bad_kernel(c.steps));
    for (const char* mode : {"at", "fast", "lt"}) {
      CAPTURE(mode);
      const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode});
      INFO(finished.out);
      INFO(finished.err);
      CHECK(finished.status == 1);
      CHECK(contains(finished.out, "FAULT:   gpu0, kernel bad: SM "));
      CHECK(contains(finished.out, "CTA 6 (2, 1, 0), warp 1, lane 5: " + std::string(c.said)));
      CHECK(contains(finished.out, "1, not expected; 1 kernel ended early"));
      CHECK(contains(finished.out, "met:     memory z = 2 * i"));
      const Results results(dir.file("out"));
      CHECK(results.document().at("completed") == true);
      CHECK(results.stat("gpu0.faults") == 1);
      CHECK(results.stat("gpu0.task.faulted") == 1);
      CHECK(results.stat("gpu0.task.kernels") == 2);
      CHECK(read_file(results.file("z.u32")).size() == 4096);
      REQUIRE(results.document().at("faults").size() == 1);
      const nlohmann::json& fault = results.document().at("faults").at(0);
      CHECK(fault.at("kind") == c.kind);
      CHECK(fault.at("gpu") == "gpu0");
      CHECK(fault.at("kernel") == "bad");
      CHECK(fault.at("operation") == 0);
      CHECK(fault.at("cta") == 6);
      CHECK(fault.at("warp") == 1);
      CHECK(fault.at("lane") == 5);
      CHECK(fault.at("cycle") > 0);
      CHECK(fault.at("expected") == false);
      CHECK(contains(finished.out, fault.at("text").get<std::string>()));
      REQUIRE(results.page().at("gpus").at(0).at("faults").size() == 1);
      const nlohmann::json& row = results.page().at("gpus").at(0).at("faults").at(0);
      CHECK(row.at("kernel") == "bad");
      CHECK(contains(row.at("step").get<std::string>(), "(line 20)"));
      CHECK(contains(c.said, row.at("address").get<std::string>()));
    }
  }
}

TEST_CASE("a barrier that cannot complete is a fault", "[cli]") {
  const TempDir dir;
  for (const std::string step : {"{barrier: {number: 16 + warp}}", "{barrier: {number: 1, threads: 1024}}"}) {
    CAPTURE(step);
    dir.write("s.yaml", with_bad_kernel("      - " + step + "\n"));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    INFO(finished.out);
    INFO(finished.err);
    CHECK(finished.status == 1);
    CHECK(contains(finished.out, "barrier (line 18): no such barrier, or one that can never complete"));
  }
  // One warp leaves, the other waits for it.
  dir.write("s.yaml", with_bad_kernel("      - if: {cond: warp == 1 && cta == 6, then: [exit]}\n"
                                      "      - barrier: {number: 1, threads: 64}\n"));
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  INFO(finished.out);
  CHECK(finished.status == 1);
  CHECK(contains(finished.out, "CTA 6 (2, 1, 0), warp 1"));
  CHECK(contains(finished.out, "no such barrier, or one that can never complete"));
  CHECK(Results(dir.file("out")).document().at("faults").at(0).at("kind") == "barrier");
}

TEST_CASE("a fault that the scenario expects is a success, another one is not", "[cli]") {
  const TempDir dir;
  for (const Case& c : kCases) {
    CAPTURE(c.kind);
    dir.write("s.yaml", with_bad_kernel(c.steps, fmt::format("  - {{fault: {}, kernel: bad}}\n", c.kind)));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    INFO(finished.out);
    CHECK(finished.status == 0);
    CHECK(contains(finished.out, fmt::format("met:     fault {} in kernel bad", c.kind)));
    CHECK(contains(finished.out, "1, as expected; 1 kernel ended early"));
    CHECK_FALSE(contains(finished.out, "FAULT"));
    CHECK(Results(dir.file("out")).document().at("faults").at(0).at("expected") == true);
  }
  const std::string steps = kCases[0].steps;
  for (const char* expect : {"{fault: misaligned, kernel: bad}", "{fault: address, kernel: good}"}) {
    CAPTURE(expect);
    dir.write("s.yaml", with_bad_kernel(steps, fmt::format("  - {}\n", expect)));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    INFO(finished.out);
    CHECK(finished.status == 1);
    CHECK(contains(finished.out, "FAILED:  fault "));
    CHECK(contains(finished.out, ": there is no such fault"));
    CHECK(contains(finished.out, "FAULT:   gpu0, kernel bad"));
  }
}

namespace {

// CTA 0 of the second cluster of two does something to CTA 1, which has exited long before.
std::string with_late_access(const std::string& step, const std::string& expect) {
  return R"(heddle: 1
gpu: small
kernels:
  - name: late
    grid: 6
    block: 32
    shared: 128 B
    cluster: 2
    program:
      - cluster_barrier
      - if: {cond: cluster != 1 || rank == 1, then: [exit]}
      - compute: {unit: fp32, count: 5000}
      - )" +
         step +
         R"(
submit:
  - {kernel: late, stream: a}
expect:
  - )" + expect +
         "\n";
}

const std::string kLateLoad = "load: {to: x, type: u32, at: 64, space: cluster, rank: 1}";

}  // namespace

TEST_CASE("a fault of a cluster has a trap record in place of warp and step", "[cli][CGA-08]") {
  const TempDir dir;
  dir.write("s.yaml", with_late_access(kLateLoad, "{fault: cta_not_present, kernel: late, cluster: 1, rank: 0}"));
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    // Without a FIFO of past pcs the error is the CGA's (CGA-07).
    const Finished finished =
        heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode, "--set", "gpu.sm.memory.pc_fifo=0"});
    INFO(finished.out);
    INFO(finished.err);
    CHECK(finished.status == 0);
    CHECK(contains(finished.out, "met:     fault cta_not_present in kernel late, cluster 1, rank 0"));
    CHECK(contains(finished.out, "CTA 0 of the CGA: an access to CTA 1 at offset 0x40: the CTA has exited"));
    const nlohmann::json faults = Results(dir.file("out")).document().at("faults");
    REQUIRE(faults.size() == 1);
    const nlohmann::json& fault = faults.at(0);
    CHECK(fault.at("kind") == "cta_not_present");
    CHECK(fault.at("kernel") == "late");
    CHECK(fault.at("operation") == 0);
    CHECK(fault.at("cta") == 2);
    CHECK(fault.at("address") == 64);
    CHECK(fault.at("expected") == true);
    CHECK_FALSE(fault.contains("warp"));
    CHECK_FALSE(fault.contains("lane"));
    CHECK_FALSE(fault.contains("step"));
    const nlohmann::json& trap = fault.at("trap");
    CHECK(trap.at("gpc") < 8);
    CHECK(trap.at("gpc_local_cga_id") < 256);
    CHECK(trap.at("cga") == 1);
    CHECK(trap.at("cta_id_in_cga") == 0);
    CHECK(trap.at("target") == 1);
  }
}

TEST_CASE("a fault of another cluster, or of another CTA of it, is not the expected one", "[cli][CGA-08]") {
  const TempDir dir;
  for (const char* where : {"cluster: 0", "cluster: 1, rank: 1", "rank: 1"}) {
    CAPTURE(where);
    dir.write("s.yaml",
              with_late_access(kLateLoad, fmt::format("{{fault: cta_not_present, kernel: late, {}}}", where)));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    INFO(finished.out);
    CHECK(finished.status == 1);
    CHECK(contains(finished.out, "FAILED:  fault cta_not_present in kernel late, "));
  }
}

TEST_CASE("a fault that the source of an access sees names warp and step, and its cluster", "[cli][CGA-07]") {
  const TempDir dir;
  const std::pair<const char*, const char*> cases[] = {
      {"cluster_rank", "load: {to: x, type: u32, at: 64, space: cluster, rank: 2}"},
      {"cluster_offset", "store: {value: 1, type: u32, at: 2 ^ 30, space: cluster, rank: 1}"},
  };
  for (const auto& [kind, step] : cases) {
    CAPTURE(kind);
    dir.write("s.yaml", with_late_access(step, fmt::format("{{fault: {}, kernel: late, cluster: 1, rank: 0}}", kind)));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    INFO(finished.out);
    INFO(finished.err);
    CHECK(finished.status == 0);
    const nlohmann::json fault = Results(dir.file("out")).document().at("faults").at(0);
    CHECK(fault.at("kind") == kind);
    CHECK(fault.at("cta") == 2);
    CHECK(fault.at("warp") == 0);
    CHECK_FALSE(fault.contains("trap"));
  }
}

TEST_CASE("many faults are counted, and the first ones shown", "[cli]") {
  const TempDir dir;
  std::string text = with_bad_kernel("      - store: {value: 1, type: u32, at: y + 4 * thread + 1}\n");
  const std::size_t submit = text.find("submit:\n") + 8;
  text.insert(submit, "  - {kernel: bad, stream: c, repeat: 20}\n");
  dir.write("s.yaml", text);
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  INFO(finished.out);
  CHECK(finished.status == 1);
  const Results results(dir.file("out"));
  const std::size_t count = results.document().at("faults").size();
  CHECK(count >= 21);
  CHECK(results.stat("gpu0.faults") == static_cast<double>(count));
  CHECK(results.page().at("gpus").at(0).at("faults").size() == count);
  CHECK(contains(finished.out, fmt::format("{}, not expected; 21 kernels ended early", count)));
  CHECK(contains(finished.out, fmt::format("and {} more like it, listed in stats.json", count - 1)));
  const Finished quiet = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet"});
  CHECK(quiet.status == 1);
  CHECK(quiet.out.empty());
}

TEST_CASE("warps that wait for each other at barriers are a circle of waits", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", with_bad_kernel("      - barrier: {number: warp, threads: 64}\n"));
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--timing", mode});
    INFO(finished.err);
    CHECK(finished.status == 3);
    CHECK(contains(finished.err, "no progress: no event is left"));
    CHECK(contains(finished.err,
                   "warp 0 waits: in barrier (line 18), at barrier 0, where 1 of 2 warps have arrived, for SM "));
    CHECK(contains(finished.err,
                   "warp 1 waits: in barrier (line 18), at barrier 1, where 1 of 2 warps have arrived, for SM "));
    CHECK(contains(finished.err, "a circle"));
    // The kernel beside it has run.
    CHECK(Results(dir.file("out")).stat("gpu0.task.kernels") == 1);
  }
}

}  // namespace cli_fault_command_test

// Programs of scenarios, executed without an SM, against direct computation.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "common/error.h"
#include "common/yaml_util.h"
#include "program/program_machine.h"

namespace program_run_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::scenario;
using Catch::Contains;
using test::ProgramMachine;

namespace {

// A kernel of one CTA whose program is in flow style, one step a line.
std::string kernel(const std::string& steps, const std::string& block = "32", const std::string& more = {}) {
  return "  grid: 1\n  block: " + block + "\n" + more + "  program:\n" + steps;
}

const std::string kOut = "[{name: out, bytes: 64 KiB}]";

}  // namespace

TEST_CASE("a program computes a times x plus y", "[workload][SM-02]") {
  ProgramMachine machine(R"(
  grid: 3
  block: 100
  program:
  - let: {i: cta.x * block.x + thread.x, n: 270}
  - if:
      cond: i < n
      then:
      - load: {to: x, type: f32, at: x_in + 4 * i}
      - load: {to: y, type: f32, at: y_io + 4 * i}
      - set: {y: 2.5 * x + y}
      - store: {value: y, at: y_io + 4 * i}
)",
                         "[{name: x_in, bytes: 1200, init: {pattern: i / 4}}, {name: y_io, bytes: 1200, init: {random: "
                         "1, type: f32}}]");
  const std::vector<std::uint8_t> y = machine.bytes("y_io");
  machine.run->run();
  for (std::size_t i = 0; i < 300; ++i) {
    float old = 0;
    std::memcpy(&old, y.data() + 4 * i, 4);
    const float expected = i < 270 ? static_cast<float>(2.5 * (static_cast<double>(i) / 4) + old) : old;
    REQUIRE(machine.at<float>("y_io", i) == expected);
  }
  // The last warp of a CTA has four threads, which are beyond n in the last CTA: it skips the branch.
  CHECK(machine.run->of_code[arch::OpCode::load] == 2 * (4 + 4 + 3));
  CHECK(machine.run->of_code[arch::OpCode::store] == 4 + 4 + 3);
  CHECK(machine.run->of_code[arch::OpCode::exit] == 12);
}

TEST_CASE("names of places", "[workload][SM-02]") {
  ProgramMachine machine(R"(
  grid: [4, 3, 2]
  block: [5, 4, 3]
  cluster: [2, 3, 1]
  program:
  - let: {o: out + 64 * (cta * block + thread)}
  - store: {value: [cta.x, cta.y, cta.z, cta], type: u32, at: o}
  - store: {value: [thread.x, thread.y, thread.z, thread], type: u32, at: o + 16}
  - store: {value: [warp, lane, warps, lanes], type: u32, at: o + 32}
  - store: {value: [cluster, rank, cluster.size, 100 * cluster.x + 10 * cluster.y + cluster.z], type: u32, at: more + 16 * (cta * block + thread)}
  - store: {value: [grid.x * 100 + grid.y * 10 + grid.z, block.x * 100 + block.y * 10 + block.z, grid, block], type: u32, at: o + 48}
)",
                         "[{name: out, bytes: 92160}, {name: more, bytes: 23040}]");
  machine.run->run();
  std::uint32_t index = 0;
  for (std::uint32_t cta = 0; cta < 24; ++cta) {
    for (std::uint32_t thread = 0; thread < 60; ++thread) {
      const std::uint32_t expected[] = {cta % 4,     cta / 4 % 3, cta / 12,    cta,         thread % 5, thread / 5 % 4,
                                        thread / 20, thread,      thread / 32, thread % 32, 2,          32,
                                        432,         543,         24,          60};
      for (const std::uint32_t value : expected) REQUIRE(machine.at<std::uint32_t>("out", index++) == value);
      const std::uint32_t first = 4 * (60 * cta + thread);
      CHECK(machine.at<std::uint32_t>("more", first) == cta / 12 * 2 + cta / 2 % 2);
      CHECK(machine.at<std::uint32_t>("more", first + 1) == cta / 4 % 3 * 2 + cta % 2);
      CHECK(machine.at<std::uint32_t>("more", first + 2) == 6);
      CHECK(machine.at<std::uint32_t>("more", first + 3) == 231);
    }
  }
}

TEST_CASE("counted loops", "[workload][SM-02]") {
  ProgramMachine machine(kernel(R"(
  - set: {sum: 0, type: s32}
  - loop: {var: i, from: 2, to: 5, do: [{set: {sum: 10 * sum + i}}]}
  - store: {value: sum, at: out + 4 * lane}
  - set: {sum: 0}
  - loop: {var: i, from: 9, to: 0, step: -4, do: [{set: {sum: 10 * sum + i}}]}
  - store: {value: sum, at: out + 128 + 4 * lane}
  - set: {sum: 7}
  - loop: {var: i, from: 5, to: 5, do: [{set: {sum: 8}}]}
  - loop: {var: i, from: 5, to: 6, step: -1, do: [{set: {sum: 8}}]}
  - store: {value: sum, at: out + 256 + 4 * lane}
  - set: {sum: 0}
  - loop:
      var: i
      to: 3 + warp
      do:
      - loop: {var: k, from: i, to: 3, do: [{set: {sum: sum + 100 * i + k}}]}
  - store: {value: sum, at: out + 384 + 4 * lane}
)"),
                         kOut);
  machine.run->run();
  CHECK(machine.at<std::int32_t>("out", 0) == 234);
  CHECK(machine.at<std::int32_t>("out", 63) == 951);
  CHECK(machine.at<std::int32_t>("out", 64) == 7);
  CHECK(machine.at<std::int32_t>("out", 127) == 0 + 1 + 2 + 101 + 102 + 202);
  // Counting costs nothing: four sets outside, 3 + 3 + 0 + 6 inside, and the stores.
  CHECK(machine.run->instructions == 4 + 3 + 3 + 6);
  CHECK(machine.run->operations == 4 + 3 + 3 + 6 + 4 + 1);
}

TEST_CASE("a loop with nothing in it ends, and does not hold the simulation", "[workload][SM-02]") {
  ProgramMachine machine(kernel("  - loop: {var: i, to: 100000, do: [{let: {x: i}}]}\n"), kOut);
  machine.run->run();
  CHECK(machine.run->instructions > 50);
  CHECK(machine.run->instructions < 200);
}

TEST_CASE("a condition that differs between lanes costs an instruction, others do not", "[workload][SM-02]") {
  ProgramMachine machine(kernel(R"(
  - if: {cond: warp == 1, then: [{store: {value: 1, type: u32, at: out}}], else: [{store: {value: 2, type: u32, at: out + 4}}]}
  - if: {cond: lane < 3, then: [{store: {value: lane, type: u32, at: out + 8 + 4 * lane}}], else: [{store: {value: 9, type: u32, at: out + 8 + 4 * lane}}]}
  - if: {cond: lane > 40, then: [{store: {value: 5, type: u32, at: out}}]}
)"),
                         kOut);
  machine.run->run();
  CHECK(machine.at<std::uint32_t>("out", 0) == 0);
  CHECK(machine.at<std::uint32_t>("out", 1) == 2);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(machine.at<std::uint32_t>("out", 2 + lane) == (lane < 3 ? lane : 9));
  }
  CHECK(machine.run->instructions == 2);
  CHECK(machine.run->of_code[arch::OpCode::store] == 3);
}

TEST_CASE("a while loop runs in each lane until its condition fails there", "[workload][SM-02]") {
  ProgramMachine machine(kernel(R"(
  - set: {n: thread + 1, type: u32}
  - set: {steps: 0, type: u32}
  - while:
      cond: n != 1
      do:
      - if: {cond: n % 2 == 0, then: [{set: {n: n // 2}}], else: [{set: {n: 3 * n + 1}}]}
      - set: {steps: steps + 1}
  - store: {value: steps, at: out + 4 * thread}
)",
                                "100"),
                         kOut);
  machine.run->checkpoints = GENERATE(false, true);
  machine.run->run();
  for (std::uint32_t thread = 0; thread < 100; ++thread) {
    std::uint32_t steps = 0;
    for (std::uint64_t n = thread + 1; n != 1; ++steps) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    REQUIRE(machine.at<std::uint32_t>("out", thread) == steps);
  }
}

TEST_CASE("lanes that exit take no further part", "[workload][SM-02]") {
  ProgramMachine machine(kernel(R"(
  - set: {k: 0, type: u32}
  - while:
      cond: k < 100
      do:
      - set: {k: k + 1}
      - if: {cond: k == 3 * lane, then: [{store: {value: k, at: out + 4 * lane}}, exit]}
  - store: {value: 1000 + k, type: u32, at: out + 4 * lane}
)"),
                         kOut);
  machine.run->run();
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(machine.at<std::uint32_t>("out", lane) == (lane == 0 ? 1100 : 3 * lane));
  }
  ProgramMachine all(kernel("  - exit\n  - store: {value: 1, type: u32, at: out}\n"), kOut);
  all.run->run();
  CHECK(all.at<std::uint32_t>("out", 0) == 0);
  CHECK(all.run->of_code[arch::OpCode::exit] == 1);
}

TEST_CASE("roles: producer and consumer warps with named barriers", "[workload][SM-02]") {
  // Warp 0 fills a buffer, warps 1 to 3 read it and say so; warp 4 has no role.
  ProgramMachine machine(kernel(R"(
  - roles:
    - warps: 0
      do:
      - loop:
          var: k
          to: 10
          do:
          - barrier: {number: 2, threads: 128}
          - store: {value: 100 * k + lane, type: u32, at: 4 * lane, space: shared}
          - barrier: {number: 1, threads: 128}
    - warps: [1, 3]
      do:
      - set: {sum: 0, type: u32}
      - loop:
          var: k
          to: 10
          do:
          - barrier: {number: 2, threads: 128}
          - barrier: {number: 1, threads: 128}
          - load: {to: x, type: u32, at: 4 * ((lane + warp) % 32), space: shared}
          - set: {sum: sum + x}
      - store: {value: sum, at: out + 4 * thread}
  - barrier
  - if: {cond: lane == 0, then: [{store: {value: warp + 1, type: u32, at: out + 1024 + 4 * warp}}]}
)",
                                "160", "  shared: 128\n"),
                         kOut);
  machine.run->checkpoints = GENERATE(false, true);
  machine.run->run();
  for (std::uint32_t thread = 0; thread < 160; ++thread) {
    const std::uint32_t warp = thread / 32;
    const bool consumer = warp >= 1 && warp <= 3;
    CHECK(machine.at<std::uint32_t>("out", thread) == (consumer ? 4500 + 10 * ((thread % 32 + warp) % 32) : 0));
  }
  for (std::uint32_t warp = 0; warp < 5; ++warp) CHECK(machine.at<std::uint32_t>("out", 256 + warp) == warp + 1);
}

TEST_CASE("vectors and small values", "[workload][SM-02]") {
  ProgramMachine machine(
      kernel(R"(
  - load: {to: [a, b, c, d], type: f32, at: in + 16 * lane}
  - store: {value: [d, c + 1, b, a], type: f32, at: out + 16 * lane}
  - load: {to: [p, q], type: s16, at: in + 16 * lane + 2 - 2}
  - set: {q: q + p}
  - store: {value: [q, p], type: s16, at: out + 1024 + 4 * lane}
  - load: {to: [e0, e1, e2, e3], type: u8, at: in + 16 * lane}
  - set: {e2: 300}
  - store: {value: [e0, e1, e2, e3], type: u8, at: out + 2048 + 4 * lane}
  - load: {to: [l0, l1], type: s64, at: in + 16 * lane}
  - store: {value: [l1, l0], type: s64, at: out + 4096 + 16 * lane}
  - load: {to: one, type: s8, at: in + 16 * lane + 15}
  - store: {value: one, type: f64, at: out + 8192 + 8 * lane}
)"),
      "[{name: in, bytes: 512, init: {random: 3, type: u32, max: 4294967295}}, {name: out, bytes: 64 "
      "KiB}]");
  machine.run->checkpoints = GENERATE(false, true);
  machine.run->run();
  for (std::size_t lane = 0; lane < 32; ++lane) {
    CHECK(machine.at<std::uint32_t>("out", 4 * lane) == machine.at<std::uint32_t>("in", 4 * lane + 3));
    const auto p = machine.at<std::int16_t>("in", 8 * lane);
    const auto q = static_cast<std::int16_t>(machine.at<std::int16_t>("in", 8 * lane + 1) + p);
    CHECK(machine.at<std::int16_t>("out", 512 + 2 * lane) == q);
    CHECK(machine.at<std::int16_t>("out", 512 + 2 * lane + 1) == p);
    CHECK(machine.at<std::uint8_t>("out", 2048 + 4 * lane) == machine.at<std::uint8_t>("in", 16 * lane));
    CHECK(machine.at<std::uint8_t>("out", 2048 + 4 * lane + 2) == 300 % 256);
    CHECK(machine.at<std::uint8_t>("out", 2048 + 4 * lane + 3) == machine.at<std::uint8_t>("in", 16 * lane + 3));
    CHECK(machine.at<std::int64_t>("out", 512 + 2 * lane) == machine.at<std::int64_t>("in", 2 * lane + 1));
    CHECK(machine.at<double>("out", 1024 + lane) == machine.at<std::int8_t>("in", 16 * lane + 15));
  }
}

TEST_CASE("a name by itself moves its bits, arithmetic has 53 of them", "[workload][SM-02]") {
  ProgramMachine machine(kernel(R"(
  - load: {to: x, type: u64, at: in}
  - store: {value: x, at: out}
  - set: {y: x, type: u64}
  - store: {value: y, at: out + 8}
  - set: {y: x + 0}
  - store: {value: y, at: out + 16}
  - store: {value: x, type: f64, at: out + 24}
)",
                                "1"),
                         "[{name: in, bytes: 8, init: {random: 5, type: u8, max: 255}}, {name: out, bytes: 64}]");
  machine.run->run();
  const auto x = machine.at<std::uint64_t>("in", 0);
  REQUIRE(static_cast<std::uint64_t>(static_cast<double>(x)) != x);
  CHECK(machine.at<std::uint64_t>("out", 0) == x);
  CHECK(machine.at<std::uint64_t>("out", 1) == x);
  CHECK(machine.at<std::uint64_t>("out", 2) == static_cast<std::uint64_t>(static_cast<double>(x)));
  CHECK(machine.at<double>("out", 3) == static_cast<double>(x));
}

TEST_CASE("atomics return what was there, reductions return nothing", "[workload][SM-02]") {
  ProgramMachine machine(kernel(R"(
  - atomic: {op: add, type: u32, at: out, value: lane, to: old}
  - store: {value: old, at: out + 1024 + 4 * lane}
  - atomic: {op: max, type: s32, at: out + 4, value: lane - 5}
  - atomic: {op: compare_exchange, type: u64, at: out + 8, value: 100 + lane, compare: 0, to: was}
  - store: {value: was, at: out + 2048 + 8 * lane}
  - atomic: {op: add, type: f16x2, at: out + 16, value: [1.5, lane], to: [h0, h1]}
  - store: {value: [h0, h1], type: f16, at: out + 3072 + 4 * lane}
  - atomic: {op: xor, type: u32, at: 0, value: 1 << lane, space: shared, scope: cta, order: relaxed}
  - load: {to: s, type: u32, at: 0, space: shared}
  - store: {value: s, at: out + 20}
)",
                                "32", "  shared: 16\n"),
                         kOut);
  machine.run->run();
  CHECK(machine.at<std::uint32_t>("out", 0) == 31 * 32 / 2);
  CHECK(machine.at<std::int32_t>("out", 1) == 26);
  CHECK(machine.at<std::uint64_t>("out", 1) == 100);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    CHECK(machine.at<std::uint32_t>("out", 256 + lane) == lane * (lane - 1) / 2);
    CHECK(machine.at<std::uint64_t>("out", 256 + lane) == (lane == 0 ? 0 : 100));
    CHECK(arch::float_of_f16(machine.at<std::uint16_t>("out", 1536 + 2 * lane)) == 1.5F * static_cast<float>(lane));
  }
  CHECK(arch::float_of_f16(machine.at<std::uint16_t>("out", 8)) == 48);
  CHECK(arch::float_of_f16(machine.at<std::uint16_t>("out", 9)) == 31 * 32 / 2);
  CHECK(machine.at<std::uint32_t>("out", 5) == 0xFFFF'FFFF);
}

TEST_CASE("asynchronous copies, fences, special registers and work without a result", "[workload][SM-02]") {
  ProgramMachine machine(
      kernel(R"(
  - copy_async: {from: in + 16 * thread, to: 16 * (63 - thread), bytes: 16}
  - commit_async
  - wait_async: 0
  - barrier
  - load: {to: [a, b], type: u64, at: 16 * thread, space: shared}
  - store: {value: [a, b], type: u64, at: out + 16 * thread}
  - fence: {order: release, scope: system}
  - fence: {}
  - compute: {unit: sfu, count: 7, latency: 3}
  - special: {to: t, register: sms}
  - store: {value: t, at: out + 2048 + 4 * thread}
)",
             "64", "  shared: 1 KiB\n"),
      "[{name: in, bytes: 1 KiB, init: {random: 9, type: u8, max: 255}}, {name: out, bytes: 4 KiB}]");
  machine.run->run();
  for (std::size_t thread = 0; thread < 64; ++thread) {
    CHECK(machine.at<std::uint64_t>("out", 2 * thread) == machine.at<std::uint64_t>("in", 2 * (63 - thread)));
    CHECK(machine.at<std::uint32_t>("out", 512 + thread) ==
          1000 + static_cast<std::uint32_t>(arch::SpecialRegister::sms));
  }
  CHECK(machine.run->instructions == 2 * 7);
  CHECK(machine.run->of_code[arch::OpCode::fence] == 4);
  CHECK(machine.run->names == std::vector<std::string>{"copy_async (line 11)", "commit_async (line 12)",
                                                       "wait_async (line 13)", "barrier (line 14)",
                                                       "load a, b (line 15)", "store (line 16)", "fence (line 17)",
                                                       "fence (line 18)", "compute (line 19)", "special t (line 20)",
                                                       "store t (line 21)", "end (line 11)"});
}

TEST_CASE("addresses that are no numbers lead nowhere", "[workload][SM-02]") {
  const std::string at = GENERATE(std::string("out / (lane - lane)"), std::string("0 / (warp * 0)"),
                                  std::string("0 - 16 * (lane + 1)"), std::string("2 ^ 60 + lane * 16"));
  CAPTURE(at);
  ProgramMachine machine(kernel("  - store: {value: 1, type: u32, at: " + at + "}\n"), kOut);
  CHECK_THROWS_WITH(machine.run->run(), Contains("outside memory"));
}

TEST_CASE("the shipped programs compute what they say", "[workload][SM-02]") {
  const std::string name = GENERATE(std::string("saxpy"), std::string("histogram"), std::string("cluster_histogram"),
                                    std::string("cluster_pipeline"));
  ProgramMachine machine(read_scenario(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/" + name + ".yaml"));
  CHECK(machine.scenario.workloads[0].warnings.empty());
  machine.run->uneven = static_cast<std::uint64_t>(GENERATE(0, 1, 2));
  machine.run->run();
  int memories = 0;
  for (const Expectation& expectation : machine.scenario.expectations) {
    if (expectation.kind != ExpectationKind::memory) continue;
    ++memories;
    CHECK(difference(expectation, machine.bytes(expectation.memory)).empty());
  }
  CHECK(memories > 0);
}

TEST_CASE("the worked example of the page on scenarios is right", "[workload][SM-02]") {
  const std::string page = read_text_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.md");
  const std::size_t begin = page.find("heddle: 1\nname: the sum of");
  REQUIRE(begin != std::string::npos);
  ProgramMachine machine(parse_scenario(page.substr(begin, page.find("```", begin) - begin), "scenario.md"));
  machine.run->run();
  REQUIRE(machine.scenario.expectations.size() == 1);
  CHECK(difference(machine.scenario.expectations[0], machine.bytes("total")).empty());
}

}  // namespace program_run_test

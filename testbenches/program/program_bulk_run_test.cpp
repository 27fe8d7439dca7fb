// Programs that ask the tensor memory access unit, executed without the machine.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/yaml_util.h"
#include "program/program_machine.h"

namespace program_bulk_run_test {

using namespace heddle;
using namespace heddle::workload;
using namespace heddle::program;
using namespace heddle::scenario;
using arch::OpCode;
using test::ProgramMachine;

TEST_CASE("boxes go to and fro between tensors and shared memory", "[workload][SM-02]") {
  // Each CTA turns a tile of 32 x 32 upside down; the tensors begin in the middle of the tiles at the border.
  ProgramMachine machine(R"(
  grid: [4, 3]
  block: 128
  shared: 4104 B
  program:
  - let: {at: 4096}
  - if: {cond: thread == 0, then: [{mbarrier_init: {at: at, count: 1}}]}
  - barrier
  - if:
      cond: thread == 0
      then:
      - mbarrier_arrive: {at: at, expect: 4096}
      - tensor_load: {tensor: from, at: [32 * cta.x - 16, 32 * cta.y - 8], to: 0, barrier: at}
  - mbarrier_wait: {at: at, parity: 0}
  - loop:
      var: i
      to: 4
      do:
      - let: {row: warp + 4 * i, here: 128 * row + 4 * (lane xor 4 * (row % 8)), there: 128 * (31 - row) + 4 * (lane xor 4 * ((31 - row) % 8))}
      - load: {to: a, type: u32, at: here, space: shared}
      - load: {to: b, type: u32, at: there, space: shared}
      - store: {value: a, at: there, space: shared}
      - store: {value: b, at: here, space: shared}
  - proxy_fence
  - barrier
  - if:
      cond: thread == 0
      then:
      - tensor_store: {tensor: to, at: [32 * cta.x - 16, 32 * cta.y - 8], from: 0}
      - tensor_reduce: {tensor: sum, at: [32 * cta.x - 16, 32 * cta.y - 8], from: 0, op: add}
      - commit_bulk
      - wait_bulk: 0
)",
                         "[{name: x, bytes: 25600, init: {pattern: i, type: u32}}, {name: y, bytes: 25600}, {name: z, "
                         "bytes: 25600, init: {pattern: 7, type: u32}}]\n"
                         "tensors:\n"
                         "- {name: from, memory: x, type: u32, size: [100, 64], box: [32, 32], swizzle: 128}\n"
                         "- {name: to, memory: y, type: u32, size: [100, 64], box: [32, 32], swizzle: 128}\n"
                         "- {name: sum, memory: z, type: u32, size: [100, 64], box: [32, 32], swizzle: 128}");
  machine.run->checkpoints = GENERATE(false, true);
  machine.run->uneven = GENERATE(0, 1, 2);
  machine.run->run();
  for (std::int64_t row = 0; row < 64; ++row) {
    const std::int64_t tile = (row + 8) / 32 * 32 - 8;
    const std::int64_t other = tile + 31 - (row - tile);
    const bool inside = other >= 0 && other < 64;
    for (std::int64_t column = 0; column < 100; ++column) {
      const std::int64_t expected = inside ? 100 * other + column : 0;
      const auto index = static_cast<std::size_t>(100 * row + column);
      REQUIRE(machine.at<std::uint32_t>("y", index) == expected);
      REQUIRE(machine.at<std::uint32_t>("z", index) == expected + 7);
    }
  }
  CHECK(machine.run->requests.size() == 12 * 3);
  CHECK(machine.run->of_code[OpCode::tensor_load] == 12);
}

TEST_CASE("blocks go round a cluster", "[workload][SM-02]") {
  // Rank 0 loads for all, each sends to the next, and adds to the one after that.
  ProgramMachine machine(R"(
  grid: 8
  block: 32
  shared: 1 KiB
  cluster: 4
  program:
  - let: {loaded: 768, sent: 776}
  - mbarrier_init: {at: loaded, count: 1}
  - mbarrier_init: {at: sent, count: 1}
  - cluster_barrier
  - mbarrier_arrive: {at: loaded, expect: 128}
  - mbarrier_arrive: {at: sent, expect: 256}
  - cluster_barrier
  - if:
      cond: lane == 0 && rank == 0
      then:
      - bulk_load: {from: x + 128 * cluster, to: 0, bytes: 128, barrier: loaded, multicast: (1 << cluster.size) - 1}
  - mbarrier_wait: {at: loaded, parity: 0}
  - load: {to: v, type: u32, at: 4 * lane, space: shared}
  - set: {v: v + 1000 * rank}
  - store: {value: v, at: 128 + 4 * lane, space: shared}
  - proxy_fence
  - cluster_barrier
  - if:
      cond: lane == 0
      then:
      - bulk_send: {from: 128, to: 256, cta: (rank + 1) % 4, bytes: 128, barrier: sent}
      - bulk_send: {from: 128, to: 384, cta: (rank + 2) % 4, bytes: 128, barrier: sent, op: add, type: u32}
      - commit_bulk
  - mbarrier_wait: {at: sent, parity: 0}
  - if:
      cond: lane == 0
      then:
      - bulk_store: {from: 256, to: y + 256 * cta, bytes: 128}
      - bulk_reduce: {from: 384, to: y + 256 * cta + 128, bytes: 128, op: max, type: s32}
      - drain_bulk
      - bulk_copy: {from: y + 256 * cta, to: z + 256 * cta, bytes: 256}
      - commit_bulk
      - wait_bulk: 0
  - cluster_barrier
)",
                         "[{name: x, bytes: 256, init: {pattern: i, type: u32}}, {name: y, bytes: 2 KiB}, {name: z, "
                         "bytes: 2 KiB}]");
  machine.run->uneven = static_cast<std::uint64_t>(GENERATE(range(0, 6)));
  machine.run->run();
  for (std::size_t cta = 0; cta < 8; ++cta) {
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t value = 32 * (cta / 4) + i;
      REQUIRE(machine.at<std::uint32_t>("z", 64 * cta + i) == value + 1000 * ((cta + 3) % 4));
      REQUIRE(machine.at<std::uint32_t>("z", 64 * cta + 32 + i) == value + 1000 * ((cta + 2) % 4));
    }
  }
}

TEST_CASE("a matrix multiply reads swizzled tiles", "[workload][SM-02]") {
  const std::string a = GENERATE(std::string("none"), std::string("32"), std::string("64"), std::string("128"));
  const std::string b = GENERATE(std::string("none"), std::string("32"), std::string("64"), std::string("128"));
  const bool transposed = GENERATE(false, true);
  CAPTURE(a, b, transposed);
  // Rows of 32 bytes fit every swizzle: 16 x 16 of each.
  ProgramMachine machine(
      "  grid: 1\n  block: 32\n  shared: 8 KiB\n  program:\n"
      "  - accumulators: {acc: {n: 16}}\n"
      "  - if: {cond: thread == 0, then: [{mbarrier_init: {at: 4096, count: 1}}, {mbarrier_arrive: {at: 4096, expect: "
      "1024}}, {tensor_load: {tensor: ta, at: [0, 0], to: 0, barrier: 4096}}, {tensor_load: {tensor: tb, at: [0, 0], "
      "to: 2048, barrier: 4096}}]}\n"
      "  - mbarrier_wait: {at: 4096, parity: 0}\n"
      "  - matmul: {into: acc, k: 16, a: 0, b: 2048, a_pitch: 32, b_pitch: 32, a_swizzle: " +
          a + ", b_swizzle: " + b + ", b_transposed: " + (transposed ? "true" : "false") +
          "}\n"
          "  - store_tile: {from: acc, at: out}\n",
      "[{name: a, bytes: 512, init: {random: 1, type: f16, min: -4, max: 4, integer: true}}, {name: b, bytes: 512, "
      "init: {random: 2, type: f16, min: -4, max: 4, integer: true}}, {name: out, bytes: 1 KiB}]\n"
      "tensors:\n"
      "- {name: ta, memory: a, type: f16, size: [16, 16], box: [16, 16], swizzle: " +
          a +
          "}\n"
          "- {name: tb, memory: b, type: f16, size: [16, 16], box: [16, 16], swizzle: " +
          b + "}");
  machine.run->run();
  const auto half = [&](const char* name, std::size_t index) {
    return arch::float_of_f16(machine.at<std::uint16_t>(name, index));
  };
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 16; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < 16; ++k) {
        sum += half("a", 16 * row + k) * half("b", transposed ? 16 * column + k : 16 * k + column);
      }
      REQUIRE(machine.at<float>("out", 16 * row + column) == sum);
    }
  }
}

TEST_CASE("a wait for reads lets the source be used again", "[workload][SM-02]") {
  ProgramMachine machine(R"(
  grid: 1
  block: 1
  shared: 16 B
  program:
  - loop:
      var: i
      to: 50
      do:
      - store: {value: i, type: u64, at: 0, space: shared}
      - bulk_store: {from: 0, to: out + 16 * i, bytes: 16}
      - commit_bulk
      - wait_bulk: {groups: 0, read: true}
  - wait_bulk: 0
  - loop: {var: i, to: 50, do: [{load: {to: x, type: u64, at: out + 16 * i}}, {store: {value: x, at: out + 1024 + 16 * i}}]}
)",
                         "[{name: out, bytes: 2 KiB}]");
  machine.run->uneven = static_cast<std::uint64_t>(GENERATE(range(0, 6)));
  machine.run->run();
  for (std::size_t i = 0; i < 50; ++i) REQUIRE(machine.at<std::uint64_t>("out", 128 + 2 * i) == i);
}

TEST_CASE("the example of tensors on the page on scenarios is right", "[workload][SM-02]") {
  const std::string page = read_text_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/scenario.md");
  const std::size_t begin = page.find("heddle: 1\nname: tiles");
  REQUIRE(begin != std::string::npos);
  ProgramMachine machine(parse_scenario(page.substr(begin, page.find("```", begin) - begin), "scenario.md"));
  machine.run->uneven = static_cast<std::uint64_t>(GENERATE(range(0, 6)));
  machine.run->run();
  REQUIRE(machine.scenario.expectations.size() == 1);
  CHECK(difference(machine.scenario.expectations[0], machine.bytes("y")).empty());
}

namespace {

// All that the scenario expects of memory, of its first GPU.
void check_shipped(const std::string& name, std::uint64_t uneven) {
  ProgramMachine machine(read_scenario(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/" + name));
  CHECK(machine.scenario.workloads[0].warnings.empty());
  for (const Op& op : machine.scenario.workloads[0].ops) {
    test::ProgramRun run(op.kernel, machine.global);
    run.uneven = uneven;
    run.run();
  }
  int memories = 0;
  for (const Expectation& expectation : machine.scenario.expectations) {
    if (expectation.kind != ExpectationKind::memory) continue;
    ++memories;
    CHECK(difference(expectation, machine.bytes(expectation.memory)).empty());
  }
  CHECK(memories == 1);
}

}  // namespace

TEST_CASE("the shipped convolution computes what it says", "[workload][SM-02]") { check_shipped("tma_conv.yaml", 1); }

TEST_CASE("the shipped matrix multiply in parts computes what it says", "[workload][SM-02]") {
  check_shipped("tma_split_k.yaml", 2);
}

}  // namespace program_bulk_run_test

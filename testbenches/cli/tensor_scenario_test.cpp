// The shipped scenarios with bulk requests, as users run them.
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_tensor_scenario_test {

using namespace heddle::test;

TEST_CASE("the scenarios with tensors meet what they expect", "[cli][TMA-11][TMA-22][TMA-30][TMA-44]") {
  const TempDir dir;
  for (const char* name : {"tma_gemm_2x1.yaml", "tma_gemm_2x2.yaml", "tma_conv.yaml", "tma_split_k.yaml",
                           "tma_halo_conv.yaml", "tensor_interface.yaml", "tensor_copies.yaml", "async_store.yaml"}) {
    for (const char* timing : {"at", "fast", "lt"}) {
      CAPTURE(name, timing);
      const Results results = run_well(dir, {scenario(name), "--timing", timing});
      CHECK(results.stat("gpu0.faults") == 0);
    }
  }
}

TEST_CASE("an asynchronous store to what is no mbarrier is a fault of the cluster", "[cli][CGA-14][CGA-08]") {
  const TempDir dir;
  dir.write("wrong.yaml", R"(heddle: 1
gpu: small
kernels:
  - name: astray
    grid: 2
    cluster: 2
    block: 32
    shared: 1 KiB
    program:
      - cluster_barrier
      - if:
          cond: rank == 0
          then:
            - store: {value: lane, type: u32, at: 128 + 4 * lane, space: cluster, rank: 1, complete: 64}
      - cluster_barrier
submit:
  - {kernel: astray, stream: main}
expect:
  - {fault: mbarrier, kernel: astray}
)");
  for (const char* timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    (void)run_well(dir, {"wrong.yaml", "--timing", timing});
  }
}

TEST_CASE("stats.json and the page say what each tensor has moved", "[cli][TMA-01][TMA-15]") {
  const TempDir dir;
  dir.write("rows.yaml", R"(heddle: 1
gpu: small
memory:
  - {name: matrix, bytes: 64 KiB, init: {pattern: i, type: u32}}
tensors:
  - {name: map, memory: matrix, type: f32, size: [32, 64], box: [4, 8]}
kernels:
  - name: rows
    grid: 2
    block: 32
    shared: 2 KiB
    program:
      - if:
          cond: lane == 0
          then:
            - mbarrier_init: {at: 0, count: 1}
            - mbarrier_arrive: {at: 0, expect: 128}
            - tensor_load: {tensor: map, at: [0, 8 * cta], to: 128, barrier: 0}
            - mbarrier_wait: {at: 0, parity: 0}
submit:
  - {kernel: rows, stream: main}
expect:
  - {stat: gpu0.bulk.load.bytes, equals: 256}
)");
  const Results results = run_well(dir, {"rows.yaml"});
  const nlohmann::json& rows = results.document().at("gpus").at(0).at("bulk");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("name") == "map");
  CHECK(rows[0].at("source") == "descriptor");
  CHECK(rows[0].at("kind") == "load");
  CHECK(rows[0].at("requests") == 2);
  CHECK(rows[0].at("bytes") == 256);
  CHECK(rows[0].at("fetched") == 16 * 32);  // a sector for each row of 16 bytes
  CHECK(rows[0].at("used") == 256);
  const nlohmann::json& page = results.page().at("gpus").at(0).at("bulk");
  CHECK(page.at("kinds").at(0).at("requests") == 2);
  CHECK(page.at("tensors").at(0).at("used_percent") == 50.0);
  CHECK(page.at("tensors").at(0).at("descriptor_cycles") > 100);  // both CTAs find it missing
  REQUIRE(page.at("shares").size() == 7);
  for (const nlohmann::json& share : page.at("shares")) {
    CAPTURE(share.dump());
    if (share.at("label") == "Device memory") {
      CHECK(share.at("share_percent").is_null());
    } else {
      CHECK(share.at("share_percent") > 0);
      CHECK(share.at("share_percent") <= 100);
    }
    CHECK(share.at("busy_percent") > 0);
    CHECK(share.at("busy_percent") < 100);
  }
}

TEST_CASE("the page says what a matrix multiply with clusters keeps busy", "[cli][TMA-00]") {
  const TempDir dir;
  const Results results = run_well(dir, {scenario("tma_gemm_2x1.yaml")});
  std::map<std::string, double> busy;
  for (const nlohmann::json& share : results.page().at("gpus").at(0).at("bulk").at("shares")) {
    busy[share.at("label").get<std::string>()] = share.at("busy_percent").get<double>();
  }
  CHECK(busy.size() == 9);
  for (const char* label : {"Copies of multicasts", "L2 slices", "Tensor cores", "Device memory"}) {
    CAPTURE(label);
    CHECK(busy[label] > 1);
    CHECK(busy[label] < 100);
  }
  // Each CTA of two gets the copies of what both load of one operand.
  CHECK(results.stat("gpu0.xbar.multicast_packets") > 0);
}

TEST_CASE("a missing proxy fence stores old bytes and is on record", "[cli][TMA-41]") {
  const TempDir dir;
  for (const char* timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    const Results results = run_well(dir, {scenario("missing_fence.yaml"), "--timing", timing});
    REQUIRE(results.document().at("faults").size() == 1);
    CHECK(results.document().at("faults").at(0).at("kind") == "missing_fence");
    CHECK(results.document().at("faults").at(0).at("fatal") == false);
  }
}

TEST_CASE("warps that share granules publish each its own bytes", "[cli][TMA-41]") {
  // Columns of two warps side by side; a histogram that one warp clears, and both count into.
  const TempDir dir;
  dir.write("columns.yaml", R"(heddle: 1
gpu: small
memory:
  - {name: x, bytes: 256}
  - {name: y, bytes: 128}
kernels:
  - name: columns
    grid: 1
    block: 64
    shared: 1 KiB
    program:
      - store: {value: thread + 5, type: u32, at: 8 * lane + 4 * warp, space: shared}
      - if: {cond: warp == 0, then: [{store: {value: 0, type: u32, at: 512 + 4 * lane, space: shared}}]}
      - barrier
      - atomic: {op: add, value: 1 + warp, type: u32, at: 512 + 4 * (lane // 2), space: shared}
      - proxy_fence
      - barrier
      - if:
          cond: thread == 0
          then:
            - bulk_store: {from: 0, to: x, bytes: 256}
            - bulk_store: {from: 512, to: y, bytes: 128}
            - commit_bulk
            - wait_bulk: 0
submit:
  - {kernel: columns, stream: main}
expect:
  - {stat: gpu0.faults, equals: 0}
  - {memory: x, pattern: i // 2 + 5 + 32 * (i % 2), type: u32}
  - {memory: y, pattern: 6 * (i < 16), type: u32}
)");
  for (const char* timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    (void)run_well(dir, {"columns.yaml", "--timing", timing});
  }
}

TEST_CASE("each request that a proxy fence is missing for is named, and no other", "[cli][TMA-41]") {
  const TempDir dir;
  dir.write("many.yaml", R"(heddle: 1
gpu: small
memory:
  - {name: y, bytes: 16 KiB}
  - {name: z, bytes: 16 KiB}
tensors:
  - {name: t, memory: y, type: u32, size: [32, 128], box: [32, 128]}
kernels:
  - name: many
    grid: 1
    block: 32
    shared: 20 KiB
    program:
      - loop: {var: p, to: 128, do: [{store: {value: 1, type: u32, at: 4 * lane + 128 * p, space: shared}}]}
      - proxy_fence
      - store: {value: 9, type: u32, at: 16384 + 4 * lane, space: shared}
      - if: {cond: lane == 0, then: [{tensor_store: {tensor: t, at: [0, 0], from: 0}}]}
      - bulk_store: {from: 16384, to: z + 128 * lane, bytes: 128}
      - commit_bulk
      - wait_bulk: 0
submit:
  - {kernel: many, stream: main}
expect:
  - {fault: missing_fence, kernel: many}
)");
  for (const char* timing : {"at", "fast", "lt"}) {
    CAPTURE(timing);
    const Results results = run_well(dir, {"many.yaml", "--timing", timing});
    const nlohmann::json& faults = results.document().at("faults");
    REQUIRE(faults.size() == 32);
    std::set<std::uint32_t> lanes;
    for (const nlohmann::json& fault : faults) {
      CHECK(fault.at("step") == "bulk_store");
      lanes.insert(fault.at("lane").get<std::uint32_t>());
    }
    CHECK(lanes.size() == 32);
  }
}

TEST_CASE("the comparison of copies and tensor loads meets what it expects", "[cli][TMA-00]") {
  const TempDir dir;
  const Results results = run_well(dir, {scenario("tma_copy_compare.yaml")});
  CHECK(results.stat("gpu0.faults") == 0);
  CHECK(results.stat("gpu1.faults") == 0);
}

}  // namespace cli_tensor_scenario_test

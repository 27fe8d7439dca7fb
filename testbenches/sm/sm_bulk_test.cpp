// Requests to the TMAU: what leaves the SM, in which order and when, and what waits for their end.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/bulk_requests.h"
#include "sm/program_bench.h"

namespace sm_bulk_test {

using Catch::Matchers::Contains;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::BulkKind;
using heddle::arch::BulkRequest;
using heddle::arch::LaneMask;
using heddle::arch::OpCode;
using heddle::arch::SpecialRegister;
using heddle::arch::TensorRule;
using heddle::test::always;
using heddle::test::bench_place;
using heddle::test::block_of;
using heddle::test::FakeTmau;
using heddle::test::ListProgram;
using heddle::test::load_block;
using heddle::test::ProgramBench;
using heddle::test::ProgramMpc;
using heddle::test::store_block;
using heddle::test::tensor_of;
using heddle::test::Warp;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 1024;
constexpr Cycle kWay = 16;

}  // namespace

TEST_CASE("every operation becomes its request, and names where it comes from", "[sm][TMA-01]") {
  struct Case {
    OpCode code;
    BulkRequest request;
  };
  const std::vector<Case> cases{{OpCode::tensor_load, tensor_of(BulkKind::load, 256, 128, 8)},
                                {OpCode::tensor_store, tensor_of(BulkKind::store, 256, 128)},
                                {OpCode::tensor_reduce, tensor_of(BulkKind::reduce, 256, 128)},
                                {OpCode::tensor_prefetch, tensor_of(BulkKind::prefetch, 256)},
                                {OpCode::bulk_load, block_of(BulkKind::load, 512, 64, 128, 8)},
                                {OpCode::bulk_store, block_of(BulkKind::store, 512, 64, 128)},
                                {OpCode::bulk_reduce, block_of(BulkKind::reduce, 512, 64, 128)},
                                {OpCode::bulk_prefetch, block_of(BulkKind::prefetch, 512, 64)},
                                {OpCode::bulk_copy, block_of(BulkKind::copy, 512, 64)},
                                {OpCode::bulk_send, block_of(BulkKind::send, 0, 64, 128)},
                                {OpCode::bulk_load, block_of(BulkKind::load, 512, 0, kShared, 8)}};
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    ListProgram p(2);
    for (const Case& c : cases) p.bulk(c.code, always(c.request), ListProgram::only(3));
    p.exit();
    bench.start(bench.add(p, 64, kShared), 2, 9);
    heddle::test::run_until_idle();
    CHECK(bench.faults.empty());
    REQUIRE(bench.tmau.seen.size() == 2 * cases.size());  // two warps
    std::vector<std::size_t> next(2, 0);
    std::vector<std::uint32_t> slots;
    for (const FakeTmau::Seen& seen : bench.tmau.seen) {
      const auto& packet = seen.packet;
      auto found = std::find(slots.begin(), slots.end(), packet.warp);
      if (found == slots.end()) found = slots.insert(slots.end(), packet.warp);
      const auto warp = static_cast<std::size_t>(found - slots.begin());
      REQUIRE(warp < 2);
      const BulkRequest& expected = cases[next[warp]++].request;
      CHECK(packet.request.kind == expected.kind);
      CHECK(packet.request.tensor == expected.tensor);
      CHECK(packet.request.descriptor == expected.descriptor);
      CHECK(packet.request.global == expected.global);
      CHECK(packet.request.blocks == expected.blocks);
      CHECK(packet.request.shared == expected.shared);
      CHECK(packet.request.barrier == expected.barrier);
      CHECK(packet.operation == 5);
      CHECK(packet.cta_slot == 2);
      CHECK(packet.cta == 9);
      CHECK_FALSE(packet.by_rank);
      CHECK(packet.broken == TensorRule::none);
    }
    CHECK(bench.stat("bulk.requests") == static_cast<double>(2 * cases.size()));
    CHECK(bench.sm.core().bulk.open() == 0);
  }
}

TEST_CASE("the warp goes on at once, and the CTA ends with its last request", "[sm][TMA-02]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    bench.tmau.work = 5000;
    ListProgram p(8);
    p.special(SpecialRegister::clock, 0, 2);
    load_block(p, 1);
    p.special(SpecialRegister::clock, 2, 2);
    p.store({}, ListProgram::of_register(0), ListProgram::linear(0, 4), {{0, 2}});
    p.store({}, ListProgram::of_register(2), ListProgram::linear(4096, 4), {{2, 2}});
    p.exit();
    const Cycle all = bench.run(p, 32, kShared);
    CHECK(bench.l2.get<std::uint32_t>(4096) - bench.l2.get<std::uint32_t>(0) < 40);
    CHECK(all >= 5000);
    CHECK(all < 5000 + 200);
    CHECK_FALSE(bench.mpc.exits[0].second.faulted);
  }
}

TEST_CASE("each active lane makes a request, at one per cycle of the port", "[sm][TMA-02]") {
  constexpr LaneMask kLanes = 0x8000'0F01;
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    ListProgram p(2);
    p.bulk(
        OpCode::bulk_prefetch,
        [](const Warp&, std::uint32_t lane) { return block_of(BulkKind::prefetch, 128 * lane, 32); },
        [](const Warp&) { return kLanes; });
    p.bulk(OpCode::bulk_prefetch, always(block_of(BulkKind::prefetch, 1 << 16, 32)),
           [](const Warp&) { return LaneMask{0}; });
    p.exit();
    bench.run(p, 32);
    std::vector<std::uint64_t> addresses;
    for (const FakeTmau::Seen& seen : bench.tmau.seen) addresses.push_back(seen.packet.request.global);
    CHECK(addresses == std::vector<std::uint64_t>{0, 128 * 8, 128 * 9, 128 * 10, 128 * 11, 128 * 31});
    for (std::size_t i = 0; i < bench.tmau.seen.size(); ++i) {
      const Cycle way = mode != TimingMode::lt ? kWay : 0;
      CHECK(bench.tmau.seen[i].cycle == bench.first_issue() + i + way);
    }
  }
}

TEST_CASE("without a place in the queue a warp waits, and warps keep their order", "[sm][TMA-02]") {
  constexpr std::uint32_t kQueue = 3;
  constexpr std::uint32_t kWarps = 4;
  for (const TimingMode mode : kModes) {
    heddle::sm::SmContext place = bench_place();
    place.bulk_queue = kQueue;
    ProgramBench bench({}, mode, 1 << 20, 0, place);
    bench.tmau.pace = 40;
    ListProgram p(2);
    const auto lanes = [](const Warp&) { return LaneMask{0xFF}; };
    for (std::uint32_t turn = 0; turn < 2; ++turn) {
      p.bulk(
          OpCode::bulk_prefetch,
          [=](const Warp& warp, std::uint32_t lane) {
            return block_of(BulkKind::prefetch, 1024 * warp.place.warp + 128 * lane + 8192 * turn, 32);
          },
          lanes);
    }
    p.exit();
    bench.run(p, 32 * kWarps);
    REQUIRE(bench.tmau.seen.size() == 2 * 8 * kWarps);
    CHECK(bench.tmau.most_waiting <= kQueue);
    // A warp that has begun is through before the next one.
    for (std::size_t i = 0; i < bench.tmau.seen.size(); ++i) {
      const std::uint64_t at = bench.tmau.seen[i].packet.request.global;
      CHECK(at % 1024 == 128 * (i % 8));
      if (i % 8 != 0) CHECK(at == bench.tmau.seen[i - 1].packet.request.global + 128);
    }
    // All but those in the queue wait: nobody is served before the one ahead has been taken.
    CHECK(bench.stat("stall.bulk_queue") > 40.0 * 8 * kWarps);
    CHECK(bench.sm.core().bulk.open() == 0);
  }
}

TEST_CASE("a drain waits for its own end, and for nothing else of the warp", "[sm][TMA-41]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    bench.tmau.answer = [](const FakeTmau::Seen& seen, FakeTmau::Done&) {
      return seen.cycle + (seen.packet.request.kind == BulkKind::drain ? 700 : 3000);
    };
    ListProgram p(4);
    store_block(p, 1);
    p.bulk_drain();
    p.special(SpecialRegister::clock, 0, 2);
    p.store({}, ListProgram::of_register(0), ListProgram::linear(0, 4), {{0, 2}});
    p.exit();
    const Cycle all = bench.run(p, 32, kShared);
    REQUIRE(bench.tmau.seen.size() == 2);
    CHECK(bench.tmau.seen[1].packet.request.kind == BulkKind::drain);
    const std::uint64_t drained = bench.l2.get<std::uint32_t>(0);
    CHECK(drained >= bench.tmau.seen[1].cycle + 700);
    CHECK(drained < bench.tmau.seen[1].cycle + 720);
    CHECK(all >= 3000);
    CHECK(bench.stat("stall.bulk") > 690);
  }
}

TEST_CASE("a fence of descriptors names one, or all, and is waited for", "[sm][TMA-04]") {
  ProgramBench bench;
  bench.tmau.work = 90;
  ListProgram p(4);
  p.tensor_fence(4096);
  p.tensor_fence();
  p.exit();
  bench.run(p, 32);
  REQUIRE(bench.tmau.seen.size() == 2);
  CHECK(bench.tmau.seen[0].packet.request.kind == BulkKind::forget);
  CHECK(bench.tmau.seen[0].packet.request.descriptor == 4096);
  CHECK(bench.tmau.seen[1].packet.request.descriptor == 0);
  CHECK(bench.tmau.seen[1].cycle > bench.tmau.seen[0].cycle + 90);
}

TEST_CASE("a CTA stays until its requests have ended, beside others", "[sm][CGA-11]") {
  ProgramBench bench;
  bench.tmau.work = 2000;
  ListProgram asks(2);
  load_block(asks, 1);
  asks.exit();
  ListProgram computes(2);
  computes.compute(heddle::arch::Unit::fp32, 10, {}, {});
  computes.exit();
  bench.start(bench.add(asks, 32, kShared), 0, 0);
  bench.start(bench.add(computes, 32, kShared), 1, 1);
  heddle::test::run_until_idle();
  REQUIRE(bench.mpc.exits.size() == 2);
  CHECK(bench.mpc.exits[0].second.cta_slot == 1);
  CHECK(bench.mpc.exits[0].first < 200);
  CHECK(bench.mpc.exits[1].second.cta_slot == 0);
  CHECK(bench.mpc.exits[1].first > 2000);
  CHECK(bench.sm.quiescent());
}

TEST_CASE("a reset in mid-flight forgets requests, and those that wait for a place", "[sm]") {
  for (const TimingMode mode : kModes) {
    heddle::sm::SmContext place = bench_place();
    place.bulk_queue = 2;
    ProgramBench bench({}, mode, 1 << 20, 0, place);
    bench.tmau.pace = 100;
    ListProgram p(2);
    for (std::uint64_t i = 0; i < 6; ++i) store_block(p, i);
    p.bulk_commit();
    p.bulk_wait(0);
    p.exit();
    const std::uint32_t number = bench.add(p, 96, kShared);
    bench.start(number);
    heddle::test::run_until(sc_core::sc_time(230, sc_core::SC_NS));
    CHECK(bench.sm.core().bulk.open() > 0);
    bench.domain.reset();
    CHECK(bench.sm.quiescent());
    CHECK(bench.sm.core().bulk.open() == 0);
    bench.tmau.seen.clear();
    bench.start(number, 0, 0, bench.domain.now());
    heddle::test::run_until_idle();
    REQUIRE(bench.mpc.exits.size() == 1);
    CHECK_FALSE(bench.mpc.exits[0].second.faulted);
    CHECK(bench.tmau.seen.size() == 3 * 6);
    CHECK(bench.sm.core().bulk.open() == 0);
  }
}

TEST_CASE("what waits for the TMAU says for which requests", "[sm][TMA-41]") {
  const auto waits_of = [](const ListProgram& p, std::uint32_t queue = 16) {
    heddle::sm::SmContext place = bench_place();
    place.bulk_queue = queue;
    ProgramBench bench({}, TimingMode::at, 1 << 20, 0, place);
    bench.tmau.answer = [](const FakeTmau::Seen&, FakeTmau::Done&) { return heddle::kNever; };
    if (queue == 1) bench.tmau.pace = 1'000'000;
    bench.start(bench.add(p, 32, kShared), 0, 4);
    heddle::test::run_until(sc_core::sc_time(5, sc_core::SC_US));
    heddle::WaitGraph graph;
    bench.domain.collect_waits(graph);
    std::string text;
    for (const std::string& line : graph.chain()) text += line + "\n";
    return text;
  };
  const std::string two = "2 requests of SM 3, CTA 4 to the TMAU, the oldest a store x (line 12)";
  ListProgram groups(2);
  store_block(groups, 1, "store x (line 12)");
  store_block(groups, 2, "store y (line 13)");
  groups.bulk_commit().bulk_wait(0, true).exit();
  CHECK_THAT(waits_of(groups), Contains("bulk_wait (1 groups not read, 0 may be)") && Contains(two));

  ListProgram leaves(2);
  store_block(leaves, 1, "store x (line 12)");
  store_block(leaves, 2, "store y (line 13)");
  leaves.exit();
  CHECK_THAT(waits_of(leaves), Contains(two));

  ListProgram drains(2);
  drains.bulk_drain().exit();
  CHECK_THAT(waits_of(drains), Contains("1 request of SM 3, CTA 4 to the TMAU, the oldest a bulk_drain"));

  ListProgram full(2);
  store_block(full, 1);
  store_block(full, 2, "store y (line 13)");
  full.exit();
  CHECK_THAT(waits_of(full, 1), Contains("store y (line 13), for a place in its queue"));

  ListProgram waits(2);
  waits.mbarrier_init(0, 1);
  load_block(waits, 1, "load z (line 3)");
  waits.mbarrier_wait(0, 0);
  waits.exit();
  CHECK_THAT(waits_of(waits), Contains("1 request of SM 3, CTA 4 to the TMAU, the oldest a load z (line 3)"));
}

}  // namespace sm_bulk_test

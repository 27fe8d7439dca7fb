// DSMEM in the memory side of an SM: times, mbarriers, back-pressure, resets.
#include <cstring>

#include <catch2/catch.hpp>

#include "arch/mbarrier.h"
#include "sm/memory_cluster_bench.h"

namespace sm_memory_cluster_test {

using namespace heddle;
using namespace heddle::test;
using arch::dsmem_address;
using arch::DsmemStatus;
using arch::kWarpLanes;
using arch::LaneMask;
using arch::OpCode;
using arch::Operation;
using sm::MemoryPaths;
using sm::MemoryResult;

namespace {

constexpr Cycle kOwn = 33;  // 29 and 4

}  // namespace

TEST_CASE("own shared memory by a cluster address takes 33 cycles, another SM's the way there and back more",
          "[sm][CGA-06]") {
  ThreeCtas bench;
  bench.network.delay = [](std::uint32_t, std::uint32_t) { return 82; };
  start();
  for (const std::uint32_t rank : {0U, 2U}) {
    const MemoryResult own = bench.sms[0]->cluster(row(OpCode::load, rank, 256), 0, 1000 + 10 * rank);
    CHECK(own.ready == 1000 + 10 * rank + kOwn);
    CHECK_FALSE(own.open);
  }
  CHECK(bench.network.requests == 0);
  std::memset(bench.target().data(0) + 256, 9, 128);
  const Cycle now = bench.domain.now();
  const MemoryResult other = bench.sms[0]->cluster(row(OpCode::load, 1, 256), 0, 2000);
  CHECK(now == 0);
  CHECK(other.open);
  CHECK(other.ready == kNever);
  CHECK(bench.unit().flights.of_cga(kThreeCtas) == 1);
  CHECK(bench.unit().flights.of_cta(2) == 1);
  run_until_idle();
  REQUIRE(bench.sms[0]->ended.size() == 1);
  CHECK(bench.sms[0]->ended[0].when == 2000 + kOwn + 2 * 82);
  CHECK(bench.sms[0]->reg(0, 1)[31] == 0x0909'0909);
  CHECK(bench.network.requests == 1);
  CHECK(bench.quiet());
  CHECK(bench.sms[0]->answered == std::vector<std::optional<std::uint32_t>>{2});
}

TEST_CASE("lanes of an atomic that meet at a word take turns at the target's port", "[sm][CGA-06]") {
  for (const bool returns : {true, false}) {
    ThreeCtas bench;
    start();
    bench.sms[0]->cluster(reduction(1, 64, returns), 0, 0);
    bench.sms[1]->cluster(row(OpCode::load, 0, 0), 0, 0);  // arrives when the other does
    run_until_idle();
    std::uint32_t sum = 0;
    std::memcpy(&sum, bench.target().data(0) + 64, 4);
    CHECK(sum == 32 * 33 / 2);
    CHECK(bench.sms[1]->ended[0].when == kOwn + 2 * 80);
    if (!returns) {
      CHECK(bench.sms[0]->ended.empty());  // posted
      continue;
    }
    CHECK(bench.sms[0]->ended[0].when == kOwn + 2 * 80 + 31);
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      REQUIRE(bench.sms[0]->reg(0, 1)[lane] == lane * (lane + 1) / 2);
    }
    CHECK(bench.quiet());
  }
}

TEST_CASE("lanes of an atomic that meet at a word take turns at the own port", "[sm][CGA-06]") {
  ThreeCtas bench;
  start();
  CHECK(bench.sms[0]->cluster(reduction(2, 64, true), 0, 100).ready == 100 + kOwn + 31);
  CHECK(bench.sms[0]->cluster(row(OpCode::load, 2, 0), 0, 100).ready == 100 + kOwn + 32);
  CHECK(bench.sms[0]->reg(0, 1)[16] == 32 * 33 / 2);
  CHECK(bench.quiet());
}

TEST_CASE("one access goes to own and to other CTAs, a packet for each line", "[sm][CGA-06]") {
  ThreeCtas bench;
  start();
  Operation operation = row(OpCode::store, 0, 0);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    operation.address[lane] = dsmem_address(lane % 3, 120 + lane / 3 * 4);  // two lines of each
  }
  const MemoryResult result = bench.sms[0]->cluster(operation, 0, 0);
  CHECK_FALSE(result.open);
  run_until_idle();
  CHECK(bench.network.requests == 2);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    const std::uint32_t rank = lane % 3;
    const auto& memory = bench.unit(rank == 1 ? 1 : 0).shared;
    std::uint32_t word = 0;
    std::memcpy(&word, memory.data(rank == 0 ? 2 : rank == 1 ? 0 : 5) + 120 + lane / 3 * 4, 4);
    REQUIRE(word == lane + 1);
  }
  CHECK(bench.sms[0]->ended.empty());
  CHECK(bench.quiet());
}

TEST_CASE("a CTA of no CGA reaches itself by a cluster address", "[sm][CGA-06]") {
  UnitsBench bench;
  start();
  MemoryPaths& unit = bench.sms[0]->unit;
  unit.shared.open(3, 101);
  bench.sms[0]->set_warp(4, 3, std::nullopt);
  CHECK(bench.sms[0]->cluster(one(OpCode::store, 0, 96, 5), 4, 0).ready == kOwn);
  CHECK(unit.shared.data(3)[96] == 5);
  const MemoryResult beyond = bench.sms[0]->cluster(one(OpCode::load, 0, 100), 4, 0);
  CHECK(beyond.lost);
  REQUIRE(bench.sms[0]->failed.size() == 1);
  CHECK_FALSE(bench.sms[0]->failed[0].cga_id.has_value());
  CHECK(bench.sms[0]->failed[0].status == DsmemStatus::out_of_range);
}

TEST_CASE("CTAs arrive at, expect for and complete mbarriers of others", "[sm][CGA-14]") {
  for (const std::uint32_t rank : {1U, 2U}) {
    CAPTURE(rank);
    ThreeCtas bench;
    start();
    UnitOfSm& there = *bench.sms[rank == 1 ? 1 : 0];
    sm::SharedMemory& memory = there.unit.shared;
    const std::uint32_t window = rank == 1 ? 0 : 5;
    auto& failed = bench.sms[0]->failed;
    const auto run = [&](const Operation& operation) {
      const MemoryResult result = bench.sms[0]->cluster(operation, 0, bench.domain.now());
      CHECK_FALSE(result.open);  // posted
      run_until_idle();
      REQUIRE(bench.quiet());
    };
    run(one(OpCode::mbarrier_arrive, rank, 136, 1));
    REQUIRE(failed.size() == 1);  // nobody has initialised it
    CHECK(failed[0].status == DsmemStatus::mbarrier);
    CHECK(failed[0].offset == 136);
    CHECK(there.changed.empty());

    std::uint64_t object = 0;
    REQUIRE(arch::mbarrier_init(object, 3) == arch::MbarrierResult::ok);
    memory.set_word(window, 136, object);
    const auto state = [&] { return arch::decode(memory.word(window, 136)); };
    run(one(OpCode::mbarrier_complete, rank, 136, 64));
    CHECK(state().tx == -64);
    run(one(OpCode::mbarrier_expect, rank, 136, 32));
    CHECK(state().tx == -32);
    run(one(OpCode::mbarrier_arrive, rank, 136, 2, 32));
    CHECK(state().tx == 0);
    CHECK(state().pending == 1);
    CHECK(state().parity == 0);
    run(one(OpCode::mbarrier_arrive, rank, 136, 1));
    CHECK(state().parity == 1);
    CHECK(state().pending == 3);
    CHECK(there.changed == std::vector<std::uint32_t>(4, window));
    run(one(OpCode::mbarrier_arrive, rank, 136, 4));
    CHECK(failed.size() == 2);
    CHECK(state().pending == 3);

    // Every lane arrives by itself: 32 at once complete ten phases and two thirds.
    Operation all = one(OpCode::mbarrier_arrive, rank, 136, 1);
    all.lanes = ~LaneMask{0};
    all.address.fill(all.address[0]);
    all.data.fill({1, 0, 0, 0});
    run(all);
    CHECK(state().parity == 1);
    CHECK(state().pending == 1);
    memory.poison(window, 128, 1);
    run(one(OpCode::mbarrier_expect, rank, 136, 1));
    REQUIRE(failed.size() == 3);
    CHECK(failed[2].status == DsmemStatus::poison);
  }
}

TEST_CASE("without room on the network requests wait, and the unit stops", "[sm][CGA-06]") {
  UnitsShape shape;
  shape.credits = 1;
  shape.params.memory.cluster_queue = 1;
  shape.params.memory.request_queue = 2;
  ThreeCtas bench(shape);
  bench.network.stuck = true;
  start();
  std::uint32_t issued = 0;
  bench.sms[0]->on_go = [&] {
    while (!bench.unit().gate.closed() && issued < 8) {
      bench.sms[0]->cluster(row(OpCode::store, 1, 128 * issued++), 0, bench.domain.now());
    }
  };
  bench.sms[0]->on_go();
  CHECK(issued == 3);  // one is out, two wait
  CHECK(bench.unit().dsmem.waiting() == 2);
  CHECK(bench.unit().gate.free() == kNever);
  run_until_idle();
  // The reply to the first is stuck in the network, and the second's has no room there. Behind it there is a place for
  // one request at the target, and for one in the network.
  CHECK(bench.unit(1).server.waiting() == 1);
  CHECK(bench.observation.stats.value("gpu0.sm1.cluster.served") == 2);
  CHECK(bench.unit().dsmem.waiting() == 2);
  CHECK(issued < 8);
  CHECK(bench.unit().flights.of_cga(kThreeCtas) == issued);
  bench.network.free_replies();
  run_until_idle();
  CHECK(issued == 8);
  CHECK(bench.sms[0]->went_on > 0);
  CHECK(bench.observation.stats.value("gpu0.sm0.cluster.requests") == 8);
  CHECK(bench.observation.stats.value("gpu0.sm1.cluster.served") == 8);
  for (std::uint32_t i = 0; i < 8; ++i) CHECK(bench.target().data(0)[128 * i + 124] == 32);
  CHECK(bench.quiet());
}

TEST_CASE("the place of a request at the target is free when its reply leaves", "[sm][CGA-06]") {
  UnitsShape shape;
  shape.params.memory.cluster_queue = 1;
  ThreeCtas bench(shape);
  start();
  for (std::uint32_t i = 0; i < 2; ++i) {
    bench.sms[0]->cluster(row(OpCode::load, 1, 128 * i), 0, 0);
  }
  run_until_idle();
  const Cycle first = kOwn + 2 * 80;
  REQUIRE(bench.sms[0]->ended.size() == 2);
  CHECK(bench.sms[0]->ended[0].when == first);
  CHECK(bench.sms[0]->ended[1].when == first + 29);  // it comes in when the reply to the first has left
}

TEST_CASE("what a release waits for includes DSMEM", "[sm][CGA-06][MEM-06]") {
  ThreeCtas bench;
  start();
  bench.sms[0]->cluster(row(OpCode::store, 1, 0), 0, 0);
  const sm::FenceTracker::Epoch epoch = bench.unit().fences.epoch();
  CHECK_FALSE(bench.unit().fences.done(epoch));
  run_until_idle();
  CHECK(bench.unit().fences.done(epoch));
  CHECK(bench.unit().fences.latest() == kOwn + 2 * 80);
  CHECK(bench.sms[0]->groups_ended == 1);
}

TEST_CASE("a reset in mid-flight leaves nothing", "[sm][CGA-06]") {
  UnitsShape shape;
  shape.credits = 2;
  shape.params.memory.cluster_queue = 2;
  for (Cycle until = 1; until < 300; until += 13) {
    CAPTURE(until);
    ThreeCtas bench(shape);
    start();
    for (int round = 0; round < 2; ++round) {
      const Cycle now = bench.domain.now();
      for (std::uint32_t i = 0; i < 6; ++i) {
        bench.sms[0]->cluster(row(i % 2 == 0 ? OpCode::load : OpCode::store, 1, 128 * i), 0, now);
        bench.sms[1]->cluster(reduction(2, 64, i % 2 == 0), 0, now);
      }
      if (round == 1) break;
      run_until(bench.domain.clock().time_of(until));
      bench.domain.reset();
      for (auto& sm : bench.sms) {
        sm->unit.reset();
        sm->tables.reset();
        sm->ended.clear();
      }
      REQUIRE(bench.quiet());
      bench.setup(4096, 2);
    }
    run_until_idle();
    CHECK(bench.sms[0]->ended.size() == 3);
    CHECK(bench.sms[1]->ended.size() == 3);
    std::uint32_t sum = 0;
    std::memcpy(&sum, bench.unit().shared.data(5) + 64, 4);
    CHECK(sum == 6 * 32 * 33 / 2);
    CHECK(bench.quiet());
  }
}

}  // namespace sm_memory_cluster_test

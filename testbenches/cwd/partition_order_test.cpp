// The order of tasks that sharing keeps from a part of the machine: those of one subcontext do not overtake each other,
// and hold back nobody else's.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd.h"
#include "cwd/cwd_bench.h"
#include "support/random.h"

namespace cwd_partition_order_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::arch::CgaLevel;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::cwd::CwdParams;
using heddle::protocol::PartitionMode;
using heddle::protocol::SubcontextPacket;
using heddle::protocol::TaskPacket;
using What = SubcontextPacket::What;

namespace {

constexpr std::uint32_t kWarps = 1000;  // of an SM
ResourceVector capacity(std::uint32_t slots) { return {{kWarps, 100'000, 100'000, 100'000, slots, 1000}}; }
ResourceVector need(std::uint32_t warps) { return {{warps, 1, 1, 1, 1, 1}}; }

// Two subcontexts that are the same modulo 32.
constexpr std::uint8_t kOne = 8;
constexpr std::uint8_t kOther = 40;

CwdParams plain(PartitionMode mode) {
  CwdParams params;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 100;
  params.partition = mode;
  params.backfill = false;
  return params;
}

TaskPacket grid(std::uint32_t operation, std::uint32_t ctas, std::uint8_t subcontext, std::uint32_t warps = 1,
                std::int32_t priority = 0) {
  TaskPacket task = CwdBench::task(operation, ctas, need(warps), priority);
  task.subcontext = subcontext;
  return task;
}

// The subcontext may use those TPCs of the first GPC, and no others.
void give(CwdBench& bench, std::uint8_t subcontext, const std::set<std::uint32_t>& tpcs, Cycle when = 0) {
  for (std::uint32_t tpc = 0; tpc < bench.topology.gpc(0).tpcs.size(); ++tpc) {
    SubcontextPacket packet;
    packet.what = What::enable;
    packet.subcontext = subcontext;
    packet.tpc = heddle::protocol::TpcInGpc(tpc);
    packet.value = tpcs.count(tpc);
    bench.tasks.share(when, packet);
  }
}

// By operation and CTA.
void durations(CwdBench& bench, const std::function<Cycle(std::uint32_t, std::uint64_t)>& cycles) {
  bench.all_gpcs([&cycles](auto& gpc) { gpc.duration = cycles; });
}

void finish(CwdBench& bench, std::size_t tasks) {
  run_until_idle();
  REQUIRE(bench.log.problems == std::vector<std::string>{});
  REQUIRE(bench.log.done.size() == tasks);
  REQUIRE(bench.cwd.quiescent());
}

// Cycles in which its first and its last CTAs arrived.
std::pair<Cycle, Cycle> arrivals(const CwdBench& bench, std::uint32_t operation) {
  std::pair<Cycle, Cycle> result{~Cycle{0}, 0};
  for (const LoggedLaunch& launch : bench.log.launches) {
    if (launch.packet.operation != operation) continue;
    result.first = std::min(result.first, launch.cycle);
    result.second = std::max(result.second, launch.cycle);
  }
  return result;
}
Cycle first(const CwdBench& bench, std::uint32_t operation) { return arrivals(bench, operation).first; }

// Operation 0 fills both SMs of the first TPC; a half of each is free from 1000 on, the rest from 6000 on.
constexpr Cycle kHalf = 1000;
constexpr Cycle kWhole = 6000;
void fill_first(CwdBench& bench) {
  durations(bench, [](std::uint32_t operation, std::uint64_t index) {
    if (operation != 0) return Cycle{300};
    return index < 2 ? kHalf : kWhole;
  });
  bench.tasks.submit(10, grid(0, 4, kOne, 400));
}

}  // namespace

TEST_CASE("a task that waits for its TPCs is not overtaken by one of its subcontext, and holds back no other's",
          "[cwd][PRT-02][PRT-05]") {
  const PartitionMode mode = GENERATE(PartitionMode::static_, PartitionMode::dynamic);
  const bool backfill = GENERATE(false, true);
  CAPTURE(mode == PartitionMode::static_, backfill);
  CwdParams params = plain(mode);
  params.backfill = backfill;
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(2));
  give(bench, kOne, {0});
  give(bench, kOther, {1, 2});
  fill_first(bench);
  bench.tasks.submit(20, grid(1, 2, kOne, 700));        // fits once all is free
  bench.tasks.submit(30, grid(2, 2, kOne));             // would fit earlier
  bench.tasks.submit(40, grid(3, 8, kOther));           // has room
  bench.tasks.submit(2000, grid(4, 2, kOne, 500));      // would fit in the other half
  bench.tasks.submit(2010, grid(5, 4, kOther));         // has room again
  bench.tasks.submit(2020, grid(6, 2, kOne, 1, 1));     // more urgent: it would fit, and is ahead of all
  bench.tasks.submit(2030, grid(7, 1, kOther, 1, -1));  // less urgent, and behind nobody
  finish(bench, 8);
  CHECK(first(bench, 3) < 300);
  CHECK(first(bench, 5) < 2300);
  CHECK(first(bench, 6) < (backfill ? 3000 : 2300));  // it may have to wait for those that have passed
  CHECK(first(bench, 7) < 2300);
  CHECK(first(bench, 1) > kWhole);
  if (backfill) {
    CHECK(first(bench, 2) > kHalf);
    CHECK(first(bench, 2) < kHalf + 500);
    CHECK(first(bench, 4) < 3000);
    return;
  }
  CHECK(first(bench, 2) >= arrivals(bench, 1).second);
  CHECK(first(bench, 4) > first(bench, 2));
  CHECK(bench.waited("tpc_mask") > 4900);
  CHECK(bench.waited("behind") > 2 * (kWhole - 2100));
  CHECK(bench.stat("subcontext8.wait.behind") == bench.waited("behind"));  // nobody else was
}

TEST_CASE("every subcontext has an order of its own", "[cwd][PRT-02][PRT-05]") {
  const PartitionMode mode = GENERATE(PartitionMode::static_, PartitionMode::dynamic);
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(mode), capacity(2));
  give(bench, kOne, {0});
  give(bench, kOther, {2});
  durations(bench, [](std::uint32_t operation, std::uint64_t index) {
    if (operation > 1) return Cycle{300};
    return index < 2 ? kHalf : operation == 0 ? kWhole : kWhole / 2;
  });
  // The first, second, … task of each.
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t warps = i == 0 ? 400 : i == 1 ? 700 : 1;
    bench.tasks.submit(10 + 20 * i, grid(2 * i, i == 0 ? 4 : 2, kOne, warps));
    bench.tasks.submit(20 + 20 * i, grid(2 * i + 1, i == 0 ? 4 : 2, kOther, warps));
  }
  finish(bench, 8);
  for (std::uint32_t operation = 2; operation < 8; ++operation) {
    CAPTURE(operation);
    const Cycle free = operation % 2 == 0 ? kWhole : kWhole / 2;
    CHECK(first(bench, operation) > free);
    CHECK(first(bench, operation) < free + 1500);
    if (operation > 3) CHECK(first(bench, operation) >= first(bench, operation - 2));
  }
}

TEST_CASE("a grid of CGAs that waits for its TPCs lets its subcontext pass until it is old", "[cwd][CWD-26][PRT-05]") {
  CwdParams params = plain(PartitionMode::static_);
  params.age_limit = 2000;
  CwdBench bench(Shape::from_sms_per_gpc({8}), params, capacity(2));
  give(bench, kOne, {0});
  give(bench, kOther, {1});
  durations(bench, [](std::uint32_t operation, std::uint64_t) { return operation == 0 ? kWhole : Cycle{300}; });
  bench.tasks.submit(10, grid(0, 3, kOne));
  TaskPacket cga = grid(1, 2, kOne);
  cga.cluster.of(CgaLevel::gpc) = {2, 1, 1};
  bench.tasks.submit(20, cga);                   // one slot is left
  bench.tasks.submit(1000, grid(2, 1, kOne));    // takes it
  bench.tasks.submit(3000, grid(3, 1, kOne));    // may not any more
  bench.tasks.submit(3010, grid(4, 1, kOther));  // is not concerned
  bench.tasks.submit(3020, grid(5, 4, kOther));  // nor is this one
  finish(bench, 6);
  CHECK(first(bench, 2) < 1300);
  CHECK(first(bench, 1) > kWhole);
  CHECK(first(bench, 3) > first(bench, 1));
  CHECK(first(bench, 4) < 3300);
  CHECK(first(bench, 5) < 3700);
}

TEST_CASE("a mask that grows lets the first one of the subcontext go first", "[cwd][PRT-05][PRT-07]") {
  const PartitionMode mode = GENERATE(PartitionMode::static_, PartitionMode::dynamic);
  CwdBench bench(Shape::from_sms_per_gpc({8}), plain(mode), capacity(2));
  give(bench, kOne, {0});
  give(bench, kOther, {3});
  give(bench, kOne, {0, 1}, 3000);
  fill_first(bench);
  bench.tasks.submit(20, grid(1, 4, kOne, 700));  // two of its CTAs fit on what it is given
  bench.tasks.submit(30, grid(2, 2, kOne));       // would fit at any time
  bench.tasks.submit(40, grid(3, 1, kOther));
  durations(bench, [](std::uint32_t operation, std::uint64_t index) {
    if (operation == 0) return index < 2 ? kHalf : kWhole;
    return operation == 1 ? Cycle{9000} : Cycle{300};
  });
  finish(bench, 4);
  CHECK(first(bench, 3) < 300);
  CHECK(first(bench, 1) > 3000);
  CHECK(first(bench, 1) < 3300);
  CHECK(arrivals(bench, 1).second > kWhole);
  CHECK(first(bench, 2) >= arrivals(bench, 1).second);
}

// Whatever is waited for, tasks of one subcontext and one priority start in the order in which they came.
TEST_CASE("random tasks of subcontexts with masks keep their order within each", "[cwd][PRT-02][PRT-05]") {
  std::uint32_t waited = 0;
  for (const std::uint64_t seed : seeds(150)) {
    CAPTURE(seed);
    Random random(seed);
    const bool fixed = random.chance(60);
    const std::uint32_t tpcs = random.between(2, 6);
    CwdBench bench(Shape::from_sms_per_gpc({2 * tpcs}), plain(fixed ? PartitionMode::static_ : PartitionMode::dynamic),
                   capacity(random.between(1, 4)));
    const std::uint32_t users = random.between(1, tpcs);
    std::vector<std::set<std::uint32_t>> own(users);
    for (std::uint32_t tpc = 0; tpc < tpcs; ++tpc) {
      own[tpc < users ? tpc : random.below(users)].insert(tpc);  // everyone has one
      if (!fixed && random.chance(40)) own[random.below(users)].insert(tpc);
    }
    std::vector<std::uint8_t> name;
    for (std::uint32_t user = 0; user < users; ++user) name.push_back(static_cast<std::uint8_t>(13 * user % 64));
    for (std::uint32_t user = 0; user < users; ++user) give(bench, name[user], own[user]);
    const std::uint64_t salt = random.next();
    durations(bench, [salt](std::uint32_t operation, std::uint64_t index) {
      return 1 + scramble(salt ^ operation * 1000 ^ index) % 3000;
    });
    const std::uint32_t tasks = random.between(4, 20);
    std::vector<TaskPacket> sent;
    Cycle when = 10;
    for (std::uint32_t i = 0; i < tasks; ++i) {
      const std::uint32_t user = random.below(users);
      sent.push_back(grid(i, random.between(1, 12), name[user], random.between(1, kWarps),
                          static_cast<std::int32_t>(random.below(2))));
      bench.tasks.submit(when += random.below(800), sent.back());
    }
    finish(bench, tasks);
    waited += bench.waited("tpc_mask") > 0 ? 1 : 0;
    for (std::uint32_t late = 0; late < tasks; ++late) {
      for (std::uint32_t early = 0; early < late; ++early) {
        if (sent[early].subcontext != sent[late].subcontext || sent[early].priority != sent[late].priority) continue;
        CAPTURE(early, late);
        REQUIRE(arrivals(bench, early).second <= first(bench, late));
      }
    }
  }
  CHECK(waited > 50);
}

}  // namespace cwd_partition_order_test

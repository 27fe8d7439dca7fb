// What is wrong with accesses to DSMEM, and what becomes of those whose CTA or CGA has gone.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/fake_l2.h"
#include "sm/memory_cluster_bench.h"

namespace sm_memory_cluster_error_test {

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

TEST_CASE("the target's errors come back, and change nothing", "[sm][CGA-08][CGA-09]") {
  // To another SM, and to another CTA of the own one.
  for (const std::uint32_t rank : {1U, 2U}) {
    for (const OpCode code : {OpCode::load, OpCode::store, OpCode::atomic}) {
      CAPTURE(rank, op_name(code));
      ThreeCtas bench({}, 4001);
      start();
      sm::SharedMemory& memory = bench.unit(rank == 1 ? 1 : 0).shared;
      const std::uint32_t window = rank == 1 ? 0 : 5;
      auto& failed = bench.sms[0]->failed;
      const auto run = [&](Operation operation) {
        failed.clear();
        if (code != OpCode::store) operation.destination = 1;
        operation.code = code;
        bench.sms[0]->lost.clear();
        const MemoryResult result = bench.sms[0]->cluster(operation, 0, bench.domain.now());
        run_until_idle();
        REQUIRE(bench.quiet());
        REQUIRE(failed.size() <= 1);
        // It is lost if somebody waits for it.
        REQUIRE(bench.sms[0]->lost.size() + (result.lost ? 1 : 0) == (failed.empty() || code == OpCode::store ? 0 : 1));
      };
      const auto bytes = [&] {
        return std::vector<std::uint8_t>(memory.data(window), memory.data(window) + memory.size(window));
      };
      std::memset(memory.data(window), 1, 4001);

      // 4,000 is the last byte.
      run(row(code, rank, 4000, 1, 1));
      if (code != OpCode::atomic) CHECK(failed.empty());
      run(row(code, rank, 3996, 1));
      CHECK(failed.empty());
      const std::vector<std::uint8_t> before = bytes();
      run(row(code, rank, 3968, 9));
      REQUIRE(failed.size() == 1);
      CHECK(failed[0].status == DsmemStatus::out_of_range);
      CHECK(*failed[0].cga_id == kThreeCtas);
      CHECK(failed[0].rank == rank);
      CHECK(failed[0].sequence == 1);
      CHECK(failed[0].offset == 4000);
      run(row(code, rank, 8192, 3));
      REQUIRE(failed.size() == 1);
      CHECK(failed[0].offset == 8192);

      memory.poison(window, 100, 1);
      run(row(code, rank, 64, 24));  // bytes 64 to 159
      if (code == OpCode::store) {
        CHECK(failed.empty());
        CHECK_FALSE(memory.poisoned(window, 96, 32));
      } else {
        REQUIRE(failed.size() == 1);
        CHECK(failed[0].status == DsmemStatus::poison);
        CHECK(failed[0].offset == 96);
        // Lanes on both sides of what is corrupt read nothing of it.
        Operation around = row(OpCode::load, rank, 64, 2);
        around.address[1] = dsmem_address(rank, 124 + 4);
        run(around);
        CHECK(failed.empty());
        around.address[1] = dsmem_address(rank, 124);
        run(around);
        CHECK(failed.size() == 1);
        if (code == OpCode::load) CHECK(bytes() == before);
      }

      memory.release(window, 2000);
      run(row(code, rank, 1996, 1));
      CHECK(failed.empty());
      run(row(code, rank, 2000, 1));
      REQUIRE(failed.size() == 1);
      CHECK(failed[0].status == DsmemStatus::out_of_range);
      CHECK(failed[0].offset == 2000);

      bench.sms[rank == 1 ? 1 : 0]->tables.invalidate(window);
      run(row(code, rank, 8, 1));
      REQUIRE(failed.size() == 1);
      CHECK(failed[0].status == DsmemStatus::cta_not_present);
      CHECK(failed[0].offset == 8);
    }
  }
}

TEST_CASE("a write across corrupt bytes makes only whole granules sound", "[sm][CGA-08]") {
  ThreeCtas bench;
  start();
  bench.target().poison(0, 0, 128);
  bench.sms[0]->cluster(row(OpCode::store, 1, 16, 20), 0, 0);  // bytes 16 to 95
  run_until_idle();
  CHECK(bench.target().poisoned(0, 0, 32));
  CHECK_FALSE(bench.target().poisoned(0, 32, 64));
  CHECK(bench.target().poisoned(0, 96, 32));
  Operation gap = row(OpCode::store, 1, 96, 8);
  gap.lanes &= ~LaneMask{4};
  bench.sms[0]->cluster(gap, 0, bench.domain.now());
  run_until_idle();
  CHECK(bench.target().poisoned(0, 96, 32));
}

TEST_CASE("posted accesses outlive their CTA, and then belong to the CGA", "[sm][CGA-08][CGA-11]") {
  ThreeCtas bench;
  start();
  bench.sms[0]->cluster(row(OpCode::store, 1, 0), 0, 0);
  bench.sms[0]->cluster(row(OpCode::store, 1, 8192), 0, 0);
  CHECK(bench.unit().flights.of_cta(2) == 2);
  bench.unit().dsmem.abandon(2, 41, 3);
  CHECK(bench.unit().flights.of_cta(2) == 0);
  CHECK(bench.unit().flights.of_cga(kThreeCtas) == 2);
  // The next owner of the slot dies, which is none of their business.
  bench.unit().accesses.forget(2);
  run_until_idle();
  CHECK(bench.target().data(0)[124] == 32);
  CHECK(bench.sms[0]->failed.empty());
  REQUIRE(bench.sms[0]->orphans.size() == 1);
  CHECK(bench.sms[0]->orphans[0].status == DsmemStatus::out_of_range);
  CHECK(bench.sms[0]->orphans[0].sequence == 1);
  CHECK(bench.sms[0]->orphans[0].from_cta == 41);
  CHECK(bench.sms[0]->orphans[0].from_rank == 3);
  CHECK(bench.sms[0]->answered == std::vector<std::optional<std::uint32_t>>(2));
  CHECK(bench.sms[0]->ended.empty());
  CHECK(bench.sms[0]->lost.empty());
  CHECK(bench.quiet());
  // A load is waited for, so its CTA cannot have gone.
  bench.sms[0]->cluster(row(OpCode::load, 1, 0), 0, bench.domain.now());
  CHECK_THROWS_AS(bench.unit().dsmem.abandon(2, 41, 3), CheckFailed);
}

TEST_CASE("what comes back for a CTA that was killed is swallowed", "[sm][CGA-08]") {
  ThreeCtas bench;
  start();
  bench.sms[0]->cluster(row(OpCode::load, 1, 0), 0, 0);
  bench.sms[0]->cluster(row(OpCode::load, 1, 8192), 0, 0);
  bench.sms[0]->cluster(row(OpCode::store, 1, 8192), 0, 0);
  std::memset(bench.target().data(0), 7, 128);
  bench.unit().accesses.forget(2);
  CHECK(bench.unit().flights.of_cta(2) == 3);
  run_until_idle();
  CHECK(bench.sms[0]->failed.empty());
  CHECK(bench.sms[0]->orphans.empty());
  CHECK(bench.sms[0]->ended.empty());
  CHECK(bench.sms[0]->lost.size() == 2);
  CHECK(bench.sms[0]->reg(0, 1)[0] == 0);
  CHECK(bench.quiet());
}

TEST_CASE("an access that comes to a new CGA with the old one's id fails the checker", "[sm][CGA-12]") {
  for (const bool at_target : {true, false}) {
    CAPTURE(at_target);
    ThreeCtas bench;
    start();
    bench.sms[0]->cluster(row(OpCode::store, 1, 0), 0, 0);
    // Too early, at one of the two ends.
    UnitOfSm& sm = *bench.sms[at_target ? 1 : 0];
    for (std::uint32_t window = 0; window < 8; ++window) sm.tables.invalidate(window);
    sm.tables.forget(kThreeCtas);
    protocol::CtaEntryPacket entry;
    entry.cga_id = kThreeCtas;
    entry.sequence = 2;
    entry.ctas = 3;
    sm.tables.enter(entry, 0);
    CHECK(failure_of([] { run_until_idle(); }).find("an access of a CGA that has ended") != std::string::npos);
  }
}

TEST_CASE("a copy whose destination has been released meanwhile touches nobody else's memory", "[sm][CGA-09]") {
  UnitsBench bench;
  FakeL2 l2("l2", bench.domain, 1 << 20);
  bench.sms[0]->memory_out.bind(l2.in);
  start();
  UnitOfSm& sm = *bench.sms[0];
  sm::SharedMemory& memory = sm.unit.shared;
  memory.open(2, 1024);
  memory.poison(2, 0, 256);
  sm.set_warp(0, 2, std::nullopt);
  std::fill(l2.bytes.begin(), l2.bytes.end(), std::uint8_t{5});
  Operation copy = row(OpCode::async_copy, 0, 4096, 32, 16);
  copy.space = arch::Space::global;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) copy.shared_address[lane] = lane * 16;
  CHECK(sm.global(copy, 0, 0).open);
  memory.release(2, 200);
  memory.open(3, 512);
  CHECK(memory.base(3) == 256);
  run_until_idle();
  CHECK(memory.data(2)[191] == 5);
  CHECK(memory.data(2)[192] == 0);
  CHECK(std::all_of(memory.data(3), memory.data(3) + 512, [](std::uint8_t byte) { return byte == 0; }));
  CHECK_FALSE(memory.poisoned(2, 0, 192));  // every granule was written by two lanes
  CHECK(memory.poisoned(2, 192, 8));
  CHECK(sm.outside == std::vector<std::pair<std::uint32_t, std::uint64_t>>{{12, 192}});
  CHECK(sm.lost.size() == 1);
  CHECK(sm.ended.empty());
  CHECK(bench.quiet());
}

}  // namespace sm_memory_cluster_error_test

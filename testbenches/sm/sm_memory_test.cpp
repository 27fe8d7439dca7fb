// Warps and memory: what requests an SM sends, what its L1 keeps, and that data are real (SM-04).
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/program_bench.h"
#include "support/flat_machine.h"
#include "support/random.h"

namespace sm_memory_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::AtomicKind;
using heddle::arch::LaneMask;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::protocol::MemoryAction;
using heddle::sm::SmParams;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Random;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

Access access_of(std::uint8_t width, Space space = Space::global) {
  Access access;
  access.space = space;
  access.width = width;
  return access;
}
Access ordered(Order order, Scope scope = Scope::gpu, ListProgram::Lanes lanes = {}) {
  Access access;
  access.order = order;
  access.scope = scope;
  access.lanes = std::move(lanes);
  return access;
}

// Registers 1 … 3 get what the loads bring; 0 stays 0 until it is read.
ListProgram load_of(std::uint64_t base, std::uint64_t stride, std::uint8_t width = 4) {
  ListProgram p(8);
  p.load(access_of(width), 1, ListProgram::linear(base, stride));
  p.compute(Unit::fp32, 1, {{1, 4}}, {});
  p.exit();
  return p;
}

}  // namespace

TEST_CASE("a warp's access becomes one request for each line", "[sm][SM-03]") {
  for (const TimingMode mode : kModes) {
    const auto requests = [mode](const ListProgram& program) {
      ProgramBench bench({}, mode);
      bench.run(program, 32);
      return bench.l2.seen;
    };
    CHECK(requests(load_of(0, 4)).size() == 1);
    CHECK(requests(load_of(64, 4)).size() == 2);
    CHECK(requests(load_of(0, 0)).size() == 1);
    CHECK(requests(load_of(0, 128)).size() == 32);
    CHECK(requests(load_of(0, 16, 16)).size() == 4);
    // Sectors that nobody wants are not asked for.
    const auto two = requests(load_of(32, 2, 2));
    REQUIRE(two.size() == 1);
    CHECK(two[0].address == 32);
    CHECK(two[0].length == 64);
    CHECK(two[0].sectors == 0b0110);
    const auto apart = requests([] {
      ListProgram p(4);
      p.load({}, 1, [](const Warp&, std::uint32_t lane) { return lane < 16 ? 0U : 96U; });
      p.exit();
      return p;
    }());
    REQUIRE(apart.size() == 1);
    CHECK(apart[0].sectors == 0b1001);
  }
}

TEST_CASE("the L1 serves what it has, and warps share a miss", "[sm][SM-03]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    ListProgram p(8);
    p.load({}, 1, ListProgram::linear(0, 4));
    p.load({}, 2, ListProgram::linear(0, 4), {{1, 1}});
    p.exit();
    bench.run(p, 256);
    CHECK(bench.l2.seen.size() == 1);
    CHECK(bench.stat("requests") == 1);
    CHECK(bench.stat("global_bytes") == 128);
    CHECK(bench.stat("l1.hits") + bench.stat("l1.misses") == 16 * 4);
    CHECK(bench.stat("l1.hits") >= 8 * 4);
  }
}

TEST_CASE("stores write through, with byte enables where a sector is not full", "[sm][SM-04]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    ListProgram p(8);
    p.load({}, 1, ListProgram::linear(0, 4));                                      // line 0 comes into the L1
    p.store({}, ListProgram::constant(7), ListProgram::linear(0, 4), {{1, 1}});    // all of it
    p.store(access_of(1), ListProgram::constant(9), ListProgram::linear(256, 4));  // every fourth byte
    p.load({}, 2, ListProgram::linear(0, 4));                                      // from the L1
    p.store_registers({}, 2, ListProgram::linear(512, 4));
    p.exit();
    bench.run(p, 32);
    REQUIRE(bench.l2.seen.size() == 4);
    CHECK(bench.l2.seen[1].length == 128);
    CHECK_FALSE(bench.l2.seen[1].enables);
    CHECK(bench.l2.seen[2].enables);
    for (std::uint64_t i = 0; i < 32; ++i) {
      CHECK(bench.l2.get<std::uint32_t>(4 * i) == 7);
      CHECK(bench.l2.get<std::uint32_t>(256 + 4 * i) == 9);
      CHECK(bench.l2.get<std::uint32_t>(512 + 4 * i) == 7);
    }
  }
}

TEST_CASE("atomics go to the L2, with all lanes of a line in one request", "[sm][SM-04]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    bench.l2.put<std::uint32_t>(128, 1000);
    ListProgram p(8);
    p.load({}, 1, ListProgram::constant(128));
    p.atomic({}, AtomicKind::add, ValueType::u32, 2, ListProgram::constant(1), ListProgram::constant(128), {{1, 1}});
    p.store_registers({}, 2, ListProgram::linear(512, 4));
    p.load({}, 3, ListProgram::constant(128));  // the copy in the L1 is stale
    p.store_registers({}, 3, ListProgram::linear(1024, 4));
    p.atomic({}, AtomicKind::add, ValueType::u64, heddle::arch::kNoRegister, ListProgram::constant(5),
             [](const Warp&, std::uint32_t lane) { return 2048 + 8 * (lane % 2) + 128 * (lane / 16); });
    p.atomic({}, AtomicKind::add, ValueType::u64, 4, ListProgram::constant(std::uint64_t{1} << 40),
             ListProgram::constant(4096));
    p.store_registers(access_of(8), 4, ListProgram::linear(8192, 8));
    p.exit();
    bench.run(p, 32);
    CHECK(bench.l2.count(MemoryAction::atomic) == 2);
    CHECK(bench.l2.count(MemoryAction::reduce) == 2);
    CHECK(bench.l2.get<std::uint32_t>(128) == 1032);
    CHECK(bench.l2.get<std::uint64_t>(2048) == 40);
    CHECK(bench.l2.get<std::uint64_t>(2048 + 136) == 40);
    for (std::uint64_t i = 0; i < 32; ++i) {
      CHECK(bench.l2.get<std::uint32_t>(512 + 4 * i) == 1000 + i);
      CHECK(bench.l2.get<std::uint32_t>(1024 + 4 * i) == 1032);
      CHECK(bench.l2.get<std::uint64_t>(8192 + 8 * i) == i << 40);
    }
  }
}

TEST_CASE("a load that a store overtakes keeps the old value, and the next one gets the new", "[sm][SM-04][MEM-06]") {
  ProgramBench bench;
  bench.l2.put<std::uint32_t>(0, 5);
  const auto lane0 = ordered(Order::weak, Scope::gpu, ListProgram::only(0));
  ListProgram p(8);
  p.load(lane0, 1, ListProgram::constant(0));
  p.store(lane0, ListProgram::constant(6), ListProgram::constant(0));
  p.load(lane0, 2, ListProgram::constant(0));
  p.store_registers(lane0, 1, ListProgram::constant(512));
  p.store_registers(lane0, 2, ListProgram::constant(516));
  p.load(lane0, 3, ListProgram::constant(0));
  p.store_registers(lane0, 3, ListProgram::constant(520));
  p.exit();
  bench.run(p, 32);
  CHECK(bench.l2.get<std::uint32_t>(512) == 5);
  CHECK(bench.l2.get<std::uint32_t>(516) == 6);
  CHECK(bench.l2.get<std::uint32_t>(520) == 6);
}

TEST_CASE("asynchronous copies arrive in shared memory, group by group", "[sm][SM-04]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    for (std::uint32_t i = 0; i < 512; ++i) bench.l2.put<std::uint32_t>(4096 + 4 * i, i * i);
    ListProgram p(8);
    for (std::uint32_t stage = 0; stage < 4; ++stage) {
      p.async_copy(access_of(16), ListProgram::linear(4096 + 512 * stage, 16), ListProgram::linear(512 * stage, 16));
      p.async_commit();
    }
    for (std::uint32_t stage = 0; stage < 4; ++stage) {
      p.async_wait(3 - stage);
      p.load(access_of(16, Space::shared), 0, ListProgram::linear(512 * stage, 16));
      p.store_registers(access_of(16), 0, ListProgram::linear(16'384 + 512 * stage, 16));
    }
    p.exit();
    bench.l2.extra = [](std::uint64_t number) { return Cycle{number % 5 * 40}; };
    bench.run(p, 32, 2048);
    for (std::uint32_t i = 0; i < 512; ++i) REQUIRE(bench.l2.get<std::uint32_t>(16'384 + 4 * i) == i * i);
  }
}

TEST_CASE("what an asynchronous copy brings takes its cycles of the shared-memory port", "[sm][SM-03][SM-04]") {
  const auto cycles = [](std::uint64_t stride, bool twice) {
    ProgramBench bench;
    ListProgram p(8);
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      p.async_copy(access_of(4), ListProgram::linear(4096, 4), ListProgram::linear(0, stride));
      p.async_commit();
      p.async_wait(0);
    }
    p.exit();
    const Cycle result = bench.run(p, 32, 8192);
    CHECK(bench.stat("copy.port_cycles") == static_cast<double>(twice ? 2 * stride / 4 : stride / 4));
    CHECK(bench.stat("shared.wavefronts") == bench.stat("copy.port_cycles"));
    return result;
  };
  // Lanes that meet in a bank take turns: 2, 4, 32 of them. What the L1 holds is written in the same way.
  for (const std::uint64_t lanes : {2, 4, 32}) {
    CHECK(cycles(4 * lanes, false) - cycles(4, false) == lanes - 1);
    CHECK(cycles(4 * lanes, true) - cycles(4, true) == 2 * (lanes - 1));
  }
}

TEST_CASE("shared loads wait for copies that arrive, and not for those under way", "[sm][SM-03][SM-04]") {
  // Warp 0 copies; warp 1 reads shared memory every cycle until it has read 400 times.
  const auto cycles = [](bool copies) {
    ProgramBench bench;
    ListProgram p(72);
    const auto of_warp = [](std::uint32_t warp) {
      return [warp](const Warp& w) { return w.thread(0) / 32 == warp ? ~LaneMask{0} : LaneMask{0}; };
    };
    Access reads = access_of(4, Space::shared);
    reads.lanes = of_warp(1);
    Access writes = access_of(4);
    writes.lanes = of_warp(copies ? 0 : 2);
    p.async_copy(writes, ListProgram::linear(4096, 4), ListProgram::linear(0, 128));
    p.async_commit();
    for (int i = 0; i < 400; ++i) p.load(reads, static_cast<std::uint16_t>(i % 64), ListProgram::linear(0, 4));
    p.async_wait(0);
    p.compute(Unit::fp32, 64, {{63, 1}}, {});
    p.exit();
    return bench.run(p, 64, 8192);
  };
  CHECK(cycles(true) - cycles(false) == 32);
}

TEST_CASE("a warpgroup multiplies what lies in shared memory", "[sm][SM-04]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    heddle::arch::MatmulTile tile;
    tile.n = 8;
    tile.a_pitch = tile.b_pitch = 0;  // every row the same: A is 1 2 1 2 …, B is 3 in all columns
    tile.b = 64;
    ListProgram p(8);
    p.store(
        access_of(2, Space::shared),
        [](const Warp&, std::uint32_t lane) { return lane < 16 ? (lane % 2 == 0 ? 0x3C00U : 0x4000U) : 0x4200U; },
        [](const Warp&, std::uint32_t lane) { return lane < 16 ? 2 * lane : 64 + 2 * (lane - 16); });
    p.barrier();
    p.matmul(tile, 0);
    p.matmul(tile, 0);
    p.store_registers(access_of(16), 0, [](const Warp& w, std::uint32_t lane) { return 16 * w.thread(lane); });
    p.exit();
    bench.run(p, 128, 256);
    REQUIRE(bench.faults.empty());
    // Twice 8 x (1 + 2) x 3.
    for (std::uint64_t i = 0; i < 4 * 128; ++i) REQUIRE(bench.l2.get<float>(4 * i) == 144.0F);
  }
}

TEST_CASE("special registers say where a warp is", "[sm][SM-02]") {
  using heddle::arch::SpecialRegister;
  ProgramBench bench;
  ListProgram p(8);
  p.special(SpecialRegister::sm, 0);
  p.special(SpecialRegister::sms, 1);
  p.special(SpecialRegister::warp_slot, 2);
  p.special(SpecialRegister::cta_slot, 3);
  p.special(SpecialRegister::clock, 4, 2);
  p.store_registers(access_of(16), 0, [](const Warp& w, std::uint32_t lane) { return 512 * w.place.warp + 16 * lane; });
  p.store_registers(access_of(8), 4,
                    [](const Warp& w, std::uint32_t lane) { return 65'536 + 256 * w.place.warp + 8 * lane; });
  p.exit();
  bench.start(bench.add(p, 192), 9);
  heddle::test::run_until_idle();
  std::uint32_t slots = 0;
  for (std::uint64_t warp = 0; warp < 6; ++warp) {
    for (std::uint64_t lane = 0; lane < 32; ++lane) {
      const std::uint64_t at = 512 * warp + 16 * lane;
      CHECK(bench.l2.get<std::uint32_t>(at) == heddle::test::kBenchSm);
      CHECK(bench.l2.get<std::uint32_t>(at + 4) == heddle::test::kBenchSms);
      CHECK(bench.l2.get<std::uint32_t>(at + 12) == 9);
      const auto clock = bench.l2.get<std::uint64_t>(65'536 + 256 * warp + 8 * lane);
      CHECK(clock >= bench.first_issue() + 4);
      CHECK(clock < bench.first_issue() + 20);
    }
    slots |= 1U << bench.l2.get<std::uint32_t>(512 * warp + 8);
  }
  CHECK(slots == 0b111111);  // dealt to the four partitions in turn
}

TEST_CASE("a full crossbar stops the load-store unit, and nothing is lost", "[sm][SM-03]") {
  for (const std::size_t room : {std::size_t{1}, std::size_t{7}}) {
    SmParams params;
    params.memory.requests = 24;
    params.memory.request_queue = 8;
    ProgramBench bench(params);
    bench.l2.room = room;
    for (std::uint32_t i = 0; i < 65'536; ++i) bench.l2.put<std::uint32_t>(4 * i, i);
    ListProgram p(8);
    const auto loop = p.loop(4);
    p.load({}, 0, [=](const Warp& w, std::uint32_t lane) {
      return 16'384 * w.count(loop) + 128 * ((lane * 7 + w.place.warp * 32) % 128) + 4 * w.place.warp;
    });
    p.store_registers({}, 0, [=](const Warp& w, std::uint32_t lane) {
      return 262'144 + 4096 * w.count(loop) + 128 * w.place.warp + 4 * lane;
    });
    p.end_loop();
    p.exit();
    bench.run(p, 1024);
    CHECK(bench.l2.most <= room);
    for (std::uint64_t round = 0; round < 4; ++round) {
      for (std::uint64_t warp = 0; warp < 32; ++warp) {
        for (std::uint64_t lane = 0; lane < 32; ++lane) {
          const std::uint64_t from = 16'384 * round + 128 * ((lane * 7 + warp * 32) % 128) + 4 * warp;
          REQUIRE(bench.l2.get<std::uint32_t>(262'144 + 4096 * round + 128 * warp + 4 * lane) == from / 4);
        }
      }
    }
  }
}

TEST_CASE("the L1 is what shared memory leaves of the unified memory", "[sm][SM-01]") {
  ProgramBench bench;
  ListProgram p(2);
  p.barrier(0, 64);
  p.exit();
  const std::uint32_t small = bench.add(p, 32 * 2, 10 * 1024);
  const std::uint32_t large = bench.add(p, 32 * 2, 90 * 1024);
  ListProgram wait(2);
  wait.compute(Unit::fp32, 1000, {}, {});
  wait.exit();
  const std::uint32_t long_small = bench.add(wait, 32, 10 * 1024);
  bench.start(long_small, 0, 0, 0);
  const auto at = [&bench](Cycle cycle) {
    heddle::test::run_until(sc_core::sc_time(static_cast<double>(cycle), sc_core::SC_NS));
    return bench.sm.core().memory.l1.capacity() / 1024;
  };
  CHECK(at(50) == 256 - 16);
  bench.start(large, 1, 1, 60);
  CHECK(at(80) == 256 - 132);
  CHECK(at(500) == 256 - 132);  // while somebody is there it does not grow
  CHECK(at(2000) == 256 - 132);
  bench.start(small, 0, 2, 2010);
  heddle::test::run_until_idle();
  CHECK(bench.sm.core().memory.l1.capacity() / 1024 == 256 - 16);
}

TEST_CASE("what a finished kernel left in the L1 is not served to the next", "[sm][MEM-06]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    const std::uint32_t code = bench.add(load_of(0, 4), 32);
    bench.start(code, 0, 0, 0);
    bench.start(code, 1, 1, 1000);  // nobody of it is here any more: taken for a new start
    heddle::test::run_until_idle();
    CHECK(bench.l2.seen.size() == 2);
    ProgramBench both({}, mode);
    const std::uint32_t again = both.add(load_of(0, 4), 32);
    both.start(again, 0, 0, 0);
    both.start(again, 1, 1, 100);
    heddle::test::run_until_idle();
    CHECK(both.l2.seen.size() == 1);  // one kernel, both of whose CTAs are here
  }
}

}  // namespace sm_memory_test

// What cannot be carried out (MEM-05), what is aborted, what a reset leaves, and what hangs.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/program_bench.h"

namespace sm_fault_test {

using Catch::Contains;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::AtomicKind;
using heddle::arch::FaultKind;
using heddle::arch::FaultRecord;
using heddle::arch::kNoRegister;
using heddle::arch::MatmulTile;
using heddle::arch::OpCode;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 4096;

Access access_of(std::uint8_t width, Space space = Space::global) {
  Access access;
  access.space = space;
  access.width = width;
  return access;
}

// Lane 5 of warp 1 goes wrong; all others do what is right.
ListProgram::Address wrong_at(std::uint64_t address, std::uint64_t stride = 4) {
  return [=](const Warp& w, std::uint32_t lane) { return w.place.warp == 1 && lane == 5 ? address : stride * lane; };
}

struct Case {
  const char* name;
  FaultKind kind;
  OpCode code;
  std::uint64_t address;
  std::function<void(ListProgram&)> add;
  std::uint32_t lane = 5;
};

std::vector<Case> cases() {
  constexpr std::uint64_t kOutside = (1 << 20) + 512;
  return {
      {"load outside", FaultKind::address, OpCode::load, kOutside,
       [](ListProgram& p) { p.load({}, 1, wrong_at(kOutside)); }},
      {"store outside", FaultKind::address, OpCode::store, kOutside,
       [](ListProgram& p) { p.store({}, ListProgram::constant(1), wrong_at(kOutside)); }},
      {"atomic outside", FaultKind::address, OpCode::atomic, kOutside,
       [](ListProgram& p) {
         p.atomic({}, AtomicKind::add, ValueType::u32, 1, ListProgram::constant(1), wrong_at(kOutside));
       }},
      {"reduction outside", FaultKind::address, OpCode::atomic, kOutside,
       [](ListProgram& p) {
         p.atomic({}, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1), wrong_at(kOutside));
       }},
      {"copy outside", FaultKind::address, OpCode::async_copy, kOutside,
       [](ListProgram& p) { p.async_copy({}, wrong_at(kOutside), ListProgram::linear(0, 4)); }},
      {"far outside", FaultKind::address, OpCode::load, ~std::uint64_t{0} - 255,
       [](ListProgram& p) { p.load({}, 1, wrong_at(~std::uint64_t{0} - 255)); }},
      {"misaligned load", FaultKind::misaligned, OpCode::load, 1030,
       [](ListProgram& p) { p.load({}, 1, wrong_at(1030)); }},
      {"misaligned atomic", FaultKind::misaligned, OpCode::atomic, 1028,
       [](ListProgram& p) {
         p.atomic({}, AtomicKind::add, ValueType::u64, 1, ListProgram::constant(1), wrong_at(1028, 8));
       }},
      {"misaligned in shared memory", FaultKind::misaligned, OpCode::store, 1028,
       [](ListProgram& p) { p.store(access_of(8, Space::shared), ListProgram::constant(1), wrong_at(1028, 8)); }},
      {"misaligned target of a copy", FaultKind::misaligned, OpCode::async_copy, 1025,
       [](ListProgram& p) { p.async_copy({}, ListProgram::linear(0, 4), wrong_at(1025)); }},
      {"beyond shared memory", FaultKind::shared_bounds, OpCode::load, kShared,
       [](ListProgram& p) { p.load(access_of(4, Space::shared), 1, wrong_at(kShared)); }},
      {"atomic beyond shared memory", FaultKind::shared_bounds, OpCode::atomic, kShared,
       [](ListProgram& p) {
         p.atomic(access_of(4, Space::shared), AtomicKind::add, ValueType::u32, 1, ListProgram::constant(1),
                  wrong_at(kShared));
       }},
      {"copy beyond shared memory", FaultKind::shared_bounds, OpCode::async_copy, kShared,
       [](ListProgram& p) { p.async_copy({}, ListProgram::linear(0, 4), wrong_at(kShared)); }},
  };
}

// All warps do the step, and would run on for long.
ListProgram with(const Case& one) {
  ListProgram p(8);
  p.compute(Unit::fp32, 1, {}, {});
  one.add(p);
  p.loop(100);
  p.load({}, 2, ListProgram::linear(0, 4), {{1, 1}});
  p.compute(Unit::fp32, 50, {{2, 1}}, {});
  p.end_loop();
  p.exit();
  return p;
}

ListProgram good() {
  ListProgram p(4);
  p.loop(30);
  p.load({}, 1, ListProgram::linear(0, 4));
  p.compute(Unit::fp32, 50, {{1, 1}}, {});
  p.end_loop();
  p.store({}, ListProgram::constant(77), ListProgram::linear(65'536, 4));
  p.exit();
  return p;
}

}  // namespace

TEST_CASE("an operation that cannot be carried out leaves a full record and ends its CTA", "[sm][MEM-05]") {
  for (const TimingMode mode : kModes) {
    for (const Case& one : cases()) {
      CAPTURE(one.name, mode != TimingMode::lt);
      ProgramBench bench({}, mode);
      const std::uint32_t bad = bench.add(with(one), 96, kShared, 1000);
      const std::uint32_t fine = bench.add(good(), 32);
      auto packet = bench.packet(bad, 4, 17, 8);
      packet.id.cta = {1, 2, 3};
      bench.mpc.start(0, packet);
      bench.start(fine, 2, 5);
      heddle::test::run_until_idle();
      REQUIRE(bench.faults.size() == 1);
      const FaultRecord& fault = bench.faults[0];
      CHECK(fault.kind == one.kind);
      CHECK(fault.task == 8);
      CHECK(fault.sm == heddle::test::kBenchSm);
      CHECK(fault.cta == 17);
      CHECK(fault.cta_x == 1);
      CHECK(fault.cta_y == 2);
      CHECK(fault.cta_z == 3);
      CHECK(fault.warp == 1);
      CHECK(fault.lane == one.lane);
      CHECK(fault.operation == one.code);
      CHECK(fault.address == one.address);
      CHECK(fault.cycle >= bench.first_issue());
      CHECK(bench.mpc.exit_of(4).faulted);
      // The other CTA runs on.
      CHECK_FALSE(bench.mpc.exit_of(2).faulted);
      CHECK(bench.l2.get<std::uint32_t>(65'536) == 77);
      CHECK(bench.mpc.exits[0].second.cta_slot == 4);
      CHECK(bench.sm.resident() == 0);
      CHECK(bench.sm.used() == heddle::arch::ResourceVector{});
      CHECK(bench.stat("faults") == 1);
    }
  }
}

TEST_CASE("a fault names the operation, also when the warp has gone on", "[sm][MEM-05]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint64_t address : {std::uint64_t{2}, std::uint64_t{1} << 40}) {
      ProgramBench bench({}, mode);
      ListProgram p(4);
      p.compute(Unit::fp32, 3, {}, {});
      p.step(
          {OpCode::store, Unit::memory, {}, {}, {}},
          [address](const heddle::arch::WarpPlace&, heddle::arch::WarpState&, heddle::arch::Operation& operation) {
            operation.address.fill(address);
          },
          "store x (line 12)");
      p.compute(Unit::fp32, 1000, {}, {});
      p.exit();
      bench.run(p, 20);
      REQUIRE(bench.faults.size() == 1);
      CHECK(bench.faults[0].where == "store x (line 12)");
      CHECK(bench.faults[0].address == address);
      CHECK(bench.faults[0].lane == 0);
    }
  }
}

TEST_CASE("combinations that do not exist are refused", "[sm][MEM-05]") {
  const auto refuses = [](auto&& add) {
    ProgramBench bench;
    ListProgram p(300);
    add(p);
    p.exit();
    bench.run(p, 128, kShared);
    return bench.faults.size() == 1 && bench.faults[0].kind == FaultKind::unsupported && bench.mpc.exit_of(0).faulted;
  };
  CHECK(refuses([](ListProgram& p) {
    p.atomic({}, AtomicKind::bit_and, ValueType::f32, 1, ListProgram::constant(1), ListProgram::linear(0, 4));
  }));
  CHECK(refuses([](ListProgram& p) { p.load(access_of(3), 1, ListProgram::constant(0)); }));
  CHECK(refuses([](ListProgram& p) { p.load(access_of(32), 1, ListProgram::constant(0)); }));
  CHECK(refuses([](ListProgram& p) {
    p.async_copy(access_of(4, Space::shared), ListProgram::linear(0, 4), ListProgram::linear(0, 4));
  }));
  MatmulTile tile;
  tile.n = 12;
  CHECK(refuses([&tile](ListProgram& p) { p.matmul(tile, 0); }));
}

TEST_CASE("a matrix multiply beyond shared memory is a fault", "[sm][MEM-05]") {
  MatmulTile tile;
  tile.n = 8;
  tile.a_pitch = 32;
  tile.b_pitch = 16;
  tile.b = kShared - 16 * 16 + 2;
  ProgramBench bench;
  ListProgram p(8);
  p.matmul(tile, 0);
  p.exit();
  bench.run(p, 128, kShared);
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == FaultKind::shared_bounds);
}

TEST_CASE("barriers that cannot open are faults", "[sm][MEM-05]") {
  const auto faults = [](std::uint32_t number, std::uint32_t threads, bool one_leaves) {
    ProgramBench bench;
    ListProgram p(2);
    const std::uint32_t past = 2;
    if (one_leaves) {
      p.branch(past, [](const Warp& w) { return w.place.warp == 0; }, {});
      p.barrier(number, threads);
    } else {
      p.barrier(number, threads);
    }
    p.exit();
    bench.run(p, 128);
    if (bench.faults.empty()) return false;
    CHECK(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == FaultKind::barrier);
    return true;
  };
  CHECK(faults(16, 0, false));
  CHECK(faults(0, 48, false));
  CHECK(faults(0, 160, false));
  CHECK(faults(3, 128, true));
  CHECK_FALSE(faults(15, 0, true));
  CHECK_FALSE(faults(15, 96, true));
  CHECK_FALSE(faults(0, 64, false));
}

TEST_CASE("an abort ends the CTAs of its operation, and those that come later", "[sm][MEM-05]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    ListProgram forever(4);
    forever.loop(100'000);
    forever.load({}, 1, ListProgram::linear(0, 4));
    forever.store({}, ListProgram::constant(3), ListProgram::linear(4096, 4));
    forever.compute(Unit::fp32, 5, {{1, 1}}, {});
    forever.barrier();
    forever.end_loop();
    forever.exit();
    const std::uint32_t code = bench.add(forever, 128, 1024);
    const std::uint32_t fine = bench.add(good(), 32);
    bench.mpc.start(0, bench.packet(code, 0, 0, 5));
    bench.mpc.start(0, bench.packet(code, 1, 1, 5));
    bench.mpc.start(0, bench.packet(fine, 2, 0, 6));
    bench.mpc.start(700, bench.packet(code, 3, 2, 5));
    bench.mpc.abort(500, 5);
    bench.mpc.abort(510, 5);
    heddle::test::run_until_idle();
    CHECK(bench.faults.empty());
    REQUIRE(bench.mpc.exits.size() == 4);
    for (const std::uint32_t slot : {0U, 1U, 3U}) CHECK(bench.mpc.exit_of(slot).faulted);
    CHECK_FALSE(bench.mpc.exit_of(2).faulted);
    const Cycle links = mode != TimingMode::lt ? 2 * heddle::test::ProgramMpc::kDistance : 0;
    // Those that run wait for their accesses, one that comes later has none.
    for (const auto& [cycle, exit] : bench.mpc.exits) {
      if (exit.cta_slot == 2) continue;
      if (exit.cta_slot == 3) CHECK(cycle == 700 + links);
      if (exit.cta_slot != 3) CHECK(cycle >= 500 + links);
      if (exit.cta_slot != 3) CHECK(cycle <= 500 + links + 300);
    }
    CHECK(bench.sm.resident() == 0);
    // The slots are as good as new: the same program under another number runs, and gets no late response.
    bench.mpc.start(5000 + bench.domain.now(), bench.packet(fine, 0, 0, 7));
    heddle::test::run_until_idle();
    CHECK_FALSE(bench.mpc.exits.back().second.faulted);
  }
}

TEST_CASE("an abort ends CTAs that run for a duration, and those that come later", "[sm][MEM-05][PKT-14]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    const std::uint32_t size = bench.add(good(), 32);  // what such a CTA takes
    const auto timed = [&](std::uint32_t slot, std::uint32_t operation, std::uint64_t cycles) {
      auto packet = bench.packet(size, slot, slot, operation);
      packet.code = heddle::arch::kNoCode;
      packet.duration = {cycles, cycles};
      return packet;
    };
    bench.mpc.start(0, timed(0, 5, 1'000'000));
    bench.mpc.start(0, timed(1, 6, 900));
    bench.mpc.start(0, timed(2, 5, 300));
    bench.mpc.start(700, timed(3, 5, 1'000'000));
    bench.mpc.abort(500, 5);
    bench.mpc.abort(510, 5);
    // In the slot of the first one, beyond the end that this would have had.
    bench.mpc.start(600, timed(0, 7, 2'000'000));
    heddle::test::run_until_idle();
    REQUIRE(bench.mpc.exits.size() == 5);
    const Cycle links = mode != TimingMode::lt ? 2 * heddle::test::ProgramMpc::kDistance : 0;
    std::map<std::uint32_t, Cycle> ended_itself;  // by operation, the last one
    for (const auto& [cycle, exit] : bench.mpc.exits) {
      CAPTURE(exit.cta_slot, cycle);
      const bool aborted = exit.tag.operation == 5 && exit.cta_slot != 2;
      CHECK(exit.faulted == aborted);
      if (!aborted) ended_itself[exit.tag.operation] = cycle;
      if (aborted && exit.cta_slot == 0) CHECK(cycle == 500 + links);
      if (exit.cta_slot == 3) CHECK(cycle == 700 + links);
    }
    CHECK(ended_itself[7] - (600 + 2'000'000) == ended_itself[6] - 900);
    CHECK(bench.sm.resident() == 0);
  }
}

TEST_CASE("an abort reaches a CTA that is still on its way", "[sm][MEM-05]") {
  ProgramBench bench;
  const std::uint32_t code = bench.add(good(), 32);
  bench.mpc.start(100, bench.packet(code));
  bench.mpc.abort(99, 5);
  heddle::test::run_until_idle();
  CHECK(bench.mpc.exit_of(0).faulted);
  CHECK(bench.l2.seen.empty());
}

TEST_CASE("a reset SM starts afresh, whatever was under way", "[sm]") {
  ProgramBench bench;
  const std::uint32_t code = bench.add(good(), 512, 1024);
  std::size_t requests = 0;
  for (const double stop : {5.0, 27.0, 45.0, 100.0, 240.0, 300.0, 700.0, 1500.0}) {
    CAPTURE(stop);
    bench.start(code, 0, 0, 0);
    bench.start(code, 1, 1, 20);
    bench.l2.room = 3;
    heddle::test::run_until(sc_core::sc_time_stamp() + sc_core::sc_time(stop, sc_core::SC_NS));
    requests += bench.l2.seen.size();
    bench.domain.reset();
    CHECK(bench.sm.resident() == 0);
    CHECK(bench.sm.used() == heddle::arch::ResourceVector{});
    bench.l2.room = 1000;
    bench.l2.seen.clear();
    std::fill(bench.l2.bytes.begin(), bench.l2.bytes.end(), std::uint8_t{0});
    bench.start(code, 0, 0, 0);
    heddle::test::run_until_idle();
    REQUIRE(bench.mpc.exits.size() == 1);
    CHECK_FALSE(bench.mpc.exits[0].second.faulted);
    CHECK(bench.mpc.exits[0].first == [] {
      ProgramBench fresh;
      fresh.start(fresh.add(good(), 512, 1024));
      heddle::test::run_until_idle();
      return fresh.mpc.exits[0].first;
    }());
    CHECK(bench.l2.get<std::uint32_t>(65'536) == 77);
    bench.domain.reset();
  }
  CHECK(requests > 0);
}

TEST_CASE("a hang is explained by what its warps wait for", "[sm]") {
  const auto chain = [](auto&& add, std::uint32_t threads) {
    ProgramBench bench;
    bench.observation.labels.set(5, "gemm");
    bench.l2.silent = true;
    ListProgram p(4);
    add(p);
    p.exit();
    bench.start(bench.add(p, threads, 256));
    heddle::test::run_until_idle();
    CHECK(bench.mpc.exits.empty());
    heddle::WaitGraph graph;
    bench.domain.collect_waits(graph);
    std::string text;
    for (const std::string& line : graph.chain()) text += line + "\n";
    return text;
  };
  const std::string barrier = chain(
      [](ListProgram& p) {
        p.branch(3, [](const Warp& w) { return w.place.warp != 2; }, {});
        p.load({}, 1, ListProgram::linear(0, 4));
        p.compute(Unit::fp32, 1, {{1, 1}}, {});
        p.barrier(6);
      },
      96);
  CHECK_THAT(barrier, Contains("gemm") && Contains("barrier 6") && Contains("2 of 3") &&
                          Contains("SM 3, CTA 0, warp 2") && Contains("1 requests of SM 3"));
  CHECK_THAT(chain(
                 [](ListProgram& p) {
                   p.store({}, ListProgram::constant(0), ListProgram::linear(0, 4));
                   p.fence(heddle::arch::Order::release, heddle::arch::Scope::gpu);
                 },
                 32),
             Contains("acknowledgement"));
  CHECK_THAT(chain([](ListProgram& p) { p.fence(heddle::arch::Order::release, heddle::arch::Scope::system); }, 32),
             Contains("write-backs"));
  CHECK_THAT(chain([](ListProgram& p) { p.fence(heddle::arch::Order::release, heddle::arch::Scope::gpu); }, 32),
             Contains("in a fence, for its answer"));
  CHECK_THAT(chain(
                 [](ListProgram& p) {
                   p.async_copy({}, ListProgram::linear(0, 4), ListProgram::linear(0, 4));
                   p.async_commit();
                   p.async_wait(0);
                 },
                 32),
             Contains("1 groups"));
  CHECK_THAT(chain(
                 [](ListProgram& p) {
                   Access access;
                   access.order = heddle::arch::Order::acquire;
                   p.load(access, 1, ListProgram::linear(0, 4));
                 },
                 32),
             Contains("acquire"));
  CHECK_THAT(chain([](ListProgram& p) { p.store({}, ListProgram::constant(0), ListProgram::linear(0, 4)); }, 32),
             Contains("1 memory accesses"));
}

}  // namespace sm_fault_test

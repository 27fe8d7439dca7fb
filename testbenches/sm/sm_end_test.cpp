// How CTAs end early, and what they leave to those beside and behind them.
#include <algorithm>
#include <cstdint>

#include <catch2/catch.hpp>

#include "sm/program_bench.h"

namespace sm_end_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::AtomicKind;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::sm::SmParams;
using heddle::sm::WarpPolicy;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::ProgramMpc;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

ListProgram computes(Unit unit, std::uint32_t count) {
  ListProgram p(4);
  p.compute(unit, count, {}, {{0, 1}});
  p.exit();
  return p;
}

Cycle link_of(const ProgramBench& bench) { return bench.domain.mode() != TimingMode::lt ? ProgramMpc::kDistance : 0; }

// Everything that changes memory, for a long time.
ListProgram changes() {
  ListProgram p(8);
  Access strong;
  strong.order = Order::release;
  strong.scope = Scope::system;
  p.loop(50);
  p.store({}, ListProgram::constant(1), ListProgram::linear(0, 128));
  p.load({}, 1, ListProgram::linear(32'768, 4));
  p.atomic({}, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1), ListProgram::linear(8192, 4));
  p.async_copy({}, ListProgram::linear(16'384, 4), ListProgram::linear(0, 4));
  p.async_commit();
  p.fence(Order::acquire_release, Scope::gpu);
  p.atomic(strong, AtomicKind::add, ValueType::u32, 2, ListProgram::constant(1), ListProgram::linear(12'288, 128));
  p.async_wait(0);
  p.barrier();
  p.end_loop();
  p.exit();
  return p;
}

}  // namespace

TEST_CASE("a warp that comes later does not wait for the whole of a computation", "[sm][SM-01][SM-03]") {
  // The unit of the long one takes an instruction every eighth cycle: the others are free for anybody.
  for (const TimingMode mode : kModes) {
    for (const WarpPolicy policy : {WarpPolicy::greedy_oldest, WarpPolicy::round_robin}) {
      SmParams params;
      params.issue.policy = policy;
      ProgramBench bench(params, mode);
      const std::uint32_t busy = bench.add(computes(Unit::sfu, 10'000), 128);
      const std::uint32_t brief = bench.add(computes(Unit::fp32, 100), 128);
      bench.start(busy, 0);
      bench.start(brief, 1, 1, 1000);
      heddle::test::run_until_idle();
      REQUIRE(bench.mpc.exits.size() == 2);
      CHECK(bench.mpc.exits[0].second.cta_slot == 1);
      CHECK(bench.mpc.exits[0].first < 1000 + 700);
      // The long one hardly gets slower by it.
      const Cycle cycles = bench.mpc.exits[1].first - link_of(bench) - bench.first_issue();
      CHECK(cycles >= 9'999 * 8 + 2);
      CHECK(cycles < 10'000 * 8 + 32);
    }
  }
}

TEST_CASE("what a killed warp would have issued keeps nobody waiting", "[sm][SM-01]") {
  for (const TimingMode mode : kModes) {
    SmParams params;
    params.issue.burst = 20'000;
    ProgramBench bench(params, mode);
    const std::uint32_t busy = bench.add(computes(Unit::sfu, 10'000), 128);
    const std::uint32_t brief = bench.add(computes(Unit::sfu, 10), 128);
    bench.mpc.start(0, bench.packet(busy, 0, 0, 5));
    bench.mpc.start(300, bench.packet(brief, 1, 1, 6));
    bench.mpc.abort(500, 5);
    heddle::test::run_until_idle();
    REQUIRE(bench.mpc.exits.size() == 2);
    CHECK(bench.mpc.exit_of(0).faulted);
    CHECK_FALSE(bench.mpc.exit_of(1).faulted);
    CHECK(bench.mpc.exits[1].first < 500 + 10 * 8 + 50);
  }
}

TEST_CASE("a CTA that is stopped ends when nothing of it is under way", "[sm][MEM-05]") {
  for (const TimingMode mode : kModes) {
    for (const std::size_t room : {std::size_t{1}, std::size_t{1000}}) {
      for (Cycle abort = 20; abort < 3000; abort += 67) {
        CAPTURE(mode != TimingMode::lt, room, abort);
        ProgramBench bench({}, mode);
        bench.l2.room = room;
        bench.l2.latency = 50;
        const std::uint32_t code = bench.add(changes(), 64, 1024);
        bench.start(code);
        bench.mpc.abort(abort, 5);
        bench.mpc.abort(abort + 30, 5);
        heddle::test::run_until_idle();
        REQUIRE(bench.mpc.exits.size() == 1);
        CHECK(bench.mpc.exits[0].second.faulted);
        CHECK(bench.faults.empty());
        const Cycle end = bench.mpc.exits[0].first - link_of(bench);
        if (!bench.l2.seen.empty()) CHECK(end >= bench.l2.seen.back().arrival + bench.l2.latency);
        CHECK(end >= abort);
        CHECK(bench.sm.resident() == 0);
        CHECK(bench.sm.used() == heddle::arch::ResourceVector{});
        // The slot is as good as new.
        bench.mpc.start(bench.domain.now() + 10, bench.packet(code, 0, 0, 6));
        heddle::test::run_until_idle();
        REQUIRE(bench.mpc.exits.size() == 2);
        CHECK_FALSE(bench.mpc.exits[1].second.faulted);
      }
    }
  }
}

TEST_CASE("a CTA with several faults has one record, and ends behind all its stores", "[sm][MEM-05]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t wait : {1U, 200U}) {
      ProgramBench bench({}, mode);
      bench.l2.extra = [](std::uint64_t number) { return 100 * (number % 7); };
      ListProgram p(4);
      p.store({}, ListProgram::constant(1), ListProgram::constant(std::uint64_t{1} << 30));
      p.load({}, 1, ListProgram::constant(std::uint64_t{1} << 31));
      for (std::uint64_t i = 0; i < 3; ++i) p.store({}, ListProgram::constant(7), ListProgram::linear(4096 * i, 128));
      p.compute(Unit::fp32, wait, {}, {});
      p.store({}, ListProgram::constant(1), ListProgram::constant(std::uint64_t{1} << 30));
      p.exit();
      bench.start(bench.add(p, 64));
      heddle::test::run_until_idle();
      CHECK(bench.faults.size() == 1);
      CHECK(bench.stat("faults") == 1);
      REQUIRE(bench.mpc.exits.size() == 1);
      CHECK(bench.mpc.exits[0].second.faulted);
      const Cycle end = bench.mpc.exits[0].first - link_of(bench);
      CHECK(end >= bench.l2.seen.back().arrival + bench.l2.latency);
      CHECK(bench.l2.get<std::uint32_t>(4096 * 2 + 31 * 128) == 7);
    }
  }
}

TEST_CASE("a reset forgets a CTA that is ending", "[sm]") {
  ProgramBench bench;
  bench.l2.latency = 5000;
  const std::uint32_t code = bench.add(changes(), 64, 1024);
  bench.start(code);
  bench.mpc.abort(100, 5);
  heddle::test::run_until(sc_core::sc_time_stamp() + sc_core::sc_time(1000, sc_core::SC_NS));
  CHECK(bench.mpc.exits.empty());
  CHECK(bench.sm.resident() == 1);
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  CHECK_FALSE(graph.chain().empty());
  bench.domain.reset();
  CHECK(bench.sm.resident() == 0);
  bench.l2.latency = 50;
  bench.start(code);
  heddle::test::run_until_idle();
  REQUIRE(bench.mpc.exits.size() == 1);
  CHECK_FALSE(bench.mpc.exits[0].second.faulted);
}

TEST_CASE("what waits for an answer waits for its arrival", "[sm][MEM-06][SM-04]") {
  // Responses are given ahead of their arrival, by the crossbar as well.
  for (const TimingMode mode : kModes) {
    for (std::uint32_t between = 1; between < 300; between += 3) {
      CAPTURE(mode != TimingMode::lt, between);
      const auto distance = [&](auto&& waits) {
        ProgramBench bench({}, mode);
        bench.l2.ahead = 40;
        ListProgram p(4);
        waits(p);
        p.exit();
        bench.run(p, 32, 1024);
        // The second, or behind the request of a fence the third.
        REQUIRE(bench.l2.seen.back().command == tlm::TLM_WRITE_COMMAND);
        return bench.l2.seen.back().arrival - bench.l2.seen.front().arrival;
      };
      const Cycle copied = distance([between](ListProgram& p) {
        p.async_copy({}, ListProgram::linear(0, 4), ListProgram::linear(0, 4));
        p.async_commit();
        p.compute(Unit::fp32, between, {}, {});
        p.async_wait(0);
        p.store({}, ListProgram::constant(1), ListProgram::linear(4096, 4));
      });
      CHECK(copied >= 200);
      const Cycle released = distance([between](ListProgram& p) {
        p.store({}, ListProgram::constant(1), ListProgram::linear(0, 4));
        p.compute(Unit::fp32, between, {}, {});
        p.fence(Order::release, Scope::gpu);
        p.store({}, ListProgram::constant(1), ListProgram::linear(4096, 4));
      });
      CHECK(released >= 400);  // for the acknowledgement, and then of the fence's own request
      CHECK(copied <= std::max<Cycle>(between, 200) + 60);
      CHECK(released <= std::max<Cycle>(between, 200) + 200 + 100);
    }
  }
}

TEST_CASE("a wait for copies leaves the younger groups open", "[sm][SM-04]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    bench.l2.extra = [](std::uint64_t number) { return number == 1 ? Cycle{5000} : Cycle{0}; };
    ListProgram p(4);
    for (const std::uint64_t group : {0U, 1U}) {
      p.async_copy({}, ListProgram::linear(4096 * group, 4), ListProgram::linear(128 * group, 4));
      p.async_commit();
    }
    p.async_wait(1);
    p.store({}, ListProgram::constant(1), ListProgram::linear(8192, 4));
    p.async_wait(0);
    p.store({}, ListProgram::constant(2), ListProgram::linear(8192, 4));
    p.exit();
    bench.run(p, 32, 1024);
    REQUIRE(bench.l2.seen.size() == 4);
    CHECK(bench.l2.seen[2].arrival >= bench.l2.seen[0].arrival + 200);
    CHECK(bench.l2.seen[2].arrival < bench.l2.seen[0].arrival + 300);
    if (mode == TimingMode::at) CHECK(bench.l2.seen[3].arrival >= bench.l2.seen[1].arrival + 5200);
  }
}

TEST_CASE("strong copies deliver what they read", "[sm][MEM-06][SM-04]") {
  for (const TimingMode mode : kModes) {
    for (const Order order : {Order::relaxed, Order::acquire}) {
      for (const std::uint64_t stride : {4U, 132U}) {
        ProgramBench bench({}, mode);
        for (std::uint32_t i = 0; i < 2048; ++i) bench.l2.put<std::uint32_t>(4 * i, 3 * i + 1);
        Access access;
        access.order = order;
        ListProgram p(4);
        p.async_copy(access, ListProgram::linear(0, stride), ListProgram::linear(256, 4));
        p.async_commit();
        p.async_wait(0);
        Access shared;
        shared.space = Space::shared;
        p.load(shared, 1, ListProgram::linear(256, 4));
        p.store_registers({}, 1, ListProgram::linear(16'384, 4));
        p.exit();
        bench.run(p, 32, 1024);
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          REQUIRE(bench.l2.get<std::uint32_t>(16'384 + 4 * lane) == 3 * (stride / 4 * lane) + 1);
        }
      }
    }
  }
}

}  // namespace sm_end_test

// What orders memory accesses (MEM-06), seen by an SM's memory.
#include <cstdint>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "sm/program_bench.h"

namespace sm_order_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::AtomicKind;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::protocol::MemoryAction;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

Access one(Order order = Order::weak, Scope scope = Scope::gpu) {
  Access access;
  access.order = order;
  access.scope = scope;
  access.lanes = ListProgram::only(0);
  return access;
}

}  // namespace

TEST_CASE("a release waits for the acknowledgement of what was written before", "[sm][MEM-06]") {
  for (const Scope scope : {Scope::cta, Scope::cluster, Scope::gpu, Scope::system}) {
    for (const bool by_fence : {true, false}) {
      CAPTURE(heddle::arch::scope_name(scope), by_fence);
      ProgramBench bench;
      bench.l2.latency = 300;
      ListProgram p(4);
      p.store(one(), ListProgram::constant(1), ListProgram::constant(0));
      if (by_fence) p.fence(Order::release, scope);
      p.store(one(by_fence ? Order::relaxed : Order::release, scope), ListProgram::constant(2),
              ListProgram::constant(4096));
      p.exit();
      bench.run(p, 32);
      const auto& seen = bench.l2.seen;
      const std::size_t flushes = scope == Scope::system ? bench.map.slices() : 0;
      const std::size_t fences = scope == Scope::cluster || scope == Scope::gpu ? 1 : 0;
      REQUIRE(seen.size() == 2 + flushes + fences);
      CHECK(bench.l2.count(MemoryAction::write_back) == flushes);
      CHECK(seen.back().address == 4096);
      const Cycle between = seen.back().arrival - seen.front().arrival;
      const Cycle drain = bench.params.memory.fence;
      if (scope == Scope::cta) CHECK(between == (by_fence ? drain : 0) + 1);
      // Twice to the L2: the store's acknowledgement, and the fence.
      if (scope == Scope::cluster || scope == Scope::gpu) CHECK(between >= 600);
      if (scope == Scope::cluster || scope == Scope::gpu) CHECK(between < 700);
      if (scope == Scope::system) CHECK(between >= 600);
      // Every slice is asked once.
      std::uint32_t slices = 0;
      for (const auto& request : seen) {
        if (request.action == MemoryAction::write_back) slices |= 1U << bench.map.slice_of(request.address);
      }
      CHECK(slices == (scope == Scope::system ? 0b11111U : 0U));
    }
  }
}

TEST_CASE("a release waits for writes of other warps of the SM", "[sm][MEM-06]") {
  ProgramBench bench;
  bench.l2.latency = 300;
  bench.l2.extra = [](std::uint64_t number) { return number == 0 ? Cycle{2000} : Cycle{0}; };
  ListProgram writer(4);
  writer.store(one(), ListProgram::constant(1), ListProgram::constant(0));
  writer.exit();
  ListProgram releaser(4);
  releaser.compute(Unit::fp32, 100, {}, {});
  releaser.store(one(Order::release), ListProgram::constant(2), ListProgram::constant(4096));
  releaser.compute(Unit::fp32, 1, {}, {});
  releaser.exit();
  const std::uint32_t a = bench.add(writer, 32);
  const std::uint32_t b = bench.add(releaser, 32);
  bench.start(a, 0);
  bench.start(b, 1, 1);
  heddle::test::run_until_idle();
  REQUIRE(bench.l2.seen.size() == 3);  // the second is the fence of the release
  CHECK(bench.l2.seen[1].arrival >= bench.l2.seen[0].arrival + 2300);
  CHECK(bench.l2.seen[2].arrival >= bench.l2.seen[1].arrival + 300);
}

TEST_CASE("an acquire forgets what the L1 holds, a weak access does not", "[sm][MEM-06]") {
  for (const TimingMode mode : kModes) {
    const auto loads = [mode](auto&& between) {
      ProgramBench bench({}, mode);
      ListProgram p(8);
      p.load(one(), 1, ListProgram::constant(0));
      p.compute(Unit::fp32, 1, {{1, 1}}, {});
      between(p);
      p.load(one(), 3, ListProgram::constant(0));
      p.exit();
      bench.run(p, 32);
      std::size_t count = 0;
      for (const auto& request : bench.l2.seen) {
        count += request.address == 0 && request.command == tlm::TLM_READ_COMMAND ? 1 : 0;
      }
      return count;
    };
    CHECK(loads([](ListProgram&) {}) == 1);
    CHECK(loads([](ListProgram& p) { p.fence(Order::release, Scope::gpu); }) == 1);
    CHECK(loads([](ListProgram& p) { p.fence(Order::acquire, Scope::cta); }) == 1);
    CHECK(loads([](ListProgram& p) { p.load(one(Order::relaxed), 2, ListProgram::constant(4096)); }) == 1);
    CHECK(loads([](ListProgram& p) { p.load(one(Order::acquire, Scope::cta), 2, ListProgram::constant(4096)); }) == 1);
    for (const Scope scope : {Scope::cluster, Scope::gpu, Scope::system}) {
      CHECK(loads([scope](ListProgram& p) { p.fence(Order::acquire, scope); }) == 2);
      CHECK(loads([scope](ListProgram& p) { p.fence(Order::acquire_release, scope); }) == 2);
      CHECK(loads([scope](ListProgram& p) { p.load(one(Order::acquire, scope), 2, ListProgram::constant(4096)); }) ==
            2);
      CHECK(loads([scope](ListProgram& p) {
              p.atomic(one(Order::acquire, scope), AtomicKind::add, ValueType::u32, 2, ListProgram::constant(0),
                       ListProgram::constant(4096));
            }) == 2);
      // A strong access to the very line: the copy here may be old.
      CHECK(loads([scope](ListProgram& p) { p.load(one(Order::relaxed, scope), 2, ListProgram::constant(0)); }) == 3);
    }
  }
}

TEST_CASE("what follows an acquire waits for its value", "[sm][MEM-06]") {
  ProgramBench bench;
  bench.l2.latency = 300;
  ListProgram p(8);
  p.load(one(Order::acquire), 1, ListProgram::constant(0));
  p.load(one(), 2, ListProgram::constant(4096));  // does not need the value
  p.exit();
  bench.run(p, 32);
  REQUIRE(bench.l2.seen.size() == 2);
  CHECK(bench.l2.seen[1].arrival >= bench.l2.seen[0].arrival + 300);
}

TEST_CASE("a read under way when an acquire happens is not kept", "[sm][MEM-06]") {
  // One warp's weak load is on its way while another acquires; then the value changes, and both load again.
  ProgramBench bench;
  bench.l2.latency = 500;
  bench.l2.put<std::uint32_t>(0, 1);
  ListProgram p(8);
  const auto end = [](ListProgram& q) { q.exit(); };
  p.load(one(), 1, ListProgram::constant(0));
  p.exit();
  ListProgram q(8);
  q.compute(Unit::fp32, 50, {}, {});
  q.fence(Order::acquire, Scope::gpu);
  q.load(one(), 2, ListProgram::constant(0));  // must not be served by the read of before
  end(q);
  const std::uint32_t a = bench.add(p, 32);
  const std::uint32_t b = bench.add(q, 32);
  bench.start(a, 0);
  bench.start(b, 1, 1);
  heddle::test::run_until_idle();
  REQUIRE(bench.l2.seen.size() == 3);  // two reads, and the fence between them
  CHECK(bench.l2.seen[1].command == tlm::TLM_IGNORE_COMMAND);
  CHECK(bench.l2.seen[2].command == tlm::TLM_READ_COMMAND);
}

TEST_CASE("a fence with nothing open drains the pipeline, and beyond the CTA goes to the L2 and back", "[sm][MEM-06]") {
  // What an idle SM waits for, from the clock before the fence to the clock behind it, for every order and scope.
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t drain : {1U, 11U, 40U}) {
      for (const Cycle latency : {Cycle{5}, Cycle{240}, Cycle{777}}) {
        heddle::sm::SmParams params;
        params.memory.fence = drain;
        for (const Scope scope : {Scope::cta, Scope::cluster, Scope::gpu, Scope::system}) {
          for (const Order order : {Order::relaxed, Order::acquire, Order::release, Order::acquire_release}) {
            CAPTURE(mode != TimingMode::lt, drain, latency, heddle::arch::scope_name(scope), static_cast<int>(order));
            ProgramBench bench(params, mode);
            bench.l2.latency = latency;
            ListProgram p(8);
            p.special(heddle::arch::SpecialRegister::clock, 0);
            p.fence(order, scope);
            p.special(heddle::arch::SpecialRegister::clock, 2);
            p.store_registers({}, 0, ListProgram::linear(0, 4));
            p.store_registers({}, 2, ListProgram::linear(128, 4));
            p.exit();
            bench.run(p, 32);
            const std::uint32_t took = bench.l2.get<std::uint32_t>(128) - bench.l2.get<std::uint32_t>(0);
            const bool near = scope == Scope::cta || order == Order::relaxed;
            const bool flushes = scope == Scope::system && heddle::arch::releases(order);
            // From the tags on, a request leaves per cycle; the rest of the L1's latency brings the answer.
            const Cycle trip = params.memory.l1_latency + latency + (flushes ? bench.map.slices() - 1 : 0);
            CHECK(took == 1 + drain + (near ? 0 : trip));
          }
        }
      }
    }
  }
}

TEST_CASE("messages pass between warps of an SM at every scope", "[sm][MEM-06]") {
  // CTA 0 writes data, then a flag; CTA 1 waits for the flag and reads the data, which it has read before.
  for (const TimingMode mode : kModes) {
    for (const Scope scope : {Scope::cluster, Scope::gpu, Scope::system}) {
      ProgramBench bench({}, mode);
      bench.l2.extra = [](std::uint64_t number) { return Cycle{number * 37 % 200}; };
      ListProgram writer(4);
      writer.compute(Unit::fp32, 700, {}, {});
      writer.store(one(), ListProgram::constant(42), ListProgram::constant(0));
      writer.store(one(Order::release, scope), ListProgram::constant(1), ListProgram::constant(4096));
      writer.exit();
      ListProgram reader(8);
      reader.load(one(), 1, ListProgram::constant(0));
      const std::uint32_t again = reader.here();
      reader.load(one(Order::acquire, scope), 2, ListProgram::constant(4096));
      reader.branch(again, [](const Warp& w) { return w.reg(2, 0) == 0; }, {{2, 1}});
      reader.load(one(), 3, ListProgram::constant(0));
      reader.store_registers(one(), 3, ListProgram::constant(8192));
      reader.store_registers(one(), 1, ListProgram::constant(8196));
      reader.exit();
      const std::uint32_t a = bench.add(writer, 32);
      const std::uint32_t b = bench.add(reader, 32);
      bench.start(a, 0);
      bench.start(b, 1, 1);
      heddle::test::run_until_idle();
      CHECK(bench.l2.get<std::uint32_t>(8192) == 42);
      CHECK(bench.l2.get<std::uint32_t>(8196) == 0);
    }
  }
}

}  // namespace sm_order_test

// CTAs that have been saved and go wrong afterwards, on the way, or because their shared memory is corrupt (TSK-12).
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/save_bench.h"

namespace sm_save_fault_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::FaultKind;
using heddle::arch::LaunchMode;
using heddle::arch::OpCode;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::test::kSavedTask;
using heddle::test::kSaveMemory;
using heddle::test::ListProgram;
using heddle::test::run_until;
using heddle::test::run_until_idle;
using heddle::test::SaveBench;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint64_t kOut = 0x10000;
constexpr std::uint32_t kThreads = 64;
constexpr std::uint32_t kShared = 2048;
constexpr std::uint32_t kKept = 1024;  // of it

void until(double ns) { run_until(sc_core::sc_time(ns, sc_core::SC_NS)); }

ListProgram::Child child(std::uint32_t stream = 0, LaunchMode mode = LaunchMode::fire_and_forget) {
  return [=](const Warp&, std::uint32_t) {
    heddle::arch::ChildLaunch launch;
    launch.kernel = 0x8000;
    launch.mode = mode;
    launch.stream = stream;
    return launch;
  };
}

Access access(std::uint8_t width = 4, Space space = Space::global) {
  Access result;
  result.width = width;
  result.space = space;
  return result;
}

std::uint64_t own(const Warp& warp, std::uint32_t lane) { return std::uint64_t{4} * warp.thread(lane); }

// The first half of shared memory gets the threads' numbers, the second half is given back; then `rounds` times warp 0
// launches and waits for its child, and warp 1 waits for it at the barrier. A round begins with `first`, and `last` is
// all that comes after the rounds, but for a store of what a thread finds in its word.
ListProgram waits(std::uint32_t rounds, const std::function<void(ListProgram&)>& first,
                  const std::function<void(ListProgram&)>& last) {
  ListProgram p(4);
  p.set(1, [](const Warp& warp, std::uint32_t lane) { return 7 * warp.thread(lane) + 1; });
  p.store(access(4, Space::shared), ListProgram::of_register(1), own, {{1, 1}});
  p.compute(Unit::int32, 500, {}, {});
  p.release_shared(kKept);
  p.loop(rounds);
  first(p);
  const std::uint32_t branch = p.here();
  p.branch(branch + 3, [](const Warp& warp) { return warp.place.warp == 1; }, {});
  p.launch_child(child());
  p.wait_children();
  p.barrier();
  p.end_loop();
  last(p);
  p.load(access(4, Space::shared), 2, own);
  p.store_registers({}, 2, [](const Warp& warp, std::uint32_t lane) { return kOut + own(warp, lane); });
  p.exit();
  return p;
}

void nothing(ListProgram&) {}

void check_results(SaveBench& bench) {
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    REQUIRE(bench.tasks.l2().get<std::uint32_t>(kOut + 4 * i) == 7 * i + 1);
  }
}

struct Case {
  const char* name;
  FaultKind kind;
  OpCode operation;
  std::uint32_t lane;
  std::uint64_t address;
  std::function<void(ListProgram&)> commit;  // one step
};

std::vector<Case> cases() {
  return {
      {"a load beyond memory", FaultKind::address, OpCode::load, 8, kSaveMemory,
       [](ListProgram& p) { p.load(access(), 3, ListProgram::linear(kSaveMemory - 32, 4)); }},
      {"a misaligned store", FaultKind::misaligned, OpCode::store, 1, 0x11002,
       [](ListProgram& p) { p.store(access(), ListProgram::constant(1), ListProgram::linear(0x11000, 2)); }},
      {"shared memory that was given back before", FaultKind::shared_bounds, OpCode::load, 16, kKept,
       [](ListProgram& p) { p.load(access(4, Space::shared), 3, ListProgram::linear(kKept - 64, 4)); }},
      {"a child in a stream that nobody has made", FaultKind::child, OpCode::launch_child, 0, 0x8000,
       [](ListProgram& p) { p.launch_child(child(3, LaunchMode::stream)); }},
  };
}

}  // namespace

TEST_CASE("a CTA that goes wrong after it was saved is stopped, and named as the one that it was", "[sm][TSK-12]") {
  for (const Case& crime : cases()) {
    for (const TimingMode mode : kModes) {
      for (const std::uint32_t rounds : {1U, 2U}) {
        // Warp 0 waited for its children, warp 1 at the barrier.
        const std::uint32_t guilty = rounds % 2;
        CAPTURE(crime.name, mode != TimingMode::lt, rounds);
        SaveBench bench(mode);
        bench.tasks.child_time = 6000;
        bench.start(waits(rounds, nothing,
                          [&](ListProgram& p) {
                            p.branch(p.here() + 2, [=](const Warp& warp) { return warp.place.warp != guilty; }, {});
                            crime.commit(p);
                          }),
                    kThreads, kShared);
        run_until_idle();
        REQUIRE(bench.faults.size() == 1);
        const heddle::arch::FaultRecord& fault = bench.faults[0];
        CHECK(fault.kind == crime.kind);
        CHECK(fault.task == kSavedTask);
        CHECK(fault.sm == 4);
        CHECK(fault.cta == 3);
        CHECK(fault.cta_x == 3);
        CHECK(fault.warp == guilty);
        CHECK(fault.lane == crime.lane);
        CHECK(fault.operation == crime.operation);
        CHECK(fault.address == crime.address);
        CHECK(bench.listener.text == (rounds == 1 ? "SsrE" : "SsrsrE"));
        bench.check_over(true);
      }
    }
  }
}

TEST_CASE("a CTA that goes wrong while a child of it runs leaves its context to the child", "[sm][TSK-12]") {
  for (const TimingMode mode : kModes) {
    CAPTURE(mode != TimingMode::lt);
    SaveBench bench(mode);
    bench.tasks.child_time = 6000;
    bench.start(waits(1, nothing,
                      [](ListProgram& p) {
                        p.launch_child(child());
                        p.load(access(), 3, ListProgram::linear(kSaveMemory, 4));
                      }),
                kThreads, kShared);
    until(11'000);
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.tasks.left == 1);
    CHECK(bench.tasks.closed == 0);
    run_until_idle();
    bench.check_over(true);
    bench.check_chunks();
  }
}

TEST_CASE("a CTA that waits is not saved while an access of it may still fail", "[sm][TSK-12]") {
  SaveBench bench;
  bench.tasks.child_time = 30'000;
  bench.a.l2.extra = [&bench](std::uint64_t number) {
    return bench.a.l2.seen[number].address >= kSaveMemory ? Cycle{9000} : Cycle{0};
  };
  const auto store = [](ListProgram& p) {
    p.branch(p.here() + 3, [](const Warp& warp) { return warp.place.warp == 0; }, {});
    p.compute(Unit::int32, 2000);  // by then the other warp waits
    p.store(access(), ListProgram::constant(1), ListProgram::linear(kSaveMemory, 4));
  };
  bench.start(waits(1, store, nothing), kThreads, kShared);
  until(8000);
  REQUIRE(bench.listener.text == "S");
  REQUIRE(bench.faults.empty());
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == FaultKind::address);
  CHECK(bench.faults[0].warp == 1);
  CHECK(bench.faults[0].cycle > 9000);
  CHECK(bench.listener.text == "SE");
  bench.check_over(true);
}

// The home of its context is moving to memory, and whoever wakes the CTA finds it there, when it is killed: it ends
// where it comes back, and not before it has left.
TEST_CASE("a CTA that is killed and woken while its home moves leaves before it comes back", "[sm][TSK-12]") {
  constexpr Cycle kFar = 400;          // the answers of memory take so long,
  constexpr Cycle kAgain = kFar + 20;  // and as long it takes to launch a CTA again
  const auto prepare = [](SaveBench& bench, Cycle child_time) {
    bench.a.l2.latency = kFar;
    bench.b.l2.latency = 10;
    bench.tasks.restore_after = kAgain;
    bench.tasks.child_time = child_time;
    bench.start(waits(1, nothing, nothing), kThreads, kShared);
  };
  constexpr Cycle kLong = 50'000;
  Cycle moves = 0;  // when the home does, in memory
  Cycle begin = 0;  // of the child
  {
    SaveBench bench;
    prepare(bench, kLong);
    run_until_idle();
    REQUIRE(bench.listener.text == "SsrE");
    begin = bench.b.l2.seen.at(0).arrival - kAgain - kLong;
    const std::uint64_t home = bench.memory.contexts.pool.record(0) + heddle::arch::context::kHome;
    for (const auto& seen : bench.a.l2.seen) {
      const bool atomic = seen.action == heddle::protocol::MemoryAction::atomic;
      if (atomic && heddle::arch::line_of(seen.address) == heddle::arch::line_of(home)) moves = seen.arrival;
    }
  }
  std::uint32_t found = 0;
  for (Cycle late = 0; late < 80; ++late) {
    const Cycle child_time = moves - begin + late;
    CAPTURE(child_time);
    SaveBench bench;
    prepare(bench, child_time);
    for (auto* node : {&bench.a, &bench.b}) node->mpc.abort(moves + 10, kSavedTask);
    run_until_idle();
    REQUIRE(bench.faults.empty());
    const std::string& text = bench.listener.text;
    REQUIRE((text == "SE" || text == "SsrE"));
    found += bench.tasks.restores;
    REQUIRE(bench.tasks.left == 1);
    REQUIRE(bench.tasks.closed == 1);
    bench.check_chunks();
    REQUIRE(bench.a.sm.quiescent());
    REQUIRE(bench.b.sm.quiescent());
  }
  CHECK(found > 5);
}

TEST_CASE("a CTA with corrupt shared memory stays where that is known", "[sm][TSK-12]") {
  for (const TimingMode mode : kModes) {
    CAPTURE(mode != TimingMode::lt);
    SaveBench bench(mode);
    bench.tasks.child_time = 20'000;
    bench.start(waits(1, nothing, nothing), kThreads, kShared);
    until(200);
    bench.a.sm.poison_shared(0, 4 * 40, 4);
    until(15'000);
    REQUIRE(bench.listener.text == "S");
    CHECK(bench.stat("sm0.nested.saves") == 0);
    bench.check_chunks();
    run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == FaultKind::poison);
    CHECK(bench.faults[0].task == kSavedTask);
    CHECK(bench.faults[0].warp == 1);
    CHECK(bench.faults[0].lane == 8);
    CHECK(bench.faults[0].address == 4 * 40);
    CHECK(bench.tasks.wakes == 1);
    CHECK(bench.listener.text == "SE");
    bench.check_over(true);
  }
}

TEST_CASE("corrupt bytes that have been given back or written again do not keep a CTA", "[sm][TSK-12]") {
  const bool given_back = GENERATE(true, false);
  SaveBench bench;
  bench.tasks.child_time = 6000;
  // It waits twice, writes, and waits again.
  bench.start(waits(2, nothing,
                    [](ListProgram& p) {
                      p.store(access(4, Space::shared), ListProgram::of_register(1), own, {{1, 1}});
                      p.barrier();
                      const std::uint32_t branch = p.here();
                      p.branch(branch + 3, [](const Warp& warp) { return warp.place.warp == 1; }, {});
                      p.launch_child(child());
                      p.wait_children();
                      p.barrier();
                    }),
              kThreads, kShared);
  until(200);
  // A granule of poison does not reach over the end of what is kept.
  bench.a.sm.poison_shared(0, given_back ? kKept : 0, given_back ? kShared - kKept : 4 * kThreads);
  run_until_idle();
  CHECK(bench.faults.empty());
  CHECK(bench.listener.text == (given_back ? "SsrsrsrE" : "SsrE"));
  bench.check_over();
  check_results(bench);
}

TEST_CASE("a CTA comes back into a slot whose shared memory was corrupt before, and is sound", "[sm][TSK-12]") {
  SaveBench bench;
  bench.tasks.child_time = 10'000;
  bench.start(waits(2, nothing, nothing), kThreads, kShared);
  ListProgram other(2);
  other.compute(Unit::fp32, 3000, {}, {});
  other.exit();
  heddle::arch::KernelShape shape;
  shape.block = {kThreads, 1, 1};
  shape.shared_bytes = kShared;
  heddle::protocol::CtaStartPacket packet;
  packet.tag.operation = 6;
  packet.cta_slot = heddle::protocol::CtaSlot(1);  // that of the CTA that comes back
  packet.need = heddle::arch::need_of(bench.params.limits, shape);
  packet.code = bench.code.add(std::make_shared<ListProgram>(other), shape);
  bench.b.mpc.start(0, packet);
  until(1000);
  bench.b.sm.poison_shared(1, 0, kShared);
  until(9000);
  REQUIRE(bench.b.mpc.exits.size() == 1);
  run_until_idle();
  CHECK(bench.faults.empty());
  CHECK(bench.count('s') == 2);  // it is saved again
  CHECK(bench.count('r') == 2);
  CHECK(bench.tasks.left == 1);
  CHECK(bench.tasks.closed == 1);
  bench.check_chunks();
  check_results(bench);
}

TEST_CASE("a saved state that memory has lost stops its CTA, and its memory is free again if it is known",
          "[sm][TSK-12]") {
  enum class Lost { header, first, last };
  for (const Lost lost : {Lost::header, Lost::first, Lost::last}) {
    for (const TimingMode mode : kModes) {
      CAPTURE(static_cast<int>(lost), mode != TimingMode::lt);
      SaveBench bench(mode);
      bench.tasks.child_time = 20'000;
      bench.start(waits(1, nothing, nothing), kThreads, kShared);
      until(10'000);
      REQUIRE(bench.listener.text == "Ss");
      const std::uint64_t area = bench.memory.chunks.record(0);
      const auto bytes = bench.tasks.l2().get<std::uint64_t>(area + heddle::arch::saved::kBytes);
      const std::uint64_t chunks = bench.tasks.layout_of(area).chunks();
      const std::uint64_t state = area + bench.tasks.layout_of(area).state_at();
      for (auto* node : {&bench.a, &bench.b}) {
        node->l2.corrupt = lost == Lost::header ? area : lost == Lost::first ? state : state + bytes - 1;
      }
      run_until_idle();
      const bool known = lost != Lost::header;  // whose it is
      REQUIRE(bench.faults.size() == 1);
      CHECK(bench.faults[0].kind == FaultKind::address);
      CHECK(bench.faults[0].task == (known ? kSavedTask : heddle::test::kRestoreTask));
      CHECK(bench.faults[0].cta == 3);
      CHECK(bench.faults[0].address == area);
      CHECK(bench.faults[0].where == "restoring its CTA");
      CHECK(bench.listener.text == "SsrE");
      REQUIRE(bench.b.mpc.exits.size() == 1);
      CHECK(bench.b.mpc.exits[0].second.faulted);
      CHECK(bench.tasks.left == (known ? 1 : 0));
      CHECK(bench.tasks.closed == bench.tasks.left);
      bench.check_chunks(known ? 0 : chunks);  // nobody can tell how many they are
      CHECK(bench.b.sm.resident() == 0);
      CHECK(bench.b.sm.quiescent());
    }
  }
}

}  // namespace sm_save_fault_test

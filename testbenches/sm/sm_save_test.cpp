// CTAs that wait for their children are saved, give up their slots, and go on later, here or elsewhere (TSK-12).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/save_bench.h"

namespace sm_save_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::FaultKind;
using heddle::arch::LaunchMode;
using heddle::arch::OpCode;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::test::ListProgram;
using heddle::test::run_until;
using heddle::test::run_until_idle;
using heddle::test::SaveBench;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint64_t kOut = 0x10000;
constexpr std::uint32_t kWarps = 4;
constexpr std::uint32_t kThreads = 32 * kWarps;
constexpr std::uint32_t kShared = 2048;

ListProgram::Child child() {
  return [](const Warp&, std::uint32_t) {
    heddle::arch::ChildLaunch launch;
    launch.kernel = 0x8000;
    launch.mode = LaunchMode::fire_and_forget;
    return launch;
  };
}

// A jump of some warps, to a step that is known later.
void jump(ListProgram& p, std::uint32_t warp, const std::shared_ptr<std::uint32_t>& to) {
  p.step({OpCode::compute, Unit::int32, {}, {}, {}},
         [=](const heddle::arch::WarpPlace& place, heddle::arch::WarpState& state, heddle::arch::Operation&) {
           if (place.warp == warp) state.pc = *to;
         });
}

// Warps 0 and 3 launch and wait, warp 1 waits for them at the barrier, warp 2 has exited; `rounds` times. Then each
// writes what it has in registers.
ListProgram parents(std::uint32_t rounds) {
  const auto meet = std::make_shared<std::uint32_t>(0);
  const auto end = std::make_shared<std::uint32_t>(0);
  const auto offset = [](const Warp& warp, std::uint32_t lane) { return std::uint64_t{4} * warp.thread(lane); };
  const auto neighbour = [](const Warp& warp, std::uint32_t lane) {
    return std::uint64_t{4} * ((warp.thread(lane) + 32) % kThreads);
  };
  Access shared;
  shared.space = Space::shared;
  ListProgram p(8);
  p.set(1, [](const Warp& warp, std::uint32_t lane) { return 1000 * warp.place.warp + lane + 1; });
  p.set(3, ListProgram::constant(0));
  p.store(shared, [](const Warp& warp, std::uint32_t lane) { return 3 * warp.reg(1, lane); }, offset, {{1, 1}});
  p.release_shared(1024);
  jump(p, 2, end);
  const std::size_t loop = p.loop(rounds);
  jump(p, 1, meet);
  p.launch_child(child());
  p.wait_children();
  *meet = p.here();
  p.barrier();
  p.load(shared, 2, neighbour);
  p.set(3,
        [=](const Warp& warp, std::uint32_t lane) {
          return std::uint64_t{5} * warp.reg(3, lane) + warp.reg(2, lane) + warp.count(loop);
        },
        {{2, 1}, {3, 1}});
  p.barrier();
  p.store(shared, [](const Warp& warp, std::uint32_t lane) { return warp.reg(3, lane); }, offset, {{3, 1}});
  p.barrier();
  p.end_loop();
  p.store_registers({}, 3, [](const Warp& warp, std::uint32_t lane) { return kOut + 4 * warp.thread(lane); });
  *end = p.here();
  p.exit();
  return p;
}

std::vector<std::uint32_t> results(SaveBench& bench) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < kThreads; ++i) out.push_back(bench.tasks.l2().get<std::uint32_t>(kOut + 4 * i));
  return out;
}

std::vector<std::uint32_t> expected(std::uint32_t rounds) {
  SaveBench bench(TimingMode::at, false);
  bench.tasks.child_time = 3000;
  bench.start(parents(rounds), kThreads, kShared);
  run_until_idle();
  CHECK(bench.listener.text == "SE");
  return results(bench);
}

}  // namespace

TEST_CASE("a CTA that waits for its children gives up its slot and goes on elsewhere", "[sm][TSK-12]") {
  const std::vector<std::uint32_t> wanted = expected(1);
  CHECK(wanted[0] != 0);
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t on : {0U, 1U}) {
      CAPTURE(mode != TimingMode::lt, on);
      SaveBench bench(mode);
      bench.tasks.child_time = 20'000;
      bench.tasks.restore_on = on;
      bench.start(parents(1), kThreads, kShared);
      run_until(sc_core::sc_time(10'000, sc_core::SC_NS));
      // It is in memory, and nothing of it is anywhere else.
      REQUIRE(bench.listener.text == "Ss");
      CHECK(bench.a.sm.resident() == 0);
      CHECK(bench.a.sm.used() == heddle::arch::ResourceVector{});
      CHECK(bench.tasks.left == 0);
      const std::uint64_t context = bench.memory.contexts.pool.record(0);
      const std::uint64_t area = bench.memory.chunks.record(0);
      CHECK(bench.tasks.free_chunks() == bench.memory.chunks.count - bench.tasks.layout_of(area).chunks());
      namespace saved = heddle::arch::saved;
      auto& l2 = bench.tasks.l2();
      CHECK(l2.get<std::uint64_t>(context + heddle::arch::context::kHome) == heddle::arch::saved_home(area));
      CHECK(l2.get<std::uint32_t>(area + saved::kOperation) == heddle::test::kSavedTask);
      CHECK(l2.get<std::uint64_t>(area + saved::kRecord) == heddle::test::kOwnTmd);
      CHECK(l2.get<std::uint64_t>(area + saved::kContext) == context);
      CHECK(l2.get<std::uint64_t>(area + saved::kIndex) == 3);
      CHECK(l2.get<std::uint32_t>(area + saved::kCtaX) == 3);
      const auto bytes = l2.get<std::uint64_t>(area + saved::kBytes);
      CHECK(bytes > 3 * 8 * 128 + 1024);
      // Its chunks lie behind each other: nobody has taken any before. The list of them comes before the state.
      const auto state_at = static_cast<std::ptrdiff_t>(area + bench.tasks.layout_of(area).state_at());
      const std::vector<std::uint8_t> state(l2.bytes.begin() + state_at,
                                            l2.bytes.begin() + state_at + static_cast<std::ptrdiff_t>(bytes));
      const heddle::sm::SavedCta cta = heddle::sm::restore_cta(state);
      REQUIRE(cta.warps.size() == kWarps);
      CHECK(cta.warps[0].at == heddle::sm::SavedWarp::At::children);
      CHECK(cta.warps[1].at == heddle::sm::SavedWarp::At::barrier);
      CHECK(cta.warps[2].at == heddle::sm::SavedWarp::At::exited);
      CHECK(cta.shared.size() == 1024);
      run_until_idle();
      bench.check_over();
      CHECK(bench.listener.text == "SsrE");
      CHECK(results(bench) == wanted);
      CHECK(bench.tasks.restores == 1);
      CHECK(bench.tasks.wakes == 0);
      // Given back once by each of its stays.
      CHECK(bench.tasks.released == 2048);
      const std::string there = on == 0 ? "sm0" : "sm1";
      CHECK(bench.stat("sm0.nested.saves") == 1);
      CHECK(bench.stat(there + ".nested.restores") == 1);
      CHECK(bench.stat("sm0.nested.save_bytes") == static_cast<double>(bytes));
      CHECK(bench.stat("sm0.ctas") + bench.stat("sm1.ctas") == 1);
      REQUIRE(bench.timeline.slices.size() == 2);
      CHECK(bench.timeline.slices[0].saved == 1);
      CHECK(bench.timeline.slices[0].restored == 0);
      CHECK(bench.timeline.slices[1].saved == 0);
      CHECK(bench.timeline.slices[1].restored == 1);
      REQUIRE(bench.timeline.absences.size() == 1);
      CHECK(bench.timeline.absences[0].begin == bench.timeline.slices[0].end);
      CHECK(bench.timeline.absences[0].end >= bench.timeline.slices[1].begin);
      CHECK(bench.timeline.absences[0].end < bench.timeline.slices[1].end);
    }
  }
}

TEST_CASE("the slot of a saved CTA is free for others", "[sm][TSK-12]") {
  SaveBench bench;
  bench.tasks.child_time = 20'000;
  bench.tasks.restore_on = 0;
  bench.start(parents(1), kThreads, kShared);
  ListProgram other(4);
  other.compute(Unit::fp32, 100, {}, {});
  other.exit();
  heddle::arch::KernelShape shape;
  shape.block = {64, 1, 1};
  heddle::protocol::CtaStartPacket packet;
  packet.tag.operation = 6;
  packet.need = heddle::arch::need_of(bench.params.limits, shape);
  packet.code = bench.code.add(std::make_shared<ListProgram>(other), shape);
  bench.a.mpc.start(10'000, packet);
  run_until_idle();
  CHECK(bench.listener.text == "SsSErE");
  CHECK(bench.faults.empty());
  CHECK(bench.a.sm.resident() == 0);
}

TEST_CASE("a CTA is saved in every round of its waits", "[sm][TSK-12]") {
  const std::vector<std::uint32_t> wanted = expected(4);
  for (const TimingMode mode : kModes) {
    SaveBench bench(mode);
    bench.tasks.child_time = 6000;
    bench.start(parents(4), kThreads, kShared);
    run_until_idle();
    bench.check_over();
    CHECK(bench.listener.text == "SsrsrsrsrE");
    CHECK(results(bench) == wanted);
  }
}

// From before the CTA waits to long after it has gone.
TEST_CASE("a wake at any moment finds the CTA", "[sm][TSK-12]") {
  const std::vector<std::uint32_t> wanted = expected(2);
  for (const TimingMode mode : kModes) {
    std::uint32_t stayed = 0;
    std::uint32_t late = 0;
    std::uint32_t gone = 0;
    for (Cycle time = 1; time < 2000; time += mode != TimingMode::lt ? 5 : 9) {
      CAPTURE(mode != TimingMode::lt, time);
      SaveBench bench(mode);
      bench.tasks.child_time = time;
      bench.tasks.restore_on = static_cast<std::uint32_t>(time % 2);
      bench.start(parents(2), kThreads, kShared);
      run_until_idle();
      REQUIRE(bench.faults.empty());
      bench.check_over();
      REQUIRE(results(bench) == wanted);
      const double refused =
          bench.stat("sm0.nested.saves_refused.woken") + bench.stat("sm1.nested.saves_refused.woken");
      stayed += bench.listener.text == "SE" && refused == 0 ? 1 : 0;
      late += refused > 0 ? 1 : 0;
      gone += bench.count('s') > 0 ? 1 : 0;
    }
    // Memory that is called answers at once here, and a save begins at once.
    CHECK((stayed > 5 || mode == TimingMode::fast));
    CHECK(late > 5);
    CHECK(gone > 5);
  }
}

TEST_CASE("a CTA whose state is larger than all memory for saved CTAs stays", "[sm][TSK-12]") {
  const std::vector<std::uint32_t> wanted = expected(2);
  SaveBench bench(TimingMode::at, true, 1);
  bench.tasks.child_time = 5000;
  bench.start(parents(2), kThreads, kShared);
  run_until_idle();
  bench.check_over();
  CHECK(bench.listener.text == "SE");
  CHECK(results(bench) == wanted);
  CHECK(bench.stat("sm0.nested.saves_refused.too_large") == 2);
}

TEST_CASE("a CTA that finds no free memory for its state stays until there is some", "[sm][TSK-12]") {
  for (const bool comes : {false, true}) {
    SaveBench bench(TimingMode::at, true, 2);
    const std::uint64_t ring = bench.memory.chunks.base;
    bench.tasks.l2().put<std::uint64_t>(ring + heddle::arch::ring::kTaken, 1);
    bench.tasks.l2().put<std::uint64_t>(ring + heddle::arch::ring::kUsed, 1);
    bench.tasks.child_time = 10'000;
    bench.start(parents(1), kThreads, kShared);
    run_until(sc_core::sc_time(5000, sc_core::SC_NS));
    CHECK(bench.stat("sm0.nested.saves_refused.no_area") > 3);
    REQUIRE(bench.listener.text == "S");
    CHECK(bench.tasks.l2().get<std::uint64_t>(ring + heddle::arch::ring::kTaken) ==
          1);  // it has not taken what is there
    if (comes) {
      bench.tasks.l2().put<std::uint64_t>(ring + heddle::arch::ring::kGiven, 1);
      bench.tasks.l2().put<std::uint64_t>(ring + heddle::arch::ring::kSlots, bench.memory.chunks.record(0));
      // One that tries at this moment may be counted.
      const auto used = bench.tasks.l2().get<std::uint64_t>(ring + heddle::arch::ring::kUsed);
      bench.tasks.l2().put<std::uint64_t>(ring + heddle::arch::ring::kUsed, used - 1);
    }
    run_until_idle();
    CHECK(bench.listener.text == (comes ? "SsrE" : "SE"));
    if (comes) bench.check_over();
  }
}

// The task is aborted on both SMs, at any moment. The CTA ends once, wherever it is, and its context is left.
TEST_CASE("an abort at any moment ends the CTA, saved or not", "[sm][TSK-12]") {
  for (const TimingMode mode : kModes) {
    std::uint32_t in_memory = 0;
    for (Cycle time = 50; time < 6500; time += mode != TimingMode::lt ? 23 : 37) {
      CAPTURE(mode != TimingMode::lt, time);
      SaveBench bench(mode);
      bench.tasks.child_time = 3000;
      bench.tasks.restore_on = static_cast<std::uint32_t>(time % 2);
      bench.start(parents(1), kThreads, kShared);
      bench.a.mpc.abort(time, heddle::test::kSavedTask);
      bench.b.mpc.abort(time, heddle::test::kSavedTask);
      run_until_idle();
      REQUIRE(bench.faults.empty());
      REQUIRE(bench.listener.text.back() == 'E');
      REQUIRE(bench.count('S') == 1);
      REQUIRE(bench.count('E') == 1);
      REQUIRE(bench.count('s') == bench.count('r'));
      REQUIRE(bench.a.sm.quiescent());
      REQUIRE(bench.b.sm.quiescent());
      bench.check_chunks();
      REQUIRE(bench.tasks.closed == bench.tasks.left);
      if (bench.count('s') > 0) {
        REQUIRE(bench.tasks.left == 1);
        const auto& last = bench.tasks.home == 0 ? bench.a.mpc.exits.back() : bench.b.mpc.exits.back();
        in_memory += last.second.faulted ? 1 : 0;
      }
    }
    CHECK(in_memory > 10);
  }
}

TEST_CASE("a CTA that shares its context with others is saved, and found by whoever wakes that",
          "[sm][TSK-07][TSK-12]") {
  const std::vector<std::uint32_t> wanted = expected(2);
  for (const TimingMode mode : kModes) {
    std::uint32_t late = 0;
    std::uint32_t gone = 0;
    for (Cycle time = 1; time < 2500; time += mode != TimingMode::lt ? 7 : 11) {
      CAPTURE(mode != TimingMode::lt, time);
      SaveBench bench(mode, true, 16, true);
      bench.tasks.child_time = time;
      bench.tasks.restore_on = static_cast<std::uint32_t>(time % 2);
      bench.start(parents(2), kThreads, kShared);
      run_until_idle();
      REQUIRE(bench.faults.empty());
      bench.check_over();
      REQUIRE(results(bench) == wanted);
      late += bench.tasks.late;
      gone += bench.count('s') > 0 ? 1 : 0;
    }
    CHECK(late > 3);
    CHECK(gone > 20);
  }
}

// As above, of a CTA whose context is not left with it.
TEST_CASE("an abort at any moment ends a CTA that shares its context, saved or not", "[sm][TSK-07][TSK-12]") {
  for (const TimingMode mode : kModes) {
    std::uint32_t in_memory = 0;
    for (Cycle time = 50; time < 6500; time += mode != TimingMode::lt ? 17 : 29) {
      CAPTURE(mode != TimingMode::lt, time);
      SaveBench bench(mode, true, 16, true);
      bench.tasks.child_time = 3000;
      bench.tasks.restore_on = static_cast<std::uint32_t>(time % 2);
      bench.start(parents(1), kThreads, kShared);
      bench.a.mpc.abort(time, heddle::test::kSavedTask);
      bench.b.mpc.abort(time, heddle::test::kSavedTask);
      run_until_idle();
      REQUIRE(bench.faults.empty());
      REQUIRE(bench.listener.text.back() == 'E');
      REQUIRE(bench.count('S') == 1);
      REQUIRE(bench.count('E') == 1);
      REQUIRE(bench.count('s') == bench.count('r'));
      REQUIRE(bench.a.sm.quiescent());
      REQUIRE(bench.b.sm.quiescent());
      bench.check_chunks();
      // Task management counts what it has been told of, and no more.
      const std::uint64_t context = bench.memory.contexts.pool.record(0);
      REQUIRE(bench.tasks.l2().get<std::uint64_t>(heddle::test::kOwnTmd + heddle::arch::tmd::kOpen) == 2);
      REQUIRE(bench.tasks.l2().get<std::uint64_t>(context + heddle::arch::context::kHome) == 0);
      REQUIRE(heddle::arch::work_of(bench.tasks.l2().get<std::uint64_t>(context + heddle::arch::context::kWork)) == 1);
      if (bench.count('s') > 0) {
        const auto& last = bench.tasks.home == 0 ? bench.a.mpc.exits.back() : bench.b.mpc.exits.back();
        in_memory += last.second.faulted ? 1 : 0;
      }
    }
    CHECK(in_memory > 10);
  }
}

TEST_CASE("a saved state that was damaged stops its CTA alone", "[sm][TSK-12]") {
  // Of the state, the number of its bytes, the context, and the address of a chunk.
  for (const std::uint64_t place : {0x90U, 0x200U, 0x900U, 0x18U, 0x10U, 0x80U}) {
    CAPTURE(place);
    SaveBench bench;
    bench.tasks.child_time = 20'000;
    bench.start(parents(1), kThreads, kShared);
    run_until(sc_core::sc_time(10'000, sc_core::SC_NS));
    REQUIRE(bench.listener.text == "Ss");
    const std::uint64_t area = bench.memory.chunks.record(0);
    const std::uint64_t chunks = bench.tasks.layout_of(area).chunks();
    REQUIRE(chunks == 2);
    const std::uint64_t at = area + place;
    bench.tasks.l2().put<std::uint64_t>(at, bench.tasks.l2().get<std::uint64_t>(at) + 8);
    run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == (place == 0x80 ? FaultKind::address : FaultKind::poison));
    CHECK(bench.faults[0].task == (place == 0x10 ? heddle::test::kRestoreTask : heddle::test::kSavedTask));
    CHECK(bench.listener.text == "SsrE");
    CHECK(bench.b.mpc.exits.back().second.faulted);
    CHECK(bench.tasks.left == (place == 0x10 ? 0 : 1));  // the context is not known then
    bench.check_chunks(place == 0x80 ? chunks : 0);
    CHECK(bench.b.sm.quiescent());
  }
}

TEST_CASE("memory that fails while a CTA is saved stops the CTA", "[sm][TSK-12]") {
  SaveBench bench;
  bench.memory.chunks.base = heddle::test::kSaveMemory;  // there is nothing
  bench.tasks.child_time = 5000;
  bench.start(parents(1), kThreads, kShared);
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == FaultKind::address);
  CHECK(bench.listener.text == "SE");
  CHECK(bench.tasks.left == 1);
}

TEST_CASE("a CTA with accesses under way waits for them before it is saved", "[sm][TSK-12]") {
  SaveBench bench;
  bench.tasks.child_time = 30'000;
  bench.a.l2.extra = [&bench](std::uint64_t number) {
    return bench.a.l2.seen[number].address < 0x2000 ? Cycle{9000} : Cycle{0};
  };
  ListProgram p(4);
  p.launch_child(child());
  p.async_copy({}, ListProgram::linear(0x1000, 4), ListProgram::linear(0, 4));
  p.async_commit();
  p.load({}, 1, ListProgram::linear(0x1800, 4));
  p.wait_children();
  p.async_wait(0);
  p.store_registers({}, 1, ListProgram::linear(kOut, 4));
  p.exit();
  bench.a.l2.put<std::uint32_t>(0x1804, 77);
  bench.start(p, 32, 1024);
  run_until(sc_core::sc_time(8000, sc_core::SC_NS));
  CHECK(bench.listener.text == "S");
  run_until(sc_core::sc_time(14'000, sc_core::SC_NS));
  CHECK(bench.listener.text == "Ss");
  run_until_idle();
  bench.check_over();
  CHECK(bench.tasks.l2().get<std::uint32_t>(kOut + 4) == 77);
}

TEST_CASE("a reset forgets a CTA that is on its way to memory or back", "[sm][TSK-12]") {
  for (const TimingMode mode : kModes) {
    for (Cycle time = 300; time < 7000; time += 211) {
      CAPTURE(mode != TimingMode::lt, time);
      SaveBench bench(mode);
      bench.tasks.child_time = 3000;
      bench.start(parents(1), kThreads, kShared);
      run_until(sc_core::sc_time(static_cast<double>(time), sc_core::SC_NS));
      bench.domain.reset();
      REQUIRE(bench.a.sm.quiescent());
      REQUIRE(bench.b.sm.quiescent());
      bench.listener.text.clear();
      bench.timeline.slices.clear();
      for (auto* node : {&bench.a, &bench.b}) {
        std::fill(node->l2.bytes.begin(), node->l2.bytes.end(), std::uint8_t{0});
        bench.prepare(node->l2);
      }
      bench.tasks.home = bench.tasks.left = bench.tasks.closed = 0;
      bench.a.mpc.start(bench.domain.now() + 10, bench.tasks.start);
      run_until_idle();
      bench.check_over();
      REQUIRE(bench.listener.text == "SsrE");
    }
  }
}

}  // namespace sm_save_test

// Random programs of launches, several warps of several CTAs at once, with few records, and CTAs that are stopped in
// the middle (TSK-07 to TSK-13).
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/nested_bench.h"
#include "support/random.h"

namespace sm_nested_random_test {

using namespace heddle;
using namespace heddle::test;
using arch::LaunchMode;

namespace {

std::uint64_t pair(const Warp& warp, std::uint16_t reg, std::uint32_t lane) {
  return warp.reg(reg, lane) | std::uint64_t{warp.reg(static_cast<std::uint16_t>(reg + 1), lane)} << 32;
}

// Every warp: launches, streams and waits in any order. Registers 0 to 3 hold streams, as far as some could be created;
// 4 to 9 what launches are known by.
ListProgram random_program(Random& random) {
  ListProgram program(12);
  const auto any = [&random] { return static_cast<std::uint16_t>(random.below(4)); };
  const auto there = [](std::uint16_t reg, std::uint32_t lanes) {
    return [=](const Warp& warp) { return warp.reg(reg, 0) + 1 > 1 ? lanes : arch::LaneMask{0}; };
  };
  const std::uint32_t steps = random.between(1, 10);
  for (std::uint32_t i = 0; i < steps; ++i) {
    const std::uint16_t stream = any();
    const auto handle = static_cast<std::uint16_t>(4 + 2 * random.below(3));
    switch (random.below(8)) {
      case 0:
        program.stream_destroy(ListProgram::of_register(stream), {{stream, 1}}, there(stream, 1));
        program.stream_create(stream);
        break;
      case 1:
        program.wait_children();
        break;
      case 2:
        program.compute(arch::Unit::fp32, random.between(1, 300));
        break;
      case 3:
        program.wait_for(arch::ChildWait::stream, ListProgram::of_register(stream), {{stream, 1}}, there(stream, 1));
        break;
      case 4:
        program.wait_for(
            arch::ChildWait::launch,
            [handle](const Warp& warp, std::uint32_t lane) { return pair(warp, handle, lane); }, {{handle, 2}},
            [](const Warp&) { return ~arch::LaneMask{0}; });
        break;
      default: {
        const LaunchMode mode = random.chance(20) ? LaunchMode::fire_and_forget : LaunchMode::stream;
        const auto lanes = static_cast<arch::LaneMask>(1U | random.below(8));
        program.launch_child(
            [stream, mode](const Warp& warp, std::uint32_t) {
              const std::uint32_t number = warp.reg(stream, 0);
              return child(number == arch::kNoStream ? 0 : number, mode);
            },
            {{stream, 1}}, [lanes](const Warp&) { return lanes; }, handle);
      }
    }
  }
  if (random.chance(50)) program.wait_children();
  program.exit();
  return program;
}

struct Totals {
  double refused = 0;
  double spilled = 0;
  double waits = 0;
};

void run(std::uint64_t seed, bool stop, Totals& totals) {
  CAPTURE(seed);
  Random random(seed);
  const TimingMode mode = random.chance(25) ? TimingMode::lt : TimingMode::at;
  NestedBench bench(mode, random.between(2, 12), random.between(1, 4));
  bench.nested.tmdqs = random.chance(20) ? random.between(5, 64) : random.between(1, 4);
  bench.nested.tasks.spill.count = random.below(6);
  bench.nested.contexts.spill.count = random.below(3);
  bench.nested.retry = random.between(20, 300);
  const std::uint64_t slow = random.below(300);
  bench.l2.extra = [slow](std::uint64_t number) { return number * 7919 % (slow + 1); };
  std::map<std::uint64_t, std::uint64_t> running;  // TMDQ, task
  bool overlap = false;
  bench.tmu.on_start = [&](std::uint64_t record) {
    const std::uint32_t flags = bench.l2.get<std::uint32_t>(record + arch::tmd::kFlags);
    if ((flags >> 8 & 3) != 0) return;
    const std::uint64_t tmdq = bench.word(record + arch::tmd::kContext) + (flags & 0xFF);
    overlap |= !running.emplace(tmdq, record).second;
  };
  bench.tmu.runs = [&](std::uint64_t record) {
    const std::uint64_t length = record * 31 % 1500;
    return static_cast<Cycle>(length);
  };
  // The queue goes on before a task counts as completed: what runs is looked at when the next one starts.
  const auto free = [&](std::uint64_t record) {
    const std::uint32_t flags = bench.l2.get<std::uint32_t>(record + arch::tmd::kFlags);
    if ((flags >> 8 & 3) != 0) return;
    const std::uint64_t tmdq = bench.word(record + arch::tmd::kContext) + (flags & 0xFF);
    if (const auto its = running.find(tmdq); its != running.end() && its->second == record) running.erase(its);
  };
  bench.tmu.on_complete = free;
  bench.tmu.before_next = free;
  const std::uint32_t ctas = random.between(1, 3);
  for (std::uint32_t slot = 0; slot < ctas; ++slot) {
    bench.start_parent(random_program(random), random.between(1, 3), slot);
  }
  if (stop) bench.mpc.abort(random.between(30, 6000), 5);
  run_until_idle();
  for (const arch::FaultRecord& fault : bench.faults)
    UNSCOPED_INFO(static_cast<int>(fault.kind)
                  << " op " << static_cast<int>(fault.operation) << " addr " << fault.address);
  CHECK(bench.faults.empty());
  CHECK(bench.mpc.exits.size() == ctas);
  CHECK_FALSE(overlap);
  CHECK(bench.tmu.started.size() == bench.tmu.completed);
  CHECK(bench.tmu.completed == static_cast<std::uint32_t>(bench.stat("nested.launches")));
  bench.check_clean();
  totals.refused += bench.stat("nested.refused");
  totals.spilled += bench.stat("nested.spilled");
  totals.waits += bench.stat("nested.waits");
  for (std::uint64_t i = 0; i < bench.nested.contexts.pool.count; ++i) {
    CHECK(bench.word(bench.context(i) + arch::context::kWork) == 0);
    for (std::uint32_t q = 0; q < bench.nested.tmdqs; ++q) {
      CHECK(bench.word(bench.context(i) + arch::context::last_task(q)) == 0);
    }
  }
}

}  // namespace

TEST_CASE("random launches of several warps: every task runs once, and all records come back",
          "[sm][TSK-07][TSK-08][TSK-10][TSK-12][TSK-13][TSK-16]") {
  Totals totals;
  for (const std::uint64_t seed : seeds(150)) run(seed, false, totals);
  CHECK(totals.refused > 50);
  CHECK(totals.spilled > 50);
  CHECK(totals.waits > 100);
}

TEST_CASE("CTAs that are stopped in the middle of launches and waits leave nothing half done", "[sm][TSK-08][TSK-13]") {
  Totals totals;
  for (const std::uint64_t seed : seeds(200)) run(seed + 5000, true, totals);
}

}  // namespace sm_nested_random_test

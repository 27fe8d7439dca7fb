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

// Every warp: launches, streams and waits in any order.
ListProgram random_program(Random& random, std::uint32_t& most_streams) {
  ListProgram program(8);
  std::uint32_t streams = 0;
  const std::uint32_t steps = random.between(1, 6);
  for (std::uint32_t i = 0; i < steps; ++i) {
    switch (random.below(5)) {
      case 0:
        program.stream_create(1);
        ++streams;
        break;
      case 1:
        program.wait_children();
        break;
      case 2:
        program.compute(arch::Unit::fp32, random.between(1, 300));
        break;
      default: {
        const LaunchMode mode = random.chance(20) ? LaunchMode::fire_and_forget : LaunchMode::stream;
        const arch::ChildLaunch launch = child(random.below(streams + 1), mode);
        const auto lanes = static_cast<arch::LaneMask>(1U | random.below(8));
        program.launch_child(always(launch), {}, [lanes](const Warp&) { return lanes; });
      }
    }
  }
  if (random.chance(50)) program.wait_children();
  program.exit();
  most_streams = std::max(most_streams, streams);
  return program;
}

void run(std::uint64_t seed, bool stop) {
  CAPTURE(seed);
  Random random(seed);
  const TimingMode mode = random.chance(25) ? TimingMode::lt : TimingMode::at;
  NestedBench bench(mode, random.between(2, 12), random.between(1, 4));
  bench.nested.tmdqs = random.between(1, 4);
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
  std::uint32_t streams = 0;
  const std::uint32_t ctas = random.between(1, 3);
  for (std::uint32_t slot = 0; slot < ctas; ++slot) {
    bench.start_parent(random_program(random, streams), random.between(1, 3), slot);
  }
  if (stop) bench.mpc.abort(random.between(30, 6000), 5);
  run_until_idle();
  CHECK(bench.faults.empty());
  CHECK(bench.mpc.exits.size() == ctas);
  CHECK_FALSE(overlap);
  CHECK(bench.tmu.started.size() == bench.tmu.completed);
  CHECK(bench.tmu.completed == static_cast<std::uint32_t>(bench.stat("nested.launches")));
  bench.check_clean();
  for (std::uint64_t i = 0; i < bench.nested.contexts.pool.count; ++i) {
    CHECK(bench.word(bench.context(i) + arch::context::kWork) == 0);
    for (std::uint32_t q = 0; q < bench.nested.tmdqs; ++q) {
      CHECK(bench.word(bench.context(i) + arch::context::last_task(q)) == 0);
    }
  }
}

}  // namespace

TEST_CASE("random launches of several warps: every task runs once, and all records come back",
          "[sm][TSK-07][TSK-08][TSK-10][TSK-13]") {
  for (const std::uint64_t seed : seeds(150)) run(seed, false);
}

TEST_CASE("CTAs that are stopped in the middle of launches and waits leave nothing half done", "[sm][TSK-08][TSK-13]") {
  for (const std::uint64_t seed : seeds(200)) run(seed + 5000, true);
}

}  // namespace sm_nested_random_test

// How CTAs come to their first and to every later instruction: set-up by warps, registers and shared memory, the
// instruction cache, and the parameters of kernels.
#include <algorithm>
#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cta_setup.h"
#include "sm/line_cache.h"
#include "sm/program_bench.h"
#include "support/random.h"

namespace sm_startup_test {

using namespace heddle;
using namespace heddle::sm;
using arch::Unit;
using test::ListProgram;
using test::ProgramBench;
using test::Random;
using test::run_until_idle;

namespace {

// Steps that wait for nothing, `steps` with the exit.
ListProgram straight(std::uint32_t steps) {
  ListProgram p(4);
  for (std::uint32_t i = 1; i < steps; ++i) p.compute(Unit::fp32, 1, {}, {});
  p.exit();
  return p;
}

SmParams with_fetch(std::uint32_t cache_bytes, std::uint32_t constant_bytes) {
  SmParams params;
  params.fetch.cache_bytes = cache_bytes;
  params.fetch.constant_bytes = constant_bytes;
  return params;
}

Cycle alone(const ListProgram& program, const SmParams& params, TimingMode mode = TimingMode::at) {
  ProgramBench bench(params, mode);
  return bench.run(program, 32);
}

// The first instruction and the end of CTAs that start in a row, each when the one before has gone.
struct InTurn {
  explicit InTurn(const SmParams& params, TimingMode mode = TimingMode::at) : bench(params, mode) {}
  ProgramBench bench;
  Cycle at = 0;

  // Cycles from the start to the end.
  Cycle run(std::uint32_t code, std::uint32_t operation) {
    at += 10'000;
    bench.mpc.start(at, bench.packet(code, 0, 0, operation));
    run_until_idle();
    return bench.mpc.exits.back().first - at;
  }
};

}  // namespace

TEST_CASE("lines that an SM holds are those used last of their set", "[sm][startup]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ways = random.between(1, 5);
    const std::uint32_t sets = random.between(1, 6);
    LineCache cache(ways * sets + random.below(ways), ways);
    struct Line {
      std::uint64_t line;
      Cycle ready;
    };
    std::vector<std::list<Line>> oracle(sets);  // latest use first
    for (int i = 0; i < 3000; ++i) {
      const std::uint64_t line = random.below(ways * sets * 2 + 1);
      std::list<Line>& set = oracle[line % sets];
      const auto found = std::find_if(set.begin(), set.end(), [&](const Line& one) { return one.line == line; });
      const Cycle ready = cache.find(line);
      if (found != set.end()) {
        REQUIRE(ready == found->ready);
        set.splice(set.begin(), set, found);
      } else {
        REQUIRE(ready == kNever);
        const Cycle comes = random.below(100'000);
        cache.enter(line, comes);
        set.push_front({line, comes});
        if (set.size() > ways) set.pop_back();
      }
      if (random.chance(1) && random.chance(20)) {
        cache.reset();
        for (std::list<Line>& one : oracle) one.clear();
      }
    }
  }
}

TEST_CASE("a partition launches warps one after another, each with its registers", "[sm][startup]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    SetupParams params;
    params.warp_cycles = random.below(9);
    params.register_rows = random.below(5);
    params.shared_rate = random.below(200);
    CtaSetup setup(params, true);
    CtaSetup loose(params, false);
    // Cycle by cycle: a partition works off one warp after another.
    std::vector<std::vector<bool>> busy(kSubPartitions, std::vector<bool>(200'000));
    Cycle from = 0;
    for (int i = 0; i < 200; ++i) {
      from += random.below(30);
      const std::uint32_t shared = random.below(3000);
      std::uint32_t left = shared;
      Cycle begin = from;
      while (params.shared_rate > 0 && left > 0) {
        left -= std::min(left, params.shared_rate);
        ++begin;
      }
      REQUIRE(setup.shared_ready(from, shared) == begin);
      REQUIRE(loose.shared_ready(from, shared) == from);
      const std::uint32_t partition = random.below(kSubPartitions);
      const std::uint32_t registers = random.below(40);
      Cycle rows = 0;
      for (std::uint32_t done = 0; params.register_rows > 0 && done < registers; done += params.register_rows) ++rows;
      const Cycle takes = std::max<Cycle>(rows, params.warp_cycles);
      Cycle at = from;
      if (takes > 0) {
        at = 200'000;
        while (at > from && !busy[partition][at - 1]) --at;
        std::fill_n(busy[partition].begin() + static_cast<std::ptrdiff_t>(at), takes, true);
      }
      REQUIRE(setup.launch(partition, from, registers) == at + rows);
      REQUIRE(loose.launch(partition, from, registers) == from);
    }
    setup.reset();
    const Cycle rows = params.register_rows == 0 ? 0 : (8 + params.register_rows - 1) / params.register_rows;
    CHECK(setup.launch(0, 3, 8) == 3 + rows);
  }
}

TEST_CASE("a CTA of twelve warps and 200 KiB starts later than one of a single warp", "[sm][startup]") {
  const auto start = [](std::uint32_t threads, std::uint32_t shared, TimingMode mode) {
    SmParams params;
    params.setup.warp_cycles = 6;
    params.setup.register_rows = 1;
    params.setup.shared_rate = 1024;
    ProgramBench bench(params, mode);
    return bench.run(straight(1), threads, shared);  // of four registers
  };
  const Cycle one = start(32, 0, TimingMode::at);
  CHECK(one == alone(straight(1), {}) + 4);
  CHECK(start(128, 0, TimingMode::at) == one);           // one in each partition
  CHECK(start(12 * 32, 0, TimingMode::at) == one + 12);  // the third of each
  CHECK(start(12 * 32, 200 * 1024, TimingMode::at) == one + 12 + 200);
  const Cycle set_up_at_once = start(12 * 32, 200 * 1024, TimingMode::lt);
  ProgramBench loose({}, TimingMode::lt);
  CHECK(set_up_at_once == loose.run(straight(1), 12 * 32, 200 * 1024));
}

TEST_CASE("each line of a program costs its first warp a way to the L2", "[sm][startup]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    CAPTURE(mode != TimingMode::lt);
    const auto cost = [mode](std::uint32_t steps) {
      return alone(straight(steps), with_fetch(4096, 0), mode) - alone(straight(steps), {}, mode);
    };
    const Cycle line = cost(1);  // of eight steps
    CHECK(line >= 200);
    CHECK(line < 300);
    CHECK(cost(8) == line);
    CHECK(cost(9) == 2 * line);
    CHECK(cost(24) == 3 * line);
    CHECK(cost(25) == 4 * line);
  }
}

TEST_CASE("lines behind one that is missing come with it", "[sm][startup]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    SmParams params = with_fetch(4096, 0);
    params.fetch.prefetch_lines = 3;
    const auto cost = [&](std::uint32_t steps) {
      return alone(straight(steps), params, mode) - alone(straight(steps), {}, mode);
    };
    const Cycle line = cost(1);
    CHECK(line >= 200);
    CHECK(cost(32) == line);
    CHECK(cost(33) == 2 * line);
    InTurn turn(params, mode);
    const std::uint32_t code = turn.bench.add(straight(40), 64);
    turn.run(code, 1);
    CHECK(turn.bench.l2.count(tlm::TLM_READ_COMMAND) == 8);  // each once, the last ones for nothing
    turn.run(code, 2);
    CHECK(turn.bench.l2.count(tlm::TLM_READ_COMMAND) == 8);
  }
}

TEST_CASE("what one warp has fetched later ones find, until others take its place", "[sm][startup]") {
  InTurn cold(with_fetch(1024, 0));  // two sets of four
  const std::uint32_t small = cold.bench.add(straight(16), 32);
  const std::uint32_t large = cold.bench.add(straight(80), 32);
  const Cycle first = cold.run(small, 1);
  const Cycle warm = cold.run(small, 2);
  CHECK(first >= warm + 400);
  CHECK(cold.bench.stat("fetch.misses") == 2);
  CHECK(cold.bench.stat("fetch.hits") == 2);
  CHECK(cold.bench.stat("stall.fetch") == static_cast<double>(first - warm));
  CHECK(cold.bench.l2.count(tlm::TLM_READ_COMMAND) == 2);
  cold.run(large, 3);
  CHECK(cold.run(small, 4) == first);
  CHECK(cold.bench.l2.count(tlm::TLM_READ_COMMAND) == 2 + 10 + 2);
  InTurn off({});
  CHECK(warm == off.run(off.bench.add(straight(16), 32), 1));
}

TEST_CASE("warps that want the same line wait for one read of it", "[sm][startup]") {
  ProgramBench bench(with_fetch(4096, 2048));
  bench.run(straight(8), 256);
  CHECK(bench.stat("fetch.misses") == 8);
  CHECK(bench.stat("constants.misses") == 8);
  CHECK(bench.l2.count(tlm::TLM_READ_COMMAND) == 2);
}

TEST_CASE("each launch fetches its parameters once per SM", "[sm][startup]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    InTurn turn(with_fetch(0, 2048), mode);
    const std::uint32_t code = turn.bench.add(straight(4), 32, 0, 2);
    const Cycle first = turn.run(code, 1);
    const Cycle second = turn.run(code, 1);  // another CTA of it
    CHECK(first >= second + 200);
    CHECK(turn.run(code, 2) == first);
    CHECK(turn.bench.stat("constants.misses") == 2);
    CHECK(turn.bench.stat("constants.hits") == 1);
    CHECK(turn.bench.stat("stall.constants") == static_cast<double>(2 * (first - second)));
    CHECK(turn.bench.l2.count(tlm::TLM_READ_COMMAND) == 2);
    SmParams lines = with_fetch(0, 2048);
    lines.fetch.constant_lines = 3;  // one after another
    InTurn more(lines, mode);
    CHECK(more.run(more.bench.add(straight(4), 32), 1) == second + 3 * (first - second));
  }
}

TEST_CASE("a CTA that is stopped while it waits for instructions leaves its slot whole", "[sm][startup]") {
  InTurn turn(with_fetch(4096, 2048));
  const std::uint32_t code = turn.bench.add(straight(9), 64);
  turn.bench.mpc.start(0, turn.bench.packet(code, 0, 0, 7));
  turn.bench.mpc.abort(60, 7);  // the first read is under way
  run_until_idle();
  REQUIRE(turn.bench.mpc.exits.size() == 1);
  CHECK(turn.bench.mpc.exits[0].second.faulted);
  const Cycle cold = turn.run(code, 8);
  const Cycle warm = turn.run(code, 8);
  // The line that was under way has come: of two, one is left to be fetched, and the parameters.
  CHECK(turn.bench.stat("fetch.misses") == 2 + 2);
  CHECK(cold >= warm + 400);
  CHECK(turn.bench.sm.clusters().quiescent());
}

TEST_CASE("after a reset an SM holds neither instructions nor parameters", "[sm][startup]") {
  InTurn turn(with_fetch(4096, 2048));
  const std::uint32_t code = turn.bench.add(straight(9), 64);
  const Cycle cold = turn.run(code, 1);
  CHECK(turn.run(code, 1) < cold);
  turn.bench.domain.reset();
  CHECK(turn.run(code, 1) == cold);
}

}  // namespace sm_startup_test

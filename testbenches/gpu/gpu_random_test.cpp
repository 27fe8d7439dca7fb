// Whole machines, hundreds of small ones: what must hold for any program on any of them.
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/gpu_bench.h"

namespace gpu_random_test {

using heddle::TimingMode;
using heddle::gpu::GpuParams;
using heddle::protocol::DonePacket;
using heddle::protocol::DoneStatus;
using heddle::protocol::SubmitKind;
using namespace heddle::test;

namespace {

double ns(const sc_core::sc_time& time) { return time.to_seconds() * 1e9; }

void judge(GpuBench& bench, const Program& program) {
  REQUIRE(bench.host.problems == std::vector<std::string>{});
  REQUIRE(bench.checker.verdict() == std::vector<std::string>{});
  REQUIRE(bench.gpu.open_operations() == 0);
  REQUIRE(bench.host.results.size() == program.work.size());
  REQUIRE_NOTHROW(bench.gpu.check_quiescent());
  REQUIRE(bench.gpu.domain().idle());
  heddle::WaitGraph waits;
  bench.gpu.domain().collect_waits(waits);
  REQUIRE(waits.empty());

  const GpuParams& params = bench.gpu.params();
  const bool at = params.machine.timing == TimingMode::at;
  const heddle::Clock& clock = bench.gpu.domain().clock();
  const double cycle = ns(clock.period());
  const double gap = at ? static_cast<double>(clock.cycles_for_ns(params.task.stream_gap)) * cycle : 0;
  const double path = at ? static_cast<double>(params.start_path()) * cycle : 0;
  double launched = 0;
  for (const auto& [operation, before] : program.before) {
    CAPTURE(operation);
    const DonePacket& done = bench.host.results.at(operation);
    const auto& packet = program.work.at(operation);
    REQUIRE(done.start >= done.submitted);
    REQUIRE(done.end >= done.start);
    const bool rejected = done.status == DoneStatus::rejected;
    for (const std::uint32_t other : before) {
      const double sooner = rejected ? std::min(path, gap) : 0;
      REQUIRE(ns(heddle::sc_time_of(done.start)) + 1e-6 >=
              ns(heddle::sc_time_of(bench.host.results.at(other).end)) + gap - sooner);
    }
    if (packet.kind != SubmitKind::kernel) continue;
    const CtaChecker::Kernel& kernel = bench.checker.kernels.at(operation);
    REQUIRE(rejected == (kernel.ctas == 0));
    if (rejected) continue;
    REQUIRE(heddle::picoseconds(clock.time_of(kernel.first_start)) >= done.start);
    REQUIRE(heddle::picoseconds(clock.time_of(kernel.last_end)) <= done.end);
    launched += static_cast<double>(kernel.ctas);
  }
  REQUIRE(bench.stat("cwd.ctas_launched") == launched);
  REQUIRE(bench.stat("cwd.ctas_completed") == launched);
}

}  // namespace

TEST_CASE("random programs on random machines keep every promise", "[gpu][CWD-06][CWD-07]") {
  for (const std::uint64_t seed : seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    GpuParams params = random_gpu_params(random);
    if (random.chance(25)) params.machine.timing = TimingMode::lt;
    if (random.chance(25)) params.machine.timing = TimingMode::fast;
    ProgramLimits limits;
    limits.operations = random.between(1, 40);
    limits.streams = random.between(1, 8);
    limits.max_ctas = random.chance(20) ? 400 : 50;
    limits.oversized = true;
    const Program program = random_program(random, limits);
    SimFixture sim;
    GpuBench bench(params, seed);
    bench.feed(program, seed, random.chance(50) ? 0 : 400);
    run_until_idle();
    judge(bench, program);
  }
}

TEST_CASE("two runs of one input are the same in everything", "[gpu]") {
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    const auto run = [seed] {
      Random random(seed);
      const GpuParams params = random_gpu_params(random);
      const Program program = random_program(random, {});
      SimFixture sim;
      GpuBench bench(params, seed);
      bench.feed(program, seed, 300);
      run_until_idle();
      return outcome_of(bench);
    };
    const Outcome first = run();
    const Outcome second = run();
    REQUIRE(first.stats == second.stats);
    REQUIRE(first.edges == second.edges);
    REQUIRE(first.results == second.results);
    REQUIRE(first.order == second.order);
    REQUIRE(first.load == second.load);
  }
}

TEST_CASE("how far a GPU runs ahead changes nothing", "[gpu]") {
  for (const std::uint64_t seed : seeds(100)) {
    CAPTURE(seed);
    const auto run = [seed](std::uint32_t run_ahead) {
      Random random(seed);
      GpuParams params = random_gpu_params(random);
      params.machine.run_ahead = run_ahead;
      const Program program = random_program(random, {});
      SimFixture sim;
      GpuBench bench(params, seed);
      bench.feed(program, seed, random.chance(50) ? 5 : 1000);
      run_until_idle();
      return outcome_of(bench);
    };
    const Outcome step_by_step = run(0);
    for (const std::uint32_t run_ahead : {1U, 7U, 1024U, 1'000'000'000U}) {
      const Outcome ahead = run(run_ahead);
      REQUIRE(ahead.stats == step_by_step.stats);
      REQUIRE(ahead.edges == step_by_step.edges);
      REQUIRE(ahead.results == step_by_step.results);
      REQUIRE(ahead.order == step_by_step.order);
    }
  }
}

TEST_CASE("both timing modes run the same CTAs for as long", "[gpu]") {
  for (const std::uint64_t seed : seeds(80)) {
    CAPTURE(seed);
    using Cta = std::pair<std::uint32_t, std::uint64_t>;
    struct Result {
      std::map<Cta, std::uint64_t> cycles;
      std::map<std::uint32_t, DoneStatus> status;
    };
    const auto run = [seed](TimingMode timing) {
      Random random(seed);
      GpuParams params = random_gpu_params(random);
      params.machine.timing = timing;
      ProgramLimits limits;
      limits.oversized = true;
      const Program program = random_program(random, limits);
      SimFixture sim;
      GpuBench bench(params, seed);
      bench.feed(program, seed, 200);
      run_until_idle();
      REQUIRE(bench.checker.verdict() == std::vector<std::string>{});
      Result result;
      const std::uint64_t start_cycles = timing != TimingMode::lt ? params.sm.start_cycles : 0;
      // A CTA asks its MPC before it leaves (CGA-11): there and back.
      const std::uint64_t exit_cycles = timing != TimingMode::lt ? std::uint64_t{2} * params.gpc.mpc_to_sm : 0;
      for (const CtaChecker::Edge& edge : bench.checker.edges) {
        std::uint64_t& cycles = result.cycles[{edge.task, edge.index}];
        cycles = edge.start ? edge.cycle + start_cycles : edge.cycle - exit_cycles - cycles;
      }
      for (const auto& [operation, done] : bench.host.results) result.status[operation] = done.status;
      return result;
    };
    const Result at = run(TimingMode::at);
    for (const TimingMode mode : {TimingMode::fast, TimingMode::lt}) {
      const Result other = run(mode);
      REQUIRE(at.cycles == other.cycles);
      REQUIRE(at.status == other.status);
    }
  }
}

TEST_CASE("two GPUs in one simulation behave as each alone", "[gpu][HST-04]") {
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random random(seed);
    const GpuParams params[2] = {random_gpu_params(random), random_gpu_params(random)};
    const Program programs[2] = {random_program(random, {}), random_program(random, {})};
    Outcome alone[2];
    for (int i = 0; i < 2; ++i) {
      SimFixture sim;
      GpuBench bench(params[i], seed);
      bench.feed(programs[i], seed + 1, 300);
      run_until_idle();
      alone[i] = outcome_of(bench);
    }
    SimFixture sim;
    GpuBench first(params[0], seed, "gpu0");
    GpuBench second(params[1], seed, "gpu1");
    first.feed(programs[0], seed + 1, 300);
    second.feed(programs[1], seed + 1, 300);
    run_until_idle();
    for (int i = 0; i < 2; ++i) {
      const Outcome together = outcome_of(i == 0 ? first : second);
      REQUIRE(together.stats == alone[i].stats);
      REQUIRE(together.edges == alone[i].edges);
      REQUIRE(together.results == alone[i].results);
      REQUIRE(together.order == alone[i].order);
      REQUIRE(together.load == alone[i].load);
    }
  }
}

// Without those of subcontexts in memory: they come with a subcontext's first access, which only evictions have here.
std::string of_all(const std::string& stats) {
  std::istringstream lines(stats);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("memory.subcontext") != 0) result += line + "\n";
  }
  return result;
}

TEST_CASE("a GPU reset at any time is as good as new", "[gpu]") {
  for (const std::uint64_t seed : seeds(150)) {
    CAPTURE(seed);
    Random random(seed);
    const GpuParams params = random_gpu_params(random);
    const Program before = random_program(random, {});
    const Program after = random_program(random, {});
    const heddle::Cycle when = random.between(1, random.chance(50) ? 500 : 8000);
    Outcome fresh;
    {
      SimFixture sim;
      GpuBench bench(params, seed);
      bench.feed(after, seed + 1, 300);
      run_until_idle();
      fresh = outcome_of(bench);
    }
    SimFixture sim;
    GpuBench bench(params, seed);
    bench.feed(before, seed, 100);
    bench.host.at(when, [&] {
      bench.reset();
      bench.gpu.check_quiescent();
      bench.feed(after, seed + 1, 300, when);
    });
    run_until_idle();
    REQUIRE(bench.checker.verdict() == std::vector<std::string>{});
    REQUIRE(bench.host.problems == std::vector<std::string>{});
    const Outcome again = outcome_of(bench, when);
    REQUIRE(again.edges == fresh.edges);
    REQUIRE(again.results == fresh.results);
    REQUIRE(again.order == fresh.order);
    REQUIRE(of_all(again.stats) == of_all(fresh.stats));
    REQUIRE(again.load == fresh.load);
    REQUIRE_NOTHROW(bench.gpu.check_quiescent());
  }
}

}  // namespace gpu_random_test

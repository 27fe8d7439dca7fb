// Replays on real machines: order, pace, no progress, several GPUs, how far a GPU runs ahead.
#include <algorithm>

#include <catch2/catch.hpp>

#include "replay/replay_bench.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace replay_simulation_test {

using namespace heddle;
using namespace heddle::test;
using replay::OpResult;
using replay::Pace;
using replay::SimulationResult;
using workload::Workload;

namespace {

SimulationResult run(const Workload& workload, const gpu::GpuParams& params, Pace pace = Pace::recorded,
                     double latency = 0) {
  replay::Job job = job_of(workload, params);
  job.pace = pace;
  job.launch_latency_ns = latency;
  SimulationResult result = replay::simulate({job}, {});
  REQUIRE(result.progress);
  return result;
}

}  // namespace

TEST_CASE("streams keep their order, edges hold, holds take their recorded time", "[replay][INP-11][INP-02]") {
  for (const std::uint64_t seed : seeds(12)) {
    Random random(seed);
    const Workload w = random_workload(random, 150);
    gpu::GpuParams params = preset_params(random.chance(50) ? "small" : "a100");
    const Pace pace = random.chance(50) ? Pace::recorded : Pace::asap;
    CAPTURE(seed, pace == Pace::asap);
    const SimulationResult result = run(w, params, pace, 2000);
    const std::vector<OpResult>& results = result.jobs[0].results;
    const double cycle = result.jobs[0].cycle_ns;
    std::vector<double> stream_end(w.streams.size(), -1e300);
    for (std::size_t i = 0; i < w.ops.size(); ++i) {
      const workload::Op& op = w.ops[i];
      const OpResult& r = results[i];
      CAPTURE(i);
      REQUIRE(r.done);
      CHECK_FALSE(r.rejected);
      CHECK(r.start >= r.submitted);
      CHECK(r.start >= stream_end[op.stream]);
      stream_end[op.stream] = r.end;
      for (const workload::Edge& edge : op.after) CHECK(r.start >= results[edge.from].end);
      if (op.kind != workload::OpKind::kernel) {
        CHECK(r.end - r.start == Approx(static_cast<double>(op.duration)).margin(cycle));
      } else {
        CHECK(r.end - r.start >= static_cast<double>(op.kernel.duration.min) * cycle - 1e-6);
      }
      if (pace == Pace::recorded && op.enqueue) {
        CHECK(r.start >= static_cast<double>(*op.enqueue) + 2000 - 2 * cycle);
      }
      if (pace == Pace::recorded && op.not_before) CHECK(r.start >= static_cast<double>(*op.not_before) - 2 * cycle);
    }
  }
}

TEST_CASE("a lone operation starts at its call plus the latency, or at its recorded start", "[replay][INP-03]") {
  for (const char* preset : {"small", "a100", "h100-sxm"}) {
    CAPTURE(preset);
    Workload w = empty_workload(2);
    w.ops = {kernel_op(0, 20, 1000), kernel_op(1, 20, 1000), copy_op(0, 5000)};
    w.ops[0].enqueue = 300;
    w.ops[1].enqueue.reset();
    w.ops[1].not_before = 20'000;
    w.ops[2].enqueue = 40'000;
    const SimulationResult result = run(w, preset_params(preset), Pace::recorded, 4000);
    const double cycle = result.jobs[0].cycle_ns;
    // Their last level is not full: a prefix count of 8 levels up and down, four in a cycle (CWD-05).
    CHECK(result.jobs[0].results[0].start == Approx(4300).margin(6 * cycle));
    CHECK(result.jobs[0].results[1].start == Approx(20'000).margin(6 * cycle));
    CHECK(result.jobs[0].results[2].start == Approx(44'000).margin(2 * cycle));
    CHECK(result.jobs[0].results[2].end - result.jobs[0].results[2].start == Approx(5000).margin(cycle));
  }
}

TEST_CASE("thousands of operations at once are all done", "[replay][TSK-02]") {
  Workload w = empty_workload(3);
  for (std::uint32_t i = 0; i < 5000; ++i) w.ops.push_back(kernel_op(i % 3, 1 + i % 5, 10));
  const SimulationResult result = run(w, preset_params("small"), Pace::asap);
  CHECK(result.jobs[0].results.size() == 5000);
  CHECK(std::all_of(result.jobs[0].results.begin(), result.jobs[0].results.end(),
                    [](const OpResult& r) { return r.done; }));
}

TEST_CASE("operations that wait for each other end the run with the chain of waits", "[replay]") {
  Workload w = empty_workload(2);
  w.ops = {kernel_op(0, 4, 100), kernel_op(0, 4, 100), kernel_op(1, 4, 100), kernel_op(1, 4, 100)};
  for (std::size_t i = 0; i < 4; ++i) w.ops[i].kernel.name = std::string(1, static_cast<char>('a' + i));
  w.ops[0].after.push_back({3, workload::EdgeSource::recorded});
  w.ops[2].after.push_back({1, workload::EdgeSource::recorded});
  std::vector<replay::Job> jobs = {job_of(w, preset_params("small"))};
  SECTION("when no event is left") {
    const SimulationResult result = replay::simulate(jobs, {});
    CHECK_FALSE(result.progress);
    CHECK(result.stopped == "no event is left, and operations are open");
    std::string chain;
    for (const std::string& wait : result.waits) chain += wait + "\n";
    INFO(chain);
    CHECK(result.waits.size() >= 4);
    for (const char* who : {"a (operation 0", "b (operation 1", "c (operation 2", "d (operation 3"}) {
      CHECK(chain.find(who) != std::string::npos);
    }
  }
  SECTION("when another GPU goes on for longer than the patience, or there is no end to it") {
    // Its copy holds a stream for 40 ms: a jump to its end, not a standstill.
    Workload other = empty_workload(1);
    other.ops = {copy_op(0, 40'000'000)};
    jobs.push_back(job_of(other, preset_params("small"), "gpu1"));
    replay::SimulationOptions options;
    options.limits.events = GENERATE(100, 0);
    const SimulationResult result = replay::simulate(jobs, options);
    CHECK_FALSE(result.progress);
    CHECK(result.stopped == "no event is left, and operations are open");
    CHECK(result.jobs[1].results[0].done);
    CHECK_FALSE(result.waits.empty());
  }
}

TEST_CASE("a broken invariant inside an event comes out as it was thrown", "[replay]") {
  struct Breaks : heddle::CtaListener {
    void cta_started(const Cta&) override { HEDDLE_CHECK(false, "broken on purpose"); }
    void cta_ended(const Cta&) override {}
  } breaks;
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 4, 100)};
  replay::Job job = job_of(w, preset_params("small"));
  job.ctas = &breaks;
  try {
    replay::simulate({job}, {});
    FAIL("nothing was thrown");
  } catch (const heddle::CheckFailed& error) {
    const std::string text = error.what();
    CHECK(text.find("broken on purpose") != std::string::npos);
    CHECK(text.find("gpu0.gpc0") == 0);                // where
    CHECK(text.find("(cycle ") != std::string::npos);  // when
    CHECK(text.find("E549") == std::string::npos);
  }
  // The next simulation of the process is none the worse.
  CHECK(replay::simulate({job_of(w, preset_params("small"))}, {}).progress);
}

TEST_CASE("kernels and copies may run for longer than the patience", "[replay]") {
  Workload w = empty_workload(2);
  w.ops = {kernel_op(0, 4, 20'000'000), copy_op(1, 30'000'000)};
  replay::SimulationOptions options;
  options.limits.events = 100;
  const SimulationResult result = replay::simulate({job_of(w, preset_params("small"))}, options);
  CHECK(result.progress);
  CHECK(result.jobs[0].results[0].end - result.jobs[0].results[0].start == Approx(20e6).epsilon(0.001));
  CHECK(result.jobs[0].results[1].done);
}

TEST_CASE("a host that pauses for longer than the patience is not stuck", "[replay]") {
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 4, 100), kernel_op(0, 4, 100)};
  w.ops[1].enqueue = 80'000'000;
  replay::SimulationOptions options;
  options.limits.events = 100;
  const SimulationResult result = replay::simulate({job_of(w, preset_params("small"))}, options);
  CHECK(result.progress);
  CHECK(result.jobs[0].results[1].start == Approx(80'000'000).margin(100));
}

TEST_CASE("a kernel that no SM can hold is refused by name before anything runs", "[replay]") {
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 4, 100), kernel_op(0, 4, 100)};
  w.ops[1].kernel.name = "whale";
  w.ops[1].kernel.shared_bytes = 400'000;
  const std::string message = failure_of([&] { replay::simulate({job_of(w, preset_params("small"), "gpu7")}, {}); });
  for (const char* part : {"whale", "hand-made", "gpu7", "shared", "400000", "gpu.sm.limits"}) {
    CAPTURE(part, message);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("two GPUs of different presets in one simulation give what each gives alone", "[replay][HST-04][INP-06]") {
  for (const std::uint64_t seed : seeds(6)) {
    CAPTURE(seed);
    Random random(seed);
    const Workload first = random_workload(random, 120);
    const Workload second = random_workload(random, 80);
    const replay::Job a = job_of(first, preset_params("h100-sxm"), "gpu0");
    const replay::Job b = job_of(second, preset_params(random.chance(50) ? "small" : "a100"), "gpu1");
    const SimulationResult both = replay::simulate({a, b}, {});
    const SimulationResult alone_a = replay::simulate({a}, {});
    const SimulationResult alone_b = replay::simulate({b}, {});
    CHECK(difference(shown_by(both.jobs[0]), shown_by(alone_a.jobs[0])) == "");
    CHECK(difference(shown_by(both.jobs[1]), shown_by(alone_b.jobs[0])) == "");
  }
}

TEST_CASE("how far a GPU runs ahead changes nothing in a replay", "[replay]") {
  for (const std::uint64_t seed : seeds(5)) {
    CAPTURE(seed);
    Random random(seed);
    const Workload w = random_workload(random, 150);
    gpu::GpuParams params = preset_params(random.chance(50) ? "small" : "h100-sxm");
    const Pace pace = random.chance(50) ? Pace::recorded : Pace::asap;
    std::string expected;
    double sim_time = 0;
    for (const std::uint32_t cycles : {0U, 7U, 1024U, 100'000U}) {
      CAPTURE(cycles);
      params.machine.run_ahead = cycles;
      const SimulationResult result = run(w, params, pace, 1500);
      if (expected.empty()) expected = shown_by(result.jobs[0]), sim_time = result.sim_time_ns;
      CHECK(difference(shown_by(result.jobs[0]), expected) == "");
      CHECK(result.sim_time_ns == sim_time);
    }
  }
}

TEST_CASE("the seed decides what is random, and nothing else does", "[replay]") {
  Workload w = empty_workload(1);
  w.ops = {kernel_op(0, 300, 1000)};
  w.ops[0].kernel.duration.max = 5000;
  const replay::Job job = job_of(w, preset_params("small"));
  const auto shown = [&](std::uint64_t seed) {
    replay::SimulationOptions options;
    options.seed = seed;
    return shown_by(replay::simulate({job}, options).jobs[0]);
  };
  CHECK(difference(shown(1), shown(1)) == "");
  CHECK(difference(shown(1), shown(2)) != "");
}

}  // namespace replay_simulation_test

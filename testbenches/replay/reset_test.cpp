// A reset in the middle of a replay, and two replays in one simulation: with recordings where there are some.
#include <filesystem>
#include <iostream>
#include <optional>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "gpu/gpu.h"
#include "import/recordings.h"
#include "replay/comparison.h"
#include "replay/replay_bench.h"
#include "replay/stream_submitter.h"
#include "support/sim_fixture.h"

namespace replay_reset_test {

using namespace heddle;
using namespace heddle::test;
using workload::Workload;

namespace {

constexpr double kLatencyNs = 4000;

// The recording with fitted CTA durations, as the program does it, or its first operations; nothing if it is absent.
std::optional<Workload> fitted_recording(const std::string& name, const gpu::GpuParams& params,
                                         std::size_t operations = ~std::size_t{0}) {
  const std::filesystem::path path = std::filesystem::path(HEDDLE_TRACES_DIR) / name;
  if (!std::filesystem::exists(path)) {
    std::cout << "SKIPPED: no recording " << name << "\n";
    return std::nullopt;
  }
  Workload w = import::import_kineto(path.string()).at(0);
  if (operations < w.ops.size()) w.ops.resize(operations);  // edges come from earlier ones only
  const Clock clock(params.machine.clock);
  for (workload::Op& op : w.ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    const double cycles = static_cast<double>(op.recorded->duration) / clock.ns_for_cycles(1);
    op.kernel.duration.min = op.kernel.duration.max = replay::SoloKernel(params, op.kernel).fit(cycles);
  }
  return w;
}

// The simulation that replay::simulate() runs, in the hands of a test.
struct Bench {
  Bench(const Workload& workload, const gpu::GpuParams& params)
      : gpu("gpu0", params, 1, observation),
        host("gpu0_host", {workload, replay::Pace::recorded, timings(params)}, observation, host_observation) {
    host.submit_out.bind(gpu.submit_in());
    gpu.done_out().bind(host.done_in);
  }
  static replay::SubmissionTimings timings(const gpu::GpuParams& params) {
    return {kLatencyNs, Clock(params.machine.clock).ns_for_cycles(static_cast<double>(params.start_path()))};
  }
  void reset() {
    gpu.reset();
    host.domain.reset();
  }
  // What shown_by() shows of a finished replay.
  std::string shown() {
    REQUIRE(host.finished());
    gpu.check_quiescent();
    gpu.settle();
    return shown_by(observation, host.results());
  }

  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Observation host_observation{"gpu0.host"};
  gpu::Gpu gpu;
  replay::StreamSubmitter host;
};

// `shares`: of the length of an undisturbed replay; after each the machine is reset, and the last replay is complete.
std::string replayed_after_resets(const Workload& workload, const gpu::GpuParams& params,
                                  const sc_core::sc_time& length, const std::vector<double>& shares) {
  Bench bench(workload, params);
  sc_core::sc_time begin;
  for (const double share : shares) {
    bench.host.start();
    begin = sc_core::sc_time_stamp();
    run_until(begin + length * share);
    CHECK_FALSE(bench.host.finished());
    bench.reset();
    CHECK(bench.host.done() == 0);
    bench.gpu.check_quiescent();
    CHECK(bench.gpu.open_operations() == 0);
  }
  bench.host.start();
  run_until_idle();
  return bench.shown();
}

// Fresh, and after a reset at each of several times, alone and one after another.
void check_resets(const Workload& workload, const gpu::GpuParams& params, const std::vector<double>& shares) {
  std::string fresh;
  sc_core::sc_time length;
  {
    Bench bench(workload, params);
    bench.host.start();
    run_until_idle();
    length = sc_core::sc_time_stamp();
    fresh = bench.shown();
  }
  for (const double share : shares) {
    CAPTURE(share);
    CHECK(difference(replayed_after_resets(workload, params, length, {share}), fresh) == "");
  }
  CHECK(difference(replayed_after_resets(workload, params, length, shares), fresh) == "");
}

}  // namespace

TEST_CASE("a machine reset in the middle of a replay replays as a new one does", "[replay]") {
  for (const std::uint64_t seed : seeds(8)) {
    CAPTURE(seed);
    Random random(seed);
    const Workload w = random_workload(random, 120);
    gpu::GpuParams params = preset_params(random.chance(50) ? "small" : "a100");
    if (random.chance(50)) params.machine.run_ahead = random.below(2000);
    check_resets(w, params, {0.0, random.below(1000) / 1000.0, random.below(1000) / 1000.0, 0.99});
  }
}

TEST_CASE("the simulation by hand is that of replay::simulate()", "[replay]") {
  Random random(5);
  const Workload w = random_workload(random, 100);
  const gpu::GpuParams params = preset_params("small");
  std::string by_hand;
  {
    Bench bench(w, params);
    bench.host.start();
    run_until_idle();
    by_hand = bench.shown();
  }
  replay::Job job = job_of(w, params);
  job.launch_latency_ns = kLatencyNs;
  CHECK(difference(shown_by(replay::simulate({job}, {}).jobs[0]), by_hand) == "");
}

TEST_CASE("a machine reset in the middle of a recording replays it as a new one does", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");
  const auto w =
      fitted_recording("h100_qwen1.5_0.5b_inference_trim.json.gz", params, long_tests() ? ~std::size_t{0} : 1200);
  if (!w) return;
  std::string fresh;
  sc_core::sc_time length;
  {
    Bench bench(*w, params);
    bench.host.start();
    run_until_idle();
    length = sc_core::sc_time_stamp();
    fresh = bench.shown();
  }
  CHECK(difference(replayed_after_resets(*w, params, length, {0.07, 0.33}), fresh) == "");
}

TEST_CASE("two recordings on GPUs of two presets in one simulation give what each gives alone",
          "[replay][HST-04][INP-06]") {
  const gpu::GpuParams h100 = preset_params("h100-sxm");
  const gpu::GpuParams a100 = preset_params("a100");
  const auto qwen = fitted_recording("h100_qwen1.5_0.5b_inference_trim.json.gz", h100, 400);
  const auto alexnet = fitted_recording("a100_alexnet_2stream_events_orig.json.gz", a100);
  if (!qwen || !alexnet) return;
  replay::Job a = job_of(*qwen, h100, "gpu0");
  replay::Job b = job_of(*alexnet, a100, "gpu1");
  a.launch_latency_ns = b.launch_latency_ns = kLatencyNs;
  const replay::SimulationResult both = replay::simulate({a, b}, {});
  REQUIRE(both.progress);
  CHECK(difference(shown_by(both.jobs[0]), shown_by(replay::simulate({a}, {}).jobs[0])) == "");
  CHECK(difference(shown_by(both.jobs[1]), shown_by(replay::simulate({b}, {}).jobs[0])) == "");
}

TEST_CASE("how far a GPU runs ahead changes nothing in a recording's replay", "[replay]") {
  gpu::GpuParams params = preset_params("a100");
  const auto w = fitted_recording("a100_alexnet_2stream_events_orig.json.gz", params);
  if (!w) return;
  std::string expected;
  for (const std::uint32_t cycles : {0U, 7U, 1024U, 100'000U}) {
    CAPTURE(cycles);
    params.machine.run_ahead = cycles;
    const std::string shown = shown_by(replay::simulate({job_of(*w, params)}, {}).jobs[0]);
    if (expected.empty()) expected = shown;
    CHECK(difference(shown, expected) == "");
  }
}

}  // namespace replay_reset_test

// Recordings with several streams, replayed at their pace: the order of every stream, the edges between streams, and
// which kernels ran at the same time. They lie outside the repository: a case whose file is absent says so and passes.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>
#include <optional>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/domain.h"
#include "import/recordings.h"
#include "replay/comparison.h"
#include "replay/replay_bench.h"

namespace replay_recording_overlap_test {

using namespace heddle;
using namespace heddle::test;
using replay::OpResult;
using workload::Op;
using workload::OpKind;
using workload::Workload;

namespace {

struct Replay {
  Workload workload;
  std::vector<OpResult> results;
  replay::Comparison comparison;
};

// On the preset, with the recording's latency and gap, CTA durations fitted launch by launch: as `heddle run` does it.
std::optional<Replay> replayed(const std::string& name, const std::string& preset,
                               std::vector<Workload> (*import)(const std::string& path)) {
  const std::filesystem::path path = std::filesystem::path(HEDDLE_TRACES_DIR) / name;
  if (!std::filesystem::exists(path)) {
    std::cout << "SKIPPED: no recording " << name << "\n";
    return std::nullopt;
  }
  std::vector<Workload> workloads = import(path.string());
  REQUIRE(workloads.size() == 1);
  Replay run{std::move(workloads[0]), {}, {}};
  gpu::GpuParams params = preset_params(preset);
  if (run.workload.timings.stream_gap) params.task.stream_gap = static_cast<double>(*run.workload.timings.stream_gap);
  const Clock clock(params.machine.clock);
  std::vector<bool> launch_bound;
  for (Op& op : run.workload.ops) {
    launch_bound.push_back(false);
    if (op.kind != OpKind::kernel) continue;
    const replay::SoloKernel solo(params, op.kernel);
    const double cycles = static_cast<double>(op.recorded->duration) / clock.ns_for_cycles(1);
    const std::uint64_t cta = solo.fit(cycles);
    op.kernel.duration = {cta, cta};
    launch_bound.back() = solo.duration(1) > cycles;
  }
  replay::Job job = job_of(run.workload, params);
  job.launch_latency_ns = static_cast<double>(run.workload.timings.launch_latency.value_or(5'000));
  replay::SimulationResult result = replay::simulate({job}, {});
  REQUIRE(result.progress);
  run.results = std::move(result.jobs[0].results);
  run.comparison = replay::compare(run.workload, run.results, params, launch_bound);
  return run;
}

// All of it is done, streams are in order, waits are honoured, and nothing starts before it may.
void check_order(const Replay& run) {
  const std::vector<Op>& ops = run.workload.ops;
  std::vector<double> free(run.workload.streams.size(), std::numeric_limits<double>::lowest());
  std::vector<double> started = free;  // the last operation of the stream
  std::size_t edges = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    CAPTURE(i, ops[i].kernel.name, run.workload.streams[ops[i].stream].name);
    const OpResult& result = run.results[i];
    REQUIRE(result.done);
    REQUIRE_FALSE(result.rejected);
    REQUIRE(result.end >= result.start);
    // One that is launched ahead of the end of the one before it follows its start.
    REQUIRE(result.start >= (ops[i].programmatic ? started : free)[ops[i].stream]);
    started[ops[i].stream] = result.start;
    free[ops[i].stream] = std::max(free[ops[i].stream], result.end);
    for (const workload::Edge& edge : ops[i].after) {
      REQUIRE(ops[edge.from].stream != ops[i].stream);
      REQUIRE(result.start >= run.results[edge.from].end);
      ++edges;
    }
    // The host submits that much earlier as the model's way to a first CTA takes, in whole nanoseconds.
    if (ops[i].not_before) REQUIRE(result.start >= static_cast<double>(*ops[i].not_before) - 2);
  }
  CHECK(edges == run.comparison.edges_recorded + run.comparison.edges_inferred);
}

std::size_t streams_with_kernels(const Workload& workload) {
  std::set<std::size_t> streams;
  for (const Op& op : workload.ops) {
    if (op.kind == OpKind::kernel) streams.insert(op.stream);
  }
  return streams.size();
}

// Shares of the recording's overlap.
struct Kept {
  double pairs;    // recorded pairs that overlap in the model
  double time;     // of the time that they shared
  double surplus;  // pairs of the model over those of the recording
  double two_run;  // time with two kernels or more, model over recording
};

Kept kept(const replay::Comparison& c) {
  const auto share = [](auto part, auto whole) { return static_cast<double>(part) / static_cast<double>(whole); };
  REQUIRE(c.pairs.recorded > 0);
  return {share(c.pairs.both, c.pairs.recorded), share(c.pairs.both_ns, c.pairs.recorded_ns),
          share(c.pairs.modelled, c.pairs.recorded), share(c.overlap_modelled_ns, c.overlap_recorded_ns)};
}

}  // namespace

TEST_CASE("recording: five streams of an A100 keep their order, their waits and their overlap",
          "[replay][recordings][INP-01][INP-02][INP-03][INP-11]") {
  const std::optional<Replay> run =
      replayed("a100_recsys_training_multistream_trim.json.gz", "a100", import::import_kineto);
  if (!run) return;
  CHECK(streams_with_kernels(run->workload) == 5);
  check_order(*run);
  CHECK(run->comparison.edges_inferred == 106);
  CHECK(run->comparison.pairs.recorded == 219);
  const Kept measured = kept(run->comparison);
  CAPTURE(measured.pairs, measured.time, measured.surplus, measured.two_run);
  CHECK(measured.pairs >= 0.98);                                  // 217 of 219; the clock has whole microseconds
  CHECK(measured.time >= 0.95);                                   // 0.97
  CHECK((measured.surplus >= 0.95 && measured.surplus <= 1.05));  // 217 pairs in the model
  CHECK((measured.two_run >= 0.95 && measured.two_run <= 1.08));  // 5.32 ms of 5.13 ms
}

TEST_CASE("recording: five queues of an MI350X keep their order and their overlap",
          "[replay][recordings][INP-03][INP-04]") {
  const std::optional<Replay> run =
      replayed("mi350x_rocprofv3_kernel_trace_6000.csv.gz", "mi350x", import::import_rocprof);
  if (!run) return;
  CHECK(streams_with_kernels(run->workload) == 5);
  CHECK(run->workload.ops.size() == 6'000);  // all of it
  check_order(*run);
  CHECK(run->comparison.pairs.recorded == 3'306);
  const Kept measured = kept(run->comparison);
  CAPTURE(measured.pairs, measured.time, measured.surplus, measured.two_run);
  CHECK(measured.pairs >= 0.995);  // all but one
  CHECK(measured.time >= 0.99);
  CHECK((measured.surplus >= 0.995 && measured.surplus <= 1.005));  // 3,308
  // Longer, as kernels that overlap were slower in the recording, and are so once more in the model.
  CHECK((measured.two_run >= 0.98 && measured.two_run <= 1.1));  // 22.8 ms of 21.5 ms
}

}  // namespace replay_recording_overlap_test

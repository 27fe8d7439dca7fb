// Workloads made by hand, machines of the shipped presets, and what a replay of the one on the other shows.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "common/params.h"
#include "gpu/gpu_params.h"
#include "replay/simulation.h"
#include "support/random.h"
#include "workload/workload.h"

namespace heddle::test {

inline gpu::GpuParams preset_params(const std::string& name) {
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(name), {Origin::Kind::preset, "preset " + name});
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  layers.resolve(binder, 0);
  return params;
}

inline workload::Workload empty_workload(std::size_t streams) {
  workload::Workload workload;
  workload.name = "hand-made";
  workload.format = "scenario";
  for (std::size_t i = 0; i < streams; ++i) workload.streams.push_back({fmt::format("s{}", i), 0});
  return workload;
}

inline workload::Op kernel_op(std::size_t stream, std::uint32_t ctas, std::uint64_t cycles,
                              std::uint32_t threads = 128) {
  workload::Op op;
  op.kernel.name = fmt::format("kernel of {} CTAs", ctas);
  op.kernel.grid = {ctas, 1, 1};
  op.kernel.block = {threads, 1, 1};
  op.kernel.duration = {cycles, cycles};
  op.stream = stream;
  op.enqueue = 0;
  return op;
}

inline workload::Op copy_op(std::size_t stream, workload::Nanoseconds duration) {
  workload::Op op;
  op.kind = workload::OpKind::copy;
  op.kernel.name = "copy";
  op.bytes = 4096;
  op.duration = duration;
  op.stream = stream;
  op.enqueue = 0;
  return op;
}

inline replay::Job job_of(const workload::Workload& workload, const gpu::GpuParams& params,
                          const std::string& instance = "gpu0") {
  replay::Job job;
  job.instance = instance;
  job.params = params;
  job.workload = &workload;
  return job;
}

// What the model made of them becomes their recording.
inline void record(workload::Workload& workload, const gpu::GpuParams& params) {
  const replay::SimulationResult result = replay::simulate({job_of(workload, params)}, {});
  REQUIRE(result.progress);
  const std::vector<replay::OpResult>& results = result.jobs.at(0).results;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto start = static_cast<std::int64_t>(std::llround(results[i].start));
    const auto end = static_cast<std::int64_t>(std::llround(results[i].end));
    bool overlaps = false;
    for (std::size_t other = 0; other < results.size(); ++other) {
      overlaps =
          overlaps || (other != i && results[other].start < results[i].end && results[i].start < results[other].end);
    }
    workload.ops[i].recorded = workload::Recorded{start, end - start, -1.0, overlaps};
  }
}

// Kernels, copies and edges in a few streams, as a recording might show them.
inline workload::Workload random_workload(Random& random, std::uint32_t operations) {
  workload::Workload w = empty_workload(random.between(1, 5));
  for (workload::Stream& stream : w.streams) stream.priority = random.chance(30) ? 1 : 0;
  workload::Nanoseconds call = -2000;
  for (std::uint32_t i = 0; i < operations; ++i) {
    const std::uint32_t stream = random.below(w.streams.size());
    workload::Op op = random.chance(15)
                          ? copy_op(stream, random.between(0, 20'000))
                          : kernel_op(stream, random.between(1, 300), random.between(1, 5000), random.between(1, 1024));
    if (random.chance(30)) op.kernel.duration.max += random.below(1000);
    if (random.chance(50)) op.kernel.registers_per_thread = random.between(16, 64);
    if (random.chance(30)) op.kernel.shared_bytes = random.below(60'000);
    op.enqueue = call += random.chance(10) ? random.below(40'000) : random.below(2000);
    if (random.chance(5)) op.not_before = *op.enqueue + random.below(20'000);
    if (random.chance(5)) {
      op.not_before = std::max<workload::Nanoseconds>(*op.enqueue, 0);
      op.enqueue.reset();
    }
    while (i > 0 && random.chance(15)) op.after.push_back({random.below(i), workload::EdgeSource::recorded});
    w.ops.push_back(op);
  }
  return w;
}

// Everything that the replay of one GPU shows, without the name of the instance; and without what grows while others
// still have work.
inline std::string shown_by(const GpuObservation& observation, const std::vector<replay::OpResult>& results) {
  std::string text;
  const std::size_t prefix = observation.prefix.size();
  for (const nlohmann::json& table : {observation.stats.to_json(), observation.stats.histograms_json()}) {
    for (const auto& [path, value] : table.items()) {
      const std::string own = path.substr(prefix);
      if (own != ".idle.over" && own != ".sm_cycles") text += own + " " + value.dump() + "\n";
    }
  }
  for (const replay::OpResult& r : results) {
    text += fmt::format("{} {} {} {} {}\n", r.done, r.rejected, r.submitted, r.start, r.end);
  }
  const LoadMap& map = observation.load_map;
  text += fmt::format("{} {} {}:", map.bins(), map.bin_cycles(), map.last());
  for (std::uint32_t unit = 0; unit < map.units(); ++unit) {
    for (std::uint32_t bin = 0; bin < map.bins(); ++bin) text += fmt::format(" {}", map.load(unit, bin));
  }
  return text;
}
inline std::string shown_by(const replay::JobResult& job) { return shown_by(*job.observation, job.results); }

// The first line in which two of these texts differ; empty if none does.
inline std::string difference(const std::string& a, const std::string& b) {
  std::size_t line = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a[i] == b[i]) {
      if (a[i] == '\n') line = i + 1;
      continue;
    }
    const auto rest = [&](const std::string& text) {
      return line < text.size() ? text.substr(line, std::min<std::size_t>(text.find('\n', line) - line, i - line + 60))
                                : "";
    };
    return rest(a) + " | " + rest(b);
  }
  return {};
}

// Every operation has been done, behind what it had to wait for.
inline void check_order(const workload::Workload& w, const replay::SimulationResult& result) {
  REQUIRE(result.progress);
  const std::vector<replay::OpResult>& results = result.jobs[0].results;
  std::vector<double> stream_end(w.streams.size(), -1e300);
  for (std::size_t i = 0; i < w.ops.size(); ++i) {
    const workload::Op& op = w.ops[i];
    const replay::OpResult& r = results[i];
    CAPTURE(i);
    REQUIRE(r.done);
    CHECK_FALSE(r.rejected);
    CHECK(r.start >= r.submitted);
    CHECK(r.start >= stream_end[op.stream]);
    stream_end[op.stream] = r.end;
    for (const workload::Edge& edge : op.after) CHECK(r.start >= results[edge.from].end);
  }
}

}  // namespace heddle::test

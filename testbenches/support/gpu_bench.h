// A whole GPU with a host that submits a random program, and a listener that judges every CTA.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "gpu/gpu.h"
#include "support/random_machine.h"
#include "support/random_program.h"
#include "support/sim_fixture.h"

namespace heddle::test {

// Every CTA starts once and ends once, on an SM with room for it.
class CtaChecker : public CtaListener {
 public:
  struct Edge {
    bool start;
    std::uint32_t task;
    std::uint64_t index;
    std::uint32_t sm;
    std::uint64_t cycle;
    bool operator==(const Edge& o) const {
      return std::tie(start, task, index, sm, cycle) == std::tie(o.start, o.task, o.index, o.sm, o.cycle);
    }
  };
  struct Kernel {
    std::uint64_t ctas = 0;
    arch::ResourceVector need;
    std::vector<std::uint8_t> state;  // by CTA: 0 not started, 1 runs, 2 ended, 3 saved
    std::uint64_t ended = 0;
    std::uint64_t first_start = ~std::uint64_t{0};
    std::uint64_t last_end = 0;
    bool operator==(const Kernel& o) const { return ctas == o.ctas && state == o.state; }
  };

  CtaChecker(std::uint32_t sms, const arch::SmLimits& limits)
      : capacity_(arch::capacity_of(limits)), limits_(limits), used_(sms) {}

  void expect(const protocol::SubmitPacket& packet) {
    if (packet.kind != protocol::SubmitKind::kernel) return;
    Kernel& kernel = kernels[packet.operation];
    const bool possible = arch::why_impossible(limits_, packet.kernel).empty();
    kernel.ctas = possible ? packet.kernel.grid.count() : 0;
    kernel.need = arch::need_of(limits_, packet.kernel);
    kernel.state.assign(kernel.ctas, 0);
  }
  void forget() {
    kernels.clear();
    edges.clear();
    std::fill(used_.begin(), used_.end(), arch::ResourceVector{});
  }

  void cta_started(const Cta& cta) override {
    if (record) edges.push_back({true, cta.task, cta.index, cta.sm, cta.cycle});
    Kernel* kernel = find(cta, 0, "started");
    if (kernel == nullptr) return;
    kernel->state[cta.index] = 1;
    kernel->first_start = std::min(kernel->first_start, cta.cycle);
    used_[cta.sm].add(kernel->need);
    if (!used_[cta.sm].within(capacity_)) complain(cta, "has no room");
  }
  void cta_ended(const Cta& cta) override {
    if (record) edges.push_back({false, cta.task, cta.index, cta.sm, cta.cycle});
    Kernel* kernel = find(cta, 1, "ended");
    if (kernel == nullptr) return;
    kernel->state[cta.index] = 2;
    ++kernel->ended;
    kernel->last_end = std::max(kernel->last_end, cta.cycle);
    used_[cta.sm].subtract(kernel->need);
  }
  void cta_saved(const Cta& cta) override {
    Kernel* kernel = find(cta, 1, "saved");
    if (kernel == nullptr) return;
    kernel->state[cta.index] = 3;
    used_[cta.sm].subtract(kernel->need);
  }
  void cta_restored(const Cta& cta) override {
    Kernel* kernel = find(cta, 3, "restored");
    if (kernel == nullptr) return;
    kernel->state[cta.index] = 1;
    used_[cta.sm].add(kernel->need);
    if (!used_[cta.sm].within(capacity_)) complain(cta, "has no room");
  }
  // What is wrong once everything should have ended.
  std::vector<std::string> verdict() const {
    std::vector<std::string> result = problems;
    for (const auto& [operation, kernel] : kernels) {
      if (kernel.ended != kernel.ctas) {
        result.push_back(fmt::format("operation {}: {} of {} CTAs ended", operation, kernel.ended, kernel.ctas));
      }
    }
    for (std::size_t sm = 0; sm < used_.size(); ++sm) {
      if (!(used_[sm] == arch::ResourceVector{})) result.push_back(fmt::format("SM {} is not empty", sm));
    }
    return result;
  }

  bool record = true;
  std::map<std::uint32_t, Kernel> kernels;
  std::vector<Edge> edges;
  std::vector<std::string> problems;

 private:
  Kernel* find(const Cta& cta, std::uint8_t state, const char* what) {
    const auto found = kernels.find(cta.task);
    if (found == kernels.end() || cta.index >= found->second.ctas || cta.sm >= used_.size()) {
      complain(cta, "is not of this machine");
      return nullptr;
    }
    if (found->second.state[cta.index] != state) complain(cta, what);
    return &found->second;
  }
  void complain(const Cta& cta, const char* what) {
    if (problems.size() > 20) return;
    problems.push_back(
        fmt::format("operation {} CTA {} on SM {} in cycle {}: {}", cta.task, cta.index, cta.sm, cta.cycle, what));
  }

  arch::ResourceVector capacity_;
  arch::SmLimits limits_;
  std::vector<arch::ResourceVector> used_;
};

// One of possibly several in a simulation; the test owns the SimFixture.
class GpuBench {
 public:
  explicit GpuBench(const gpu::GpuParams& params, std::uint64_t seed = 1, const std::string& prefix = "gpu0",
                    TimelineSink* timeline = nullptr)
      : observation(prefix, timeline),
        checker(params.machine.shape.sms(), params.sm.limits),
        gpu(prefix.c_str(), params, seed, observation),
        host((prefix + "_host").c_str()) {
    observation.ctas = &checker;
    host.submit_out.bind(gpu.submit_in());
    gpu.done_out().bind(host.done_in);
  }

  // From `origin` on, with random pauses between submissions.
  void feed(const Program& program, std::uint64_t seed, Cycle longest_pause, Cycle origin = 0) {
    Random random(seed);
    for (const auto& [operation, packet] : program.work) checker.expect(packet);
    Cycle when = origin;
    for (const protocol::SubmitPacket& packet : program.packets) {
      host.submit_until_forgotten(when += random.below(longest_pause + 1), packet);
    }
  }
  // Call from an action of the host.
  void reset() {
    gpu.reset();
    host.forget();
    checker.forget();
  }
  double stat(const std::string& name) const { return observation.stats.value(observation.prefix + "." + name); }

  // Blocks make their tracks when they are built.
  struct Observed : GpuObservation {
    Observed(const std::string& prefix_, TimelineSink* sink) : GpuObservation(prefix_) { timeline = sink; }
  };
  Observed observation;
  CtaChecker checker;
  gpu::Gpu gpu;
  ScriptedHost host;
};

// Everything that a run shows, without the device's name and relative to `origin`.
struct Outcome {
  std::string stats;
  std::vector<CtaChecker::Edge> edges;
  std::map<std::uint32_t, std::tuple<int, double, double, double>> results;
  std::vector<std::uint32_t> order;
  std::string load;
};

inline Outcome outcome_of(const GpuBench& bench, Cycle origin = 0) {
  Outcome outcome;
  const std::string prefix = bench.observation.prefix + ".";
  for (const nlohmann::json& table : {bench.observation.stats.to_json(), bench.observation.stats.histograms_json()}) {
    for (const auto& [path, value] : table.items()) {
      outcome.stats += path.substr(prefix.size()) + " " + value.dump() + "\n";
    }
  }
  outcome.edges = bench.checker.edges;
  const double zero = static_cast<double>(origin) * 1e3;
  for (const auto& [operation, done] : bench.host.results) {
    const auto ps = [&zero](Picoseconds time) { return static_cast<double>(time) - zero; };
    outcome.results[operation] = {static_cast<int>(done.status), ps(done.submitted), ps(done.start), ps(done.end)};
  }
  outcome.order = bench.host.order;
  const LoadMap& map = bench.observation.load_map;
  outcome.load = fmt::format("{} {} {}:", map.bins(), map.bin_cycles(), map.last());
  for (std::uint32_t unit = 0; unit < map.units(); ++unit) {
    for (std::uint32_t bin = 0; bin < map.bins(); ++bin) outcome.load += fmt::format(" {}", map.load(unit, bin));
  }
  return outcome;
}

inline gpu::GpuParams random_gpu_params(Random& random) {
  gpu::GpuParams params;
  static constexpr double kClocks[] = {1.0, 1.755, 0.7, 1.98};
  params.machine.clock = kClocks[random.below(4)];
  params.machine.shape = random.shape(random.between(1, 4));
  params.machine.run_ahead = random.chance(30) ? 0 : random.between(1, 2000);
  params.cwd = random_cwd_params(random, params.machine.shape.sms());
  params.task.stream_gap = random.chance(30) ? 0 : random.below(1500);
  params.task.to_cwd = random.below(30);
  params.gpc.gpm_to_mpc = random.below(10);
  params.gpc.mpc_to_sm = random.below(6);
  params.gpc.gpm_to_cwd = random.below(80);
  params.gpc.mpc_queue = random.between(1, 4);
  params.sm.start_cycles = random.below(30);
  arch::SmLimits& limits = params.sm.limits;
  limits.ctas = random.chance(50) ? 32 : random.between(1, 64);
  limits.warps = random.between(32, 64);
  limits.registers = random.chance(50) ? 65'536 : 131'072;
  return params;
}

}  // namespace heddle::test

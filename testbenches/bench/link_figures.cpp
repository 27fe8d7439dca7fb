// Collectives over 2, 4 and 8 modelled GPUs that a switch connects, in a ring and by the switch, against size, beside
// what the links can carry. Simulated times are the same on every computer. Prints the table of docs/results/links.md.
//
//   heddle_link_figures [--quick | --gpus N]
//
// --quick: small sizes over 2 and 4 GPUs. --gpus: over so many only.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/figure_page.h"
#include "common/params.h"
#include "gpu/gpu_params.h"
#include "replay/simulation.h"
#include "scenario/collectives.h"
#include "scenario/scenario.h"

namespace {

using namespace heddle;
using figures::print;

constexpr std::uint32_t kCtas = 32;

gpu::GpuParams h100() {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset("h100-sxm"), {Origin::Kind::preset, "preset h100-sxm"});
  layers.resolve(binder, 0);
  params.machine.timing = TimingMode::fast;
  return params;
}

struct Operation {
  scenario::Collective kind = scenario::Collective::all_reduce;
  bool in_switch = false;
  std::uint32_t gpus = 2;
  std::uint64_t bytes = 0;
};

std::string text_of(const Operation& op) {
  std::vector<std::string> presets;
  std::vector<std::string> memory;
  std::vector<std::string> streams;
  std::vector<std::string> names[2];
  for (std::uint32_t g = 0; g < op.gpus; ++g) {
    presets.emplace_back("h100-sxm");
    memory.push_back(fmt::format("{{name: x{0}, bytes: {1}, gpu: {0}, shared: true}}", g, op.bytes));
    streams.push_back(fmt::format("{{name: s{0}, gpu: {0}}}", g));
    names[0].push_back(fmt::format("s{}", g));
    names[1].push_back(fmt::format("x{}", g));
  }
  return fmt::format(
      "heddle: 1\nname: collective\ngpus: [{}]\nmemory: [{}]\nstreams: [{}]\nsubmit: [{{{}: {}, streams: [{}], "
      "buffers: [{}], algorithm: {}, ctas: {}}}]\n",
      fmt::join(presets, ", "), fmt::join(memory, ", "), fmt::join(streams, ", "), scenario::collective_name(op.kind),
      op.bytes, fmt::join(names[0], ", "), fmt::join(names[1], ", "), op.in_switch ? "switch" : "ring", kCtas);
}

// Nanoseconds from the first start to the last end.
double time_of(const Operation& op, const gpu::GpuParams& params) {
  const scenario::Scenario scene = scenario::parse_scenario(text_of(op), "collective");
  std::vector<replay::Job> jobs(op.gpus);
  for (std::uint32_t g = 0; g < op.gpus; ++g) {
    jobs[g].instance = fmt::format("gpu{}", g);
    jobs[g].params = params;
    jobs[g].workload = &scene.workloads[g];
  }
  replay::SimulationOptions options;
  options.links.topology = link::Topology::through_switch;
  const replay::SimulationResult result = replay::simulate(jobs, options);
  HEDDLE_CHECK(result.progress, "a collective did not end: " + result.stopped);
  double start = result.jobs[0].results[0].start;
  double end = 0;
  for (const replay::JobResult& job : result.jobs) {
    HEDDLE_CHECK(job.faults.empty(), "a collective met a fault");
    start = std::min(start, job.results[0].start);
    end = std::max(end, job.results[0].end);
  }
  return end - start;
}

std::string size_text(std::uint64_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

// GB/s of the operation that the links allow. A line that goes out takes 128 bytes and a header; the acknowledgement of
// one that comes in takes a header in the same direction. In the switch a read's request and its answer do the same.
double limit(const Operation& op, const link::LinkParams& links) {
  const double part = 128.0 / (128.0 + 2 * links.header_bytes);
  return links.ports * links.bandwidth * part / scenario::bytes_carried(op.kind, op.gpus, op.in_switch);
}

void rows(Operation op, const std::vector<std::uint64_t>& sizes, const gpu::GpuParams& params) {
  // What nccl-tests multiplies with, whatever the algorithm.
  const double bus = scenario::bytes_carried(op.kind, op.gpus, false);
  const double most = limit(op, params.links);
  for (const std::uint64_t bytes : sizes) {
    op.bytes = bytes;
    const double time = time_of(op, params);
    const double rate = static_cast<double>(bytes) / time;
    const double at_limit = static_cast<double>(bytes) / most;
    figures::claim(rate <= most,
                   fmt::format("{} over {} GPUs is not faster than the links", size_text(bytes), op.gpus));
    print(fmt::format("| {} GPUs, {}, {}, {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.0f} | {:.1f} % |\n",
                      op.gpus, scenario::collective_name(op.kind), op.in_switch ? "switch" : "ring", size_text(bytes),
                      time / 1e3, at_limit / 1e3, (time - at_limit) / 1e3, rate, rate * bus, most * bus,
                      100 * rate / most));
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::uint64_t> sizes{16 << 10, 256 << 10, 4 << 20, 16 << 20};
  std::vector<std::uint32_t> gpus{2, 4, 8};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--quick") {
      sizes = {16 << 10, 256 << 10};
      gpus = {2, 4};
    } else if (argument == "--gpus" && i + 1 < count) {
      gpus = {static_cast<std::uint32_t>(std::strtoul(arguments[++i], nullptr, 0))};
    }
  }
  const gpu::GpuParams params = h100();
  print(
      "| GPUs, collective, algorithm, size of each buffer | time, us | at the links' limit, us | beside it, us | "
      "algorithm, GB/s | bus, GB/s | limit, bus GB/s | of the limit |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::uint32_t number : gpus) {
    for (const scenario::Collective kind :
         {scenario::Collective::all_reduce, scenario::Collective::all_gather, scenario::Collective::reduce_scatter}) {
      for (const bool in_switch : {false, true}) rows({kind, in_switch, number, 0}, sizes, params);
    }
  }
  return figures::good ? 0 : 1;
}

// All-reduce over 2, 4 and 8 modelled GPUs that a switch connects, in a ring and by the switch, against size, beside
// what the links can carry. Simulated times are the same on every computer. Prints Markdown.
//
//   heddle_link_figures [--fast | --to BYTES] [--gpus N]
//
// --fast: small sizes over 2 and 4 GPUs. --to: sizes up to so many bytes; default 16 MiB.
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

std::string text_of(std::uint32_t gpus, std::uint64_t bytes, const std::string& algorithm) {
  std::vector<std::string> presets;
  std::vector<std::string> memory;
  std::vector<std::string> streams;
  std::vector<std::string> names[2];
  for (std::uint32_t g = 0; g < gpus; ++g) {
    presets.emplace_back("h100-sxm");
    memory.push_back(fmt::format("{{name: x{0}, bytes: {1}, gpu: {0}, shared: true}}", g, bytes));
    streams.push_back(fmt::format("{{name: s{0}, gpu: {0}}}", g));
    names[0].push_back(fmt::format("s{}", g));
    names[1].push_back(fmt::format("x{}", g));
  }
  return fmt::format(
      "heddle: 1\nname: all-reduce\ngpus: [{}]\nmemory: [{}]\nstreams: [{}]\nsubmit: [{{all_reduce: {}, streams: [{}], "
      "buffers: [{}], algorithm: {}, ctas: {}}}]\n",
      fmt::join(presets, ", "), fmt::join(memory, ", "), fmt::join(streams, ", "), bytes, fmt::join(names[0], ", "),
      fmt::join(names[1], ", "), algorithm, kCtas);
}

// Nanoseconds from the first start to the last end.
double time_of(std::uint32_t gpus, std::uint64_t bytes, const std::string& algorithm, const gpu::GpuParams& params) {
  const scenario::Scenario scene = scenario::parse_scenario(text_of(gpus, bytes, algorithm), "all-reduce");
  std::vector<replay::Job> jobs(gpus);
  for (std::uint32_t g = 0; g < gpus; ++g) {
    jobs[g].instance = fmt::format("gpu{}", g);
    jobs[g].params = params;
    jobs[g].workload = &scene.workloads[g];
  }
  replay::SimulationOptions options;
  options.links.topology = link::Topology::through_switch;
  const replay::SimulationResult result = replay::simulate(jobs, options);
  HEDDLE_CHECK(result.progress, "an all-reduce did not end: " + result.stopped);
  double start = result.jobs[0].results[0].start;
  double end = 0;
  for (const replay::JobResult& job : result.jobs) {
    HEDDLE_CHECK(job.faults.empty(), "an all-reduce met a fault");
    start = std::min(start, job.results[0].start);
    end = std::max(end, job.results[0].end);
  }
  return end - start;
}

std::string size_text(std::uint64_t bytes) {
  if (bytes >= 1 << 30) return fmt::format("{} GiB", bytes >> 30);
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

// A line that goes out takes 128 bytes and a header; the acknowledgement of one that comes in takes a header in the
// same direction. In the switch a read's request and its answer do the same.
double limit(std::uint32_t gpus, bool in_switch, const link::LinkParams& links) {
  const double carried = scenario::bytes_carried(scenario::Collective::all_reduce, gpus, in_switch);
  const double part = 128.0 / (128.0 + 2 * links.header_bytes);
  return links.ports * links.bandwidth * part / carried;
}

void table(std::uint32_t gpus, std::uint64_t most) {
  const gpu::GpuParams params = h100();
  const double bus = scenario::bytes_carried(scenario::Collective::all_reduce, gpus, false);
  print(fmt::format("## {} GPUs\n\n", gpus));
  print(fmt::format("At most {:.0f} GB/s in a ring, {:.0f} GB/s in the switch.\n\n", limit(gpus, false, params.links),
                    limit(gpus, true, params.links)));
  print(
      "| size, of each GPU | ring, us | ring, GB/s | of its limit | switch, us | switch, GB/s | of its limit | ring, "
      "bus GB/s | "
      "switch, bus GB/s |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (std::uint64_t bytes = 1 << 10; bytes <= most; bytes *= 4) {
    double ns[2] = {};
    std::string row = fmt::format("| {} GPUs, {} |", gpus, size_text(bytes));
    for (const bool in_switch : {false, true}) {
      const double time = time_of(gpus, bytes, in_switch ? "switch" : "ring", params);
      ns[in_switch ? 1 : 0] = time;
      const double rate = static_cast<double>(bytes) / time;
      const double part = rate / limit(gpus, in_switch, params.links);
      figures::claim(part <= 1, fmt::format("{} over {} GPUs is not faster than the links", size_text(bytes), gpus));
      row += fmt::format(" {:.2f} | {:.2f} | {:.1f} % |", time / 1e3, rate, 100 * part);
    }
    row += fmt::format(" {:.2f} | {:.2f} |\n", static_cast<double>(bytes) * bus / ns[0],
                       static_cast<double>(bytes) * bus / ns[1]);
    print(row);
  }
  print("\n");
}

}  // namespace

int main(int count, char** arguments) {
  std::uint64_t most = 16 << 20;
  std::vector<std::uint32_t> gpus{2, 4, 8};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--fast") {
      most = 64 << 10;
      gpus = {2, 4};
    } else if (argument == "--to" && i + 1 < count) {
      most = std::strtoull(arguments[++i], nullptr, 0);
    } else if (argument == "--gpus" && i + 1 < count) {
      gpus = {static_cast<std::uint32_t>(std::strtoul(arguments[++i], nullptr, 0))};
    }
  }
  for (const std::uint32_t number : gpus) table(number, most);
  return figures::good ? 0 : 1;
}

// The figures of docs/results/delta-width.md: what the width of the delta counters costs in bits and in cycles (CWD-41,
// CWD-44). They are simulated, so they are the same on every computer. Prints Markdown.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <systemc>

#include "common/params.h"
#include "gpu/structure_bits.h"
#include "replay/simulation.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;

gpu::GpuParams preset(const std::string& name) {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(name), {Origin::Kind::preset, "preset " + name});
  layers.resolve(binder, 0);
  return params;
}

void print(const std::string& line) { std::fputs((line + "\n").c_str(), stdout); }

class Watch final : public CtaListener {
 public:
  void cta_started(const Cta& cta) override {
    first_launch = std::min(first_launch, cta.launch);
    last_instruction = std::max(last_instruction, cta.first_instruction);
  }
  void cta_ended(const Cta&) override {}

  std::uint64_t first_launch = ~std::uint64_t{0};
  std::uint64_t last_instruction = 0;
};

struct Run {
  double cycles = 0;  // from the first launch packet to the last CTA's first instruction
  double updates = 0;
  double overflows = 0;
  double waits = 0;  // cycles, for raster units
};

// One-dimensional grids one after another, of CTAs that run for so many cycles.
Run run(const gpu::GpuParams& params, std::uint32_t ctas, std::uint64_t cycles) {
  workload::Workload work;
  work.name = "figures";
  work.format = "scenario";
  work.streams.push_back({"0", 0});
  workload::Op op;
  op.kernel.grid = {ctas, 1, 1};
  op.kernel.block = {256, 1, 1};
  op.kernel.duration = {cycles, cycles};
  op.kernel.name = "grid";
  op.enqueue = 0;
  work.ops.push_back(op);
  Watch watch;
  replay::Job job;
  job.instance = "gpu0";
  job.params = params;
  job.workload = &work;
  job.ctas = &watch;
  const replay::SimulationResult result = replay::simulate({job}, {});
  HEDDLE_CHECK(result.progress, "a grid did not run to its end");
  Run figures;
  figures.cycles = static_cast<double>(watch.last_instruction - watch.first_launch);
  const Stats& stats = result.jobs[0].observation->stats;
  for (const Stats::Description& statistic : stats.descriptions()) {
    const auto ends = [&](const std::string& name) {
      return statistic.path.size() > name.size() &&
             statistic.path.compare(statistic.path.size() - name.size(), name.size(), name) == 0;
    };
    if (ends(".raster_updates")) figures.updates += stats.value(statistic.path);
    if (ends(".delta_overflows")) figures.overflows += stats.value(statistic.path);
    if (ends(".raster_wait_cycles")) figures.waits += stats.value(statistic.path);
  }
  return figures;
}

double bits_of(const gpu::GpuParams& params, const std::string& name) {
  double bits = 0;
  for (const gpu::Structure& structure : gpu::structures_of(params)) {
    if (structure.block == "raster" && structure.name == name) bits += static_cast<double>(structure.bits());
  }
  return bits;
}

void table(const std::string& machine, bool bounded, std::uint32_t ctas, std::uint64_t cycles) {
  gpu::GpuParams params = preset(machine);
  if (!bounded) {
    // The raster units are the narrowest place on the way of a launch.
    params.cwd.cta_commits = 0;
    params.gpc.mpc_launches = 0;
    params.gpc.packets = 0;
    params.gpc.cta_starts = 0;
  }
  print(fmt::format("\n{}{}, {} CTAs of 256 threads that run for {} cycles:\n", machine,
                    bounded ? "" : " without limits of distributor, GPM and SM", ctas, cycles));
  print(
      "| delta bits | bits of delta counters | with raster states | cycles to the last first instruction | divisions "
      "for "
      "own launches | because a counter was full | cycles that CTAs waited for raster units, mean |");
  print("| --- | --- | --- | --- | --- | --- | --- |");
  double fastest = 0;
  double widest = 0;
  for (const std::uint32_t bits : {1U, 2U, 4U, 6U, 8U, 10U, 12U, 16U, 24U, 32U, 63U}) {
    params.gpc.delta_bits = bits;
    const Run figures = run(params, ctas, cycles);
    const double counters = bits_of(params, "delta counters");
    print(fmt::format("| {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.1f} |", bits, counters,
                      counters + bits_of(params, "raster state"), figures.cycles, figures.updates, figures.overflows,
                      figures.waits / ctas));
    fastest = fastest == 0 ? figures.cycles : std::min(fastest, figures.cycles);
    widest = figures.cycles;
    HEDDLE_CHECK((bits < 6) == (figures.overflows > 0) || (bits >= 6 && bits < 16),
                 "counters are full where they are wide, or never where they are narrow");
  }
  HEDDLE_CHECK(fastest < widest, "the widest counter is the best");
}

}  // namespace

// --quick: as a test.
int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  print("## Bits against time");
  const std::uint32_t ctas = quick ? 2'000 : 20'000;
  table("text", true, ctas, 100);
  table("h100-sxm", true, ctas, 100);
  table("h100-sxm", false, ctas, 100);
  return 0;
}

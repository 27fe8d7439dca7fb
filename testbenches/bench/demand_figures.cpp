// The figures of docs/results/demands.md: the same kernels as programs and as demands, alone and beside a copy that
// takes their bandwidth; and what a CTA with a demand costs the computer. Simulated times are the same on every
// computer, and a test compares them with the page. Prints Markdown.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch/demand.h"
#include "bench/bare_events.h"
#include "bench/figure_page.h"
#include "common/params.h"
#include "replay/simulation.h"
#include "scenario/scenario.h"

namespace {

using namespace heddle;
using arch::DemandUnit;
using figures::print;

constexpr double kClose = 0.10;  // of the time of a program, in the timing fast

// `l2`: bytes of the L2; 0: as it is.
gpu::GpuParams h100(TimingMode timing, std::uint64_t l2 = 0) {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset("h100-sxm"), {Origin::Kind::preset, "preset h100-sxm"});
  layers.resolve(binder, 0);
  binder.set("gpu.sm.issue.tensor_sample=97");
  params.machine.timing = timing;
  if (l2 > 0) params.l2.bytes = l2;
  return params;
}

// From the first instruction of a kernel to the end of its last CTA.
class Watch final : public CtaListener {
 public:
  struct Span {
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t last = 0;
    std::uint64_t ctas = 0;
  };
  explicit Watch(std::size_t operations) : spans(operations) {}
  void cta_started(const Cta& cta) override {
    spans[cta.task].first = std::min(spans[cta.task].first, cta.first_instruction);
  }
  void cta_ended(const Cta& cta) override {
    spans[cta.task].last = std::max(spans[cta.task].last, cta.cycle);
    ++spans[cta.task].ctas;
  }
  std::vector<Span> spans;
};

struct Run {
  double ns = 0;    // of the first kernel
  double cpu = 0;   // seconds of this computer, of the whole run
  double read = 0;  // bytes of memory
  double written = 0;
  double accesses = 0;  // instructions of warps on memory of any kind
};

// The kernels at once, each in a stream of its own.
Run run(const workload::Workload& base, std::vector<workload::Op> ops, const gpu::GpuParams& params) {
  workload::Workload work = base;
  work.streams.clear();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    work.streams.push_back({std::to_string(i), 0});
    ops[i].stream = i;
    ops[i].after.clear();
    ops[i].enqueue = 0;
  }
  work.ops = std::move(ops);
  Watch watch(work.ops.size());
  replay::Job job;
  job.instance = "gpu0";
  job.params = params;
  job.workload = &work;
  job.ctas = &watch;
  const replay::SimulationResult result = replay::simulate({job}, {});
  HEDDLE_CHECK(result.progress && result.jobs[0].faults.empty(), "a kernel did not run to its end");
  const Watch::Span& span = watch.spans[0];
  const Stats& stats = result.jobs[0].observation->stats;
  double accesses = 0;
  for (const std::string& sm : result.jobs[0].sm_paths) accesses += stats.value("gpu0." + sm + ".instructions.memory");
  return {static_cast<double>(span.last - span.first) * result.jobs[0].cycle_ns, result.cpu_seconds,
          stats.value("gpu0.hbm.read_bytes"), stats.value("gpu0.hbm.written_bytes"), accesses};
}

class Kernels {
 public:
  explicit Kernels(const workload::Workload& work) : work_(work) {}
  workload::Op find(const std::string& name) const {
    const auto found = std::find_if(work_.ops.begin(), work_.ops.end(),
                                    [&](const workload::Op& op) { return op.kernel.name == name; });
    HEDDLE_CHECK(found != work_.ops.end(), "the scenario has no such kernel: " + name);
    return *found;
  }

 private:
  const workload::Workload& work_;
};

struct Pair {
  workload::Op program;
  workload::Op demand;
  Run alone;  // of the program
  double floor_ns = 0;
};

// Its floor is the time of one CTA, or cluster, on an empty machine; its bytes of memory, and instructions on memory,
// are those that the program's own run counts, as a profiler would. All else is as the scenario has it.
Pair pair_of(const workload::Workload& work, const std::string& name, const gpu::GpuParams& params) {
  Pair pair;
  pair.program = Kernels(work).find(name);
  pair.demand = Kernels(work).find(name + "_demand");
  workload::Op one = pair.program;
  const arch::Dim3 cluster =
      one.kernel.cluster.any() ? one.kernel.cluster.of(arch::CgaLevel::gpc) : arch::Dim3{1, 1, 1};
  one.kernel.grid = cluster;
  pair.floor_ns = run(work, {one}, params).ns;
  pair.alone = run(work, {pair.program}, params);
  const auto ctas = static_cast<double>(pair.program.kernel.grid.count());
  auto demand = std::make_shared<arch::Demand>(*pair.demand.kernel.demand);
  demand->floor_ns = pair.floor_ns;
  demand->of(DemandUnit::dram_read) = std::min(pair.alone.read / ctas, demand->of(DemandUnit::l2_read));
  demand->of(DemandUnit::dram_write) = pair.alone.written / ctas;
  demand->accesses =
      pair.alone.accesses / ctas / std::ceil(static_cast<double>(pair.program.kernel.block.count()) / 32);
  pair.demand.kernel.demand = std::move(demand);
  return pair;
}

void table_row(const std::string& name, const std::string& how, const Run& program, const Run& demand, bool close) {
  const double off = demand.ns / program.ns - 1;
  if (close) {
    figures::claim(std::abs(off) <= kClose, fmt::format("{} {} takes as long as a demand within a tenth", name, how));
  }
  print(fmt::format("| {} | {} | {:.2f} | {:.2f} | {:+.1f} % |\n", name, how, program.ns / 1e3, demand.ns / 1e3,
                    100 * off));
  if (std::getenv("HEDDLE_SHOW_CPU") != nullptr) {
    print(fmt::format("CPU time: {:.2f} s as programs, {:.4f} s as demands\n", program.cpu, demand.cpu));
  }
}

void compare(const std::vector<std::string>& names, TimingMode timing) {
  const scenario::Scenario scene = scenario::read_scenario(HEDDLE_SOURCE_DIR "/scenarios/demands/kernels.yaml");
  const workload::Workload& work = scene.workloads[0];
  const bool close = timing == TimingMode::fast;
  print("| kernel | | as a program, us | as a demand, us | difference |\n| --- | --- | --- | --- | --- |\n");
  for (const std::string& name : names) {
    // What an L2 of 50 MiB takes in at first would be most of what the copy writes.
    const gpu::GpuParams params = h100(timing, name == "copy" ? std::uint64_t{8} << 20 : 0);
    const Pair neighbour = pair_of(work, "neighbour", params);
    const Pair pair = pair_of(work, name, params);
    table_row(name, "alone", pair.alone, run(work, {pair.demand}, params), close);
    const Run beside = run(work, {pair.program, neighbour.program}, params);
    table_row(name, "beside the copy", beside, run(work, {pair.demand, neighbour.demand}, params), close);
  }
}

// What a CTA costs, in activations of a bare SystemC method.
void speed(std::uint32_t ctas) {
  const auto cost = [&](const std::shared_ptr<const arch::Demand>& demand, std::uint32_t count) {
    const bench::Yardstick::Round round = bench::Yardstick().measure(3, [&] {
      workload::Workload work;
      work.name = "speed";
      work.format = "scenario";
      workload::Op op;
      op.kernel.name = "kernel";
      op.kernel.grid = {count, 1, 1};
      op.kernel.block = {256, 1, 1};
      op.kernel.duration = {1500, 1500};
      op.kernel.demand = demand;
      return static_cast<double>(count) / run(work, {op}, h100(TimingMode::at)).cpu;
    });
    return 1 / round.ratio();
  };
  auto free = std::make_shared<arch::Demand>();
  free->of(DemandUnit::fp32) = 1000;
  free->floor_ns = 850;
  auto contended = std::make_shared<arch::Demand>(*free);
  contended->of(DemandUnit::l2_read) = contended->of(DemandUnit::dram_read) = 8192;
  contended->of(DemandUnit::l2_write) = contended->of(DemandUnit::dram_write) = 8192;
  print(fmt::format(
      "bare activations per CTA: {:.1f} with a duration, {:.1f} with a demand that nothing slows down, {:.1f} where "
      "memory is used up; with ten times as many CTAs {:.1f}, {:.1f} and {:.1f}\n",
      cost(nullptr, ctas), cost(free, ctas), cost(contended, ctas), cost(nullptr, 10 * ctas), cost(free, 10 * ctas),
      cost(contended, 10 * ctas)));
}

}  // namespace

// [--fast] [KERNEL ...]: those of scenarios/demands/kernels.yaml, in that timing; or --speed [CTAS]
int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "--speed") {
    speed(arguments.size() > 1 ? static_cast<std::uint32_t>(std::stoul(arguments[1])) : 200'000);
    return 0;
  }
  const bool fast = !arguments.empty() && arguments[0] == "--fast";
  std::vector<std::string> names(arguments.begin() + (fast ? 1 : 0), arguments.end());
  if (names.empty()) names = {"copy", "gemm", "reduce", "attention"};
  compare(names, fast ? TimingMode::fast : TimingMode::at);
  return figures::good ? 0 : 1;
}

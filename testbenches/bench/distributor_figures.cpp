// The figures of docs/results/distributor.md, all from one run: what the distributor decides, sends and starts, and in
// how many cycles. They are simulated, so they are the same on every computer. Prints Markdown.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <systemc>

#include "bench/session_figures.h"
#include "common/params.h"
#include "cwd/occupancy.h"
#include "replay/simulation.h"
#include "scenario/scenario.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using arch::CgaLevel;

gpu::GpuParams preset(const std::string& name) {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(name), {Origin::Kind::preset, "preset " + name});
  layers.resolve(binder, 0);
  return params;
}

// CTAs of which so many fit on an SM.
arch::KernelShape kernel(const arch::Dim3& grid, std::uint32_t ctas_per_sm, std::uint64_t cycles) {
  arch::KernelShape shape;
  shape.grid = grid;
  shape.block = {2048 / ctas_per_sm > 1024 ? 1024 : 2048 / ctas_per_sm, 1, 1};
  if (ctas_per_sm == 1) shape.registers_per_thread = 64;
  shape.duration = {cycles, cycles};
  return shape;
}

class Watch final : public CtaListener {
 public:
  void cta_started(const Cta& cta) override {
    first_launch = std::min(first_launch, cta.launch);
    last_launch = std::max(last_launch, cta.launch);
    last_instruction = std::max(last_instruction, cta.first_instruction);
    ++ctas;
    ++on_sm[cta.sm];
  }
  void cta_ended(const Cta& cta) override { last_end = std::max(last_end, cta.cycle); }

  std::map<std::uint32_t, std::uint32_t> on_sm;  // CTAs by SM
  std::uint64_t last_end = 0;
  std::uint64_t first_launch = ~std::uint64_t{0};
  std::uint64_t last_launch = 0;
  std::uint64_t last_instruction = 0;
  std::uint64_t ctas = 0;
};

struct Figures {
  double decide = 0;  // cycles of all sessions
  double sessions = 0;
  double packets = 0;
  double link_bits = 0;
  double ctas = 0;
  double launching = 0;  // cycles from the first launch packet to the last one
  double running = 0;    // cycles from the first launch packet to the last CTA's first instruction
  double cycle_ns = 1;
};

Figures run(const gpu::GpuParams& params, const arch::KernelShape& shape) {
  workload::Workload work;
  work.name = "figures";
  work.format = "scenario";
  work.streams.push_back({"0", 0});
  workload::Op op;
  static_cast<arch::KernelShape&>(op.kernel) = shape;
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
  HEDDLE_CHECK(result.progress && watch.ctas == shape.grid.count(), "a grid did not run to its end");
  const Stats& stats = result.jobs[0].observation->stats;
  const auto value = [&](const char* name) { return stats.value(std::string("gpu0.cwd.") + name); };
  Figures f;
  f.sessions = value("sessions");
  f.decide = value("session_cycles.mean") * value("session_cycles.count");
  f.packets = value("launch_packets");
  f.link_bits = value("link_bits");
  f.ctas = static_cast<double>(watch.ctas);
  f.launching = static_cast<double>(watch.last_launch - watch.first_launch) + 1;
  f.running = static_cast<double>(watch.last_instruction - watch.first_launch);
  f.cycle_ns = result.jobs[0].cycle_ns;
  return f;
}

void print(const std::string& line) { std::fputs((line + "\n").c_str(), stdout); }

void decisions() {
  print("## Deciding and starting 8 CTAs on each of 128 SMs (preset text)\n");
  print(
      "| distributor | cycles to decide | to the last launch packet | to the last first instruction | launch packets | "
      "per CTA |");
  print("| --- | --- | --- | --- | --- | --- |");
  for (const int mode : {0, 1, 2}) {
    gpu::GpuParams params = preset("text");
    if (mode == 0) params.cwd.plain = "one_at_a_time";
    params.cwd.level_search = mode == 1 ? cwd::LevelSearch::scan : cwd::LevelSearch::bisection;
    const Figures f = run(params, kernel({1024, 1, 1}, 8, 20'000));
    static constexpr const char* kNames[] = {"one CTA at a time (prior art)", "parallel, scan of the levels",
                                             "parallel, bisection"};
    print(fmt::format("| {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.3f} |", kNames[mode], f.decide, f.launching,
                      f.running, f.packets, f.packets / f.ctas));
  }
  print("");
}

struct Grid {
  std::string name;
  arch::Dim3 extents;
  arch::Dim3 cga = arch::kNoExtents;
};

// Of a grid: central rasterisation, and distributed.
std::pair<Figures, Figures> both_rasters(gpu::GpuParams params, const Grid& grid) {
  arch::KernelShape shape = kernel(grid.extents, 8, 100'000);
  shape.cluster.of(CgaLevel::gpc) = grid.cga;
  params.cwd.central_raster = true;
  const Figures central = run(params, shape);
  params.cwd.central_raster = false;
  return {central, run(params, shape)};
}

void raster_limits() {
  print("What bounds the central rasteriser, 8 x 18 SMs, 1152 x 1 x 1, 256 places:\n");
  print("| bits of the port per cycle | cycles to make an id | CTAs per cycle, central | distributed | ratio |");
  print("| --- | --- | --- | --- | --- |");
  for (const std::uint32_t port : {64U, 128U, 0U}) {
    for (const std::uint32_t cycles : {0U, 1U, 2U, 4U}) {
      gpu::GpuParams params = preset("text");
      params.machine.shape = arch::Shape::from_sms_per_gpc(std::vector<std::uint32_t>(8, 18));
      params.cwd.gpc_queue = 256;
      params.cwd.port_bits = port;
      params.cwd.raster_cycles = cycles;
      const auto [central, distributed] = both_rasters(params, {"1152 x 1 x 1", {1152, 1, 1}});
      const double rate[2] = {central.ctas / central.launching, distributed.ctas / distributed.launching};
      print(fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.1f} |", port == 0 ? "all" : std::to_string(port), cycles,
                        rate[0], rate[1], rate[1] / rate[0]));
    }
  }
  print("");
}

void rasterisation() {
  print("## CTA launch throughput, central and distributed rasterisation (preset text, 8 CTAs per SM)\n");
  print(
      "The central rasteriser makes an id in gpu.cwd.raster_cycles (2) and sends it to whichever GPC has a place; a "
      "broadcast needs a place in the queues of all GPCs (gpu.cwd.gpc_queue), for which a credit is under way for 100 "
      "cycles.\n");
  print(
      "| GPCs | grid | places in the queue of a GPC | CTAs per cycle, central | distributed | ratio | bits per CTA on "
      "all "
      "links, central | distributed |");
  print("| --- | --- | --- | --- | --- | --- | --- | --- |");
  const std::vector<Grid> grids = {{"1024 x 1 x 1", {1024, 1, 1}},
                                   {"32 x 32 x 1", {32, 32, 1}},
                                   {"1 x 1 x 1024", {1, 1, 1024}},
                                   {"7 x 9 x 16", {7, 9, 16}},
                                   {"16 x 1 x 1", {16, 1, 1}},
                                   {"1024 x 1 x 1 in GPC_CGAs of 2", {1024, 1, 1}, {2, 1, 1}},
                                   {"1024 x 1 x 1 in GPC_CGAs of 16", {1024, 1, 1}, {16, 1, 1}}};
  const auto row = [](std::uint32_t sms, const Grid& grid, std::uint32_t queue) {
    gpu::GpuParams params = preset("text");
    params.machine.shape = arch::Shape::from_sms_per_gpc(std::vector<std::uint32_t>(8, sms));
    params.cwd.gpc_queue = queue;
    const auto [central, distributed] = both_rasters(params, grid);
    const double rate[2] = {central.ctas / central.launching, distributed.ctas / distributed.launching};
    print(fmt::format("| 8 x {} SMs | {} | {} | {:.2f} | {:.2f} | {:.1f} | {:.0f} | {:.0f} |", sms, grid.name, queue,
                      rate[0], rate[1], rate[1] / rate[0], central.link_bits / central.ctas,
                      distributed.link_bits / distributed.ctas));
  };
  for (const std::uint32_t sms : {16U, 18U}) {
    for (Grid grid : grids) {
      if (sms == 18 && grid.extents.x == 1024 && grid.cga.count() == 0) {
        grid.extents.x = 1152;
        grid.name.replace(0, 4, "1152");
      }
      row(sms, grid, 256);
    }
  }
  for (const std::uint32_t queue : {4U, 8U, 16U, 32U, 64U, 128U, 512U}) row(18, {"1152 x 1 x 1", {1152, 1, 1}}, queue);
  print("");
  raster_limits();
}

void latency() {
  print("## Session latency for one CGA on an empty machine, in cycles (preset text)\n");
  print("| GPCs of 16 SMs | 2 CTAs | 4 | 8 | 16 | GPU_CGA of 4 GPC_CGAs of 4 | of 16 of 4 |");
  print("| --- | --- | --- | --- | --- | --- | --- |");
  for (const std::uint32_t gpcs : {1U, 2U, 4U, 8U, 16U}) {
    std::string row = fmt::format("| {} |", gpcs);
    for (const std::uint32_t size : {2U, 4U, 8U, 16U, 17U, 18U}) {
      gpu::GpuParams params = preset("text");
      params.machine.shape = arch::Shape::from_sms_per_gpc(std::vector<std::uint32_t>(gpcs, 16));
      const bool two_level = size > 16;
      const std::uint32_t parts = size == 17 ? 4 : 16;
      const std::uint32_t ctas = two_level ? 4 * parts : size;
      arch::KernelShape shape = kernel({ctas, 1, 1}, 8, 1000);
      shape.cluster.mode = arch::CgaMode::multicast;
      shape.cluster.of(CgaLevel::gpc) = {two_level ? 4 : size, 1, 1};
      if (two_level) shape.cluster.of(CgaLevel::gpu) = {ctas, 1, 1};
      row += fmt::format(" {:.0f} |", run(params, shape).decide);
    }
    print(row);
  }
  print("\nLoad-balancing mode, several CTAs of a CGA on an SM (2 SMs per GPC free):\n");
  print("| CTAs of the CGA | cycles |");
  print("| --- | --- |");
  for (const std::uint32_t size : {2U, 4U, 8U, 16U}) {
    gpu::GpuParams params = preset("text");
    params.machine.shape = arch::Shape::from_sms_per_gpc(std::vector<std::uint32_t>(8, 2));
    arch::KernelShape shape = kernel({size, 1, 1}, 8, 1000);
    shape.cluster.of(CgaLevel::gpc) = {size, 1, 1};
    shape.cluster.mode = arch::CgaMode::load_balancing;
    print(fmt::format("| {} | {:.0f} |", size, run(params, shape).decide));
  }
  print("");
}

// `quick`: without the largest machine, whose sockets SystemC takes a minute to take apart.
void session_laws(bool quick) {
  print("## Session latency by size of the machine, in cycles (preset h100-sxm, other shapes)\n");
  print("| GPCs x SMs | SMs | plain grid, SMs - 1 CTAs | GPC_CGA of 2 | of 8 | of 16 | GPU_CGA of 4 x 8 |");
  print("| --- | --- | --- | --- | --- | --- | --- |");
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> shapes{{1, 16},  {4, 16},  {8, 16}, {16, 16},
                                                                    {32, 16}, {64, 16}, {64, 64}};
  for (const auto& [gpcs, sms] : shapes) {
    if (quick && gpcs * sms > 1024) continue;
    const gpu::GpuParams params = figures::with_shape(preset("h100-sxm"), gpcs, sms);
    std::string row = fmt::format("| {} x {} | {} |", gpcs, sms, gpcs * sms);
    row += fmt::format(" {:.0f} |", run(params, kernel({gpcs * sms - 1, 1, 1}, 8, 1000)).decide);
    for (const std::uint32_t size : {2U, 8U, 16U, 32U}) {
      arch::KernelShape shape = kernel({size, 1, 1}, 8, 1000);
      shape.cluster.of(CgaLevel::gpc) = {std::min(size, size == 32 ? 8U : 16U), 1, 1};
      if (size == 32) shape.cluster.of(CgaLevel::gpu) = {32, 1, 1};
      shape.cluster.mode = arch::CgaMode::multicast;
      row += fmt::format(" {:.0f} |", run(params, shape).decide);
    }
    print(row);
  }
  print("");
}

// A scenario of one GPU and one kernel.
replay::SimulationResult run_text(const std::string& text, const gpu::GpuParams& params, Watch& watch) {
  const scenario::Scenario read = scenario::parse_scenario(text, "figures");
  replay::Job job;
  job.instance = "gpu0";
  job.params = params;
  job.workload = &read.workloads.front();
  job.ctas = &watch;
  replay::SimulationResult result = replay::simulate({job}, {});
  HEDDLE_CHECK(result.progress, "a grid did not run to its end");
  return result;
}

// What leaves the distributor for the GPCs where a subcontext may use some of them: to all, or to those that may need
// it.
void traffic() {
  print("## Traffic of launches, by who hears them (preset h100-sxm, 4,224 CTAs of a subcontext, one per SM)\n");
  print(
      "| GPCs that the subcontext may use | local memory | bits per CTA on all links, broadcast to all | to usable "
      "GPCs | "
      "and blocks of local memory to the GPC that needs them |");
  print("| --- | --- | --- | --- | --- |");
  constexpr std::uint32_t kTpcs = 7;  // of each GPC, that the smallest has too
  for (const std::uint32_t gpcs : {1U, 2U, 4U, 8U}) {
    std::string tpcs;
    for (std::uint32_t i = 0; i < kTpcs * gpcs; ++i) {
      tpcs += fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", i / kTpcs, i % kTpcs);
    };
    for (const bool local : {false, true}) {
      std::string share;  // software sets the blocks of static mode
      for (std::uint32_t i = 0; local && i < kTpcs * gpcs; ++i) {
        share += fmt::format("  - {{at: 0 ns, subcontext: 1, gpc: {}, tpc: {}, block: {}}}\n", i / kTpcs, i % kTpcs, i);
      }
      const std::string text = fmt::format(
          "heddle: 1\nsubcontexts: [{{id: 1, tpcs: [{}]}}]\n{}kernels: [{{name: k, grid: 4224, block: 1024, shared: "
          "200 KiB, cycles: 1000, subcontext: 1{}}}]\nsubmit: [{{kernel: k, stream: a, at: 1 us}}]\n",
          tpcs, local ? "share:\n" + share : "", local ? ", local: 64" : "");
      std::string row = fmt::format("| {} | {} |", gpcs, local ? "yes" : "no");
      for (const int mode : {0, 1, 2}) {
        gpu::GpuParams params = preset("h100-sxm");
        params.cwd.partition = protocol::PartitionMode::static_;
        if (mode > 0) params.cwd.broadcast = cwd::Broadcast::usable;
        params.cwd.local_memory_broadcast = mode < 2;
        Watch watch;
        const replay::SimulationResult result = run_text(text, params, watch);
        row += fmt::format(" {:.1f} |", figures::value(result, "cwd.link_bits") / static_cast<double>(watch.ctas));
      }
      print(row);
    }
  }
  print("");
}

// A stream of small CTAs, with and without a GPU_CGA in front of it that never fits while a long CTA holds an SM.
void failures() {
  print(
      "## What hopeless GPU_CGAs cost (preset h100-sxm, 131 SMs held for 200 us, 64 CTAs of 1 us one after another)\n");
  print(
      "The answers come from the distributor's own copy (gpu.cwd.query_distance 1), or, what the text does not do, "
      "from "
      "the GPCs themselves (60).\n");
  print(
      "| waiting GPU_CGAs of 6 x 16 | failed sessions | cycles in which sessions decided | share of the run, % | the "
      "GPCs are asked: failed sessions | cycles | share, % |");
  print("| --- | --- | --- | --- | --- | --- | --- |");
  constexpr std::uint64_t kHeld = 351'000;  // cycles: 200 us
  const auto cost = [](std::uint32_t waiting, std::uint32_t distance) {
    gpu::GpuParams params = preset("h100-sxm");
    params.cwd.query_distance = distance;
    std::vector<figures::Launch> launches;
    launches.push_back({kernel({131, 1, 1}, 1, kHeld), 0});
    for (std::uint32_t i = 0; i < waiting; ++i) {
      arch::KernelShape wide = kernel({96, 1, 1}, 1, 1000);
      wide.cluster.of(CgaLevel::gpc) = {16, 1, 1};
      wide.cluster.of(CgaLevel::gpu) = {96, 1, 1};
      launches.push_back({wide, 2000});
    }
    launches.push_back({kernel({64, 1, 1}, 1, 1755), 4000});
    const replay::SimulationResult values = figures::statistics(params, launches);
    const double deciding = figures::value(values, "cwd.decision_cycles");
    return fmt::format(" {:.0f} | {:.0f} | {:.2f} |", figures::value(values, "cwd.failed_sessions"), deciding,
                       100 * deciding / static_cast<double>(kHeld));
  };
  for (const std::uint32_t waiting : {0U, 1U, 2U, 4U, 8U}) {
    print(fmt::format("| {} |{}{}", waiting, cost(waiting, 1), cost(waiting, 60)));
  }
  print("");
}

void overlap() {
  print("## Sessions in flight (preset h100-sxm, 1,056 CTAs in GPC_CGAs of 2, 8 per SM, sessions of 64 CTAs)\n");
  print(
      "| sessions in flight | CTAs per cycle, masks of 2 cycles | of 16 cycles | without a limit by tables, 16 cycles "
      "|");
  print("| --- | --- | --- | --- |");
  for (const std::uint32_t in_flight : {1U, 2U, 4U, 8U}) {
    std::string row = fmt::format("| {} |", in_flight);
    for (const int mode : {0, 1, 2}) {
      gpu::GpuParams params = preset("h100-sxm");
      params.cwd.sessions = in_flight;
      params.cwd.mask_buffers = 16;
      params.cwd.session_limit = 64;
      params.cwd.mask_cycles = mode == 0 ? 2 : 16;
      if (mode == 2) params.cwd.cta_commits = 0;
      arch::KernelShape shape = kernel({1056, 1, 1}, 8, 100'000);
      shape.cluster.of(CgaLevel::gpc) = {2, 1, 1};
      const Figures f = run(params, shape);
      row += fmt::format(" {:.2f} |", f.ctas / f.launching);
    }
    print(row);
  }
  print("");
}

void bounds() {
  print("## What bounds the launch rate (100,000 empty CTAs of 64 threads): busy time of each stage, in %\n");
  print(
      "| preset | CTAs per cycle | decision | masks | tables | ids | port | GPMs, packets | GPMs, CTAs | entries | "
      "raster "
      "units | starts in SMs |");
  print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
  struct Case {
    const char* name;
    const char* preset;
    int change;
  };
  for (const Case& c : {Case{"h100-sxm", "h100-sxm", 0}, Case{"h200", "h200", 0}, Case{"a100", "a100", 0},
                        Case{"rtx5090", "rtx5090", 0}, Case{"mi300x", "mi300x", 0}, Case{"text", "text", 0},
                        Case{"h200, a port of 4 bits per cycle", "h200", 1},
                        Case{"h200, delta counters of 1 bit, 2 cycles per bit", "h200", 2},
                        Case{"h200, 200 cycles per id", "h200", 3}, Case{"h200, tables without limit", "h200", 4}}) {
    gpu::GpuParams params = preset(c.preset);
    if (c.change == 1) params.cwd.port_bits = 4;
    if (c.change == 2) {
      params.gpc.delta_bits = 1;
      params.gpc.divide_cycles = 2;
    }
    if (c.change == 3) params.gpc.raster_cycles = 200;
    if (c.change == 4) params.cwd.cta_commits = 0;
    arch::KernelShape shape;
    shape.grid = {100'000, 1, 1};
    shape.block = {64, 1, 1};
    shape.duration = {1, 1};
    const replay::SimulationResult values = figures::statistics(params, {{shape, 0}});
    std::string row = fmt::format("| {} | {:.2f} |", c.name, figures::value(values, "launch.rate"));
    for (const char* stage :
         {"decision", "masks", "tables", "ids", "port", "packets", "gpms", "entries", "raster", "starts"}) {
      row += fmt::format(" {:.0f} |", figures::value(values, std::string("launch.") + stage));
    }
    print(row);
  }
  print("");
}

void silicon() {
  print("## CTA launch rate against silicon\n");
  print("| preset | kernel | ns per CTA, model | published |");
  print("| --- | --- | --- | --- |");
  struct Row {
    const char* preset;
    const char* name;
    std::uint32_t ctas;
    std::uint32_t threads;
    const char* published;
  };
  for (const Row& row :
       {Row{"h200", "empty, 32 threads", 100'000, 32, "0.60"}, Row{"h200", "empty, 64 threads", 100'000, 64, "0.60"},
        Row{"h200", "empty, 128 threads", 100'000, 128, "0.60"},
        Row{"h100-sxm", "element-wise, 128 threads", 41'480, 128, "not above 0.73"},
        Row{"a100", "element-wise, 128 threads", 22'384, 128, "not above 1.16"},
        Row{"h100-sxm", "the same 22,384 CTAs", 22'384, 128, "none"}}) {
    arch::KernelShape shape;
    shape.grid = {row.ctas, 1, 1};
    shape.block = {row.threads, 1, 1};
    shape.duration = {1, 1};
    const Figures f = run(preset(row.preset), shape);
    print(fmt::format("| {} | {}, {} CTAs | {:.3f} | {} |", row.preset, row.name, row.ctas,
                      f.launching * f.cycle_ns / f.ctas, row.published));
  }
  print("");
}

void residency() {
  print("## Clusters resident at once, one CTA per SM (preset h100-sxm)\n");
  print("| cluster size | active clusters | SMs unused, by GPC |");
  print("| --- | --- | --- |");
  const gpu::GpuParams params = preset("h100-sxm");
  const arch::Topology topology(params.machine.shape, params.machine.ugpus);
  for (std::uint32_t size = 1; size <= params.cwd.max_gpc_cga; ++size) {
    arch::KernelShape shape = kernel({size, 1, 1}, 1, 1);
    shape.cluster.mode = arch::CgaMode::multicast;
    shape.cluster.of(CgaLevel::gpc) = {size, 1, 1};
    const cwd::Occupancy o = cwd::occupancy(topology, params.cwd, params.sm.limits, shape,
                                            std::min(params.gpc.cga_ids, params.gpc.cga_barriers));
    print(fmt::format("| {} | {} | {} |", size, o.cgas, fmt::join(o.unused_sms, " ")));
  }
  print("");
}

// "126: 120 x 1, 6 x 2"
std::string spread_of(const Watch& watch) {
  std::map<std::uint32_t, std::uint32_t> sms;  // by CTAs
  for (const auto& [sm, ctas] : watch.on_sm) ++sms[ctas];
  std::string text;
  for (const auto& [ctas, count] : sms) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, ctas);
  return fmt::format("{}: {}", watch.on_sm.size(), text);
}

void spread() {
  print("## Where clusters go on an empty machine (preset h100-sxm, 256 threads: 8 CTAs per SM)\n");
  print("CTAs do 20,000 fp32 instructions per warp. SMs: how many have a CTA, and how many of them how many.\n");
  print("| clusters | SMs, multicast | load balancing | last end, multicast | load balancing | ratio |");
  print("| --- | --- | --- | --- | --- | --- |");
  for (const auto& [cgas, size] : {std::pair{66, 2}, std::pair{33, 4}, std::pair{16, 8}, std::pair{17, 8}}) {
    std::string sms[2];
    double end[2] = {};
    for (const bool multicast : {true, false}) {
      const std::string text = fmt::format(
          "heddle: 1\nkernels:\n  - {{name: k, grid: {}, block: 256, cluster: {{gpc: {}, mode: {}}}, "
          "program: [{{compute: {{unit: fp32, count: 20000}}}}]}}\nsubmit: [{{kernel: k, stream: a}}]\n",
          cgas * size, size, multicast ? "multicast" : "load_balancing");
      Watch watch;
      run_text(text, preset("h100-sxm"), watch);
      sms[multicast ? 0 : 1] = spread_of(watch);
      end[multicast ? 0 : 1] = static_cast<double>(watch.last_end);
    }
    print(fmt::format("| {} of {} | {} | {} | {:.0f} | {:.0f} | {:.3f} |", cgas, size, sms[0], sms[1], end[0], end[1],
                      end[0] / end[1]));
  }
  print("");
}

// Panels of A and B, 32 KiB each, for 16 x 16 tiles of C: what scenarios/raster_orders.yaml runs.
void raster_orders() {
  print(
      "## Raster orders and the L2 (preset small: 10 SMs, one CTA each; 16 x 16 CTAs, each reads 2 of 32 panels of 32 "
      "KiB)\n");
  print("| order | KiB of L2 | requests that hit, % | KiB from memory | last end |");
  print("| --- | --- | --- | --- | --- |");
  for (const std::uint64_t kib : {256U, 512U, 2048U}) {
    for (const char* order : {"rows", "{tiles: [2, 2]}", "{tiles: [4, 4]}", "{tiles: [8, 8]}", "hilbert"}) {
      const std::string text = fmt::format(
          "heddle: 1\nmemory: [{{name: a, bytes: 512 KiB}}, {{name: b, bytes: 512 KiB}}]\nkernels:\n"
          "  - {{name: k, grid: [16, 16], block: 128, shared: 200 KiB, raster: {}, program: [{{loop: {{var: k, to: 16, "
          "do: [{{let: {{piece: 2048 * k + 16 * thread}}}}, "
          "{{load: {{to: [a0, a1, a2, a3], type: u32, at: a + 32768 * cta.y + piece, order: relaxed}}}}, "
          "{{load: {{to: [b0, b1, b2, b3], type: u32, at: b + 32768 * cta.x + piece, order: relaxed}}}}, "
          "{{compute: {{unit: fp32, count: 64}}}}]}}}}]}}\nsubmit: [{{kernel: k, stream: a}}]\n",
          order);
      gpu::GpuParams params = preset("small");
      params.l2.bytes = kib * 1024;
      Watch watch;
      const replay::SimulationResult result = run_text(text, params, watch);
      double requests = 0;
      double hits = 0;
      double fills = 0;
      const nlohmann::json values = result.jobs[0].observation->stats.to_json();
      for (std::uint32_t slice = 0; slice < params.l2.slices; ++slice) {
        const auto value = [&](const char* name) {
          return values.at(fmt::format("gpu0.l2.slice{}.{}", slice, name)).at("value").get<double>();
        };
        requests += value("requests");
        hits += value("hits");
        fills += value("fills");
      }
      print(fmt::format("| {} | {} | {:.1f} | {:.0f} | {} |", order, kib, 100 * hits / requests, fills * 32 / 1024,
                        watch.last_end));
    }
  }
  print("");
}

}  // namespace

// Usage: heddle_figures [--quick] [part]...   Without parts: all of them.
int main(int argc, char** argv) {
  std::vector<std::string> chosen(argv + 1, argv + argc);
  const auto flag = std::find(chosen.begin(), chosen.end(), "--quick");
  const bool quick = flag != chosen.end();
  if (quick) chosen.erase(flag);
  const std::vector<std::pair<std::string, std::function<void()>>> parts{
      {"decisions", decisions}, {"rasterisation", rasterisation},
      {"latency", latency},     {"silicon", silicon},
      {"traffic", traffic},     {"sessions", [quick] { session_laws(quick); }},
      {"failures", failures},   {"overlap", overlap},
      {"bounds", bounds},       {"residency", residency},
      {"spread", spread},       {"raster_orders", raster_orders}};
  try {
    for (const std::string& name : chosen) {
      if (std::none_of(parts.begin(), parts.end(), [&name](const auto& part) { return part.first == name; })) {
        std::vector<std::string> names;
        for (const auto& part : parts) names.push_back(part.first);
        throw InputError({}, fmt::format("there are no figures '{}'", name),
                         fmt::format("figures: {}", fmt::join(names, ", ")));
      }
    }
    for (const auto& [name, print_part] : parts) {
      if (chosen.empty() || std::find(chosen.begin(), chosen.end(), name) != chosen.end()) print_part();
    }
  } catch (const std::exception& error) {
    std::fputs(fmt::format("{}\n", error.what()).c_str(), stderr);
    return 1;
  }
  return 0;
}

// The figures of docs/results/memory.md, all from one run: latencies, bandwidths and limits of the memory system,
// measured by programs that run on the model. They are simulated, so they are the same on every computer. Prints
// Markdown.
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "bench/memory_probes.h"
#include "replay/simulation.h"
#include "scenario/scenario.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using namespace heddle::probes;
using arch::Order;
using arch::Space;

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// A GPU of its own for every measurement.
template <class Measure>
auto on(const std::string& preset, Measure&& measure, const std::vector<std::string>& sets = {}) {
  test::SimFixture sim;
  GpuLab lab(test::preset_params(preset, sets));
  return measure(lab);
}

ListProgram::Access access(Space space, Order order = Order::weak) {
  ListProgram::Access result;
  result.space = space;
  result.order = order;
  return result;
}

double chased(GpuLab& lab, const std::vector<std::uint64_t>& lines, std::uint64_t warm, std::uint64_t count,
              Order order) {
  const std::uint64_t start = make_ring(lab, lines);
  lab.run(chase(start, warm, count, access(Space::global, order)), {1, 1, 1}, {32, 1, 1});
  return noted(lab) / static_cast<double>(count);
}

double l1_latency(const std::string& preset) {
  return on(preset, [](GpuLab& lab) { return chased(lab, scattered(4096), 32, 1000, Order::weak); });
}

// A ring within the shared memory of a CTA.
double shared_latency(const std::string& preset) {
  return on(preset, [](GpuLab& lab) {
    auto program = std::make_shared<ListProgram>(4);
    ListProgram::Access one = access(Space::shared);
    one.lanes = ListProgram::only(0);
    constexpr std::uint64_t kCount = 1000;
    const auto pointer = [](const Warp& warp, std::uint32_t lane) { return std::uint64_t{warp.reg(0, lane)}; };
    program->load(one, 0, ListProgram::linear(0, 0));  // fresh shared memory is zero: a ring of one
    read_clock(*program, 2, {{0, 1}});
    program->loop(kCount);
    program->load(one, 0, pointer, {{0, 1}});
    program->end_loop();
    read_clock(*program, 3, {{0, 1}});
    store_clocks(*program, 2, 3);
    program->exit();
    lab.run(program, {1, 1, 1}, {32, 1, 1}, 1024);
    return noted(lab) / kCount;
  });
}

// Lines of the slices near the SM that the first CTA gets.
double l2_latency(const std::string& preset) {
  return on(preset, [](GpuLab& lab) {
    const gpu::GpuParams& params = lab.gpu.params();
    auto probe = std::make_shared<ListProgram>(1);
    probe->special(arch::SpecialRegister::sm, 0);
    probe->store({}, ListProgram::of_register(0), ListProgram::linear(kOut, 0), {{0, 1}});
    probe->exit();
    lab.run(probe, {1, 1, 1}, {32, 1, 1});
    const std::uint32_t gpc = lab.gpu.topology().sm(lab.read<std::uint32_t>(kOut)).gpc;
    const std::uint32_t home = gpc * params.l2.partitions / lab.gpu.topology().gpcs();
    const arch::AddressMap map(params.machine.memory, params.l2.slices, params.l2.partitions);
    std::vector<std::uint64_t> lines;
    for (std::uint64_t line = kData; lines.size() < 512; line += arch::kLineBytes) {
      if (map.partition_of(map.slice_of(line)) == home) lines.push_back(line);
    }
    return chased(lab, lines, lines.size(), 2000, Order::relaxed);
  });
}

double dram_latency(const std::string& preset) {
  return on(preset,
            [](GpuLab& lab) { return chased(lab, scattered(std::uint64_t{8} << 20), 0, 4000, Order::relaxed); });
}

struct Bandwidth {
  double bytes_per_cycle;
  double terabytes;
};

// The difference of two lengths: start and end of the kernels cancel out. `bytes` of the shorter one. `fresh`: the
// longer one reads what nobody has read before.
Bandwidth streamed(GpuLab& lab, std::uint32_t ctas_per_sm, std::uint32_t warps_per_cta, std::uint32_t in_flight,
                   std::uint64_t bytes, std::uint64_t footprint, std::uint32_t sms = 0, ListProgram::Access how = {},
                   bool fresh = false) {
  if (sms == 0) sms = lab.gpu.topology().sms();
  const std::uint64_t warps = std::uint64_t{sms} * ctas_per_sm * warps_per_cta;
  const std::uint64_t pieces = footprint / 512;
  const auto kernel = [&](std::uint64_t loads, std::uint64_t from) {
    return lab.run(stream(loads, in_flight, warps, pieces, how, from), {sms * ctas_per_sm, 1, 1},
                   {32 * warps_per_cta, 1, 1});
  };
  const std::uint64_t loads = std::max<std::uint64_t>(in_flight, bytes / 512 / warps / in_flight * in_flight);
  const double first = lab.cycles(kernel(loads, kData));
  const double second = lab.cycles(kernel(2 * loads, fresh ? kData + (std::uint64_t{8} << 30) : kData));
  const double per_cycle = static_cast<double>(loads * warps * 512) / (second - first);
  return {per_cycle, per_cycle * lab.gpu.domain().clock().gigahertz() / 1000};
}

Bandwidth l2_read(const std::string& preset) {
  return on(preset, [](GpuLab& lab) {
    constexpr std::uint64_t kSet = std::uint64_t{24} << 20;
    const std::uint64_t warps = std::uint64_t{lab.gpu.topology().sms()} * 32;
    lab.run(stream(kSet / 512 / warps + 1, 1, warps, kSet / 512), {lab.gpu.topology().sms(), 1, 1}, {1024, 1, 1});
    return streamed(lab, 1, 32, 4, 4 * kSet, kSet);
  });
}

Bandwidth dram_read(const std::string& preset) {
  return on(preset, [](GpuLab& lab) {
    return streamed(lab, 1, 32, 4, std::uint64_t{128} << 20, std::uint64_t{4} << 30, 0, {}, true);
  });
}

// Cycles per repetition of what `body` adds to a program, on one CTA.
double repeated(const std::string& preset, std::uint32_t threads, std::uint32_t registers, std::uint32_t shared,
                const std::function<void(ListProgram&)>& body) {
  return on(preset, [&](GpuLab& lab) {
    const auto kernel = [&](std::uint64_t count) {
      auto program = std::make_shared<ListProgram>(registers);
      program->loop(count);
      body(*program);
      program->end_loop();
      program->exit();
      return lab.cycles(lab.run(program, {1, 1, 1}, {threads, 1, 1}, shared));
    };
    const double first = kernel(500);
    return (kernel(1500) - first) / 1000;
  });
}

double shared_bandwidth(const std::string& preset) {
  const double cycles = repeated(preset, 1024, 4, 4096, [](ListProgram& program) {
    ListProgram::Access wide = access(Space::shared);
    wide.width = 16;
    program.load(wide, 0, [](const Warp&, std::uint32_t lane) { return std::uint64_t{16} * lane; });
  });
  return 32 * 512 / cycles;
}

double matmul_cycles(const std::string& preset, std::uint32_t n) {
  return repeated(preset, 128, n / 2, 65'536, [n](ListProgram& program) {
    arch::MatmulTile tile;
    tile.type = arch::ValueType::bf16;
    tile.n = n;
    tile.k = 16;
    tile.a_pitch = tile.b_pitch = 32;
    tile.b = 8192;
    tile.b_transposed = true;
    tile.a_swizzle = tile.b_swizzle = arch::Swizzle::bytes32;
    program.matmul(tile, 0);
  });
}

double barrier_cycles(const std::string& preset, std::uint32_t threads) {
  return repeated(preset, threads, 1, 0, [](ListProgram& program) { program.barrier(); });
}

bool all_within = true;

void row(const std::string& what, const char* preset, const std::string& model, const std::string& published,
         const std::string& difference) {
  print(fmt::format("| {} | {} | {} | {} | {} |\n", what, preset, model, published, difference));
}

void latency_row(const std::string& what, const char* preset, double model, double published) {
  row(what, preset, fmt::format("{:.1f} cycles", model), fmt::format("{:.0f} cycles", published),
      fmt::format("{:+.1f} %", 100 * (model / published - 1)));
  if (model < 0.95 * published || model > 1.05 * published) all_within = false;
}

void calibration() {
  print("| quantity | preset | model | published | difference |\n| --- | --- | --- | --- | --- |\n");
  latency_row("L1 hit", "h100-sxm", l1_latency("h100-sxm"), 32);
  latency_row("shared load", "h100-sxm", shared_latency("h100-sxm"), 29);
  latency_row("L2 hit, near partition", "h100-sxm", l2_latency("h100-sxm"), 258);
  row("DRAM load", "h100-sxm", fmt::format("{:.1f} cycles", dram_latency("h100-sxm")), "", "");
  latency_row("bar.sync, 128 threads", "h100-sxm", barrier_cycles("h100-sxm", 128), 21);
  latency_row("bar.sync, 256 threads", "h100-sxm", barrier_cycles("h100-sxm", 256), 29);
  for (const std::uint32_t n : {64U, 128U, 256U}) {
    latency_row(fmt::format("wgmma m64n{}k16 bf16", n), "h100-sxm", matmul_cycles("h100-sxm", n), n / 2.0);
  }
  const double shared = shared_bandwidth("h100-sxm");
  row("shared memory read", "h100-sxm", fmt::format("{:.1f} B/cycle/SM", shared), "128 B/cycle/SM",
      fmt::format("{:+.1f} %", 100 * (shared / 128 - 1)));
  const Bandwidth l2 = l2_read("h200");
  const double published = std::clamp(l2.terabytes, 9.8, 10.5);  // what is nearest in that range
  row("L2 read", "h200", fmt::format("{:.2f} TB/s ({:.0f} B/cycle)", l2.terabytes, l2.bytes_per_cycle),
      "9.8 to 10.5 TB/s", fmt::format("{:+.1f} %", 100 * (l2.terabytes / published - 1)));
  const Bandwidth dram = dram_read("h200");
  // The same die was measured at 8.29 TB/s in a GH200; the preset is between both.
  if (std::abs(l2.terabytes / published - 1) > 0.2 || std::abs(dram.terabytes / 3.9 - 1) > 0.15) all_within = false;
  if (shared < 0.95 * 128 || shared > 128) all_within = false;
  row("DRAM read", "h200", fmt::format("{:.2f} TB/s ({:.0f} B/cycle)", dram.terabytes, dram.bytes_per_cycle),
      "3.9 TB/s", fmt::format("{:+.1f} %", 100 * (dram.terabytes / 3.9 - 1)));
}

// Both operands come from shared memory, which gives 128 bytes per cycle: below n = 64 that is the limit.
void matmul_sizes() {
  print("\n| n of m64nNk16 | cycles | matrix unit: N/2 | shared memory: (64 + N) x 32 bytes / 128 |\n");
  print("| --- | --- | --- | --- |\n");
  for (const std::uint32_t n : {8U, 16U, 32U, 48U, 64U, 96U, 128U, 192U, 256U}) {
    print(fmt::format("| {} | {:.1f} | {} | {} |\n", n, matmul_cycles("h100-sxm", n), n / 2, (64 + n) / 4));
  }
}

// The shipped scenario.
void matrix_multiply() {
  const scenario::Scenario scenario =
      scenario::read_scenario(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/gemm_1024.yaml");
  print("\n| timing | simulated time | TFLOP/s | share of peak | wall clock |\n| --- | --- | --- | --- | --- |\n");
  for (const char* timing : {"at", "fast", "lt"}) {
    replay::Job job;
    job.instance = "gpu0";
    job.params = test::preset_params(scenario.gpus.front(), {std::string("gpu.timing=") + timing});
    job.workload = &scenario.workloads.front();
    const replay::SimulationResult result = replay::simulate({job}, {});
    const replay::OpResult& kernel = result.jobs.front().results.front();
    const double ns = kernel.end - kernel.start;
    const double flops = 2.0 * 1024 * 1024 * 1024 / ns / 1000;
    const double peak = 4096.0 * job.params.machine.shape.sms() * job.params.machine.clock / 1000;
    print(fmt::format("| {} | {:.2f} us | {:.0f} | {:.0f} % | {:.1f} s |\n", timing, ns / 1000, flops,
                      100 * flops / peak, result.wall_seconds));
  }
}

void latency_curve() {
  print("\n| working set | cycles per load |\n| --- | --- |\n");
  for (std::uint64_t kib = 16; kib <= 128 * 1024; kib *= 2) {
    const double cycles = on("h100-sxm", [&](GpuLab& lab) {
      const std::vector<std::uint64_t> lines = scattered(kib << 10);
      return chased(lab, lines, lines.size(), std::min<std::uint64_t>(lines.size(), 4000), Order::weak);
    });
    print(fmt::format("| {} | {:.0f} |\n", kib < 1024 ? fmt::format("{} KiB", kib) : fmt::format("{} MiB", kib / 1024),
                      cycles));
  }
}

void bandwidth_curve() {
  print("\n| bytes in flight per SM | L2 read | DRAM read |\n| --- | --- | --- |\n");
  for (const std::uint32_t warps : {1U, 2U, 4U, 8U, 16U, 32U, 64U}) {
    const std::uint32_t ctas = warps > 32 ? 2 : 1;
    const std::uint64_t bytes = std::uint64_t{warps} * 512 * 132 * 16;
    const Bandwidth l2 = on("h200", [&](GpuLab& lab) {
      const std::uint64_t set = std::uint64_t{16} << 20;
      const std::uint64_t all = std::uint64_t{lab.gpu.topology().sms()} * 32;
      lab.run(stream(set / 512 / all + 1, 1, all, set / 512), {lab.gpu.topology().sms(), 1, 1}, {1024, 1, 1});
      return streamed(lab, ctas, warps / ctas, 1, bytes, set, 0, access(Space::global, Order::relaxed));
    });
    const Bandwidth dram = on("h200", [&](GpuLab& lab) {
      return streamed(lab, ctas, warps / ctas, 1, bytes, std::uint64_t{4} << 30, 0, {}, true);
    });
    print(fmt::format("| {} | {:.2f} TB/s | {:.2f} TB/s |\n", warps * 512, l2.terabytes, dram.terabytes));
  }
}

// All SMs, or the first few, read lines of which each lies where `wanted` says, and nowhere else.
double crowded(std::uint32_t ctas, const std::function<bool(const arch::AddressMap&, std::uint64_t)>& wanted) {
  return on("h100-sxm",
            [&](GpuLab& lab) {
              const gpu::GpuParams& params = lab.gpu.params();
              const arch::AddressMap map(params.machine.memory, params.l2.slices, params.l2.partitions);
              auto lines = std::make_shared<std::vector<std::uint64_t>>();
              for (std::uint64_t line = kData; lines->size() < 4096; line += arch::kLineBytes) {
                if (wanted(map, line)) lines->push_back(line);
              }
              constexpr std::uint16_t kInFlight = 8;
              const auto kernel = [&](std::uint64_t loads) {
                auto program = std::make_shared<ListProgram>(kInFlight);
                const std::size_t loop = program->loop(loads);
                for (std::uint16_t i = 0; i < kInFlight; ++i) {
                  program->load(access(Space::global, Order::relaxed), i, [=](const Warp& warp, std::uint32_t lane) {
                    const std::uint64_t me = warp.place.cta * warp.place.warps + warp.place.warp;
                    return (*lines)[(me * 61 + warp.count(loop) * kInFlight + i) % lines->size()] + 4 * lane;
                  });
                }
                program->end_loop();
                program->exit();
                return lab.cycles(lab.run(program, {ctas, 1, 1}, {1024, 1, 1}));
              };
              kernel(8);
              const std::uint64_t loads = ctas == 1 ? 100 : 6;
              const double first = kernel(loads);
              return static_cast<double>(loads * kInFlight * 32 * ctas * arch::kLineBytes) /
                     (kernel(2 * loads) - first);
            },
            {"gpu.l2.copies=none"});
}

void limits() {
  print("\n| load | bytes per cycle | what limits it |\n| --- | --- | --- |\n");
  const gpu::GpuParams params = test::preset_params("h100-sxm");
  const auto any = [](const arch::AddressMap&, std::uint64_t) { return true; };
  const auto limit = [](const char* what, double model, double bound, const std::string& why) {
    print(fmt::format("| {} | {:.1f} | {}: {:.0f} |\n", what, model, why, bound));
    if (model > 1.005 * bound || model < 0.9 * bound) all_within = false;
  };
  limit("one SM reads from all slices", crowded(1, any), params.xbar.l1_read_bandwidth, "the port of its L1");
  limit("all SMs read from one slice",
        crowded(132, [](const arch::AddressMap& map, std::uint64_t line) { return map.slice_of(line) == 7; }),
        params.xbar.slice_bandwidth, "the slice");
  limit("all SMs read from two slices, one in each partition",
        crowded(132,
                [](const arch::AddressMap& map, std::uint64_t line) {
                  return map.slice_of(line) == 7 || map.slice_of(line) == 7 + map.slices() / 2;
                }),
        2 * params.xbar.slice_bandwidth, "the slices");
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  print("## Model and measurement\n\n");
  calibration();
  print("\n## Limits (h100-sxm)\n");
  limits();
  if (quick) return all_within ? 0 : 1;
  print("\n## Matrix unit (h100-sxm)\n");
  matmul_sizes();
  print("\n## Matrix multiply of 1024 x 1024 x 1024 in fp16 (h100-sxm)\n");
  matrix_multiply();
  print("\n## Latency against working set (h100-sxm)\n");
  latency_curve();
  print("\n## Bandwidth against bytes in flight (h200)\n");
  bandwidth_curve();
  if (!all_within) std::fputs("a figure is further from its measurement than it may be\n", stderr);
  return all_within ? 0 : 1;
}

// The figures of docs/results/packets.md, all from one run: what a launch by a packet costs, and what reference and
// condensed packets save. They are simulated, so they are the same on every computer. Prints Markdown; fails where the
// published figure is missed by more than 5 %.
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/machines.h"
#include "import/recordings.h"
#include "packet/packet_log.h"
#include "packet/packet_work.h"
#include "replay/simulation.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using replay::Part;
using workload::PacketFormat;
using workload::PacketOptions;

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

struct Run {
  double span = 0;  // us: first enqueue to last clean-up
  std::size_t packets = 0;
  std::size_t launches = 0;
  replay::Parts parts{};                         // us, that lie behind each other
  std::map<std::string, replay::Parts> by_name;  // us
  std::map<std::string, std::size_t> count;
  std::map<arch::PacketType, std::pair<double, std::size_t>> decode;  // ns in all, of as many packets
  std::map<std::string, double> counted;                              // what the packet processor has done
};
constexpr std::array<const char*, 7> kCounted{"work.bytes",  "work.half_words", "work.checks", "objects",
                                              "table.reads", "table.writes",    "work.steps"};

double of(const replay::Parts& parts, Part part) { return parts[static_cast<std::size_t>(part)]; }

Run run(const gpu::GpuParams& params, const workload::Workload& workload, const PacketOptions& packets,
        replay::Pace pace = replay::Pace::asap, const replay::SimulationOptions& options = {}) {
  replay::Job job;
  job.instance = "gpu0";
  job.params = params;
  job.workload = &workload;
  job.pace = pace;
  job.packets = packets;
  const replay::SimulationResult result = replay::simulate({job}, options);
  const replay::JobResult& done = result.jobs.front();
  HEDDLE_CHECK(result.progress && done.problems.empty(), "a run did not end");
  Run run;
  const std::vector<replay::Parts> own = replay::own_parts(done.launches);
  double first = 1e300;
  double last = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const replay::PacketLaunch& launch = done.launches[i];
    const std::string& name = workload.ops[launch.op].kernel.name;
    for (std::size_t p = 0; p < replay::kParts; ++p) {
      run.parts[p] += own[i][p] / 1e3;
      run.by_name[name][p] += own[i][p] / 1e3;
    }
    ++run.count[name];
    if (launch.kernel == 0) {
      ++run.packets;
      auto& [sum, packets_of_type] = run.decode[launch.type];
      sum += launch.part_ns(Part::decode);
      ++packets_of_type;
    }
    first = std::min(first, launch.times.front());
    last = std::max(last, launch.times.back());
  }
  run.launches = own.size();
  for (const char* what : kCounted) {
    run.counted[what] = done.observation->stats.value(std::string("gpu0.packet.") + what);
  }
  run.span = (last - first) / 1e3;
  return run;
}

gpu::GpuParams machine(const std::string& preset, const std::vector<std::string>& sets = {}) {
  return cli::resolve_machine(preset, sets).gpus.front().params;
}

struct Kernel {
  const char* name;
  std::uint32_t ctas;
  std::uint32_t threads;
  std::uint64_t cycles;
};
// The order is that of the application; sizes and lengths are ours.
constexpr Kernel kTaskGraph[] = {{"LTimes", 264, 256, 3500}, {"Scattering", 264, 256, 5000},
                                 {"Source", 132, 128, 2000}, {"LPlusTimes", 264, 256, 3500},
                                 {"Sweep", 132, 256, 9000},  {"Population", 132, 128, 2500}};

workload::Op op_of(const Kernel& kernel, double length) {
  workload::Op op;
  op.kernel.name = kernel.name;
  op.kernel.grid = {kernel.ctas, 1, 1};
  op.kernel.block = {kernel.threads, 1, 1};
  op.kernel.registers_per_thread = 32;
  const auto cycles =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(kernel.cycles) * length));
  op.kernel.duration = {cycles, cycles};
  return op;
}

workload::Workload task_graph(std::uint32_t iterations, double length = 1) {
  workload::Workload w;
  w.name = "task graph";
  w.format = "scenario";
  w.streams.push_back({"main", 0});
  for (std::uint32_t i = 0; i < iterations; ++i) {
    for (const Kernel& kernel : kTaskGraph) w.ops.push_back(op_of(kernel, length));
  }
  return w;
}

const std::vector<std::pair<const char*, PacketFormat>> kFormats = {
    {"plain", PacketFormat::plain}, {"reference", PacketFormat::reference}, {"condensed", PacketFormat::condensed}};

PacketOptions as(PacketFormat format, std::uint32_t batch = 60) {
  PacketOptions options;
  options.format = format;
  options.batch = batch;
  return options;
}

bool empty_kernels() {
  workload::Workload w;
  w.format = "scenario";
  w.streams.push_back({"main", 0});
  for (int i = 0; i < 300; ++i) w.ops.push_back(op_of({"empty", 1, 64, 1}, 1));
  print(
      "## An empty kernel\n\nIn-order plain packets (barrier bit, fences of system scope, a completion signal each), "
      "300 of them:\n\n");
  print("| preset | per packet | published |\n| --- | ---: | ---: |\n");
  bool good = true;
  for (const char* preset : {"mi300x", "h100-sxm"}) {
    const Run r = run(machine(preset), w, as(PacketFormat::plain));
    const double each = r.span / static_cast<double>(r.launches);
    const bool published = std::string(preset) == "mi300x";
    if (published) good = std::abs(each / 1.38 - 1) < 0.05;
    print(fmt::format("| `{}` | {:.3f} us | {} |\n", preset, each, published ? "1.38 us (MI300X)" : ""));
  }
  return good;
}

void parts_table(const std::vector<std::pair<std::string, Run>>& runs) {
  print(
      "\nWhere the time of a kernel goes, in us, mean of its launches; parts that another launch hides do not "
      "count:\n\n");
  print("| kernel | packets |");
  for (std::size_t p = 0; p < replay::kParts; ++p) print(fmt::format(" {} |", replay::part_key(static_cast<Part>(p))));
  print(" all |\n| --- | --- |");
  for (std::size_t p = 0; p <= replay::kParts; ++p) print(" ---: |");
  print("\n");
  for (const Kernel& kernel : kTaskGraph) {
    for (const auto& [format, r] : runs) {
      print(fmt::format("| {} | {} |", kernel.name, format));
      const replay::Parts& parts = r.by_name.at(kernel.name);
      const auto count = static_cast<double>(r.count.at(kernel.name));
      double all = 0;
      for (const double part : parts) {
        print(fmt::format(" {:.3f} |", part / count));
        all += part;
      }
      print(fmt::format(" {:.3f} |\n", all / count));
    }
  }
}

// Nanoseconds, of kernels of one CTA in one stream, as soon as order allows.
struct Way {
  double lone = 0;   // from when the host begins with a lone one to its start
  double each = 0;   // from one to the next of many, where the host is the slowest
  double gap = 0;    // from the end of a longer one to the start of the next
  double waits = 0;  // completions that waited for the host's link
};

Way way_of(const gpu::GpuParams& params, workload::SubmitBy by) {
  const auto simulate = [&](std::size_t kernels, std::uint64_t cycles) {
    workload::Workload w;
    w.format = "scenario";
    w.streams.push_back({"main", 0});
    for (std::size_t i = 0; i < kernels; ++i) w.ops.push_back(op_of({"short", 1, 64, cycles}, 1));
    replay::Job job;
    job.instance = "gpu0";
    job.params = params;
    job.workload = &w;
    job.pace = replay::Pace::asap;
    job.tmdqs = by == workload::SubmitBy::tmdqs;
    if (by == workload::SubmitBy::packets) job.packets.emplace();
    replay::SimulationResult result = replay::simulate({job}, {});
    HEDDLE_CHECK(result.progress, "a run did not end");
    return result;
  };
  const auto per_kernel = [](const std::vector<replay::OpResult>& results) {
    return (results.back().start - results.front().start) / static_cast<double>(results.size() - 1);
  };
  constexpr std::size_t kMany = 300;
  constexpr std::uint64_t kLong = 10'000;
  Way way;
  const replay::SimulationResult lone = simulate(1, 100);
  way.lone = lone.jobs[0].results[0].start - lone.jobs[0].results[0].submitted;
  const replay::SimulationResult many = simulate(kMany, 100);
  way.each = per_kernel(many.jobs[0].results);
  way.waits = many.jobs[0].observation->stats.to_json()["gpu0.task.next_waits"]["value"].get<double>();
  way.gap = per_kernel(simulate(kMany, kLong).jobs[0].results) - static_cast<double>(kLong) / params.machine.clock;
  return way;
}

void ways_to_submit() {
  print("\n## Streams, packets, task metadata queues\n\nKernels of one CTA in one stream, `h100-sxm`:\n\n");
  print("| | streams | packets | TMDQs |\n| --- | ---: | ---: | ---: |\n");
  const gpu::GpuParams params = machine("h100-sxm");
  const Way streams = way_of(params, workload::SubmitBy::streams);
  const Way packets = way_of(params, workload::SubmitBy::packets);
  const Way tmdqs = way_of(params, workload::SubmitBy::tmdqs);
  const auto row = [&](const char* what, double Way::*value) {
    print(fmt::format("| {} | {:.2f} us | {:.2f} us | {:.2f} us |\n", what, streams.*value / 1e3, packets.*value / 1e3,
                      tmdqs.*value / 1e3));
  };
  row("from when the host begins with a lone one to its start", &Way::lone);
  row("from one to the next, 300 of 100 cycles", &Way::each);
  row("beside the 10,000 cycles of one, to the start of the next", &Way::gap);
  print(fmt::format("| completions that waited for the host's link, of 300 | | | {:.0f} |\n", tmdqs.waits));
}

// `which`: the runs.
void counted_table(const std::vector<std::pair<std::string, Run>>& runs, const std::string& which) {
  print(fmt::format("\nWhat the packet processor does, per kernel{}:\n\n| packets |", which));
  for (const char* what : kCounted) print(fmt::format(" `{}` |", what));
  print("\n| --- |");
  for (std::size_t i = 0; i < kCounted.size(); ++i) print(" ---: |");
  print("\n");
  for (const auto& [name, r] : runs) {
    print(fmt::format("| {} |", name));
    const auto kernels = static_cast<double>(r.launches);
    for (const char* what : kCounted) print(fmt::format(" {:.2f} |", r.counted.at(what) / kernels));
    print("\n");
  }
}

void decode_table(const std::vector<std::pair<std::string, Run>>& runs) {
  print("\nFrom its turn until it is decoded, with the acquire fence, mean of the packets of a kind:\n\n");
  print("| packets | kind | number | decode |\n| --- | --- | ---: | ---: |\n");
  for (const auto& [name, r] : runs) {
    for (const auto& [type, sum] : r.decode) {
      print(fmt::format("| {} | {} | {} | {:.0f} ns |\n", name, packet::packet_text(type), sum.second,
                        sum.first / static_cast<double>(sum.second)));
    }
  }
}

void task_graphs(std::uint32_t iterations) {
  print(fmt::format(
      "\n## The task graph\n\nLTimes, Scattering, Source, LPlusTimes, Sweep, Population, {} times, on `h100-sxm`:\n\n",
      iterations));
  print(
      "| packets | kernels | packets | time | of it execution | against plain |\n| --- | ---: | ---: | ---: | ---: | "
      "---: |\n");
  std::vector<std::pair<std::string, Run>> runs;
  const workload::Workload w = task_graph(iterations);
  const auto line = [&runs](const std::string& name, const Run& r) {
    const double plain = runs.empty() ? r.span : runs.front().second.span;
    print(fmt::format("| {} | {} | {} | {:.1f} us | {:.1f} % | {:+.1f} % |\n", name, r.launches, r.packets, r.span,
                      100 * of(r.parts, Part::execution) / r.span, 100 * (r.span / plain - 1)));
  };
  for (const auto& [name, format] : kFormats) {
    runs.emplace_back(name, run(machine("h100-sxm"), w, as(format)));
    line(name, runs.back().second);
  }
  line("condensed, 6 at a time", run(machine("h100-sxm"), w, as(PacketFormat::condensed, 6)));
  for (const PacketFormat format : {PacketFormat::plain, PacketFormat::condensed}) {
    PacketOptions needed = as(format);
    needed.signals = workload::SignalFor::needed;
    line(format == PacketFormat::plain ? "plain, `--signals needed`" : "condensed, `--signals needed`",
         run(machine("h100-sxm"), w, needed));
  }
  PacketOptions device = as(PacketFormat::plain);
  device.queues = workload::QueuePlace::device;
  line("plain, queue in device memory", run(machine("h100-sxm"), w, device));
  device.format = PacketFormat::condensed;
  line("condensed, queue in device memory", run(machine("h100-sxm"), w, device));
  const auto set = [&](const std::string& name, const std::vector<std::string>& sets) {
    line(name, run(machine("h100-sxm", sets), w, as(PacketFormat::condensed)));
  };
  set("condensed, `table=memory`", {"gpu.packet.table=memory"});
  set("condensed, `diff=stored`", {"gpu.packet.diff=stored"});
  set("condensed, 4 entries, 2 and 14 bits",
      {"gpu.packet.entries=4", "gpu.packet.reference_bits=2", "gpu.packet.vector_bits=14"});
  set("condensed, 16 entries, 4 and 12 bits",
      {"gpu.packet.entries=16", "gpu.packet.reference_bits=4", "gpu.packet.vector_bits=12"});
  const std::vector<std::string> general{"gpu.packet.circuit=general"};
  line("plain, `circuit=general`", run(machine("h100-sxm", general), w, as(PacketFormat::plain)));
  set("condensed, `circuit=general`", general);
  counted_table(runs, "");
  decode_table(runs);
  parts_table(runs);
}

void lengths(std::uint32_t iterations) {
  print(
      "\n## Sensitivity\n\nKernels of other lengths (as a multiple of those above; the mean is the mean execution time "
      "of a kernel):\n\n");
  print("| length | mean | plain | condensed | saved |\n| ---: | ---: | ---: | ---: | ---: |\n");
  for (const double length : {0.01, 0.1, 0.5, 1.0, 4.0, 20.0}) {
    const workload::Workload w = task_graph(iterations, length);
    const Run plain = run(machine("h100-sxm"), w, as(PacketFormat::plain));
    const Run condensed = run(machine("h100-sxm"), w, as(PacketFormat::condensed));
    print(fmt::format("| {} | {:.2f} us | {:.1f} us | {:.1f} us | {:.1f} % |\n", length,
                      of(plain.parts, Part::execution) / static_cast<double>(plain.launches), plain.span,
                      condensed.span, 100 * (1 - condensed.span / plain.span)));
  }
}

// Each rate by itself.
void rates(std::uint32_t iterations) {
  print(fmt::format("\nOther rates, each by itself, {} iterations:\n\n", iterations));
  print("| rate | plain | reference | condensed | saved by condensed |\n| --- | ---: | ---: | ---: | ---: |\n");
  const workload::Workload w = task_graph(iterations);
  const auto line = [&](const std::string& name, const std::vector<std::string>& sets) {
    const gpu::GpuParams params = machine("h100-sxm", sets);
    double spans[3] = {};
    for (std::size_t i = 0; i < 3; ++i) spans[i] = run(params, w, as(kFormats[i].second)).span;
    print(fmt::format("| {} | {:.1f} us | {:.1f} us | {:.1f} us | {:.1f} % |\n", name, spans[0], spans[1], spans[2],
                      100 * (1 - spans[2] / spans[0])));
  };
  const packet::PacketParams usual = machine("h100-sxm").packet;
  line("as they are", {});
  for (const double factor : {0.0, 0.25, 0.5, 2.0, 4.0}) {
    line(fmt::format("`step` x {}", factor), {fmt::format("gpu.packet.step={}", usual.step * factor)});
  }
  for (const std::uint32_t bytes : {1U, 4U, 32U, 128U}) {
    line(fmt::format("`step_bytes` {}", bytes), {fmt::format("gpu.packet.step_bytes={}", bytes)});
  }
  for (const std::uint32_t count : {4U, 16U}) {
    line(fmt::format("`step_checks` {}", count), {fmt::format("gpu.packet.step_checks={}", count)});
  }
  line("`step_half_words` 4", {"gpu.packet.step_half_words=4"});
  line("`table_bits` 32", {"gpu.packet.table_bits=32"});
  line("`table_latency` 100", {"gpu.packet.table_latency=100"});
  for (const double factor : {0.25, 4.0}) {
    const double link = machine("h100-sxm").hub.link_latency * factor;
    line(fmt::format("`gpu.hub.link_latency` x {}", factor), {fmt::format("gpu.hub.link_latency={}", link)});
  }
}

// The host's own time for choosing packets.
void planning(std::uint32_t iterations) {
  print(fmt::format("\nThe host's time for planning, {} iterations:\n\n", iterations));
  print("| `host.plan` | plain | condensed | saved by condensed |\n| ---: | ---: | ---: | ---: |\n");
  const workload::Workload w = task_graph(iterations);
  const gpu::GpuParams params = machine("h100-sxm");
  for (const double ns : {0.0, 100.0, 1000.0, 3000.0, 10000.0}) {
    replay::SimulationOptions options;
    options.host.plan = ns;
    const double plain = run(params, w, as(PacketFormat::plain), replay::Pace::asap, options).span;
    const double condensed = run(params, w, as(PacketFormat::condensed), replay::Pace::asap, options).span;
    print(fmt::format("| {} ns | {:.1f} us | {:.1f} us | {:.1f} % |\n", ns, plain, condensed,
                      100 * (1 - condensed / plain)));
  }
}

void recorded(const std::string& path) {
  print("\n## A recorded inference\n\n");
  if (!std::filesystem::exists(path)) {
    print("(the recording is not here)\n");
    return;
  }
  const workload::Workload recording = import::import_kineto(path).front();
  const gpu::GpuParams params = machine("h100-sxm");
  const workload::Workload w = cli::fit_workload(recording, params, cli::Fit::signature).workload;
  const workload::Workload by_launch = cli::fit_workload(recording, params, cli::Fit::launch).workload;
  double busy = 0;
  workload::Nanoseconds end = 0;
  for (const workload::Op& op : recording.ops) {
    if (!op.recorded) continue;
    busy += static_cast<double>(op.recorded->duration) / 1e3;
    end = std::max(end, op.recorded->start + op.recorded->duration);
  }
  const double span = static_cast<double>(end) / 1e3;
  print(fmt::format(
      "{}: {} kernels. In the recording its operations run for {:.0f} us of {:.0f} us ({:.1f} %): the host's calls are "
      "apart.\nOn `h100-sxm`, as fast as the order of streams allows, and at the recorded pace:\n\n",
      std::filesystem::path(path).filename().string(), recording.kernels(), busy, span, 100 * busy / span));
  print(
      "| pace | packets | packets | time | execution | launch overhead | against plain |\n| --- | --- | ---: | ---: | "
      "---: | ---: | ---: |\n");
  std::vector<std::pair<replay::Pace, std::vector<std::pair<std::string, Run>>>> paces;
  const auto line = [](replay::Pace pace, const std::string& name, const Run& r, double plain) {
    double overhead = 0;
    for (std::size_t p = 0; p < replay::kParts; ++p) {
      if (static_cast<Part>(p) != Part::execution) overhead += r.parts[p];
    }
    print(fmt::format("| {} | {} | {} | {:.0f} us | {:.0f} us | {:.1f} % | {:+.1f} % |\n",
                      pace == replay::Pace::asap ? "as fast as order allows" : "recorded", name, r.packets, r.span,
                      of(r.parts, Part::execution), 100 * overhead / r.span, 100 * (r.span / plain - 1)));
  };
  for (const replay::Pace pace : {replay::Pace::asap, replay::Pace::recorded}) {
    std::vector<std::pair<std::string, Run>> runs;
    for (const auto& [name, format] : kFormats) {
      runs.emplace_back(name, run(params, w, as(format, 64), pace));
      line(pace, name, runs.back().second, runs.front().second.span);
    }
    if (pace == replay::Pace::asap) {
      const double plain = run(params, by_launch, as(PacketFormat::plain, 64), pace).span;
      const Run condensed = run(params, by_launch, as(PacketFormat::condensed, 64), pace);
      line(pace, "condensed, `--fit launch`", condensed, plain);
    }
    paces.emplace_back(pace, std::move(runs));
  }
  for (const auto& [pace, runs] : paces) {
    counted_table(runs, pace == replay::Pace::asap ? ", as fast as order allows" : ", at the recorded pace");
    decode_table(runs);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const bool good = empty_kernels();
  ways_to_submit();
  task_graphs(quick ? 10 : 100);
  lengths(quick ? 3 : 100);
  rates(quick ? 2 : 30);
  planning(quick ? 2 : 30);
  if (!quick) recorded(std::string(HEDDLE_TRACES_DIR) + "/h100_qwen1.5_0.5b_inference_trim.json.gz");
  if (!good) print("\nThe published figure is missed by more than 5 %.\n");
  return good ? 0 : 1;
}

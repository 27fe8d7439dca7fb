// The tables of docs/results/recordings.md: what recordings say of kernels that nothing was fitted to. Prints Markdown;
// nothing where no recordings are at hand.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/figure_page.h"
#include "cli/machines.h"
#include "cli/run_options.h"
#include "demand/sources.h"
#include "replay/prediction.h"

namespace {

using namespace heddle;
using figures::print;
using replay::HoldBack;
using replay::RecordedDemands;
using workload::Op;
using workload::OpKind;
using workload::Workload;

constexpr std::uint64_t kSeed = 1;

// One device of a recording, with the machine that it was made on.
struct Recording {
  std::string name;
  Workload workload;
  gpu::GpuParams machine;
};

std::vector<Recording> load(const std::string& file, const std::string& gpu) {
  const std::string path = std::string(HEDDLE_TRACES_DIR) + "/" + file;
  std::vector<Recording> devices;
  cli::Inputs inputs = cli::load_inputs({path}, std::nullopt);
  cli::RunOptions options;
  options.files = {path};
  if (!gpu.empty()) options.gpus = {gpu};
  const cli::Machines machines = cli::resolve_machines(inputs, options);
  for (std::size_t i = 0; i < inputs.workloads.size(); ++i) {
    std::string name = file.substr(0, file.find_last_of('.', file.find_last_of('.') - 1));
    if (inputs.workloads.size() > 1) name += fmt::format(", device {}", inputs.workloads[i].device.id);
    devices.push_back({name, std::move(inputs.workloads[i]), machines.gpus[i].recorded});
  }
  return devices;
}

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

void print_coverage(const std::vector<Recording>& recordings, const std::vector<RecordedDemands>& demands) {
  print(
      "| recording | kernels | demands by operators | by names | of the kernels' time |\n| --- | ---: | ---: | ---: | "
      "---: |\n");
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const demand::Coverage coverage = demand::coverage_of(recordings[i].workload, demands[i].demands());
    print(fmt::format("| {} | {} | {} | {} | {} |\n", recordings[i].name, coverage.kernels,
                      coverage.by_source[static_cast<std::size_t>(demand::Source::operators)],
                      coverage.by_source[static_cast<std::size_t>(demand::Source::names)],
                      percent(coverage.time > 0 ? coverage.time_covered / coverage.time : 0)));
  }
}

void print_held_back(const std::vector<Recording>& recordings, const std::vector<RecordedDemands>& demands) {
  constexpr std::size_t kLeast = 50;  // kernels
  print(
      "\n| recording | held back | launches | with demands: median | p95 | without: median | p95 |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    if (recordings[i].workload.kernels() < kLeast) continue;
    for (const HoldBack what : {HoldBack::launches, HoldBack::names}) {
      const auto of = [&](bool with) { return replay::predict(demands[i], recordings[i].machine, what, with, kSeed); };
      const replay::HeldBack with = of(true);
      const replay::HeldBack without = of(false);
      print(fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", recordings[i].name,
                        what == HoldBack::launches ? "launches" : "names", with.launches, percent(with.error_p50),
                        percent(with.error_p95), percent(without.error_p50), percent(without.error_p95)));
    }
  }
}

// Kernels of one operator call together.
struct Call {
  demand::Kind kind = demand::Kind::elementwise;
  double recorded = 0;   // ns
  double predicted = 0;  // of it on the other machine
};

// By what the operator is called, whichever library it uses, and the shapes of its first arguments.
std::map<std::string, std::vector<Call>> calls_of(const RecordedDemands& recording,
                                                  const std::vector<double>& elsewhere) {
  const Workload& workload = recording.workload();
  std::map<std::size_t, Call> by_call;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.kind != OpKind::kernel || !op.recorded || !op.op_of || op.op_inferred) continue;
    Call& call = by_call[*op.op_of];
    if (recording.demands()[i]) call.kind = recording.demands()[i]->estimate.kind;
    call.recorded += static_cast<double>(op.recorded->duration);
    call.predicted += elsewhere.empty() ? 0 : elsewhere[i];
  }
  std::map<std::string, std::vector<Call>> calls;
  for (const auto& [index, call] : by_call) {
    const workload::Operator& its = workload.operators[index];
    std::string key = its.name;
    for (const char* library : {"cudnn_", "miopen_"}) {
      const std::size_t at = key.find(library);
      if (at != std::string::npos) key.erase(at, std::string(library).size());
    }
    for (std::size_t i = 0; i < std::min<std::size_t>(2, its.arguments.size()); ++i) {
      key += "|";
      for (const std::int64_t extent : its.arguments[i].extents) key += fmt::format("{},", extent);
    }
    calls[key].push_back(call);
  }
  return calls;
}

double median_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0
                        : values[std::min(values.size() - 1,
                                          static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

// Memory's bandwidth, of the first over the second.
double bandwidth_ratio(const gpu::GpuParams& a, const gpu::GpuParams& b) {
  const auto peak = [](const gpu::GpuParams& its) { return its.hbm.channels * its.hbm.pin_rate; };
  return peak(a) / peak(b);
}

void print_across(const Recording& from, const RecordedDemands& known, const Recording& to,
                  const RecordedDemands& truth) {
  const auto predicted = calls_of(known, known.durations_on(to.machine));
  const auto recorded = calls_of(truth, {});
  std::map<demand::Kind, std::vector<double>> errors;
  std::vector<double> all;
  std::vector<double> by_ratio;
  double sum = 0;
  double ratio_sum = 0;
  double wanted = 0;
  const double ratio = bandwidth_ratio(from.machine, to.machine);
  for (const auto& [key, calls] : predicted) {
    const auto found = recorded.find(key);
    if (found == recorded.end()) continue;
    for (std::size_t i = 0; i < std::min(calls.size(), found->second.size()); ++i) {
      const double real = found->second[i].recorded;
      if (calls[i].predicted <= 0 || real <= 0) continue;
      const double error = calls[i].predicted / real - 1;
      errors[calls[i].kind].push_back(std::abs(error));
      all.push_back(std::abs(error));
      by_ratio.push_back(std::abs(calls[i].recorded * ratio / real - 1));
      sum += calls[i].predicted;
      ratio_sum += calls[i].recorded * ratio;
      wanted += real;
    }
  }
  if (all.empty()) return;
  const std::string way = from.name + " -> " + to.name;
  print(fmt::format("| {} | all | {} | {:+.1f} % | {} | {} | {:+.1f} % | {} | {} |\n", way, all.size(),
                    100 * (sum / wanted - 1), percent(median_of(all, 0.5)), percent(median_of(all, 0.95)),
                    100 * (ratio_sum / wanted - 1), percent(median_of(by_ratio, 0.5)),
                    percent(median_of(by_ratio, 0.95))));
  for (const auto& [kind, values] : errors) {
    print(fmt::format("| {} | {} | {} |  | {} | {} |  |  |  |\n", way, demand::kind_name(kind), values.size(),
                      percent(median_of(values, 0.5)), percent(median_of(values, 0.95))));
  }
}

// Time of kernels with a demand, by what limits them, in turn with a memory or an L2 of another bandwidth.
void print_bandwidths(const Recording& recording, const RecordedDemands& known) {
  struct Change {
    const char* name;
    double memory;
    double l2;
  };
  constexpr std::array<Change, 4> kChanges = {
      {{"memory / 2", 0.5, 1}, {"memory x 2", 2, 1}, {"L2 / 2", 1, 0.5}, {"L2 x 2", 1, 2}}};
  const std::vector<double> base = known.durations_on(recording.machine);
  std::map<std::size_t, std::vector<std::size_t>> by_limit;
  for (std::size_t op = 0; op < base.size(); ++op) {
    if (base[op] > 0) by_limit[known.limit(op)].push_back(op);
  }
  std::array<std::vector<double>, kChanges.size()> changed;
  for (std::size_t i = 0; i < kChanges.size(); ++i) {
    gpu::GpuParams other = recording.machine;
    other.hbm.pin_rate *= kChanges[i].memory;
    other.l2.bandwidth = static_cast<std::uint32_t>(other.l2.bandwidth * kChanges[i].l2);
    other.l2.write_bandwidth = static_cast<std::uint32_t>(other.l2.write_bandwidth * kChanges[i].l2);
    other.xbar.slice_bandwidth *= kChanges[i].l2;
    changed[i] = known.durations_on(other);
  }
  double all = 0;
  for (const double ns : base) all += ns;
  for (const auto& [limit, ops] : by_limit) {
    double time = 0;
    std::array<double, kChanges.size()> sums{};
    for (const std::size_t op : ops) {
      time += base[op];
      for (std::size_t i = 0; i < kChanges.size(); ++i) {
        sums[i] += changed[i][op];
        // A roofline: a kernel gains and loses no more than what was changed.
        const double most = std::max({kChanges[i].memory, kChanges[i].l2, 1 / kChanges[i].memory, 1 / kChanges[i].l2});
        const double ratio = changed[i][op] / base[op];
        figures::claim(ratio < most * 1.001 && ratio > 0.999 / most, "no kernel changes by more than what was changed");
      }
    }
    const std::string name = limit < fluid::kResources ? fluid::resource_text(static_cast<fluid::Resource>(limit))
                                                       : std::string("nothing: latencies, or its launch");
    print(fmt::format("| {} | {} | {} | {} |", recording.name, name, ops.size(), percent(time / all)));
    for (const double sum : sums) print(fmt::format(" {:.2f} |", sum / time));
    print("\n");
  }
}

}  // namespace

int main() {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"h100_qwen1.5_0.5b_inference_ops.json.gz", ""},       {"mi300x_qwen1.5_0.5b_inference_ops.json.gz", ""},
      {"h100_nsfw_vit_inference_ops.json.gz", ""},           {"mi300x_nsfw_vit_inference_ops.json.gz", ""},
      {"h100_qwen1.5_0.5b_inference_trim.json.gz", ""},      {"h100_owlv2_inference_trim.json.gz", ""},
      {"a100_recsys_training_multistream_trim.json.gz", ""}, {"a100_alexnet_2stream_events_orig.json.gz", ""},
      {"mi300x_resnet_ddp_training_trim.json.gz", ""},       {"mi350x_rocprofv3_kernel_trace_6000.csv.gz", "mi350x"},
      {"h100x2_wan_dit_mfu_nsys_slim.sqlite.gz", ""}};
  if (!std::filesystem::exists(HEDDLE_TRACES_DIR)) {
    print("SKIPPED: there are no recordings beside the project\n");
    return 0;
  }
  std::vector<Recording> recordings;
  for (const auto& [file, gpu] : files) {
    for (Recording& device : load(file, gpu)) recordings.push_back(std::move(device));
  }
  std::vector<RecordedDemands> demands;
  demands.reserve(recordings.size());
  for (const Recording& its : recordings)
    demands.emplace_back(its.workload, its.machine, std::vector<workload::KernelCounters>{});
  print_coverage(recordings, demands);
  print_held_back(recordings, demands);
  print(
      "\n| from, to | operators | calls | total, with demands | median | p95 | total, by bandwidth | median | p95 |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::size_t pair : {std::size_t{0}, std::size_t{2}}) {
    print_across(recordings[pair], demands[pair], recordings[pair + 1], demands[pair + 1]);
    print_across(recordings[pair + 1], demands[pair + 1], recordings[pair], demands[pair]);
  }
  print(
      "\n| recording | limited by | kernels | of their time | memory / 2 | memory x 2 | L2 / 2 | L2 x 2 |\n"
      "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    print_bandwidths(recordings[i], demands[i]);
  }
  return figures::good ? 0 : 1;
}

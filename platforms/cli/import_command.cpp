#include <algorithm>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/machines.h"
#include "cli/run_options.h"
#include "cli/run_outcome.h"
#include "common/yaml_util.h"
#include "import/recordings.h"
#include "scenario/scenario_submit.h"

namespace heddle::cli {
namespace {

namespace po = boost::program_options;

constexpr const char* kImportUsage = R"(heddle import kineto|nsys|rocprof FILE [options]

Writes a scenario with the kernels, copies and streams of a recorded trace; CTA durations are fitted to the recorded
kernel durations on the recorded machine.

kineto: JSON of PyTorch's profiler. nsys: SQLite, as `nsys export --type sqlite` writes it. rocprof: CSV of rocprofv3's
kernel trace. All plain or gzip.

)";

po::options_description import_options() {
  po::options_description options = described_options();
  options.add_options()("output,o", po::value<std::string>()->value_name("OUT"),
                        "the scenario; default: to standard output")(
      "device", po::value<std::string>()->value_name("N"), "only this device of the recording")(
      "gpu", po::value<std::vector<std::string>>()->value_name("PRESET|FILE"),
      "the machine of a recording that does not tell it, as those of rocprofv3");
  return options;
}

struct Format {
  const char* name;
  bool (*looks_like)(const std::string& path);
  const char* is_not;  // sentence and remedy for a file that is another
  const char* expected;
};
constexpr Format kFormats[] = {{"kineto", import::looks_like_kineto, "is not a Kineto trace",
                                "expected JSON, plain or gzip, as PyTorch's profiler exports it"},
                               {"nsys", import::looks_like_nsys, "is not an export of Nsight Systems",
                                "expected SQLite, plain or gzip, as in: nsys export --type sqlite report.nsys-rep"},
                               {"rocprof", import::looks_like_rocprof, "is not a trace of rocprofv3",
                                "expected CSV, plain or gzip, as in: rocprofv3 --kernel-trace --output-format csv"}};

void write_dim(YAML::Emitter& out, const char* key, const arch::Dim3& d) {
  out << YAML::Key << key << YAML::Value << YAML::Flow << YAML::BeginSeq << d.x << d.y << d.z << YAML::EndSeq;
}

// Kernels that are alike but for their launch share one entry.
std::string key_of(const arch::KernelRecord& k) {
  const arch::Dim3& cluster = k.cluster.of(arch::CgaLevel::gpc);  // the one level that recordings know
  return fmt::format("{}|{},{},{}|{},{},{}|{},{},{},{}|{}|{}|{}|{}|{}", k.name, k.grid.x, k.grid.y, k.grid.z, k.block.x,
                     k.block.y, k.block.z, cluster.x, cluster.y, cluster.z, static_cast<int>(k.cluster.mode),
                     k.registers_per_thread, k.shared_bytes, k.local_bytes, k.cooperative, k.duration.min);
}

void write_cluster(YAML::Emitter& out, const arch::ClusterShape& cluster) {
  if (!cluster.any()) return;
  const arch::Dim3& extents = cluster.of(arch::CgaLevel::gpc);
  out << YAML::Key << "cluster" << YAML::Value << YAML::Flow << YAML::BeginMap;
  write_dim(out, "gpc", extents);
  out << YAML::Key << "mode" << YAML::Value
      << (cluster.mode == arch::CgaMode::multicast ? "multicast" : "load_balancing") << YAML::EndMap;
}

struct Kernels {
  std::map<std::string, std::string> name_of;  // key -> unique name
  std::map<std::string, int> used;
  std::vector<const arch::KernelRecord*> list;
};

void gather(const workload::Workload& workload, Kernels& kernels) {
  for (const workload::Op& op : workload.ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    const auto [at, inserted] = kernels.name_of.try_emplace(key_of(op.kernel));
    if (!inserted) continue;
    const int count = ++kernels.used[op.kernel.name];
    at->second = count == 1 ? op.kernel.name : fmt::format("{} #{}", op.kernel.name, count);
    kernels.list.push_back(&op.kernel);
  }
}

void write_op(YAML::Emitter& out, const workload::Workload& workload, std::size_t index, std::size_t gpu,
              std::int64_t shift, double launch_latency, const Kernels& kernels, bool named) {
  const workload::Op& op = workload.ops[index];
  out << YAML::Flow << YAML::BeginMap;
  if (named) out << YAML::Key << "id" << YAML::Value << fmt::format("g{}o{}", gpu, index);
  if (op.kind == workload::OpKind::kernel) {
    out << YAML::Key << "kernel" << YAML::Value;
    emit_text(out, kernels.name_of.at(key_of(op.kernel)));
  } else {
    // Some recordings do not tell the bytes; a scenario wants at least one. The time is what counts.
    out << YAML::Key << (op.kind == workload::OpKind::copy ? "copy" : "fill") << YAML::Value
        << std::max<std::uint64_t>(1, op.bytes);
    out << YAML::Key << "for" << YAML::Value << fmt::format("{} ns", op.duration);
    if (op.kind == workload::OpKind::copy && op.direction != workload::CopyDirection::host_to_device) {
      out << YAML::Key << "direction" << YAML::Value << scenario::direction_name(op.direction);
    }
  }
  out << YAML::Key << "stream" << YAML::Value;
  emit_text(out, fmt::format("gpu{} {}", gpu, workload.streams[op.stream].name));
  std::int64_t at = 0;
  if (op.enqueue) at = std::max(at, *op.enqueue + static_cast<std::int64_t>(launch_latency) + shift);
  if (op.not_before) at = std::max(at, *op.not_before + shift);
  out << YAML::Key << "at" << YAML::Value << fmt::format("{} ns", at);
  if (!op.after.empty()) {
    out << YAML::Key << "after" << YAML::Value << YAML::BeginSeq;
    for (const workload::Edge& edge : op.after) out << fmt::format("g{}o{}", gpu, edge.from);
    out << YAML::EndSeq;
  }
  out << YAML::EndMap;
}

std::string scenario_text(const Inputs& inputs, const Machines& machines, const std::vector<Fitted>& fitted) {
  Kernels kernels;
  for (const Fitted& f : fitted) gather(f.workload, kernels);
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "heddle" << YAML::Value << 1;
  out << YAML::Key << "name" << YAML::Value;
  emit_text(out, inputs.name);
  out << YAML::Key << "description" << YAML::Value << "Imported from a recorded trace; CTA durations are fitted to it.";
  out << YAML::Key << "gpus" << YAML::Value << YAML::Flow << YAML::BeginSeq;
  for (const Machine& m : machines.gpus) out << (m.preset == "generic" ? scenario::kDefaultPreset : m.preset);
  out << YAML::EndSeq;
  out << YAML::Key << "config" << YAML::Value << YAML::BeginMap;
  for (const Machine& m : machines.gpus) {
    gpu::GpuParams params = m.recorded;
    ParamBinder binder;
    params.bind(binder);
    out << YAML::Key << m.instance << YAML::Value;
    binder.dump_root(out, "gpu");
  }
  out << YAML::EndMap;
  out << YAML::Key << "kernels" << YAML::Value << YAML::BeginSeq;
  for (const arch::KernelRecord* k : kernels.list) {
    out << YAML::BeginMap << YAML::Key << "name" << YAML::Value;
    emit_text(out, kernels.name_of.at(key_of(*k)));
    write_dim(out, "grid", k->grid);
    write_dim(out, "block", k->block);
    out << YAML::Key << "registers" << YAML::Value << k->registers_per_thread;
    out << YAML::Key << "shared" << YAML::Value << fmt::format("{} B", k->shared_bytes);
    if (k->cooperative) out << YAML::Key << "cooperative" << YAML::Value << true;
    if (k->local_bytes != 0) out << YAML::Key << "local" << YAML::Value << fmt::format("{} B", k->local_bytes);
    write_cluster(out, k->cluster);
    out << YAML::Key << "cycles" << YAML::Value << k->duration.min << YAML::EndMap;
  }
  out << YAML::EndSeq;
  out << YAML::Key << "streams" << YAML::Value << YAML::BeginSeq;
  for (std::size_t g = 0; g < fitted.size(); ++g) {
    for (const workload::Stream& stream : fitted[g].workload.streams) {
      out << YAML::Flow << YAML::BeginMap << YAML::Key << "name" << YAML::Value;
      emit_text(out, fmt::format("gpu{} {}", g, stream.name));
      out << YAML::Key << "priority" << YAML::Value << stream.priority << YAML::Key << "gpu" << YAML::Value << g
          << YAML::EndMap;
    }
  }
  out << YAML::EndSeq;
  out << YAML::Key << "submit" << YAML::Value << YAML::BeginSeq;
  for (std::size_t g = 0; g < fitted.size(); ++g) {
    const workload::Workload& workload = fitted[g].workload;
    const std::vector<replay::Job> jobs = make_jobs(fitted, machines, replay::Pace::recorded, true);
    std::vector<bool> named(workload.ops.size(), false);
    std::int64_t earliest = 0;
    for (const workload::Op& op : workload.ops) {
      for (const workload::Edge& edge : op.after) named[edge.from] = true;
      if (op.enqueue) earliest = std::min(earliest, *op.enqueue);
    }
    for (std::size_t i = 0; i < workload.ops.size(); ++i) {
      write_op(out, workload, i, g, -earliest, jobs[g].launch_latency_ns, kernels, named[i]);
    }
  }
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace

int import_command(const std::vector<std::string>& arguments) {
  const CommandLine line("heddle import", import_options(), arguments);
  if (line.help()) {
    std::ostringstream text;
    text << kImportUsage << import_options();
    std::cout << text.str();
    return kSuccess;
  }
  const std::vector<std::string>& what = line.words();
  const auto* const format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                          [&what](const Format& f) { return !what.empty() && what[0] == f.name; });
  if (what.size() != 2 || format == std::end(kFormats)) {
    throw InputError("heddle import takes a format and one file",
                     "as in: heddle import kineto trace.json.gz -o scenario.yaml; formats: kineto, nsys, rocprof");
  }
  if (!format->looks_like(what[1])) throw InputError({what[1], 0, 0}, format->is_not, format->expected);
  const std::optional<int> device = line.number<int>("device", 0, std::numeric_limits<int>::max());
  const Inputs inputs = load_inputs({what[1]}, device);
  RunOptions machine;
  machine.gpus = line.list("gpu");
  if (!machine.gpus.empty() && std::any_of(inputs.workloads.begin(), inputs.workloads.end(), tells_machine)) {
    throw InputError("--gpu: the recording tells the machine that it was made on",
                     "import it without --gpu; the scenario then runs on any machine (heddle run --gpu)");
  }
  const Machines machines = resolve_machines(inputs, machine);
  std::vector<Fitted> fitted;
  for (std::size_t i = 0; i < inputs.workloads.size(); ++i) {
    fitted.push_back(fit_workload(inputs.workloads[i], machines.gpus[i].recorded, Fit::launch));
  }
  const std::string text = scenario_text(inputs, machines, fitted);
  const std::string output = line.text("output").value_or("-");
  if (output == "-") {
    std::cout << text;
  } else {
    write_text(text, output);
    for (const workload::Workload& w : inputs.workloads) {
      if (has_stream_structure(w)) {
        std::cout << "note: graphs, and kernels that start before the one ahead of them has ended, are written as "
                     "operations of streams that follow each other\n";
      }
      for (const std::string& warning : w.warnings) std::cout << "note: " << warning << '\n';
    }
    std::cout << "scenario: " << output << '\n';
  }
  return kSuccess;
}

}  // namespace heddle::cli

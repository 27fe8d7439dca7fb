#include "cli/machines.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/params.h"
#include "gpu/gpu_params.h"
#include "gpu/machine_file.h"
#include "replay/cta_dump.h"
#include "replay/free_machine.h"

namespace heddle::cli {
namespace {

constexpr std::uint32_t kGenericSmsPerGpc = 18;

bool is_file(const std::string& gpu) {
  const std::vector<std::string> names = gpu::preset_names();
  if (std::find(names.begin(), names.end(), gpu) != names.end()) return false;
  return gpu.find('/') != std::string::npos || gpu.find(".y") != std::string::npos || std::filesystem::exists(gpu);
}

// A file that is given for one GPU of several: its one machine, whatever number it has there, becomes that GPU's.
YAML::Node roots_for(const std::string& path, std::size_t instance) {
  const gpu::MachineFile file = gpu::read_machine_file(path);
  YAML::Node roots(YAML::NodeType::Map);
  std::string found;
  for (const auto& item : file.roots) {
    const auto key = item.first.as<std::string>();
    if (key.compare(0, 3, "gpu") != 0) {
      roots[item.first] = item.second;
      continue;
    }
    if (!found.empty()) {
      throw InputError(position(item.first, path),
                       fmt::format("describes {} and {}, but is given for one GPU of several", found, key),
                       "keep one of them, or give the file once, for all GPUs");
    }
    found = key;
    roots[fmt::format("gpu{}", instance)] = item.second;
  }
  return roots;
}

struct Choice {
  std::string preset;  // "generic": from `generic`
  std::string why;
  YAML::Node generic;
  std::string file;  // machine file, if any
};

bool has_clusters(const workload::Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(),
                     [](const workload::Op& op) { return op.kernel.cluster.any(); });
}

// Machines that a device of an unknown name is taken for, by what it has. Of several with as many SMs the first of its
// kind.
constexpr std::pair<std::uint32_t, const char*> kBySms[] = {{78, "h20"},       {108, "a100"},   {114, "h100-pcie"},
                                                            {132, "h100-sxm"}, {142, "l40s"},   {148, "b200"},
                                                            {170, "rtx5090"},  {256, "mi350x"}, {304, "mi300x"}};

std::string preset_by_sms(const workload::DeviceInfo& device) {
  const auto* const found = std::find_if(std::begin(kBySms), std::end(kBySms),
                                         [&device](const auto& entry) { return entry.first == device.sms; });
  if (found == std::end(kBySms)) return {};
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1, {});
  layers.add_preset(0, gpu::preset(found->second), {Origin::Kind::preset, found->second});
  layers.resolve(binder, 0);
  const arch::SmLimits& limits = params.sm.limits;
  const bool alike = limits.warp_size == device.warp_size &&
                     (device.shared_bytes_per_sm == 0 || device.shared_bytes_per_sm == limits.shared_bytes) &&
                     (device.max_threads_per_sm == 0 || device.max_threads_per_sm == limits.threads);
  return alike ? found->second : "";
}

Choice from_recording(const workload::Workload& workload) {
  Choice choice;
  choice.preset = gpu::preset_for_device(workload.device.name);
  if (!choice.preset.empty()) {
    choice.why = fmt::format("preset {} for the recorded device '{}'", choice.preset, workload.device.name);
    return choice;
  }
  if (workload.device.name.empty() && workload.device.sms == 0 && has_clusters(workload)) {
    choice.preset = scenario::kDefaultPreset;
    choice.why = fmt::format("preset {}: the recording does not say what device {} is, and clusters need sm_90",
                             choice.preset, workload.device.id);
    return choice;
  }
  if (workload.device.sms == 0 && workload.format == "nsys") {
    choice.preset = scenario::kDefaultPreset;
    choice.why = fmt::format(
        "preset {}, for want of better: the recording does not say what device {} is (TARGET_INFO_GPU); --gpu chooses "
        "another",
        choice.preset, workload.device.id);
    return choice;
  }
  choice.preset = preset_by_sms(workload.device);
  if (!choice.preset.empty()) {
    choice.why = fmt::format("preset {}: no preset knows the recorded device '{}', and this one has its {} SMs",
                             choice.preset, workload.device.name, workload.device.sms);
    return choice;
  }
  if (workload.device.sms == 0) {
    throw InputError({workload.name, 0, 0},
                     fmt::format("the recording does not tell what device {} is", workload.device.id),
                     fmt::format("choose its machine, as in --gpu {}; heddle show presets lists some",
                                 workload.device.warp_size == 64 ? "mi350x" : scenario::kDefaultPreset));
  }
  choice.preset = "generic";
  choice.generic = generic_machine(workload.device);
  choice.why = fmt::format("a generic machine with the {} SMs of the recorded device '{}', which no preset knows",
                           workload.device.sms, workload.device.name);
  return choice;
}

YAML::Node choice_node(const Choice& choice) {
  return choice.preset == "generic" ? choice.generic : gpu::preset(choice.preset);
}

Origin choice_origin(const Choice& choice) {
  return {Origin::Kind::preset, choice.preset == "generic" ? "recorded device" : "preset " + choice.preset};
}

// What the recording tells of the recorded system beyond its device.
YAML::Node recording_layer(const workload::Workload& workload) {
  YAML::Node gpu(YAML::NodeType::Map);
  if (workload.timings.stream_gap) {
    gpu["task"]["stream_gap"]["value"] = fmt::format("{} ns", *workload.timings.stream_gap);
    gpu["task"]["stream_gap"]["source"] =
        "measured in this recording: mean over operations that waited for their stream";
  }
  return gpu;
}

std::string text_of(gpu::GpuParams params) {
  ParamBinder binder;
  params.bind(binder);
  YAML::Emitter out;
  binder.dump_root(out, "gpu");
  return out.c_str();
}

gpu::GpuParams recorded_machine(const workload::Workload& workload, const std::optional<std::string>& timing) {
  const Choice choice = from_recording(workload);
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1, {"run"});
  layers.add_preset(0, choice_node(choice), choice_origin(choice));
  layers.add_preset(0, recording_layer(workload), {Origin::Kind::preset, "this recording"});
  if (timing) layers.assign("gpu.timing=" + *timing, {Origin::Kind::command_line, "--timing"});
  layers.resolve(binder, 0);
  return params;
}

Choice choose(const Inputs& inputs, const RunOptions& options, std::size_t index) {
  Choice choice;
  if (inputs.recorded() && !options.gpus.empty() && !tells_machine(inputs.workloads[index])) {
    choice.preset = scenario::kDefaultPreset;  // what a machine file of --gpu builds on
  } else if (inputs.recorded()) {
    choice = from_recording(inputs.workloads[index]);
  } else {
    choice.preset = inputs.scenario->gpus[index];
    choice.why =
        fmt::format("preset {} {}", choice.preset, inputs.scenario->gpus_named ? "of the scenario" : "by default");
  }
  if (options.gpus.empty() && inputs.scenario && index < inputs.scenario->gpu_places.size()) {
    try {
      (void)gpu::preset(choice.preset);
    } catch (const InputError& error) {
      throw InputError(inputs.scenario->gpu_places[index], error.message(), error.remedy());
    }
  }
  if (options.gpus.empty()) return choice;
  const std::string& wanted = options.gpus.size() == 1 ? options.gpus[0] : options.gpus[index];
  if (!is_file(wanted)) {
    (void)gpu::preset(wanted);  // throws if there is none
    choice = {wanted, fmt::format("preset {} of --gpu", wanted), {}, {}};
    return choice;
  }
  choice.file = wanted;
  const gpu::MachineFile file = gpu::read_machine_file(wanted);
  if (!file.preset.empty()) choice.preset = file.preset;
  choice.why = fmt::format("{} of --gpu, on top of {}", wanted,
                           choice.preset == "generic" ? "the recorded device" : "preset " + choice.preset);
  return choice;
}

// Where a recording does not show it: what CUDA launches typically take from call to start.
constexpr double kUsualLaunchLatencyNs = 5000;

void use_signature_medians(workload::Workload& workload) {
  for (const std::vector<std::size_t>& launches : replay::signature_groups(workload)) {
    std::vector<double> cycles;
    for (const std::size_t i : launches) cycles.push_back(static_cast<double>(workload.ops[i].kernel.duration.min));
    const auto median = static_cast<std::uint64_t>(replay::signature_duration(std::move(cycles)));
    for (const std::size_t i : launches) workload.ops[i].kernel.duration = {median, median};
  }
}

void check_recorded_machine(const workload::Workload& workload, const workload::Op& op, const gpu::GpuParams& machine) {
  const std::string why = gpu::why_never_fits(machine, op.kernel);
  if (why.empty()) return;
  throw InputError({workload.name, 0, 0},
                   "kernel '" + op.kernel.name + "' cannot have run on the recorded device, " + why,
                   "the recording's launch data and its deviceProperties contradict each other");
}

}  // namespace

bool tells_machine(const workload::Workload& workload) {
  return workload.device.sms != 0 || has_clusters(workload) || !gpu::preset_for_device(workload.device.name).empty();
}

void RunParams::describe(ParamTable<RunParams>& t) {
  constexpr std::uint64_t kMost = 1'000'000'000'000'000;
  t.add("no_progress_events", &RunParams::no_progress_events, {Unit::count, std::uint64_t{0}, kMost},
        "events without progress of open work, in which all that runs does the same again and again, after which the "
        "run ends with the chain of waits; 0: never",
        "choice: a second of polling, ten where every warp of a large machine computes");
  t.add("no_progress_instructions", &RunParams::no_progress_instructions, {Unit::count, std::uint64_t{0}, kMost},
        "events in which nothing but instructions is seen, after which the run ends in the same way; 0: never",
        "choice: longer than a program computes without writing anything");
  t.add("wall_limit", &RunParams::wall_limit, {Unit::s, 0.0, 1e9},
        "time of this computer after which the run is stopped, and its results are partial; 0: none",
        "choice: a run that goes on is not stopped");
  t.add("time_limit", &RunParams::time_limit, {Unit::ns, 0.0, 1e18},
        "simulated time after which the run is stopped, and its results are partial; 0: none",
        "choice: a run that goes on is not stopped");
  t.add("event_limit", &RunParams::event_limit, {Unit::count, std::uint64_t{0}, kMost},
        "events of the model after which the run is stopped, a few thousand more or less, and its results are partial; "
        "0: none",
        "choice: a run that goes on is not stopped");
  t.add("timeline_events", &RunParams::timeline_events, {Unit::count, std::uint64_t{0}, std::uint64_t{1'000'000'000}},
        "most slices of details (CTAs, clusters, bulk requests, what the distributor does) and values that a timeline "
        "holds: beyond, those that follow each other are merged; 0: none",
        "choice: what a viewer opens readily");
  t.add("ctas_plain_bytes", &RunParams::ctas_plain_bytes, {Unit::bytes, std::uint64_t{0}, kMost},
        "most bytes of text that the table of CTAs has as ctas.csv; beyond, it is compressed, as ctas.csv.gz",
        "choice: what an editor opens readily");
}

YAML::Node generic_machine(const workload::DeviceInfo& device) {
  if (device.sms == 0) {
    throw InputError("the recording does not tell how many SMs its device has",
                     "choose a machine with --gpu; heddle show presets lists some");
  }
  const char* source = "deviceProperties of the recording";
  const bool nvidia = device.name.find("NVIDIA") != std::string::npos ||
                      device.name.find("Tesla") != std::string::npos ||
                      device.name.find("GeForce") != std::string::npos;
  YAML::Node gpu(YAML::NodeType::Map);
  gpu["shape"]["value"] = YAML::Load(arch::Shape::balanced(device.sms, kGenericSmsPerGpc).text());
  gpu["shape"]["source"] = "number of SMs of the recording, in GPCs as large as those of an H100";
  YAML::Node limits(YAML::NodeType::Map);
  const auto put = [&limits, source](const char* name, std::uint64_t value) {
    limits[name]["value"] = value;
    limits[name]["source"] = source;
  };
  put("warp_size", device.warp_size);
  if (device.max_threads_per_sm != 0) {
    put("threads", device.max_threads_per_sm);
    put("warps", device.max_threads_per_sm / device.warp_size);
  }
  if (device.max_threads_per_cta != 0) put("max_threads_per_cta", device.max_threads_per_cta);
  if (device.registers_per_sm != 0) put("registers", device.registers_per_sm);
  if (device.shared_bytes_per_sm != 0) put("shared_bytes", device.shared_bytes_per_sm);
  if (device.max_shared_bytes_per_cta != 0) put("max_shared_per_cta", device.max_shared_bytes_per_cta);
  if (!nvidia) {
    // The reserve and the register rules are NVIDIA's.
    put("shared_reserve", 0);
    limits["shared_reserve"]["source"] = "assumption: no system reserve outside NVIDIA's GPUs";
  }
  gpu["sm"]["limits"] = limits;
  return gpu;
}

Machines resolve_machines(const Inputs& inputs, const RunOptions& options) {
  const std::size_t count = inputs.workloads.size();
  if (options.gpus.size() > 1 && options.gpus.size() != count) {
    throw InputError(fmt::format("--gpu is given {} times, and the run has {} GPUs", options.gpus.size(), count),
                     "give it once for all, or once for each");
  }
  Machines machines;
  machines.gpus.resize(count);
  ParamLayers layers(count, {"run", "host", "links"});
  std::vector<std::string> files;
  for (std::size_t i = 0; i < count; ++i) {
    const Choice choice = choose(inputs, options, i);
    machines.gpus[i].instance = fmt::format("gpu{}", i);
    machines.gpus[i].preset = choice.preset;
    machines.gpus[i].why = choice.why;
    layers.add_preset(i, choice_node(choice), choice_origin(choice));
    if (inputs.recorded()) {
      layers.add_preset(i, recording_layer(inputs.workloads[i]), {Origin::Kind::preset, "this recording"});
    }
    if (!choice.file.empty()) files.push_back(choice.file);
  }
  if (inputs.scenario) layers.add(inputs.scenario->config, {Origin::Kind::file, inputs.scenario->file});
  if (options.gpus.size() == 1) {
    if (!files.empty()) layers.add(gpu::read_machine_file(files.front()).roots, {Origin::Kind::file, files.front()});
  } else {
    for (std::size_t i = 0; i < options.gpus.size(); ++i) {
      if (is_file(options.gpus[i])) layers.add(roots_for(options.gpus[i], i), {Origin::Kind::file, options.gpus[i]});
    }
  }
  if (options.timing) layers.assign("gpu.timing=" + *options.timing, {Origin::Kind::command_line, "--timing"});
  for (const std::string& set : options.sets) layers.assign(set);

  YAML::Emitter config;
  config << YAML::BeginMap;
  for (std::size_t i = 0; i < count; ++i) {
    Machine& machine = machines.gpus[i];
    ParamBinder binder;
    machine.params.bind(binder);
    layers.resolve(binder, i);
    machine.entries = binder.entries();
    gpu::check_values(machine.params, machine.entries);
    config << YAML::Key << machine.instance << YAML::Value;
    binder.dump_root(config, "gpu");
    if (inputs.recorded()) {
      // Durations can only be fitted to the machine of --gpu if the recording does not tell its own.
      const bool fits_chosen = !tells_machine(inputs.workloads[i]) && !options.gpus.empty();
      machine.recorded = fits_chosen ? machine.params : recorded_machine(inputs.workloads[i], options.timing);
      machine.recorded_text = text_of(machine.recorded);
      machine.changed = text_of(machine.params) != machine.recorded_text;
    }
  }
  ParamBinder run;
  run.bind("run", machines.run);
  layers.resolve(run, "run");
  machines.run_entries = run.entries();
  config << YAML::Key << "run" << YAML::Value;
  run.dump_root(config, "run");
  ParamBinder host;
  host.bind("host", machines.host);
  layers.resolve(host, "host");
  machines.host.check();
  for (const ParamEntry& entry : host.entries()) machines.run_entries.push_back(entry);
  config << YAML::Key << "host" << YAML::Value;
  host.dump_root(config, "host");
  ParamBinder links;
  links.bind("links", machines.links);
  layers.resolve(links, "links");
  for (const ParamEntry& entry : links.entries()) machines.run_entries.push_back(entry);
  config << YAML::Key << "links" << YAML::Value;
  links.dump_root(config, "links");
  config << YAML::EndMap;
  machines.config = std::string(config.c_str()) + "\n";
  return machines;
}

Machines resolve_machine(const std::string& gpu, const std::vector<std::string>& sets) {
  Inputs inputs;
  inputs.workloads.resize(1);
  inputs.scenario.emplace();
  inputs.scenario->gpus = {scenario::kDefaultPreset};
  RunOptions options;
  if (!gpu.empty()) options.gpus = {gpu};
  options.sets = sets;
  return resolve_machines(inputs, options);
}

// What is known of kernels, scaled to their durations, in place of these.
void use_demands(Fitted& fitted, const workload::Workload& workload, const gpu::GpuParams& recorded,
                 const std::vector<workload::KernelCounters>& counters) {
  auto demands = std::make_shared<replay::RecordedDemands>(workload, recorded, counters);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (!demands->demands()[i]) continue;
    arch::KernelRecord& kernel = fitted.workload.ops[i].kernel;
    static_cast<arch::KernelShape&>(kernel) = demands->shape(i);
    kernel.demand = std::make_shared<const arch::Demand>(demands->fitted(i));
  }
  fitted.demands = std::move(demands);
}

Fitted fit_workload(const workload::Workload& workload, const gpu::GpuParams& recorded, Fit fit,
                    const std::vector<workload::KernelCounters>& counters) {
  Fitted fitted{workload, std::vector<bool>(workload.ops.size(), false), nullptr, nullptr, {}};
  const Clock clock(recorded.machine.clock);
  for (const workload::Op& op : workload.ops) {
    if (op.kind == workload::OpKind::kernel && op.recorded) check_recorded_machine(workload, op, recorded);
  }
  const std::vector<double> free = replay::free_parts(workload, recorded);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    workload::Op& op = fitted.workload.ops[i];
    if (op.kind != workload::OpKind::kernel || !op.recorded) continue;
    const replay::SoloKernel solo(recorded, op.kernel, free[i]);
    const double cycles = static_cast<double>(op.recorded->duration) / clock.ns_for_cycles(1);
    const std::uint64_t cta = solo.fit(cycles);
    op.kernel.duration = {cta, cta};
    fitted.launch_bound[i] = solo.duration(1) > cycles;
  }
  if (fit == Fit::signature) use_signature_medians(fitted.workload);
  if (fit == Fit::demand) use_demands(fitted, workload, recorded, counters);
  return fitted;
}

std::vector<Fitted> fit_workloads(const Inputs& inputs, const Machines& machines, const RunOptions& options,
                                  const std::vector<workload::KernelCounters>& counters) {
  std::vector<Fitted> fitted;
  for (std::size_t i = 0; i < inputs.workloads.size(); ++i) {
    const Machine& machine = machines.gpus[i];
    if (!inputs.recorded()) {
      const std::size_t operations = inputs.workloads[i].ops.size();
      fitted.push_back({inputs.workloads[i], std::vector<bool>(operations), nullptr, nullptr, {}});
    } else if (i > 0 && options.ranks && machine.recorded_text == machines.gpus[0].recorded_text) {
      fitted.push_back({fitted[0].workload, fitted[0].launch_bound, fitted[0].demands, nullptr, {}});
    } else {
      fitted.push_back(fit_workload(inputs.workloads[i], machine.recorded, options.fit, counters));
    }
  }
  return fitted;
}

void clamp_misfits(Fitted& fitted, const Machine& machine) {
  std::size_t resources = 0;
  std::size_t clusters = 0;
  std::string first;
  auto clamped = std::make_unique<workload::Workload>(fitted.elsewhere ? *fitted.elsewhere : fitted.workload);
  for (workload::Op& op : clamped->ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    std::string why = gpu::why_never_fits(machine.params, op.kernel);
    if (why.empty()) continue;
    if (first.empty()) first = why;
    if (!arch::why_impossible(machine.params.sm.limits, op.kernel).empty()) {
      replay::fit_into(op.kernel, machine.params.sm.limits);
      ++resources;
    }
    if (gpu::why_never_fits(machine.params, op.kernel).empty() || !op.kernel.cluster.any()) continue;
    op.kernel.cluster = {};
    ++clusters;
  }
  if (first.empty()) return;
  fitted.clamped = fmt::format(
      "{} of {} kernels ask for more than an SM of {} has, and run with what it has; {} run without their clusters "
      "(--misfits clamp). The first: {}",
      resources, clamped->kernels(), machine.instance, clusters, first);
  fitted.elsewhere = std::move(clamped);
}

void move_demands(Fitted& fitted, const gpu::GpuParams& machine,
                  const std::vector<workload::KernelCounters>& counters) {
  if (!fitted.demands || !fitted.demands->l2_differs(machine)) return;
  auto elsewhere = std::make_unique<workload::Workload>(fitted.workload);
  const std::vector<std::optional<arch::Demand>> demands = fitted.demands->demands_on(machine, counters);
  for (std::size_t i = 0; i < demands.size(); ++i) {
    if (demands[i]) elsewhere->ops[i].kernel.demand = std::make_shared<const arch::Demand>(*demands[i]);
  }
  fitted.elsewhere = std::move(elsewhere);
}

replay::RankCollectives put_over_links(std::vector<Fitted>& fitted, const Machines& machines,
                                       const RunOptions& options) {
  const bool linked = machines.links.topology != link::Topology::none;
  if (!options.ranks && (!linked || fitted.size() < 2)) return {};
  std::vector<const workload::Workload*> recorded;
  for (const Fitted& its : fitted) recorded.push_back(&its.workload);
  replay::RankCollectives collectives = replay::match_collectives(recorded, options.ranks.has_value());
  if (collectives.matched.empty()) return collectives;
  std::vector<workload::Workload*> targets;
  for (Fitted& its : fitted) {
    if (!its.elsewhere) its.elsewhere = std::make_unique<workload::Workload>(its.workload);
    targets.push_back(its.elsewhere.get());
  }
  std::vector<replay::RankRoom> rooms;
  for (const Machine& machine : machines.gpus) {
    rooms.push_back({machine.params.machine.shape.sms(), machine.params.sm.limits});
  }
  collectives.cut = replay::run_over_links(collectives, targets, rooms);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    std::uint64_t end = 0;
    for (const workload::MemoryRegion& region : targets[i]->memory) end = std::max(end, region.address + region.bytes);
    const std::uint64_t memory = machines.gpus[i].params.machine.memory;
    if (end <= memory) continue;
    throw InputError(
        fmt::format("collectives of the recording need {} bytes of memory on {}, which has {}: their largest buffers, "
                    "and as much again for what comes from other ranks",
                    end, machines.gpus[i].instance, memory),
        "give it more, as in --set gpu.memory=400GiB; recordings of several GPUs can also run unconnected");
  }
  return collectives;
}

std::vector<replay::Job> make_jobs(const std::vector<Fitted>& fitted, const Machines& machines, replay::Pace pace,
                                   bool recorded_machine, const std::optional<workload::PacketOptions>& packets,
                                   bool tmdqs) {
  std::vector<replay::Job> jobs;
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const bool elsewhere = fitted[i].elsewhere != nullptr && !recorded_machine;
    const workload::Workload& workload = elsewhere ? *fitted[i].elsewhere : fitted[i].workload;
    const Machine& machine = machines.gpus[i];
    replay::Job job;
    job.instance = machine.instance;
    job.params = recorded_machine ? machine.recorded : machine.params;
    job.workload = &workload;
    job.pace = pace;
    job.packets = packets;
    job.tmdqs = tmdqs;
    if (workload.format != "scenario") {
      job.launch_latency_ns = workload.timings.launch_latency ? static_cast<double>(*workload.timings.launch_latency)
                                                              : kUsualLaunchLatencyNs;
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

bool has_stream_structure(const workload::Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(),
                     [](const workload::Op& op) { return op.graph.has_value() || op.programmatic; });
}

workload::SubmitBy submit_by(const Inputs& inputs, const RunOptions& options) {
  workload::SubmitBy by = workload::SubmitBy::streams;
  if (inputs.scenario && inputs.scenario->packets) by = workload::SubmitBy::packets;
  if (inputs.scenario && inputs.scenario->tmdqs) by = workload::SubmitBy::tmdqs;
  return options.submit.value_or(by);
}

std::optional<workload::PacketOptions> packet_options(const Inputs& inputs, const RunOptions& options) {
  std::optional<workload::PacketOptions> packets;
  if (inputs.scenario) packets = inputs.scenario->packets;
  const workload::SubmitBy by = submit_by(inputs, options);
  if (by == workload::SubmitBy::packets) {
    if (!packets) packets.emplace();
  } else {
    packets.reset();
  }
  for (const workload::Workload& workload : inputs.workloads) {
    // Queues keep more order than a recording's streams, which is a note and no error.
    if (by == workload::SubmitBy::streams || inputs.recorded() || !has_stream_structure(workload)) continue;
    throw InputError({inputs.scenario->file, 0, 0},
                     "graphs and programmatic kernels are of streams, and this run submits in another way",
                     "leave out `by` of `submit`, or add --submit streams");
  }
  const std::pair<const char*, bool> given[] = {{"--format", options.format.has_value()},
                                                {"--queues", options.queues.has_value()},
                                                {"--copies", options.copies.has_value()},
                                                {"--signals", options.signals.has_value()},
                                                {"--batch", options.batch.has_value()}};
  for (const auto& [name, present] : given) {
    if (present && !packets) {
      throw InputError(fmt::format("{} is about packets, and this run submits {}", name,
                                   by == workload::SubmitBy::tmdqs ? "into TMDQs" : "operations of streams"),
                       "add --submit aql");
    }
  }
  if (packets) {
    packets->format = options.format.value_or(packets->format);
    packets->queues = options.queues.value_or(packets->queues);
    packets->copies = options.copies.value_or(packets->copies);
    packets->signals = options.signals.value_or(packets->signals);
    packets->batch = options.batch.value_or(packets->batch);
    return packets;
  }
  if (by == workload::SubmitBy::tmdqs) return packets;  // TMDs have room for arguments
  for (const workload::Workload& workload : inputs.workloads) {
    for (const workload::Op& op : workload.ops) {
      if (op.args.empty()) continue;
      throw InputError(
          {inputs.scenario ? inputs.scenario->file : workload.name, 0, 0},
          fmt::format("an operation of kernel {} has args, and only packets and TMDs carry arguments", op.kernel.name),
          "write submit: {by: aql, operations: [...]}, or add --submit aql or --submit tmdq");
    }
  }
  return packets;
}

}  // namespace heddle::cli

#include "cli/run_options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/machines.h"
#include "common/params.h"
#include "import/recordings.h"
#include "replay/rank_collectives.h"

namespace heddle::cli {
namespace {

namespace po = boost::program_options;

constexpr std::uint32_t kMostRanks = 64;  // streams of a collective

po::options_description run_options() {
  po::options_description options = described_options();
  options.add_options()("gpu", po::value<std::vector<std::string>>()->value_name("PRESET|FILE"),
                        "the machine: a preset (heddle show presets) or a YAML file; given several times, one per GPU. "
                        "Default: what the scenario names, or the GPU that the trace was recorded on")(
      "set", po::value<std::vector<std::string>>()->value_name("K=V"),
      "set a parameter, e.g. gpu.cwd.gpc_distance=100; can be repeated (heddle show params)")(
      "let", po::value<std::vector<std::string>>()->value_name("NAME=NUMBER"),
      "set a parameter of the scenario itself (its list `parameters`); can be repeated")(
      "pace", po::value<std::string>()->value_name("recorded|host|asap"),
      "submit operations at their recorded times (default); at the host's calls, and hold none until its recorded "
      "start; "
      "or as soon as order allows")(
      "submit", po::value<std::string>()->value_name("aql|tmdq|streams"),
      "aql: by packets of user-mode queues; tmdq: into task metadata queues in device memory, one per stream; streams: "
      "as "
      "operations of streams. Default: what the scenario says, or streams")(
      "format", po::value<std::string>()->value_name("plain|reference|condensed"),
      "of the packets: a dispatch packet per kernel (default), the first launch of a kernel as a reference "
      "packet, or kernels together in condensed packets; with --submit aql")(
      "queues", po::value<std::string>()->value_name("host|device"),
      "the memory in which queues lie: the host's (default) or the device's; with --submit aql")(
      "copies", po::value<std::string>()->value_name("recorded|engines"),
      "copies hold their queue for their time (default), or the copy engines move their bytes; with --submit aql")(
      "signals", po::value<std::string>()->value_name("each|needed"),
      "every packet of kernels has fences of system scope and a completion signal (default), or only what somebody "
      "waits for; with --submit aql")("batch", po::value<std::string>()->value_name("N"),
                                      "most kernels that are condensed together; default 64; with --submit aql")(
      "fit", po::value<std::string>()->value_name("launch|signature|demand"),
      "fit CTA durations to each recorded launch (default), or one per name, grid and block; demand: kernels of which "
      "counters, operators' shapes or names tell what they compute and move demand that, and share units and "
      "bandwidths")(
      "counters", po::value<std::string>()->value_name("FILE"),
      "what Nsight Compute (ncu --csv) or rocprofv3 (--pmc) counted of the recording's kernels; with --fit demand")(
      "device", po::value<std::string>()->value_name("N"), "replay only this device of the recording")(
      "ranks", po::value<std::string>()->value_name("N"),
      "N GPUs that do what the recorded one did, and run its collectives over the links between them (links.topology)")(
      "guess", po::value<std::string>()->value_name("clusters|none"),
      "clusters: those that names of kernels tell, where a recording tells none (default)")(
      "no-baseline", "do not simulate the recorded machine beside a changed one")(
      "misfits", po::value<std::string>()->value_name("refuse|clamp"),
      "kernels of a recording that ask for more shared memory, registers or CTAs of a cluster than the chosen machine "
      "has: refuse the run (default), or give them what it has, and say so")(
      "limit", po::value<std::vector<std::string>>()->value_name("time=T|wall=T|events=N"),
      "stop there, with partial results: simulated time of each simulation (2ms), time of this computer (60s), events "
      "of "
      "each simulation; can be repeated")(
      "keep-baselines", po::value<std::string>()->value_name("DIR"),
      "keep what the recorded machine does in DIR, and take it from there if it has been simulated before: the same "
      "program, recording, machine and options")(
      "timing", po::value<std::string>()->value_name("at|fast|lt"),
      "at: links, queues and decisions take their cycles (default); fast: the same, but accesses to memory reserve "
      "their way at once, without queues; lt: only work takes time, and memory what it takes where nothing else is "
      "under way")("seed", po::value<std::string>()->value_name("N"),
                   "of everything random; default: the scenario's, or 1")(
      "trace", po::value<std::string>()->value_name("perfetto|json|vcd"),
      "write a timeline: timeline.pftrace for ui.perfetto.dev, or timeline.json.gz, the trace event format that other "
      "viewers open as well; or waves.vcd, some numbers over time for viewers of waves. perfetto,vcd writes both")(
      "trace-time", po::value<std::string>()->value_name("FROM..TO"),
      "only what lies at least partly in that part of the run (1.5ms..1.6ms; either may be left "
      "out): its details are then as fine as the whole run's cannot be")(
      "trace-units", po::value<std::vector<std::string>>()->value_name("PATTERN"),
      "only lines of the timeline whose group and name have that in them (gpc0, streams), or, with * or ?, fit it as a "
      "whole; can be repeated")(
      "trace-kernels", po::value<std::vector<std::string>>()->value_name("PATTERN"),
      "the same of kernels' names: of CTAs, clusters and launch sessions only those; can be repeated")(
      "from", po::value<std::string>()->value_name("KERNEL[#N]|TIME"),
      "region of interest: only what is submitted from that operation (the first of that name, or the N-th), or from "
      "that time on, is simulated in full; of a scenario, what stands before is carried out in the timing lt, so that "
      "memory is right")("to", po::value<std::string>()->value_name("KERNEL[#N]|TIME"),
                         "end of the region: with that operation (the last of that name, or the N-th), or before that "
                         "time")(
      "checkpoint", po::value<std::string>()->value_name("N"),
      "after every N operations the host waits until all have ended, and what has been done so far and what memory "
      "holds goes to DIR/checkpoint")("resume", po::value<std::string>()->value_name("DIR"),
                                      "go on from the checkpoint in that folder of results")(
      "dump", po::value<std::string>()->value_name("ctas"),
      "write every CTA, where and when it ran, to ctas.csv among the results; ctas.csv.gz where that is large")(
      "kernel-counters", po::value<std::string>()->value_name("on|off"),
      "count what each kernel uses of the machine, and what its warps wait for at which line: columns of kernels.csv, "
      "stalls.csv and parts of the page (default)")(
      "bits", "print the structures of the launch hardware in bits, and how often they were accessed; also bits.json")(
      "out", po::value<std::string>()->value_name("DIR"), "where results go; default heddle-out/NAME")(
      "dump-config", po::value<std::string>()->value_name("FILE"),
      "write the whole resolved configuration to FILE (it is also in the results) and stop; - for standard output")(
      "quiet", "print only errors");
  return options;
}

enum class FileKind { scenario, kineto, nsys, rocprof, other };

// Reads JSON up to the key at the top that says what it is: recordings may have any size, and so may scenarios.
class TopKeys : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool of_scenario() const { return of_scenario_; }

  bool null() override { return depth_ > 0; }
  bool boolean(bool) override { return depth_ > 0; }
  bool number_integer(number_integer_t) override { return depth_ > 0; }
  bool number_unsigned(number_unsigned_t) override { return depth_ > 0; }
  bool number_float(number_float_t, const string_t&) override { return depth_ > 0; }
  bool string(string_t&) override { return depth_ > 0; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ > 0; }
  bool start_array(std::size_t) override { return depth_++ > 0; }
  bool end_array() override { return --depth_ > 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }
  bool key(string_t& name) override {
    if (depth_ > 1) return true;
    of_scenario_ = name == "heddle";
    return !of_scenario_ && name != "traceEvents";
  }

 private:
  std::size_t depth_ = 0;
  bool of_scenario_ = false;
};

// JSON is YAML too.
bool is_scenario_in_json(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  TopKeys keys;
  nlohmann::json::sax_parse(file, &keys);
  return keys.of_scenario();
}

// Letters beyond 16 bits are two escapes in JSON, which YAML does not know.
scenario::Scenario read_scenario(const std::string& path, const std::vector<std::string>& lets) {
  if (!is_scenario_in_json(path)) return scenario::read_scenario(path, lets);
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.find("\\ud") == std::string::npos && text.find("\\uD") == std::string::npos) {
    return scenario::read_scenario(path, lets);
  }
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return scenario::read_scenario(path, lets);  // which says where it is wrong
  return scenario::parse_scenario(document.dump(1), path, lets);
}

FileKind kind_of(const std::string& path) {
  if (is_scenario_in_json(path)) return FileKind::scenario;
  if (import::looks_like_kineto(path)) return FileKind::kineto;  // throws if the file cannot be read
  if (import::looks_like_nsys(path)) return FileKind::nsys;
  if (import::looks_like_rocprof(path)) return FileKind::rocprof;
  std::ifstream file(path, std::ios::binary);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return scenario::looks_like_scenario(head) ? FileKind::scenario : FileKind::other;
}

std::vector<workload::Workload> import_recording(FileKind kind, const std::string& path) {
  if (kind == FileKind::nsys) return import::import_nsys(path);
  return kind == FileKind::rocprof ? import::import_rocprof(path) : import::import_kineto(path);
}

std::string stem(const std::string& path) {
  std::filesystem::path name = std::filesystem::path(path).filename();
  const std::initializer_list<const char*> known = {".gz", ".json", ".sqlite", ".csv", ".yaml", ".yml"};
  while (std::find(known.begin(), known.end(), name.extension()) != known.end()) name = name.stem();
  return name.string();
}

void keep_device(std::vector<workload::Workload>& workloads, int device, const std::string& path) {
  std::vector<std::string> present;
  for (const workload::Workload& w : workloads) present.push_back(std::to_string(w.device.id));
  workloads.erase(std::remove_if(workloads.begin(), workloads.end(),
                                 [device](const workload::Workload& w) { return w.device.id != device; }),
                  workloads.end());
  if (workloads.empty()) {
    throw InputError({path, 0, 0}, fmt::format("has no operations of device {}", device),
                     fmt::format("its devices: {}", fmt::join(present, ", ")));
  }
}

Inputs from_scenario(scenario::Scenario scenario) {
  Inputs inputs;
  inputs.name = stem(scenario.file);
  inputs.workloads = scenario.workloads;
  inputs.scenario = std::move(scenario);
  return inputs;
}

// "time=2ms" as the parameter that it is.
std::string setting_of(const CommandLine& line, const std::string& limit) {
  const std::size_t equals = limit.find('=');
  const std::string what = limit.substr(0, equals);
  const std::map<std::string_view, std::string_view> kLimits = {
      {"time", "run.time_limit"}, {"wall", "run.wall_limit"}, {"events", "run.event_limit"}};
  const auto found = kLimits.find(what);
  if (equals == std::string::npos || found == kLimits.end()) {
    line.bad(fmt::format("--limit {}: expected time=2ms, wall=60s or events=1000000", limit));
  }
  const std::string setting = fmt::format("{}={}", found->second, limit.substr(equals + 1));
  RunParams params;
  ParamBinder binder;
  binder.bind("run", params);
  try {
    binder.set(setting, {Origin::Kind::command_line, "--limit"});
  } catch (const InputError& error) {
    line.bad(fmt::format("--limit {}: {}", limit, error.message()), error.remedy());
  }
  return setting;
}

// A time of the run, or `otherwise` where none is given.
Picoseconds time_of(const CommandLine& line, const std::string& given, const std::string& text, Picoseconds otherwise) {
  constexpr double kPicosPerNano = 1000;
  constexpr double kMost = 1e15;  // ns
  if (text.empty()) return otherwise;
  try {
    const Limits<double> limits{Unit::ns, 0.0, kMost};
    return static_cast<Picoseconds>(parse_quantity(text, limits, BareNumber::refused) * kPicosPerNano);
  } catch (const InputError& error) {
    line.bad(fmt::format("--trace-time {}: {}", given, error.message()));
  }
}

void read_timeline_options(const CommandLine& line, RunOptions& options) {
  std::istringstream formats(line.text("trace").value_or(""));
  for (std::string format; std::getline(formats, format, ',');) {
    if (format == "vcd" && !options.waves) {
      options.waves = true;
    } else if ((format == "perfetto" || format == "json") && !options.timeline) {
      options.timeline = format == "json" ? TimelineFormat::json : TimelineFormat::perfetto;
    } else {
      line.bad(fmt::format("--trace {}: expected perfetto, json or vcd, or one of the first two with vcd",
                           *line.text("trace")),
               "as in: --trace perfetto,vcd");
    }
  }
  if (line.has("trace") && !options.timeline && !options.waves)
    line.bad("--trace: no format is named", "as in: --trace perfetto");
  if (line.has("trace-kernels") && !options.timeline) {
    line.bad("--trace-kernels chooses slices of a timeline, and there is none", "give --trace perfetto as well");
  }
  for (const char* option : {"trace-time", "trace-units"}) {
    if (line.has(option) && !options.timeline && !options.waves) {
      line.bad(
          fmt::format("--{} chooses what a timeline shows, and there is none: give --trace perfetto as well", option));
    }
  }
  options.timeline_filter.lines = line.list("trace-units");
  options.timeline_filter.kernels = line.list("trace-kernels");
  const std::optional<std::string> span = line.text("trace-time");
  if (!span) return;
  const std::size_t dots = span->find("..");
  if (dots == std::string::npos) line.bad(fmt::format("--trace-time {}: expected FROM..TO, as 1.5ms..1.6ms", *span));
  TimelineFilter& filter = options.timeline_filter;
  filter.from = time_of(line, *span, span->substr(0, dots), filter.from);
  filter.to = time_of(line, *span, span->substr(dots + 2), filter.to);
  if (filter.to < filter.from) line.bad(fmt::format("--trace-time {}: ends before it begins", *span));
}

}  // namespace

std::string run_help() {
  std::ostringstream text;
  text << "heddle run [FILE...] [options]\n\n"
          "Simulates a scenario (YAML) or recorded traces (each on a GPU of its own) and writes report.html,\n"
          "stats.json, kernels.csv, stalls.csv, host.json and config.yaml, and the memory regions that a scenario "
          "wants in "
          "files.\n\n"
       << run_options();
  return text.str();
}

RunOptions parse_run_options(const std::vector<std::string>& arguments) {
  const CommandLine line("heddle run", run_options(), arguments);
  RunOptions options;
  options.files = line.words();
  options.gpus = line.list("gpu");
  options.sets = line.list("set");
  for (const std::string& limit : line.list("limit")) options.sets.push_back(setting_of(line, limit));
  options.lets = line.list("let");
  options.timing = line.choice<std::string>("timing", {{"at", "at"}, {"fast", "fast"}, {"lt", "lt"}});
  options.out = line.text("out");
  options.counters = line.text("counters");
  options.seed = line.number<std::uint64_t>("seed", 0, std::numeric_limits<std::uint64_t>::max());
  options.device = line.number<int>("device", 0, std::numeric_limits<int>::max());
  options.submit = line.choice("submit", workload::submit_ways());
  options.format = line.choice("format", workload::packet_formats());
  options.queues = line.choice("queues", workload::queue_places());
  options.copies = line.choice("copies", workload::copy_ways());
  options.signals = line.choice("signals", workload::signal_choices());
  options.batch = line.number<std::uint32_t>("batch", 1, workload::kMaxBatch);
  options.pace = line.choice<replay::Pace>("pace", {{"recorded", replay::Pace::recorded},
                                                    {"host", replay::Pace::host},
                                                    {"asap", replay::Pace::asap}})
                     .value_or(options.pace);
  options.fit =
      line.choice<Fit>("fit", {{"launch", Fit::launch}, {"signature", Fit::signature}, {"demand", Fit::demand}})
          .value_or(options.fit);
  if (options.counters && options.fit != Fit::demand) {
    throw InputError("--counters says what kernels demand, and this run does not ask", "give --fit demand as well");
  }
  options.ranks = line.number<std::uint32_t>("ranks", 1, kMostRanks);
  options.guess_clusters = line.choice<bool>("guess", {{"clusters", true}, {"none", false}}).value_or(true);
  read_timeline_options(line, options);
  options.dump_ctas = line.choice<bool>("dump", {{"ctas", true}}).value_or(false);
  options.bits = line.has("bits");
  options.kernel_counters = line.choice<bool>("kernel-counters", {{"on", true}, {"off", false}}).value_or(true);
  options.dump_config = line.text("dump-config");
  options.baseline = !line.has("no-baseline");
  options.clamp_misfits = line.choice<bool>("misfits", {{"refuse", false}, {"clamp", true}}).value_or(false);
  for (const char* option : {"pace", "fit", "counters", "guess", "no-baseline", "misfits", "ranks", "keep-baselines"}) {
    if (line.has(option)) options.of_recordings.emplace_back(option);
  }
  options.keep_baselines = line.text("keep-baselines");
  if (options.keep_baselines && !options.baseline) {
    throw InputError("--keep-baselines keeps what --no-baseline leaves out", "give one of them");
  }
  options.from = line.text("from");
  options.to = line.text("to");
  options.checkpoint = line.number<std::uint64_t>("checkpoint", 1, std::numeric_limits<std::uint64_t>::max());
  options.resume = line.text("resume");
  if ((options.from || options.to) && (options.checkpoint || options.resume)) {
    throw InputError("a region of interest (--from, --to) has no checkpoints (--checkpoint, --resume)",
                     "give one of the two");
  }
  if ((options.from || options.to || options.resume) && options.keep_baselines) {
    throw InputError("--keep-baselines keeps whole runs of the recorded machine, and this is a part of one",
                     "leave it out");
  }
  options.quiet = line.has("quiet");
  options.help = line.help();
  options.command_line = fmt::format("heddle run {}", fmt::join(arguments, " "));
  return options;
}

Inputs load_inputs(const RunOptions& options) {
  Inputs inputs = load_inputs(options.files, options.device, options.lets, options.guess_clusters);
  if (inputs.scenario && !options.of_recordings.empty()) {
    throw InputError(
        fmt::format("--{} is for recordings, and {} is a scenario", options.of_recordings.front(), inputs.name),
        "leave it out");
  }
  if (options.ranks) {
    if (inputs.workloads.size() != 1) {
      throw InputError(fmt::format("--ranks copies what one GPU did, and {} are recorded", inputs.workloads.size()),
                       "choose one with --device N, or leave out --ranks: then each is a rank");
    }
    inputs.workloads = replay::copies_of_rank(inputs.workloads.front(), *options.ranks);
  }
  return inputs;
}

Inputs load_inputs(const std::vector<std::string>& files, std::optional<int> device,
                   const std::vector<std::string>& lets, bool guess_clusters) {
  if (files.empty() && device)
    throw InputError("--device chooses a device of a recording, and there is none", "name the trace");
  if (files.empty()) return from_scenario(scenario::parse_scenario(default_scenario(), "first_light.yaml", lets));
  Inputs inputs;
  inputs.name = stem(files.front());
  std::size_t recording = 0;
  for (const std::string& path : files) {
    const FileKind kind = kind_of(path);
    if (kind == FileKind::other) {
      std::error_code error;
      if (std::filesystem::file_size(path, error) == 0) {
        throw InputError({path, 0, 0}, "byte 0: the file is empty", "copy or record it again");
      }
      throw InputError({path, 0, 0}, "is neither a scenario nor a recorded trace",
                       "a scenario is YAML with the key 'heddle: 1' (docs/scenario.md); a trace is Kineto JSON, "
                       "as PyTorch's profiler exports it, SQLite, as Nsight Systems exports it, or a kernel trace of "
                       "rocprofv3 in CSV, plain or gzip");
    }
    if (kind == FileKind::scenario) {
      if (files.size() > 1) {
        throw InputError({path, 0, 0}, "is a scenario, and a scenario runs alone",
                         "several files are possible for recorded traces only, each on a GPU of its own");
      }
      if (device)
        throw InputError({path, 0, 0}, "--device chooses a device of a recording; a scenario has none",
                         "leave it out; `gpu` of a stream says where it runs");
      return from_scenario(read_scenario(path, lets));
    }
    if (!lets.empty())
      throw InputError({path, 0, 0}, "--let sets a parameter of a scenario; a recording has none",
                       "--set sets one of the machine; or import the recording as a scenario");
    std::vector<workload::Workload> workloads = import_recording(kind, path);
    for (workload::Workload& one : workloads) one.recording = recording;
    ++recording;
    if (device) keep_device(workloads, *device, path);
    std::for_each(workloads.begin(), workloads.end(), import::note_communication);
    if (guess_clusters) std::for_each(workloads.begin(), workloads.end(), import::guess_clusters);
    std::move(workloads.begin(), workloads.end(), std::back_inserter(inputs.workloads));
  }
  return inputs;
}

}  // namespace heddle::cli

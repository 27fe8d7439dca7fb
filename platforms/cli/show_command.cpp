#include <algorithm>
#include <cctype>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/bits_table.h"
#include "cli/command.h"
#include "cli/demand_report.h"
#include "cli/machines.h"
#include "cli/run_outcome.h"
#include "common/error.h"
#include "host/register_table.h"
#include "memory/owner_accounts.h"
#include "program/step_table.h"
#include "replay/comparison.h"
#include "replay/simulation.h"
#include "scenario/scenario_schema.h"

namespace heddle::cli {

namespace po = boost::program_options;

namespace {

constexpr const char* kShowUsage =
    R"(heddle show params [WORD...]  every parameter: value, unit, range, description, source; those whose path begins with
                              the word, or that have all words in path, description or source
heddle show presets           machines that come with the program
heddle show tree              GPCs, CPCs, TPCs and SMs of a machine
heddle show bits              tables, registers, queues and packets of the launch hardware in bits; --json
heddle show registers         what a host sees of a machine, offset by offset
heddle show statistics        every statistic that a run can have: path, kind, unit, description
heddle show steps             the steps of programs, with their keys
heddle show scenario-schema   the JSON schema of scenarios, as editors use it: docs/scenario.schema.json

)";

po::options_description show_options() {
  po::options_description options = described_options();
  options.add_options()("gpu", po::value<std::string>()->value_name("PRESET|FILE"), "the machine; default h100-sxm")(
      "set", po::value<std::vector<std::string>>()->value_name("K=V"), "set a parameter; can be repeated")(
      "assumptions", "of parameters: only those whose value is an assumption, or unknown of the device")(
      "against", po::value<std::string>()->value_name("PRESET|FILE"),
      "of parameters: only those with another value there, side by side")(
      "format", po::value<std::string>()->value_name("text|table|json|markdown|c"),
      "text: for people (default); table: parameters, a line each; json: parameters and presets, for programs; "
      "markdown: registers, statistics and steps, for docs/; c: registers, as the header for drivers")(
      "json", "of bits: print JSON");
  return options;
}

// Its value is not public of the device: it is the default, which belongs to another one.
bool is_unknown(const ParamEntry& entry, const std::vector<std::string>& unknown) {
  return entry.origin.kind == Origin::Kind::defaults &&
         std::any_of(unknown.begin(), unknown.end(),
                     [&](const std::string& path) { return entry.path.compare(0, path.size(), path) == 0; });
}

// What there is to say of where a value comes from.
std::string source_text(const ParamEntry& entry, const std::vector<std::string>& unknown) {
  const std::string source = entry.value_source.empty() ? "" : "; source: " + entry.value_source;
  return is_unknown(entry, unknown) ? source + "; unknown of this device" : source;
}

// Which parameters `heddle show params` tells, and how.
struct ParamQuery {
  std::vector<std::string> words;
  bool assumptions = false;        // only those whose value no source is cited for
  std::optional<Machine> against;  // only those that have another value there
  bool table = false;
  bool json = false;
};

// Of one word: those whose paths begin with it; if there are none, and of several words: those that have all of them in
// path, description or source.
std::vector<ParamEntry> found(const std::vector<ParamEntry>& entries, const std::vector<std::string>& words) {
  std::vector<ParamEntry> matching;
  const auto keep = [&](auto&& wanted) {
    std::copy_if(entries.begin(), entries.end(), std::back_inserter(matching), wanted);
  };
  if (words.size() <= 1) {
    const std::string prefix = words.empty() ? "" : words.front();
    keep([&prefix](const ParamEntry& e) { return e.path.compare(0, prefix.size(), prefix) == 0; });
  }
  if (!matching.empty()) return matching;
  keep([&words](const ParamEntry& e) {
    const std::string text = lower_case(e.path + " " + e.description + " " + e.value_source);
    return std::all_of(words.begin(), words.end(),
                       [&text](const std::string& word) { return text.find(lower_case(word)) != std::string::npos; });
  });
  return matching;
}

std::string value_of(const ParamEntry& e) {
  const std::string unit(unit_text(e.unit));
  return e.value_text + (unit.empty() ? "" : " " + unit);
}

std::string as_params_table(const std::vector<ParamEntry>& entries, const std::map<std::string, std::string>& there,
                            const std::vector<std::string>& unknown) {
  std::size_t paths = 0;
  std::size_t values = 0;
  for (const ParamEntry& e : entries) {
    paths = std::max(paths, e.path.size());
    values = std::max(values, value_of(e).size());
  }
  constexpr std::size_t kMostValue = 40;
  values = std::min(values, kMostValue);
  std::string text;
  for (const ParamEntry& e : entries) {
    const auto other = there.find(e.path);
    const std::string against = other == there.end() ? "" : fmt::format("{:<{}}  ", other->second, values);
    text += fmt::format("{:<{}}  {:<{}}  {}{}\n", e.path, paths, value_of(e), values, against,
                        (e.value_source.empty() ? e.origin.text : e.value_source) +
                            (is_unknown(e, unknown) ? " (unknown of this device)" : ""));
  }
  return text;
}

nlohmann::ordered_json as_params_json(const std::vector<ParamEntry>& entries,
                                      const std::map<std::string, std::string>& there,
                                      const std::vector<std::string>& unknown) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ParamEntry& e : entries) {
    nlohmann::ordered_json one = {{"path", e.path},
                                  {"value", e.value_text},
                                  {"unit", std::string(unit_text(e.unit))},
                                  {"type", e.type},
                                  {"range", e.range},
                                  {"default", e.default_text},
                                  {"description", e.description},
                                  {"origin", e.origin.text},
                                  {"source", e.value_source},
                                  {"unknown", is_unknown(e, unknown)}};
    if (const auto other = there.find(e.path); other != there.end()) one["against"] = other->second;
    list.push_back(std::move(one));
  }
  return list;
}

void show_params(const Machines& machines, const ParamQuery& query) {
  const std::string& preset = machines.gpus.front().preset;
  const std::vector<std::string> names = gpu::preset_names();
  const bool known = std::find(names.begin(), names.end(), preset) != names.end();
  const std::vector<std::string> unknown = known ? gpu::preset_unknown(preset) : std::vector<std::string>{};
  std::vector<ParamEntry> entries = machines.gpus.front().entries;
  entries.insert(entries.end(), machines.run_entries.begin(), machines.run_entries.end());
  std::vector<ParamEntry> shown = found(entries, query.words);
  if (shown.empty()) {
    std::vector<std::string> paths;
    for (const ParamEntry& e : entries) paths.push_back(e.path);
    const std::string near = nearest(query.words.front(), paths);
    throw InputError(
        fmt::format("no parameter has '{}' in its path, description or source", fmt::join(query.words, " ")),
        near.empty() ? "heddle show params lists them all" : fmt::format("did you mean {}?", near));
  }
  const auto leave_out = [&shown](auto&& unwanted) {
    shown.erase(std::remove_if(shown.begin(), shown.end(), unwanted), shown.end());
  };
  if (query.assumptions) {
    leave_out([&unknown](const ParamEntry& e) {
      return e.value_source.find("assumption") == std::string::npos && !is_unknown(e, unknown);
    });
  }
  std::map<std::string, std::string> there;
  if (query.against) {
    for (const ParamEntry& e : query.against->entries) there.emplace(e.path, value_of(e));
    leave_out([&there](const ParamEntry& e) {
      const auto other = there.find(e.path);
      return other == there.end() || other->second == value_of(e);
    });
  }
  if (query.json) {
    std::cout << as_params_json(shown, there, unknown).dump(1) << '\n';
    return;
  }
  if (query.table || query.against) {
    if (query.against) {
      std::cout << (shown.empty()
                        ? fmt::format("no parameter differs between {} and {}\n", preset, query.against->preset)
                        : fmt::format("of {}, of {}, source of the former\n\n", preset, query.against->preset));
    }
    std::cout << as_params_table(shown, there, unknown);
    return;
  }
  for (const ParamEntry& e : shown) {
    std::cout << fmt::format("{} = {}\n    {}\n    {}; range {}; default {}\n    set by {}{}\n", e.path, value_of(e),
                             e.description, e.type, e.range, e.default_text, e.origin.text, source_text(e, unknown));
  }
}

void show_presets(const std::string& format) {
  if (format != "text" && format != "json") {
    throw InputError(fmt::format("presets are not shown as '{}'", format), "--format text or json");
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::string& name : gpu::preset_names()) {
    if (format == "json") {
      list.push_back({{"name", name},
                      {"description", gpu::preset_description(name)},
                      {"checked_against", gpu::preset_checked(name)}});
    } else {
      std::cout << fmt::format("{:<10} {}\n{:11}checked against {}\n", name, gpu::preset_description(name), "",
                               gpu::preset_checked(name));
    }
  }
  if (format == "json") std::cout << list.dump(1) << '\n';
}

void show_tree(const Machine& machine) {
  const arch::Topology topology = gpu::topology_of(machine.params);
  std::cout << fmt::format("{}: {} SMs in {} GPCs, {} GHz\n", machine.preset, topology.sms(), topology.gpcs(),
                           machine.params.machine.clock);
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    const arch::Topology::Gpc& gpc = topology.gpc(g);
    const std::string ugpu =
        topology.ugpus() == 1 ? "" : fmt::format(", uGPU {} with its L2 partition", topology.ugpu_of(g));
    std::cout << fmt::format("gpc{} ({} SMs, virtual GPC {}{})\n", g, gpc.sms, topology.virtual_gpc(g), ugpu);
    for (std::uint32_t c = 0; c < gpc.cpcs; ++c) {
      std::cout << fmt::format("  cpc{}\n", c);
      for (std::size_t t = 0; t < gpc.tpcs.size(); ++t) {
        if (gpc.tpcs[t].cpc != c) continue;
        std::cout << fmt::format("    tpc{}: SM", t);
        for (std::uint32_t i = 0; i < gpc.tpcs[t].sms; ++i) std::cout << ' ' << gpc.sm_ids[gpc.tpcs[t].first_sm + i];
        std::cout << '\n';
      }
    }
  }
}

void show_registers(const std::string& format) {
  if (format == "text") {
    std::cout << host::registers_as_text();
  } else if (format == "markdown") {
    std::cout << host::registers_as_markdown();
  } else if (format == "c") {
    std::cout << host::registers_as_c();
  } else {
    throw InputError(fmt::format("registers are not shown as '{}'", format), "--format text, markdown or c");
  }
}

void show_statistics(const std::string& format) {
  if (format != "text" && format != "markdown") {
    throw InputError(fmt::format("statistics are not shown as '{}'", format), "--format text or markdown");
  }
  std::cout << statistics_list(format == "markdown");
}

void show_steps(const std::string& format) {
  if (format != "text" && format != "markdown") {
    throw InputError(fmt::format("steps are not shown as '{}'", format), "--format text or markdown");
  }
  std::cout << (format == "markdown" ? program::steps_as_markdown() : program::steps_as_text());
}

using Description = Stats::Description;

constexpr const char* kInstance = "gpu0";

// One part of the page: statistics whose path begins with the prefix, and no longer prefix of another part.
struct Section {
  const char* prefix;
  const char* title;
  const char* notes;  // what the descriptions do not say; may be empty
};

constexpr Section kSections[] = {
    {"sim", "The run", ""},
    {"gpu0", "A GPU as a whole", ""},
    {"gpu0.host", "Host interface", ""},
    {"gpu0.hub", "Memory hub", ""},
    {"gpu0.copy", "Copy engines", "A copy engine's bandwidth includes its set-up, and is taken after each request."},
    {"gpu0.links", "Links",
     "Of a GPU that is connected to others ([links.md](links.md)); `links.switch` of what connects them."},
    {"links", "Switch", "Of a run whose GPUs a switch connects."},
    {"gpu0.packet", "Packet processor",
     "The parts of a launch follow each other: fetch, turn, decode, dispatch, launch, execution, clean_up; each begins "
     "where the one before it ends."},
    {"gpu0.packets", "Launches by packets",
     "Of a run that submits by packets ([scenario.md](scenario.md)). `own` leaves out the time in which an earlier "
     "kernel of the same queue was still on its way: in a queue that always has work these parts lie behind each other "
     "and add up. `gpus[i].packets` in `stats.json` has the same by kernel name, and `packets.csv` every launch."},
    {"gpu0.task", "Task management",
     "What tasks, nested launches and evictions are: [tasks.md](tasks.md). A launch by device code takes "
     "`child_launch`, "
     "`child_read`, `child_list` and `child_dispatch`, one after the other; together they are `child_latency`."},
    {"gpu0.bulk", "Requests to tensor memory access units",
     "Of all units of the GPU, by kind of request. `cycles` leaves out requests that broke a rule or met an error. "
     "`gpus[i].bulk` in `stats.json` has the same by tensor."},
    {"gpu0.cwd", "Compute work distributor",
     "Of subcontexts, those that are in use appear. Sharing of the machine: [tasks.md](tasks.md)."},
    {"gpu0.gpc<g>.gpm", "GPC managers", ""},
    {"gpu0.gpc<g>.cpc<c>.tpc<t>.mpc<m>", "M-Pipe controllers", "One for each SM, or one for each TPC: `gpu.gpc.mpc`."},
    {"gpu0.gpc<g>.network", "SM-to-SM networks",
     "Bytes and delays are of the packets that `requests` and `replies` count."},
    {"gpu0.gpc<g>.cpc<c>.tpc<t>.sm<s>", "SMs",
     "Loads that bypass the L1 (relaxed or stronger, beyond scope `cta`) are in neither `l1.hits` nor `l1.misses`. "
     "Instructions of unit `none` took an issue slot only. `shared.conflicts` are a part of `shared.wavefronts`, and "
     "`nested.retries` of `nested.steps`. In `lt` a warp that waits for a load counts under `stall.scoreboard`, since "
     "the "
     "time of its value is known at once."},
    {"gpu0.gpc<g>.tmau<u>", "Tensor memory access units",
     "Unit `<u>` of a GPC serves SM `<u>` of its masks, or `gpu.tmau.sms` of them. `multicast.received` leaves "
     "out fills: memory has not given them. `descriptor.ahead` are some of `descriptor.hits` and `descriptor.misses`; "
     "`stage.queue` are the cycles in which some request waited in the unit's queues; `wait.crossbar` and "
     "`wait.outstanding` are parts of `stage.generator`."},
    {"gpu0.gpc<g>.mmu", "TLBs of GPCs", "Present if `gpu.mmu.enabled`."},
    {"gpu0.mmu", "MMU", "Present if `gpu.mmu.enabled`."},
    {"gpu0.power", "Power",
     "Present if `gpu.power.accounting` or a governor is on. Estimates: [power.md](power.md) says from what."},
    {"gpu0.check", "Races",
     "Present if `gpu.check.races`. [packets.md](packets.md#fences-that-are-missing) says what counts."},
    {"gpu0.memory", "Requests and bytes by owner",
     "Of subcontexts, those that have sent a request appear. What the machine does by itself, and a host that names "
     "none, counts for subcontext 0. Each byte has one owner, and over all subcontexts the sums are those of the "
     "blocks: "
     "requests and hits of the slices, bytes that pass the GPCs' links, bytes that the HBM reads and writes. In `lt`, "
     "where the crossbar counts nothing for itself, these are counted all the same."},
    {"gpu0.xbar", "Crossbar", "In `lt` there are no queues, and these stay empty."},
    {"gpu0.l2", "L2", ""},
    {"gpu0.hbm", "HBM",
     "All of a GPU's channels together. Absent where another memory is attached. In `lt`, where there are no queues, "
     "only requests, bytes and errors are counted."},
    {"replay", "Replays",
     "With several recorded GPUs, `replay.*` is about all of them together, and `gpu0.replay.*`, `gpu1.replay.*`, … "
     "about each. In a what-if (another machine or pace), `replay.*` compares the run as it was asked for with the "
     "recording, and `replay.recorded_machine.*` the recorded machine: see [replay.md](replay.md#what-if)."},
};

// Statistics that a block makes when there is something to count for the first time: a machine that is only built has
// none of them.
std::vector<Description> made_in_use() {
  using Kind = Stats::Kind;
  return {
      {"gpu0.cwd.subcontext<n>.credits", "TPCs", "TPC credits that the subcontext has left", Kind::gauge},
      {"gpu0.cwd.subcontext<n>.ctas_completed", "CTAs", "CTAs of the subcontext that completed", Kind::counter},
      {"gpu0.cwd.subcontext<n>.ctas_launched", "CTAs", "CTAs of the subcontext that were placed", Kind::counter},
      {"gpu0.cwd.subcontext<n>.tpc_cycles", "TPC cycles", "TPCs that the subcontext held, over time", Kind::counter},
      {"gpu0.cwd.subcontext<n>.tpcs_held", "TPCs", "TPCs that the subcontext holds", Kind::gauge},
      {"gpu0.cwd.subcontext<n>.sm_cycles", "SM cycles",
       "what the subcontext's CTAs took of SMs, over time: a CTA takes one of the places that an empty SM has for it",
       Kind::gauge},
      {"gpu0.cwd.subcontext<n>.busy_cycles", "cycles", "time in which CTAs of the subcontext ran or were left to place",
       Kind::counter},
      {"gpu0.cwd.subcontext<n>.ctas_per_us", "CTAs per us", "CTAs completed, over busy_cycles", Kind::gauge},
      {"gpu0.cwd.subcontext<n>.tasks_waiting", "tasks", "tasks of the subcontext with CTAs left to place", Kind::gauge},
      {"gpu0.cwd.subcontext<n>.contested_cycles", "cycles", "of busy_cycles, those in which another one was busy",
       Kind::counter},
      {"gpu0.cwd.subcontext<n>.progress", "1",
       "over contested_cycles: what it took of SMs, of what it is entitled to; 1 where it wanted no more", Kind::gauge},
      {"gpu0.cwd.subcontext_fairness", "1",
       "Jain's index over the progress of the subcontexts with contested_cycles: 1 if all got as much of what they are "
       "entitled to",
       Kind::gauge},
      {"gpu0.subcontext<n>.latency", "ns", "from the submission of a kernel of the subcontext to its end",
       Kind::histogram},
      {"gpu0.subcontext<n>.open", "kernels", "kernels of the subcontext that had not ended with the run",
       Kind::counter},
      {"links.switch.requests", "requests", "requests that came to the switch", Kind::counter},
      {"links.switch.multicasts", "requests", "writes to groups", Kind::counter},
      {"links.switch.reductions", "requests", "reads of groups, whose answers were combined", Kind::counter},
      {"links.switch.bytes", "bytes", "bytes that left towards GPUs, headers included", Kind::gauge},
      {"gpu0.gpc<g>.mmu.faults_of_<n>", "requests", "requests of subcontext <n> that were refused", Kind::counter},
  };
}

// A path with placeholders in place of the numbers of instances: "gpc2.cpc0" is "gpc<g>.cpc<c>".
std::string general(const std::string& path) {
  static const std::regex kInstances("(^|\\.)(gpc|cpc|tpc|mpc|sm|tmau|slice|engine|subcontext)([0-9]+)(?=\\.|$)");
  static const std::map<std::string, std::string> kPlaceholders = {
      {"gpc", "<g>"},  {"cpc", "<c>"},   {"tpc", "<t>"},    {"mpc", "<m>"},       {"sm", "<s>"},
      {"tmau", "<u>"}, {"slice", "<s>"}, {"engine", "<e>"}, {"subcontext", "<n>"}};
  std::string result;
  std::size_t at = 0;
  for (auto match = std::sregex_iterator(path.begin(), path.end(), kInstances); match != std::sregex_iterator();
       ++match) {
    result += path.substr(at, static_cast<std::size_t>(match->position()) - at) + (*match)[1].str() +
              (*match)[2].str() + kPlaceholders.at((*match)[2].str());
    at = static_cast<std::size_t>(match->position() + match->length());
  }
  result += path.substr(at);
  result = std::regex_replace(result, std::regex("gpc2sm[0-9]+"), "gpc2sm<g>");
  result = std::regex_replace(result, std::regex("crossing[0-9]+to[0-9]+"), "crossing<p>to<q>");
  return std::regex_replace(result, std::regex("faults_of_[0-9]+"), "faults_of_<n>");
}

// The numbers of instances in a description are placeholders as well.
std::string general_text(const Description& statistic) {
  if (statistic.path.find(".xbar.") == std::string::npos) return statistic.text;
  const std::string text =
      std::regex_replace(statistic.text, std::regex("partition [0-9]+ to [0-9]+"), "partition <p> to <q>");
  return std::regex_replace(text, std::regex("GPC [0-9]+"), "GPC <g>");
}

const char* kind_name(Stats::Kind kind) {
  switch (kind) {
    case Stats::Kind::counter:
      return "counter";
    case Stats::Kind::gauge:
      return "gauge";
    case Stats::Kind::histogram:
      return "histogram";
  }
  return "";
}

const Section& section_of(const std::string& path) {
  const Section* best = nullptr;
  std::size_t length = 0;
  for (const Section& section : kSections) {
    const std::string prefix = std::string(section.prefix) + ".";
    if (path.compare(0, prefix.size(), prefix) != 0 || prefix.size() <= length) continue;
    best = &section;
    length = prefix.size();
  }
  HEDDLE_CHECK(best != nullptr, "no section of the list of statistics has room for " + path);
  return *best;
}

// Every statistic that a run can have, by general path, from a machine with all optional parts.
struct AllStatistics {
  std::map<std::string, Description> all;
  std::set<std::string> built;  // those that a machine with all parts has before it runs
};
AllStatistics all_statistics(const std::string& gpu) {
  Machine machine = resolve_machine(gpu, {"gpu.mmu.enabled=true", "gpu.power.accounting=true", "gpu.check.races=true",
                                          "gpu.links.enabled=true"})
                        .gpus.front();
  replay::JobResult job;
  job.by_packets = true;
  job.observation = replay::observe_built(kInstance, machine.params);
  AllStatistics made;
  for (const Description& statistic : job.observation->stats.descriptions()) made.built.insert(general(statistic.path));
  publish_job(kInstance, job, job.observation->stats);
  Stats run;
  publish_run({}, run);
  replay::publish({}, "replay", run);
  publish_demands({}, "replay", run);
  std::map<std::string, Description>& result = made.all;
  const auto add = [&result](const std::vector<Description>& statistics) {
    for (const Description& statistic : statistics) {
      const std::string path = general(statistic.path);
      result.emplace(path, Description{path, statistic.unit, general_text(statistic), statistic.kind});
    }
  };
  add(job.observation->stats.descriptions());
  add(run.descriptions());
  add(made_in_use());
  Observation someone(kInstance);
  memory::OwnerAccounts(someone).of(0);
  add(someone.stats.descriptions());
  // What tasks wait for is told of each subcontext as well.
  std::vector<Description> of_subcontexts;
  const std::string wait = "gpu0.cwd.wait.";
  for (const auto& [path, statistic] : result) {
    if (path.compare(0, wait.size(), wait) != 0) continue;
    of_subcontexts.push_back(statistic);
    of_subcontexts.back().text =
        std::regex_replace(statistic.text, std::regex("tasks with"), "tasks of the subcontext with");
    of_subcontexts.back().path = "gpu0.cwd.subcontext<n>.wait." + path.substr(wait.size());
  }
  add(of_subcontexts);
  return made;
}

// The paths below which the values of a statistic appear in stats.json.
std::vector<std::string> value_paths(const Description& statistic) {
  switch (statistic.kind) {
    case Stats::Kind::counter:
      return {statistic.path};
    case Stats::Kind::gauge:
      return {statistic.path, statistic.path + ".max"};
    case Stats::Kind::histogram:
      break;
  }
  std::vector<std::string> paths;
  for (const char* value : {".count", ".mean", ".min", ".max", ".p50", ".p95", ".p99"}) {
    paths.push_back(statistic.path + value);
  }
  return paths;
}

std::string as_text(const std::vector<const Description*>& statistics) {
  std::string text;
  for (const Description* s : statistics) {
    text += fmt::format("{} ({}, {})\n    {}\n", s->path, kind_name(s->kind), s->unit, s->text);
  }
  return text;
}

std::string as_table(const std::vector<const Description*>& statistics) {
  std::string text = "| statistic | kind | unit | what |\n| --- | --- | --- | --- |\n";
  for (const Description* s : statistics) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", s->path, kind_name(s->kind), s->unit, s->text);
  }
  return text;
}

}  // namespace

int show_command(const std::vector<std::string>& arguments) {
  const CommandLine line("heddle show", show_options(), arguments);
  const std::vector<std::string>& what = line.words();
  if (line.help() || what.empty()) {
    std::ostringstream text;
    text << kShowUsage << show_options();
    std::cout << text.str();
    return line.help() ? kSuccess : kBadInput;
  }
  for (const char* option : {"assumptions", "against"}) {
    if (line.has(option) && what[0] != "params") line.bad(fmt::format("--{} is for params", option));
  }
  const std::optional<std::string> format = line.text("format");
  if (what[0] == "presets") {
    show_presets(format.value_or("text"));
    return kSuccess;
  }
  if (what[0] == "registers") {
    show_registers(format.value_or("text"));
    return kSuccess;
  }
  if (what[0] == "statistics") {
    show_statistics(format.value_or("text"));
    return kSuccess;
  }
  if (what[0] == "steps") {
    show_steps(format.value_or("text"));
    return kSuccess;
  }
  if (line.has("json") && what[0] != "bits") throw InputError("--json is for bits only", "heddle show bits --json");
  const bool of_params = what[0] == "params";
  if (format && *format != "text" && !(of_params && (*format == "table" || *format == "json"))) {
    throw InputError(fmt::format("heddle show {} has no format {}", what[0], *format),
                     "params has text, table and json, presets text and json, registers, statistics and steps text and "
                     "markdown");
  }
  if (what[0] != "params" && what[0] != "tree" && what[0] != "bits" && what[0] != "scenario-schema") {
    const std::string near =
        nearest(what[0], {"params", "presets", "tree", "bits", "registers", "statistics", "steps", "scenario-schema"});
    throw InputError(fmt::format("heddle show has no '{}'", what[0]),
                     near.empty() ? "params, presets, tree, bits, registers, statistics, steps or scenario-schema"
                                  : fmt::format("did you mean 'heddle show {}'?", near));
  }
  const Machines machines = resolve_machine(line.text("gpu").value_or(""), line.list("set"));
  if (what[0] == "tree") {
    show_tree(machines.gpus.front());
  } else if (what[0] == "bits") {
    const gpu::GpuParams& params = machines.gpus.front().params;
    std::cout << (line.has("json") ? bits_json(params, nullptr).dump(1) + "\n" : bits_text(params, nullptr));
  } else if (what[0] == "scenario-schema") {
    std::cout << scenario::scenario_json_schema(gpu::preset_names(), machines.gpus.front().entries,
                                                machines.run_entries);
  } else {
    ParamQuery query;
    query.words.assign(what.begin() + 1, what.end());
    query.assumptions = line.has("assumptions");
    query.table = format == "table";
    query.json = format == "json";
    if (const auto against = line.text("against")) query.against = resolve_machine(*against, {}).gpus.front();
    show_params(machines, query);
  }
  return kSuccess;
}

namespace {

// Names that a scenario's expectations and figures give statistics, with their places.
std::vector<std::pair<std::string, SourcePos>> named_statistics(const scenario::Scenario& scenario) {
  std::vector<std::pair<std::string, SourcePos>> names;
  for (const scenario::Expectation& expectation : scenario.expectations) {
    if (expectation.kind == scenario::ExpectationKind::statistic)
      names.emplace_back(expectation.stat, expectation.where);
  }
  for (const scenario::Figure& figure : scenario.figures) {
    for (const scenario::FigureInput& input : figure.inputs) {
      if (!input.stat.empty()) names.emplace_back(input.stat, input.where);
    }
  }
  return names;
}

}  // namespace

void check_statistics(const Inputs& inputs, const std::vector<const Stats*>& built) {
  if (!inputs.scenario) return;
  const std::vector<std::pair<std::string, SourcePos>> names = named_statistics(*inputs.scenario);
  if (names.empty()) return;
  std::unordered_set<std::string> known;
  for (const Stats* stats : built) {
    for (const Description& statistic : stats->descriptions()) {
      for (std::string& path : value_paths(statistic)) known.insert(std::move(path));
    }
  }
  std::set<std::string> later;  // by general path: some come to be as the machine runs, or with the results
  for (const auto& [path, where] : names) {
    if (known.count(path) != 0) continue;
    if (later.empty()) {
      const AllStatistics statistics = all_statistics("small");  // the paths are the same, and there are few
      for (const auto& [general_path, statistic] : statistics.all) {
        if (statistics.built.count(general_path) != 0) continue;
        for (std::string& value : value_paths(statistic)) later.insert(std::move(value));
      }
    }
    const std::string as_of_first = std::regex_replace(general(path), std::regex("^gpu[0-9]+\\."), "gpu0.");
    if (later.count(as_of_first) != 0) continue;
    std::vector<std::string> candidates(known.begin(), known.end());
    candidates.insert(candidates.end(), later.begin(), later.end());
    std::sort(candidates.begin(), candidates.end());
    const std::string near = nearest(path, candidates);
    throw InputError(where, fmt::format("this run has no statistic '{}'", path),
                     near.empty() ? "heddle show statistics lists them" : "did you mean " + near + "?");
  }
}

// heddle show statistics: every statistic that a run can have, from the registry of a machine with all optional parts.

std::string statistics_list(bool markdown) {
  std::map<const Section*, std::vector<const Description*>> by_section;
  const std::map<std::string, Description> statistics = all_statistics("").all;
  for (const auto& [path, statistic] : statistics) by_section[&section_of(path)].push_back(&statistic);
  std::string text;
  for (const Section& section : kSections) {
    const std::vector<const Description*>& members = by_section[&section];
    HEDDLE_CHECK(!members.empty(), fmt::format("no statistic begins with {}", section.prefix));
    if (!markdown) {
      text += as_text(members);
      continue;
    }
    text += fmt::format("\n### {}\n\n{}{}", section.title, section.notes, *section.notes == '\0' ? "" : "\n\n");
    text += as_table(members);
  }
  return text;
}

}  // namespace heddle::cli

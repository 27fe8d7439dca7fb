#include <iostream>
#include <optional>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/machines.h"
#include "common/suggest.h"
#include "host/register_table.h"
#include "program/step_table.h"
#include "scenario/scenario_schema.h"

namespace heddle::cli {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage = R"(heddle show params [PREFIX]   every parameter: value, unit, range, description, source
heddle show presets           machines that come with the program
heddle show tree              GPCs, CPCs, TPCs and SMs of a machine
heddle show registers         what a host sees of a machine, offset by offset
heddle show statistics        every statistic that a run can have: path, kind, unit, description
heddle show steps             the steps of programs, with their keys
heddle show scenario-schema   the JSON schema of scenarios, as editors use it: docs/scenario.schema.json

  --gpu PRESET|FILE   the machine; default h100-sxm
  --set K=V           set a parameter; can be repeated
  --format text|markdown|c   of registers, statistics and steps: for people, for docs/registers.md, docs/statistics.md
                             and docs/scenario.md, or (registers) as the header for drivers
)";

void show_params(const Machines& machines, const std::string& prefix) {
  std::vector<ParamEntry> entries = machines.gpus.front().entries;
  entries.insert(entries.end(), machines.run_entries.begin(), machines.run_entries.end());
  bool any = false;
  for (const ParamEntry& e : entries) {
    if (e.path.compare(0, prefix.size(), prefix) != 0) continue;
    any = true;
    const std::string unit(unit_text(e.unit));
    std::cout << fmt::format("{} = {}{}\n    {}\n    {}; range {}; default {}\n    set by {}{}\n", e.path, e.value_text,
                             unit.empty() ? "" : " " + unit, e.description, e.type, e.range, e.default_text,
                             e.origin.text, e.value_source.empty() ? "" : "; source: " + e.value_source);
  }
  if (any) return;
  std::vector<std::string> paths;
  for (const ParamEntry& e : entries) paths.push_back(e.path);
  const std::string near = nearest(prefix, paths);
  throw InputError(fmt::format("no parameter begins with '{}'", prefix),
                   near.empty() ? "heddle show params lists them all" : fmt::format("did you mean {}?", near));
}

void show_presets() {
  for (const std::string& name : gpu::preset_names()) {
    std::cout << fmt::format("{:<10} {}\n", name, gpu::preset_description(name));
  }
}

void show_tree(const Machine& machine) {
  const arch::Topology topology(machine.params.machine.shape);
  std::cout << fmt::format("{}: {} SMs in {} GPCs, {} GHz\n", machine.preset, topology.sms(), topology.gpcs(),
                           machine.params.machine.clock);
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    const arch::Topology::Gpc& gpc = topology.gpc(g);
    std::cout << fmt::format("gpc{} ({} SMs, virtual GPC {})\n", g, gpc.sms, topology.virtual_gpc(g));
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

}  // namespace

int show_command(const std::vector<std::string>& arguments) {
  po::options_description options = described_options();
  options.add_options()("gpu", po::value<std::string>())("set", po::value<std::vector<std::string>>())(
      "format", po::value<std::string>());
  const CommandLine line("heddle show", options, arguments);
  const std::vector<std::string>& what = line.words();
  if (line.help() || what.empty()) {
    std::cout << kUsage;
    return line.help() ? kSuccess : kBadInput;
  }
  if (what[0] == "presets") {
    show_presets();
    return kSuccess;
  }
  const std::optional<std::string> format = line.text("format");
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
  if (format)
    throw InputError("--format is for registers and statistics only", "heddle show registers --format " + *format);
  if (what[0] != "params" && what[0] != "tree" && what[0] != "scenario-schema") {
    const std::string near =
        nearest(what[0], {"params", "presets", "tree", "registers", "statistics", "steps", "scenario-schema"});
    throw InputError(fmt::format("heddle show has no '{}'", what[0]),
                     near.empty() ? "params, presets, tree, registers, statistics, steps or scenario-schema"
                                  : fmt::format("did you mean 'heddle show {}'?", near));
  }
  const Machines machines = resolve_machine(line.text("gpu").value_or(""), line.list("set"));
  if (what[0] == "tree") {
    show_tree(machines.gpus.front());
  } else if (what[0] == "scenario-schema") {
    std::cout << scenario::scenario_json_schema(gpu::preset_names(), machines.gpus.front().entries,
                                                machines.run_entries);
  } else {
    show_params(machines, what.size() > 1 ? what[1] : "");
  }
  return kSuccess;
}

}  // namespace heddle::cli

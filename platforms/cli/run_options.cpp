#include "cli/run_options.h"

#include <sstream>

#include <boost/program_options.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/suggest.h"

namespace heddle::cli {
namespace {

namespace po = boost::program_options;

po::options_description visible_options() {
  po::options_description options("options", 100);
  options.add_options()("gpu", po::value<std::vector<std::string>>()->value_name("PRESET|FILE"),
                        "the machine: a preset (heddle show presets) or a YAML file; given several times, one per GPU. "
                        "Default: what the scenario names, or the GPU that the trace was recorded on")(
      "set", po::value<std::vector<std::string>>()->value_name("K=V"),
      "set a parameter, e.g. gpu.cwd.gpc_distance=100; can be repeated (heddle show params)")(
      "pace", po::value<std::string>()->value_name("recorded|asap"),
      "submit operations at their recorded times (default), or as soon as order allows")(
      "fit", po::value<std::string>()->value_name("launch|signature"),
      "fit CTA durations to each recorded launch (default), or one per name, grid and block")(
      "device", po::value<int>()->value_name("N"), "replay only this device of the recording")(
      "no-baseline", "do not simulate the recorded machine beside a changed one")(
      "timing", po::value<std::string>()->value_name("at|lt"),
      "at: links and decisions take their cycles (default); lt: only work takes time")(
      "seed", po::value<std::uint64_t>()->value_name("N"), "of everything random; default: the scenario's, or 1")(
      "trace", po::value<std::string>()->value_name("perfetto"),
      "write a timeline, timeline.json.gz, for ui.perfetto.dev")("out", po::value<std::string>()->value_name("DIR"),
                                                                 "where results go; default heddle-out/NAME")(
      "dump-config", po::value<std::string>()->value_name("FILE"),
      "write the whole resolved configuration to FILE (it is also in the results) and stop; - for standard output")(
      "quiet", "print only errors")("help,h", "this text");
  return options;
}

[[noreturn]] void bad_option(const std::string& message,
                             const std::string& remedy = "heddle run --help lists the options") {
  throw InputError(message, remedy);
}

template <class T>
T choice(const std::string& option, const std::string& text, const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  bad_option(fmt::format("--{} {}: expected {}", option, text, fmt::join(names, " or ")));
}

}  // namespace

std::string run_help() {
  std::ostringstream text;
  text << "heddle run [FILE...] [options]\n\n"
          "Simulates a scenario (YAML) or recorded traces (Kineto JSON, plain or gzip; each on a GPU of its own) and\n"
          "writes report.html, stats.json, host.json and config.yaml.\n\n"
       << visible_options();
  return text.str();
}

RunOptions parse_run_options(const std::vector<std::string>& arguments) {
  po::options_description all;
  all.add(visible_options());
  all.add_options()("file", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("file", -1);
  po::variables_map values;
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), values);
    po::notify(values);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> names;
    const po::options_description known = visible_options();
    for (const auto& option : known.options()) names.push_back("--" + option->long_name());
    const std::string near = nearest(error.get_option_name(), names);
    bad_option(fmt::format("there is no option {}", error.get_option_name()),
               near.empty() ? "heddle run --help lists the options" : fmt::format("did you mean {}?", near));
  } catch (const po::error& error) {
    bad_option(error.what());
  }

  RunOptions options;
  const auto list = [&values](const char* name) {
    return values.count(name) != 0 ? values[name].as<std::vector<std::string>>() : std::vector<std::string>{};
  };
  options.files = list("file");
  options.gpus = list("gpu");
  options.sets = list("set");
  if (values.count("timing") != 0) {
    options.timing = choice<std::string>("timing", values["timing"].as<std::string>(), {{"at", "at"}, {"lt", "lt"}});
  }
  if (values.count("out") != 0) options.out = values["out"].as<std::string>();
  if (values.count("seed") != 0) options.seed = values["seed"].as<std::uint64_t>();
  if (values.count("device") != 0) options.device = values["device"].as<int>();
  if (values.count("pace") != 0) {
    options.pace = choice<replay::Pace>("pace", values["pace"].as<std::string>(),
                                        {{"recorded", replay::Pace::recorded}, {"asap", replay::Pace::asap}});
  }
  if (values.count("fit") != 0) {
    options.fit =
        choice<Fit>("fit", values["fit"].as<std::string>(), {{"launch", Fit::launch}, {"signature", Fit::signature}});
  }
  if (values.count("trace") != 0) {
    options.perfetto = choice<bool>("trace", values["trace"].as<std::string>(), {{"perfetto", true}});
  }
  if (values.count("dump-config") != 0) options.dump_config = values["dump-config"].as<std::string>();
  options.baseline = values.count("no-baseline") == 0;
  options.quiet = values.count("quiet") != 0;
  options.help = values.count("help") != 0;
  options.command_line = fmt::format("heddle run {}", fmt::join(arguments, " "));
  return options;
}

}  // namespace heddle::cli

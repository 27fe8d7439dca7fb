#include "cli/command.h"

#include <exception>
#include <iostream>
#include <new>

#include "common/error.h"

namespace heddle::cli {

namespace po = boost::program_options;

namespace {

constexpr const char* kProgramUsage = R"(heddle: a model of a GPU: its front end, SMs and memory

  heddle run [FILE...] [options]     simulate a scenario or a recorded trace; without FILE, the shipped scenario
  heddle cuda PROGRAM [ARGUMENT...]  run a CUDA program as it is, with a simulated GPU in place of a real one
  heddle sweep FILE                  run a scenario or a recording over axes: table, database and page
  heddle compare DIR DIR...          what differs between results of runs, with limits for regressions
  heddle test DIR                    a folder of scenarios as a regression
  heddle compile FILE -o OUT         turn kernels of a scenario into a file that software loads into a machine
  heddle import kineto|nsys|rocprof FILE -o OUT
                                     turn a recorded trace into a scenario that can be edited
  heddle occupancy [FILE | --threads N ...]
                                     how many clusters can be resident at once
  heddle show params|presets|tree|registers|statistics
                                     what can be configured, how a machine is built, and what it tells
  heddle version

`heddle COMMAND --help` tells more. Exit status: 0 all expectations met, 1 an expectation failed, or a
device fault or rejected kernel that none expects, 2 bad input, 3 the simulated machine made no progress,
4 internal error, 5 stopped at a limit, or a sweep or test interrupted, 130 and 143 a run interrupted by
SIGINT or SIGTERM: what is written is partial.
)";

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    std::cout << kProgramUsage;
    return arguments.empty() ? kBadInput : kSuccess;
  }
  const std::string& command = arguments[0];
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (command == "run") return run_command(rest);
  if (command == "cuda") return cuda_command(rest);
  if (command == "sweep") return sweep_command(rest);
  if (command == "compare") return compare_command(rest);
  if (command == "test") return test_command(rest);
  if (command == "compile") return compile_command(rest);
  if (command == "import") return import_command(rest);
  if (command == "occupancy") return occupancy_command(rest);
  if (command == "show") return show_command(rest);
  if (command == "version" || command == "--version") {
    std::cout << "heddle " << HEDDLE_VERSION << '\n';
    return kSuccess;
  }
  const std::string near = nearest(
      command, {"run", "cuda", "sweep", "compare", "test", "compile", "import", "occupancy", "show", "version"});
  throw InputError(fmt::format("'{}' is not a command", command),
                   near.empty() ? "heddle --help lists the commands" : fmt::format("did you mean 'heddle {}'?", near));
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  try {
    const int status = dispatch(arguments);
    std::cout.flush();
    if (std::cout) return status;
    std::cerr << "heddle: standard output could not be written\n";
    return status == kSuccess ? kBadInput : status;
  } catch (const InputError& error) {
    std::cerr << "heddle: " << error.what() << '\n';
    return kBadInput;
  } catch (const CheckFailed& error) {
    std::cerr << "heddle: internal error, please report it: " << error.what() << '\n';
    return kInternalError;
  } catch (const std::bad_alloc&) {
    std::cerr << "heddle: this computer has not enough memory for the machine and what it is given to do\n"
                 "  make structures smaller that were enlarged (config.yaml, --dump-config), or leave out --dump and "
                 "--trace\n";
    return kBadInput;
  } catch (const std::exception& error) {
    std::cerr << "heddle: internal error, please report it: " << error.what() << '\n';
    return kInternalError;
  }
}

po::options_description described_options() {
  po::options_description options("options", 100);
  options.add_options()("help,h", "this text");
  return options;
}

CommandLine::CommandLine(std::string command, const po::options_description& options,
                         const std::vector<std::string>& arguments)
    : command_(std::move(command)) {
  po::options_description all;
  all.add(options);
  all.add_options()("word", po::value<std::vector<std::string>>(&words_));
  po::positional_options_description positional;
  positional.add("word", -1);
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), values_);
    po::notify(values_);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> names;
    for (const auto& option : options.options()) names.push_back("--" + option->long_name());
    const std::string near = nearest(error.get_option_name(), names);
    bad(fmt::format("there is no option {}", error.get_option_name()),
        near.empty() ? std::string() : fmt::format("did you mean {}?", near));
  } catch (const po::error& error) {
    bad(error.what());
  }
}

void CommandLine::bad(const std::string& message, const std::string& remedy) const {
  throw InputError(message, remedy.empty() ? command_ + " --help lists the options" : remedy);
}

}  // namespace heddle::cli

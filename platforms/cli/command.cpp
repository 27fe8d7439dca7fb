#include "cli/command.h"

#include <exception>
#include <iostream>

#include <fmt/format.h>

#include "common/error.h"
#include "common/suggest.h"

namespace heddle::cli {
namespace {

constexpr const char* kUsage = R"(heddle: a model of a GPU's front end

  heddle run [FILE...] [options]     simulate a scenario or a recorded trace; without FILE, the shipped scenario
  heddle import kineto|nsys|rocprof FILE -o OUT
                                     turn a recorded trace into a scenario that can be edited
  heddle occupancy [FILE | --threads N ...]
                                     how many clusters can be resident at once
  heddle show params|presets|tree    what can be configured, and how a machine is built
  heddle version

`heddle COMMAND --help` tells more. Exit status: 0 all expectations met, 1 an expectation failed, or a
device fault or rejected kernel that none expects, 2 bad input, 3 the simulated machine made no progress,
4 internal error.
)";

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    std::cout << kUsage;
    return arguments.empty() ? kBadInput : kSuccess;
  }
  const std::string& command = arguments[0];
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (command == "run") return run_command(rest);
  if (command == "import") return import_command(rest);
  if (command == "occupancy") return occupancy_command(rest);
  if (command == "show") return show_command(rest);
  if (command == "version" || command == "--version") {
    std::cout << "heddle " << HEDDLE_VERSION << '\n';
    return kSuccess;
  }
  const std::string near = nearest(command, {"run", "import", "occupancy", "show", "version"});
  throw InputError(fmt::format("'{}' is not a command", command),
                   near.empty() ? "heddle --help lists the commands" : fmt::format("did you mean 'heddle {}'?", near));
}

}  // namespace

int run_program(const std::vector<std::string>& arguments) {
  try {
    return dispatch(arguments);
  } catch (const InputError& error) {
    std::cerr << "heddle: " << error.what() << '\n';
    return kBadInput;
  } catch (const CheckFailed& error) {
    std::cerr << "heddle: internal error, please report it: " << error.what() << '\n';
    return kInternalError;
  } catch (const std::exception& error) {
    std::cerr << "heddle: internal error, please report it: " << error.what() << '\n';
    return kInternalError;
  }
}

}  // namespace heddle::cli

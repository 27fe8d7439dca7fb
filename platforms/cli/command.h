// The commands of the program `heddle`, their options, and what every command says of a wrong one.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/run_options.h"
#include "common/error.h"
#include "common/stats.h"

namespace heddle::cli {

// Exit statuses, the same for every command.
constexpr int kSuccess = 0;            // all expectations met
constexpr int kExpectationFailed = 1;  // an expectation failed, or the device reported a fault that nobody expected
constexpr int kBadInput = 2;           // a file, an option or a value is wrong
constexpr int kNoProgress = 3;         // the simulated machine could not go on
constexpr int kInternalError = 4;      // a broken invariant: a bug in Heddle
constexpr int kPartial = 5;            // stopped at the limit of wall time

// `arguments` without the program's name. Never throws; messages go to the standard streams.
int run_program(const std::vector<std::string>& arguments);

int run_command(const std::vector<std::string>& arguments);
int cuda_command(const std::vector<std::string>& arguments);
int compile_command(const std::vector<std::string>& arguments);
int import_command(const std::vector<std::string>& arguments);
int show_command(const std::vector<std::string>& arguments);
int occupancy_command(const std::vector<std::string>& arguments);
int sweep_command(const std::vector<std::string>& arguments);
int compare_command(const std::vector<std::string>& arguments);
int test_command(const std::vector<std::string>& arguments);

// Every statistic that a run can have, as text for people or as the tables of docs/statistics.md.
std::string statistics_list(bool markdown);

// Throws InputError if an expectation or a figure of the scenario names a statistic that no run of these machines can
// have. `built`: of machines that have not run yet.
void check_statistics(const Inputs& inputs, const std::vector<const Stats*>& built);

// The scenario of `heddle run` without a file.
const char* default_scenario();

// A description to which a command adds its options; --help, -h is in it.
boost::program_options::options_description described_options();

class CommandLine {
 public:
  // `command`: "heddle run". Words that are no options are words(). Throws InputError with the nearest option.
  CommandLine(std::string command, const boost::program_options::options_description& options,
              const std::vector<std::string>& arguments);

  bool has(const char* option) const { return values_.count(option) != 0; }
  bool help() const { return has("help"); }
  // Files, and what else stands without an option.
  const std::vector<std::string>& words() const { return words_; }
  template <class T>
  std::optional<T> get(const char* option) const {
    if (!has(option)) return std::nullopt;
    return values_[option].as<T>();
  }
  std::optional<std::string> text(const char* option) const { return get<std::string>(option); }
  // A whole number from low to high, given as text. Throws InputError for everything else.
  template <class T>
  std::optional<T> number(const char* option, T low, T high) const {
    const std::optional<std::string> given = text(option);
    if (!given) return std::nullopt;
    T value{};
    const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
    if (error == std::errc() && end == given->data() + given->size() && low <= value && value <= high) return value;
    const bool bounded = high < std::numeric_limits<T>::max();
    bad(fmt::format("--{} {}: expected a whole number {}", option, *given,
                    bounded ? fmt::format("from {} to {}", low, high) : fmt::format("of at least {}", low)));
  }
  std::vector<std::string> list(const char* option) const {
    return get<std::vector<std::string>>(option).value_or(std::vector<std::string>{});
  }
  // The value whose name was given. Throws InputError with all names for another.
  template <class T>
  std::optional<T> choice(const char* option, const std::vector<std::pair<std::string, T>>& choices) const {
    const std::optional<std::string> given = text(option);
    if (!given) return std::nullopt;
    std::vector<std::string> names;
    for (const auto& [name, value] : choices) {
      if (name == *given) return value;
      names.push_back(name);
    }
    bad(fmt::format("--{} {}: expected {}", option, *given, fmt::join(names, " or ")));
  }
  [[noreturn]] void bad(const std::string& message, const std::string& remedy = {}) const;

 private:
  std::string command_;
  boost::program_options::variables_map values_;
  std::vector<std::string> words_;
};

}  // namespace heddle::cli

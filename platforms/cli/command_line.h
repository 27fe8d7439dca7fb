// The options of one command, and what every command says of a wrong one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/program_options.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"

namespace heddle::cli {

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

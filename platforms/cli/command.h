// The commands of the program `heddle`.
#pragma once

#include <string>
#include <vector>

namespace heddle::cli {

// Exit statuses, the same for every command.
constexpr int kSuccess = 0;            // all expectations met
constexpr int kExpectationFailed = 1;  // an expectation failed, or the device reported a fault that nobody expected
constexpr int kBadInput = 2;           // a file, an option or a value is wrong
constexpr int kNoProgress = 3;         // the simulated machine could not go on
constexpr int kInternalError = 4;      // a broken invariant: a bug in Heddle

// `arguments` without the program's name. Never throws; messages go to the standard streams.
int run_program(const std::vector<std::string>& arguments);

int run_command(const std::vector<std::string>& arguments);
int import_command(const std::vector<std::string>& arguments);
int show_command(const std::vector<std::string>& arguments);
int occupancy_command(const std::vector<std::string>& arguments);

// The scenario of `heddle run` without a file.
const char* default_scenario();

}  // namespace heddle::cli

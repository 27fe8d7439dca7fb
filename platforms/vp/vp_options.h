// The command line of heddle-vp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "vp/session.h"

namespace heddle::vp {

// Exit statuses of heddle-vp.
constexpr int kGuestEnded = 0;     // QEMU ended with status 0
constexpr int kGuestFailed = 1;    // QEMU ended otherwise
constexpr int kBadInput = 2;       // an option, a file or a value is wrong; or QEMU cannot be started
constexpr int kNotUnderstood = 3;  // QEMU says what makes no sense
constexpr int kDeviceFailed = 4;   // the model has failed: a bug in Heddle

struct VpOptions {
  std::string kernels;                // a scenario
  std::string preset;                 // empty: what the scenario names
  std::vector<std::string> sets;      // of parameters, "gpu.memory=2 GiB"
  std::uint64_t seed = 1;             // of the machine
  std::uint32_t aperture = 1U << 26;  // bytes of BAR 1
  SessionLimits limits;
  bool reports = false;              // SystemC's of information as well
  bool tell = false;                 // what has been done, at the end
  std::vector<std::string> command;  // QEMU and its arguments
};

// Nothing: help was asked for, and has been printed. Throws InputError, for an unknown option with the nearest one.
std::optional<VpOptions> read_options(const std::vector<std::string>& arguments);

}  // namespace heddle::vp

// What heddle-vp is told, and what follows from it: the machine on the card and its programs, from a scenario
// (docs/scenario.md). The machine's programs are all kernels that the scenario submits, in that order; its operations,
// memory and expectations are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/task_record.h"
#include "gpu/gpu.h"
#include "scenario/scenario.h"
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
  bool spread = false;               // QEMU and the device may run on several processors
  bool reports = false;              // SystemC's of information as well
  bool tell = false;                 // what has been done, at the end
  std::vector<std::string> command;  // QEMU and its arguments
};

// Nothing: help was asked for, and has been printed. Throws InputError, for an unknown option with the nearest one.
std::optional<VpOptions> read_options(const std::vector<std::string>& arguments);

// A kernel and the number by which kernel objects name its program (docs/packets.md).
struct ListedKernel {
  std::string name;
  std::uint32_t program = 0;
  std::uint32_t registers = 0;  // of a thread
};

// The kernels that have a program, each once. What they work on they are to find by their arguments. Throws InputError
// if there are none.
std::vector<arch::KernelRecord> kernels_of(const scenario::Scenario& scenario);

// Puts them into the machine's program store. Throws InputError for programs that the machine cannot run.
std::vector<ListedKernel> load_kernels(const std::vector<arch::KernelRecord>& kernels, gpu::Gpu& gpu);

// The machine: `preset`, or what the scenario names if that is empty; what guests need in any case (timing lt, address
// translation); the scenario's `config`; and `sets`, as of --set. Throws InputError.
gpu::GpuParams machine_of(const scenario::Scenario& scenario, const std::string& preset,
                          const std::vector<std::string>& sets);

}  // namespace heddle::vp

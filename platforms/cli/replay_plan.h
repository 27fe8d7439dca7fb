// From inputs and machines to simulations: fitted workloads, jobs, and the comparison with the recording.
#pragma once

#include <optional>
#include <vector>

#include "cli/machines.h"
#include "replay/comparison.h"
#include "replay/simulation.h"

namespace heddle::cli {

// A recording's workload with CTA durations fitted to the machine it was recorded on.
struct Fitted {
  workload::Workload workload;
  std::vector<bool> launch_bound;  // by operation: even CTAs of one cycle take longer than recorded
};

Fitted fit_workload(const workload::Workload& workload, const gpu::GpuParams& recorded, Fit fit);

// The jobs of one simulation. `recorded_machine`: on the recorded machines instead of the chosen ones. `packets`: they
// are submitted by packets.
std::vector<replay::Job> make_jobs(const std::vector<Fitted>& fitted, const Machines& machines, replay::Pace pace,
                                   bool recorded_machine,
                                   const std::optional<workload::PacketOptions>& packets = std::nullopt);

// How the run submits, from the scenario and the command line; nothing: as operations of streams. Throws InputError for
// options that need packets, and for arguments of kernels that nothing carries.
std::optional<workload::PacketOptions> packet_options(const Inputs& inputs, const RunOptions& options);

}  // namespace heddle::cli

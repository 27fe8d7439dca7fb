// All parameters of one GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/instances.h"
#include "arch/race_checker.h"
#include "arch/topology.h"
#include "common/cycle.h"
#include "common/param_fwd.h"
#include "common/timebase.h"
#include "copy/copy_job.h"
#include "cwd/cwd_params.h"
#include "cwd/occupancy.h"
#include "gpc/gpc_params.h"
#include "host/boundary_params.h"
#include "link/link_params.h"
#include "memory/memory_params.h"
#include "packet/packet_params.h"
#include "power/power_params.h"
#include "sm/sm_params.h"
#include "task/task_params.h"
#include "tmau/tmau_params.h"

namespace heddle::gpu {

// Parameters of the GPU as a whole.
struct MachineParams {
  std::string device = "the machine";  // what it is called where something is refused
  double clock = 1.755;                // GHz
  arch::Shape shape = arch::Shape::from_sms_per_gpc({18, 18, 18, 18, 16, 16, 14, 14});
  std::vector<std::uint32_t> ugpus;                // GPCs of each uGPU; empty: one uGPU
  std::uint64_t memory = std::uint64_t{80} << 30;  // bytes of device memory, from address 0
  arch::Instances instances;                       // hard slices of the machine (PRT-11)
  TimingMode timing = TimingMode::at;
  std::uint32_t run_ahead = 1024;  // cycles

  static void describe(ParamTable<MachineParams>& t);
};

const char* name_of(TimingMode timing);

struct GpuParams {
  MachineParams machine;
  task::TaskParams task;
  cwd::CwdParams cwd;
  gpc::GpcParams gpc;
  gpc::SmNetworkParams network;  // of each GPC
  sm::SmParams sm;
  tmau::TmauParams tmau;  // of each unit
  memory::CrossbarParams xbar;
  memory::L2Params l2;
  memory::HbmParams hbm;
  memory::MmuParams mmu;
  host::HostParams host;
  host::HubParams hub;
  packet::PacketParams packet;
  copy::CopyParams copy;
  link::LinkParams links;  // to other GPUs
  power::PowerParams power;
  power::EnergyParams energy;  // of events
  arch::RaceParams races;

  // Binds every parameter under "gpu".
  void bind(ParamBinder& binder);
  // Throws InputError where values contradict each other.
  void check() const;
  // The linear memories of CGAs: at the end of device memory.
  gpc::CgaMemoryPool cga_memory() const;
  // The reference state tables of the packet processor, if they lie in memory: below those.
  std::uint64_t reference_tables() const;
  // The records of device-side launches: below those. A memory of which they would take more than half has none
  // (tasks.count is 0), and its machine no launches.
  arch::LaunchMemory nested_memory() const;
  // From a task's dispatch by task management to its first launch packet on an idle machine, in cycles, where a grid
  // fills its last level: others take a prefix count besides (CWD-05).
  Cycle start_path() const;
  // Device memory from here on belongs to the machine itself; a host's own data lie below.
  // Local memory of a subcontext whose threads have so many bytes: all of its blocks (PRT-06).
  std::uint64_t local_memory(const arch::LocalMemory& memory) const;
  std::uint64_t front_end_memory() const;
  // The lines of streams (task/channel.h), the lowest of all; 0: none are used.
  std::uint64_t channels() const { return task.gap.uses_memory() ? front_end_memory() : 0; }
};

// What stands behind the L2.
enum class DeviceMemory {
  own,       // the GPU's HBM
  attached,  // somebody else's: every MemoryOut of the slices is to be bound before simulation
};

// A preset is the YAML map below the key `gpu`, with a source beside every value. The texts of presets/*.yaml are put
// into the program when it is built.
struct PresetText {
  const char* name;
  const char* yaml;
};
const std::vector<PresetText>& preset_texts();
std::vector<std::string> preset_names();
std::string preset_description(const std::string& name);
// What the preset was compared with, in words.
std::string preset_checked(const std::string& name);
// Beginnings of the paths of parameters that are not public of the device: what the preset leaves there is the default,
// which belongs to another one.
std::vector<std::string> preset_unknown(const std::string& name);
// Throws InputError with the nearest names if there is no such preset.
YAML::Node preset(const std::string& name);
// The preset for a device name as recorders write it ("NVIDIA H100 80GB HBM3"); empty if none is known (INP-10).
std::string preset_for_device(const std::string& device);

// What a machine holds of a kernel: from the code that places CTAs and clusters (CWD-24, CWD-25).
inline arch::Topology topology_of(const GpuParams& params) {
  return arch::Topology(params.machine.shape, params.machine.ugpus);
}

inline std::uint32_t cgas_per_gpc(const GpuParams& params) {
  return cwd::GpcCgaLimits{params.gpc.cga_ids, params.gpc.cga_barriers, params.sm.limits.cga_slots}.cgas();
}

// Outermost clusters of the kernel that an empty machine holds at once; of a plain grid: CTAs.
inline cwd::Occupancy residency(const GpuParams& params, const arch::KernelShape& kernel) {
  return cwd::occupancy(topology_of(params), params.cwd, params.sm.limits, kernel, cgas_per_gpc(params));
}

// What residency() would be if GPCs had ids and barriers for any number of clusters.
inline cwd::Occupancy residency_without_ids(const GpuParams& params, const arch::KernelShape& kernel) {
  return cwd::occupancy(topology_of(params), params.cwd, params.sm.limits, kernel);
}

// Why the machine can never run the kernel, naming the resource and the domain; empty if it can.
std::string why_never_fits(const GpuParams& params, const arch::KernelShape& kernel);

}  // namespace heddle::gpu

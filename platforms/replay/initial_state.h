// What a workload says of its machine beside operations: what SMs hold at the start, and which TPCs are switched.
#pragma once

#include <string>
#include <vector>

#include "protocol/host_task.h"
#include "replay/device_memory.h"
#include "workload/workload.h"

namespace heddle::gpu {
class Gpu;
struct GpuParams;
struct SmPreload;
}  // namespace heddle::gpu

namespace heddle::replay {

// For Gpu::preload. `lead_ns`: the workload's time 0 on the simulation's axis. Throws InputError with the place of the
// entry if the machine has no such SM or GPC, or an SM cannot hold that much.
std::vector<gpu::SmPreload> resolve_loads(const workload::Workload& workload, const std::string& instance,
                                          const gpu::Gpu& gpu, double lead_ns);

// What the host tells the machine of how it is shared, and when: first how subcontexts begin, then the changes, in the
// order of their times. Throws InputError with the place of the entry if the machine has no such TPC, would refuse the
// change, or in none of the modes that follow makes anything of it (PRT-12); without a place, for a kernel that no TPCs
// that its subcontext has at any time can hold.
struct TimedShare {
  workload::Nanoseconds when = 0;
  protocol::SubcontextPacket packet;
  SourcePos where;
};
std::vector<TimedShare> resolve_shares(const workload::Workload& workload, const std::string& instance,
                                       const gpu::GpuParams& params, const arch::Topology& topology,
                                       const MemoryMap& map);

// Throws InputError with the place of the entry if the machine has no such TPC.
void check_switches(const workload::Workload& workload, const std::string& instance, const arch::Topology& topology);

}  // namespace heddle::replay

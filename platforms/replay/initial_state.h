// What a workload says of its machine beside operations: what SMs hold at the start, and which TPCs are switched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/domain.h"
#include "common/packet_socket.h"
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

// What a host tells a machine outside all streams, at its times and at any pace: which TPCs may work, and how the
// machine is shared.
class HostControls {
 public:
  HostControls(const std::vector<workload::TpcSwitch>& switches, const std::vector<TimedShare>& shares);

  // Of the first of them on the workload's axis, at most 0.
  std::int64_t first() const;
  // Sends those that are due, and enters an event for the next one. To be called at the start, at that event, and when
  // `out` has a credit again. `lead`: ns by which the simulation's axis lies before the workload's.
  void send(Domain& domain, PacketOut<protocol::SubmitPacket>& out, std::int64_t lead, EventHandler& handler,
            std::uint32_t event);
  void reset() { next_ = 0; }

 private:
  struct Control {
    std::int64_t when = 0;  // ns, workload axis
    protocol::SubmitPacket packet;
  };
  std::vector<Control> controls_;  // by time
  std::size_t next_ = 0;
};

// Throws InputError with the place of the entry if the machine has no such TPC.
void check_switches(const workload::Workload& workload, const std::string& instance, const arch::Topology& topology);

}  // namespace heddle::replay

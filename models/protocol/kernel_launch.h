// The attributes of a kernel launch that do not change on its way: task management -> CWD -> GPM -> MPC -> SM.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/cluster.h"
#include "arch/raster.h"
#include "arch/sm_limits.h"
#include "arch/task_record.h"
#include "protocol/ids.h"

namespace heddle::protocol {

// Every packet of a launch has this as its base, and every hop copies it whole with launch_of(): an attribute that is
// added here reaches all CTAs. Task management fills in all but the last two, which are the distributor's.
struct KernelLaunch {
  arch::ResourceVector need;  // of one CTA
  arch::CtaDuration duration;
  std::uint32_t code = 0;  // of its program; 0: CTAs run for `duration`
  std::uint8_t subcontext = 0;
  std::int32_t priority = 0;      // larger is more urgent
  std::uint64_t record = 0;       // its TMD in memory; 0: it has none, and cannot launch children
  std::uint64_t area = 0;         // its one CTA was saved: where the CTA's state lies; 0: CTAs begin
  std::uint32_t local_bytes = 0;  // local memory of a thread: more than 0 takes a block of the TPC (CWD-32)
  bool ahead = false;             // it was launched ahead of the end of the kernel before it in its stream
  // Its start acquires: on each of its SMs the first CTA empties the L1 (MEM-06). Or, where a packet's fences say what
  // it may see, the number of the last acquire fence before it: L1s that have been emptied for this or a later one keep
  // what they have; 0: all do.
  std::optional<std::uint64_t> fence;
  bool queue = false;           // of a queue task: a CTA's position in the grid is its ticket
  std::uint64_t departure = 0;  // cycle at which the launch packet left the distributor: for observation only

  bool local_memory() const { return local_bytes > 0; }
};

// The barriers of the wide CGAs that a CTA belongs to (CWD-09): the distributor gives them out, and the launch carries
// them to the SMs.
struct WideBarriers {
  std::optional<BarrierSlot> ugpu;
  std::optional<BarrierSlot> gpu;

  bool any() const { return ugpu.has_value() || gpu.has_value(); }
  // None for a level that the CTA has no CGA of, and for those inside a GPC.
  std::optional<BarrierSlot> of(arch::CgaLevel level) const {
    return level == arch::CgaLevel::ugpu ? ugpu : level == arch::CgaLevel::gpu ? gpu : std::nullopt;
  }
  // Innermost first: visit(level, slot).
  template <class Visit>
  void for_each(Visit&& visit) const {
    if (ugpu) visit(arch::CgaLevel::ugpu, *ugpu);
    if (gpu) visit(arch::CgaLevel::gpu, *gpu);
  }
};

// Between the distributor and the MPCs a launch is a part of a grid whose CTAs have no ids yet, with one exception:
// `id` is there of a single CTA that comes with its id ready made, from central rasterisation (CWD-43) or because it
// was saved.
struct GridLaunch : KernelLaunch {
  arch::RasterShape shape;
  std::optional<arch::CtaId> id;
};

// What a hop passes on, as a whole: launch_of(packet) = launch_of(task).
inline KernelLaunch& launch_of(KernelLaunch& packet) { return packet; }
inline const KernelLaunch& launch_of(const KernelLaunch& packet) { return packet; }
inline GridLaunch& grid_launch_of(GridLaunch& packet) { return packet; }
inline const GridLaunch& grid_launch_of(const GridLaunch& packet) { return packet; }

}  // namespace heddle::protocol

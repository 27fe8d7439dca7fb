// CWD -> GPM: CTAs start on SMs of one GPC. GPM -> CWD: CTAs have completed, CGAs have gone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arch/raster.h"
#include "arch/virtual_map.h"
#include "protocol/ids.h"
#include "protocol/kernel_launch.h"

namespace heddle::protocol {

constexpr std::size_t kFurtherMasks = 3;

// CWD-31. Every mask of a packet starts one CTA on each of its SMs; the least significant bit gets the first. CTA ids
// are not sent: an SM follows the raster position from the packets of all GPCs. `raster` is that position in the one
// ordered record of the launches, so that a follower catches up only at a launch of its own (CWD-35): it holds nothing
// that a follower of the broadcast would not know.
struct LaunchPacket : GridLaunch {
  TaskSlot slot;
  std::uint32_t operation = 0;
  VirtualGpcId virtual_gpc;
  std::uint64_t sm_mask = 0;                                 // bit = SM of the GPC
  std::array<std::uint64_t, kFurtherMasks> further_masks{};  // SMs that get a second … CTA of the CGA; 0: none
  std::uint32_t num_ctas = 0;                                // = population counts of all masks
  std::uint64_t sequence = 0;                                // of the outermost CGA; of a plain grid: of the session
  bool last = false;                                         // last mask of its outermost CGA, or of its session
  std::uint64_t raster = 0;                                  // CTAs of the task in launch packets before this one

  // GPC_CGAs. All packets of one follow each other.
  std::uint32_t cga_ctas = 0;  // CTAs of the GPC_CGA to which these belong; 0: there is none
  bool cga_first = false;      // first packet of the GPC_CGA

  std::optional<CgaMemorySlot> memory_slot;
  WideBarriers barriers;

  // SMs of the GPC that have not followed the grid from its start: they are told the coordinate of the outermost CGA
  // (or CTA) at which this packet's launch order stands (CWD-42).
  std::uint64_t late_mask = 0;
  arch::Coord late_coord;
};

// CTAs of one task that completed on a GPC in one cycle, one bit per SM. Without any bit: a trap of a CGA whose CTA has
// gone (CGA-08); `faulted` is set then. CTAs of different GPU_CGAs (or uGPU_CGAs) of CTAs do not share a packet.
struct CompletePacket {
  TaskSlot slot;
  std::uint64_t sm_mask = 0;
  std::uint64_t sequence = 0;  // of the launch, where `tracked`
  bool tracked = false;        // CTAs of a GPU_CGA or uGPU_CGA without GPC_CGAs
  bool faulted = false;        // one of them faulted: the task is to be aborted
  // That each of them gave back before, and was told in a SharedReleasePacket (CGA-09).
  std::uint32_t released_shared_bytes = 0;
  std::uint64_t cga_slots = 0;  // SMs that have an sm_cga_slot more from now on (CGA-11); those of a CGA that has ended
                                // may be others than those of the CTAs
};

// A CTA of that SM has given back a part of its shared memory before its end (CGA-09).
struct SharedReleasePacket {
  TaskSlot slot;
  SmInGpc sm;
  std::uint32_t bytes = 0;  // as the resource accounting counts: a multiple of its granularity
};

// cga_complete: all CTAs of a GPC_CGA have completed and their accesses are flushed; its id is free (CWD-20, CGA-12).
struct CgaCompletePacket {
  TaskSlot slot;
  std::uint64_t sequence = 0;
};

// GPM -> CWD: how many CTAs of a GPC have arrived at the barrier of a GPU_CGA or uGPU_CGA, and how many have exited
// (CWD-09). Sent when all that the GPC knows of, and that run, have arrived, or none runs any more; a later one
// replaces what an earlier one said.
struct BarrierReportPacket {
  BarrierSlot slot;
  std::uint64_t sequence = 0;  // launch of the CGA
  std::uint64_t phase = 0;     // phases of the barrier that the GPC knows to be over
  std::uint32_t arrived = 0;   // CTAs, in this phase
  std::uint32_t gone = 0;      // CTAs
};

// CWD -> GPM: the barrier has completed a phase; warps go on.
struct BarrierReleasePacket {
  BarrierSlot slot;
  std::uint64_t sequence = 0;
  std::uint64_t phase = 0;  // phases that are over with this one
};

// CWD -> GPM -> MPC -> SM: the virtual numbers of a TPC's first SM, and of those that follow it (CWD-45). On the way to
// an SM they become its own.
struct PartPacket {
  TpcInGpc tpc;
  arch::VirtualPart part;
};

// CWD -> GPM: the local-memory block of a subcontext on one TPC (CWD-32). It follows the first launch that needs it.
struct LocalMemoryPacket {
  TpcInGpc tpc;
  std::uint8_t subcontext = 0;
  LocalMemoryBlock block;
};

}  // namespace heddle::protocol

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

// CWD-31. Every mask of a packet starts one CTA on each of its SMs; the least significant bit gets the first. The
// packet goes to all GPCs (CWD-35), and the one whose virtual number it names starts the CTAs. Neither CTA ids nor a
// position in the grid are sent: whoever hears it counts its CTAs, and so knows where in the grid the next ones stand.
// What a grid's SMs know of it by its slot (the attributes of the kernel) is not sent with every packet either: it is
// here so that nobody has to look it up. Widths and sizes in bits: cwd/launch_bits.h.
struct LaunchPacket : GridLaunch {
  TaskSlot slot;
  std::uint32_t operation = 0;  // that the CTAs belong to: for observation, and to name it in aborts
  VirtualGpcId virtual_gpc;     // whose SMs start the CTAs
  std::uint64_t sm_mask = 0;    // bit = SM of that GPC
  std::array<std::uint64_t, kFurtherMasks> further_masks{};  // SMs that get a second … CTA of the CGA; 0: none
  std::uint32_t num_ctas = 0;                                // = population counts of all masks
  std::uint64_t sequence = 0;                                // of the outermost CGA; of a plain grid: of the session
  bool last = false;    // last mask of its outermost CGA, or of its session: the next CTA is one of the next CGA
  bool begins = false;  // first of its grid: raster states of the slot begin anew

  // GPC_CGAs. All packets of one follow each other.
  std::uint32_t cga_ctas = 0;  // CTAs of the GPC_CGA to which these belong; 0: there is none
  bool cga_first = false;      // first packet of the GPC_CGA

  std::optional<CgaMemorySlot> memory_slot;
  WideBarriers barriers;

  // State synchronisation (CWD-42): TPCs of that GPC which have not heard all of the grid are told where it stands,
  // which is where the first of these CTAs stands.
  struct Sync {
    std::uint64_t tpcs = 0;    // bit = TPC of the GPC
    arch::Coord outermost;     // coordinate of the outermost CGA or, without CGAs, of the CTA
    std::uint32_t within = 0;  // CTAs of it that have been launched
  };
  std::optional<Sync> sync;

  // TPCs of the GPC that receives this copy which listen: those that the TPC enable table has. These are wires that are
  // driven or not, and no bits of the packet.
  std::uint64_t listeners = ~std::uint64_t{0};
  std::uint32_t bits = 0;  // of the packet
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
  bool preempted = false;       // they have been saved, and go on later: their task is not over
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

// CWD -> GPM: the local-memory block of a subcontext on one TPC (CWD-32). It follows the first launch that needs it, to
// all GPCs, or only to the one that it is for.
struct LocalMemoryPacket {
  VirtualGpcId virtual_gpc;  // whose TPC it is
  TpcInGpc tpc;
  std::uint8_t subcontext = 0;
  LocalMemoryBlock block;
  arch::LocalMemory memory;  // state of the subcontext, that an SM has with it: where its blocks lie
  std::uint32_t bits = 0;    // of the packet
};

}  // namespace heddle::protocol

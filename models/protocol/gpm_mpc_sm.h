// Inside a GPC: what GPM, MPCs and SMs tell each other about CTAs and CGAs (CGA-03 to CGA-13), and who stops a task.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/raster.h"
#include "protocol/ids.h"
#include "protocol/kernel_launch.h"

namespace heddle::protocol {

// What a CTA carries from its launch to its completion.
struct CtaTag {
  TaskSlot slot;
  std::uint32_t operation = 0;
  std::uint64_t sequence = 0;   // of the launch
  std::optional<CgaId> cga_id;  // none: a CTA of no GPC_CGA
  bool tracked = false;         // its completion must name the sequence
  WideBarriers barriers;        // of the wide CGAs around it

  // A CTA of a GPC_CGA; of any CGA.
  bool in_cga() const { return cga_id.has_value(); }
  bool in_any_cga() const { return in_cga() || barriers.any(); }
};

// What a raster unit does with what it has heard, before it makes an id (CWD-41, CWD-42).
struct RasterStep {
  bool fresh = false;               // a grid has begun since the last step: its first outermost CGA is the current one
  std::optional<arch::Coord> told;  // the current outermost CGA, by state synchronisation
  std::uint32_t overflows = 0;      // times that the delta counter was full, and was decomposed
  std::uint64_t delta = 0;          // what it holds: outermost CGAs since the current one
  std::uint32_t within = 0;         // CTAs of the outermost CGA that were launched before
};

// GPM -> MPC: the part of one mask of a launch packet that concerns it. An MPC hears every launch packet, and only adds
// most of them to a delta counter. That counter is read where it matters, at a launch on an SM of the MPC and where it
// is full: then this packet comes, with what it holds. With an empty mask nothing starts.
struct TpcLaunchPacket : GridLaunch {
  CtaTag tag;
  std::uint64_t sm_mask = 0;                // bit = SM of the MPC
  RasterStep raster;                        // of the CTA of the lowest bit; of no meaning with an id
  std::uint64_t entry_from = 0;             // cycle from which its CTAs have the broadcast of entries (CGA-03)
  std::optional<std::uint64_t> cga_memory;  // address of the CGA's linear memory
};

// MPC -> SM: a CTA starts.
struct CtaStartPacket : KernelLaunch {
  CtaTag tag;
  CtaSlot cta_slot;
  std::uint64_t order = 0;  // CTAs of the grid before it in launch order, as far as the raster unit knows: to show it
  arch::CtaId id;
  std::optional<std::uint64_t> cga_memory;  // as in TpcLaunchPacket
};

// SM -> MPC: the last warp of a CTA has exited; it asks whether it may leave, and waits for the permission (CGA-11).
struct CtaExitPacket {
  CtaTag tag;
  CtaSlot cta_slot;
  bool drained = true;                      // nothing of it is in flight; otherwise a notice follows when that is so
  bool faulted = false;                     // it did not end by itself
  std::uint32_t rank = 0;                   // in its CGA
  std::uint32_t released_shared_bytes = 0;  // that it gave back before, as the resource accounting counts (CGA-09)
  bool preempted = false;                   // it has been saved to make room, and goes on later
};

// MPC -> GPM: cta_complete, which follows the permission to leave.
struct CtaCompletePacket {
  CtaTag tag;
  SmInTpc sm_in_tpc;
  bool faulted = false;
  std::uint32_t rank = 0;                   // as in CtaExitPacket
  std::uint32_t released_shared_bytes = 0;  // as in CtaExitPacket
  bool preempted = false;                   // as in CtaExitPacket
};

// MPC -> all SMs of the GPC: a CTA of a CGA has been started. They enter it in their mapping tables (CGA-03).
struct CtaEntryPacket {
  CgaId cga_id;
  std::uint64_t sequence = 0;  // launch of the CGA
  std::uint32_t rank = 0;      // cta_id_in_cga
  std::uint32_t ctas = 0;      // of the CGA
  TpcInGpc tpc;                // where it runs
  SmInTpc sm_in_tpc;
  SmInGpc sm;  // the same SM
};

// SM -> MPC, and on to the GPM where it says so.
struct ClusterNoticePacket {
  enum class Kind : std::uint8_t {
    arrived,          // all running warps of the CTA have arrived at the barrier of its CGA of `level`; to the GPM
    drained,          // what a CTA that has asked to leave had in flight has been answered (CGA-11)
    flushed,          // nothing of the CGA is in flight at this SM; the MPC's answer goes to the GPM (CGA-12)
    shared_released,  // the CTA has given back `bytes` of shared memory; to the GPM and the distributor (CGA-09)
    trap,             // an error of the CGA whose CTA here has gone; to the GPM and the distributor (CGA-08)
    entered,          // MPC -> GPM only: all SMs have entered the CTA (CGA-04)
    // Of a CTA that waits, and is to be saved with its CGA (TSK-12); to the GPM:
    can_be_saved,  // nothing of it is in flight, and all its warps wait, or have stopped; `waits`: for tasks
    goes_on,       // it cannot be saved any more, or has not been
    state_saved,   // its state is in memory, at `area`
    cga_saved,     // so is the record of the CGA
    state_back,    // it has been restored, and waits for the others of its CGA
    must_go,       // its CGA is to make room (TSK-16)
  };
  Kind kind = Kind::arrived;
  CtaTag tag;  // flushed: cga_id alone
  std::uint32_t rank = 0;
  CtaSlot cta_slot;
  SmInTpc sm_in_tpc;  // filled in by the MPC
  std::uint32_t bytes = 0;
  arch::CgaLevel level = arch::CgaLevel::gpc;  // arrived
  bool faulted = false;                        // drained: as in CtaExitPacket
  bool waits = false;                          // can_be_saved
  std::uint64_t area = 0;                      // state_saved
  std::uint64_t context = 0;                   // state_saved: whose home it is to become; 0: none
  std::uint64_t home = 0;                      // state_saved: what that home is
  bool phase = false;                          // can_be_saved: an odd number of phases of the CGA's barrier is over
};

// A CTA of a CGA that is saved as a whole.
struct SavedMember {
  std::uint32_t rank = 0;
  std::uint64_t area = 0;
  std::uint64_t context = 0;
  std::uint64_t home = 0;
};

// GPM -> MPC -> SM.
struct ClusterOrderPacket {
  enum class Kind : std::uint8_t {
    barrier,  // the barrier of the CGA of `level` has completed a phase: warps go on (CGA-13, CWD-09)
    permit,   // MPC -> SM only: inval_cta_entry: the CTA leaves; its entry of the CAM becomes invalid (CGA-11)
    flush,    // all CTAs of the CGA have completed: forget it, and answer if one was here (CGA-12)
    // The CGA is saved as a whole (TSK-12). Every CTA answers the first two:
    save,     // its state is to be saved; `rank`: of the CTA that will write the CGA's record
    publish,  // to the CTA of that rank: all states are in memory, of `members`; it writes the record
    resume,   // not all could be saved, or all have been restored: they go on
    leave,    // all of the CGA is in memory
    stop,     // its CTAs stop at their next instruction, and say when they can be saved (TSK-16)
  };
  Kind kind = Kind::barrier;
  CgaId cga_id;                // of a GPC_CGA
  CtaSlot cta_slot;            // permit
  std::uint64_t sequence = 0;  // launch of the CGA
  arch::CgaLevel level = arch::CgaLevel::gpc;
  BarrierSlot barrier;                                      // of a wide CGA
  std::uint32_t rank = 0;                                   // save, publish
  std::shared_ptr<const std::vector<SavedMember>> members;  // publish
};

// Names of what waits, for messages: SMs and GPM speak of the same thing.
inline std::string barrier_name(const std::string& kernel, GpcId gpc, CgaId cga_id) {
  return "the cluster barrier of " + kernel + ", CGA " + std::to_string(cga_id) + " of GPC " + std::to_string(gpc);
}
inline std::string wide_barrier_name(const std::string& kernel, arch::CgaLevel level, BarrierSlot slot) {
  return "barrier " + std::to_string(slot) + " of the GPU, of a " + arch::cga_name(level) + " of " + kernel;
}
inline std::string cta_name(GpcId gpc, CgaId cga_id, std::uint32_t rank) {
  return "CTA " + std::to_string(rank) + " of CGA " + std::to_string(cga_id) + " of GPC " + std::to_string(gpc);
}

// Room is wanted on SMs: they save CTAs (TSK-16).
struct Preemption {
  enum class Kind : std::uint8_t {
    room,   // for `ctas` CTAs of that need on each of them, by less urgent ones
    slice,  // all CTAs of other subcontexts
    // CTAs that wait for tasks, from now on: until there is room for `ctas` CTAs of that need, or until the next of
    // these orders; 0: nobody wants any (TSK-12).
    waiting,
  };
  Kind kind = Kind::room;
  std::uint64_t sms = 0;  // of the GPC, as in its masks
  std::int32_t priority = 0;
  std::uint32_t ctas = 0;
  arch::ResourceVector need;
  std::uint32_t subcontext = 0;  // slice: whose CTAs stay
};

// CWD -> GPM -> MPC -> SM: a task has faulted; what runs of it stops, and what still arrives of it ends at once. Or
// CTAs are to make room.
struct AbortPacket {
  std::uint32_t operation = 0;
  std::optional<Preemption> preemption = {};
};

}  // namespace heddle::protocol

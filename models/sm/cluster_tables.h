// What an SM knows of the CGAs of its GPC: bl_table, cga_cta2sm_dir and the CAM shmem_base (CGA-05 to CGA-07).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/address_map.h"
#include "common/cycle.h"
#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::sm {

class DsmemFlights;

class ClusterTables {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // `warps`, `ctas`, `cgas`: slots of the SM. `largest`: bytes of shared memory that a CTA can have at most.
  ClusterTables(std::uint32_t warps, std::uint32_t ctas, std::uint32_t cgas, std::uint32_t largest);

  // Directory. A CTA has been launched somewhere on the GPC, and is known here from that cycle on (CGA-03). The first
  // one of a CGA takes an sm_cga_slot.
  void enter(const protocol::CtaEntryPacket& entry, Cycle from);
  // The last CTA that the SM had of the CGA has left: its slot is free, and all of it is forgotten (CGA-11), unless
  // further CTAs of it are still to be entered here at `when`: then it stays until forget().
  // Of its CTAs on `own`, this SM, no more is known than that they were here: until forget().
  void last_left(protocol::CgaId cga_id, protocol::SmInGpc own, Cycle when);
  // The CTA was here, and the last one of its CGA here has left.
  bool hosted(protocol::CgaId cga_id, std::uint32_t rank) const { return (hosted_[cga_id] >> rank & 1) != 0; }
  // All CTAs of the CGA have completed: its slot is free, and all of it is forgotten. An unknown one is left alone.
  void forget(protocol::CgaId cga_id);
  bool knows(protocol::CgaId cga_id) const { return slot_of_[cga_id] != kNone; }
  // sm_cga_slots in use.
  std::uint32_t cgas() const { return used_; }
  // Throws CheckFailed if the id belongs to another CGA by now: an access of an old one has come too late (CGA-12).
  void check(protocol::CgaId cga_id, std::uint64_t sequence) const;

  // bl_table: the CGA of the CTA that a warp belongs to; none: a CTA of no CGA.
  void set_warp(std::uint32_t warp, std::optional<protocol::CgaId> cga_id);
  // For a warp that uses it. False while nothing is known of the CGA: before its first entry has come.
  bool enter_warp(std::uint32_t warp, std::optional<protocol::CgaId> cga_id) {
    if (cga_id && !knows(*cga_id)) return false;
    set_warp(warp, cga_id);
    return true;
  }

  // Where an access of a warp goes (CGA-06), or what the source sees to be wrong with it (CGA-07).
  enum class Found : std::uint8_t { ok, no_rank, absent, no_offset };
  struct Target {
    Found found = Found::ok;
    std::optional<protocol::CgaId> cga_id;
    std::uint32_t rank = 0;
    protocol::SmInGpc sm;
    std::uint32_t offset = 0;
    std::uint64_t sequence = 0;
  };
  // `address`: of DSMEM; `bytes`: of the access. A warp of no CGA finds nothing but itself at rank 0: see Found::ok
  // without cga_id.
  Target find(std::uint32_t warp, std::uint64_t address, std::uint32_t bytes, Cycle now) const;

  // Where a CTA was launched, if that is known.
  std::optional<protocol::SmInGpc> sm_of(protocol::CgaId cga_id, std::uint32_t rank) const {
    const std::uint32_t slot = slot_of_[cga_id];
    if (slot == kNone || rank >= cgas_[slot].ctas || cgas_[slot].sm[rank] == kNoSm) {
      return std::nullopt;
    }
    return protocol::SmInGpc(cgas_[slot].sm[rank]);
  }

  // CAM: the window of shared memory of a CTA that runs here. Windows have the numbers of CTA slots.
  void open_window(protocol::CgaId cga_id, std::uint32_t rank, std::uint32_t window);
  // One that is not in the CAM is left alone.
  void invalidate(std::uint32_t window);
  std::optional<std::uint32_t> match(protocol::CgaId cga_id, std::uint32_t rank) const;
  // Entries of the CAM.
  std::uint32_t windows() const { return windows_; }

  void reset();

 private:
  static constexpr std::uint8_t kNoSm = 0xFF;
  struct Cga {
    protocol::CgaId cga_id;
    std::uint64_t sequence = 0;
    std::uint32_t ctas = 0;                            // 0: none has been entered
    std::array<std::uint8_t, arch::kMaxCgaCtas> sm{};  // by rank: bit of the GPC's masks; kNoSm
    std::array<Cycle, arch::kMaxCgaCtas> from{};       // by rank
  };

  // The tag of the CAM. Its fields have 8 and 5 bits: no other pair has the same, and none is kNone.
  static constexpr std::uint32_t key_of(protocol::CgaId cga_id, std::uint32_t rank) {
    return cga_id * arch::kMaxCgaCtas + rank;
  }
  Cga& take(protocol::CgaId cga_id);
  void free_slot(protocol::CgaId cga_id);

  std::uint32_t largest_;
  std::uint32_t slots_;
  std::vector<Cga> cgas_;                // cga_cta2sm_dir, by sm_cga_slot
  std::vector<std::uint32_t> free_;      // sm_cga_slots
  std::vector<std::uint32_t> slot_of_;   // by gpc_local_cga_id
  std::vector<std::uint32_t> hosted_;    // by gpc_local_cga_id: mask of ranks; the SM is to answer the flush for them
  std::vector<std::uint32_t> bl_table_;  // sm_cga_slot by warp slot; kNone
  std::vector<std::uint32_t> cam_;       // tags by window; kNone
  std::uint32_t used_ = 0;
  std::uint32_t windows_ = 0;
};

// CGAs that had a CTA on this SM and have not been flushed: the SM answers the flush when nothing of them is in flight
// any more (CGA-11, CGA-12).
struct ResidentCga {
  enum class State : std::uint8_t {
    absent,
    here,
    flushing,  // the MPC waits for the answer
  };
  State state = State::absent;
  bool trapped = false;    // an error of a CTA that has gone was reported
  std::uint32_t ctas = 0;  // of it that are here
  Cycle quiet = 0;         // when all answers so far will have come
  std::uint64_t cga = 0;   // linear id
  protocol::CtaTag tag;
};

class ResidentCgas {
 public:
  ResidentCgas(Timebase& time, ClusterTables& tables, const DsmemFlights& flights, protocol::SmInGpc own,
               PacketSender<protocol::ClusterNoticePacket>& notices)
      : time_(time), tables_(tables), flights_(flights), own_(own), notices_(notices) {}

  // A CTA of a CGA starts here, with a program or without.
  void enter(const protocol::CtaStartPacket& start);
  // One of its CTAs here leaves at `when`.
  void leave(protocol::CgaId cga_id, Cycle when);
  // All CTAs of the CGA have completed: whatever is answered from now on concerns none.
  void flush(const protocol::ClusterOrderPacket& order, Cycle arrival);
  // A request of the CGA has been answered, which arrives at `when`.
  void answered(protocol::CgaId cga_id, Cycle when);
  // The CGA with that id, if it is still the one of that launch; null if it is not, or is being flushed.
  const ResidentCga* find(protocol::CgaId cga_id, std::uint64_t sequence) const;
  // An error of the CTA of that rank, which has gone, goes to the distributor.
  void trap(protocol::CgaId cga_id, std::uint32_t rank);

  // By gpc_local_cga_id; empty before the first CGA.
  const std::vector<ResidentCga>& all() const { return cgas_; }
  std::uint32_t count() const { return count_; }
  void reset();

 private:
  void flushed(protocol::CgaId cga_id);

  Timebase& time_;
  ClusterTables& tables_;
  const DsmemFlights& flights_;
  const protocol::SmInGpc own_;
  PacketSender<protocol::ClusterNoticePacket>& notices_;
  std::vector<ResidentCga> cgas_;
  std::uint32_t count_ = 0;
};

}  // namespace heddle::sm

// What the CTAs of an SM have to do with memory: whether they can go there, what of each is on its way, and what
// becomes of one that has gone (TSK-12).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sm/cta_image.h"
#include "sm/swap_peers.h"

namespace heddle::sm {

// Of one CTA.
struct CtaSave {
  enum class State : std::uint8_t {
    here,
    saving,
    claiming,    // the home of its context moves: it cannot end before that is decided
    parked,      // of a CGA: its state is in memory
    publishing,  // the same, and it writes the CGA's record
    published,   // the CGA is in memory
    restoring,   // its header has not come: it cannot end before that
    reading,     // its state comes
    restored,    // it is there, and waits for the others of its CGA
  };
  State state = State::here;
  std::uint32_t transfer = 0;          // unless it is here
  Cycle due = 0;                       // when it has waited long enough
  bool woken = false;                  // while its home moved
  bool makes_room = false;             // it is to be saved as soon as all its warps have stopped
  bool called = false;                 // its CGA is to make room
  bool with_cga = false;               // it is saved with its CGA
  bool announced = false;              // that it can be saved, to the GPM
  protocol::ClusterOrderPacket order;  // on its way
  std::vector<std::uint8_t> bytes;     // restored: its state
  std::uint64_t phases = 0;            // of its CGA's barrier, that had completed before it came here
  std::uint64_t record = 0;            // published: of its CGA
  std::uint64_t lacks = 0;             // chunks that were not free when it was last to be saved

  void lacks_chunks(const SavedHeader& header) { lacks = SaveLayout(header).chunks(); }
  bool is_here() const { return state == State::here; }
  bool is_parked() const { return state == State::parked || state == State::publishing || state == State::published; }
  bool is_saving() const { return state == State::saving || state == State::claiming || is_parked(); }
  // It cannot end meanwhile. A CTA that is saved with its CGA can go on, if another of the CGA has refused.
  bool holds() const {
    const bool member = state == State::saving && with_cga;
    return state == State::claiming || state == State::restoring || state == State::restored || is_parked() || member;
  }
};

// Whether anything goes on in a CTA.
class CtaRest final : private SmUnit {
 public:
  CtaRest(const UnitContext& context, const arch::LaunchMemory& memory, const SwapPeers& peers)
      : SmUnit(context), memory_(memory), peers_(peers) {}

  // Nothing goes on in it before its children have completed.
  bool all_wait(const Cta& cta) const;
  // All its warps have come to an instruction behind which they wait, or have been stopped.
  bool has_stopped(const Cta& cta) const;
  // Its warps are all there is of it: no access, copy, bulk request or result is on its way (TMA-31).
  bool is_settled(const Cta& cta, bool needs_home) const;

 private:
  bool can_go_with_cga(const Cta& cta) const;

  const arch::LaunchMemory& memory_;
  SwapPeers peers_;
};

class CtaSaves final : private SmUnit {
 public:
  enum Event : std::uint32_t {
    kWaited,   // a CTA may have waited long enough
    kOrdered,  // CtaSave::order has come
    kStopped,  // all warps of a CTA that makes room have stopped; what they had under way may be over
  };
  // `handler`: of the events; the argument is the CTA slot. `prefix`: of statistics.
  CtaSaves(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix,
           const SwapPeers& peers, EventHandler& handler);

  CtaSave& of(const Cta& cta) { return saves_[cta.start.cta_slot]; }
  const CtaSave& of(const Cta& cta) const { return saves_[cta.start.cta_slot]; }
  ContextTransfer& steps(const Cta& cta) { return *peers_.transfers[of(cta).transfer].steps; }
  Cycle began(const Cta& cta) { return peers_.transfers[of(cta).transfer].begin; }
  const CtaImage& image() const { return image_; }
  bool possible() const { return stats_.has_value(); }  // there are areas
  SaveStats& stats() { return *stats_; }
  // Its warps stop at their next instruction, and it is saved then; or it goes on, as it has not been.
  void freeze(const Cta& cta);
  void thaw(Cta& cta);
  // A warp of it has stopped.
  void stopped(const Cta& cta);
  void at(Cycle when, Event event, const Cta& cta) { time_.schedule(when, handler_, event, cta.start.cta_slot); }

  bool all_wait(const Cta& cta) const { return saves_[cta.start.cta_slot].is_here() && rest_.all_wait(cta); }
  bool has_stopped(const Cta& cta) const { return rest_.has_stopped(cta); }
  bool is_settled(const Cta& cta) const;
  // If it waits, its slot is somebody else's after a while.
  void consider(const Cta& cta);
  // What CTAs that wait are wanted for, from now on: those of the fewest levels of nesting go first, as what they wait
  // for takes longest.
  void want(const protocol::Preemption& wanted);
  bool is_wanted(const Cta& cta) const;

  // False: its state does not fit into an area.
  bool begin_save(Cta& cta, const SaveHome& home);
  void begin(Cta& cta, ContextTransfer steps, CtaSave::State state, Cycle when);
  void detach(Cta& cta);
  // It is in memory: whoever wakes its context finds it there from now on.
  void saved(Cta& cta);
  void put_back(Cta& cta, const std::vector<std::uint8_t>& bytes);
  // Memory has failed, or has been written to by somebody else: only the CTA is stopped by that (PRT-08).
  void failed(Cta& cta, arch::FaultKind kind, const std::string& where);
  void reset();

 private:
  const arch::LaunchMemory& memory_;
  SwapPeers peers_;
  EventHandler& handler_;
  CtaImage image_;
  CtaRest rest_;
  std::vector<CtaSave> saves_;      // by CTA slot
  protocol::Preemption wanted_;     // no CTAs: by nobody
  std::optional<SaveStats> stats_;  // none: there are no areas
};

}  // namespace heddle::sm

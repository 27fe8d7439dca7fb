// CTAs that wait for tasks that they have launched give up their slots: their state goes to memory and comes back, to
// this SM or to another one (TSK-12).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sm/cta_table.h"
#include "sm/issue_unit.h"
#include "sm/l1_cache.h"
#include "sm/l2_port.h"
#include "sm/saved_cta.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

class BulkUnit;
class CtaControl;
class CtaMemory;
class DeviceLaunchUnit;
class Faults;
class SmOccupancy;

class CtaSwap final : private SmUnit, public TransferListener, private EventHandler {
 public:
  struct Peers {
    TransferUnit& transfers;
    CtaControl& control;
    CtaMemory& windows;
    SharedMemory& shared;
    L1Cache& l1;
    BulkUnit& bulk;
    DeviceLaunchUnit& launches;
    Faults& faults;
    SmOccupancy& occupancy;
    TaskLink& tasks;
    WarpScheduler& scheduler;
    BarrierUnit& barriers;
    MbarrierUnit& mbarriers;
    PacketSender<protocol::ClusterNoticePacket>& notices;
  };
  // `prefix`: of statistics.
  CtaSwap(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix, const Peers& peers);

  // The CTA is new in its slot.
  void enter(const Cta& cta) { save_of(cta) = {}; }
  // A warp of the CTA has begun to wait, or has exited.
  void consider(Cta& cta);
  // A saved CTA arrives.
  void begin_restore(Cta& cta, Cycle arrival);
  // True: the wake is for later, if at all. While the home moves, its warps must not write there; and if it moves, this
  // wake was for something earlier.
  bool woken(Cta& cta);
  // The CTA goes on, or has been killed.
  void stop(Cta& cta);
  void transfer_changed(std::uint32_t transfer) override;
  // Less urgent CTAs make room (TSK-16).
  void make_room(const protocol::Preemption& wanted);
  // A warp of a CTA that is to make room has stopped.
  void stopped(Cta& cta);
  // The CTA's CGA is saved as a whole, or is not after all. Heard ahead.
  void on_order(const Cta& cta, const protocol::ClusterOrderPacket& order, Cycle arrival);
  void reset();

 private:
  // What a CTA has to do with memory.
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
  struct Save {
    State state = State::here;
    std::uint32_t transfer = 0;          // unless it is here
    Cycle due = 0;                       // when it has waited long enough
    bool woken = false;                  // while its home moved
    bool makes_room = false;             // it is to be saved as soon as all its warps have stopped
    bool with_cga = false;               // it is saved with its CGA
    bool announced = false;              // that it can be saved, to the GPM
    protocol::ClusterOrderPacket order;  // on its way
    std::vector<std::uint8_t> bytes;     // restored: its state
    bool is_parked() const { return state == State::parked || state == State::publishing || state == State::published; }
    // It cannot end meanwhile. A CTA that is saved with its CGA can go on, if another of the CGA has refused.
    bool holds() const {
      const bool member = state == State::saving && with_cga;
      return state == State::claiming || state == State::restoring || state == State::restored || is_parked() || member;
    }
  };

  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  Save& save_of(const Cta& cta) { return saves_[cta.start.cta_slot]; }
  enum Event : std::uint32_t {
    kWaited,   // it may have waited long enough
    kOrdered,  // Save::order has come
    kStopped,  // all warps of a CTA that makes room have stopped; what they had under way may be over
  };
  bool can_make_room(const Cta& cta, const protocol::Preemption& wanted) const;
  bool has_stopped(const Cta& cta) const;
  void preempt(Cta& cta);
  void save_to_make_room(Cta& cta);
  void thaw(Cta& cta);

  void obey(Cta& cta);
  bool all_wait(const Cta& cta) const;
  bool can_go_with_cga(const Cta& cta) const;
  bool waits_for_tasks(const Cta& cta) const;
  bool is_counted(const Cta& cta) const { return memory_.shared_contexts && cta.was_saved(); }
  SavedHeader header_of(const Cta& cta) const;
  void begin_save(Cta& cta, const ContextTransfer::Home& home);
  void tell(const Cta& cta, protocol::ClusterNoticePacket::Kind kind);
  void member_changed(Cta& cta);
  void refuse(Cta& cta);
  void restore_gone(Cta& cta);
  void take_id(Cta& cta, const SavedHeader& header);
  bool is_settled(const Cta& cta) const;
  SavedCta state_of(const Cta& cta) const;
  std::vector<ContextTransfer::Local> local_of(const Cta& cta) const;
  void begin(Cta& cta, ContextTransfer steps, State state, Cycle when);
  void detach(Cta& cta);
  void save_changed(Cta& cta);
  void saved(Cta& cta);
  void restore_changed(Cta& cta);
  void header_known(Cta& cta);
  void put_back(Cta& cta, const std::vector<std::uint8_t>& bytes);
  void put_back_warp(const Cta& cta, std::uint32_t number, const SavedWarp& saved);
  void transfer_failed(Cta& cta, arch::FaultKind kind, const std::string& where);

  const arch::LaunchMemory& memory_;
  Peers peers_;
  std::vector<Save> saves_;              // by CTA slot
  std::optional<SaveStats> save_stats_;  // none: there are no areas
};

}  // namespace heddle::sm

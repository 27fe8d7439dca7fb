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
  };
  // `prefix`: of statistics.
  CtaSwap(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix, const Peers& peers);

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
  void reset();

 private:
  // What a CTA has to do with memory.
  enum class State : std::uint8_t {
    here,
    saving,
    claiming,   // the home of its context moves: it cannot end before that is decided
    restoring,  // its header has not come: it cannot end before that
    reading,    // its state comes
  };
  struct Save {
    State state = State::here;
    std::uint32_t transfer = 0;  // unless it is here
    Cycle due = 0;               // when it has waited long enough
    bool woken = false;          // while its home moved
    bool holds() const { return state == State::claiming || state == State::restoring; }
  };

  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  Save& save_of(const Cta& cta) { return saves_[cta.start.cta_slot]; }
  bool all_wait(const Cta& cta) const;
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

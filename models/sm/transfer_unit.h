// The accesses that context transfers of CTAs take (TSK-12): made by warps behind those of CTAs, one for each transfer,
// which never issue and have nothing but registers for what comes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/index_pool.h"
#include "sm/accesses.h"
#include "sm/context_transfer.h"
#include "sm/issue_unit.h"
#include "sm/memory_port.h"

namespace heddle::sm {

class GlobalPath;

// A transfer goes on without its CTA if that cannot wait for it.
struct Transfer {
  struct Flight {
    bool busy = false;
    bool failed = false;
    ContextTransfer::Access access;
  };
  std::optional<ContextTransfer> steps;  // none: the place is free
  std::uint32_t cta = 0;                 // slot; kNoCta
  bool waits = false;                    // for the load-store unit
  Cycle begin = 0;
  Cycle not_before = 0;  // of the next access
  std::array<Flight, ContextTransfer::kWindow> flights;
};

class TransferListener {
 public:
  // An access of the transfer has been answered, and its CTA has not been detached.
  virtual void transfer_changed(std::uint32_t transfer) = 0;

 protected:
  ~TransferListener() = default;
};

class TransferUnit final : private SmUnit, public AccessClient, public GateListener, private EventHandler {
 public:
  struct Peers {
    const RequestGate& gate;
    GlobalPath& global;
    TransferListener& listener;
  };
  // `first_slot`: behind those of warps. `memory`: for the retries of steps.
  TransferUnit(const UnitContext& context, std::uint32_t first_slot, const arch::LaunchMemory& memory,
               const Peers& peers)
      : SmUnit(context), first_slot_(first_slot), memory_(memory), peers_(peers) {}

  // Its accesses begin at `when`, now or later.
  std::uint32_t begin(std::uint32_t cta_slot, ContextTransfer steps, Cycle when);
  Transfer& operator[](std::uint32_t transfer) { return transfers_[transfer]; }
  // From now on the transfer is alone: it gives back what it has taken.
  void detach(std::uint32_t transfer);
  void reset() { transfers_.clear(); }

  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override { access_ended(access, when); }
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;
  void gate_opened(Cycle when) override;

 private:
  enum Event : std::uint32_t {
    kGoesOn,    // argument: transfer
    kAnswered,  // argument: transfer, and above it the number of the access
  };
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void go_on(std::uint32_t index);
  void issue(std::uint32_t index);
  void answered(std::uint32_t index, std::uint32_t flight);

  const std::uint32_t first_slot_;
  const arch::LaunchMemory& memory_;
  Peers peers_;
  IndexPool<Transfer> transfers_;
};

}  // namespace heddle::sm

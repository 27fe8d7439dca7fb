// The entries of queue tasks: a CTA that has worked on one gives it back at its end, to the appender of a later ticket
// (TSK-05).
#pragma once

#include <cstdint>
#include <vector>

#include "sm/accesses.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class Faults;
class GlobalPath;

class QueueTurns final : private SmUnit, public AccessClient, private EventHandler {
 public:
  struct Peers {
    CtaSupervisor& supervisor;
    Faults& faults;
    GlobalPath& global;
  };
  QueueTurns(const UnitContext& context, const Peers& peers)
      : SmUnit(context), peers_(peers), giving_(context.params.limits.ctas) {}

  // Where the CTA's entry lies, and what gives it back.
  static void find(Cta& cta);
  // All that the CTA has read of its entry has come by `when`.
  void give(Cta& cta, Cycle when);

  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override;
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;

 private:
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;

  Peers peers_;
  std::vector<Cta::QueueTurn> giving_;  // by CTA slot: what its write is
};

}  // namespace heddle::sm

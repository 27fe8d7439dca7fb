// What goes wrong with operations of warps: who is told, and when it stops a CTA (MEM-05, CGA-07, CGA-08, TMA-06).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/index_pool.h"
#include "sm/accesses.h"
#include "sm/dsmem_paths.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class CtaControl;
class ResidentCgas;

arch::FaultKind fault_of(arch::DsmemStatus status);

class Faults final : private SmUnit, public DsmemErrorListener, private EventHandler {
 public:
  Faults(const UnitContext& context, CtaControl& control, ResidentCgas& cgas)
      : SmUnit(context), control_(control), cgas_(cgas) {}
  void on_fault(std::function<void(const arch::FaultRecord&)> sink) { sink_ = std::move(sink); }

  // The operation of the warp that issues now cannot be carried out.
  void raise(std::uint32_t slot, arch::OpCode code, const IssueFault& wrong);
  arch::FaultRecord record_of(const Warp& warp, arch::FaultKind kind, std::uint32_t pc) const;
  // Of no warp of it.
  arch::FaultRecord record_of(const Cta& cta, arch::FaultKind kind) const;
  // The fault stops the CTA now, or only goes on record.
  void stop(const arch::FaultRecord& record, std::uint32_t cta_slot);
  void note(const arch::FaultRecord& record);
  // It stops the CTA when it arrives, in record.cycle; until then, the CTA waits for it.
  void stop_later(const arch::FaultRecord& record, std::uint32_t cta_slot);
  // An error response to an access; `code` is the operation of the program that made it.
  void access_failed(const Access& access, arch::OpCode code, std::uint32_t lane, std::uint64_t address, Cycle when);
  void dsmem_failed(const Access& access, const ClusterError& error, Cycle when) override;
  void orphan_failed(const ClusterError& error, Cycle when) override;
  // The CTA leaves: errors of it that have not arrived are its CGA's.
  void orphan(std::uint32_t cta_slot);

  // All CTAs of the operation end, those that come later included.
  void abort(std::uint32_t operation);
  bool aborted(std::uint32_t operation) const;
  void reset();

 private:
  // An error whose fault has not arrived yet.
  struct Failure {
    std::optional<std::uint32_t> cta;  // none: it has gone
    protocol::CgaId cga_id;            // then
    std::uint64_t sequence = 0;
    arch::FaultRecord record;
  };
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void note_trap(std::uint32_t cga_id, std::uint32_t cta_id);
  bool attributable(const Access& access) const;
  void add(Failure failure);
  void trap(const Failure& failure);

  CtaControl& control_;
  ResidentCgas& cgas_;
  std::function<void(const arch::FaultRecord&)> sink_;
  IndexPool<Failure> failures_;
  std::vector<std::uint32_t> aborted_;  // operations
};

}  // namespace heddle::sm

// What the units of an SM have in common: how the scheduler hands an operation to one of them, what that comes to, and
// what they all know.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/fault.h"
#include "arch/gpu_observation.h"
#include "arch/race_checker.h"
#include "arch/warp_program.h"
#include "common/timebase.h"
#include "sm/sm_context.h"
#include "sm/sm_params.h"
#include "sm/warp.h"

namespace heddle::sm {

class CtaTable;
struct Cta;

struct IssueFault {
  arch::FaultKind kind = arch::FaultKind::unsupported;
  std::uint32_t lane = 0;
  std::uint64_t address = 0;
};

// What an operation came to when it issued.
struct IssueResult {
  enum class Kind : std::uint8_t {
    done,    // its registers hold values from `ready` on, and the next operation follows at `next`
    ready,   // the unit has seen to its registers; the next operation follows at `next`
    blocks,  // the unit wakes the warp, or the warp is gone
    fault,   // it cannot be carried out
  };
  Kind kind = Kind::blocks;
  Cycle ready = 0;
  Cycle next = 0;
  IssueFault wrong;

  IssueResult(Kind its_kind, Cycle its_ready, Cycle its_next) : kind(its_kind), ready(its_ready), next(its_next) {}
  IssueResult(const IssueFault& fault) : kind(Kind::fault), wrong(fault) {}  // NOLINT(*-explicit-*): checks end so

  static IssueResult done(Cycle ready, Cycle next) { return {Kind::done, ready, next}; }
  static IssueResult goes_on(Cycle next) { return {Kind::ready, 0, next}; }
  static IssueResult blocks() { return {Kind::blocks, 0, 0}; }
  static IssueResult fault(arch::FaultKind kind, std::uint32_t lane, std::uint64_t address) {
    return IssueFault{kind, lane, address};
  }
};

// A unit that carries out the operations of one arch::Executor. The warp has used its issue slot and is blocked.
class IssueUnit {
 public:
  virtual IssueResult issue(std::uint32_t slot, const arch::Operation& operation) = 0;
  // The operation was deferred, and what its release had to wait for has been answered.
  virtual IssueResult issue_deferred(std::uint32_t /*slot*/, const arch::Operation& /*operation*/) {
    HEDDLE_CHECK(false, "an operation was deferred that releases nothing");
    return IssueResult::blocks();
  }

 protected:
  ~IssueUnit() = default;
};

// Told by units of what concerns a CTA as a whole.
class CtaSupervisor {
 public:
  // An operation of the warp, `code`, cannot be carried out: the CTA is stopped.
  virtual void fault(std::uint32_t slot, arch::OpCode code, const IssueFault& wrong) = 0;
  // Something that the CTA waited for is over: it may end now, and its last part ended at `when`.
  virtual void check_end(Cta& cta, Cycle when) = 0;
  // A warp of the CTA has begun to wait for others, or has exited.
  virtual void warp_waits(Cta& cta) = 0;
  // A warp whose CTA is to be saved has come to its next instruction.
  virtual void warp_stops(std::uint32_t slot) = 0;

 protected:
  ~CtaSupervisor() = default;
};

// Operations with a release that must not be carried out before earlier requests have been answered.
class ReleaseQueue {
 public:
  // The operation comes back as IssueUnit::issue_deferred().
  virtual IssueResult defer(std::uint32_t slot, const arch::Operation& operation) = 0;

 protected:
  ~ReleaseQueue() = default;
};

struct UnitContext {
  Timebase& time;
  const SmParams& params;
  const SmContext& place;
  SmStats& stats;
  std::vector<Warp>& warps;  // by slot; none before the first CTA
  CtaTable& ctas;
  const char* name;  // of the SM, for messages
  SmRegisters& registers;
};

// Base of the units.
class SmUnit {
 protected:
  explicit SmUnit(const UnitContext& context)
      : time_(context.time),
        params_(context.params),
        place_(context.place),
        stats_(context.stats),
        warps_(context.warps),
        ctas_(context.ctas),
        name_(context.name),
        registers_(context.registers),
        races_(gpu_observation(context.time).races) {}
  ~SmUnit() = default;
  Cycle now() const { return time_.now(); }
  // For the race checker (arch/race_checker.h), if there is one: what a program of that kernel has done, at GPU scope
  // or wider.
  void note_acquire(std::uint32_t operation) const {
    if (races_ != nullptr) races_->program_acquires(operation, [&] { return name_of(operation); });
  }
  void note_release(std::uint32_t operation) const {
    if (races_ != nullptr) races_->program_releases(operation, [&] { return name_of(operation); });
  }
  // A warp has waited so long at the instruction that it has issued last; or at the one that it issues next.
  void waited(const StallCounter& stall, const Warp& warp, Cycle cycles) const {
    stall.cycles.add(cycles);
    if (stats_.charges()) stats_.kernels->stall(warp.kernel, stall.why, warp.issued_pc, cycles);
  }
  void waited_next(const StallCounter& stall, const Warp& warp, Cycle cycles) const {
    stall.cycles.add(cycles);
    if (stats_.charges()) stats_.kernels->stall(warp.kernel, stall.why, warp.state.pc, cycles);
  }
  std::string name_of(std::uint32_t operation) const { return gpu_observation(time_).labels.of(operation); }

  Timebase& time_;
  const SmParams& params_;
  const SmContext& place_;
  SmStats& stats_;
  std::vector<Warp>& warps_;
  CtaTable& ctas_;
  const char* name_;
  SmRegisters& registers_;
  arch::RaceChecker* const races_;  // null: off
};

}  // namespace heddle::sm

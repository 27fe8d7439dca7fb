// An entry of a PTX module as a program of operations: compiled code on the SMs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "arch/warp_program.h"
#include "ptx/lane_work.h"
#include "ptx/ptx_code.h"

namespace heddle::ptx {

// What instructions of registers alone work out is in the registers as soon as they are issued; nobody reads it before
// its time has come. Everything else is an operation that the SM carries out.
class PtxProgram : public arch::WarpProgram {
 public:
  explicit PtxProgram(PtxCode code) : code_(std::move(code)) {}

  std::uint32_t registers() const override { return code_.planes; }
  bool lets_dependents_go() const override { return code_.lets_go; }
  bool stores_bulk() const override;
  arch::TmauNeeds tmau_needs() const override;
  // Registers begin as zeros.
  void start(const arch::WarpPlace& place, arch::WarpState& state) const override;
  const arch::OperationNeeds& demand(const arch::WarpState& state) const override {
    return code_.instructions[state.pc].needs;
  }
  // Arrays of `operation` that its code does not use, and entries of lanes that do not take part, keep what they held.
  void issue(const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) const override;
  std::string describe(const arch::WarpState& state) const override;

  const PtxCode& code() const { return code_; }

 private:
  arch::LaneMask lanes_of(const arch::WarpState& state, const ResolvedInstruction& now) const;
  void advance(arch::WarpState& state) const;
  void end(arch::WarpState& state, arch::Operation& operation) const;
  void fault(arch::LaneMask lanes, arch::Operation& operation) const;
  void branch(arch::WarpState& state, const ResolvedInstruction& now, arch::LaneMask lanes) const;
  // One target at a time: lanes with another one come back.
  void table(LaneWork& work, arch::WarpState& state, const ResolvedInstruction& now, arch::LaneMask lanes,
             arch::Operation& operation) const;
  void barrier(const LaneWork& work, const ResolvedInstruction& now, arch::LaneMask lanes,
               arch::Operation& operation) const;
  void machine(const ResolvedInstruction& now, arch::Operation& operation) const;

  PtxCode code_;
};

}  // namespace heddle::ptx

// Accesses of compiled code, and what else the SM carries out, with everything worked out: which memory an address of a
// lane is in, and what the operation does there.
#pragma once

#include "arch/warp_program.h"
#include "ptx/lane_work.h"
#include "ptx/ptx_code.h"

namespace heddle::ptx {

class AccessWork {
 public:
  AccessWork(const PtxCode& code, const arch::WarpPlace& place, arch::WarpState& state, LaneWork& work)
      : code_(code), place_(place), state_(state), work_(work) {}

  // Fills the operation for as many of the lanes, which are some, as it can take at once. Returns the others: their
  // addresses are in another memory.
  arch::LaneMask fill(const ResolvedInstruction& now, arch::LaneMask lanes, arch::Operation& operation);

 private:
  // Where a lane's address is.
  struct Target {
    arch::Space space = arch::Space::global;
    std::uint64_t address = 0;
  };
  Target target(Window window, std::uint64_t address) const;
  // The lanes that are in the same memory as the first.
  arch::LaneMask aim(const AccessForm& form, PlaneRef base, arch::LaneMask lanes, arch::Operation& operation);
  std::uint64_t address_of(PlaneRef base, bool wide, std::int64_t offset, Window window, std::uint32_t lane) const;
  void store(const ResolvedInstruction& now, const AccessForm& form, arch::LaneMask lanes, arch::Operation& operation);
  arch::LaneMask complete(const ResolvedInstruction& now, const AccessForm& form, arch::LaneMask lanes,
                          arch::Operation& operation);
  arch::LaneMask copy(const ResolvedInstruction& now, const AccessForm& form, arch::LaneMask lanes,
                      arch::Operation& operation);
  void mbarrier(const ResolvedInstruction& now, const AccessForm& form, arch::LaneMask lanes,
                arch::Operation& operation);
  arch::LaneMask bulk(const ResolvedInstruction& now, arch::LaneMask lanes, arch::Operation& operation);
  arch::LaneMask warpgroup(const ResolvedInstruction& now, arch::LaneMask lanes, arch::Operation& operation);
  void set_operand(const BulkForm& form, const BulkOperand& operand, std::uint32_t lane, arch::BulkRequest& request,
                   std::array<std::uint32_t, 3>& offsets) const;

  const PtxCode& code_;
  const arch::WarpPlace& place_;
  arch::WarpState& state_;
  LaneWork& work_;
};

}  // namespace heddle::ptx

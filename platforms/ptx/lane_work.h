// What instructions do that are carried out when they are issued: moves, numbers of a thread's place, and exchanges
// between the lanes of a warp. Those of registers alone that compute are in ptx/lane_alu.h.
#pragma once

#include "arch/warp_program.h"
#include "ptx/ptx_code.h"

namespace heddle::ptx {

// Lets one instruction work on a warp's registers.
class LaneWork {
 public:
  LaneWork(const PtxCode& code, const arch::WarpPlace& place, arch::WarpState& state)
      : code_(code), place_(place), state_(state) {}

  // Whether run() carries out such an instruction.
  static bool runs(Action action);
  // For those of `lanes`, a part of those that take part.
  void run(const ResolvedInstruction& now, arch::LaneMask lanes);

  const std::uint32_t* plane(PlaneRef ref) const {
    return ref >= 0 ? state_.of(static_cast<std::uint16_t>(ref))
                    : code_.constants.data() + static_cast<std::size_t>(~ref) * arch::kWarpLanes;
  }
  std::uint32_t* own(PlaneRef ref) { return state_.of(static_cast<std::uint16_t>(ref)); }
  arch::LaneMask predicate(const PredicateRef& ref) const {
    const auto lanes = static_cast<arch::LaneMask>(state_.scalars[ref.scalar]);
    return ref.negated ? ~lanes : lanes;
  }
  void set_predicate(const PredicateRef& ref, arch::LaneMask value, arch::LaneMask lanes) {
    if (!ref.any()) return;
    std::int64_t& scalar = state_.scalars[ref.scalar];
    scalar = static_cast<arch::LaneMask>((static_cast<arch::LaneMask>(scalar) & ~lanes) | (value & lanes));
  }
  // Of one or two planes.
  std::uint64_t value(PlaneRef ref, std::uint32_t lane, bool wide) const {
    const std::uint32_t* at = plane(ref);
    return wide ? at[lane] | std::uint64_t{at[arch::kWarpLanes + lane]} << 32 : at[lane];
  }
  // An address as it is in instructions: the word of shared memory of the thread's own CTA is its offset.
  std::uint32_t own_word(std::uint32_t word) const;

 private:
  void alu(const ResolvedInstruction& now, arch::LaneMask lanes);
  void copy(const ResolvedInstruction& now, arch::LaneMask lanes);
  void narrow(const ResolvedInstruction& now, arch::LaneMask lanes);
  void pack(const ResolvedInstruction& now, arch::LaneMask lanes);
  void set_place(const ResolvedInstruction& now, arch::LaneMask lanes);
  void windows(const ResolvedInstruction& now, arch::LaneMask lanes);
  void shared_ranks(const ResolvedInstruction& now, arch::LaneMask lanes);
  // `here`: those of the lanes that are members.
  void votes(const ResolvedInstruction& now, arch::LaneMask here, arch::LaneMask lanes);
  void match(const ResolvedInstruction& now, arch::LaneMask here, arch::LaneMask lanes);
  void shuffle(const ResolvedInstruction& now, arch::LaneMask lanes);
  void reduce(const ResolvedInstruction& now, arch::LaneMask here, arch::LaneMask lanes);
  void matrix(const MatrixWork& work, arch::LaneMask lanes);
  std::uint64_t number(PlaceNumber which, std::uint32_t lane) const;
  // Of the lanes that an instruction names, those that take part in it.
  template <class Each>
  void each_group(const ResolvedInstruction& now, arch::LaneMask lanes, Each each) const;
  bool in_window(Window window, std::uint64_t address) const;
  void put(PlaneRef ref, std::uint32_t lane, std::uint64_t value, std::uint32_t planes);

  const PtxCode& code_;
  const arch::WarpPlace& place_;
  arch::WarpState& state_;
};

}  // namespace heddle::ptx

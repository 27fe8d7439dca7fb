// Where the lanes of a warp are: one path runs, others wait at instructions of their own.
//
// A branch that lanes disagree about splits a path. Of all paths that can run, the one in the block of the lowest rank
// runs; ranks follow the order of execution, and what is behind a loop has a higher one than the loop. So paths meet
// again at the immediate post-dominator of the branch that parted them, if not before, and are one path from there on.
//
// No path waits for ever for another that waits for it: one that has taken many branches back in a row, few if its loop
// looks at something that others write, lets another run out of turn.
#pragma once

#include <cstdint>

#include "arch/warp_program.h"
#include "ptx/ptx_code.h"

namespace heddle::ptx {

// Branches back, without another path having run, after which another one runs: of loops that poll, and of others.
constexpr std::int64_t kPollTurns = 4;
constexpr std::int64_t kLoopTurns = 10'000;

class WarpPaths {
 public:
  WarpPaths(const PtxCode& code, arch::WarpState& state) : code_(code), state_(state) {}

  arch::LaneMask active() const { return static_cast<arch::LaneMask>(state_.scalars[kActiveScalar]); }
  // Of all paths.
  arch::LaneMask alive() const;
  bool alone() const { return state_.scalars[kOthersScalar] == 0; }

  // Lanes that take the branch at pc go to `target`, the others of the path to the next instruction.
  void branch(arch::LaneMask taken, std::uint32_t target);
  // These lanes of the path go to `target`, the others stay at pc. settle() follows.
  void part(arch::LaneMask lanes, std::uint32_t target);
  // These of the path have ended. settle() follows.
  void leave(arch::LaneMask lanes);
  // Another path goes first, if one can run. settle() follows.
  void yield();
  // Those who wait at instructions of that kind for the same members as one of the lanes at pc, are behind them.
  void release(Action action, arch::LaneMask arrived);
  // Chooses who runs at pc. False: no lane is left.
  bool settle();

 private:
  static constexpr std::int64_t kParked = std::int64_t{1} << 60;

  // The next instruction that is not free, and who says for whom it waits.
  struct Meeting {
    std::uint32_t pc = 0;
    const std::uint32_t* masks = nullptr;  // of the lanes; none: for all
    arch::LaneMask of(std::uint32_t lane) const { return masks == nullptr ? ~arch::LaneMask{0} : masks[lane]; }
  };

  std::int64_t& slot(std::size_t index) const { return state_.scalars[code_.paths_at() + index]; }
  std::size_t others() const { return static_cast<std::size_t>(state_.scalars[kOthersScalar]); }
  static arch::LaneMask lanes_of(std::int64_t path) { return static_cast<arch::LaneMask>(path); }
  static std::uint32_t pc_of(std::int64_t path) { return static_cast<std::uint32_t>(path >> 32) & 0xFFF'FFFF; }
  std::uint64_t order_of(std::uint32_t pc) const { return std::uint64_t{code_.instructions[pc].rank} << 32 | pc; }
  void set_active(arch::LaneMask lanes) { state_.scalars[kActiveScalar] = lanes; }
  void push(std::uint32_t pc, arch::LaneMask lanes, bool parked);
  void remove(std::size_t index);
  void take(std::size_t index);
  void count_turn(const ResolvedInstruction& branch);
  void merge();
  Meeting meeting(std::uint32_t pc) const;
  // Those of the lanes that wait for these.
  static arch::LaneMask same(const Meeting& meeting, arch::LaneMask lanes, arch::LaneMask mask);
  // Active lanes for which all have come for whom they wait.
  arch::LaneMask gathered() const;
  // The first of those that can run (in_order: of those with the lowest order); others() if there is none.
  std::size_t runnable(bool in_order) const;

  const PtxCode& code_;
  arch::WarpState& state_;
};

}  // namespace heddle::ptx

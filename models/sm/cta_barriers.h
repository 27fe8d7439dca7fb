// The named barriers of one CTA.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/warp_program.h"

namespace heddle::sm {

// A barrier opens when as many warps have arrived as its count says, or, without a count, all warps of the CTA that
// have not exited: a warp that exits no longer counts, and can open a barrier by that. A count is a promise: a barrier
// that waits for more warps than are left is a fault.
class CtaBarriers {
 public:
  static constexpr std::uint32_t kBarriers = 16;

  enum class Outcome : std::uint8_t {
    waits,
    opens,  // for all warps in opened(), the one that arrived included
    wrong,  // number or count out of range, or another count than those that wait already gave
  };

  void start(std::uint32_t warps);
  // `threads`: 0: all of the CTA.
  Outcome arrive(std::uint32_t barrier, std::uint32_t threads, std::uint32_t warp);
  // The warp has exited; it does not wait at any barrier. `wrong`: a barrier waits for a count that cannot be reached.
  Outcome leave();
  // Warps of the CTA that the last arrive() or leave() let go on.
  const std::vector<std::uint32_t>& opened() const { return opened_; }

  // For messages: warps at a barrier, and how many it needs.
  const std::vector<std::uint32_t>& arrived(std::uint32_t barrier) const { return barriers_[barrier].warps; }
  std::uint32_t needed(std::uint32_t barrier) const;

  // All of its state, to save and restore it (TSK-12). Barriers at which nobody waits have none.
  struct Waiting {
    std::uint32_t barrier = 0;
    std::uint32_t threads = 0;         // as the first of them has said
    std::vector<std::uint32_t> warps;  // in the order of their arrival
    bool operator==(const Waiting& other) const {
      return barrier == other.barrier && threads == other.threads && warps == other.warps;
    }
  };
  struct State {
    std::uint32_t warps = 0;  // of the CTA
    std::uint32_t left = 0;   // that have not exited
    std::vector<Waiting> waiting;
    bool operator==(const State& other) const {
      return warps == other.warps && left == other.left && waiting == other.waiting;
    }
  };
  State save() const;
  // Throws InputError for a state that no CTA can be in.
  void restore(const State& state);

 private:
  struct Barrier {
    std::uint32_t threads = 0;
    std::vector<std::uint32_t> warps;  // that have arrived
  };
  void open(Barrier& barrier);

  std::array<Barrier, kBarriers> barriers_;
  std::vector<std::uint32_t> opened_;
  std::uint32_t warps_ = 0;  // of the CTA
  std::uint32_t left_ = 0;   // that have not exited
};

}  // namespace heddle::sm

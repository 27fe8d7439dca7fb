// The hardware barrier of one GPC_CGA, as its GPM sees it: who has been entered everywhere, who has arrived, who has
// gone (CGA-04, CGA-13).
#pragma once

#include <algorithm>
#include <cstdint>

#include "arch/dsmem.h"
#include "common/cycle.h"
#include "common/error.h"

namespace heddle::gpc {

// Notices may be heard ahead: each comes with the cycle in which it counts. CTAs are named by their ranks in the CGA.
class CgaBarrier {
 public:
  using Mask = std::uint32_t;  // bit = rank
  static constexpr std::uint32_t kMaxCtas = arch::kMaxCgaCtas;

  void open(std::uint32_t ctas) {
    HEDDLE_CHECK(ctas >= 1 && ctas <= kMaxCtas, "a GPC_CGA of that many CTAs does not exist");
    *this = {};
    all_ = ctas == kMaxCtas ? ~Mask{0} : (Mask{1} << ctas) - 1;
  }

  // The CTA has been launched, and all SMs know it from that cycle on.
  void enter(std::uint32_t rank, Cycle when) {
    const Mask bit = bit_of(rank);
    HEDDLE_CHECK((entered_ & bit) == 0, "a CTA of a CGA was entered twice");
    entered_ |= bit;
    entered_from_ = std::max(entered_from_, when);
    latest_ = std::max(latest_, when);
  }
  // All of its warps that run have arrived.
  void arrive(std::uint32_t rank, Cycle when) {
    const Mask bit = bit_of(rank);
    HEDDLE_CHECK((gone_ & bit) == 0, "a CTA has arrived at a cluster barrier after its completion");
    HEDDLE_CHECK((arrived_ & bit) == 0 && !due_, "a CTA has arrived twice at one phase of a cluster barrier");
    arrived_ |= bit;
    latest_ = std::max(latest_, when);
  }
  // It has completed, and no longer counts.
  void leave(std::uint32_t rank, Cycle when) {
    const Mask bit = bit_of(rank);
    HEDDLE_CHECK((gone_ & bit) == 0, "a CTA of a CGA has completed twice");
    gone_ |= bit;
    arrived_ &= ~bit;
    latest_ = std::max(latest_, when);
  }

  // True if what was noted last has completed a phase: all CTAs are launched and entered, one at least is there, and
  // all that are have arrived. It is asked after every note; the phase ends with release().
  bool completes() {
    if (due_ || entered_ != all_ || arrived_ == 0 || (arrived_ | gone_) != all_) return false;
    due_ = true;
    return true;
  }
  // When the last thing happened that completes() depends on.
  Cycle latest() const { return latest_; }
  // Warps go on: the next phase begins.
  void release() {
    HEDDLE_CHECK(due_, "a phase of a cluster barrier ended that was not complete");
    due_ = false;
    arrived_ = 0;
    ++phases_;
  }

  bool all_entered() const { return entered_ == all_; }
  Cycle entered_from() const { return entered_from_; }
  bool waited_for() const { return arrived_ != 0 && !due_; }
  Mask arrived() const { return arrived_; }
  Mask live() const { return entered_ & ~gone_; }
  Mask gone() const { return gone_; }
  Mask missing() const { return all_ & ~(arrived_ | gone_); }
  std::uint32_t phases() const { return phases_; }

 private:
  Mask bit_of(std::uint32_t rank) const {
    HEDDLE_CHECK(rank < kMaxCtas && (all_ >> rank & 1) != 0, "a CTA has a rank that its CGA does not have");
    return Mask{1} << rank;
  }

  Mask all_ = 0;
  Mask entered_ = 0;
  Mask arrived_ = 0;  // in this phase, and not gone
  Mask gone_ = 0;
  bool due_ = false;  // the phase is complete, and its end has not been told yet
  std::uint32_t phases_ = 0;
  Cycle entered_from_ = 0;
  Cycle latest_ = 0;
};

}  // namespace heddle::gpc

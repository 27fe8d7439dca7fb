// How fairly several owners share a machine, as one number: Jain's index of their normalised progress (PRT-09).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cycle.h"

namespace heddle {

// 1 if all shares are alike, 1/n if one of n has everything; 1 without any.
double jain_index(const std::vector<double>& shares);

// An owner has work while it has something of the machine or wants more. Its progress at an instant is
//
//   1                          if it wants no more than it has,
//   has / entitlement, most 1  if it wants more.
//
// So who has nothing and wants something makes none, an owner that is idle or small does not count as treated badly,
// and what somebody has beyond its entitlement is nobody's loss unless another one falls short of its own. The
// entitlement is what the configuration promises: the owner's weight, and where the weights of all that have work come
// to more than the machine, that part of the machine.
//
// The progress of an owner is the mean over its contested time: that in which it and at least one other have work. Only
// whole intervals between changes are added, so the result is exact.
class FairProgress {
 public:
  // `machine`: all that there is, in the unit of weights.
  explicit FairProgress(double machine) : machine_(machine) {}

  // Owners are numbered from 0 on; one that is not mentioned has weight 0 and no work. Times may not go backwards.
  void entitle(std::size_t owner, double weight, Cycle now);
  void set(std::size_t owner, double has, bool wants, Cycle now);

  Cycle contested(std::size_t owner, Cycle now);
  // 1 without contested time.
  double progress(std::size_t owner, Cycle now);
  // Over the owners with contested time; 1 without any.
  double index(Cycle now);
  void reset() { owners_.clear(); }

 private:
  struct Owner {
    double weight = 0;
    double has = 0;
    bool wants = false;
    double made = 0;      // progress, in cycles
    Cycle contested = 0;  // as far as `since`
    Cycle since = 0;
    bool works() const { return has > 0 || wants; }
  };

  Owner& at(std::size_t owner);
  // Brings all of them up to date.
  void settle(Cycle now);

  double machine_;
  std::vector<Owner> owners_;
};

}  // namespace heddle

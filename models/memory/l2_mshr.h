// Miss-status holding registers: which lines are being fetched, and which requests wait for each.
#pragma once

#include <cstdint>

#include "common/index_pool.h"
#include "memory/l2_access.h"

namespace heddle::memory {

class L2Mshrs {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Mshr {
    std::uint32_t index = 0;      // of the line in the array
    std::uint32_t first = kNone;  // targets, in the order of their arrival
    std::uint32_t last = kNone;
    std::uint8_t pending = 0;   // sectors that are being fetched
    std::uint8_t deferred = 0;  // of these, the ones not asked for before the line's write-backs are done
    int status = 1;             // of the last answer that was an error
  };
  // A request that waits for a line.
  struct Target {
    L2Access access;
    void* request = nullptr;
    std::uint32_t next = kNone;
  };

  // `targets`: requests that can wait, over all MSHRs.
  L2Mshrs(std::uint32_t mshrs, std::uint32_t targets) : mshr_limit_(mshrs), target_limit_(targets) {}

  bool full() const { return mshrs_.in_use() >= mshr_limit_; }
  bool targets_full() const { return targets_.in_use() >= target_limit_; }
  std::uint32_t in_use() const { return static_cast<std::uint32_t>(mshrs_.in_use()); }

  // An MSHR for a line of the array; full() does not hold.
  std::uint32_t take(std::uint32_t index) {
    const std::uint32_t number = mshrs_.take();
    mshrs_[number] = Mshr();
    mshrs_[number].index = index;
    return number;
  }
  void give_back(std::uint32_t number) { mshrs_.give_back(number); }
  Mshr& operator[](std::uint32_t number) { return mshrs_[number]; }

  // Behind the targets that the MSHR has; targets_full() does not hold.
  void append(std::uint32_t number, const L2Access& access, void* request) {
    const std::uint32_t target = targets_.take();
    targets_[target] = {access, request, kNone};
    Mshr& mshr = mshrs_[number];
    (mshr.first == kNone ? mshr.first : targets_[mshr.last].next) = target;
    mshr.last = target;
  }
  bool has_target(std::uint32_t number) const { return mshrs_[number].first != kNone; }
  const Target& first_target(std::uint32_t number) const { return targets_[mshrs_[number].first]; }
  void pop_target(std::uint32_t number) {
    Mshr& mshr = mshrs_[number];
    const std::uint32_t target = mshr.first;
    mshr.first = targets_[target].next;
    targets_.give_back(target);
  }

  void reset() {
    mshrs_.clear();
    targets_.clear();
  }

 private:
  std::uint32_t mshr_limit_;
  std::uint32_t target_limit_;
  IndexPool<Mshr> mshrs_;
  IndexPool<Target> targets_;
};

}  // namespace heddle::memory

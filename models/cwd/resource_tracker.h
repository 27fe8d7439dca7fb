// The resource tracker (TRT) of one TPC: what is in use on its SMs (CWD-02).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/sm_limits.h"
#include "common/error.h"

namespace heddle::cwd {

class ResourceTracker {
 public:
  ResourceTracker(const arch::ResourceVector& capacity, std::uint32_t sms)
      : capacity_(capacity), used_(sms), base_(sms) {}

  // `sm`: in the TPC.
  void launch(std::uint32_t sm, const arch::ResourceVector& need) {
    used_[sm].add(need);
    HEDDLE_CHECK(used_[sm].within(capacity_), "a CTA was launched on an SM without room for it");
  }
  void complete(std::uint32_t sm, const arch::ResourceVector& need) { used_[sm].subtract(need); }
  std::uint32_t free_slots(std::uint32_t sm, const arch::ResourceVector& need) const {
    return enabled_ ? arch::free_slots(capacity_, used_[sm], need) : 0;
  }
  const arch::ResourceVector& used(std::uint32_t sm) const { return used_[sm]; }

  // The entry of the TPC enable table: a disabled TPC has no free slots.
  bool enabled() const { return enabled_; }
  void enable(bool enabled) { enabled_ = enabled; }

  // What something else than CTAs holds, from the start and after every reset. It must fit.
  void preload(std::uint32_t sm, const arch::ResourceVector& amount) {
    base_[sm].add(amount);
    used_[sm].add(amount);
    HEDDLE_CHECK(used_[sm].within(capacity_), "an SM is to hold more than it can");
  }
  void unload(std::uint32_t sm, const arch::ResourceVector& amount) { used_[sm].subtract(amount); }

  void reset() {
    used_ = base_;
    enabled_ = true;
  }

 private:
  arch::ResourceVector capacity_;
  std::vector<arch::ResourceVector> used_;  // by SM of the TPC
  std::vector<arch::ResourceVector> base_;
  bool enabled_ = true;
};

}  // namespace heddle::cwd

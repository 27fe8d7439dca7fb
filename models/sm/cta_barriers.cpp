#include "sm/cta_barriers.h"

#include "common/error.h"

namespace heddle::sm {

void CtaBarriers::start(std::uint32_t warps) {
  for (Barrier& barrier : barriers_) barrier.warps.clear();
  opened_.clear();
  warps_ = left_ = warps;
}

std::uint32_t CtaBarriers::needed(std::uint32_t barrier) const {
  const std::uint32_t threads = barriers_[barrier].threads;
  return threads == 0 ? left_ : threads / arch::kWarpLanes;
}

CtaBarriers::Outcome CtaBarriers::arrive(std::uint32_t number, std::uint32_t threads, std::uint32_t warp) {
  opened_.clear();
  if (number >= kBarriers || threads % arch::kWarpLanes != 0 || threads > warps_ * arch::kWarpLanes) {
    return Outcome::wrong;
  }
  Barrier& barrier = barriers_[number];
  if (!barrier.warps.empty() && barrier.threads != threads) return Outcome::wrong;
  barrier.threads = threads;
  barrier.warps.push_back(warp);
  if (needed(number) > left_) return Outcome::wrong;
  if (barrier.warps.size() < needed(number)) return Outcome::waits;
  open(barrier);
  return Outcome::opens;
}

CtaBarriers::Outcome CtaBarriers::leave() {
  HEDDLE_CHECK(left_ > 0, "more warps exited than a CTA has");
  opened_.clear();
  --left_;
  for (std::uint32_t number = 0; number < kBarriers; ++number) {
    Barrier& barrier = barriers_[number];
    if (barrier.warps.empty()) continue;
    if (needed(number) > left_) return Outcome::wrong;
    if (barrier.warps.size() == needed(number)) open(barrier);
  }
  return opened_.empty() ? Outcome::waits : Outcome::opens;
}

void CtaBarriers::open(Barrier& barrier) {
  opened_.insert(opened_.end(), barrier.warps.begin(), barrier.warps.end());
  barrier.warps.clear();
}

}  // namespace heddle::sm

#include "sm/cta_barriers.h"

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::sm {
namespace {

[[noreturn]] void not_a_state(std::uint32_t barrier, const char* why) {
  throw InputError(fmt::format("the saved state of barrier {} of a CTA is damaged: {}", barrier, why),
                   "restore what save() gave, whole");
}

}  // namespace

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

CtaBarriers::State CtaBarriers::save() const {
  State state;
  state.warps = warps_;
  state.left = left_;
  for (std::uint32_t number = 0; number < kBarriers; ++number) {
    const Barrier& barrier = barriers_[number];
    if (!barrier.warps.empty()) state.waiting.push_back({number, barrier.threads, barrier.warps});
  }
  return state;
}

void CtaBarriers::restore(const State& state) {
  if (state.left > state.warps) not_a_state(0, "more warps are left than there are");
  std::vector<bool> seen(state.warps);
  std::array<bool, kBarriers> used{};
  std::uint32_t waiting = 0;
  for (const Waiting& its : state.waiting) {
    if (its.barrier >= kBarriers) not_a_state(its.barrier, "there is no such barrier");
    if (used[its.barrier]) not_a_state(its.barrier, "it occurs twice");
    used[its.barrier] = true;
    if (its.threads % arch::kWarpLanes != 0) not_a_state(its.barrier, "its count is not of whole warps");
    const std::uint32_t needed = its.threads == 0 ? state.left : its.threads / arch::kWarpLanes;
    if (needed > state.left) not_a_state(its.barrier, "it waits for more warps than are left");
    if (its.warps.empty() || its.warps.size() >= needed) not_a_state(its.barrier, "nobody waits, or all have come");
    for (const std::uint32_t warp : its.warps) {
      if (warp >= state.warps || seen[warp]) not_a_state(its.barrier, "a warp does not exist, or waits twice");
      seen[warp] = true;
      ++waiting;
    }
  }
  if (waiting > state.left) not_a_state(0, "more warps wait than are left");
  start(state.warps);
  left_ = state.left;
  for (const Waiting& its : state.waiting) {
    barriers_[its.barrier].threads = its.threads;
    barriers_[its.barrier].warps = its.warps;
  }
}

void CtaBarriers::open(Barrier& barrier) {
  opened_.insert(opened_.end(), barrier.warps.begin(), barrier.warps.end());
  barrier.warps.clear();
}

}  // namespace heddle::sm

#include "sm/fence_unit.h"

#include <algorithm>

#include "sm/cta_table.h"
#include "sm/device_launch_unit.h"
#include "sm/global_path.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

using arch::Operation;
using arch::Scope;

IssueResult FenceUnit::issue(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle next = now() + 1;
  warp.write_results(next);
  if (operation.scope == Scope::cta) return IssueResult::goes_on(next);
  warp.acquires = arch::acquires(operation.order);
  const bool releases = arch::releases(operation.order);
  // An acquire waits as well: what was read before it must not come later than what is read behind it.
  if (!releases && !warp.acquires) return IssueResult::goes_on(next);
  wait(slot, releases && operation.scope == Scope::system);
  return IssueResult::blocks();
}

IssueResult FenceUnit::defer(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  warp.keep(operation);
  warp.next = WarpNext::deferred;
  wait(slot, operation.scope == Scope::system);
  return IssueResult::blocks();
}

void FenceUnit::wait(std::uint32_t slot, bool flushes) {
  Warp& warp = warps_[slot];
  ReleaseWait& release = warp.release;
  release.flushes = flushes;
  release.epoch = peers_.tracker.epoch();
  warp.since = now() + 1;
  warp.wait = WarpWait::order;
  // Some may have been answered ahead of time.
  release.answered = peers_.tracker.latest();
  if (!peers_.tracker.done(release.epoch)) {
    waiting_.push_back(slot);
    return;
  }
  if (release.answered > now()) return acknowledge(slot);
  release.acknowledged = now();
  acknowledged(slot);
}

void FenceUnit::forget(std::uint32_t slot) {
  const auto found = std::find(waiting_.begin(), waiting_.end(), slot);
  if (found != waiting_.end()) waiting_.erase(found);
}

// All that the warp's release waits for has been answered, and the warp gets to know that later.
void FenceUnit::acknowledge(std::uint32_t slot) {
  ReleaseWait& release = warps_[slot].release;
  const Cycle rest = params_.memory.l1_latency - params_.memory.l1_tag_latency;
  release.acknowledged = std::max(release.answered, now()) + rest;
  time_.schedule(release.acknowledged, *this, 0, slot);
}

void FenceUnit::request_ended(FenceTracker::Epoch epoch, Cycle when) {
  for (std::size_t i = 0; i < waiting_.size();) {
    const std::uint32_t slot = waiting_[i];
    ReleaseWait& release = warps_[slot].release;
    if (epoch <= release.epoch) release.answered = std::max(release.answered, when);
    if (!peers_.tracker.done(release.epoch)) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    acknowledge(slot);
  }
}

void FenceUnit::on_event(std::uint32_t, std::uint64_t argument) { acknowledged(static_cast<std::uint32_t>(argument)); }

void FenceUnit::acknowledged(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  ReleaseWait& release = warp.release;
  // It may have been killed meanwhile, and its slot may have a new owner.
  if (warp.wait != WarpWait::order || !peers_.tracker.done(release.epoch)) return;
  if (release.acknowledged != now()) return;
  if (!release.flushes) return released(slot, now());
  release.flushes = false;
  warp.wait = WarpWait::flush;
  const MemoryResult result = peers_.global.flush(slot, now(), peers_.flushes);
  Cta& cta = ctas_[warp.cta];
  if (result.open) {
    if (!result.lost) ++cta.open;
    return;
  }
  cta.landed = std::max(cta.landed, result.arrival);
  released(slot, result.ready);
}

void FenceUnit::released(std::uint32_t slot, Cycle when) {
  Warp& warp = warps_[slot];
  const Cycle from = std::max(when, warp.since);
  stats_.stall_memory.add(from - warp.since);
  switch (warp.next) {
    case WarpNext::launch:
      return peers_.launches.released(slot, from);
    case WarpNext::deferred:
      return peers_.scheduler.give_turn(slot, from, warp.unit);
    default:
      if (warp.acquires) peers_.l1.invalidate_all();
      return peers_.scheduler.prepare(slot, from);
  }
}

}  // namespace heddle::sm

#include "fluid/fluid_core.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error.h"

namespace heddle::fluid {
namespace {

constexpr double kDone = 1e-9;     // of a CTA: what rounding may leave of its work
constexpr double kLongest = 1e18;  // cycles: what takes longer has to get a higher rate first

}  // namespace

FluidCore::FluidCore(FluidMachine machine, double tolerance)
    : machine_(std::move(machine)), shares_(machine_, works_, mixes_, tolerance), sms_(machine_.gpc_of.size()) {}

std::uint32_t FluidCore::add_kernel(const arch::Demand& demand) {
  works_.push_back(work_of(demand, machine_));
  return static_cast<std::uint32_t>(works_.size() - 1);
}

void FluidCore::enter(std::uint32_t number, std::uint32_t slot, std::uint32_t kernel, double left, Cycle now) {
  Sm& sm = sms_[number];
  advance(sm, now);
  auto lane =
      std::find_if(sm.lanes.begin(), sm.lanes.end(), [kernel](const Lane& its) { return its.kernel == kernel; });
  if (lane == sm.lanes.end()) {
    lane = sm.lanes.emplace(lane);
    lane->kernel = kernel;
    lane->begun = now;
  }
  const double end = lane->done + left + begin_of(number, *lane, now);
  auto place = lane->ctas.end();
  while (place != lane->ctas.begin() && (place - 1)->end > end) --place;
  lane->ctas.insert(place, {end, slot, ++entered_});
  sm.mix = mixes_.with(sm.mix, kernel);
  ++resident_;
  touch(number);
}

// Constants and descriptors come to an SM once for a kernel: its first CTAs wait for them as long as the queues on the
// way are; what they take otherwise is in their floor. As work, at the rate that a CTA can have meanwhile.
double FluidCore::begin_of(std::uint32_t number, const Lane& lane, Cycle now) const {
  const CtaWork& work = works_[lane.kernel];
  if (work.begins <= 0 || static_cast<double>(now - lane.begun) > machine_.memory_latency) return 0;
  const Waiting waiting = shares_.waiting(machine_.gpc_of[number], lane.kernel);
  if (waiting.read <= 0) return 0;
  return work.begins * waiting.read / std::max(1 / work.pace, work.cycles(waiting));
}

double FluidCore::leave(std::uint32_t number, std::uint32_t slot, Cycle now) {
  Sm& sm = sms_[number];
  advance(sm, now);
  for (auto lane = sm.lanes.begin(); lane != sm.lanes.end(); ++lane) {
    const auto cta =
        std::find_if(lane->ctas.begin(), lane->ctas.end(), [slot](const Cta& its) { return its.slot == slot; });
    if (cta == lane->ctas.end()) continue;
    const double left = std::clamp(cta->end - lane->done, kDone, 1.0);
    lane->ctas.erase(cta);
    sm.mix = mixes_.without(sm.mix, lane->kernel);
    if (lane->ctas.empty()) sm.lanes.erase(lane);
    order(sm);
    --resident_;
    touch(number);
    return left;
  }
  HEDDLE_CHECK(false, "a CTA leaves an SM that does not have it");
  return 0;
}

const std::vector<FluidCore::Ended>& FluidCore::take_ended(std::uint32_t number, Cycle now) {
  ended_.clear();
  Sm& sm = sms_[number];
  advance(sm, now);
  for (std::size_t i = 0; i < sm.lanes.size();) {
    Lane& lane = sm.lanes[i];
    auto cta = lane.ctas.begin();
    for (; cta != lane.ctas.end() && cta->end <= lane.done + kDone; ++cta) {
      ended_.push_back({cta->slot, lane.kernel});
      sm.mix = mixes_.without(sm.mix, lane.kernel);
    }
    lane.ctas.erase(lane.ctas.begin(), cta);
    if (lane.ctas.empty()) {
      sm.lanes.erase(sm.lanes.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  order(sm);
  resident_ -= static_cast<std::uint32_t>(ended_.size());
  touch(number);  // of none: its next end is later than it was thought to be
  return ended_;
}

const std::vector<std::uint32_t>& FluidCore::settle(Cycle now) {
  for (const std::uint32_t number : changed_) {
    Sm& sm = sms_[number];
    const std::uint32_t group = shares_.group(machine_.gpc_of[number], sm.mix);
    shares_.move(sm.group, group);
    sm.group = group;
  }
  told_.clear();
  if (shares_.is_astray()) {
    shares_.solve();
    for (std::uint32_t number = 0; number < sms_.size(); ++number) {
      Sm& sm = sms_[number];
      if (sm.lanes.empty() && !sm.changed) continue;
      if (take_rates(sm, now) || sm.changed) told_.push_back(number);
    }
  } else {
    for (const std::uint32_t number : changed_) {
      take_rates(sms_[number], now);
      told_.push_back(number);
    }
  }
  for (const std::uint32_t number : changed_) sms_[number].changed = false;
  changed_.clear();
  for (const std::uint32_t number : told_) sms_[number].next = next_of(sms_[number]);
  return told_;
}

std::array<std::uint32_t, kResources + 1> FluidCore::held() const {
  std::array<std::uint32_t, kResources + 1> ctas{};
  for (const Sm& sm : sms_) {
    for (const Lane& lane : sm.lanes) ctas[lane.limit] += static_cast<std::uint32_t>(lane.ctas.size());
  }
  return ctas;
}

void FluidCore::reset() {
  for (Sm& sm : sms_) sm = {};
  changed_.clear();
  limited_ = {};
  resident_ = 0;
  entered_ = 0;
  shares_.reset();
}

void FluidCore::advance(Sm& sm, Cycle now) {
  const Cycle passed = now - sm.since;
  sm.since = now;
  if (passed == 0) return;
  for (Lane& lane : sm.lanes) {
    lane.done += lane.rate * static_cast<double>(passed);
    limited_[lane.limit] += passed * lane.ctas.size();
  }
}

// Kernels by the age of their oldest CTAs.
void FluidCore::order(Sm& sm) {
  if (sm.lanes.size() < 2) return;
  const auto older = [](const Lane& a, const Lane& b) { return a.oldest() < b.oldest(); };
  if (std::is_sorted(sm.lanes.begin(), sm.lanes.end(), older)) return;
  std::sort(sm.lanes.begin(), sm.lanes.end(), older);
  SmMixes::Lanes lanes;
  for (const Lane& lane : sm.lanes) lanes.push_back({lane.kernel, static_cast<std::uint32_t>(lane.ctas.size())});
  sm.mix = mixes_.find(lanes);
}

void FluidCore::touch(std::uint32_t number) {
  Sm& sm = sms_[number];
  if (sm.changed) return;
  sm.changed = true;
  changed_.push_back(number);
}

bool FluidCore::take_rates(Sm& sm, Cycle now) {
  if (sm.group == WideShares::kNone) return true;
  const std::vector<Level>& levels = shares_.levels(sm.group);
  bool differs = false;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    differs |= sm.lanes[i].rate != levels[i].part * works_[sm.lanes[i].kernel].pace;
  }
  if (differs) advance(sm, now);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    Lane& lane = sm.lanes[i];
    lane.rate = levels[i].part * works_[lane.kernel].pace;
    lane.limit = levels[i].limit;
  }
  return differs;
}

Cycle FluidCore::next_of(const Sm& sm) {
  Cycle next = kNever;
  for (const Lane& lane : sm.lanes) {
    if (lane.rate <= 0) continue;
    const double cycles = std::max(0.0, lane.ctas.front().end - lane.done) / lane.rate;
    if (cycles >= kLongest) continue;
    next = std::min(next, sm.since + std::max<Cycle>(1, static_cast<Cycle>(std::ceil(cycles - 1e-6))));
  }
  return next;
}

}  // namespace heddle::fluid

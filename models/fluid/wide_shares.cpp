#include "fluid/wide_shares.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"

namespace heddle::fluid {
namespace {

constexpr double kRounding = 1e-9;  // of sums of flows, as a part of the capacity

}  // namespace

WideShares::WideShares(const FluidMachine& machine, const std::vector<CtaWork>& works, const SmMixes& mixes,
                       double tolerance)
    : machine_(machine),
      works_(works),
      mixes_(mixes),
      tolerance_(std::max(tolerance, kRounding)),
      first_pool_(machine.gpcs.size() * kGpcWides),
      wides_(first_pool_ + machine.pools.size() * (kWides - kGpcWides)) {
  for (std::uint32_t gpc = 0; gpc < machine.gpcs.size(); ++gpc) {
    for (std::size_t i = 0; i < kWides; ++i) {
      wides_[index(gpc, i)].capacity = machine.capacity(gpc, static_cast<Resource>(kLocals + i));
    }
  }
}

std::uint32_t WideShares::group(std::uint32_t gpc, std::uint32_t mix) {
  if (mix == SmMixes::kEmpty) return kNone;
  if (mix >= known_.size()) known_.resize(mix + 1);
  std::vector<std::uint32_t>& by_gpc = known_[mix];
  if (by_gpc.empty()) by_gpc.assign(machine_.gpcs.size(), kNone);
  if (by_gpc[gpc] == kNone) {
    by_gpc[gpc] = static_cast<std::uint32_t>(groups_.size());
    groups_.emplace_back();
    groups_.back().gpc = gpc;
    groups_.back().mix = mix;
  }
  return by_gpc[gpc];
}

void WideShares::move(std::uint32_t from, std::uint32_t to) {
  if (from == to) return;
  if (from != kNone) {
    Group& group = current(from);
    add(group, -1);
    HEDDLE_CHECK(group.sms > 0, "an SM leaves a class that has none");
    if (--group.sms == 0) {
      active_[group.place] = active_.back();
      groups_[active_.back()].place = group.place;
      active_.pop_back();
      group.place = kNone;
    }
  }
  if (to != kNone) {
    Group& group = current(to);
    add(group, 1);
    if (group.sms++ == 0) {
      group.place = static_cast<std::uint32_t>(active_.size());
      active_.push_back(to);
    }
  }
}

bool WideShares::is_astray() const {
  if (active_.empty()) return false;
  return std::any_of(wides_.begin(), wides_.end(), [this](const Wide& wide) {
    const double over = wide.flow - wide.capacity;
    return over > tolerance_ * wide.capacity || (wide.full && over < -tolerance_ * wide.capacity);
  });
}

// A resource that is used up stops all that use it at one level. Among those that would be used beyond their capacity,
// the one that stops its users first is not touched by what the others do; it is settled, and the rest follows.
void WideShares::solve() {
  ++solves_;
  for (Wide& wide : wides_) {
    wide.full = false;
    wide.part = 1;
  }
  while (true) {
    ++epoch_;
    sum_flows();
    std::size_t first = wides_.size();
    double least = 2;
    for (std::size_t i = 0; i < wides_.size(); ++i) {
      const Wide& wide = wides_[i];
      if (wide.full || wide.flow <= wide.capacity * (1 + kRounding)) continue;
      const double part = part_at_capacity(i);
      if (part >= least) continue;
      least = part;
      first = i;
    }
    if (first == wides_.size()) return;
    wides_[first].full = true;
    wides_[first].part = least;
  }
}

double WideShares::use(std::uint32_t gpc, Resource wide) const {
  const Wide& its = wides_[index(gpc, static_cast<std::size_t>(wide) - kLocals)];
  return its.flow / its.capacity;
}

void WideShares::reset() {
  for (Wide& wide : wides_) {
    wide.flow = 0;
    wide.full = false;
    wide.part = 1;
  }
  for (const std::uint32_t number : active_) {
    groups_[number].sms = 0;
    groups_[number].place = kNone;
  }
  active_.clear();
  solves_ = 0;
  ++epoch_;
}

WideShares::Group& WideShares::current(std::uint32_t number) {
  Group& group = groups_[number];
  if (group.epoch != epoch_) set_levels(group);
  return group;
}

void WideShares::set_levels(Group& group) {
  const SmMixes::Lanes& lanes = mixes_.lanes(group.mix);
  group.levels.resize(lanes.size());
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const CtaWork& work = works_[lanes[lane].kernel];
    Level& level = group.levels[lane];
    level = {1, work.limit};
    for (std::size_t i = 0; i < kWides; ++i) {
      const Wide& wide = wides_[index(group.gpc, i)];
      if (!wide.full || work.flow[i] <= 0 || wide.part >= level.part) continue;
      level = {wide.part, static_cast<std::uint8_t>(kLocals + i)};
    }
  }
  fill(lanes, works_, group.levels);
  group.flows = {};
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const double pace = lanes[lane].ctas * group.levels[lane].part;
    for (std::size_t i = 0; i < kWides; ++i) group.flows[i] += pace * works_[lanes[lane].kernel].flow[i];
  }
  group.epoch = epoch_;
}

void WideShares::add(const Group& group, double sms) {
  for (std::size_t i = 0; i < kWides; ++i) wides_[index(group.gpc, i)].flow += sms * group.flows[i];
}

void WideShares::sum_flows() {
  for (Wide& wide : wides_) wide.flow = 0;
  for (const std::uint32_t number : active_) {
    const Group& group = current(number);
    add(group, group.sms);
  }
}

// Levels below the one that is sought are those of resources that are settled already, or of SMs.
double WideShares::part_at_capacity(std::size_t wide) {
  steps_.clear();
  double slope = 0;
  for (const std::uint32_t number : active_) {
    const Group& group = groups_[number];
    for (std::size_t i = 0; i < kWides; ++i) {
      if (index(group.gpc, i) != wide) continue;
      const SmMixes::Lanes& lanes = mixes_.lanes(group.mix);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const double flow = works_[lanes[lane].kernel].flow[i] * lanes[lane].ctas * group.sms;
        if (flow <= 0) continue;
        steps_.emplace_back(group.levels[lane].part, flow);
        slope += flow;
      }
    }
  }
  std::sort(steps_.begin(), steps_.end());
  double settled = 0;
  for (const auto& [part, flow] : steps_) {
    const double at = (wides_[wide].capacity - settled) / slope;
    if (at <= part) return at;
    settled += part * flow;
    slope -= flow;
  }
  return 1;
}

}  // namespace heddle::fluid

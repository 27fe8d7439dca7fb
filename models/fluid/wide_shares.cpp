#include "fluid/wide_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/error.h"

namespace heddle::fluid {
namespace {

constexpr double kPi = 3.141592653589793;
constexpr double kRounding = 1e-9;  // of sums of flows, as a part of the capacity
constexpr int kSteps = 200;         // to find one delay: bisection alone would take 60
constexpr int kRounds = 200;        // over all delays, each of which changes what the others have to be

// The resource whose queue makes a CTA wait longest.
std::uint8_t longest(const CtaWork& work, const Delays& delays) {
  std::size_t found = 0;
  double most = -1;
  for (std::size_t i = 0; i < kWides; ++i) {
    Delays alone{};
    alone[i] = delays[i];
    const Waiting waiting = work.waiting(alone);
    const double its = work.reads ? waiting.read : waiting.write;
    if (its <= most) continue;
    most = its;
    found = i;
  }
  return static_cast<std::uint8_t>(kFirstWide + found);
}

// Bytes in places of one kind, by so many CTAs at their pace.
double held(const CtaWork& work, double ctas, std::size_t i, const Delays& delays) {
  const CtaWork::Held& its = work.held[i];
  if (its.empty <= 0) return 0;
  const Waiting waiting = work.waiting(delays);
  return (its.empty + its.reads * waiting.read + its.writes * waiting.write) * work.pace * ctas;
}

bool any_accesses(const SmMixes::Lanes& lanes, const std::vector<CtaWork>& works) {
  return std::any_of(lanes.begin(), lanes.end(),
                     [&works](const SmMixes::Lane& lane) { return works[lane.kernel].accesses > 0; });
}

}  // namespace

WideShares::WideShares(const FluidMachine& machine, const std::vector<CtaWork>& works, const SmMixes& mixes,
                       double tolerance)
    : machine_(machine),
      works_(works),
      mixes_(mixes),
      tolerance_(std::max(tolerance, kRounding)),
      precision_(std::max(tolerance / 4, kRounding / 4)),
      first_pool_(machine.gpcs.size() * kGpcWides),
      wides_(first_pool_ + machine.pools.size() * (kWides - kGpcWides)),
      delays_(machine.gpcs.size()),
      epochs_(machine.gpcs.size(), 1),
      active_(machine.gpcs.size()) {
  HEDDLE_CHECK(machine.requests > 0 && machine.bulk_requests > 0, "SMs without places for open requests");
  for (std::uint32_t gpc = 0; gpc < machine.gpcs.size(); ++gpc) {
    for (std::size_t i = 0; i < kWides; ++i) {
      Wide& wide = wides_[index(gpc, i)];
      wide.capacity = machine.capacity(gpc, static_cast<Resource>(kFirstWide + i));
      wide.kind = i;
      wide.pool = machine.gpcs[gpc].pool;
      if (wide.last == 0) wide.first = gpc;
      wide.last = gpc + 1;
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
  for (const std::uint32_t number : {from, to}) {
    moved_accesses_ = moved_accesses_ || (number != kNone && any_accesses(mixes_.lanes(groups_[number].mix), works_));
  }
  if (from != kNone) {
    Group& group = current(from);
    add(group, -1);
    HEDDLE_CHECK(group.sms > 0, "an SM leaves a class that has none");
    if (--group.sms == 0) {
      std::vector<std::uint32_t>& active = active_[group.gpc];
      active[group.place] = active.back();
      groups_[active.back()].place = group.place;
      active.pop_back();
      group.place = kNone;
    }
  }
  if (to != kNone) {
    Group& group = current(to);
    add(group, 1);
    if (group.sms++ == 0) {
      group.place = static_cast<std::uint32_t>(active_[group.gpc].size());
      active_[group.gpc].push_back(to);
    }
  }
}

// How long accesses wait follows from all that flows: whatever changes, they are found anew.
bool WideShares::is_astray() const {
  if (has_gates_ || moved_accesses_) return true;
  return std::any_of(wides_.begin(), wides_.end(), [this](const Wide& wide) {
    const double over = wide.flow - wide.capacity;
    if (over > tolerance_ * wide.capacity) return true;
    return wide.delay > 0 && (tolerance_ <= kRounding || over < -tolerance_ * wide.capacity);
  });
}

// How long accesses wait follows from what flows while they do not: with what follows from that the delays are found
// once more. So neither depends on what was before.
void WideShares::solve() {
  ++solves_;
  if (has_gates_) forget_levels();
  has_gates_ = moved_accesses_ = false;
  find_delays();
  bool gates = false;
  for (const std::vector<std::uint32_t>& active : active_) {
    for (const std::uint32_t number : active) {
      Group& group = current(number);
      group.gate = gate_of(group, delays_[group.gpc]);  // 0 without accesses
      group.gated = solves_;
      gates = gates || group.gate > 0;
    }
  }
  if (gates) {
    has_gates_ = true;
    forget_levels();
    find_delays();
  }
  sum_flows();
}

// A longer queue in one place lets less come to the others: so they are gone through again until nothing changes.
void WideShares::find_delays() {
  // No queue where none is needed: a longer one could hold itself up, by whom it sets free.
  for (Wide& wide : wides_) {
    const double before = wide.delay;
    if (before > 0 && flow_at(wide, 0) > wide.capacity) set_delay(wide, before);
  }
  for (int round = 0; round < kRounds; ++round) {
    bool changed = false;
    for (std::size_t i = wides_.size(); i-- > 0;) changed |= balance(wides_[i]);  // those of all SMs first
    if (!changed) break;
  }
}

void WideShares::forget_levels() {
  ++epoch_;
  std::fill(epochs_.begin(), epochs_.end(), epoch_);
}

double WideShares::use(std::uint32_t gpc, Resource wide) const {
  const Wide& its = wides_[index(gpc, wide_of(wide))];
  return its.flow / its.capacity;
}

void WideShares::reset() {
  for (Wide& wide : wides_) wide.flow = wide.delay = 0;
  std::fill(delays_.begin(), delays_.end(), Delays{});
  for (std::vector<std::uint32_t>& active : active_) {
    for (const std::uint32_t number : active) {
      groups_[number].sms = 0;
      groups_[number].place = kNone;
    }
    active.clear();
  }
  for (Group& group : groups_) group.gated = 0;
  solves_ = 0;
  has_gates_ = moved_accesses_ = false;
  forget_levels();
}

WideShares::Group& WideShares::current(std::uint32_t number) {
  Group& group = groups_[number];
  if (group.epoch != epochs_[group.gpc]) set_levels(group);
  return group;
}

void WideShares::set_levels(Group& group) {
  const SmMixes::Lanes& lanes = mixes_.lanes(group.mix);
  const Delays& delays = delays_[group.gpc];
  set_parts(lanes, delays, 0, group.levels);
  if (has_gates_ && group.gated != solves_) {
    group.gate = gate_of(group, delays);
    group.gated = solves_;
  }
  if (has_gates_ && group.gate > 0) set_parts(lanes, delays, group.gate, group.levels);
  group.flows = {};
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const double pace = lanes[lane].ctas * group.levels[lane].part;
    for (std::size_t i = 0; i < kWides; ++i) group.flows[i] += pace * works_[lanes[lane].kernel].flow[i];
  }
  group.epoch = epochs_[group.gpc];
}

void WideShares::set_parts(const SmMixes::Lanes& lanes, const Delays& delays, double gate,
                           std::vector<Level>& levels) const {
  levels.resize(lanes.size());
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const CtaWork& work = works_[lanes[lane].kernel];
    const Waiting waiting = work.waiting(delays);
    const double longer = work.cycles(waiting, gate) * work.pace;
    const bool at_gate = work.accesses * gate > work.cycles(waiting) - work.floor;
    const std::uint8_t limit = at_gate ? static_cast<std::uint8_t>(kLocals) : longest(work, delays);
    levels[lane] = longer > 1 ? Level{1 / longer, limit} : Level{1, work.limit};
  }
  fill(lanes, works_, levels);
  limit_by_places(lanes, delays, levels);
}

// While all places of the SM are taken, its load-store unit takes no instruction at all. Places are taken in turn: one
// is free again when the request that had it before, as many requests ago as there are places, has been answered, and
// an access waits for the time by which that answer takes longer than as many requests take to leave. On the mean it
// does not, or fewer would leave; but answers differ. This is the mean of what a normal distribution has beyond that
// time, for those that wait longest: reads, or writes.
double WideShares::gate_of(const Group& group, const Delays& delays) const {
  const SmMixes::Lanes& lanes = mixes_.lanes(group.mix);
  double accesses = 0;
  double rate = 0;    // bytes per cycle that take places
  double memory = 0;  // of these, those that wait for memory
  double answer = 0;  // cycles until the slowest of these are answered
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const CtaWork& work = works_[lanes[lane].kernel];
    const double pace = work.pace * lanes[lane].ctas * group.levels[lane].part;
    accesses += work.accesses;
    rate += pace * (work.held[0].reads + work.held[0].writes);
    memory += pace * ((work.fetches ? work.held[0].reads : 0) + (work.buffered >= 0 ? work.held[0].writes : 0));
    const Waiting waiting = work.waiting(delays);
    const double latency = work.fetches ? machine_.memory_latency : machine_.l2_latency;
    if (work.held[0].reads > 0) answer = std::max(answer, latency + waiting.read);
    if (work.held[0].writes > 0) answer = std::max(answer, machine_.write_latency + waiting.write);
  }
  if (accesses <= 0 || memory <= 0) return 0;
  const double delay = delays[wide_of(Resource::dram)];
  const double spread = std::sqrt(machine_.variance(group.gpc, delay) * memory / rate);
  if (spread <= 0) return 0;
  const double spare = std::max(0.0, machine_.requests / rate - answer) / spread;
  const double density = std::exp(-spare * spare / 2) / std::sqrt(2 * kPi);
  const double beyond = std::erfc(spare / std::sqrt(2.0)) / 2;
  return spread * std::max(0.0, density - spare * beyond);
}

// A request holds its place until it is answered. Where the warps of older CTAs go first, the younger ones have what is
// left; otherwise all are slowed alike.
void WideShares::limit_by_places(const SmMixes::Lanes& lanes, const Delays& delays, std::vector<Level>& levels) const {
  const std::array<double, kPlaces> places{machine_.requests, machine_.bulk_requests};
  for (std::size_t i = 0; i < kPlaces; ++i) {
    double all = 0;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
      all += held(works_[lanes[lane].kernel], lanes[lane].ctas, i, delays) * levels[lane].part;
    if (all <= places[i]) continue;
    double room = places[i];
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const double its = held(works_[lanes[lane].kernel], lanes[lane].ctas, i, delays);
      if (its <= 0) continue;
      const double most = machine_.oldest_first ? room / its : levels[lane].part * places[i] / all;
      if (most < levels[lane].part) levels[lane] = {most, static_cast<std::uint8_t>(kLocals + i)};
      room -= its * levels[lane].part;
      if (room < kRounding * places[i]) room = 0;
    }
  }
}

void WideShares::add(const Group& group, double sms) {
  for (std::size_t i = 0; i < kWides; ++i) wides_[index(group.gpc, i)].flow += sms * group.flows[i];
}

void WideShares::sum_flows() {
  for (Wide& wide : wides_) wide.flow = 0;
  for (const std::vector<std::uint32_t>& active : active_) {
    for (const std::uint32_t number : active) {
      const Group& group = current(number);
      add(group, group.sms);
    }
  }
}

void WideShares::set_delay(Wide& wide, double delay) {
  wide.delay = delay;
  ++epoch_;
  for (std::uint32_t gpc = wide.first; gpc < wide.last; ++gpc) {
    if (!serves(wide, gpc) || delays_[gpc][wide.kind] == delay) continue;
    delays_[gpc][wide.kind] = delay;
    epochs_[gpc] = epoch_;
  }
}

double WideShares::flow_at(Wide& wide, double delay) {
  set_delay(wide, delay);
  double flow = 0;
  for (std::uint32_t gpc = wide.first; gpc < wide.last; ++gpc) {
    if (!serves(wide, gpc)) continue;
    for (const std::uint32_t number : active_[gpc]) {
      const Group& group = current(number);
      flow += group.sms * group.flows[wide.kind];
    }
  }
  return flow;
}

// One over what flows rises with the delay, in a straight line where all of it waits. True if the delay has changed.
bool WideShares::balance(Wide& wide) {
  const double before = wide.delay;
  const auto off_at = [&](double delay) {
    const double flow = flow_at(wide, delay);
    return flow > 0 ? wide.capacity / flow - 1 : std::numeric_limits<double>::infinity();
  };
  double at = before;
  double off = off_at(at);
  double low = -1;
  double high = std::numeric_limits<double>::infinity();
  double last = 0;
  double last_off = 0;
  const double scale = machine_.memory_latency + 1;
  for (int step = 0; step < kSteps && std::abs(off) > precision_; ++step) {
    if (off > 0 && at <= 0) break;
    (off < 0 ? low : high) = at;
    double next = step > 0 && off != last_off ? at - off * (at - last) / (off - last_off) : at - off * (at + scale);
    if (low < 0 && !(next > 0)) next = 0;
    // Where it is no straight line.
    const bool within = next > low && next < high;
    if (!within || step % 4 == 3) next = high < 1e300 ? (std::max(low, 0.0) + high) / 2 : 2 * at + scale;
    if (high < 1e300 && high - low <= 1e-12 * high) break;
    last = at;
    last_off = off;
    at = next;
    off = off_at(at);
  }
  return wide.delay != before;
}

}  // namespace heddle::fluid

#include "memory/l2_lanes.h"

#include <cmath>

namespace heddle::memory {
namespace {

// While a limit holds something up: cycles until its change is seen.
constexpr Cycle kLook = 512;

}  // namespace

L2Lanes::L2Lanes(const SliceShares& shares, OwnerAccounts* owners)
    : port_(*shares.table),
      memory_(*shares.table),
      port_limit_(*shares.table, shares.burst),
      memory_limit_(*shares.table, shares.burst),
      sector_parts_(static_cast<std::uint64_t>(
          std::llround(arch::kSectorBytes * RateLimit::kParts / shares.memory_bytes_per_cycle))),
      owners_(owners),
      lanes_(kLanes) {}

void L2Lanes::enter(std::uint32_t port, std::uint32_t subcontext, const Request& request) {
  const std::uint32_t lane = port * arch::kSubcontexts + arch::BandwidthTable::place(subcontext);
  if (lanes_[lane].requests.empty()) open_.push_back(lane);
  // Arrivals may be announced ahead of time, but not out of order within a port.
  lanes_[lane].requests.push(request);
}

void L2Lanes::offer(std::uint32_t lane, const Cost& cost) {
  const std::uint32_t subcontext = subcontext_of(lane);
  if (is_machines(lane)) {
    offers_.push_back({lane, cost});
    return;
  }
  Cycle free = port_limit_.free_at(subcontext, now_);
  if (cost.of_memory() > 0) free = std::max(free, memory_limit_.free_at(subcontext, now_));
  if (free <= now_) {
    offers_.push_back({lane, cost});
    return;
  }
  again_ = std::min({again_, free, now_ + kLook});
  lanes_[lane].held_since = std::min(lanes_[lane].held_since, now_);
}

bool L2Lanes::before(const Offer& a, const Offer& b, const FairClock& clock) const {
  const FairClock::Tag of_a = clock.tag(subcontext_of(a.lane));
  const FairClock::Tag of_b = clock.tag(subcontext_of(b.lane));
  if (of_a != of_b) return of_a < of_b;
  const Cycle ready_a = front(a.lane).ready;
  const Cycle ready_b = front(b.lane).ready;
  return ready_a != ready_b ? ready_a < ready_b : a.lane < b.lane;
}

std::optional<std::uint32_t> L2Lanes::choose() {
  const Offer* to_memory = nullptr;
  for (const Offer& offer : offers_) {
    if (offer.cost.of_memory() > 0 && (to_memory == nullptr || before(offer, *to_memory, memory_))) to_memory = &offer;
  }
  const Offer* best = to_memory;
  for (const Offer& offer : offers_) {
    if (offer.cost.of_memory() == 0 && (best == nullptr || before(offer, *best, port_))) best = &offer;
  }
  if (best == nullptr) return std::nullopt;
  chosen_ = static_cast<std::uint32_t>(best - offers_.data());
  return best->lane;
}

void L2Lanes::serve() {
  const auto [number, cost] = offers_.at(chosen_);
  offers_.clear();
  const std::uint32_t subcontext = subcontext_of(number);
  port_.serve(subcontext, cost.port_cycles * RateLimit::kParts);
  const bool limited = !is_machines(number);
  if (limited) port_limit_.take(subcontext, cost.port_cycles * RateLimit::kParts, now_);
  if (cost.of_memory() > 0) {
    memory_.serve(subcontext, parts_of(cost.of_memory()));
    if (limited) memory_limit_.take(subcontext, parts_of(cost.of_memory()), now_);
  }
  Lane& lane = lanes_[number];
  if (lane.held_since != kNever && owners_ != nullptr) {
    OwnerAccounts::Row& row = owners_->of(static_cast<std::uint8_t>(subcontext));
    row.limited.add();
    row.limited_cycles.add(now_ - lane.held_since);
  }
  lane.held_since = kNever;
  lane.requests.pop();
  if (lane.requests.empty()) open_.erase(std::find(open_.begin(), open_.end(), number));
}

void L2Lanes::stall(bool for_all) {
  const std::uint32_t lane = offers_.at(chosen_).lane;
  const auto gone = [&](const Offer& offer) { return offer.lane == lane || (for_all && offer.cost.of_memory() > 0); };
  offers_.erase(std::remove_if(offers_.begin(), offers_.end(), gone), offers_.end());
}

void L2Lanes::reset() {
  for (FairClock* clock : {&port_, &memory_}) clock->reset();
  for (RateLimit* limit : {&port_limit_, &memory_limit_}) limit->reset();
  for (Lane& lane : lanes_) {
    lane.requests.clear();
    lane.held_since = kNever;
  }
  open_.clear();
  offers_.clear();
  again_ = kNever;
}

}  // namespace heddle::memory

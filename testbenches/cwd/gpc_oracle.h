// A slow, obvious reference for placement inside a GPC, straight from the specification: one CTA after another, on
// copies of the whole state. Shares no code with what it checks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/topology.h"

namespace heddle::test {

class GpcOracle {
 public:
  struct Answer {
    std::uint32_t speed = 0;
    std::vector<std::uint32_t> order;   // where the CTAs go, in launch order: bits of the GPC's masks
    std::vector<std::uint32_t> speeds;  // of the queries, one per CPC_CGA
  };

  // Names are those of the policies.
  GpcOracle(const arch::Topology& topology, std::uint32_t gpc, const std::vector<std::uint32_t>& sm_priority,
            std::string load_balancing, std::string multicast, std::string cpc_policy)
      : load_balancing_(std::move(load_balancing)),
        multicast_policy_(std::move(multicast)),
        cpc_policy_(std::move(cpc_policy)),
        cpcs_(topology.gpc(gpc).cpcs) {
    sms_.resize(topology.gpc(gpc).sms);
    std::uint32_t rank = 0;
    for (const std::uint32_t id : sm_priority) {
      const arch::Topology::Sm& place = topology.sm(id);
      if (place.gpc == gpc) sms_[place.in_gpc] = {place.in_gpc, place.tpc, place.cpc, rank++, 0, 0};
    }
  }

  void begin(const std::vector<std::uint32_t>& free, std::uint32_t ctas, std::uint32_t cpc_ctas, bool multicast,
             std::uint32_t cgas) {
    for (std::size_t i = 0; i < sms_.size(); ++i) sms_[i].free = free[i];
    at_accept_ = sms_;
    reserved_ = accepted_ = 0;
    ctas_ = ctas;
    cpc_ctas_ = cpc_ctas;
    multicast_ = multicast;
    cgas_ = cgas;
  }

  std::optional<Answer> query() {
    if (reserved_ == cgas_) return std::nullopt;
    std::vector<Sm> trial = sms_;
    for (Sm& sm : trial) sm.of_cga = 0;
    Answer answer;
    if (cpc_ctas_ == 0) {
      const std::optional<std::vector<std::uint32_t>> order = place(trial, kAll, ctas_);
      if (!order) return std::nullopt;
      answer.order = *order;
      answer.speeds.push_back(slowest(trial, *order));
    }
    for (std::uint32_t i = 0; cpc_ctas_ != 0 && i < ctas_ / cpc_ctas_; ++i) {
      std::optional<std::uint32_t> home;
      std::uint32_t home_speed = 0;
      std::vector<std::uint32_t> home_order;
      std::vector<Sm> home_trial;
      for (std::uint32_t cpc = 0; cpc < cpcs_; ++cpc) {
        std::vector<Sm> after = trial;
        const std::optional<std::vector<std::uint32_t>> order = place(after, cpc, cpc_ctas_);
        if (!order) continue;
        const std::uint32_t speed = slowest(after, *order);
        const bool better = !home || (cpc_policy_ == "fastest" && speed > home_speed) ||
                            (cpc_policy_ == "tightest" && speed < home_speed);
        if (!better) continue;
        home = cpc;
        home_speed = speed;
        home_order = *order;
        home_trial = after;
      }
      if (!home) return std::nullopt;
      trial = home_trial;
      answer.order.insert(answer.order.end(), home_order.begin(), home_order.end());
      answer.speeds.push_back(home_speed);
    }
    answer.speed = slowest(trial, answer.order);
    asked_ = trial;
    return answer;
  }

  void reserve() {
    sms_ = asked_;
    ++reserved_;
  }
  void accept() {
    at_accept_ = sms_;
    accepted_ = reserved_;
  }
  void revert() {
    sms_ = at_accept_;
    reserved_ = accepted_;
  }
  std::vector<std::uint32_t> left() const {
    std::vector<std::uint32_t> free;
    for (const Sm& sm : sms_) free.push_back(sm.free);
    return free;
  }
  std::uint32_t reserved() const { return reserved_; }

 private:
  static constexpr std::uint32_t kAll = ~0U;  // CPCs

  struct Sm {
    std::uint32_t bit = 0;
    std::uint32_t tpc = 0;
    std::uint32_t cpc = 0;
    std::uint32_t rank = 0;  // 0: most preferred
    std::uint32_t free = 0;
    std::uint32_t of_cga = 0;  // CTAs that the CGA has there
  };
  // A CTA that has been placed; `step` orders CTAs that cannot start in the same one.
  struct Placed {
    std::uint32_t step = 0;
    std::uint32_t bit = 0;
  };

  static std::uint32_t slowest(const std::vector<Sm>& sms, const std::vector<std::uint32_t>& order) {
    std::uint32_t speed = ~0U;
    for (const std::uint32_t bit : order) speed = std::min(speed, sms[bit].free);
    return speed;
  }

  // One CTA after another, on the SM that the mode wants most. Launch order: by step, then by bit.
  std::optional<std::vector<std::uint32_t>> place(std::vector<Sm>& sms, std::uint32_t cpc, std::uint32_t ctas) const {
    const std::vector<Sm> before = sms;
    const std::string& policy = multicast_ ? multicast_policy_ : load_balancing_;
    std::vector<Placed> placed;
    for (std::uint32_t i = 0; i < ctas; ++i) {
      Sm* best = nullptr;
      for (Sm& sm : sms) {
        if (cpc != kAll && sm.cpc != cpc) continue;
        if (sm.free == 0 || (multicast_ && sm.of_cga > 0)) continue;
        if (best == nullptr || wants_more(policy, sm, *best, before)) best = &sm;
      }
      if (best == nullptr) return std::nullopt;
      std::uint32_t step = 0;
      const auto earlier = static_cast<std::uint32_t>(
          std::count_if(placed.begin(), placed.end(), [best](const Placed& cta) { return cta.bit == best->bit; }));
      if (policy == "lake") step = 100'000 - best->free;  // the level
      if (policy == "one_at_a_time") step = i;
      if (policy == "packed") step = earlier;
      placed.push_back({step, best->bit});
      --best->free;
      ++best->of_cga;
    }
    std::sort(placed.begin(), placed.end(),
              [](const Placed& a, const Placed& b) { return a.step != b.step ? a.step < b.step : a.bit < b.bit; });
    std::vector<std::uint32_t> order;
    for (const Placed& cta : placed) order.push_back(cta.bit);
    return order;
  }

  // Whether the next CTA rather goes to a than to b. `before`: as it was before the first CTA.
  bool wants_more(const std::string& policy, const Sm& a, const Sm& b, const std::vector<Sm>& before) const {
    if (policy == "lake" || policy == "one_at_a_time") {
      return a.free != b.free ? a.free > b.free : a.rank < b.rank;
    }
    if (policy == "packed") {
      // An SM that has been begun is filled; otherwise that with fewest slots.
      const std::uint32_t fa = before[a.bit].free;
      const std::uint32_t fb = before[b.bit].free;
      return fa != fb ? fa < fb : a.rank < b.rank;
    }
    if (whole(a.tpc, before) != whole(b.tpc, before)) return whole(a.tpc, before);
    const std::uint32_t ta = tpc_rank(a.tpc);
    const std::uint32_t tb = tpc_rank(b.tpc);
    return ta != tb ? ta < tb : a.rank < b.rank;
  }

  // Every SM of the TPC can take a CTA of the CGA.
  static bool whole(std::uint32_t tpc, const std::vector<Sm>& before) {
    for (const Sm& sm : before) {
      if (sm.tpc == tpc && (sm.free == 0 || sm.of_cga > 0)) return false;
    }
    return true;
  }

  std::uint32_t tpc_rank(std::uint32_t tpc) const {
    std::uint32_t first = ~0U;
    for (const Sm& sm : sms_) {
      if (sm.tpc == tpc) first = std::min(first, sm.rank);
    }
    return first;
  }

  std::string load_balancing_;
  std::string multicast_policy_;
  std::string cpc_policy_;
  std::uint32_t cpcs_;
  std::vector<Sm> sms_;  // by bit: with what has been reserved
  std::vector<Sm> at_accept_;
  std::vector<Sm> asked_;
  std::uint32_t ctas_ = 1;
  std::uint32_t cpc_ctas_ = 0;
  bool multicast_ = false;
  std::uint32_t cgas_ = 0;
  std::uint32_t reserved_ = 0;
  std::uint32_t accepted_ = 0;
};

}  // namespace heddle::test

// A slow, obvious reference for placement inside a GPC, straight from the text: one CTA after another, on copies of the
// whole state. Shares no code with what it checks.
//
// [0140] a, [0213]: load balancing sends a CTA to the least loaded SM of the domain. [0140] b: multicast "is a load-
// balancing mode with one restriction: only one CTA of the CGA can be sent to an SM". [0153]: a CTA goes to the SM with
// most free slots. [0157]: which of equals, the priority says. [0214]: CTAs go first to the partitions all of whose SMs
// can take one, then to those of which only some can. [0167]: the speed is what remains on the worst SM.
//
// What a partition's free slots are, where its SMs differ, the text leaves open; CWD-16 says: those of the SM with
// fewest, because the slower CTA decides ([0163]).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
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
  std::optional<std::vector<std::uint32_t>> place(std::vector<Sm>& sms, std::uint32_t cpc, std::uint32_t ctas) {
    const std::vector<Sm> before = sms;
    domain_ = cpc;
    begun_tpcs_.clear();
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
      // Masks come from the launch registers, which count CTAs by SM ([0194]); the prior art sends CTA by CTA.
      step = policy == "one_at_a_time" ? i : earlier;
      placed.push_back({step, best->bit});
      begun_tpcs_.insert(best->tpc);
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
    // Multicast. A partition that has been begun is finished: its other SM takes the next CTA.
    const bool begun_a = begun(a.tpc);
    const bool begun_b = begun(b.tpc);
    if (begun_a != begun_b) return begun_a;
    if (a.tpc != b.tpc) {
      if (takes_all(a.tpc, before) != takes_all(b.tpc, before)) return takes_all(a.tpc, before);
      const Sm worst_a = worst(a.tpc, before);
      const Sm worst_b = worst(b.tpc, before);
      if (worst_a.free != worst_b.free) return worst_a.free > worst_b.free;
      return preferred(a.tpc, before) < preferred(b.tpc, before);
    }
    return before[a.bit].free != before[b.bit].free ? before[a.bit].free > before[b.bit].free : a.rank < b.rank;
  }

  // An SM of the TPC that belongs to the domain and can take a CTA of the CGA.
  bool can(const Sm& sm, std::uint32_t tpc) const {
    return sm.tpc == tpc && (domain_ == kAll || sm.cpc == domain_) && sm.free > 0 && sm.of_cga == 0;
  }
  // Both SMs that the TPC has can, or all of more: "both of whose SMs can take a CTA" (CWD-16); one is no pair.
  bool takes_all(std::uint32_t tpc, const std::vector<Sm>& before) const {
    std::uint32_t sms = 0;
    for (const Sm& sm : before) {
      if (sm.tpc != tpc || (domain_ != kAll && sm.cpc != domain_)) continue;
      if (!can(sm, tpc)) return false;
      ++sms;
    }
    return sms > 1;
  }
  // Of those that can, the one with fewest slots.
  Sm worst(std::uint32_t tpc, const std::vector<Sm>& before) const {
    Sm found;
    found.free = ~0U;
    for (const Sm& sm : before) {
      if (can(sm, tpc) && sm.free < found.free) found = sm;
    }
    return found;
  }
  // Rank of the most preferred of those that can.
  std::uint32_t preferred(std::uint32_t tpc, const std::vector<Sm>& before) const {
    std::uint32_t first = ~0U;
    for (const Sm& sm : before) {
      if (can(sm, tpc)) first = std::min(first, sm.rank);
    }
    return first;
  }
  bool begun(std::uint32_t tpc) const { return begun_tpcs_.count(tpc) != 0; }

  std::string load_balancing_;
  std::string multicast_policy_;
  std::string cpc_policy_;
  std::uint32_t cpcs_;
  std::vector<Sm> sms_;  // by bit: with what has been reserved
  std::vector<Sm> at_accept_;
  std::vector<Sm> asked_;
  std::uint32_t domain_ = kAll;         // the CPC in which CTAs are being placed
  std::set<std::uint32_t> begun_tpcs_;  // that have a CTA of those already
  std::uint32_t ctas_ = 1;
  std::uint32_t cpc_ctas_ = 0;
  bool multicast_ = false;
  std::uint32_t cgas_ = 0;
  std::uint32_t reserved_ = 0;
  std::uint32_t accepted_ = 0;
};

}  // namespace heddle::test

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/crossbar_routes.h"
#include "support/random.h"

namespace heddle::memory::memory_crossbar_fan_out_test {
namespace {

using test::Random;
using Cycle = FanOut::Cycle;

// A link that is stepped cycle by cycle: first in, first out, with a wire behind it.
struct SlowWire {
  std::int64_t rate = 0;
  Cycle latency = 0;
  std::int64_t tokens = 0;
  std::deque<std::pair<Cycle, std::size_t>> queue;  // arrival, packet

  template <class Next>
  void step(Cycle now, const std::vector<std::uint32_t>& bytes, Next&& next) {
    tokens = std::min<std::int64_t>(tokens, 0) + rate;
    while (tokens > 0 && !queue.empty() && queue.front().first <= now) {
      const std::size_t packet = queue.front().second;
      queue.pop_front();
      tokens -= bytes[packet];
      next(packet, now + latency);
    }
  }
};

// All links of a GPC's tree, stepped.
class SlowTree {
 public:
  SlowTree(const CrossbarParams& params, const arch::Topology& topology) : topology_(topology) {
    for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
      cpcs_[cpc_of(sm)] = wire(params.cpc_bandwidth, params.cpc_to_gpc);
      tpcs_[tpc_of(sm)] = wire(params.tpc_bandwidth, params.tpc_to_cpc);
      sms_[sm] = wire(params.sm_bandwidth, params.sm_to_tpc);
    }
  }
  // A packet for all of `sms` enters now.
  void enter(const std::vector<std::uint32_t>& sms, std::uint32_t bytes, Cycle now) {
    const std::size_t packet = add(sms, bytes);
    for (const std::uint32_t cpc : cpcs_of(packet)) cpcs_[cpc].queue.emplace_back(now, packet);
  }
  // And its acknowledgement, which leaves it where their ways part.
  void enter(const std::vector<std::uint32_t>& sms, std::uint32_t bytes, std::uint32_t requester, std::uint32_t header,
             Cycle now) {
    const std::size_t packet = bytes_.size();
    enter(sms, bytes, now);
    const std::size_t answer = add({requester}, header);
    answers_[packet] = answer;
    if (cpcs_of(packet).count(cpc_of(requester)) == 0) cpcs_[cpc_of(requester)].queue.emplace_back(now, answer);
  }
  void step(Cycle now) {
    for (auto& [id, link] : cpcs_) {
      const std::uint32_t cpc = id;
      link.step(now, bytes_, [&](std::size_t p, Cycle when) {
        const std::set<std::uint32_t> tpcs = tpcs_of(p, cpc);
        for (const std::uint32_t tpc : tpcs) tpcs_[tpc].queue.emplace_back(when, p);
        if (answers_.count(p) == 0) return;
        const std::uint32_t requester = targets_[answers_[p]].front();
        if (cpc_of(requester) != cpc || tpcs.count(tpc_of(requester)) != 0) return;
        tpcs_[tpc_of(requester)].queue.emplace_back(when, answers_[p]);
      });
    }
    for (auto& [id, link] : tpcs_) {
      const std::uint32_t tpc = id;
      link.step(now, bytes_, [&](std::size_t p, Cycle when) {
        for (const std::uint32_t sm : targets_[p]) {
          if (tpc_of(sm) == tpc) sms_[sm].queue.emplace_back(when, p);
        }
        if (answers_.count(p) == 0) return;
        const std::uint32_t requester = targets_[answers_[p]].front();
        if (tpc_of(requester) == tpc) sms_[requester].queue.emplace_back(when, answers_[p]);
      });
    }
    for (auto& [id, link] : sms_) {
      const std::uint32_t sm = id;
      link.step(now, bytes_, [&](std::size_t p, Cycle when) {
        arrivals[p][sm] = when;
        --left;
      });
    }
  }
  std::size_t packets() const { return bytes_.size(); }

  std::vector<std::map<std::uint32_t, Cycle>> arrivals;  // by packet and SM
  std::size_t left = 0;

 private:
  std::size_t add(const std::vector<std::uint32_t>& sms, std::uint32_t bytes) {
    bytes_.push_back(bytes);
    targets_.push_back(sms);
    arrivals.emplace_back();
    left += sms.size();
    return bytes_.size() - 1;
  }
  std::set<std::uint32_t> cpcs_of(std::size_t packet) const {
    std::set<std::uint32_t> result;
    for (const std::uint32_t sm : targets_[packet]) result.insert(cpc_of(sm));
    return result;
  }
  std::set<std::uint32_t> tpcs_of(std::size_t packet, std::uint32_t cpc) const {
    std::set<std::uint32_t> result;
    for (const std::uint32_t sm : targets_[packet]) {
      if (cpc_of(sm) == cpc) result.insert(tpc_of(sm));
    }
    return result;
  }
  static SlowWire wire(double rate, std::uint32_t latency) {
    SlowWire result;
    result.rate = static_cast<std::int64_t>(rate);
    result.latency = latency;
    return result;
  }
  std::uint32_t cpc_of(std::uint32_t sm) const { return topology_.sm(sm).gpc * 100 + topology_.sm(sm).cpc; }
  std::uint32_t tpc_of(std::uint32_t sm) const { return topology_.sm(sm).gpc * 100 + topology_.sm(sm).tpc; }

  const arch::Topology& topology_;
  std::map<std::uint32_t, SlowWire> cpcs_;
  std::map<std::uint32_t, SlowWire> tpcs_;
  std::map<std::uint32_t, SlowWire> sms_;
  std::vector<std::uint32_t> bytes_;
  std::vector<std::vector<std::uint32_t>> targets_;
  std::map<std::size_t, std::size_t> answers_;  // of multicasts whose requester is no receiver
};

}  // namespace

TEST_CASE("times through a GPC's tree agree with stepping all its links", "[memory][MEM-03][TMA-30]") {
  for (const std::uint64_t seed : test::seeds(150)) {
    const bool multicasts = seed % 3 != 0;
    CAPTURE(seed, multicasts);
    Random random(seed);
    const arch::Topology topology(random.shape(2));
    CrossbarParams params;
    for (auto member : {&CrossbarParams::sm_to_tpc, &CrossbarParams::tpc_to_cpc, &CrossbarParams::cpc_to_gpc})
      params.*member = random.chance(30) ? 0 : random.below(20);
    for (auto member : {&CrossbarParams::sm_bandwidth, &CrossbarParams::tpc_bandwidth, &CrossbarParams::cpc_bandwidth})
      params.*member = random.between(10, 400);
    constexpr std::uint32_t kPackets = 200;
    FanOut fan_out(params, topology, kPackets + 1);

    SlowTree slow(params, topology);
    std::vector<std::map<std::uint32_t, Cycle>> fast;
    // To random SMs of the requester's GPC.
    const auto send_multicast = [&](std::uint32_t requester, std::uint32_t bytes, Cycle now) {
      const arch::Topology::Gpc& gpc = topology.gpc(topology.sm(requester).gpc);
      const std::uint64_t all = (std::uint64_t{1} << gpc.sms) - 1;
      const std::uint64_t mask = random.between(1, all) & (random.chance(50) ? all : random.between(1, all) | 1);
      if (mask == 0) return;
      std::vector<std::uint32_t> targets;
      std::map<std::uint32_t, Cycle> arrivals;
      REQUIRE(fan_out.copies_room_at(gpc, mask, now) == now);
      const Cycle answer = fan_out.multicast(gpc, mask, bytes, requester, 32, now,
                                             [&](std::uint32_t id, std::uint32_t bit, Cycle arrival) {
                                               CHECK(topology.sm(id).in_gpc == bit);
                                               CHECK((mask >> bit & 1) == 1);
                                               targets.push_back(id);
                                               arrivals[id] = arrival;
                                             });
      fast.push_back(arrivals);
      if (arrivals.count(requester) != 0) {
        CHECK(answer == arrivals[requester]);
        slow.enter(targets, bytes, now);
      } else {
        fast.push_back({{requester, answer}});
        slow.enter(targets, bytes, requester, 32, now);
      }
    };
    const auto send = [&](Cycle now) {
      const std::uint32_t bytes = random.chance(50) ? 128 : random.between(1, 200);
      const std::uint32_t sm = random.below(random.chance(50) ? std::min(3U, topology.sms()) : topology.sms());
      if (multicasts && random.chance(40)) return send_multicast(sm, bytes, now);
      REQUIRE(fan_out.room_at(sm, now) == now);
      fast.push_back({{sm, fan_out.arrive(sm, bytes, fan_out.pass(sm, bytes, now))}});
      slow.enter({sm}, bytes, now);
    };
    for (Cycle now = 0; slow.packets() < kPackets || slow.left > 0; ++now) {
      REQUIRE(now < 100'000);
      for (std::uint32_t i = random.below(4); i > 0 && slow.packets() < kPackets; --i) send(now);
      slow.step(now);
    }
    REQUIRE(fast == slow.arrivals);
  }
}

TEST_CASE("an SM has room again when the oldest of its responses has arrived", "[memory][MEM-03]") {
  const arch::Topology topology(arch::Shape::from_sms_per_gpc({2}));
  CrossbarParams params;  // 32 cycles from GPC to SM; 64 bytes per cycle into the SM
  FanOut fan_out(params, topology, 3);
  const auto send = [&](std::uint32_t sm, Cycle now) { return fan_out.arrive(sm, 128, fan_out.pass(sm, 128, now)); };
  CHECK(send(0, 10) == 42);
  CHECK(send(0, 10) == 44);
  CHECK(fan_out.room_at(0, 10) == 10);
  CHECK(send(0, 20) == 52);
  CHECK(fan_out.room_at(0, 20) == 42);
  CHECK(fan_out.room_at(1, 20) == 20);
  CHECK(fan_out.room_at(0, 41) == 42);
  CHECK(fan_out.room_at(0, 42) == 42);
  // Now two of the three wait, because the SM takes none.
  const Cycle ready = fan_out.pass(0, 128, 42);
  CHECK(fan_out.room_at(0, 42) == 44);
  CHECK(fan_out.room_at(0, 44) == 44);
  fan_out.pass(0, 128, 44);
  CHECK(fan_out.room_at(0, 45) == 52);
  CHECK(fan_out.room_at(0, 52) == 52);
  fan_out.pass(0, 128, 52);
  CHECK(fan_out.room_at(0, 60) == kNever);
  CHECK(fan_out.arrive(0, 128, std::max<Cycle>(ready, 100)) == 112);
  CHECK(fan_out.room_at(0, 60) == 112);
  fan_out.reset();
  CHECK(fan_out.room_at(0, 0) == 0);
  CHECK(send(0, 0) == 32);
}

TEST_CASE("copies have places of their own, free when each has arrived", "[memory][TMA-30]") {
  const arch::Topology topology(arch::Shape::from_sms_per_gpc({4}));
  const arch::Topology::Gpc& gpc = topology.gpc(0);
  CrossbarParams params;  // 32 cycles from GPC to SM; 64 bytes per cycle into the SM, 128 into a TPC
  FanOut fan_out(params, topology, 2);
  std::vector<Cycle> arrivals;
  Cycle answer = 0;  // to SM 0
  const auto send = [&](std::uint64_t sms, Cycle now) {
    arrivals.clear();
    const auto note = [&](std::uint32_t, std::uint32_t, Cycle when) { arrivals.push_back(when); };
    answer = fan_out.multicast(gpc, sms, 128, 0, 32, now, note);
    return arrivals;
  };
  CHECK(send(0b0011, 10) == std::vector<Cycle>{42, 42});
  CHECK(answer == 42);
  CHECK(fan_out.copies_room_at(gpc, 0b1111, 10) == 10);
  CHECK(send(0b0110, 10) == std::vector<Cycle>{44, 42});
  CHECK(answer == 44);  // behind what SM 0 got before
  // SM 1 has its two.
  CHECK(fan_out.copies_room_at(gpc, 0b0010, 11) == 42);
  CHECK(fan_out.copies_room_at(gpc, 0b1111, 11) == 42);
  CHECK(fan_out.copies_room_at(gpc, 0b0001, 11) == 42);  // nor has SM 0: an acknowledgement has taken one
  CHECK(fan_out.copies_room_at(gpc, 0b1100, 11) == 11);
  // Responses have theirs, and share the links.
  CHECK(fan_out.room_at(1, 11) == 11);
  CHECK(fan_out.arrive(1, 128, fan_out.pass(1, 128, 11)) == 46);
  CHECK(fan_out.room_at(1, 12) == 12);
  CHECK(fan_out.copies_room_at(gpc, 0b0010, 42) == 42);
  CHECK(fan_out.copies_room_at(gpc, 0b0001, 42) == 42);
  fan_out.reset();
  CHECK(fan_out.copies_room_at(gpc, 0b1111, 0) == 0);
  CHECK(send(0b1000, 0) == std::vector<Cycle>{32});
}

}  // namespace heddle::memory::memory_crossbar_fan_out_test

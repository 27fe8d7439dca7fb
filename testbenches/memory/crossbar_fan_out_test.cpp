#include <algorithm>
#include <deque>
#include <map>
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
      cpcs_[cpc_of(sm)] = wire(params.cpc_read_bandwidth, params.cpc_to_gpc);
      tpcs_[tpc_of(sm)] = wire(params.tpc_read_bandwidth, params.tpc_to_cpc);
      sms_[sm] = wire(params.sm_read_bandwidth, params.sm_to_tpc);
      l1s_[sm] = wire(params.l1_read_bandwidth, 0);
    }
  }
  // A packet for an SM enters now; for its L1 or not.
  void enter(std::uint32_t sm, std::uint32_t bytes, bool bulk, Cycle now) {
    cpcs_[cpc_of(sm)].queue.emplace_back(now, bytes_.size());
    bytes_.push_back(bytes);
    targets_.push_back({sm, bulk});
    arrivals.push_back(0);
    ++left;
  }
  void step(Cycle now) {
    for (auto& [id, link] : cpcs_) {
      link.step(now, bytes_,
                [&](std::size_t p, Cycle when) { tpcs_[tpc_of(targets_[p].sm)].queue.emplace_back(when, p); });
    }
    for (auto& [id, link] : tpcs_) {
      link.step(now, bytes_, [&](std::size_t p, Cycle when) { sms_[targets_[p].sm].queue.emplace_back(when, p); });
    }
    for (auto& [id, link] : sms_) {
      link.step(now, bytes_, [&](std::size_t p, Cycle when) {
        if (targets_[p].bulk) return arrive(p, when);
        l1s_[targets_[p].sm].queue.emplace_back(when, p);
      });
    }
    for (auto& [id, link] : l1s_) {
      link.step(now, bytes_, [&](std::size_t p, Cycle when) { arrive(p, when); });
    }
  }
  std::size_t packets() const { return bytes_.size(); }

  std::vector<Cycle> arrivals;  // by packet
  std::size_t left = 0;

 private:
  struct Target {
    std::uint32_t sm = 0;
    bool bulk = false;
  };
  void arrive(std::size_t packet, Cycle when) {
    arrivals[packet] = when;
    --left;
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
  std::map<std::uint32_t, SlowWire> l1s_;
  std::vector<std::uint32_t> bytes_;
  std::vector<Target> targets_;
};

}  // namespace

TEST_CASE("times through a GPC's tree agree with stepping all its links", "[memory][MEM-03][TMA-30]") {
  for (const std::uint64_t seed : test::seeds(150)) {
    const bool copies = seed % 3 != 0;
    CAPTURE(seed, copies);
    Random random(seed);
    const arch::Topology topology(random.shape(2));
    CrossbarParams params;
    for (auto member : {&CrossbarParams::sm_to_tpc, &CrossbarParams::tpc_to_cpc, &CrossbarParams::cpc_to_gpc})
      params.*member = random.chance(30) ? 0 : random.below(20);
    for (auto member : {&CrossbarParams::sm_read_bandwidth, &CrossbarParams::l1_read_bandwidth,
                        &CrossbarParams::tpc_read_bandwidth, &CrossbarParams::cpc_read_bandwidth})
      params.*member = random.between(10, 400);
    constexpr std::uint32_t kPackets = 200;
    FanOut fan_out(params, topology, kPackets + 1);

    SlowTree slow(params, topology);
    std::vector<Cycle> fast;
    const auto send = [&](Cycle now) {
      const std::uint32_t bytes = random.chance(50) ? 128 : random.between(1, 200);
      const std::uint32_t sm = random.below(random.chance(50) ? std::min(3U, topology.sms()) : topology.sms());
      const bool bulk = random.chance(50);
      if (copies && random.chance(40)) {
        const arch::Topology::Gpc& gpc = topology.gpc(topology.sm(sm).gpc);
        const std::uint64_t bit = std::uint64_t{1} << topology.sm(sm).in_gpc;
        REQUIRE(fan_out.copies_room_at(gpc, bit, now) == now);
        fan_out.reserve(gpc, bit);
        fast.push_back(fan_out.copy(sm, bytes, now));
        return slow.enter(sm, bytes, true, now);
      }
      REQUIRE(fan_out.room_at(sm, now) == now);
      fast.push_back(fan_out.arrive(sm, bytes, fan_out.pass(sm, bytes, now), bulk));
      slow.enter(sm, bytes, bulk, now);
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
  const auto send = [&](std::uint32_t sm, Cycle now) {
    return fan_out.arrive(sm, 128, fan_out.pass(sm, 128, now), false);
  };
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
  CHECK(fan_out.arrive(0, 128, std::max<Cycle>(ready, 100), false) == 112);
  CHECK(fan_out.room_at(0, 60) == 112);
  fan_out.reset();
  CHECK(fan_out.room_at(0, 0) == 0);
  CHECK(send(0, 0) == 32);
}

TEST_CASE("data for the L1 take its port as well, those of bulk requests do not", "[memory][MEM-03][TMA-45]") {
  const arch::Topology topology(arch::Shape::from_sms_per_gpc({1}));
  CrossbarParams params;  // 32 cycles from GPC to SM; 128 bytes per cycle into it, 64 into its L1
  FanOut fan_out(params, topology, 8);
  const auto send = [&](bool bulk) { return fan_out.arrive(0, 128, fan_out.pass(0, 128, 0), bulk); };
  CHECK(send(true) == 32);
  CHECK(send(true) == 33);
  CHECK(send(false) == 34);
  CHECK(send(false) == 36);
  CHECK(send(true) == 36);
}

TEST_CASE("copies have places of their own, free when each has arrived", "[memory][TMA-30]") {
  const arch::Topology topology(arch::Shape::from_sms_per_gpc({4}));
  const arch::Topology::Gpc& gpc = topology.gpc(0);
  CrossbarParams params;  // 32 cycles from GPC to SM
  FanOut fan_out(params, topology, 2);
  CHECK(fan_out.round_trip() == 64);
  CHECK(fan_out.copies_room_at(gpc, 0b1111, 10) == 10);
  fan_out.reserve(gpc, 0b0110);
  fan_out.reserve(gpc, 0b0010);
  CHECK(fan_out.copies_room_at(gpc, 0b0101, 10) == 10);
  CHECK(fan_out.copies_room_at(gpc, 0b0010, 10) == kNever);  // whenever its copies set out
  CHECK(fan_out.copy(1, 128, 12) == 44);
  CHECK(fan_out.copies_room_at(gpc, 0b0011, 13) == 44);
  CHECK(fan_out.copy(1, 128, 12) == 45);
  CHECK(fan_out.copies_room_at(gpc, 0b0010, 13) == 44);
  // Responses have theirs, and share the links.
  CHECK(fan_out.room_at(1, 13) == 13);
  CHECK(fan_out.arrive(1, 128, fan_out.pass(1, 128, 12), true) == 46);
  CHECK(fan_out.copies_room_at(gpc, 0b0010, 44) == 44);
  CHECK(fan_out.copy(2, 128, 50) == 82);
  fan_out.reset();
  CHECK(fan_out.copies_room_at(gpc, 0b1111, 0) == 0);
}

}  // namespace heddle::memory::memory_crossbar_fan_out_test

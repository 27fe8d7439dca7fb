#include "memory/crossbar_fan_out.h"

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace heddle::memory {
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

}  // namespace

TEST_CASE("times through a GPC's tree agree with stepping all its links", "[memory][MEM-03]") {
  for (const std::uint64_t seed : test::seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    const arch::Topology topology(random.shape(2));
    CrossbarParams params;
    for (auto member : {&CrossbarParams::sm_to_tpc, &CrossbarParams::tpc_to_cpc, &CrossbarParams::cpc_to_gpc})
      params.*member = random.chance(30) ? 0 : random.below(20);
    for (auto member : {&CrossbarParams::sm_bandwidth, &CrossbarParams::tpc_bandwidth, &CrossbarParams::cpc_bandwidth})
      params.*member = random.between(10, 400);
    constexpr std::uint32_t kPackets = 200;
    FanOut fan_out(params, topology, kPackets);

    std::map<std::uint32_t, SlowWire> cpcs;
    std::map<std::uint32_t, SlowWire> tpcs;
    std::map<std::uint32_t, SlowWire> sms;
    std::vector<std::uint32_t> bytes;
    std::vector<std::uint32_t> target;
    std::vector<Cycle> fast;
    std::vector<Cycle> slow(kPackets, 0);
    const auto wire = [](double rate, std::uint32_t latency) {
      SlowWire result;
      result.rate = static_cast<std::int64_t>(rate);
      result.latency = latency;
      return result;
    };
    const auto cpc_of = [&](std::uint32_t sm) { return topology.sm(sm).gpc * 100 + topology.sm(sm).cpc; };
    const auto tpc_of = [&](std::uint32_t sm) { return topology.sm(sm).gpc * 100 + topology.sm(sm).tpc; };
    for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
      cpcs[cpc_of(sm)] = wire(params.cpc_bandwidth, params.cpc_to_gpc);
      tpcs[tpc_of(sm)] = wire(params.tpc_bandwidth, params.tpc_to_cpc);
      sms[sm] = wire(params.sm_bandwidth, params.sm_to_tpc);
    }
    std::size_t left = kPackets;
    for (Cycle now = 0; left > 0; ++now) {
      REQUIRE(now < 100'000);
      for (std::uint32_t i = random.below(4); i > 0 && bytes.size() < kPackets; --i) {
        const std::uint32_t sm = random.below(random.chance(50) ? std::min(3U, topology.sms()) : topology.sms());
        bytes.push_back(random.chance(50) ? 128 : random.between(1, 200));
        target.push_back(sm);
        REQUIRE(fan_out.room_at(sm, now) == now);
        fast.push_back(fan_out.arrive(sm, bytes.back(), fan_out.pass(sm, bytes.back(), now)));
        cpcs[cpc_of(sm)].queue.emplace_back(now, bytes.size() - 1);
      }
      for (auto& [id, link] : cpcs) {
        link.step(now, bytes, [&](std::size_t p, Cycle when) { tpcs[tpc_of(target[p])].queue.emplace_back(when, p); });
      }
      for (auto& [id, link] : tpcs) {
        link.step(now, bytes, [&](std::size_t p, Cycle when) { sms[target[p]].queue.emplace_back(when, p); });
      }
      for (auto& [id, link] : sms) {
        link.step(now, bytes, [&](std::size_t p, Cycle when) {
          slow[p] = when;
          --left;
        });
      }
    }
    REQUIRE(fast == slow);
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
  CHECK(fan_out.room_at(0, 60) == FanOut::kUnknown);
  CHECK(fan_out.arrive(0, 128, std::max<Cycle>(ready, 100)) == 112);
  CHECK(fan_out.room_at(0, 60) == 112);
  fan_out.reset();
  CHECK(fan_out.room_at(0, 0) == 0);
  CHECK(send(0, 0) == 32);
}

}  // namespace heddle::memory

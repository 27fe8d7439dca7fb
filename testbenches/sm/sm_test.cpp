// An SM over its sockets: resources kept exactly, durations that depend on nothing but their CTA.
#include "sm/sm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "sm/cta_table.h"
#include "sm/loose_ends.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace sm_test {

using Catch::Contains;
using heddle::CtaListener;
using heddle::Cycle;
using heddle::Domain;
using heddle::TimingMode;
using heddle::arch::CtaDuration;
using heddle::arch::kResources;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::protocol::CtaExitPacket;
using heddle::protocol::CtaStartPacket;
using heddle::sm::draw_cycles;
using heddle::sm::Sm;
using heddle::sm::SmParams;
using heddle::test::Random;
using heddle::test::SimFixture;

namespace {

constexpr std::uint32_t kDistance = 6;  // cycles between MPC and SM
constexpr std::uint64_t kSeed = 42;
constexpr std::uint32_t kId = 17;

// Starts CTAs from a script, each when its CTA slot and its resources are free.
class FakeMpc : public sc_core::sc_module, private heddle::EventHandler, private heddle::Resettable {
 public:
  FakeMpc(const sc_core::sc_module_name& name, Domain& domain)
      : sc_core::sc_module(name),
        start_out("start_out", domain, kDistance, heddle::kUnlimitedCredits),
        exit_in("exit_in", domain, kDistance),
        order_out("order_out", domain, kDistance, heddle::kUnlimitedCredits),
        domain_(domain) {
    exit_in.on_packet<FakeMpc, &FakeMpc::on_exit>(*this);
    domain.add_resettable(*this);
  }
  heddle::PacketOut<CtaStartPacket> start_out;
  heddle::PacketIn<CtaExitPacket> exit_in;
  heddle::PacketOut<heddle::protocol::ClusterOrderPacket> order_out;
  std::vector<std::pair<Cycle, CtaExitPacket>> exits;

  void start(Cycle cycle, const CtaStartPacket& packet) {
    script_.push_back(packet);
    domain_.schedule(cycle, *this, 0, script_.size() - 1);
  }

 private:
  void reset() override { script_.clear(); }
  void on_event(std::uint32_t, std::uint64_t which) override { start_out.send(script_[which]); }
  void on_exit(const CtaExitPacket& exit, std::uint32_t) {
    exits.emplace_back(domain_.now(), exit);
    order_out.send(heddle::test::permit_for(exit));
  }
  Domain& domain_;
  std::vector<CtaStartPacket> script_;
};

// Recomputes what the SM holds from the starts and ends alone.
struct Listener : CtaListener {
  explicit Listener(const Sm& module) : sm(module) {}
  virtual ~Listener() = default;
  void cta_started(const Cta& cta) override {
    started[{cta.task, cta.index}] = cta.cycle;
    used.add(need.at({cta.task, cta.index}));
    ++resident;
    wrong += cta.sm != kId || !(sm.used() == used) || sm.resident() != resident ? 1 : 0;
  }
  void cta_ended(const Cta& cta) override {
    ended[{cta.task, cta.index}] = cta.cycle;
    used.subtract(need.at({cta.task, cta.index}));
    --resident;
    wrong += cta.sm != kId || !(sm.used() == used) || sm.resident() != resident ? 1 : 0;
  }
  using Key = std::pair<std::uint32_t, std::uint64_t>;
  const Sm& sm;
  std::map<Key, ResourceVector> need;
  std::map<Key, Cycle> started, ended;
  ResourceVector used;
  std::uint32_t resident = 0;
  int wrong = 0;
};

struct SmBench {
  explicit SmBench(const SmParams& sm_params = {}, TimingMode mode = TimingMode::at)
      : params(sm_params),
        domain("domain", 1.0, mode, 0, observation),
        mpc("mpc", domain),
        sm("sm", domain, "sm0", params, place(), kDistance, kSeed, rest.code, rest.view()),
        ends("ends", domain, sm),
        listener(sm) {
    mpc.start_out.bind(sm.start_in);
    sm.exit_out.bind(mpc.exit_in);
    mpc.order_out.bind(sm.order_in);
    observation.ctas = &listener;
    observation.load_map.configure(kId + 1, params.limits.warps);
  }
  void start(Cycle cycle, const CtaStartPacket& packet) {
    listener.need[{packet.tag.operation, packet.id.index}] = packet.need;
    mpc.start(cycle, packet);
  }
  static heddle::sm::SmContext place() {
    heddle::sm::SmContext place;
    place.id = heddle::protocol::SmId(kId);
    place.sms = kId + 1;
    return place;
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.sm0." + name); }

  SimFixture sim;
  heddle::GpuObservation observation{"gpu0"};
  SmParams params;
  Domain domain;
  FakeMpc mpc;
  heddle::test::NoPrograms rest;
  Sm sm;
  heddle::test::LooseEnds ends;
  Listener listener;
};

CtaStartPacket cta(std::uint32_t cta_slot, std::uint64_t index, const ResourceVector& need, CtaDuration duration) {
  CtaStartPacket packet;
  packet.tag.slot = heddle::protocol::TaskSlot(9);
  packet.tag.operation = 5;
  packet.cta_slot = heddle::protocol::CtaSlot(cta_slot);
  packet.id.index = index;
  packet.need = need;
  packet.duration = duration;
  return packet;
}

}  // namespace

TEST_CASE("a CTA runs for its cycles, after those of its start", "[sm]") {
  for (const std::uint32_t start_cycles : {0U, 20U}) {
    for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
      CAPTURE(start_cycles);
      SmParams params;
      params.start_cycles = start_cycles;
      SmBench bench(params, mode);
      bench.start(100, cta(0, 0, {{2, 64, 0, 0, 1, 0}}, {0, 0}));
      bench.start(100, cta(3, 1, {{4, 128, 0, 0, 1, 0}}, {77, 77}));
      heddle::test::run_until_idle();
      const Cycle link = mode != TimingMode::lt ? kDistance : 0;
      const Cycle start = mode != TimingMode::lt ? start_cycles : 0;
      REQUIRE(bench.mpc.exits.size() == 2);
      CHECK(bench.mpc.exits[0].first == 100 + link + start + link);
      CHECK(bench.mpc.exits[0].second.cta_slot == 0);
      CHECK(bench.mpc.exits[0].second.tag.slot == 9);
      CHECK(bench.mpc.exits[1].first == 100 + link + start + 77 + link);
      CHECK(bench.mpc.exits[1].second.cta_slot == 3);
      CHECK(bench.stat("ctas") == 2);
      CHECK(bench.stat("warp_cycles") == static_cast<double>(2 * (start + 2 * link) + 4 * (start + 77 + 2 * link)));
      CHECK(bench.listener.wrong == 0);
    }
  }
}

TEST_CASE("an SM holds exactly what its CTAs need", "[sm][CWD-01]") {
  const ResourceVector capacity = heddle::arch::capacity_of({});
  for (const std::uint64_t seed : heddle::test::seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    SmBench bench;
    // CTAs of 1/8 of each resource at most, in 8 CTA slots. Each is used again after the longest that a CTA can take
    // and after its exit has reached the MPC: before that an MPC cannot know that the slot is free.
    const Cycle longest = 60;
    const Cycle turn = longest + 20 + 1 + 2 * kDistance;
    double warp_cycles = 0;
    for (std::uint64_t index = 0; index < 200; ++index) {
      ResourceVector need;
      for (std::size_t i = 0; i < kResources; ++i) need.amount[i] = random.below(capacity.amount[i] / 8 + 1);
      const CtaDuration duration{random.below(30), 30 + random.below(longest - 29)};
      bench.start(index / 8 * turn, cta(static_cast<std::uint32_t>(index % 8), index, need, duration));
      warp_cycles +=
          static_cast<double>(need[Resource::warps] * (20 + draw_cycles(duration, kSeed, 5, index) + 2 * kDistance));
    }
    heddle::test::run_until_idle();
    REQUIRE(bench.listener.wrong == 0);
    REQUIRE(bench.listener.ended.size() == 200);
    REQUIRE(bench.sm.resident() == 0);
    REQUIRE(bench.sm.used() == ResourceVector{});
    REQUIRE(bench.stat("warp_cycles") == warp_cycles);
  }
}

TEST_CASE("an SM refuses what does not fit", "[sm]") {
  const ResourceVector capacity = heddle::arch::capacity_of({});
  for (std::size_t i = 0; i < kResources; ++i) {
    CAPTURE(i);
    SmBench bench;
    ResourceVector rest;
    rest.amount[i] = 1;
    ResourceVector all;
    all.amount[i] = capacity.amount[i];
    bench.start(0, cta(0, 0, all, {50, 50}));  // all of it fits …
    bench.start(1, cta(1, 1, rest, {50, 50}));
    CHECK_THROWS_WITH(sc_core::sc_start(), Contains("without the resources"));  // … and nothing beside it
    CHECK(bench.listener.started.size() == 1);
  }
  SECTION("a CTA slot in use") {
    SmBench bench;
    bench.start(0, cta(4, 0, {}, {50, 50}));
    bench.start(1, cta(4, 1, {}, {50, 50}));
    CHECK_THROWS_WITH(sc_core::sc_start(), Contains("started twice"));
  }
  SECTION("a CTA slot that it does not have") {
    SmBench bench;
    bench.start(0, cta(32, 0, {}, {50, 50}));
    CHECK_THROWS_WITH(sc_core::sc_start(), Contains("started twice"));
  }
}

TEST_CASE("a reset SM is empty, and ends nothing that ran before", "[sm]") {
  SmBench bench;
  bench.start(0, cta(0, 0, {{60, 1, 1, 1, 1, 1}}, {500, 500}));
  sc_core::sc_start(sc_core::sc_time(30, sc_core::SC_NS));
  sc_core::sc_time stop = sc_core::sc_time_stamp();
  bench.domain.reset();
  CHECK(bench.sm.resident() == 0);
  CHECK(bench.sm.used() == ResourceVector{});
  bench.listener.used = {};
  bench.listener.resident = 0;
  bench.start(0, cta(0, 1, {{60, 1, 1, 1, 1, 1}}, {10, 10}));
  heddle::test::run_until_idle();
  CHECK(stop == sc_core::sc_time(30, sc_core::SC_NS));
  REQUIRE(bench.mpc.exits.size() == 1);
  CHECK(bench.mpc.exits[0].first == kDistance + 20 + 10 + kDistance);
  CHECK(bench.listener.wrong == 0);
}

TEST_CASE("durations are drawn from seed, operation and CTA alone", "[sm]") {
  CHECK(draw_cycles({7, 7}, 1, 2, 3) == 7);
  CHECK(draw_cycles({9, 3}, 1, 2, 3) == 9);  // a range without a width is its lower end
  Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t min = random.below(1000);
    const std::uint64_t max = min + random.below(1000);
    const std::uint64_t seed = random.next();
    const std::uint32_t operation = random.below(1U << 20);
    const std::uint64_t index = random.below(1U << 30);
    const std::uint64_t drawn = draw_cycles({min, max}, seed, operation, index);
    REQUIRE(drawn >= min);
    REQUIRE(drawn <= max);
    REQUIRE(draw_cycles({min, max}, seed, operation, index) == drawn);
  }
}

TEST_CASE("drawn durations are spread evenly", "[sm]") {
  // 10 values, 100,000 draws each way: every value within 5 standard deviations of its share.
  constexpr double kDraws = 100'000;
  const double tolerance = 5 * std::sqrt(kDraws * 0.1 * 0.9);
  for (const int vary : {0, 1, 2}) {
    CAPTURE(vary);
    std::vector<double> seen(10);
    for (std::uint32_t i = 0; i < 100'000; ++i) {
      ++seen[draw_cycles({0, 9}, vary == 0 ? i : 5, vary == 1 ? i : 5, vary == 2 ? i : 5)];
    }
    for (const double count : seen) CHECK(std::abs(count - kDraws / 10) < tolerance);
  }
}

TEST_CASE("the same CTA takes as long at another time and in another slot", "[sm]") {
  const auto durations = [](bool reverse) {
    SmBench bench;
    for (std::uint32_t i = 0; i < 32; ++i) {
      const std::uint32_t order = reverse ? 31 - i : i;
      bench.start(order * 3, cta(order, i, {{1, 1, 1, 1, 1, 1}}, {10, 5000}));
    }
    heddle::test::run_until_idle();
    std::vector<Cycle> result;
    for (const auto& [key, end] : bench.listener.ended) result.push_back(end - bench.listener.started.at(key));
    return result;
  };
  const std::vector<Cycle> forward = durations(false);
  REQUIRE(forward.size() == 32);
  CHECK(forward == durations(true));
  CHECK(forward[0] == 20 + draw_cycles({10, 5000}, kSeed, 5, 0) + 2 * kDistance);  // it asks before it leaves
}

}  // namespace sm_test

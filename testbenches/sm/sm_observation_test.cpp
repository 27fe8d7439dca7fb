// What an SM shows of its CTAs, and what it holds from the start.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/packet_socket.h"
#include "sm/loose_ends.h"
#include "sm/sm.h"
#include "support/sim_fixture.h"

namespace sm_observation_test {

using Catch::Contains;
using heddle::CtaListener;
using heddle::Cycle;
using heddle::Domain;
using heddle::Picoseconds;
using heddle::TimingMode;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::protocol::CtaExitPacket;
using heddle::protocol::CtaStartPacket;
using heddle::sm::Sm;
using heddle::sm::SmParams;
using heddle::test::run_until;
using heddle::test::run_until_idle;
using heddle::test::SimFixture;

namespace {

constexpr Picoseconds kNanosecond = 1000;
constexpr std::uint32_t kDistance = 6;  // cycles between MPC and SM
constexpr Cycle kStart = 20;            // cycles of a CTA's start

struct Listener : CtaListener {
  virtual ~Listener() = default;
  void cta_started(const Cta& cta) override { started.push_back(cta); }
  void cta_ended(const Cta& cta) override { ended.push_back(cta); }
  std::vector<Cta> started, ended;
};

// Keeps the slices that were drawn.
struct Timeline : heddle::TimelineSink {
  struct Slice {
    std::string name;
    Picoseconds begin = 0;
    Picoseconds end = 0;
    std::map<std::string, std::int64_t> args;
  };
  heddle::TrackId track(const std::string&, const std::string&) override { return {1, 1}; }
  void slice(heddle::TrackId, Picoseconds begin, Picoseconds end, std::string_view name,
             heddle::TimelineArgs args) override {
    Slice slice{std::string(name), begin, end, {}};
    for (const auto& [key, value] : args) slice.args.emplace(key, value);
    slices.push_back(slice);
  }
  void counter(heddle::TrackId, Picoseconds, std::string_view, double) override {}
  std::vector<Slice> slices;
};

// Sends CTAs at given cycles, and hears that they have ended.
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
  std::vector<CtaExitPacket> exits;

  void start(Cycle cycle, const CtaStartPacket& packet) {
    script_.push_back(packet);
    domain_.schedule(cycle, *this, 0, script_.size() - 1);
  }

 private:
  void reset() override {
    script_.clear();
    exits.clear();
  }
  void on_event(std::uint32_t, std::uint64_t which) override { start_out.send(script_[which]); }
  void on_exit(const CtaExitPacket& exit, std::uint32_t) {
    exits.push_back(exit);
    order_out.send(heddle::test::permit_for(exit));
  }
  Domain& domain_;
  std::vector<CtaStartPacket> script_;
};

struct Bench {
  explicit Bench(TimingMode mode = TimingMode::at)
      : domain("domain", 1.0, mode, 0, observation),
        mpc("mpc", domain),
        sm("sm", domain, "sm0", params(), place(), kDistance, 1, rest.code, rest.view()),
        ends("ends", domain, sm) {
    mpc.start_out.bind(sm.start_in);
    sm.exit_out.bind(mpc.exit_in);
    mpc.order_out.bind(sm.order_in);
    observation.ctas = &listener;
    observation.timeline = &timeline;
    observation.load_map.configure(18, 64);
  }
  static heddle::sm::SmContext place() {
    heddle::sm::SmContext place;
    place.id = heddle::protocol::SmId(17);
    place.sms = 18;
    return place;
  }
  static SmParams params() {
    SmParams params;
    params.start_cycles = kStart;
    return params;
  }

  SimFixture sim;
  heddle::GpuObservation observation{"gpu0"};
  Listener listener;
  Timeline timeline;
  Domain domain;
  FakeMpc mpc;
  heddle::test::NoPrograms rest;
  Sm sm;
  heddle::test::LooseEnds ends;
};

CtaStartPacket cta(std::uint32_t cta_slot, const ResourceVector& need, std::uint64_t cycles) {
  CtaStartPacket packet;
  packet.tag = {heddle::protocol::TaskSlot(3), 5, 1001, heddle::protocol::CgaId(4), false, {}};
  packet.cta_slot = heddle::protocol::CtaSlot(cta_slot);
  packet.order = 60;
  packet.id.cta = {7, 3, 2};
  packet.id.index = 7 + 18 * (3 + 12 * 2);
  packet.id.cga = 11;
  packet.id.rank = 4;
  packet.id.cga_size = 6;
  packet.need = need;
  packet.duration = {cycles, cycles};
  packet.departure = 40;
  return packet;
}

}  // namespace

TEST_CASE("what a CTA is shown as", "[sm][CWD-40]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    Bench bench(mode);
    bench.mpc.start(100, cta(0, {{2, 64, 0, 0, 1, 0}}, 50));
    run_until_idle();
    const Cycle arrival = 100 + (mode != TimingMode::lt ? kDistance : 0);
    const Cycle first = arrival + (mode != TimingMode::lt ? kStart : 0);
    REQUIRE(bench.listener.started.size() == 1);
    REQUIRE(bench.listener.ended.size() == 1);
    CHECK(bench.listener.started[0].cycle == arrival);
    CHECK(bench.listener.ended[0].cycle == first + 50 + (mode != TimingMode::lt ? 2 * kDistance : 0));
    for (const CtaListener::Cta& shown : {bench.listener.started[0], bench.listener.ended[0]}) {
      CHECK(shown.task == 5);
      CHECK(shown.index == 7 + 18 * (3 + 12 * 2));
      CHECK(shown.sm == 17);
      CHECK(shown.x == 7);
      CHECK(shown.y == 3);
      CHECK(shown.z == 2);
      CHECK(shown.cga == 11);
      CHECK(shown.rank == 4);
      CHECK(shown.cga_size == 6);
      CHECK(shown.sequence == 1001);
      CHECK(shown.order == 60);
      CHECK(shown.launch == 40);
      CHECK(shown.first_instruction == first);
    }
    REQUIRE(bench.mpc.exits.size() == 1);
    CHECK(bench.mpc.exits[0].tag.sequence == 1001);
    CHECK(bench.mpc.exits[0].tag.cga_id == 4);
  }
}

TEST_CASE("the timeline names the CGA of a CTA that is in one", "[sm]") {
  Bench bench;
  bench.mpc.start(0, cta(0, {{2, 64, 0, 0, 1, 0}}, 50));
  CtaStartPacket alone = cta(1, {{3, 64, 0, 0, 1, 0}}, 90);
  alone.id.rank = 0;
  alone.id.cga_size = 1;
  bench.mpc.start(0, alone);
  run_until_idle();
  REQUIRE(bench.timeline.slices.size() == 2);
  const std::int64_t index = 7 + 18 * (3 + 12 * 2);
  CHECK(bench.timeline.slices[0].args ==
        std::map<std::string, std::int64_t>{{"cta", index}, {"warps", 2}, {"cga", 11}, {"rank", 4}});
  CHECK(bench.timeline.slices[1].args == std::map<std::string, std::int64_t>{{"cta", index}, {"warps", 3}});
  CHECK(bench.timeline.slices[1].begin == kDistance * kNanosecond);
  CHECK(bench.timeline.slices[1].end == (kDistance + kStart + 90 + 2 * kDistance) * kNanosecond);
}

TEST_CASE("preloaded resources are held until their cycle, or for ever", "[sm][CWD-01]") {
  const ResourceVector forever{{8, 256, 1000, 4096, 2, 16}};
  const ResourceVector first{{4, 128, 0, 0, 1, 0}};
  const ResourceVector second{{2, 64, 0, 100, 1, 0}};
  Bench bench;
  bench.sm.preload(forever, 0);
  bench.sm.preload(first, 300);
  bench.sm.preload(second, 500);
  const auto expect = [&bench](const std::vector<ResourceVector>& parts, const ResourceVector& ctas) {
    ResourceVector base;
    for (const ResourceVector& part : parts) base.add(part);
    CHECK(bench.sm.base() == base);
    base.add(ctas);
    CHECK(bench.sm.used() == base);
  };
  const ResourceVector none;
  const ResourceVector need{{1, 32, 256, 1024, 1, 16}};
  const auto reach = [&bench](Cycle cycle) {
    const sc_core::sc_time origin = bench.domain.clock().time_of(0);
    run_until(origin + sc_core::sc_time(static_cast<double>(cycle), sc_core::SC_NS));
  };
  for (int turn = 0; turn < 3; ++turn) {
    CAPTURE(turn);
    expect({forever, first, second}, none);
    bench.mpc.start(250, cta(0, need, 200));
    reach(299);
    expect({forever, first, second}, need);
    reach(301);
    expect({forever, second}, need);
    CHECK(bench.sm.resident() == 1);
    reach(499);
    expect({forever, second}, none);
    if (turn < 2) {  // in the middle, and all of it comes back
      bench.domain.reset();
      continue;
    }
    run_until_idle();
    expect({forever}, none);
    bench.domain.reset();
    expect({forever, first, second}, none);
  }
}

TEST_CASE("a CTA finds no room beside what is preloaded", "[sm][CWD-01]") {
  ResourceVector capacity = heddle::arch::capacity_of({});
  ResourceVector most = capacity;
  --most[Resource::warps];
  const ResourceVector two{{2, 0, 0, 0, 0, 0}};
  SECTION("while it is held") {
    Bench bench;
    bench.sm.preload(most, 0);
    bench.mpc.start(1000, cta(0, two, 5));
    CHECK_THROWS_WITH(sc_core::sc_start(), Contains("without the resources"));
  }
  SECTION("until it is free") {
    Bench bench;
    bench.sm.preload(most, 1000);
    bench.mpc.start(1000, cta(0, two, 5));  // in the very cycle
    run_until_idle();
    CHECK(bench.listener.ended.size() == 1);
    CHECK(bench.sm.used() == ResourceVector{});
  }
  SECTION("and more than the SM has cannot be preloaded") {
    Bench bench;
    bench.sm.preload(most, 0);
    CHECK_THROWS_WITH(bench.sm.preload(two, 0), Contains("more than it has"));
  }
}

}  // namespace sm_observation_test

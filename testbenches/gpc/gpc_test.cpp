// GPM and MPCs of one GPC over their sockets, between stand-ins for the distributor and the SMs.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "gpc/gpm.h"
#include "gpc/mpc.h"
#include "support/random.h"
#include "support/sim_fixture.h"

using Catch::Contains;
using heddle::Cycle;
using heddle::Domain;
using heddle::TimingMode;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::gpc::CtaSlots;
using heddle::gpc::GpcParams;
using heddle::gpc::Gpm;
using heddle::gpc::Mpc;
using heddle::protocol::CompletePacket;
using heddle::protocol::CtaExitPacket;
using heddle::protocol::CtaStartPacket;
using heddle::protocol::LaunchPacket;
using heddle::test::Random;
using heddle::test::SimFixture;

namespace {

constexpr std::uint32_t kSlots = 4;  // CTA slots of an SM

struct Start {
  Cycle cycle;
  std::uint32_t sm;  // bit of the GPC's masks
  CtaStartPacket packet;
};

class FakeSm : public sc_core::sc_module, private heddle::EventHandler, private heddle::Resettable {
 public:
  FakeSm(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t bit, std::vector<Start>& starts,
         const std::function<Cycle(std::uint64_t)>& duration)
      : sc_core::sc_module(name),
        start_in("start_in", domain, 3),
        exit_out("exit_out", domain, 3, heddle::kUnlimitedCredits),
        domain_(domain),
        bit_(bit),
        starts_(starts),
        duration_(duration) {
    start_in.on_packet<FakeSm, &FakeSm::on_start>(*this);
    domain.add_resettable(*this);
  }
  heddle::PacketIn<CtaStartPacket> start_in;
  heddle::PacketOut<CtaExitPacket> exit_out;
  std::vector<std::string> problems;

 private:
  void reset() override { live_.clear(); }
  void on_start(const CtaStartPacket& start, std::uint32_t) {
    starts_.push_back({domain_.now(), bit_, start});
    // The lowest slot that is free.
    std::uint32_t lowest = 0;
    while (live_.count(lowest) != 0) ++lowest;
    if (!live_.emplace(start.cta_slot, start.slot).second) problems.push_back("a CTA slot was given twice");
    if (start.cta_slot >= kSlots || start.cta_slot < lowest) problems.push_back("a CTA slot that does not exist");
    domain_.schedule_in(duration_(start.index), *this, 0, start.cta_slot);
  }
  void on_event(std::uint32_t, std::uint64_t cta_slot) override {
    const auto slot = static_cast<std::uint32_t>(cta_slot);
    exit_out.send({live_.at(slot), slot});
    live_.erase(slot);
  }
  Domain& domain_;
  std::uint32_t bit_;
  std::vector<Start>& starts_;
  const std::function<Cycle(std::uint64_t)>& duration_;
  std::map<std::uint32_t, std::uint32_t> live_;  // CTA slot -> task
};

// Sends launch packets as credits allow, and hears completions.
class FakeCwd : public sc_core::sc_module, private heddle::EventHandler, private heddle::Resettable {
 public:
  FakeCwd(const sc_core::sc_module_name& name, Domain& domain, std::uint32_t sms)
      : sc_core::sc_module(name),
        launch_out("launch_out", domain, 10, 2),
        complete_in("complete_in", domain, 0),
        on_sm(sms, 0),
        domain_(domain) {
    launch_out.on_credit<FakeCwd, &FakeCwd::on_credit>(*this);
    complete_in.on_packet<FakeCwd, &FakeCwd::on_complete>(*this);
    domain.add_resettable(*this);
  }
  heddle::PacketOut<LaunchPacket> launch_out;
  heddle::PacketIn<CompletePacket> complete_in;
  std::vector<LaunchPacket> script;
  std::vector<std::uint32_t> on_sm;  // CTAs that run, as far as the distributor knows
  std::vector<std::pair<Cycle, CompletePacket>> completions;
  std::map<std::uint32_t, std::uint64_t> completed;  // by task

  void start(Cycle cycle) { domain_.schedule(cycle, *this, 0); }

 private:
  void reset() override {
    script.clear();
    next_ = 0;
    std::fill(on_sm.begin(), on_sm.end(), 0U);
  }
  void on_event(std::uint32_t, std::uint64_t) override { pump(); }
  void on_credit(std::uint32_t) { pump(); }
  void on_complete(const CompletePacket& complete, std::uint32_t) {
    completions.emplace_back(domain_.now(), complete);
    for (std::size_t bit = 0; bit < on_sm.size(); ++bit) on_sm[bit] -= (complete.sm_mask >> bit & 1) != 0 ? 1 : 0;
    completed[complete.slot] += static_cast<std::uint64_t>(__builtin_popcountll(complete.sm_mask));
    pump();
  }
  bool fits(std::uint64_t mask) const {
    for (std::size_t bit = 0; bit < on_sm.size(); ++bit) {
      if ((mask >> bit & 1) != 0 && on_sm[bit] == kSlots) return false;
    }
    return true;
  }
  void pump() {
    for (; next_ < script.size() && fits(script[next_].sm_mask) && launch_out.can_send(); ++next_) {
      for (std::size_t bit = 0; bit < on_sm.size(); ++bit)
        on_sm[bit] += (script[next_].sm_mask >> bit & 1) != 0 ? 1 : 0;
      launch_out.send(script[next_]);
    }
  }
  Domain& domain_;
  std::size_t next_ = 0;
};

struct GpcBench {
  explicit GpcBench(const Shape& shape, const GpcParams& params, TimingMode mode = TimingMode::at, Cycle run_ahead = 0)
      : topology(shape),
        gpc(topology.gpc(0)),
        domain("domain", 1.0, mode, run_ahead, observation),
        cwd("cwd", domain, gpc.sms),
        gpm("gpm", domain, "gpc0.gpm", params, gpc) {
    cwd.launch_out.bind(gpm.launch_in);
    gpm.complete_out.bind(cwd.complete_in);
    for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) {
      const std::string name = fmt::format("mpc{}", t);
      mpcs.push_back(std::make_unique<Mpc>(name.c_str(), domain, "gpc0." + name, params, gpc.tpcs[t].sms, kSlots));
      gpm.tpc_launch_out.bind(mpcs.back()->launch_in);
      mpcs.back()->complete_out.bind(gpm.complete_in[t]);
      for (std::uint32_t i = 0; i < gpc.tpcs[t].sms; ++i) {
        const std::uint32_t bit = gpc.tpcs[t].first_sm + i;
        sms.push_back(std::make_unique<FakeSm>(fmt::format("sm{}", bit).c_str(), domain, bit, starts, duration));
        mpcs.back()->start_out.bind(sms.back()->start_in);
        sms.back()->exit_out.bind(mpcs.back()->exit_in[i]);
      }
    }
  }
  LaunchPacket launch(std::uint32_t slot, std::uint64_t mask, std::uint64_t raster) const {
    LaunchPacket packet;
    packet.slot = slot;
    packet.operation = slot + 100;
    packet.sm_mask = mask;
    packet.num_ctas = static_cast<std::uint32_t>(__builtin_popcountll(mask));
    packet.raster = raster;
    packet.duration = {raster, raster};
    return packet;
  }
  void expect_idle() const {
    REQUIRE(gpm.live_ctas() == 0);
    for (std::size_t t = 0; t < mpcs.size(); ++t) {
      for (std::uint32_t i = 0; i < gpc.tpcs[t].sms; ++i) REQUIRE(mpcs[t]->slots_used(i) == 0);
    }
    for (const auto& sm : sms) REQUIRE(sm->problems == std::vector<std::string>{});
  }

  SimFixture sim;
  heddle::Observation observation{"gpu0"};
  std::function<Cycle(std::uint64_t)> duration = [](std::uint64_t) { return Cycle{50}; };
  std::vector<Start> starts;
  Topology topology;
  const Topology::Gpc& gpc;
  Domain domain;
  FakeCwd cwd;
  Gpm gpm;
  std::vector<std::unique_ptr<Mpc>> mpcs;
  std::vector<std::unique_ptr<FakeSm>> sms;
};

GpcParams plain() {
  GpcParams params;
  params.gpm_to_mpc = 5;
  params.mpc_to_sm = 2;
  params.gpm_to_cwd = 40;
  return params;
}

// One GPC: CPCs of TPCs of 2, 1 and 3, 2 SMs: bits 01 2 345 67.
Shape uneven() { return Shape{{{{2, 1}, {3, 2}}}}; }

}  // namespace

TEST_CASE("a mask with holes gives its CTAs in the order of its bits", "[gpc][CWD-31]") {
  GpcBench bench(uneven(), plain());
  bench.cwd.script = {bench.launch(3, 0b1011'0110, 1000)};
  bench.cwd.start(0);
  heddle::test::run_until_idle();
  REQUIRE(bench.starts.size() == 5);
  std::map<std::uint32_t, std::uint64_t> index;
  for (const Start& start : bench.starts) {
    index[start.sm] = start.packet.index;
    CHECK(start.cycle == 10 + 5 + 2);
    CHECK(start.packet.slot == 3);
    CHECK(start.packet.operation == 103);
    CHECK(start.packet.duration.min == 1000);
  }
  CHECK(index == std::map<std::uint32_t, std::uint64_t>{{1, 1000}, {2, 1001}, {4, 1002}, {5, 1003}, {7, 1004}});
  bench.expect_idle();
}

TEST_CASE("completions of one cycle leave as one packet per task", "[gpc]") {
  GpcBench bench(uneven(), plain());
  bench.duration = [](std::uint64_t index) { return index == 3 ? Cycle{60} : Cycle{50}; };
  bench.cwd.script = {bench.launch(0, 0b0000'1111, 0)};
  bench.cwd.start(0);
  heddle::test::run_until_idle();
  REQUIRE(bench.cwd.completions.size() == 2);
  const Cycle first = 10 + 5 + 2 + 50 + 3 + 5 + 40;
  CHECK(bench.cwd.completions[0].first == first);
  CHECK(bench.cwd.completions[0].second.sm_mask == 0b0111);
  CHECK(bench.cwd.completions[1].first == first + 10);
  CHECK(bench.cwd.completions[1].second.sm_mask == 0b1000);
  bench.expect_idle();
}

TEST_CASE("two CTAs of an SM that end in one cycle are both counted", "[gpc][CWD-07]") {
  for (const bool same_task : {true, false}) {
    CAPTURE(same_task);
    GpcBench bench(uneven(), plain());
    bench.duration = [&bench](std::uint64_t) { return 500 - bench.domain.now(); };  // all end at cycle 500
    bench.cwd.script = {bench.launch(0, 0b1, 0), bench.launch(same_task ? 0 : 1, 0b1, 1), bench.launch(0, 0b11, 2)};
    bench.cwd.start(0);
    heddle::test::run_until_idle();
    CHECK(bench.cwd.completed[0] + bench.cwd.completed[1] == 4);
    CHECK(bench.cwd.completed[0] == (same_task ? 4 : 3));
    CHECK(bench.cwd.on_sm[0] == 0);
    CHECK(bench.cwd.on_sm[1] == 0);
    CHECK(bench.cwd.completions.size() == 3);
    for (const auto& completion : bench.cwd.completions) CHECK(completion.first == 500 + 3 + 5 + 40);
    bench.expect_idle();
  }
}

TEST_CASE("an MPC's credits hold launches back, and lose none", "[gpc][CWD-07]") {
  GpcParams params = plain();
  params.mpc_queue = 1;
  params.gpm_to_cwd = 0;
  GpcBench bench(uneven(), params);
  for (std::uint64_t i = 0; i < 4; ++i) bench.cwd.script.push_back(bench.launch(0, 0b0000'0011, 2 * i));
  bench.cwd.script.push_back(bench.launch(0, 0b1000'0000, 8));  // behind them, though its MPC is idle
  bench.cwd.start(0);
  heddle::test::run_until_idle();
  REQUIRE(bench.starts.size() == 9);
  for (std::size_t i = 0; i < 8; ++i) CHECK(bench.starts[i].cycle == 17 + i / 2 * 10);  // there and back: 10 cycles
  CHECK(bench.starts[8].cycle == bench.starts[7].cycle);
  bench.expect_idle();
}

TEST_CASE("random launches reach the right SMs with the right ids", "[gpc][CWD-07][CWD-31]") {
  for (const std::uint64_t seed : heddle::test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    GpcParams params;
    params.gpm_to_mpc = random.below(12);
    params.mpc_to_sm = random.below(6);
    params.gpm_to_cwd = random.below(80);
    params.mpc_queue = random.between(1, 3);
    GpcBench bench(random.shape(1), params, random.chance(20) ? TimingMode::lt : TimingMode::at,
                   random.chance(50) ? 0 : 1024);
    const std::uint64_t longest = random.between(1, 200);
    bench.duration = [longest](std::uint64_t index) { return Cycle{1 + index * 7919 % longest}; };
    std::map<std::uint32_t, std::uint64_t> raster;
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint32_t> wanted;  // task, index -> SM
    const std::uint32_t packets = random.between(1, 120);
    for (std::uint32_t p = 0; p < packets; ++p) {
      const std::uint64_t all = bench.gpc.sms == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bench.gpc.sms) - 1;
      const std::uint64_t mask = random.next() & all;
      if (mask == 0) continue;
      const std::uint32_t slot = random.below(3);
      bench.cwd.script.push_back(bench.launch(slot, mask, raster[slot]));
      for (std::uint32_t bit = 0; bit < bench.gpc.sms; ++bit) {
        if ((mask >> bit & 1) != 0) wanted[{slot, raster[slot]++}] = bit;
      }
    }
    bench.cwd.start(0);
    heddle::test::run_until_idle();
    REQUIRE(bench.starts.size() == wanted.size());
    for (const Start& start : bench.starts) REQUIRE(wanted.at({start.packet.slot, start.packet.index}) == start.sm);
    for (const auto& [slot, ctas] : raster) REQUIRE(bench.cwd.completed[slot] == ctas);
    REQUIRE(bench.observation.stats.to_json().at("gpu0.gpc0.gpm.ctas").at("value") == wanted.size());
    bench.expect_idle();
    heddle::WaitGraph waits;
    bench.domain.collect_waits(waits);
    REQUIRE(waits.empty());
  }
}

TEST_CASE("a reset GPC forgets what was on its way", "[gpc][CWD-07]") {
  for (Cycle when = 1; when < 200; when += 3) {
    CAPTURE(when);
    GpcParams params = plain();
    params.mpc_queue = 1;
    GpcBench bench(uneven(), params);
    const auto feed = [&bench](Cycle cycle) {
      for (std::uint64_t i = 0; i < 12; ++i) bench.cwd.script.push_back(bench.launch(0, 0b1101'1011, 6 * i));
      bench.cwd.start(cycle);
    };
    feed(0);
    sc_core::sc_start(sc_core::sc_time(static_cast<double>(when), sc_core::SC_NS));
    bench.domain.reset();
    bench.expect_idle();
    bench.starts.clear();
    bench.cwd.completed.clear();
    bench.cwd.completions.clear();
    feed(0);
    heddle::test::run_until_idle();
    REQUIRE(bench.starts.size() == 72);
    CHECK(bench.starts[0].cycle == 17);
    CHECK(bench.cwd.completed[0] == 72);
    bench.expect_idle();
  }
}

TEST_CASE("launches that cannot be are caught", "[gpc][CWD-07][CWD-31]") {
  GpcBench bench(uneven(), plain());
  const auto run_with = [&bench](const LaunchPacket& packet) {
    bench.cwd.script = {packet};
    bench.cwd.start(0);
    heddle::test::run_until_idle();
  };
  SECTION("more CTAs than bits") {
    LaunchPacket packet = bench.launch(0, 0b11, 0);
    packet.num_ctas = 3;
    CHECK_THROWS_WITH(run_with(packet), Contains("differs from its mask"));
  }
  SECTION("no CTA at all") { CHECK_THROWS_WITH(run_with(bench.launch(0, 0, 0)), Contains("differs from its mask")); }
  SECTION("an SM beyond the GPC") {
    bench.cwd.on_sm.resize(9);
    CHECK_THROWS_WITH(run_with(bench.launch(0, 0b1'0000'0001, 0)), Contains("does not have"));
  }
  SECTION("more CTAs on an SM than slots") {
    bench.cwd.on_sm.clear();  // the stand-in keeps no count
    for (std::uint64_t i = 0; i < kSlots; ++i) bench.cwd.script.push_back(bench.launch(0, 1, i));
    bench.cwd.script.push_back(bench.launch(0, 1, kSlots));
    bench.duration = [](std::uint64_t) { return Cycle{10'000}; };
    bench.cwd.start(0);
    CHECK_THROWS_WITH(sc_core::sc_start(), Contains("CTA slots are all in use"));
  }
}

TEST_CASE("CTA slots are taken from the lowest", "[gpc]") {
  for (const std::uint32_t count : {1U, 3U, 32U, 63U, 64U}) {
    CAPTURE(count);
    CtaSlots slots(count);
    std::set<std::uint32_t> used;
    Random random(count);
    for (int step = 0; step < 3000; ++step) {
      if (used.size() < count && (used.empty() || random.chance(52))) {
        std::uint32_t lowest = 0;
        while (used.count(lowest) != 0) ++lowest;
        REQUIRE(slots.take() == lowest);
        used.insert(lowest);
      } else {
        auto which = used.begin();
        std::advance(which, random.below(used.size()));
        slots.give(*which);
        REQUIRE_THROWS_AS(slots.give(*which), heddle::CheckFailed);
        used.erase(which);
      }
      REQUIRE(slots.used() == used.size());
    }
    while (slots.used() < count) slots.take();
    CHECK_THROWS_AS(slots.take(), heddle::CheckFailed);
    if (count < 64) CHECK_THROWS_AS(slots.give(count), heddle::CheckFailed);
    slots.reset();
    CHECK(slots.used() == 0);
  }
}

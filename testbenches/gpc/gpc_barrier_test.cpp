// Cluster barriers over the sockets of a GPC: who is let go on, and when.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/gpc_bench.h"
#include "support/random.h"

namespace gpc_barrier_test {

using Catch::Contains;
using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using Kind = heddle::protocol::ClusterOrderPacket::Kind;

namespace {

constexpr Cycle kThere = 10 + 5 + 2;  // distributor to SM, with plain()
constexpr Cycle kToGpm = 3 + 5;       // SM to GPM
constexpr Cycle kPhase = kToGpm + 50 + 50 + 5 + 2;
constexpr Cycle kPermit = 3 + 2;  // SM to MPC and back

// Orders of that kind by cycle: which SMs got them.
std::map<Cycle, std::vector<std::uint32_t>> orders(const GpcBench& bench, Kind kind) {
  std::map<Cycle, std::vector<std::uint32_t>> result;
  for (const auto& order : bench.script.orders) {
    if (order.packet.kind == kind) result[order.cycle].push_back(order.sm);
  }
  for (auto& [cycle, sms] : result) std::sort(sms.begin(), sms.end());
  return result;
}

using Orders = std::map<Cycle, std::vector<std::uint32_t>>;

}  // namespace

TEST_CASE("a phase ends for all CTAs in one cycle, and on their SMs alone", "[gpc][CGA-13]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    GpcBench bench(uneven(), plain(), mode);
    bench.script.behave = [](std::uint64_t index) { return Behaviour{50, {10 + 20 * index, 5}, true, 0, 0}; };
    bench.cwd.script = {bench.cga(4, {0b0100'0011, 0b1}, 0, 4, true, 77)};
    bench.cwd.start(0);
    run_until_idle();
    const bool at = mode != TimingMode::lt;
    const Cycle first = at ? kThere + 10 + 20 * 3 + kPhase : 70;
    const Cycle second = first + 5 + (at ? kPhase : 0);
    CHECK(orders(bench, Kind::barrier) == Orders{{first, {0, 1, 6}}, {second, {0, 1, 6}}});
    REQUIRE(bench.script.gone.size() == 4);
    for (const auto& gone : bench.script.gone) CHECK(gone.cycle == second + 50 + (at ? kPermit : 0));
    CHECK(bench.stat("gpm.cluster_barriers") == 2);
    bench.expect_idle();
  }
}

TEST_CASE("no barrier completes before all CTAs have been launched and entered", "[gpc][CGA-04]") {
  SECTION("the last CTA comes late") {
    GpcBench bench(uneven(), plain());
    bench.script.behave = [](std::uint64_t index) {
      if (index >= 10) return Behaviour{600, {}, true, 0, 0};  // of a task that holds the second CTA's SM
      return Behaviour{50, {3}, true, 0, 0};
    };
    bench.cwd.script = {bench.cga(0, {0b1}, 0, 2, true, 9)};
    for (std::uint32_t i = 0; i < kSlots; ++i) bench.cwd.script.push_back(bench.launch(1, 0b10, 10 + i));
    bench.cwd.script.push_back(bench.cga(0, {0b10}, 1, 2, false, 9));
    bench.cwd.start(0);
    run_until(sc_core::sc_time(400, sc_core::SC_NS));
    CHECK(orders(bench, Kind::barrier).empty());
    heddle::WaitGraph waits;
    bench.domain.collect_waits(waits);
    REQUIRE(waits.size() == 1);
    CHECK(
        waits.chain().at(0) ==
        "the cluster barrier of operation 100, CGA 0 of GPC 5 waits: for the launch of 1 more CTAs by the distributor");
    run_until_idle();
    const Cycle started = bench.starts.back().cycle;
    CHECK(started > 600);
    CHECK(orders(bench, Kind::barrier) == Orders{{started + 3 + kPhase, {0, 1}}});
    bench.expect_idle();
  }
  SECTION("the broadcast of its start takes long") {
    GpcParams params = plain();
    params.cta_broadcast = 200;
    GpcBench bench(uneven(), params);
    bench.script.behave = [](std::uint64_t) { return Behaviour{50, {3}, true, 0, 0}; };
    bench.cwd.script = {bench.cga(0, {0b11}, 0, 2, true, 9)};
    bench.cwd.start(0);
    run_until_idle();
    CHECK(orders(bench, Kind::barrier) == Orders{{10 + 5 + 200 + 5 + 50 + 5 + 2, {0, 1}}});
    bench.expect_idle();
  }
}

TEST_CASE("a CTA that has completed no longer counts", "[gpc][CGA-13]") {
  GpcBench bench(uneven(), plain());
  bench.script.behave = [](std::uint64_t index) {
    if (index == 1) return Behaviour{300, {}, true, 0, 0};
    return Behaviour{50, {10}, index != 2, 0, 0};  // the third arrives and goes
  };
  bench.cwd.script = {bench.cga(0, {0b10'0101}, 0, 3, true, 9)};
  bench.cwd.start(0);
  run_until(sc_core::sc_time(200, sc_core::SC_NS));
  heddle::WaitGraph waits;
  bench.domain.collect_waits(waits);
  CHECK(waits.chain() ==
        std::vector<std::string>{"the cluster barrier of operation 100, CGA 0 of GPC 5 waits: where 1 "
                                 "of the 2 CTAs that are left have arrived, for CTA 1 of CGA 0 of GPC 5"});
  run_until_idle();
  // SMs whose CTAs have gone have nobody to let go on.
  CHECK(orders(bench, Kind::barrier) == Orders{{kThere + 300 + kPermit + 5 + 50 + 5 + 2, {0}}});
  bench.expect_idle();
}

TEST_CASE("who is waited for and has exited is said to have", "[gpc][CGA-14]") {
  GpcBench bench(uneven(), plain());
  // The CTAs of the first CGA all exit; its id is the second one's then, of which CTA 1 exits early.
  bench.script.behave = [](std::uint64_t index) {
    return Behaviour{index == 3 || index == 5 ? Cycle{5000} : Cycle{50}, {}, true, 0, 0};
  };
  bench.cwd.script = {bench.cga(0, {0b10'0101}, 0, 3, true, 1)};
  bench.cwd.start(0);
  run_until_idle();
  bench.cwd.script.push_back(bench.cga(0, {0b10'0101}, 3, 3, true, 2));
  bench.cwd.start(bench.domain.now() + 1);
  const Cycle begin = bench.domain.now();
  const auto chain_to = [&bench](std::uint32_t rank) {
    heddle::WaitGraph waits;
    waits.add("somebody", "at an mbarrier, for",
              heddle::protocol::cta_name(heddle::protocol::GpcId(kGpcNumber), heddle::protocol::CgaId(0), rank));
    bench.domain.collect_waits(waits);
    return waits.chain();
  };
  const std::string for_1 = "somebody waits: at an mbarrier, for CTA 1 of CGA 0 of GPC 5";
  run_until(sc_core::sc_time(static_cast<double>(begin + 40), sc_core::SC_NS));
  REQUIRE(bench.starts.size() == 6);
  CHECK(chain_to(1) == std::vector<std::string>{for_1});
  run_until(sc_core::sc_time(static_cast<double>(begin + 1000), sc_core::SC_NS));
  CHECK(chain_to(1) == std::vector<std::string>{for_1, "CTA 1 of CGA 0 of GPC 5 waits: which has exited"});
  CHECK(chain_to(0).size() == 1);
  CHECK(chain_to(2).size() == 1);
  run_until_idle();
  CHECK(chain_to(1).size() == 1);
  bench.expect_idle();
}

TEST_CASE("a phase for which nobody is left ends nothing", "[gpc][CGA-13]") {
  GpcParams params = plain();
  params.barrier_near = params.barrier_far = 500;
  params.cga_ids = 1;
  GpcBench bench(uneven(), params);
  bench.script.behave = [](std::uint64_t index) { return Behaviour{50, {10}, index >= 2, 0, 0}; };
  // The id of the first CGA is the second one's when its phase would end.
  bench.cwd.script = {bench.cga(0, {0b11}, 0, 2, true, 1), bench.cga(0, {0b11}, 2, 2, true, 2)};
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 4);
  const Cycle begin = bench.starts.back().cycle;
  CHECK(begin < 500);
  CHECK(orders(bench, Kind::barrier) == Orders{{begin + 10 + kToGpm + 1000 + 5 + 2, {0, 1}}});
  CHECK(bench.stat("gpm.cluster_barriers") == 1);
  bench.expect_idle();
}

// Every phase of every CGA recomputed from the cycles at which its CTAs reached their SMs.
TEST_CASE("random CGAs at barriers: every phase ends when it should", "[gpc][CGA-04][CGA-13]") {
  std::uint64_t phases = 0;
  for (const std::uint64_t seed : seeds(400)) {
    CAPTURE(seed);
    Random random(seed);
    GpcParams params;
    params.gpm_to_mpc = random.below(12);
    params.mpc_to_sm = random.below(6);
    params.mpc_queue = random.between(1, 3);
    params.cga_ids = random.between(1, 6);
    params.cta_broadcast = random.below(100);
    params.barrier_near = random.below(200);
    params.barrier_far = random.below(200);
    params.barrier_arrivals = 0;
    params.raster_cycles = random.below(4);
    params.cta_entries = 0;  // all at once
    const TimingMode mode = random.chance(20) ? TimingMode::lt : TimingMode::at;
    const auto cost = [mode](Cycle cycles) { return mode == TimingMode::lt ? 0 : cycles; };
    GpcBench bench(random.shape(1), params, mode, random.chance(50) ? 0 : 1024);
    const std::uint32_t ctas = random.between(1, std::min<std::uint64_t>(16, bench.gpc.sms));
    const std::uint32_t cgas = random.between(1, 12);
    const std::uint32_t most = random.between(1, 4);
    const std::uint32_t longest = random.between(2, 300);
    std::vector<Behaviour> plans;
    for (std::uint32_t i = 0; i < ctas * cgas; ++i) {
      Behaviour plan;
      plan.duration = random.below(longest);
      // A cycle at least lies between the end of a phase and the next arrival.
      for (std::uint32_t p = random.below(most + 1); p > 0; --p) plan.arrivals.push_back(random.between(1, longest));
      plans.push_back(plan);
    }
    bench.script.behave = [&plans](std::uint64_t index) { return plans.at(index); };
    for (std::uint32_t c = 0; c < cgas; ++c) {
      const std::uint32_t cut = random.between(1, ctas);  // in one packet or two
      const std::uint64_t low = (std::uint64_t{1} << cut) - 1;
      const std::uint64_t high = ((std::uint64_t{1} << ctas) - 1) & ~low;
      bench.cwd.script.push_back(bench.cga(0, {low}, c * ctas, ctas, true, c));
      if (high != 0) bench.cwd.script.push_back(bench.cga(0, {high}, c * ctas + cut, ctas, false, c));
    }
    bench.cwd.start(0);
    run_until_idle();
    REQUIRE(bench.starts.size() == plans.size());
    std::map<std::uint64_t, Cycle> start_of, gone_of;
    for (const Start& start : bench.starts) start_of[start.packet.id.index] = start.cycle;
    for (const auto& gone : bench.script.gone) gone_of[gone.index] = gone.cycle;
    const Cycle up = cost(kSmToMpc + params.gpm_to_mpc);
    std::map<std::uint64_t, Cycle> way_of;  // between its MPC and the barrier unit
    for (const Start& start : bench.starts) {
      std::uint32_t tpc = 0;
      while (start.sm >= bench.gpc.tpcs[tpc].first_sm + bench.gpc.tpcs[tpc].sms) ++tpc;
      const auto last = static_cast<double>(bench.gpc.tpcs.size() - 1);
      const double near = params.barrier_near;
      const double share = tpc == 0 ? 0 : tpc / last;
      way_of[start.packet.id.index] =
          cost(static_cast<Cycle>(std::llround(near + share * (params.barrier_far - near))));
    }
    for (std::uint32_t c = 0; c < cgas; ++c) {
      CAPTURE(c);
      Cycle entered = 0;
      std::vector<Cycle> free(ctas);  // when each can go on
      for (std::uint32_t r = 0; r < ctas; ++r) {
        free[r] = start_of.at(c * ctas + r);
        entered = std::max(entered, free[r] - cost(params.mpc_to_sm) + cost(params.cta_broadcast + params.gpm_to_mpc));
      }
      for (std::uint32_t phase = 0; phase < most; ++phase) {
        Cycle complete = entered;
        bool any = false;
        for (std::uint32_t r = 0; r < ctas; ++r) {
          const Behaviour& plan = plans[c * ctas + r];
          const bool takes_part = phase < plan.arrivals.size();
          any = any || takes_part;
          const Cycle then =
              takes_part ? plan.arrivals[phase] + way_of.at(c * ctas + r) : plan.duration + cost(params.mpc_to_sm);
          complete = std::max(complete, free[r] + then + up);
        }
        if (!any) break;
        ++phases;
        for (std::uint32_t r = 0; r < ctas; ++r) {
          if (phase >= plans[c * ctas + r].arrivals.size()) continue;
          free[r] = complete + way_of.at(c * ctas + r) + cost(params.gpm_to_mpc + params.mpc_to_sm);
        }
      }
      for (std::uint32_t r = 0; r < ctas; ++r) {
        REQUIRE(gone_of.at(c * ctas + r) == free[r] + plans[c * ctas + r].duration + cost(kSmToMpc + params.mpc_to_sm));
      }
    }
    bench.expect_idle();
  }
  CHECK(phases > 3000);
}

TEST_CASE("a reset in the middle of a barrier leaves nothing of it", "[gpc][CGA-13]") {
  for (Cycle when = 1; when < 300; when += 3) {
    CAPTURE(when);
    GpcBench bench(uneven(), plain());
    bench.script.behave = [](std::uint64_t index) { return Behaviour{20, {10 + index, 9}, true, 15, 0}; };
    const auto feed = [&bench] {
      bench.cwd.script = {bench.cga(0, {0b1100'0011}, 0, 4, true, 1), bench.cga(0, {0b1100'0011}, 4, 4, true, 2)};
      bench.cwd.start(0);
    };
    feed();
    run_until(sc_core::sc_time(static_cast<double>(when), sc_core::SC_NS));
    bench.domain.reset();
    bench.expect_idle();
    bench.script.gone.clear();
    bench.script.orders.clear();
    feed();
    run_until_idle();
    CHECK(bench.script.gone.size() == 8);
    CHECK(orders(bench, Kind::barrier).begin()->first == kThere + 13 + kPhase);
    CHECK(bench.cwd.cga_completions.back().second.sequence == 2);
    bench.expect_idle();
  }
}

}  // namespace gpc_barrier_test

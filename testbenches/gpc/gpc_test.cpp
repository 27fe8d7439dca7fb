// GPM and MPCs of one GPC: launches reach their SMs, completions the distributor.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/gpc_bench.h"
#include "support/random.h"

namespace gpc_test {

using Catch::Contains;
using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::gpc::CtaSlots;

TEST_CASE("a mask with holes gives its CTAs in the order of its bits", "[gpc][CWD-31]") {
  GpcBench bench(uneven(), plain());
  bench.cwd.script = {bench.launch(3, 0b1011'0110, 1000)};
  bench.cwd.script[0].sequence = 17;
  bench.cwd.script[0].departure = 5;
  bench.cwd.script[0].need = {{1, 2, 3, 4, 5, 6}};
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 5);
  std::map<std::uint32_t, std::uint64_t> index;
  for (const Start& start : bench.starts) {
    index[start.sm] = start.packet.id.index;
    CHECK(start.cycle == 10 + 5 + 2);
    CHECK(start.packet.tag.slot == 3);
    CHECK(start.packet.tag.operation == 103);
    CHECK(start.packet.duration.min == 1000);
    CHECK(start.packet.tag.sequence == 17);
    CHECK(start.packet.departure == 5);
    CHECK(start.packet.need == heddle::arch::ResourceVector{{1, 2, 3, 4, 5, 6}});
    CHECK(start.packet.order == start.packet.id.index);
  }
  CHECK(index == std::map<std::uint32_t, std::uint64_t>{{1, 1000}, {2, 1001}, {4, 1002}, {5, 1003}, {7, 1004}});
  bench.expect_idle();
}

TEST_CASE("completions of one cycle leave as one packet per task", "[gpc]") {
  GpcBench bench(uneven(), plain());
  bench.duration = [](std::uint64_t index) { return index == 3 ? Cycle{60} : Cycle{50}; };
  bench.cwd.script = {bench.launch(0, 0b0000'1111, 0)};
  bench.cwd.start(0);
  run_until_idle();
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
    run_until_idle();
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
  run_until_idle();
  REQUIRE(bench.starts.size() == 9);
  for (std::size_t i = 0; i < 8; ++i) CHECK(bench.starts[i].cycle == 17 + i / 2 * 10);  // there and back: 10 cycles
  CHECK(bench.starts[8].cycle == bench.starts[7].cycle);
  bench.expect_idle();
}

TEST_CASE("random launches reach the right SMs with the right ids", "[gpc][CWD-07][CWD-31]") {
  for (const std::uint64_t seed : seeds(300)) {
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
    run_until_idle();
    REQUIRE(bench.starts.size() == wanted.size());
    for (const Start& start : bench.starts)
      REQUIRE(wanted.at({start.packet.tag.slot, start.packet.id.index}) == start.sm);
    for (const auto& [slot, ctas] : raster) REQUIRE(bench.cwd.completed[slot] == ctas);
    REQUIRE(bench.observation.stats.value("gpu0.gpc0.gpm.ctas") == static_cast<double>(wanted.size()));
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
    run_until_idle();
    REQUIRE(bench.starts.size() == 72);
    CHECK(bench.starts[0].cycle == 17);
    CHECK(bench.cwd.completed[0] == 72);
    bench.expect_idle();
  }
}

TEST_CASE("launches that cannot be are caught", "[gpc][CWD-07][CWD-31]") {
  GpcBench bench(uneven(), plain());
  const auto run_with = [&bench](const BenchLaunch& packet) {
    bench.cwd.script = {packet};
    bench.cwd.start(0);
    run_until_idle();
  };
  SECTION("more CTAs than bits") {
    BenchLaunch packet = bench.launch(0, 0b11, 0);
    packet.num_ctas = 3;
    CHECK_THROWS_WITH(run_with(packet), Contains("differs from its masks"));
  }
  SECTION("no CTA at all") { CHECK_THROWS_WITH(run_with(bench.launch(0, 0, 0)), Contains("differs from its masks")); }
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

}  // namespace gpc_test

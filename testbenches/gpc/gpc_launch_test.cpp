// What the stages of a launch cost inside a GPC: the queue of the GPM and what it only counts, the ways to the MPCs,
// the raster units, the starts of an SM, and the broadcast of entries.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/gpc_bench.h"

namespace gpc_launch_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::gpc::MpcPer;

namespace {

constexpr Cycle kThere = 10 + 5 + 2;  // distributor to SM, with plain()

GpcParams per_sm() {
  GpcParams params = plain();
  params.mpc = MpcPer::sm;
  return params;
}

std::map<std::uint32_t, std::vector<Cycle>> starts_by_sm(const GpcBench& bench) {
  std::map<std::uint32_t, std::vector<Cycle>> starts;
  for (const Start& start : bench.starts) starts[start.sm].push_back(start.cycle);
  return starts;
}

}  // namespace

TEST_CASE("packets of other GPCs take their time in the queue, and their place", "[gpc][CWD-34][CWD-35]") {
  GpcParams params = plain();
  params.packets = GENERATE(0.0, 1.0, 0.25);
  CAPTURE(params.packets);
  const Cycle each = params.packets > 0 ? static_cast<Cycle>(1 / params.packets) : 0;
  SECTION("an own packet waits for those before it") {
    GpcBench bench(uneven(), params, TimingMode::at, 0, 100);
    bench.cwd.others.split = 1;
    bench.cwd.script = {bench.launch(0, 0b1, 6)};
    bench.cwd.start(0);
    run_until_idle();
    CHECK(bench.starts[0].cycle == kThere + 6 * each);
    CHECK(bench.stat("gpm.packets_heard") == 7);
    CHECK(bench.stat("gpm.launch_wait_cycles") == 6.0 * static_cast<double>(each));
    CHECK(bench.stat("gpm.packet_busy_cycles") == 7.0 * static_cast<double>(each));
  }
  SECTION("their places come back when they have been counted") {
    // Two places: 10 cycles there, the time in the queue, 40 back.
    GpcBench bench(uneven(), params);
    bench.cwd.others.split = 1;
    bench.cwd.script = {bench.launch(0, 0b1, 8)};
    bench.cwd.start(0);
    run_until_idle();
    CHECK(bench.starts[0].cycle >= kThere + 4 * (50 + each));
    CHECK(bench.starts[0].cycle <= kThere + 4 * (50 + 2 * each));
  }
}

TEST_CASE("a GPM hands over so many launches per cycle", "[gpc][CWD-34]") {
  GpcParams params = per_sm();
  params.mpc_launches = GENERATE(0.25, 1.0, 2.0);
  CAPTURE(params.mpc_launches);
  GpcBench bench(uneven(), params, TimingMode::at, 0, 100);
  bench.cwd.script = {bench.launch(0, 0b1111'1111, 0), bench.launch(0, 0b0000'0011, 8)};
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(bench.starts[i].cycle == kThere + static_cast<Cycle>(static_cast<double>(i) / params.mpc_launches));
    CHECK(bench.starts[i].packet.order == i);
  }
  CHECK(bench.stat("gpm.launch_busy_cycles") == Approx(10 / params.mpc_launches).margin(1));
}

TEST_CASE("an MPC for each SM makes ids beside the others, one for a TPC one after another", "[gpc][CGA-03][CWD-41]") {
  GpcParams params = plain();
  params.mpc = GENERATE(MpcPer::sm, MpcPer::tpc);
  params.raster_cycles = 7;
  GpcBench bench(uneven(), params);  // TPCs of 2, 1, 3 and 2 SMs
  REQUIRE(bench.mpcs.size() == (params.mpc == MpcPer::sm ? 8 : 4));
  bench.cwd.script = {bench.launch(0, 0b1111'1111, 0)};
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 8);
  const std::vector<Cycle> before{0, 1, 0, 0, 1, 2, 0, 1};  // ids that the MPC of a TPC makes before
  for (const Start& start : bench.starts) {
    CHECK(start.cycle == kThere + (params.mpc == MpcPer::sm ? 0 : 7 * before[start.sm]));
    CHECK(start.packet.id.index == start.sm);
  }
  bench.expect_idle();
}

TEST_CASE("a division takes its time for every bit of the counter", "[gpc][CWD-41]") {
  GpcParams params = per_sm();
  params.delta_bits = GENERATE(4U, 16U);
  params.divide_cycles = 2.5;
  const Cycle divide = params.delta_bits == 4 ? 10 : 40;
  GpcBench bench(uneven(), params, TimingMode::at, 0, 100);
  bench.cwd.script = {bench.launch(0, 0b0011, 0), bench.launch(0, 0b0001, 7)};
  bench.cwd.start(0);
  run_until_idle();
  auto starts = starts_by_sm(bench);
  CHECK(starts[0] == std::vector<Cycle>{kThere, kThere + divide});  // the first CTA of the grid, and seven later
  CHECK(starts[1] == std::vector<Cycle>{kThere + divide});          // one after the first
  CHECK(bench.stat("mpc0.raster_wait_cycles") == static_cast<double>(divide));

  SECTION("ranks of a CGA need none") {
    bench.starts.clear();
    bench.cwd.script.push_back(bench.cga(1, {0b0011, 0b0010}, 0, 3, true, 5));
    bench.cwd.start(1000);
    run_until_idle();
    for (const Start& start : bench.starts) CHECK(start.cycle == 1000 + kThere);
  }
}

TEST_CASE("a counter that is full keeps the divider busy", "[gpc][CWD-41]") {
  GpcParams params = per_sm();
  params.delta_bits = 2;  // 3 at most
  params.divide_cycles = 10;
  GpcBench bench(uneven(), params, TimingMode::at, 0, 100);
  const std::uint64_t elsewhere = GENERATE(3U, 4U, 5U, 8U);
  CAPTURE(elsewhere);
  bench.cwd.others.split = 3;
  bench.cwd.script = {bench.launch(0, 0b1, elsewhere)};
  bench.cwd.start(0);
  run_until_idle();
  // 4: the counter was full, and holds nothing; 5: it holds one more; 8: it was full twice.
  const Cycle divisions = elsewhere == 3 || elsewhere == 4 ? 1 : 2;
  CHECK(bench.starts[0].cycle == kThere + divisions * 20);
  CHECK(bench.starts[0].packet.id.index == elsewhere);
  CHECK(bench.stat("mpc0.raster_busy_cycles") == static_cast<double>(divisions * 20));
  CHECK(bench.stat("mpc0.delta_overflows") == static_cast<double>(elsewhere / 4));
  CHECK(bench.stat("mpc5.delta_overflows") == static_cast<double>((elsewhere + 1) / 4));
}

TEST_CASE("a divider that is too slow holds all launches back", "[gpc][CWD-35][CWD-41]") {
  // 200 packets of two CTAs for other GPCs, four places in the queues of the GPM and of each MPC.
  GpcParams params = per_sm();
  params.packets = 1;
  params.gpm_to_cwd = 0;
  params.mpc_queue = 4;
  params.delta_bits = GENERATE(1U, 4U);
  params.divide_cycles = params.delta_bits == 1 ? 40 : 10;
  GpcBench bench(uneven(), params, TimingMode::at, 0, 20);
  bench.cwd.others.split = 2;
  bench.cwd.script = {bench.launch(0, 0b1, 400)};
  bench.cwd.start(0);
  run_until_idle();
  CHECK(bench.starts[0].packet.id.index == 400);
  // One bit: every packet fills the counter, and it takes 40 cycles. Four bits: every eighth packet does, and 40
  // cycles.
  const Cycle wanted = params.delta_bits == 1 ? 200 * 40 : 25 * 40;
  CHECK(bench.starts[0].cycle >= wanted);
  CHECK(bench.starts[0].cycle <= wanted + 100);
  CHECK(bench.stat("mpc7.delta_overflows") == (params.delta_bits == 1 ? 200 : 25));
}

TEST_CASE("an SM starts so many CTAs per cycle", "[gpc][CWD-34]") {
  GpcParams params = plain();
  params.mpc = GENERATE(MpcPer::sm, MpcPer::tpc);
  params.cta_starts = 0.1;
  GpcBench bench(uneven(), params, TimingMode::at, 0, 100);
  bench.cwd.script = {bench.launch(0, 0b0011, 0), bench.launch(0, 0b0001, 2), bench.launch(0, 0b0011, 3)};
  bench.cwd.start(0);
  run_until_idle();
  auto starts = starts_by_sm(bench);
  CHECK(starts[0] == std::vector<Cycle>{kThere, kThere + 10, kThere + 20});
  CHECK(starts[1] == std::vector<Cycle>{kThere, kThere + 10});
  double waits = 0;
  double busy = 0;
  for (std::size_t m = 0; m < bench.mpcs.size(); ++m) {
    waits += bench.stat("mpc" + std::to_string(m) + ".start_wait_cycles");
    busy += bench.stat("mpc" + std::to_string(m) + ".start_busy_cycles");
  }
  CHECK(waits == 10 + 20 + 10);
  CHECK(busy == 5 * 10);
}

TEST_CASE("the SMs of a GPC enter so many CTAs of CGAs per cycle", "[gpc][CGA-03][CWD-34]") {
  GpcParams params = per_sm();
  params.cta_entries = 0.1;
  GpcBench bench(uneven(), params);
  bench.cwd.script = {bench.cga(0, {0b1111'1111}, 0, 8, true, 1)};
  bench.cwd.start(0);
  run_until_idle();
  std::map<std::uint32_t, std::vector<Cycle>> entered;  // by rank
  for (const SmScript::Seen& seen : bench.script.entries) entered[seen.packet.rank].push_back(seen.cycle);
  REQUIRE(entered.size() == 8);
  for (const auto& [rank, cycles] : entered) {
    CHECK(cycles == std::vector<Cycle>(8, 10 + 5 + 4 + rank * 10));  // at all eight SMs at once
  }
  for (const Start& start : bench.starts) CHECK(start.cycle == kThere);  // the CTAs themselves do not wait
  CHECK(bench.stat("gpm.entry_busy_cycles") == 8 * 10);
}

TEST_CASE("in lt mode the stages of a launch take no time", "[gpc]") {
  GpcParams params;
  params.packets = params.mpc_launches = params.cta_starts = 0.01;
  params.divide_cycles = 100;
  GpcBench bench(uneven(), params, TimingMode::lt);
  bench.cwd.script = {bench.launch(0, 0b1111'1111, 5)};
  bench.cwd.start(0);
  run_until_idle();
  for (const Start& start : bench.starts) CHECK(start.cycle == 0);
}

}  // namespace gpc_launch_test

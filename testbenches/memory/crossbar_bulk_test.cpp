// The port of an SM's tensor memory access unit: a second one on the SM's links.
#include <algorithm>
#include <array>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/crossbar_bench.h"

namespace heddle::test::memory_crossbar_bulk_test {
namespace {

using memory::CrossbarParams;
using protocol::MemoryRequest;

// Keeps both ports of an SM busy, or one, and counts what comes back to each.
struct TwoPorts {
  TwoPorts(CrossbarBench& bench_, std::uint32_t sm, std::uint32_t window, bool writes_,
           std::function<std::uint32_t(std::uint64_t)> slice_)
      : bench(bench_), ports{bench_.sms[sm].get(), bench_.units[sm].get()}, writes(writes_), slice(std::move(slice_)) {
    for (std::size_t i = 0; i < 2; ++i) {
      windows[i] = window;
      ports[i]->gap = 0;
      ports[i]->on_response = [this, i](MemoryRequest&, Cycle arrival) {
        if (arrival >= kWarm && arrival < kEnd) ++lines[i];
        if (arrival < kEnd) issue(i);
      };
    }
  }
  void issue(std::size_t port) {
    const std::uint64_t line = bench.line_in(slice(number), number % 64);
    ++number;
    ports[port]->send(writes ? bench.write(line) : bench.read(line), 0);
  }
  void run() {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::uint32_t n = 0; n < windows[i]; ++n) issue(i);
    }
    run_until_idle();
  }
  double rate(std::size_t port) const { return 128.0 * lines[port] / (kEnd - kWarm); }

  static constexpr Cycle kWarm = 2000;
  static constexpr Cycle kEnd = 8000;
  CrossbarBench& bench;
  std::array<TestInitiator*, 2> ports;
  bool writes;
  std::function<std::uint32_t(std::uint64_t)> slice;
  std::array<std::uint32_t, 2> windows{};
  std::array<std::uint32_t, 2> lines{};
  std::uint64_t number = 0;
};

}  // namespace

TEST_CASE("a TMAU's port is as far from the slices as its SM's", "[memory][MEM-03][TMA-03]") {
  for (const bool narrow : {false, true}) {
    CAPTURE(narrow);
    SimFixture fixture;
    CrossbarParams params;
    if (narrow) narrow_links(params, 40);
    CrossbarBench bench(params, arch::Shape::from_sms_per_gpc({5, 3}), 4, 2);
    std::array<Cycle, 2> back{};
    for (std::uint32_t sm = 0; sm < bench.topology.sms(); ++sm) {
      bench.sms[sm]->on_response = [&](MemoryRequest&, Cycle arrival) { back[0] = arrival; };
      bench.units[sm]->on_response = [&](MemoryRequest&, Cycle arrival) { back[1] = arrival; };
      for (std::uint32_t slice = 0; slice < 4; ++slice) {
        for (const bool writes : {false, true}) {
          std::array<Cycle, 2> cycles{};
          for (std::size_t i = 0; i < 2; ++i) {
            const Cycle begin = bench.domain.now() + 100;
            const std::uint64_t line = bench.line_in(slice);
            (i == 0 ? bench.sms : bench.units)[sm]->send(writes ? bench.write(line) : bench.read(line), begin);
            run_until_idle();
            cycles[i] = back[i] - begin;
          }
          CHECK(cycles[0] == cycles[1]);
          CHECK(cycles[1] == 2 * bench.crossbar.latency(sm, slice) + 10);
        }
      }
    }
    CHECK(bench.crossbar.in_flight() == 0);
    CHECK(bench.pool.in_use() == 0);
  }
}

TEST_CASE("an SM and its TMAU share the SM's links", "[memory][MEM-03][TMA-03]") {
  for (const bool writes : {false, true}) {
    CAPTURE(writes);
    // A line is 128 bytes of a response and 160 of a write request; the link passes 64 per cycle.
    const double bound = writes ? 64.0 * 128 / 160 : 64.0;
    std::array<double, 3> sums{};
    for (std::size_t who = 0; who < 3; ++who) {  // the SM alone, its unit alone, both
      SimFixture fixture;
      CrossbarParams params;
      set_bandwidth(params, &CrossbarParams::sm_bandwidth, 64);
      CrossbarBench bench(params, arch::Shape::from_sms_per_gpc({4}), 8, 1);
      TwoPorts load(bench, 1, 128, writes, [](std::uint64_t number) { return static_cast<std::uint32_t>(number % 8); });
      if (who != 2) load.windows[1 - who] = 0;
      load.run();
      sums[who] = load.rate(0) + load.rate(1);
      if (who == 2) {
        CHECK(load.rate(0) == Approx(bound / 2).epsilon(0.02));
        CHECK(load.rate(1) == Approx(bound / 2).epsilon(0.02));
      }
    }
    for (const double sum : sums) {
      CHECK(sum <= bound * 1.005);
      CHECK(sum >= bound * 0.97);
    }
  }
}

TEST_CASE("a full entry holds both ports of an SM, and lets them go on in turn", "[memory][MEM-03][TMA-03]") {
  SimFixture fixture;
  CrossbarParams params;
  params.gpc_to_slice = params.sm_to_tpc = params.tpc_to_cpc = params.cpc_to_gpc = 0;
  params.queue = 1;
  CrossbarBench bench(params, arch::Shape::from_sms_per_gpc({2}), 2, 1);
  bench.targets[1]->depth = 2;
  bench.targets[1]->gap = 5;
  TwoPorts load(bench, 0, 40, false, [](std::uint64_t) { return 1U; });
  load.run();
  CHECK(bench.stat("withheld") > 1000);
  CHECK(load.lines[0] + load.lines[1] == Approx(1200).epsilon(0.01));  // one every 5 cycles
  CHECK(load.lines[0] == Approx(600).epsilon(0.02));
  CHECK(load.lines[1] == Approx(600).epsilon(0.02));
  CHECK(bench.pool.in_use() == 0);
  CHECK(bench.crossbar.in_flight() == 0);
}

TEST_CASE("a response that one port does not take holds up the SM's others, and loses none", "[memory][MEM-03]") {
  for (const bool unit_holds : {false, true}) {
    CAPTURE(unit_holds);
    SimFixture fixture;
    CrossbarParams params;
    params.queue = 2;
    CrossbarBench bench(params, arch::Shape::from_sms_per_gpc({2, 2}), 2, 1);
    auto& holder = unit_holds ? *bench.units[0] : *bench.sms[0];
    auto& other = unit_holds ? *bench.sms[0] : *bench.units[0];
    holder.hold = [](MemoryRequest&) { return Cycle{50}; };
    std::vector<Cycle> held;
    std::vector<Cycle> free;
    holder.on_response = [&](MemoryRequest&, Cycle arrival) { held.push_back(arrival); };
    other.on_response = [&](MemoryRequest&, Cycle arrival) { free.push_back(arrival); };
    for (std::uint64_t i = 0; i < 40; ++i) {
      holder.send(bench.read(bench.line_in(0, i)), 0);
      other.send(bench.read(bench.line_in(1, i)), 0);
    }
    run_until_idle();
    REQUIRE(held.size() == 40);
    REQUIRE(free.size() == 40);
    CHECK(std::is_sorted(held.begin(), held.end()));
    CHECK(std::is_sorted(free.begin(), free.end()));
    for (std::size_t i = 1; i < held.size(); ++i) CHECK(held[i] >= held[i - 1] + 50);
    CHECK(bench.pool.in_use() == 0);
    CHECK(bench.crossbar.in_flight() == 0);
  }
}

TEST_CASE("a TMAU's blocking and debug calls pass like its SM's", "[memory][MEM-03][TMA-03]") {
  SimFixture fixture;
  CrossbarBench bench(CrossbarParams{}, arch::Shape::from_sms_per_gpc({2, 2}), 4, 2, TimingMode::lt);
  start();
  MemoryRequest& write = bench.write(bench.line_in(3), 8);
  write.data[0] = 77;
  sc_core::sc_time delay(7, sc_core::SC_NS);
  bench.units[0]->out.blocking(write, delay);
  CHECK(write.is_response_ok());
  CHECK(delay == sc_core::sc_time(7 + 2 * 140 + 10, sc_core::SC_NS));
  write.release();
  MemoryRequest& read = bench.read(bench.line_in(3), 8);
  CHECK(bench.units[2]->out.debug(read) == 8);
  CHECK(read.data[0] == 77);
  read.release();
  CHECK(bench.domain.idle());
}

TEST_CASE("bytes of a TMAU are counted apart, on both ways and at the SM's link", "[memory][MEM-03][TMA-30]") {
  SimFixture fixture;
  CrossbarParams params;
  CrossbarBench bench(params, arch::Shape::from_sms_per_gpc({4, 2}), 4, 2);
  bench.sms[0]->send(bench.read(bench.line_in(0)), 100);
  bench.units[0]->send(bench.read(bench.line_in(1)), 300);
  bench.units[0]->send(bench.write(bench.line_in(2)), 500);
  run_until_idle();
  const std::uint32_t header = params.header_bytes;
  CHECK(bench.stat("bulk.request_bytes") == 2 * header + 128);
  CHECK(bench.stat("gpc0.request_bytes") == 3 * header + 128);
  CHECK(bench.stat("bulk.response_bytes") == 128 + header);
  CHECK(bench.stat("bulk.sm_bytes") == 128 + header);
  CHECK(bench.stat("sm_bytes") == 2 * 128 + header);
  // One response becomes three copies, and the asking unit, which gets none, an acknowledgement.
  const auto id = [&](std::uint32_t bit) { return bench.topology.gpc(0).sm_ids[bit]; };
  bench.units[id(0)]->send(bench.multicast(bench.line_in(3), {id(1), id(2), id(3)}), 1000);
  run_until_idle();
  CHECK(bench.stat("bulk.response_bytes") == 2 * 128 + header);
  CHECK(bench.stat("bulk.sm_bytes") == 4 * 128 + 2 * header);
  CHECK(bench.stat("sm_bytes") == 5 * 128 + 2 * header);
}

}  // namespace heddle::test::memory_crossbar_bulk_test

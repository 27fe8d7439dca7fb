#include "memory/crossbar.h"

#include <algorithm>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "common/params.h"
#include "memory/crossbar_bench.h"
#include "memory/crossbar_routes.h"

namespace heddle::test::memory_crossbar_test {
namespace {

using memory::CrossbarParams;
using protocol::MemoryRequest;

// Two GPCs of 2 CPCs of 2 TPCs of 2 SMs, that is 16 SMs, and 8 slices in two partitions.
arch::Shape even_shape() {
  arch::Shape shape;
  shape.gpcs.assign(2, std::vector<std::vector<std::uint32_t>>(2, std::vector<std::uint32_t>(2, 2)));
  return shape;
}

// Keeps every SM of a list busy with reads or writes, and counts what comes back.
struct Load {
  Load(CrossbarBench& bench_, const std::vector<std::uint32_t>& sms, std::uint32_t window,
       std::function<MemoryRequest&(std::uint32_t sm, std::uint64_t number)> next)
      : bench(bench_), make(std::move(next)), done(bench_.topology.sms()), bytes(bench_.topology.sms()) {
    for (const std::uint32_t sm : sms) {
      bench.sms[sm]->gap = 0;
      bench.sms[sm]->on_response = [this, sm](MemoryRequest& request, Cycle arrival) {
        if (arrival >= warm && arrival < end) {
          ++done[sm];
          bytes[sm] += request.get_data_length();
        }
        if (arrival < end) issue(sm);
      };
      for (std::uint32_t i = 0; i < window; ++i) starts.push_back(sm);
    }
  }
  void run(Cycle warm_up, Cycle length) {
    warm = warm_up;
    end = warm_up + length;
    for (const std::uint32_t sm : starts) issue(sm);
    run_until_idle();
  }
  void issue(std::uint32_t sm) { bench.sms[sm]->send(make(sm, number++), 0); }
  double total() const {
    double sum = 0;
    for (const auto b : bytes) sum += static_cast<double>(b);
    return sum;
  }
  // Bytes per cycle.
  double rate() const { return total() / static_cast<double>(end - warm); }

  CrossbarBench& bench;
  std::function<MemoryRequest&(std::uint32_t sm, std::uint64_t number)> make;
  std::vector<std::uint32_t> starts;
  std::vector<std::uint64_t> done;
  std::vector<std::uint64_t> bytes;
  std::uint64_t number = 0;
  Cycle warm = 0;
  Cycle end = 0;
};

// SMs by GPC, CPC and TPC.
std::vector<std::uint32_t> sms_where(const arch::Topology& topology,
                                     const std::function<bool(const arch::Topology::Sm&)>& wanted) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    if (wanted(topology.sm(id))) result.push_back(id);
  }
  return result;
}

}  // namespace

TEST_CASE("the crossbar's parameters are described", "[memory][MEM-03]") {
  ParamTable<CrossbarParams> table;
  CrossbarParams::describe(table);
  std::vector<std::string> names;
  for (const ParamSpec& spec : table.take()) names.push_back(spec.name);
  CHECK(names.size() == 20);
  CHECK(std::count(names.begin(), names.end(), "crossing_bandwidth") == 1);
}

TEST_CASE("an empty crossbar costs the latency of its links, near and far", "[memory][MEM-03]") {
  for (const bool narrow : {false, true}) {
    CAPTURE(narrow);
    SimFixture fixture;
    CrossbarParams params;
    if (narrow) narrow_links(params, 40);
    CrossbarBench bench(params, even_shape(), 8, 2);
    Cycle at_slice = 0;
    Cycle back = 0;
    for (auto& target : bench.targets) {
      target->on_request = [&](tlm::tlm_generic_payload&, Cycle arrival) { at_slice = arrival; };
    }
    for (std::uint32_t sm = 0; sm < bench.topology.sms(); ++sm) {
      bench.sms[sm]->on_response = [&](MemoryRequest&, Cycle arrival) { back = arrival; };
      for (std::uint32_t slice = 0; slice < 8; ++slice) {
        const bool far = bench.topology.sm(sm).gpc != slice / 4;
        const Cycle way = far ? 140 : 62;
        CHECK(bench.crossbar.latency(sm, slice) == way);
        const Cycle begin = bench.domain.now() + 100;
        bench.sms[sm]->send(bench.read(bench.line_in(slice)), begin);
        run_until_idle();
        CHECK(at_slice == begin + way);
        CHECK(back == begin + 2 * way + 10);
        CHECK(bench.crossbar.in_flight() == 0);
      }
    }
    CHECK(bench.stat("request_cycles.min") == 62);
    CHECK(bench.stat("request_cycles.max") == 140);
    CHECK(bench.stat("response_cycles.min") == 62);
    CHECK(bench.stat("response_cycles.max") == 140);
    CHECK(bench.stat("gpc0.request_bytes") == 64 * 32);
    CHECK(bench.stat("gpc1.response_bytes") == 64 * 128);
    CHECK(bench.stat("crossing0to1.request_bytes") == 32 * 32);
    CHECK(bench.stat("crossing1to0.response_bytes") == 32 * 128);
    CHECK(bench.pool.in_use() == 0);
  }
}

TEST_CASE("every link of the crossbar saturates at its bandwidth", "[memory][MEM-03]") {
  struct Case {
    const char* link;
    double CrossbarParams::*bandwidth;
    double value;
    std::function<bool(const arch::Topology::Sm&)> sms;
    std::uint32_t first_slice;
    std::uint32_t slices;
  };
  const auto all = [](const arch::Topology::Sm&) { return true; };
  const auto gpc0 = [](const arch::Topology::Sm& sm) { return sm.gpc == 0; };
  const auto cpc = [](const arch::Topology::Sm& sm) { return sm.gpc == 0 && sm.cpc == 1; };
  const auto tpc = [](const arch::Topology::Sm& sm) { return sm.gpc == 0 && sm.tpc == 1; };
  const auto one = [](const arch::Topology::Sm& sm) { return sm.gpc == 0 && sm.in_gpc == 3; };
  const std::vector<Case> cases = {
      {"SM", &CrossbarParams::sm_bandwidth, 64, one, 0, 8},
      {"SM, a fraction", &CrossbarParams::sm_bandwidth, 42.75, one, 0, 8},
      {"TPC", &CrossbarParams::tpc_bandwidth, 48, tpc, 0, 8},
      {"CPC", &CrossbarParams::cpc_bandwidth, 100, cpc, 0, 8},
      {"GPC", &CrossbarParams::gpc_bandwidth, 150.5, gpc0, 0, 8},
      {"crossing", &CrossbarParams::crossing_bandwidth, 90, gpc0, 4, 4},
      {"slice", &CrossbarParams::slice_bandwidth, 64, all, 2, 1},
      {"slices", &CrossbarParams::slice_bandwidth, 20, all, 0, 8},
  };
  for (const Case& c : cases) {
    for (const bool writes : {false, true}) {
      CAPTURE(c.link, writes);
      SimFixture fixture;
      CrossbarParams params;
      set_bandwidth(params, c.bandwidth, c.value);
      CrossbarBench bench(params, even_shape(), 8, 2);
      // Enough requests to fill the wires, each to the next slice.
      Load load(bench, sms_where(bench.topology, c.sms), 256,
                [&](std::uint32_t, std::uint64_t number) -> MemoryRequest& {
                  const std::uint64_t line =
                      bench.line_in(c.first_slice + static_cast<std::uint32_t>(number) % c.slices, number % 64);
                  return writes ? bench.write(line) : bench.read(line);
                });
      load.run(3000, 6000);
      // A line is 128 bytes of a response, and 160 of a write request.
      const double bound = c.value * (std::string(c.link) == "slices" ? 8 : 1) * (writes ? 128.0 / 160.0 : 1.0);
      CHECK(load.rate() <= bound * 1.005);
      CHECK(load.rate() >= bound * 0.97);
      CHECK(bench.pool.in_use() == 0);
    }
  }
}

TEST_CASE("reads and writes of a TPC, a CPC or a GPC have bandwidths of their own", "[memory][MEM-03]") {
  struct Case {
    const char* link;
    double CrossbarParams::*requests;
    double CrossbarParams::*responses;
    std::function<bool(const arch::Topology::Sm&)> sms;
  };
  const std::vector<Case> cases = {
      {"TPC", &CrossbarParams::tpc_bandwidth, &CrossbarParams::tpc_read_bandwidth,
       [](const arch::Topology::Sm& sm) { return sm.gpc == 0 && sm.tpc == 1; }},
      {"CPC", &CrossbarParams::cpc_bandwidth, &CrossbarParams::cpc_read_bandwidth,
       [](const arch::Topology::Sm& sm) { return sm.gpc == 0 && sm.cpc == 1; }},
      {"GPC", &CrossbarParams::gpc_bandwidth, &CrossbarParams::gpc_read_bandwidth,
       [](const arch::Topology::Sm& sm) { return sm.gpc == 0; }},
  };
  for (const Case& c : cases) {
    for (const bool writes : {false, true}) {
      CAPTURE(c.link, writes);
      SimFixture fixture;
      CrossbarParams params;
      params.*c.requests = 90;
      params.*c.responses = 50;
      CrossbarBench bench(params, even_shape(), 8, 2);
      Load load(bench, sms_where(bench.topology, c.sms), 256,
                [&](std::uint32_t, std::uint64_t number) -> MemoryRequest& {
                  const std::uint64_t line = bench.line_in(static_cast<std::uint32_t>(number) % 8, number % 64);
                  return writes ? bench.write(line) : bench.read(line);
                });
      load.run(3000, 6000);
      CHECK(load.rate() == Approx(writes ? 90 * 128.0 / 160.0 : 50).epsilon(0.02));
    }
  }
}

TEST_CASE("a GPC's links can be as wide as it has SMs", "[memory][MEM-03]") {
  // GPCs of 8 and of 4 SMs; the rates are given for 8, or for each GPC.
  arch::Shape shape;
  shape.gpcs = {{{2, 2}, {2, 2}}, {{2, 2}}};
  for (const bool scaled : {false, true}) {
    for (const std::uint32_t gpc : {0U, 1U}) {
      for (const bool writes : {false, true}) {
        CAPTURE(scaled, gpc, writes);
        SimFixture fixture;
        CrossbarParams params;
        params.gpc_bandwidth = 120;
        params.gpc_read_bandwidth = 80;
        params.gpc_sms = scaled ? 8 : 0;
        CrossbarBench bench(params, shape, 8, 2);
        const auto its = [&](const arch::Topology::Sm& sm) { return sm.gpc == gpc; };
        Load load(bench, sms_where(bench.topology, its), 256,
                  [&](std::uint32_t, std::uint64_t number) -> MemoryRequest& {
                    const std::uint64_t line = bench.line_in(static_cast<std::uint32_t>(number) % 8, number % 64);
                    return writes ? bench.write(line) : bench.read(line);
                  });
        load.run(3000, 6000);
        const double share = scaled && gpc == 1 ? 0.5 : 1.0;
        CHECK(load.rate() == Approx(share * (writes ? 120 * 128.0 / 160.0 : 80)).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("a hot slice serves everybody alike, and others go on", "[memory][MEM-03]") {
  for (const bool narrow : {false, true}) {
    CAPTURE(narrow);
    SimFixture fixture;
    CrossbarParams params;
    if (narrow) narrow_links(params, 100);
    CrossbarBench bench(params, even_shape(), 8, 2);
    for (auto& target : bench.targets) {
      target->gap = 4;  // it answers every 4 cycles: half of what its port passes
      target->depth = 8;
    }
    std::vector<std::uint32_t> everybody;
    for (std::uint32_t sm = 0; sm < 16; ++sm) everybody.push_back(sm);
    Load load(bench, everybody, 160, [&](std::uint32_t, std::uint64_t number) -> MemoryRequest& {
      return bench.read(bench.line_in(1, number % 64));
    });
    load.run(5000, 16'000);
    CHECK(load.rate() == Approx(32.0).epsilon(0.01));
    // 250 lines each.
    const auto [fewest, most] = std::minmax_element(load.done.begin(), load.done.end());
    CHECK(*fewest >= 245);
    CHECK(*most <= 255);
    CHECK(bench.stat("withheld") > 0);
  }
}

TEST_CASE("SMs that do not use a hot slice are not slowed by it", "[memory][MEM-03]") {
  SimFixture fixture;
  CrossbarBench bench(CrossbarParams{}, even_shape(), 8, 2);
  bench.targets[1]->gap = 8;
  bench.targets[1]->depth = 4;
  // All but one SM of each GPC hammer slice 1, with fewer requests than fill the queues of the GPC; that one reads from
  // the other slices.
  std::vector<std::uint32_t> everybody;
  for (std::uint32_t sm = 0; sm < 16; ++sm) everybody.push_back(sm);
  const auto is_victim = [&](std::uint32_t sm) { return bench.topology.sm(sm).in_gpc == 5; };
  Load load(bench, everybody, 10, [&](std::uint32_t sm, std::uint64_t number) -> MemoryRequest& {
    const std::uint32_t other = static_cast<std::uint32_t>(number % 7);
    return bench.read(bench.line_in(is_victim(sm) ? (other == 1 ? 7 : other) : 1, number % 64));
  });
  load.run(3000, 8000);
  for (std::uint32_t sm = 0; sm < 16; ++sm) {
    if (!is_victim(sm)) continue;
    // 10 requests at a time, each of 134 to 290 cycles: what it would get alone.
    CHECK(load.done[sm] >= 8000 * 10 / 290);
  }
  CHECK(load.done[0] + load.done[1] < 8000 / 8);
}

TEST_CASE("uniform traffic reaches nearly all of the slices' bandwidth", "[memory][MEM-03]") {
  SimFixture fixture;
  CrossbarParams params;
  params.gpc_bandwidth = 512;
  // 16 SMs of 64 bytes per cycle each; 8 slices of 64: the slices are the bound.
  CrossbarBench bench(params, even_shape(), 8, 2);
  std::vector<std::uint32_t> everybody;
  for (std::uint32_t sm = 0; sm < 16; ++sm) everybody.push_back(sm);
  HEDDLE_RANDOM(dice);
  Load load(bench, everybody, 128, [&](std::uint32_t, std::uint64_t) -> MemoryRequest& {
    return bench.read(dice.between64(0, (1 << 20) / 128 - 1) * 128);
  });
  load.run(2000, 6000);
  CHECK(load.rate() > 0.95 * 8 * 64);
  CHECK(load.rate() <= 8 * 64 * 1.005);
}

TEST_CASE("GPCs, and SMs of uneven CPCs, get equal shares of a full link", "[memory][MEM-03]") {
  SimFixture fixture;
  CrossbarParams params;
  params.gpc_bandwidth = 128;
  params.tpc_bandwidth = 100;  // the link of a TPC of 2 is built, that of a TPC of 1 is not
  arch::Shape shape;
  shape.gpcs = {{{2, 2}, {2, 1}, {1}}, {{2, 2, 2}, {1, 1}}};  // 8 SMs each, in uneven groups
  CrossbarBench bench(params, shape, 8, 1);
  std::vector<std::uint32_t> everybody;
  for (std::uint32_t sm = 0; sm < 16; ++sm) everybody.push_back(sm);
  Load load(bench, everybody, 200, [&](std::uint32_t, std::uint64_t number) -> MemoryRequest& {
    return bench.write(bench.line_in(static_cast<std::uint32_t>(number % 8), number % 64));
  });
  load.run(5000, 20'000);
  // Each GPC writes 128 bytes per cycle: 0.8 lines; each of its SMs an eighth: 2,000 in all.
  for (std::uint32_t sm = 0; sm < 16; ++sm) CHECK(load.done[sm] == Approx(2000).epsilon(0.01));
}

TEST_CASE("near is the partition of the own uGPU, however many GPCs that has", "[memory][MEM-03][CWD-46]") {
  const CrossbarParams params;
  const arch::AddressMap map(1 << 20, 8, 2);
  const arch::Topology topology(arch::Shape::from_sms_per_gpc({2, 2, 2, 2}), {1, 3});
  const memory::CrossbarRoutes routes(params, topology, map);
  for (std::uint32_t gpc = 0; gpc < 4; ++gpc) {
    for (std::uint32_t slice = 0; slice < 8; ++slice) {
      CAPTURE(gpc, slice);
      CHECK(routes.far(gpc, slice) == ((gpc == 0) != (slice < 4)));
    }
  }
  const arch::AddressMap four(1 << 20, 8, 4);
  CHECK_THROWS_AS(memory::CrossbarRoutes(params, topology, four), CheckFailed);
}

}  // namespace heddle::test::memory_crossbar_test

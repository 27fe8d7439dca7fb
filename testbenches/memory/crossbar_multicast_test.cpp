// Reads whose data the crossbar brings to several SMs.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/crossbar_bench.h"

namespace heddle::test::memory_crossbar_multicast_test {
namespace {

using memory::CrossbarParams;
using protocol::MemoryRequest;

// Two GPCs of 2 CPCs of 2 TPCs of 2 SMs.
arch::Shape even_shape() {
  arch::Shape shape;
  shape.gpcs.assign(2, std::vector<std::vector<std::uint32_t>>(2, std::vector<std::uint32_t>(2, 2)));
  return shape;
}

// What the receivers and the asking units have seen.
struct Watch {
  explicit Watch(CrossbarBench& bench_) : bench(bench_), copies(bench.topology.sms()), answers(bench.topology.sms()) {
    for (std::uint32_t sm = 0; sm < bench.topology.sms(); ++sm) {
      bench.receivers[sm]->on_data = [this, sm](MemoryRequest& request, std::uint32_t bit, Cycle arrival) {
        CHECK(bit == bench.topology.sm(sm).in_gpc);
        CHECK(std::equal(request.data.begin(), request.data.begin() + request.get_data_length(),
                         bench.memory.begin() + static_cast<std::ptrdiff_t>(request.get_address())));
        copies[sm].push_back(arrival);
      };
      bench.units[sm]->on_response = [this, sm](MemoryRequest& request, Cycle arrival) {
        answers[sm].push_back(arrival);
        status = request.get_response_status();
      };
    }
    for (std::size_t i = 0; i < bench.memory.size(); ++i) bench.memory[i] = static_cast<std::uint8_t>(i * 37 + i / 128);
  }
  std::uint64_t served() const {
    std::uint64_t sum = 0;
    for (const auto& target : bench.targets) sum += target->served;
    return sum;
  }
  std::uint32_t id(std::uint32_t gpc, std::uint32_t bit) const { return bench.topology.gpc(gpc).sm_ids[bit]; }
  std::vector<std::uint32_t> ids(std::uint32_t gpc, const std::vector<std::uint32_t>& bits) const {
    std::vector<std::uint32_t> result;
    for (const std::uint32_t bit : bits) result.push_back(id(gpc, bit));
    return result;
  }

  CrossbarBench& bench;
  std::vector<std::vector<Cycle>> copies;
  std::vector<std::vector<Cycle>> answers;
  tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
};

}  // namespace

TEST_CASE("a multicast arrives everywhere when a read of one's own would, once its receivers have been asked",
          "[memory][MEM-03][TMA-30]") {
  SimFixture fixture;
  CrossbarBench bench(free_copies(), even_shape(), 8, 2);
  Watch watch(bench);
  // In a TPC, in another TPC of the CPC, in another CPC: every link behind the GPC's is as long for all.
  const auto to = watch.ids(0, {0, 1, 3, 6});
  bench.units[to[0]]->send(bench.multicast(bench.line_in(2), to), 100);
  run_until_idle();
  for (const std::uint32_t sm : to) {
    const Cycle behind = sm == to[1] ? 1 : 0;  // the copy for the other SM of its TPC
    CHECK(watch.copies[sm] == std::vector<Cycle>{100 + 2 * 62 + 10 + 2 * 32 + behind});
  }
  CHECK(watch.answers[to[0]] == watch.copies[to[0]]);
  std::size_t others = 0;
  for (const auto& seen : watch.copies) others += seen.size();
  CHECK(others == 4);
  // Once at the slice, and once over the GPC's link.
  CHECK(watch.served() == 1);
  CHECK(bench.stat("gpc0.response_bytes") == 128);
  CHECK(bench.stat("gpc1.response_bytes") == 0);
  CHECK(bench.stat("multicast_reads") == 1);
  CHECK(bench.stat("multicast_packets") == 4);
  CHECK(bench.crossbar.in_flight() == 0);
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("one who asks and does not receive gets an acknowledgement", "[memory][MEM-03][TMA-30]") {
  SimFixture fixture;
  CrossbarParams params;
  set_bandwidth(params, &CrossbarParams::sm_bandwidth, 8);
  CrossbarBench bench(free_copies(params), even_shape(), 8, 2);
  Watch watch(bench);
  const std::uint32_t asks = watch.id(1, 2);
  const auto to = watch.ids(1, {3, 5});
  // Two at once: the data take 16 cycles of a receiver's link, an acknowledgement 4 of the other.
  bench.units[asks]->gap = 0;
  for (std::uint64_t i = 0; i < 2; ++i) {
    bench.units[asks]->send(bench.multicast(bench.line_in(4 + static_cast<std::uint32_t>(i)), to), 0);
  }
  run_until_idle();
  REQUIRE(watch.answers[asks].size() == 2);
  CHECK(watch.answers[asks][1] - watch.answers[asks][0] == 4);
  CHECK(watch.copies[asks].empty());
  for (const std::uint32_t sm : to) {
    REQUIRE(watch.copies[sm].size() == 2);
    CHECK(watch.copies[sm][1] - watch.copies[sm][0] == 16);
    CHECK(watch.copies[sm][0] + 1 == watch.answers[asks][0]);  // one copy goes to its TPC as well, before it
  }
  CHECK(bench.stat("gpc1.response_bytes") == 256);
  CHECK(bench.stat("response_cycles.count") == 2);
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("reads of the L2 fall to one for all receivers", "[memory][MEM-03][TMA-30]") {
  for (const std::uint32_t receivers : {1U, 2U, 4U, 8U}) {
    for (const bool multicast : {false, true}) {
      CAPTURE(receivers, multicast);
      SimFixture fixture;
      CrossbarBench bench(free_copies(), even_shape(), 8, 2);
      Watch watch(bench);
      std::vector<std::uint32_t> to;
      for (std::uint32_t bit = 0; bit < receivers; ++bit) to.push_back(watch.id(0, bit));
      // Each asks for its part of 64 lines that all want; without multicast for all of them.
      for (std::uint64_t line = 0; line < 64; ++line) {
        for (std::uint32_t i = 0; i < receivers; ++i) {
          if (!multicast) {
            bench.units[to[i]]->send(bench.read(line * 128), 0);
          } else if (line % receivers == i) {
            bench.units[to[i]]->send(bench.multicast(line * 128, to), 0);
          }
        }
      }
      run_until_idle();
      CHECK(watch.served() == (multicast ? 64 : 64 * receivers));
      CHECK(bench.stat("gpc0.response_bytes") == 128 * static_cast<double>(watch.served()));
      CHECK(bench.stat("multicast_packets") == (multicast ? 64 * receivers : 0));
      for (const std::uint32_t sm : to) CHECK(watch.copies[sm].size() == (multicast ? 64 : 0));
      CHECK(bench.pool.in_use() == 0);
    }
  }
}

TEST_CASE("the GPC's link passes a multicast once, and those behind it a copy for each receiver",
          "[memory][MEM-03][TMA-30]") {
  struct Case {
    const char* link;
    double CrossbarParams::*bandwidth;
    double value;
    std::vector<std::uint32_t> bits;
    double each;  // bytes per cycle of every receiver
  };
  const std::vector<Case> cases = {
      {"SM", &CrossbarParams::sm_bandwidth, 40, {0, 2, 5}, 40},
      {"TPC, two receivers", &CrossbarParams::tpc_read_bandwidth, 24, {2, 3}, 12},
      {"CPC, four receivers", &CrossbarParams::cpc_read_bandwidth, 32, {0, 1, 2, 3}, 8},
      {"GPC, eight receivers", &CrossbarParams::gpc_bandwidth, 50, {0, 1, 2, 3, 4, 5, 6, 7}, 50},
      {"SMs of two TPCs of a CPC", &CrossbarParams::cpc_read_bandwidth, 20, {1, 2}, 10},
  };
  for (const Case& c : cases) {
    CAPTURE(c.link);
    SimFixture fixture;
    CrossbarParams params;
    set_bandwidth(params, c.bandwidth, c.value);
    CrossbarBench bench(free_copies(params), even_shape(), 8, 2);
    Watch watch(bench);
    const auto to = watch.ids(0, c.bits);
    constexpr std::uint64_t kLines = 1000;
    // Two of them ask, in turn.
    for (std::uint64_t i = 0; i < kLines; ++i) {
      auto& unit = *bench.units[to[i % 2]];
      unit.gap = 0;
      unit.send(bench.multicast(bench.line_in(static_cast<std::uint32_t>(i % 8), i % 64), to), 0);
    }
    run_until_idle();
    for (const std::uint32_t sm : to) {
      REQUIRE(watch.copies[sm].size() == kLines);
      CHECK(std::is_sorted(watch.copies[sm].begin(), watch.copies[sm].end()));
      const Cycle time = watch.copies[sm].back() - watch.copies[sm].front();
      CHECK(128.0 * (kLines - 1) / static_cast<double>(time) == Approx(c.each).epsilon(0.01));
    }
    CHECK(bench.stat("gpc0.response_bytes") == 128 * kLines);
    CHECK(bench.pool.in_use() == 0);
  }
}

TEST_CASE("a GPC makes so many copies per cycle, of all its multicasts together", "[memory][TMA-30]") {
  const double copies = GENERATE(0.5, 1.0, 2.5);
  SimFixture fixture;
  CrossbarParams params;
  params.copies = copies;
  CrossbarBench bench(params, even_shape(), 8, 2);
  Watch watch(bench);
  // Two SMs of GPC 0 ask, one for four receivers and one for two; GPC 1 has a copier of its own.
  const auto four = watch.ids(0, {0, 1, 3, 6});
  const auto two = watch.ids(0, {2, 7});
  const auto elsewhere = watch.ids(1, {0, 5});
  constexpr std::uint64_t kLines = 300;
  for (std::uint64_t i = 0; i < kLines; ++i) {
    bench.units[four[0]]->send(bench.multicast(bench.line_in(static_cast<std::uint32_t>(i % 8), i % 64), four), 0);
    bench.units[two[0]]->send(bench.multicast(bench.line_in(static_cast<std::uint32_t>(i % 8), i % 64), two), 0);
  }
  bench.units[elsewhere[0]]->send(bench.multicast(bench.line_in(0), elsewhere), 2000);
  run_until_idle();
  Cycle last = 0;
  for (const std::uint32_t sm : four) last = std::max(last, watch.copies[sm].back());
  for (const std::uint32_t sm : two) last = std::max(last, watch.copies[sm].back());
  // The first one comes after 62 cycles there, 10 in the slice, 62 back and 64 for the question.
  CHECK(static_cast<double>(last - 198) == Approx(6 * kLines / copies).epsilon(0.03));
  for (const std::uint32_t sm : elsewhere) CHECK(watch.copies[sm].front() <= 2000 + 198 + 78 * 2 + 2);
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("a GPC can make as many copies as it has SMs", "[memory][TMA-30]") {
  // GPCs of 8 SMs and of 4: 2 copies per cycle, and 1.
  arch::Shape shape;
  shape.gpcs = {{{2, 2}, {2, 2}}, {{2, 2}}};
  SimFixture fixture;
  CrossbarParams params;
  params.copies = 2;
  params.gpc_sms = 8;
  CrossbarBench bench(params, shape, 8, 2);
  Watch watch(bench);
  constexpr std::uint64_t kLines = 300;
  for (const std::uint32_t gpc : {0U, 1U}) {
    const auto four = watch.ids(gpc, {0, 1, 2, 3});
    for (std::uint64_t i = 0; i < kLines; ++i) {
      bench.units[four[0]]->send(bench.multicast(bench.line_in(static_cast<std::uint32_t>(i % 8), i % 64), four), 0);
    }
  }
  run_until_idle();
  for (const std::uint32_t gpc : {0U, 1U}) {
    Cycle last = 0;
    for (const std::uint32_t sm : watch.ids(gpc, {0, 1, 2, 3})) last = std::max(last, watch.copies[sm].back());
    CHECK(static_cast<double>(last - 198) == Approx(4 * kLines / (gpc == 0 ? 2.0 : 1.0)).epsilon(0.03));
  }
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("the near partition takes a posted write over, wherever its slice is", "[memory][MEM-03][TMA-45]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  SimFixture fixture;
  CrossbarBench bench(CrossbarParams{}, even_shape(), 8, 2, mode);
  for (const std::uint32_t slice : {1U, 6U}) {  // near and far of GPC 0
    CAPTURE(slice);
    MemoryRequest& request = bench.write(bench.line_in(slice));
    request.extension.posted = true;
    const Cycle begin = bench.domain.now() + 100;
    std::size_t before = bench.receivers[3]->accepted.size();
    if (mode == TimingMode::at) {
      bench.units[3]->send(request, begin);
      run_until_idle();
    } else {
      run_until(bench.domain.clock().time_of(begin));
      sc_core::sc_time delay;
      bench.units[3]->out.blocking(request, delay);
      CHECK(request.is_response_ok());
      request.release();
    }
    REQUIRE(bench.receivers[3]->accepted.size() == before + 1);
    CHECK(bench.receivers[3]->accepted.back() == begin + 2 * 62);
  }
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("memory's error goes to the one who has asked, and nobody gets data", "[memory][MEM-03][TMA-30]") {
  SimFixture fixture;
  CrossbarBench bench(free_copies(), even_shape(), 8, 2);
  Watch watch(bench);
  const auto to = watch.ids(0, {0, 1});
  SECTION("an address outside memory") {
    bench.units[to[0]]->send(bench.multicast(bench.memory.size() + 1280, to), 0);
    run_until_idle();
    CHECK(watch.status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  }
  SECTION("an SM that the GPC does not have") {
    MemoryRequest& request = bench.multicast(0, to);
    request.extension.multicast |= 1U << 8;
    bench.units[to[0]]->send(request, 0);
    run_until_idle();
    CHECK(watch.status == tlm::TLM_COMMAND_ERROR_RESPONSE);
  }
  SECTION("a write") {
    MemoryRequest& request = bench.multicast(0, to);
    request.set_command(tlm::TLM_WRITE_COMMAND);
    bench.units[to[0]]->send(request, 0);
    run_until_idle();
    CHECK(watch.status == tlm::TLM_COMMAND_ERROR_RESPONSE);
  }
  CHECK(watch.answers[to[0]].size() == 1);
  for (const auto& seen : watch.copies) CHECK(seen.empty());
  CHECK(bench.stat("gpc0.response_bytes") == 32);
  CHECK(bench.stat("multicast_reads") == 0);
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("receivers without room hold multicasts back, in the order of their age", "[memory][MEM-03][TMA-30]") {
  SimFixture fixture;
  CrossbarParams params;
  params.sm_to_tpc = params.tpc_to_cpc = params.cpc_to_gpc = 0;
  params.queue = 1;                                         // a place for each SM
  set_bandwidth(params, &CrossbarParams::sm_bandwidth, 4);  // 32 cycles for a line
  CrossbarBench bench(free_copies(params), even_shape(), 8, 2);
  Watch watch(bench);
  // SMs 0 and 1 ask for both, 1 and 2 too: the second shares an SM with the first. 4 and 5 have nothing to do with
  // them.
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto line = [&](std::uint32_t slice) { return bench.line_in(slice, i); };
    bench.units[watch.id(0, 0)]->send(bench.multicast(line(0), watch.ids(0, {0, 1})), 0);
    bench.units[watch.id(0, 1)]->send(bench.multicast(line(1), watch.ids(0, {1, 2})), 0);
    if (i < 20) bench.units[watch.id(0, 4)]->send(bench.multicast(line(2), watch.ids(0, {4, 5})), 0);
  }
  run_until_idle();
  const auto& shared = watch.copies[watch.id(0, 1)];
  REQUIRE(shared.size() == 80);
  for (std::size_t i = 1; i < shared.size(); ++i) CHECK(shared[i] - shared[i - 1] == 32);
  // Both go on alike: each has half of what SM 1 gets, all the time.
  const auto& first = watch.copies[watch.id(0, 0)];
  const auto& second = watch.copies[watch.id(0, 2)];
  REQUIRE(first.size() == 40);
  REQUIRE(second.size() == 40);
  for (std::size_t i = 0; i < 40; ++i) {
    CHECK(std::max(first[i], second[i]) - std::min(first[i], second[i]) <= 32);
  }
  const auto& others = watch.copies[watch.id(0, 5)];
  REQUIRE(others.size() == 20);
  for (std::size_t i = 1; i < others.size(); ++i) CHECK(others[i] - others[i - 1] == 32);
  CHECK(bench.pool.in_use() == 0);
  CHECK(bench.crossbar.in_flight() == 0);
}

TEST_CASE("a unit that takes no acknowledgement holds up its own multicasts alone", "[memory][MEM-03][TMA-30]") {
  SimFixture fixture;
  CrossbarBench bench(free_copies(), even_shape(), 8, 2);
  Watch watch(bench);
  const auto both = watch.ids(0, {0, 1});
  bench.units[both[0]]->hold = [](MemoryRequest&) { return Cycle{100'000}; };
  // The acknowledgement of the first is being taken, and that of the second waits at the unit, when the third's comes:
  // those that follow stay at the GPC's link.
  for (std::uint64_t i = 0; i < 6; ++i) {
    bench.units[both[0]]->send(bench.multicast(bench.line_in(0, i), both), i < 3 ? 0 : 1000);
  }
  for (std::uint64_t i = 0; i < 6; ++i) bench.units[both[1]]->send(bench.multicast(bench.line_in(1, i), both), 0);
  run_until(sc_core::sc_time(5000, sc_core::SC_NS));
  CHECK(watch.answers[both[0]].size() == 1);
  CHECK(watch.answers[both[1]].size() == 6);
  CHECK(watch.copies[both[0]].size() == 3 + 6);
  CHECK(watch.copies[both[1]].size() == 3 + 6);
  WaitGraph waits;
  bench.crossbar.collect_waits(waits);
  CHECK(waits.chain() ==
        std::vector<std::string>{"gpu0.xbar.gpc0 responses waits: for room at receivers of multicasts of SM 0"});
  run_until_idle();
  CHECK(watch.answers[both[0]].size() == 6);
  CHECK(watch.copies[both[1]].size() == 12);
  CHECK(bench.pool.in_use() == 0);
  CHECK(bench.crossbar.in_flight() == 0);
}

TEST_CASE("loosely timed, receivers get a multicast when the call says", "[memory][MEM-03][TMA-30]") {
  SimFixture fixture;
  CrossbarBench bench(free_copies(), even_shape(), 8, 2, TimingMode::lt);
  Watch watch(bench);
  run_until(sc_core::sc_time(1000, sc_core::SC_NS));
  const auto to = watch.ids(1, {1, 4, 7});
  MemoryRequest& request = bench.multicast(bench.line_in(5), to);
  sc_core::sc_time delay(7, sc_core::SC_NS);
  bench.units[to[1]]->out.blocking(request, delay);
  CHECK(request.is_response_ok());
  CHECK(delay == sc_core::sc_time(7 + 2 * 62 + 10, sc_core::SC_NS));
  for (const std::uint32_t sm : to) CHECK(watch.copies[sm] == std::vector<Cycle>{1000 + 7 + 134});
  CHECK(request.get_ref_count() == 1);
  request.release();
  MemoryRequest& wrong = bench.multicast(bench.memory.size(), to);
  bench.units[to[1]]->out.blocking(wrong, delay);
  CHECK(wrong.get_response_status() == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  wrong.release();
  CHECK(bench.stat("multicast_reads") == 1);
  CHECK(bench.stat("multicast_packets") == 3);
  CHECK(bench.pool.in_use() == 0);
}

}  // namespace heddle::test::memory_crossbar_multicast_test

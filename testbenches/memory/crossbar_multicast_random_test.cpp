// Storms of multicasts among other traffic of SMs and their TMAUs.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "memory/crossbar_bench.h"

namespace heddle::test::memory_crossbar_multicast_random_test {
namespace {

using memory::CrossbarParams;
using protocol::MemoryRequest;

CrossbarParams random_params(Random& random) {
  CrossbarParams params;
  for (auto member : {&CrossbarParams::sm_to_tpc, &CrossbarParams::tpc_to_cpc, &CrossbarParams::cpc_to_gpc,
                      &CrossbarParams::gpc_to_slice, &CrossbarParams::crossing}) {
    params.*member = random.chance(40) ? 0 : random.below(40);
  }
  for (auto member :
       {&CrossbarParams::sm_bandwidth, &CrossbarParams::tpc_bandwidth, &CrossbarParams::cpc_bandwidth,
        &CrossbarParams::gpc_bandwidth, &CrossbarParams::crossing_bandwidth, &CrossbarParams::slice_bandwidth}) {
    set_bandwidth(params, member, random.chance(50) ? random.between(8, 60) : random.between(60, 1000) + 0.5);
  }
  params.copies = 0.25 * random.between(1, 40);
  if (random.chance(50)) {
    for (auto member : {&CrossbarParams::tpc_read_bandwidth, &CrossbarParams::cpc_read_bandwidth}) {
      params.*member = random.between(8, 400);
    }
  }
  if (random.chance(50)) params.gpc_sms = random.between(1, 20);
  params.queue = random.between(1, random.chance(70) ? 3 : 20);
  return params;
}

// The memory does not change: whoever reads knows what must come.
struct Storm {
  Storm(CrossbarBench& bench_, Random& random_) : bench(bench_), random(random_), last_copy(bench.topology.sms()) {
    for (std::size_t i = 0; i < bench.memory.size(); ++i) {
      bench.memory[i] = static_cast<std::uint8_t>(scramble(i) & 0xFF);
    }
    const std::uint32_t withhold = random.chance(30) ? 0 : random.between(1, 60);
    const auto hold = [this, withhold](MemoryRequest&) -> Cycle {
      return random.chance(withhold) ? random.between(1, 80) : 0;
    };
    const bool units_hold = random.chance(30);
    for (std::uint32_t sm = 0; sm < bench.topology.sms(); ++sm) {
      for (const bool unit : {false, true}) {
        TestInitiator& port = unit ? *bench.units[sm] : *bench.sms[sm];
        port.gap = random.below(3);
        port.on_response = [this, sm, unit](MemoryRequest& request, Cycle) { answered(sm, unit, request); };
        port.hold = nullptr;
        if (!unit || units_hold) port.hold = hold;
      }
      bench.receivers[sm]->on_data = [this, sm](MemoryRequest& request, std::uint32_t, Cycle arrival) {
        received(sm, request, arrival);
      };
    }
    for (auto& target : bench.targets) {
      target->latency = random.below(40);
      target->gap = random.below(3);
      target->depth = random.between(1, 12);
      target->hold = [this, withhold]() -> Cycle { return random.chance(withhold) ? random.between(1, 80) : 0; };
    }
  }

  void send(Cycle when) {
    const std::uint32_t sm = random.below(bench.topology.sms());
    const bool unit = random.chance(70);
    const std::uint32_t begin = random.chance(70) ? 0 : random.below(128);
    const std::uint32_t bytes = begin == 0 ? 128 : random.between(1, 128 - begin);
    const bool outside = random.chance(2);
    MemoryRequest& request =
        bench.read((outside ? bench.memory.size() : 0) + random.below(4000) * std::uint64_t{128} + begin, bytes);
    Sent note{sm, unit, outside, false, 0};
    if (unit && random.chance(80)) {
      const std::uint32_t sms = bench.topology.gpc(bench.topology.sm(sm).gpc).sms;
      note.receivers = random.between(1, (std::uint64_t{1} << sms) - 1);
      if (random.chance(60)) note.receivers &= random.between(1, (std::uint64_t{1} << sms) - 1);
    }
    request.extension.multicast = static_cast<std::uint32_t>(note.receivers);
    request.extension.entry = static_cast<std::uint32_t>(sent.size());
    if (!outside) copies += heddle::bits::count(note.receivers);
    sent.push_back(note);
    (unit ? bench.units : bench.sms)[sm]->send(request, when);
  }
  bool has_right_data(const MemoryRequest& request) const {
    return std::memcmp(request.data.data(), &bench.memory[request.get_address()], request.get_data_length()) == 0;
  }
  void answered(std::uint32_t sm, bool unit, MemoryRequest& request) {
    Sent& note = sent[request.extension.entry];
    ++answers;
    if (note.sm != sm || note.unit != unit || note.answered || request.is_response_ok() == note.outside) ++wrong;
    if (!note.outside && !has_right_data(request)) ++wrong;
    note.answered = true;
  }
  void received(std::uint32_t sm, MemoryRequest& request, Cycle arrival) {
    Sent& note = sent[request.extension.entry];
    const std::uint64_t bit = std::uint64_t{1} << bench.topology.sm(sm).in_gpc;
    if (note.outside || (note.receivers & bit) == 0 || !has_right_data(request)) ++wrong;
    if (bench.topology.sm(sm).gpc != bench.topology.sm(note.sm).gpc) ++wrong;
    if (arrival < last_copy[sm] || arrival < bench.domain.now()) ++wrong;
    last_copy[sm] = arrival;
    note.receivers &= ~bit;  // once each
    ++delivered;
  }

  struct Sent {
    std::uint32_t sm = 0;
    bool unit = false;
    bool outside = false;
    bool answered = false;
    std::uint64_t receivers = 0;
  };
  CrossbarBench& bench;
  Random& random;
  std::vector<Cycle> last_copy;
  std::vector<Sent> sent;
  std::uint64_t copies = 0;
  std::uint64_t delivered = 0;
  std::uint64_t answers = 0;
  std::uint64_t wrong = 0;
};

}  // namespace

TEST_CASE("every receiver gets a multicast once, whatever is held back", "[memory][TMA-30][MEM-03]") {
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture fixture;
    const std::uint32_t partitions = random.between(1, 3);
    CrossbarBench bench(random_params(random), random.shape(3), partitions * random.between(1, 4), partitions);
    Storm storm(bench, random);
    for (int i = 0; i < 500; ++i) storm.send(random.below(200));
    run_until_idle();
    CHECK(storm.answers == 500);
    CHECK(storm.delivered == storm.copies);
    CHECK(storm.wrong == 0);
    CHECK(bench.pool.in_use() == 0);
    CHECK(bench.crossbar.in_flight() == 0);
    CHECK(bench.stat("multicast_packets") == static_cast<double>(storm.copies));
    WaitGraph waits;
    bench.crossbar.collect_waits(waits);
    CHECK(waits.empty());
  }
}

TEST_CASE("a reset in the middle of multicasts leaves a crossbar like a new one", "[memory][TMA-30]") {
  for (const std::uint64_t seed : seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    const CrossbarParams params = random_params(random);
    const arch::Shape shape = random.shape(2);
    const Cycle stop = random.between(1, 400);
    std::vector<std::vector<Cycle>> arrivals(2);
    for (const bool interrupted : {false, true}) {
      SimFixture fixture;
      CrossbarBench bench(params, shape, 4, 2);
      std::size_t lost = 0;
      if (interrupted) {
        Random other(seed + 1000);
        Storm storm(bench, other);
        for (int i = 0; i < 300; ++i) storm.send(other.below(100));
        run_until(sc_core::sc_time(static_cast<double>(stop), sc_core::SC_NS));
        bench.domain.reset();
        CHECK(bench.crossbar.in_flight() == 0);
        WaitGraph waits;
        bench.crossbar.collect_waits(waits);
        CHECK(waits.empty());
        // The initiators of the bench forget theirs; the crossbar holds none besides.
        lost = bench.pool.in_use();
        CHECK(lost <= 300 - storm.answers + 2 * bench.topology.sms());
      }
      Random again(seed + 2000);
      Storm storm(bench, again);
      for (std::uint32_t sm = 0; sm < bench.topology.sms(); ++sm) {
        const auto check = bench.receivers[sm]->on_data;
        bench.receivers[sm]->on_data = [&, check](MemoryRequest& request, std::uint32_t bit, Cycle arrival) {
          arrivals[interrupted ? 1 : 0].push_back(arrival);
          check(request, bit, arrival);
        };
      }
      for (int i = 0; i < 300; ++i) storm.send(1 + again.below(100));
      run_until_idle();
      CHECK(storm.answers == 300);
      CHECK(storm.delivered == storm.copies);
      CHECK(storm.wrong == 0);
      CHECK(bench.pool.in_use() == lost);
    }
    CHECK(arrivals[0] == arrivals[1]);
  }
}

}  // namespace heddle::test::memory_crossbar_multicast_random_test

// Storms through the crossbar, and what else it passes: errors, blocking and debug calls, payloads of strangers.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/crossbar_bench.h"
#include "memory/crossbar_paths.h"

namespace heddle::test::memory_crossbar_random_test {
namespace {

using memory::CrossbarParams;
using protocol::MemoryRequest;

CrossbarParams random_params(Random& random) {
  CrossbarParams params;
  for (auto member : {&CrossbarParams::sm_to_tpc, &CrossbarParams::tpc_to_cpc, &CrossbarParams::cpc_to_gpc,
                      &CrossbarParams::gpc_to_slice, &CrossbarParams::crossing}) {
    params.*member = random.chance(20) ? 0 : random.below(60);
  }
  for (auto member :
       {&CrossbarParams::sm_bandwidth, &CrossbarParams::tpc_bandwidth, &CrossbarParams::cpc_bandwidth,
        &CrossbarParams::gpc_bandwidth, &CrossbarParams::crossing_bandwidth, &CrossbarParams::slice_bandwidth}) {
    set_bandwidth(params, member, random.chance(50) ? random.between(8, 60) : random.between(60, 1000) + 0.5);
  }
  if (random.chance(50)) {
    for (auto member : {&CrossbarParams::tpc_read_bandwidth, &CrossbarParams::cpc_read_bandwidth}) {
      params.*member = random.between(8, 400);
    }
  }
  if (random.chance(50)) params.gpc_sms = random.between(1, 20);
  params.queue = random.between(1, random.chance(50) ? 3 : 20);
  return params;
}

// What the requests of a run do, and what of it has been seen.
struct Storm {
  Storm(CrossbarBench& bench_, Random& random_) : bench(bench_), random(random_) {
    const std::uint32_t withhold = random.chance(30) ? 0 : random.between(1, 60);
    for (std::uint32_t sm = 0; sm < bench.topology.sms(); ++sm) {
      bench.sms[sm]->gap = random.below(3);
      bench.sms[sm]->on_response = [this, sm](MemoryRequest& request, Cycle) { answered(sm, request); };
      bench.sms[sm]->hold = [this, withhold](MemoryRequest&) -> Cycle {
        return random.chance(withhold) ? random.between(1, 80) : 0;
      };
    }
    for (std::uint32_t slice = 0; slice < bench.map.slices(); ++slice) {
      bench.targets[slice]->latency = random.below(40);
      bench.targets[slice]->gap = random.below(4);
      bench.targets[slice]->depth = random.between(1, 12);
      bench.targets[slice]->hold = [this, withhold]() -> Cycle {
        return random.chance(withhold) ? random.between(1, 80) : 0;
      };
      bench.targets[slice]->on_request = [this, slice](tlm::tlm_generic_payload& payload, Cycle) {
        const auto& extension = *protocol::extension_of(payload);
        const std::uint32_t sm = *extension.sm;
        if (bench.map.slice_of(payload.get_address()) != slice) ++wrong;
        // Requests of one SM to one slice in the order in which they were sent.
        auto& last = last_at_slice[sm * bench.map.slices() + slice];
        if (extension.entry < last) ++wrong;
        last = extension.entry + 1;
      };
    }
  }

  // Each SM writes and reads lines of its own, all over the slices.
  void send(std::uint32_t sm, Cycle when) {
    const std::uint64_t lines = bench.memory.size() / arch::kLineBytes;
    const std::uint64_t own = lines / bench.topology.sms();
    const std::uint32_t begin = random.below(128);
    const std::uint32_t bytes = random.between(1, 128 - begin);
    const std::uint64_t address =
        (sm * own + random.below(std::min<std::uint64_t>(own, 200))) * arch::kLineBytes + begin;
    MemoryRequest& request = random.chance(50) ? bench.read(address, bytes) : bench.write(address, bytes);
    if (request.is_write()) {
      for (std::uint32_t i = 0; i < bytes; ++i) request.data[i] = static_cast<std::uint8_t>(random.below(256));
    }
    request.extension.sm = protocol::SmId(sm);
    request.extension.entry = number++;
    Sent& note = sent.emplace_back();
    note.sm = sm;
    // What a read must see: requests of one SM to one line stay in order, and so do their effects at the slice.
    if (expected.empty()) expected = bench.memory;
    if (request.is_write()) std::memcpy(&expected[address], request.data.data(), bytes);
    note.data.assign(expected.begin() + static_cast<std::ptrdiff_t>(address),
                     expected.begin() + static_cast<std::ptrdiff_t>(address + bytes));
    bench.sms[sm]->send(request, when);
  }
  void answered(std::uint32_t sm, MemoryRequest& request) {
    ++answers;
    Sent& note = sent[request.extension.entry];
    if (note.sm != sm || note.done || !request.is_response_ok()) ++wrong;
    if (request.get_data_length() != note.data.size() ||
        std::memcmp(request.data.data(), note.data.data(), note.data.size()) != 0) {
      ++wrong;
    }
    note.done = true;
    // Responses of one slice to one SM in the order of its answers, which is that of the requests.
    const std::uint32_t slice = bench.map.slice_of(request.get_address());
    auto& last = last_at_sm[sm * bench.map.slices() + slice];
    if (request.extension.entry < last) ++wrong;
    last = request.extension.entry + 1;
  }

  struct Sent {
    std::uint32_t sm = 0;
    bool done = false;
    std::vector<std::uint8_t> data;
  };
  CrossbarBench& bench;
  Random& random;
  std::uint32_t number = 0;
  std::vector<Sent> sent;
  std::vector<std::uint8_t> expected;
  std::map<std::uint32_t, std::uint32_t> last_at_slice;
  std::map<std::uint32_t, std::uint32_t> last_at_sm;
  std::uint64_t answers = 0;
  std::uint64_t wrong = 0;
};

}  // namespace

TEST_CASE("no request is lost, doubled, changed or overtaken under random back-pressure", "[memory][MEM-03]") {
  double withheld = 0;
  for (const std::uint64_t seed : seeds(40)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture fixture;
    const std::uint32_t partitions = random.between(1, 3);
    const std::uint32_t slices = partitions * random.between(1, 4);
    CrossbarBench bench(random_params(random), random.shape(4), slices, partitions);
    Storm storm(bench, random);
    for (int i = 0; i < 600; ++i) storm.send(random.below(bench.topology.sms()), random.below(200));
    run_until_idle();
    CHECK(storm.answers == 600);
    CHECK(storm.wrong == 0);
    CHECK(storm.expected == bench.memory);
    CHECK(bench.pool.in_use() == 0);
    CHECK(bench.crossbar.in_flight() == 0);
    WaitGraph waits;
    bench.crossbar.collect_waits(waits);
    CHECK(waits.empty());
    withheld += bench.stat("withheld");
  }
  CHECK(withheld > 500);
}

TEST_CASE("a reset in mid-flight leaves a crossbar like a new one", "[memory][MEM-03]") {
  for (const std::uint64_t seed : seeds(15)) {
    CAPTURE(seed);
    Random random(seed);
    const CrossbarParams params = random_params(random);
    const arch::Shape shape = random.shape(3);
    const Cycle stop = random.between(1, 300);
    std::vector<std::vector<Cycle>> arrivals(2);
    for (const bool interrupted : {false, true}) {
      SimFixture fixture;
      CrossbarBench bench(params, shape, 4, 2);
      if (interrupted) {
        Random other(seed + 1000);
        Storm storm(bench, other);
        for (int i = 0; i < 300; ++i) storm.send(other.below(bench.topology.sms()), other.below(100));
        run_until(sc_core::sc_time(static_cast<double>(stop), sc_core::SC_NS));
        bench.domain.reset();
        CHECK(bench.crossbar.in_flight() == 0);
        WaitGraph waits;
        bench.crossbar.collect_waits(waits);
        CHECK(waits.empty());
        std::fill(bench.memory.begin(), bench.memory.end(), std::uint8_t{0});
      }
      Random again(seed + 2000);
      Storm storm(bench, again);
      for (std::uint32_t sm = 0; sm < bench.topology.sms(); ++sm) {
        bench.sms[sm]->on_response = [&, sm](MemoryRequest& request, Cycle arrival) {
          arrivals[interrupted ? 1 : 0].push_back(arrival);
          storm.answered(sm, request);
        };
      }
      for (int i = 0; i < 300; ++i) storm.send(again.below(bench.topology.sms()), 1 + again.below(100));
      run_until_idle();
      CHECK(storm.answers == 300);
      CHECK(storm.wrong == 0);
    }
    CHECK(arrivals[0] == arrivals[1]);
  }
}

TEST_CASE("who waits in a stopped crossbar, and for whom", "[memory][MEM-03]") {
  SimFixture fixture;
  CrossbarParams params;
  params.gpc_to_slice = params.sm_to_tpc = params.tpc_to_cpc = params.cpc_to_gpc = 0;
  params.queue = 2;
  CrossbarBench bench(params, arch::Shape::from_sms_per_gpc({2, 2}), 2, 1);
  SECTION("a slice takes nothing") {
    bench.targets[1]->depth = 1;
    bench.targets[1]->latency = 1'000'000;
    for (std::uint64_t i = 0; i < 10; ++i) bench.sms[0]->send(bench.read(bench.line_in(1, i)), 0);
    run_until(sc_core::sc_time(1000, sc_core::SC_NS));
    WaitGraph waits;
    bench.crossbar.collect_waits(waits);
    CHECK(waits.chain() == std::vector<std::string>{
                               "SM 0 waits: for room at gpu0.xbar.gpc0 requests",
                               "gpu0.xbar.gpc0 requests waits: for room at gpu0.xbar.slice1 requests",
                               "gpu0.xbar.slice1 requests waits: for room at L2 slice 1",
                           });
  }
  SECTION("an SM takes nothing") {
    bench.sms[3]->hold = [](MemoryRequest&) { return Cycle{1'000'000}; };
    for (std::uint64_t i = 0; i < 30; ++i) bench.sms[3]->send(bench.read(bench.line_in(0, i)), 0);
    run_until(sc_core::sc_time(1000, sc_core::SC_NS));
    WaitGraph waits;
    bench.crossbar.collect_waits(waits);
    CHECK(waits.chain() == std::vector<std::string>{
                               "L2 slice 0 waits: for room at gpu0.xbar.gpc1 responses",
                               "gpu0.xbar.gpc1 responses waits: for room at SM 3",
                           });
  }
}

TEST_CASE("loosely timed, a call costs the unloaded way there and back", "[memory][MEM-03]") {
  SimFixture fixture;
  CrossbarBench bench(CrossbarParams{}, arch::Shape::from_sms_per_gpc({2, 2}), 4, 2, TimingMode::lt);
  start();
  for (std::uint32_t slice = 0; slice < 4; ++slice) {
    MemoryRequest& write = bench.write(bench.line_in(slice), 8);
    write.data[0] = static_cast<std::uint8_t>(slice + 1);
    sc_core::sc_time delay(7, sc_core::SC_NS);
    bench.sms[3]->out.blocking(write, delay);
    CHECK(write.is_response_ok());
    CHECK(bench.memory[bench.line_in(slice)] == slice + 1);
    const double way = slice / 2 == 1 ? 62 : 140;
    CHECK(delay == sc_core::sc_time(7 + 2 * way + 10, sc_core::SC_NS));
    write.release();
  }
  CHECK(bench.domain.idle());
}

TEST_CASE("debug accesses reach the slices of all their lines", "[memory][MEM-03]") {
  SimFixture fixture;
  CrossbarBench bench(CrossbarParams{}, arch::Shape::from_sms_per_gpc({2}), 5, 1);
  start();
  std::vector<std::uint8_t> data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * 7);
  tlm::tlm_generic_payload payload;
  payload.set_write();
  payload.set_address(100);
  payload.set_data_ptr(data.data());
  payload.set_data_length(1000);
  CHECK(bench.sms[1]->out.debug(payload) == 1000);
  CHECK(std::equal(data.begin(), data.end(), bench.memory.begin() + 100));
  std::vector<std::uint8_t> back(1000);
  payload.set_read();
  payload.set_data_ptr(back.data());
  CHECK(bench.sms[0]->out.debug(payload) == 1000);
  CHECK(back == data);
  // Only what lies in memory, in whole lines.
  payload.set_address(bench.memory.size() - 256);
  CHECK(bench.sms[0]->out.debug(payload) == 256);
}

TEST_CASE("errors come back, and payloads without an extension pass", "[memory][MEM-03]") {
  SimFixture fixture;
  CrossbarBench bench(CrossbarParams{}, arch::Shape::from_sms_per_gpc({2}), 4, 2);
  tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
  bench.sms[0]->on_response = [&](MemoryRequest& request, Cycle) { status = request.get_response_status(); };
  bench.sms[0]->send(bench.read(bench.memory.size() + 1280), 0);
  run_until_idle();
  CHECK(status == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(bench.stat("gpc0.response_bytes") == 32);

  MemoryRequest& stranger = bench.read(bench.line_in(2));
  stranger.clear_extension(&stranger.extension);
  protocol::MemoryExtension* given = nullptr;
  bench.sms[0]->on_response = [&](MemoryRequest& request, Cycle) {
    status = request.get_response_status();
    given = protocol::extension_of(request);
    request.clear_extension(given);
    delete given;
    request.set_extension(&request.extension);
  };
  bench.sms[0]->send(stranger, bench.domain.now());
  run_until_idle();
  CHECK(status == tlm::TLM_OK_RESPONSE);
  CHECK(given != nullptr);
  CHECK(bench.stat("gpc0.response_bytes") == 32 + 128);
}

TEST_CASE("packets take the bytes that they carry", "[memory][MEM-03][TMA-15]") {
  protocol::RequestPool pool;
  MemoryRequest& request = pool.acquire();
  const auto request_bytes = [&] { return memory::request_bytes(request, request.extension, 32); };
  const auto response_bytes = [&] { return memory::response_bytes(request, request.extension, 32); };
  request.set_response_status(tlm::TLM_OK_RESPONSE);
  for (std::uint32_t begin = 0; begin < 128; ++begin) {
    for (std::uint32_t bytes = 1; begin + bytes <= 128; ++bytes) {
      const std::uint32_t sectors = (begin + bytes - 1) / 32 - begin / 32 + 1;
      request.aim(tlm::TLM_READ_COMMAND, 1280 + begin, bytes);
      if (bytes % 2 == 0) request.extension.sectors = 0;  // then the length says
      REQUIRE(request_bytes() == 32);
      REQUIRE(response_bytes() == 32 * sectors);
      request.set_command(tlm::TLM_WRITE_COMMAND);
      REQUIRE(request_bytes() == 32 + 32 * sectors);
      REQUIRE(response_bytes() == 32);
    }
  }
  // Sectors that are wanted need not follow each other.
  request.set_command(tlm::TLM_READ_COMMAND);
  request.extension.sectors = 0b1011;
  CHECK(response_bytes() == 96);
  request.set_command(tlm::TLM_IGNORE_COMMAND);
  request.extension.lanes = 20;
  request.extension.action = protocol::MemoryAction::atomic;
  CHECK(request_bytes() == 32 + 160);
  CHECK(response_bytes() == 160);
  request.extension.lanes = 1;
  CHECK(response_bytes() == 32);
  request.extension.lanes = 20;
  request.extension.action = protocol::MemoryAction::reduce;
  CHECK(request_bytes() == 32 + 160);
  CHECK(response_bytes() == 32);
  for (const auto action : {protocol::MemoryAction::prefetch, protocol::MemoryAction::write_back}) {
    request.extension.action = action;
    CHECK(request_bytes() == 32);
    CHECK(response_bytes() == 32);
  }
  // What a TMAU's requests carry along (TMA-15).
  request.extension.carried = 12;
  for (const auto action : {protocol::MemoryAction::prefetch, protocol::MemoryAction::plain}) {
    request.extension.action = action;
    request.set_command(tlm::TLM_READ_COMMAND);
    CHECK(request_bytes() == 32 + 12);
    CHECK(response_bytes() == (action == protocol::MemoryAction::plain ? 96 : 32) + 12);
  }
  request.set_command(tlm::TLM_WRITE_COMMAND);
  CHECK(request_bytes() == 32 + 96 + 12);
  CHECK(response_bytes() == 32 + 12);
  request.set_command(tlm::TLM_IGNORE_COMMAND);
  request.extension.action = protocol::MemoryAction::reduce_block;
  CHECK(request_bytes() == 32 + 96 + 12);
  CHECK(response_bytes() == 32 + 12);
  request.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(response_bytes() == 32 + 12);
  request.release();
  MemoryRequest& again = pool.acquire();
  CHECK(again.extension.carried == 0);
  again.release();
}

}  // namespace heddle::test::memory_crossbar_random_test

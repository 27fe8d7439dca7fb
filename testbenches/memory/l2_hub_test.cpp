// The second way into a slice.
#include <map>

#include "arch/gpu_observation.h"
#include "memory/l2_bench.h"

namespace heddle::test::memory_l2_hub_test {
namespace {

using memory::L2IngressPorts;

// A slice with both ways in, each with an initiator of its own.
struct TwoWays {
  explicit TwoWays(const L2Params& params, std::uint64_t bytes = 64 * 128)
      : domain("domain", 1.0, TimingMode::at, 0, observation),
        map(bytes, 1, 1),
        slice("slice", domain, "l2.slice0", params, map, 0, L2IngressPorts::crossbar_and_hub),
        crossbar("crossbar", domain),
        hub("hub", domain),
        memory("memory", domain, bytes) {
    crossbar.out.bind(slice.request_in);
    hub.out.bind(slice.hub_in());
    slice.memory_out.bind(memory.in);
    start();
  }
  protocol::MemoryRequest& plain(tlm::tlm_command command, std::uint64_t address, std::uint32_t length,
                                 std::uint8_t value = 0) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(command, address, length);
    request.data.fill(value);
    return request;
  }

  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Domain domain;
  protocol::RequestPool pool;
  arch::AddressMap map;
  L2Slice slice;
  TestInitiator crossbar;
  TestInitiator hub;
  ScatterMemory memory;
};

constexpr tlm::tlm_command kRead = tlm::TLM_READ_COMMAND;
constexpr tlm::tlm_command kWrite = tlm::TLM_WRITE_COMMAND;

}  // namespace

TEST_CASE("requests of both ways take effect in the order of their arrival", "[memory][MEM-06]") {
  // The crossbar announces a write far ahead; the hub's read comes before it, and the hub's second read behind it.
  for (const Cycle second : {Cycle{99}, Cycle{101}}) {
    TwoWays bench((L2Params()));
    std::vector<std::uint8_t> seen;
    bench.hub.on_response = [&](protocol::MemoryRequest& request, Cycle) { seen.push_back(request.data[0]); };
    auto& write = bench.plain(kWrite, 256, 32, 0x5A);
    write.acquire();
    bench.crossbar.out.send(write, 100);
    bench.hub.send(bench.plain(kRead, 256, 32), 10);
    bench.hub.send(bench.plain(kRead, 256, 32), second);
    run_until_idle();
    REQUIRE(seen.size() == 2);
    CHECK(seen[0] == 0);
    CHECK(seen[1] == (second < 100 ? 0 : 0x5A));
    CHECK(write.is_response_ok());
  }
}

TEST_CASE("an early request of the hub does not wait for one that the crossbar has announced", "[memory][MEM-01]") {
  const auto latency_with = [](bool announced) {
    TwoWays bench((L2Params()));
    Cycle when = 0;
    bench.hub.on_response = [&](protocol::MemoryRequest&, Cycle arrival) { when = arrival; };
    auto& late = bench.plain(kRead, 0, 32);
    late.acquire();
    if (announced) bench.crossbar.out.send(late, 5000);
    bench.hub.send(bench.plain(kWrite, 128, 32), 10);
    run_until_idle();
    return when;
  };
  CHECK(latency_with(true) == latency_with(false));
  CHECK(latency_with(true) < 1000);
}

TEST_CASE("a way that takes no responses does not hold back the other", "[memory][MEM-01]") {
  for (const bool hub_blocked : {false, true}) {
    CAPTURE(hub_blocked);
    L2Params params = tiny_l2();
    TwoWays bench(params);
    TestInitiator& blocked = hub_blocked ? bench.hub : bench.crossbar;
    TestInitiator& other = hub_blocked ? bench.crossbar : bench.hub;
    blocked.hold = [](protocol::MemoryRequest&) { return Cycle{100'000}; };
    std::vector<std::uint64_t> order;
    blocked.on_response = [&](protocol::MemoryRequest& request, Cycle) { order.push_back(request.get_address()); };
    std::uint32_t answered = 0;
    Cycle last = 0;
    other.on_response = [&](protocol::MemoryRequest& request, Cycle arrival) {
      REQUIRE(request.is_response_ok());
      ++answered;
      last = arrival;
    };
    for (std::uint64_t i = 0; i < 12; ++i) blocked.send(bench.plain(kRead, i * 32, 32), 0);
    for (std::uint64_t i = 0; i < 40; ++i) other.send(bench.plain(i % 2 == 0 ? kWrite : kRead, 2048 + i * 32, 32), 20);
    run_until(sc_core::sc_time(50, sc_core::SC_US));
    CHECK(answered == 40);
    CHECK(last < 20'000);
    CHECK(order.size() < 12);
    run_until_idle();
    REQUIRE(order.size() == 12);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("each way has room of its own", "[memory][MEM-01]") {
  L2Params params = tiny_l2();
  params.queue = 4;
  TwoWays bench(params);
  bench.memory.latency = [] { return Cycle{10'000}; };
  std::uint32_t hub_sent = 0;
  // Misses of one way fill its queue; requests of the other are still accepted.
  for (std::uint64_t i = 0; i < 20; ++i) bench.crossbar.send(bench.plain(kRead, i * 128, 32), 0);
  for (std::uint64_t i = 0; i < 3; ++i) bench.hub.send(bench.plain(kRead, 4096 + i * 128, 32), 100);
  run_until(sc_core::sc_time(2, sc_core::SC_US));
  CHECK(bench.crossbar.waiting() > 0);
  CHECK(bench.hub.waiting() == 0);
  bench.hub.on_response = [&](protocol::MemoryRequest&, Cycle) { ++hub_sent; };
  run_until_idle();
  CHECK(hub_sent == 3);
}

TEST_CASE("blocking and debug accesses come in both ways", "[memory][MEM-06]") {
  TwoWays bench((L2Params()));
  auto& write = bench.plain(kWrite, 512, 16, 0x77);
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  bench.hub.out.blocking(write, delay);
  CHECK(write.is_response_ok());
  CHECK(delay > sc_core::SC_ZERO_TIME);
  auto& read = bench.plain(kRead, 512, 16);
  REQUIRE(bench.crossbar.out.debug(read) == 16);
  CHECK(read.data[15] == 0x77);
  read.data.fill(0x33);
  read.set_command(kWrite);
  REQUIRE(bench.hub.out.debug(read) == 16);
  auto& again = bench.plain(kRead, 512, 16);
  bench.crossbar.out.blocking(again, delay);
  CHECK(again.data[0] == 0x33);
}

TEST_CASE("values that both ways add to are all counted", "[memory][MEM-06]") {
  for (const std::uint64_t seed : seeds(8)) {
    CAPTURE(seed);
    Random dice(seed);
    TwoWays bench(tiny_l2());
    bench.memory.latency = [&] { return Cycle{dice.below(80)}; };
    bench.memory.withhold = [&] { return dice.chance(30) ? Cycle{dice.between(1, 20)} : Cycle{0}; };
    std::map<std::uint64_t, std::uint64_t> expected;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> olds;
    std::uint32_t answered = 0;
    constexpr std::uint32_t kAdds = 2000;
    for (TestInitiator* initiator : {&bench.crossbar, &bench.hub}) {
      initiator->gap = dice.below(3);
      initiator->hold = [&](protocol::MemoryRequest&) { return dice.chance(20) ? Cycle{dice.below(60)} : Cycle{0}; };
      initiator->on_response = [&](protocol::MemoryRequest& request, Cycle) {
        REQUIRE(request.is_response_ok());
        REQUIRE(++olds[{request.get_address(), request.extension.lane[0].old}] == 1);  // no value twice
        ++answered;
      };
      for (std::uint32_t i = 0; i < kAdds; ++i) {
        const std::uint64_t address = std::uint64_t{dice.below(24)} * 128 + dice.below(4) * 32;
        auto& request = bench.plain(tlm::TLM_IGNORE_COMMAND, address, 8);
        request.extension.action = protocol::MemoryAction::atomic;
        request.extension.type = arch::ValueType::u64;
        request.extension.lanes = 1;
        request.extension.lane[0] = {1, 0, 0, static_cast<std::uint8_t>(address % 128), 0};
        ++expected[address];
        initiator->send(request, 0);
      }
    }
    run_until_idle();
    REQUIRE(answered == 2 * kAdds);
    REQUIRE(bench.slice.idle());
    for (const auto& [address, count] : expected) {
      auto& read = bench.plain(kRead, address, 8);
      REQUIRE(bench.hub.out.debug(read) == 8);
      std::uint64_t value = 0;
      std::memcpy(&value, read.data.data(), 8);
      REQUIRE(value == count);
      read.release();
    }
  }
}

TEST_CASE("a reset in mid-flight empties both ways", "[memory][MEM-01]") {
  TwoWays bench(tiny_l2());
  for (std::uint64_t i = 0; i < 30; ++i) {
    bench.crossbar.send(bench.plain(kRead, i * 128, 32), 0);
    bench.hub.send(bench.plain(kWrite, i * 128, 32, 9), 0);
  }
  run_until(sc_core::sc_time(40, sc_core::SC_NS));
  CHECK_FALSE(bench.slice.idle());
  bench.domain.reset();
  CHECK(bench.slice.idle());
  std::uint32_t answered = 0;
  for (TestInitiator* initiator : {&bench.crossbar, &bench.hub}) {
    initiator->on_response = [&](protocol::MemoryRequest&, Cycle) { ++answered; };
    for (std::uint64_t i = 0; i < 10; ++i) initiator->send(bench.plain(kRead, i * 128, 32), 0);
  }
  run_until_idle();
  CHECK(answered == 20);
}

}  // namespace heddle::test::memory_l2_hub_test

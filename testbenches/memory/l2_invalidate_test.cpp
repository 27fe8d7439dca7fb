// A slice forgets what others may have changed in memory (MEM-06, PKT-14): what it is asked for after that is as new as
// memory, and nothing that it alone has is lost.
#include <array>
#include <map>

#include "common/line_source.h"
#include "memory/l2_bench.h"

namespace heddle::test::memory_l2_invalidate_test {
namespace {

using protocol::MemoryAction;
using protocol::MemoryRequest;

L2Params roomy() {
  L2Params params = tiny_l2();
  params.queue = 64;
  params.responses = 64;
  params.waiters = 64;
  return params;
}

std::uint8_t read_byte(L2Bench& bench, std::uint64_t address) {
  MemoryRequest& request = bench.read(address, 1);
  if (bench.domain.mode() == TimingMode::at) {
    bench.one(request);
    return bench.answers.back().first;
  }
  REQUIRE(bench.now(request) == tlm::TLM_OK_RESPONSE);
  const std::uint8_t value = request.data[0];
  request.release();
  return value;
}

void write_byte(L2Bench& bench, std::uint64_t address, std::uint8_t value) {
  MemoryRequest& request = bench.write(address, 1, value);
  if (bench.domain.mode() == TimingMode::at) {
    bench.one(request);
    return;
  }
  REQUIRE(bench.now(request) == tlm::TLM_OK_RESPONSE);
  request.release();
}

void ask(L2Bench& bench, MemoryAction action) {
  MemoryRequest& request = bench.action(action, 0);
  if (bench.domain.mode() == TimingMode::at) {
    bench.one(request);
    REQUIRE(bench.answers.back().status == tlm::TLM_OK_RESPONSE);
    return;
  }
  REQUIRE(bench.now(request) == tlm::TLM_OK_RESPONSE);
  request.release();
}

}  // namespace

TEST_CASE("clean sectors go, dirty ones stay until they are written back", "[memory][MEM-06][PKT-14]") {
  const TimingMode mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  CAPTURE(static_cast<int>(mode));
  L2Bench bench(roomy(), mode);
  for (std::uint8_t& byte : bench.memory.bytes) byte = 1;
  CHECK(read_byte(bench, 0) == 1);
  CHECK(read_byte(bench, 32) == 1);
  CHECK(read_byte(bench, 160) == 1);
  write_byte(bench, 32, 9);
  for (std::uint8_t& byte : bench.memory.bytes) byte = 2;
  CHECK(read_byte(bench, 0) == 1);  // old
  ask(bench, MemoryAction::invalidate);
  CHECK(read_byte(bench, 0) == 2);
  CHECK(read_byte(bench, 160) == 2);
  CHECK(read_byte(bench, 32) == 9);
  CHECK(bench.memory.writes == 0);
  ask(bench, MemoryAction::write_back);
  CHECK(bench.memory.bytes[32] == 9);
  bench.memory.bytes[32] = 3;
  CHECK(read_byte(bench, 32) == 9);
  ask(bench, MemoryAction::invalidate);
  CHECK(read_byte(bench, 32) == 3);
  CHECK(bench.slice.idle());
}

TEST_CASE("the walk takes a cycle for so many sets, and serves nobody meanwhile", "[memory][PKT-14]") {
  for (const std::uint32_t rate : {1U, 3U, 4U, 100U}) {
    L2Params params = roomy();
    params.bytes = 20 * 128;  // 10 sets
    params.walk_sets = rate;
    const Cycle walk = (10 + rate - 1) / rate;
    L2Bench at(params);
    CHECK(at.one(at.action(MemoryAction::invalidate, 0)) == 34 + walk + 68);
    at.one(at.write(0, 32, 1));
    at.listen();
    at.answers.clear();
    at.initiator.send(at.action(MemoryAction::invalidate, 0), at.domain.now());
    at.initiator.send(at.read(0, 32), at.domain.now());
    run_until_idle();
    REQUIRE(at.answers.size() == 2);
    // The read, a cycle behind, has its turn after the walk.
    const Cycle apart = at.answers[1].arrival - at.answers[0].arrival;
    CHECK(apart == 0);
    CHECK(at.answers[1].first == 1);

    for (const TimingMode mode : {TimingMode::fast, TimingMode::lt}) {
      L2Bench calls(params, mode);
      MemoryRequest& request = calls.action(MemoryAction::invalidate, 0);
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      calls.initiator.out.blocking(request, delay);
      CHECK(calls.domain.cycle_after(delay) == 34 + 68 + (mode == TimingMode::fast ? walk : 0));
      request.release();
    }
  }
}

TEST_CASE("what is on its way from memory serves those who wait, and goes", "[memory][MEM-06][PKT-14]") {
  L2Bench bench(roomy());
  for (std::uint8_t& byte : bench.memory.bytes) byte = 1;
  bench.memory.latency = [] { return Cycle{400}; };
  bench.listen();
  bench.initiator.send(bench.read(0, 32), bench.domain.now());
  bench.initiator.send(bench.action(MemoryAction::invalidate, 0), bench.domain.now());
  run_until(sc_core::sc_time(320, sc_core::SC_NS));  // memory has read it, and not answered
  for (std::uint8_t& byte : bench.memory.bytes) byte = 2;
  run_until_idle();
  REQUIRE(bench.answers.size() == 2);
  CHECK(bench.answers[0].first == 1);
  CHECK(bench.answers[1].arrival >= bench.answers[0].arrival - 68);  // not before that has come
  CHECK(read_byte(bench, 0) == 2);
  CHECK(bench.slice.idle());
}

TEST_CASE("lines without payloads are read anew by a slice that has forgotten them", "[memory][PKT-14]") {
  L2Bench bench(roomy(), TimingMode::lt);
  const auto value = [&]() -> int {
    const LinePort lines = bench.initiator.out.lines();
    LineRead read;
    read.address = read.physical_address = 0;
    read.sectors = 1;
    if (!lines.offered() || !lines.find(read)) return -1;
    lines.take(read);
    return read.bytes[0];
  };
  bench.memory.bytes[0] = 1;
  CHECK(value() == 1);
  bench.memory.bytes[0] = 2;
  CHECK(value() == 1);
  ask(bench, MemoryAction::invalidate);
  CHECK(value() == 2);
  CHECK(bench.memory.reads == 2);
}

// Sectors that only others write count up in memory; the slice's own are written through it.
TEST_CASE("at random, nobody sees what is older than a request to forget", "[memory][random][MEM-06][PKT-14]") {
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    L2Params params = tiny_l2();
    params.queue = random.between(2, 8);
    params.mshrs = random.between(1, 4);
    params.waiters = random.between(2, 8);
    params.write_buffer = random.between(1, 3);
    params.walk_sets = random.between(1, 4);
    L2Bench bench(params);
    bench.memory.latency = [&] { return Cycle{random.between(1, 300)}; };
    constexpr std::uint32_t kLines = 24;
    std::array<std::uint8_t, kLines> own{};        // last written through the slice
    std::map<MemoryRequest*, std::uint8_t> least;  // of a read of others' sectors
    std::uint8_t foreign = 1;
    std::uint8_t known = 0;  // version at the time of the last request to forget that has been answered
    std::map<MemoryRequest*, std::uint8_t> asked;
    std::uint64_t judged = 0;
    for (std::uint32_t line = 0; line < kLines; ++line) bench.memory.bytes[line * 128] = foreign;
    bench.initiator.on_response = [&](MemoryRequest& request, Cycle) {
      REQUIRE(request.get_response_status() == tlm::TLM_OK_RESPONSE);
      if (const auto walk = asked.find(&request); walk != asked.end()) {
        known = std::max(known, walk->second);
        asked.erase(walk);
      } else if (const auto read = least.find(&request); read != least.end()) {
        if (request.data[0] < read->second) FAIL("a read sees " << int(request.data[0]) << " of " << int(read->second));
        least.erase(read);
        ++judged;
      }
    };
    for (int round = 0; round < 60; ++round) {
      for (std::uint32_t count = random.between(1, 6); count > 0; --count) {
        const std::uint32_t line = random.below(kLines);
        switch (random.below(5)) {
          case 0: {
            own[line] = static_cast<std::uint8_t>(random.between(1, 255));
            bench.initiator.send(bench.write(line * 128 + 64, 1, own[line]), bench.domain.now());
            break;
          }
          case 1: {
            MemoryRequest& request = bench.action(MemoryAction::invalidate, 0);
            asked[&request] = foreign;
            bench.initiator.send(request, bench.domain.now());
            break;
          }
          default: {
            MemoryRequest& request = bench.read(line * 128, random.chance(50) ? 1 : 96);
            least[&request] = known;
            bench.initiator.send(request, bench.domain.now());
          }
        }
      }
      if (foreign < 200) ++foreign;
      for (std::uint32_t line = 0; line < kLines; ++line) bench.memory.bytes[line * 128] = foreign;
      const Cycle pause = random.between(0, 200);
      run_until(sc_core::sc_time_stamp() + sc_core::sc_time(static_cast<double>(pause), sc_core::SC_NS));
    }
    run_until_idle();
    CHECK(judged > 30);
    CHECK(asked.empty());
    for (std::uint32_t line = 0; line < kLines; ++line) {
      if (own[line] != 0 && bench.debug_byte(line * 128 + 64) != own[line]) FAIL("a write is lost, line " << line);
    }
    CHECK(bench.slice.idle());
  }
}

}  // namespace heddle::test::memory_l2_invalidate_test

// Corrupt sectors and prefetches: what an L2 slice knows of a line besides its bytes, and before anybody reads it.
#include <vector>

#include <catch2/catch.hpp>

#include "memory/l2_bench.h"

namespace heddle::test::memory_l2_poison_test {
namespace {

using protocol::MemoryAction;
using protocol::MemoryRequest;

L2Params roomy() {
  L2Params params = tiny_l2();
  params.bytes = 64 * 128;
  params.ways = 4;
  params.queue = 64;
  params.responses = 16;
  params.mshrs = 16;
  params.waiters = 32;
  return params;
}

bool is_poisoned(L2Bench& bench, MemoryRequest& request) {
  CHECK(bench.status_of(request) == tlm::TLM_OK_RESPONSE);
  return bench.answers.back().poisoned;
}

MemoryRequest& prefetch(L2Bench& bench, std::uint64_t address, std::uint32_t bytes) {
  MemoryRequest& request = bench.plain(tlm::TLM_IGNORE_COMMAND, address, bytes);
  request.extension.action = MemoryAction::prefetch;
  return request;
}

}  // namespace

TEST_CASE("who needs a corrupt sector is told so", "[memory]") {
  L2Bench bench(roomy());
  bench.slice.poison(40, 4);                      // sector 1 of line 0
  CHECK(is_poisoned(bench, bench.read(0, 128)));  // from memory
  CHECK(is_poisoned(bench, bench.read(0, 128)));
  CHECK(is_poisoned(bench, bench.read(60, 5)));
  CHECK_FALSE(is_poisoned(bench, bench.read(0, 32)));
  CHECK_FALSE(is_poisoned(bench, bench.read(64, 64)));
  CHECK_FALSE(is_poisoned(bench, bench.read(128 + 32, 32)));
  CHECK(is_poisoned(bench, bench.atomic(0, {0, 36}, 1)));
  CHECK_FALSE(is_poisoned(bench, bench.atomic(0, {0, 64}, 1)));
  CHECK(is_poisoned(bench, bench.reduce_block(32, 16, arch::AtomicKind::add, arch::ValueType::u32)));
  CHECK_FALSE(is_poisoned(bench, prefetch(bench, 0, 128)));
  // Reductions leave it corrupt, and so does a write of a part of it.
  CHECK_FALSE(is_poisoned(bench, bench.write(33, 31, 1)));
  CHECK(is_poisoned(bench, bench.read(32, 4)));
  CHECK_FALSE(is_poisoned(bench, bench.write(32, 32, 1)));
  CHECK_FALSE(is_poisoned(bench, bench.read(0, 128)));
}

TEST_CASE("a corrupt sector is corrupt at once, also loosely timed", "[memory]") {
  L2Bench bench(roomy(), TimingMode::lt);
  bench.slice.poison(0, 1);
  MemoryRequest& read = bench.read(0, 8);
  CHECK(bench.now(read) == tlm::TLM_OK_RESPONSE);
  CHECK(read.extension.poisoned);
  read.release();
  MemoryRequest& fresh = bench.read(32, 8);
  CHECK_FALSE(fresh.extension.poisoned);
  CHECK(bench.now(fresh) == tlm::TLM_OK_RESPONSE);
  CHECK_FALSE(fresh.extension.poisoned);
  fresh.release();
  MemoryRequest& write = bench.write(0, 128, 3);
  CHECK(bench.now(write) == tlm::TLM_OK_RESPONSE);
  write.release();
  MemoryRequest& again = bench.read(0, 8);
  CHECK(bench.now(again) == tlm::TLM_OK_RESPONSE);
  CHECK_FALSE(again.extension.poisoned);
  again.release();
}

TEST_CASE("corrupt data stay so when they leave the cache, until a reset", "[memory]") {
  L2Bench bench(tiny_l2());  // 4 sets of 2 lines
  bench.one(bench.write(0, 128, 5));
  bench.slice.poison(0, 128);
  for (std::uint64_t line = 4; line < 40; line += 4) bench.one(bench.write(line * 128, 128, 1));  // the same set
  run_until_idle();
  CHECK(bench.memory.bytes[0] == 5);  // it has left
  const std::uint64_t reads = bench.memory.reads;
  for (std::uint64_t sector = 0; sector < 4; ++sector) CHECK(is_poisoned(bench, bench.read(sector * 32, 8)));
  CHECK(bench.memory.reads > reads);
  SECTION("a reset") { bench.domain.reset(); }
  SECTION("a debugger that writes it") {
    MemoryRequest& part = bench.write(0, 100, 6);
    CHECK(bench.initiator.out.debug(part) == 100);
    part.release();
    CHECK_FALSE(is_poisoned(bench, bench.read(0, 96)));
    CHECK(is_poisoned(bench, bench.read(96, 1)));
    MemoryRequest& rest = bench.write(96, 32, 6);
    CHECK(bench.initiator.out.debug(rest) == 32);
    rest.release();
  }
  CHECK_FALSE(is_poisoned(bench, bench.read(0, 128)));
}

TEST_CASE("of a range, a slice's own lines become corrupt", "[memory]") {
  L2Bench bench(roomy(), TimingMode::at, 2);
  bench.slice.poison(100, 1000);  // sectors 3 to 34
  std::uint32_t own = 0;
  for (std::uint64_t sector = 0; sector < 48; ++sector) {
    const bool here = bench.map.slice_of(sector * 32) == 0;
    const bool inside = sector >= 3 && sector <= 34;
    CHECK(is_poisoned(bench, bench.read(sector * 32, 4)) == (here && inside));
    own += here && inside ? 1 : 0;
  }
  CHECK(own > 8);
  CHECK(own < 24);
  CHECK(!failure_of([&] { bench.slice.poison(bench.map.bytes() - 1, 2); }).empty());
}

TEST_CASE("a prefetch brings the sectors that it names, or the line", "[memory][TMA-42]") {
  for (const bool blocking : {false, true}) {
    CAPTURE(blocking);
    L2Bench bench(roomy(), blocking ? TimingMode::lt : TimingMode::at);
    for (std::size_t i = 0; i < bench.memory.bytes.size(); ++i) {
      bench.memory.bytes[i] = static_cast<std::uint8_t>(i * 11);
    }
    const auto send = [&](MemoryRequest& request) {
      if (!blocking) return bench.status_of(request);
      const tlm::tlm_response_status status = bench.now(request);
      request.release();
      return status;
    };
    const auto read = [&](std::uint64_t address, std::uint32_t bytes) {
      std::vector<std::uint8_t> seen;
      bench.initiator.on_response = [&](MemoryRequest& request, Cycle) {
        seen.assign(request.data.begin(), request.data.begin() + bytes);
      };
      MemoryRequest& request = bench.read(address, bytes);
      if (blocking) {
        CHECK(bench.now(request) == tlm::TLM_OK_RESPONSE);
        seen.assign(request.data.begin(), request.data.begin() + bytes);
        request.release();
      } else {
        bench.initiator.send(request, bench.domain.now());
        run_until_idle();
      }
      return seen ==
             std::vector<std::uint8_t>(bench.memory.bytes.begin() + static_cast<std::ptrdiff_t>(address),
                                       bench.memory.bytes.begin() + static_cast<std::ptrdiff_t>(address + bytes));
    };
    // Two sectors of a line, one of another; then a whole line.
    CHECK(send(prefetch(bench, 40, 30)) == tlm::TLM_OK_RESPONSE);
    CHECK(send(prefetch(bench, 128 + 127, 1)) == tlm::TLM_OK_RESPONSE);
    CHECK(bench.stat("fills") == 3);
    CHECK(send(prefetch(bench, 256, 128)) == tlm::TLM_OK_RESPONSE);
    CHECK(bench.stat("fills") == 7);
    MemoryRequest& scattered = prefetch(bench, 384, 128);
    scattered.extension.sectors = 0b1010;
    CHECK(send(scattered) == tlm::TLM_OK_RESPONSE);
    CHECK(bench.stat("fills") == 9);
    // The data are there: nobody asks memory again.
    const std::uint64_t reads = bench.memory.reads;
    CHECK(read(32, 64));
    CHECK(read(128 + 96, 32));
    CHECK(read(256, 128));
    CHECK(read(384 + 32, 32));
    CHECK(read(384 + 96, 32));
    // Nor for what is there already.
    CHECK(send(prefetch(bench, 256, 128)) == tlm::TLM_OK_RESPONSE);
    CHECK(send(prefetch(bench, 64, 1)) == tlm::TLM_OK_RESPONSE);
    CHECK(bench.memory.reads == reads);
    CHECK(bench.stat("fills") == 9);
    CHECK(bench.memory.writes == 0);
    // The rest of a line that is there in part.
    CHECK(send(prefetch(bench, 0, 128)) == tlm::TLM_OK_RESPONSE);
    CHECK(bench.stat("fills") == 11);
    CHECK(send(prefetch(bench, L2Bench::kBytes, 128)) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
    CHECK(bench.pool.in_use() == 0);
  }
}

TEST_CASE("a prefetch is answered at once, and a read behind it waits for the same sectors", "[memory][TMA-42]") {
  L2Bench bench(roomy());
  bench.memory.latency = [] { return Cycle{500}; };
  bench.listen();
  bench.initiator.send(prefetch(bench, 0, 128), 0);
  bench.initiator.send(bench.read(0, 128), 100);
  run_until_idle();
  REQUIRE(bench.answers.size() == 2);
  CHECK(bench.answers[0].arrival == 102);
  CHECK(bench.answers[1].arrival == 34 + 10 + 500 + 68);  // as if it had been asked for by the prefetch's time
  CHECK(bench.memory.reads == 1);
  CHECK(bench.stat("fills") == 4);
  // Memory's refusal is nobody's matter: a hint. Whoever reads hears of it.
  bench.memory.refused[8] = true;
  CHECK(bench.status_of(prefetch(bench, 256, 32)) == tlm::TLM_OK_RESPONSE);
  CHECK(bench.status_of(bench.read(256, 32)) == tlm::TLM_GENERIC_ERROR_RESPONSE);
}

}  // namespace heddle::test::memory_l2_poison_test

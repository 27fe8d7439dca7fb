// What requests can say beside the plain box: parameters in the instruction, prefetched descriptors, byte masks, L2
// promotion and priorities, prefetches without a place (TMA-04, TMA-05, TMA-42, TMA-44).
#include <memory>

#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_interface_test {

using namespace heddle;
using namespace heddle::test;

TEST_CASE("a request that carries its tensor's parameters fetches nothing", "[tmau][TMA-44]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const bool breaks = GENERATE(false, true);
  TmauBench bench(1, {}, mode);
  bench.fill_memory(5);
  arch::TensorDescriptor d = matrix_at(0x1000, 64, 64, 32, 8);
  if (breaks) d.stride[1] += 8;
  BulkRequest request = tensor(BulkKind::load, 1, {32, 4}, 1024);  // no descriptor could lie there
  request.parameters = std::make_shared<const arch::TensorDescriptor>(d);
  Bytes expected = bench.sms[0]->windows[0];
  if (!breaks) reference_load(d, request.coordinates, 0, 1024, bench.memory.bytes, expected);
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == (breaks ? DoneKind::dropped : DoneKind::complete));
  CHECK(bench.done(id).packet.rule == (breaks ? TensorRule::stride_alignment : TensorRule::none));
  CHECK(bench.sms[0]->windows[0] == expected);
  CHECK(bench.memory.seen.size() == (breaks ? 0 : 8));
  CHECK(bench.stat("descriptor.misses") == 0);
  CHECK(bench.stat("descriptor.hits") == 0);
  // Its credit is longer on its way back than a request that is dropped lives.
  (void)bench.ask(10'000, block_load(0x4000, 8, 8192));
  bench.run();
  bench.check_over();
}

TEST_CASE("a prefetched descriptor is there when a request needs it", "[tmau][TMA-04]") {
  TmauBench bench;
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 8));
  BulkRequest fetch = of_kind(BulkKind::fetch);
  fetch.tensor = true;
  fetch.descriptor = kDescriptor;
  const std::uint32_t first = bench.ask(0, fetch);
  bench.run();
  CHECK(bench.done(first).packet.kind == DoneKind::complete);
  REQUIRE(bench.memory.seen.size() == 1);
  CHECK(bench.memory.seen[0].address == kDescriptor);
  const std::uint32_t load = bench.ask(1000, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run();
  CHECK(bench.done(load).packet.kind == DoneKind::complete);
  CHECK(bench.stat("descriptor.misses") == 1);
  CHECK(bench.stat("descriptor.hits") == 1);
  // What the bytes say is of no interest to it.
  fetch.descriptor = kDescriptor + 0x1000;
  const std::uint32_t nothing = bench.ask(3000, fetch);
  fetch.descriptor = kDescriptor + 32;
  const std::uint32_t bad = bench.ask(3000, fetch);
  bench.run();
  CHECK(bench.done(nothing).packet.kind == DoneKind::complete);
  CHECK(bench.done(bad).packet.rule == TensorRule::descriptor_address);
  (void)bench.ask(10'000, block_load(0x4000, 8, 8192));  // until all credits are back
  bench.run();
  bench.check_over();
}

TEST_CASE("a byte mask says which bytes of each 16 a block's store writes", "[tmau][TMA-44]") {
  const std::uint16_t mask = GENERATE(as<std::uint16_t>{}, 0x0001, 0x8421, 0x00FF, 0xFFFF, 0);
  TmauBench bench;
  bench.fill_windows(2);
  bench.fill_memory(3);
  Bytes expected = bench.memory.bytes;
  for (std::uint32_t i = 0; i < 400; ++i) {
    if ((mask >> i % 16 & 1) != 0) expected[0x1070 + i] = bench.sms[0]->windows[0][512 + i];
  }
  BulkRequest request = block_store(512, 0x1070, 25);
  request.byte_mask = mask;
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.memory.bytes == expected);
  bench.check_over();
}

TEST_CASE("promotion names what a miss brings from memory beside the sectors of the read", "[tmau][TMA-05]") {
  const auto promotion = static_cast<arch::Promotion>(GENERATE(0, 1, 2, 3));
  TmauBench bench;
  // Rows of 16 bytes, 512 bytes apart: the second sector of a line each.
  arch::TensorDescriptor d = matrix_at(0x1020, 64, 64, 4, 4);
  d.stride[1] = 512;
  d.promotion = promotion;
  bench.put_descriptor(kDescriptor, d);
  BulkRequest request = tensor(BulkKind::load, kDescriptor, {0, 0});
  request.priority = arch::EvictionPriority::last;
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  std::uint32_t reads = 0;
  for (const auto& seen : bench.memory.of(tlm::TLM_READ_COMMAND)) {
    if (seen.address == kDescriptor) continue;
    ++reads;
    CHECK(seen.bytes == 16);
    CHECK(seen.priority == arch::EvictionPriority::last);
    CHECK(seen.promoted == (promotion == arch::Promotion::none ? 0 : promotion == arch::Promotion::bytes64 ? 3 : 15));
  }
  CHECK(reads == 4);
  const auto ahead = bench.memory.of(tlm::TLM_IGNORE_COMMAND, MemoryAction::prefetch);
  REQUIRE(ahead.size() == (promotion == arch::Promotion::bytes256 ? 4 : 0));
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    CHECK(ahead[i].address == 0x1080 + 512 * i);  // the other line of 256 bytes
    CHECK(ahead[i].bytes == 128);
  }
  bench.check_over();
}

TEST_CASE("a prefetch holds no place of requests that somebody waits for", "[tmau][TMA-42][TMA-44]") {
  TmauParams params;
  params.outstanding = 8;
  TmauBench bench(1, params);
  bench.memory.latency = [](std::uint64_t address) { return address < 0x40000 ? Cycle{20'000} : Cycle{100}; };
  BulkRequest prefetch = of_kind(BulkKind::prefetch);
  prefetch.blocks = 64 * 8;
  const std::uint32_t ahead = bench.ask(0, prefetch);
  const std::uint32_t load = bench.ask(0, block_load(0x50000, 8, 0));
  bench.run();
  CHECK(bench.cycle_of(ahead) < 500);
  CHECK(bench.cycle_of(load) < 1000);
  bench.check_over();
}

TEST_CASE("four rows are gathered, and scattered, by their numbers", "[tmau][TMA-44]") {
  const BulkKind kind = GENERATE(BulkKind::load, BulkKind::store);
  TmauBench bench;
  bench.fill_memory(5);
  bench.fill_windows(6);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 40, 16, 1));
  BulkRequest request = tensor(kind, kDescriptor, {8, 30, 2, 40, 3}, 1024);  // row 40 is outside
  request.four_rows = true;
  Bytes window = bench.sms[0]->windows[0];
  Bytes memory = bench.memory.bytes;
  const std::uint32_t rows[] = {30, 2, 40, 3};
  for (std::uint32_t row = 0; row < 4; ++row) {
    for (std::uint32_t i = 0; i < 64; ++i) {
      std::uint8_t& here = window[1024 + 64 * row + i];
      std::uint8_t& there = memory[0x1000 + 256 * rows[row] + 32 + i];
      if (kind == BulkKind::load) here = rows[row] < 40 ? there : 0;
      if (kind == BulkKind::store && rows[row] < 40) there = here;
    }
  }
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.sms[0]->windows[0] == window);
  CHECK(bench.memory.bytes == memory);
  if (kind == BulkKind::load) CHECK(bench.sms[0]->barrier.at(0) == 256);
  bench.check_over();
}

}  // namespace tmau_interface_test

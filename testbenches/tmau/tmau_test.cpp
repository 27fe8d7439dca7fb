// The unit: what its stages cost, and how they overlap.
#include "tmau/tmau.h"

#include <catch2/catch.hpp>

#include "tmau/tmau_bench.h"

namespace tmau_test {

using namespace heddle;
using namespace heddle::test;

TEST_CASE("a block load costs the sum of its stages", "[tmau][TMA-03][TMA-16]") {
  TmauBench bench(1, stage_costs());
  bench.fill_memory(1);
  bench.memory.latency = [](std::uint64_t) { return Cycle{200}; };
  const std::uint32_t id = bench.ask(10, block_load(0x1230, 1, 64));
  bench.run();
  const TmauSm& sm = *bench.sms[0];
  REQUIRE(sm.data.size() == 1);
  CHECK(sm.data[0].cycle == 10 + 3 + 17 + 200 + 23);
  CHECK(bench.cycle_of(id) == sm.data[0].cycle + 1);
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(window_at(bench, 0, 64, 16) == bytes_at(bench, 0x1230, 16));
  CHECK(sm.barrier.at(0) == 16);
  CHECK(bench.stat("requests.load") == 1);
  CHECK(bench.stat("lines") == 1);
  CHECK(bench.stat("bytes_in") == 16);
  bench.check_over();
}

TEST_CASE("a tensor load looks its descriptor up, is set up, and then generated", "[tmau][TMA-03][TMA-04]") {
  TmauBench bench(1, stage_costs());
  bench.fill_memory(1);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  bench.memory.latency = [](std::uint64_t) { return Cycle{200}; };
  const std::uint32_t miss = bench.ask(10, tensor(BulkKind::load, kDescriptor, {4, 2}));
  const std::uint32_t hit = bench.ask(1000, tensor(BulkKind::load, kDescriptor, {8, 2}, 128));
  bench.run();
  // The miss is fetched after the look-up.
  CHECK(bench.cycle_of(miss) == 10 + 3 + 5 + 200 + 11 + 17 + 200 + 23 + 1);
  CHECK(bench.cycle_of(hit) == 1000 + 3 + 5 + 11 + 17 + 200 + 23 + 1);
  CHECK(bench.stat("descriptor.misses") == 1);
  CHECK(bench.stat("descriptor.hits") == 1);
  CHECK(bench.stat("stage.setup") == 22);
  CHECK(bench.stat("stage.descriptor") == 5 + 200 + 5);
  CHECK(window_at(bench, 0, 128, 16) == bytes_at(bench, 0x1000 + 2 * 256 + 32, 16));
  bench.check_over();
}

TEST_CASE("a descriptor that does not begin at a line is fetched by two reads", "[tmau][TMA-04][TMA-05]") {
  TmauBench bench;
  bench.put_descriptor(kDescriptor + 64, matrix_at(0x1000, 64, 64, 4, 1));
  const std::uint32_t id = bench.ask(0, tensor(BulkKind::load, kDescriptor + 64, {0, 0}));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  REQUIRE(bench.memory.seen.size() == 3);
  CHECK(bench.memory.seen[0].address == kDescriptor + 64);
  CHECK(bench.memory.seen[0].bytes == 64);
  CHECK(bench.memory.seen[1].address == kDescriptor + 128);
  bench.check_over();
}

TEST_CASE("line requests follow each other at the rate", "[tmau][TMA-16]") {
  const double rate = GENERATE(0.25, 0.5, 1.0, 2.0, 3.0);
  TmauParams params = stage_costs();
  plain_costs(params, rate);
  TmauBench bench(1, params);
  const std::uint32_t id = bench.ask(0, block_load(0, 12 * 8, 0));
  bench.run();
  REQUIRE(bench.memory.seen.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    CAPTURE(i);
    CHECK(bench.memory.seen[i].cycle == 3 + 17 + static_cast<Cycle>(static_cast<double>(i) / rate));
    CHECK(bench.memory.seen[i].bytes == 128);
  }
  (void)bench.done(id);
  bench.check_over();
}

TEST_CASE("blocks and tensors, loads and stores have rates of their own", "[tmau][TMA-16][TMA-45]") {
  TmauParams params = stage_costs();
  params.rate = 1;
  params.block_rate = 0.5;
  params.store_rate = 0.25;
  params.block_store_rate = 0.125;
  struct Of {
    BulkRequest request;
    Cycle each;
  };
  BulkRequest reduction = block_store(0, 0x2000, 8 * 8);
  reduction.kind = BulkKind::reduce;
  BulkRequest prefetch = block_load(0x2000, 8 * 8, 0);
  prefetch.kind = BulkKind::prefetch;
  prefetch.barrier.reset();
  for (const Of& of :
       {Of{block_load(0x2000, 8 * 8, 0), 2}, Of{prefetch, 2}, Of{tensor(BulkKind::load, kDescriptor, {0, 0}), 1},
        Of{block_store(0, 0x2000, 8 * 8), 8}, Of{reduction, 8}, Of{tensor(BulkKind::store, kDescriptor, {0, 0}), 4}}) {
    CAPTURE(of.request.kind, of.request.tensor);
    TmauBench bench(1, params);
    bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 8));
    (void)bench.ask(0, of.request);
    bench.run();
    const auto& seen = bench.memory.seen;
    REQUIRE(seen.size() >= 8);
    for (std::size_t i = seen.size() - 7; i < seen.size(); ++i) CHECK(seen[i].cycle - seen[i - 1].cycle == of.each);
    bench.check_over();
  }
}

TEST_CASE("set-up takes its time for each loop of the walk, and im2col's box has more", "[tmau][TMA-03][TMA-45]") {
  TmauParams params = stage_costs();
  params.setup_loop = 7;
  arch::TensorDescriptor images;
  images.type = arch::TensorType::f16;
  images.mode = arch::TensorMode::im2col;
  images.rank = 4;
  images.address = 0x1000;
  images.size = {64, 8, 8, 2, 1};
  images.stride = {0, 128, 1024, 8192, 0};
  images.channels = 64;
  images.pixels = 4;
  arch::TensorDescriptor line = matrix_at(0x1000, 64, 64, 4, 1);
  line.rank = 1;
  struct Of {
    arch::TensorDescriptor tensor;
    std::uint64_t cycles;
  };
  for (const Of& of :
       {Of{line, 11 + 7}, Of{matrix_at(0x1000, 64, 64, 4, 1), 11 + 2 * 7}, Of{images, 11 + (4 + 2) * 7}}) {
    CAPTURE(of.tensor.rank);
    TmauBench bench(1, params);
    bench.put_descriptor(kDescriptor, of.tensor);
    bench.memory.latency = [](std::uint64_t) { return Cycle{200}; };
    const std::uint32_t id = bench.ask(10, tensor(BulkKind::load, kDescriptor, {0, 0}));
    bench.run();
    CHECK(bench.done(id).packet.kind == DoneKind::complete);
    CHECK(bench.stat("stage.setup") == of.cycles);
    CHECK(bench.memory.seen.at(1).cycle == 10 + 3 + 5 + 200 + of.cycles + 17);
    bench.check_over();
  }
}

TEST_CASE("requests are generated without a gap while later ones are set up", "[tmau][TMA-03][TMA-04]") {
  TmauParams params = stage_costs();
  TmauBench bench(1, params);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 20));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run();
  bench.memory.seen.clear();
  // 20 lines each: longer than look-up and set-up, so only the first one's are seen.
  for (std::uint32_t i = 0; i < 4; ++i) (void)bench.ask(2000, tensor(BulkKind::load, kDescriptor, {0, 0}, 4096 * i));
  bench.run();
  REQUIRE(bench.memory.seen.size() == 80);
  for (std::size_t i = 0; i < 80; ++i) {
    CAPTURE(i);
    REQUIRE(bench.memory.seen[i].cycle == 2000 + 3 + 5 + 11 + 17 + i);
  }
  CHECK(bench.stat("descriptor.ahead") == 3);
  CHECK(bench.stat("stage.generator") == 100);
  CHECK(bench.stat("stage.setup") == 5 * 11);
  bench.check_over();
}

TEST_CASE("small requests are paced by the slowest stage", "[tmau][TMA-03]") {
  TmauBench bench(1, stage_costs());
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run();
  bench.memory.seen.clear();
  for (std::uint32_t i = 0; i < 10; ++i) (void)bench.ask(2000, tensor(BulkKind::load, kDescriptor, {0, 0}, 128 * i));
  bench.run();
  REQUIRE(bench.memory.seen.size() == 10);
  for (std::size_t i = 1; i < 10; ++i) {
    CAPTURE(i);
    CHECK(bench.memory.seen[i].cycle - bench.memory.seen[i - 1].cycle == 11);  // set-up
  }
  bench.check_over();
}

TEST_CASE("the next descriptor is fetched while a request is generated", "[tmau][TMA-04]") {
  TmauParams params = stage_costs();
  TmauBench bench(1, params);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  // 150 lines take longer than the fetch: behind them the other follows at once.
  (void)bench.ask(0, block_load(0, 150 * 8, 0));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}, 20'480));
  bench.run();
  REQUIRE(bench.memory.seen.size() == 152);
  CHECK(bench.stat("descriptor.ahead") == 1);
  CHECK(bench.stat("descriptor.misses") == 1);
  Cycle last = 0;
  for (const auto& seen : bench.memory.seen) last = std::max(last, seen.cycle);
  CHECK(last == 3 + 17 + 150);
  bench.check_over();
}

TEST_CASE("blocks bypass descriptor cache and set-up", "[tmau][TMA-03]") {
  TmauBench bench(1, stage_costs());
  for (std::uint32_t i = 0; i < 5; ++i) (void)bench.ask(0, block_load(128 * i, 8, 128 * i));
  bench.run();
  for (std::size_t i = 0; i < 5; ++i) CHECK(bench.memory.seen[i].cycle == 3 + 17 + i);
  CHECK(bench.stat("stage.setup") == 0);
  CHECK(bench.stat("stage.descriptor") == 0);
  bench.check_over();
}

TEST_CASE("no more line requests are open than may be", "[tmau][TMA-15][TMA-16]") {
  const bool table = GENERATE(false, true);
  const Cycle ahead = GENERATE(0, 60);
  TmauParams params = stage_costs();
  params.outstanding = table ? 256 : 4;
  params.tracking = table ? tmau::Tracking::table : tmau::Tracking::carried;
  params.table = 4;
  TmauBench bench(1, params);
  bench.memory.ahead = ahead;
  bench.fill_memory(3);
  const std::uint32_t id = bench.ask(0, block_load(0, 20 * 8, 0));
  bench.run();
  // Four every 100 cycles.
  REQUIRE(bench.memory.seen.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CAPTURE(i);
    CHECK(bench.memory.seen[i].cycle == 20 + i / 4 * 100 + i % 4);
  }
  CHECK(bench.stat("wait.outstanding") == 4 * 96);
  CHECK(bench.stat("wait.crossbar") == 0);
  CHECK(window_at(bench, 0, 0, 2560) == bytes_at(bench, 0, 2560));
  CHECK(bench.cycle_of(id) == 20 + 4 * 100 + 3 + 100 + (table ? params.table_latency : 0) + 23 + 1);
  bench.check_over();
}

TEST_CASE("a table beside the limit counts only if it is used", "[tmau][TMA-15]") {
  TmauParams params = stage_costs();
  params.table = 1;
  TmauBench bench(1, params);
  (void)bench.ask(0, block_load(0, 8 * 8, 0));
  bench.run();
  CHECK(bench.memory.most_open == 8);
}

TEST_CASE("a crossbar without room holds the generator back", "[tmau][TMA-16]") {
  TmauBench bench(1, stage_costs());
  bench.fill_memory(3);
  bench.memory.hold = [] { return Cycle{10}; };
  (void)bench.ask(0, block_load(0, 10 * 8, 0));
  bench.run();
  for (std::size_t i = 0; i < 10; ++i) CHECK(bench.memory.seen[i].cycle == 20 + 10 * i);
  CHECK(bench.stat("wait.crossbar") == 9 * 9);
  CHECK(bench.stat("wait.outstanding") == 0);
  CHECK(window_at(bench, 0, 0, 1280) == bytes_at(bench, 0, 1280));
  bench.check_over();
}

TEST_CASE("a request takes a place of the queue until it leaves for its stages", "[tmau][TMA-03][TMA-16]") {
  TmauParams params = stage_costs();
  params.queue = 2;
  params.outstanding = 1;
  TmauBench bench(1, params);
  for (std::uint32_t i = 0; i < 12; ++i) (void)bench.ask(0, block_load(128 * i, 8, 128 * i));
  bench.run(50);
  // One waits for its answer, five are in the stages, two are queued.
  CHECK(bench.sms[0]->waiting() == 4);
  bench.run();
  bench.check_over();
}

TEST_CASE("nothing is moved for zero blocks, and the request completes", "[tmau][TMA-01]") {
  const BulkKind kind =
      GENERATE(BulkKind::load, BulkKind::store, BulkKind::reduce, BulkKind::prefetch, BulkKind::copy, BulkKind::send);
  TmauBench bench(1, stage_costs());
  BulkRequest request = of_kind(kind);
  request.global = 8;  // nothing looks at it
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.cycle_of(id) == 3 + 17 + 1);
  CHECK(bench.memory.seen.empty());
  CHECK(bench.sms[0]->data.empty());
  bench.check_over();
}

TEST_CASE("queue orders change who is next, and not what is done", "[tmau][TMA-03]") {
  const auto order = GENERATE(tmau::QueueOrder::fifo, tmau::QueueOrder::blocks_first, tmau::QueueOrder::smallest_first);
  TmauParams params = stage_costs();
  params.order = order;
  TmauBench bench(1, params);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  bench.put_descriptor(kDescriptor + 128, matrix_at(0x1000, 64, 64, 32, 8));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor + 128, {0, 0}));
  bench.run();
  // The stages are full of small requests when the others arrive.
  for (std::uint32_t i = 0; i < 8; ++i) (void)bench.ask(2000, tensor(BulkKind::load, kDescriptor, {0, 0}, 4096));
  const std::uint32_t large = bench.ask(2010, tensor(BulkKind::load, kDescriptor + 128, {0, 0}, 8192));
  const std::uint32_t block = bench.ask(2011, block_load(0, 64, 16'384));
  const std::uint32_t small = bench.ask(2012, tensor(BulkKind::load, kDescriptor, {4, 0}, 4096));
  bench.run();
  const Cycle l = bench.cycle_of(large);
  const Cycle b = bench.cycle_of(block);
  const Cycle s = bench.cycle_of(small);
  // `block` and `large` are alike in size.
  if (order == tmau::QueueOrder::fifo) CHECK((l < b && b < s));
  if (order == tmau::QueueOrder::blocks_first) CHECK((b < l && l < s));
  if (order == tmau::QueueOrder::smallest_first) CHECK((s < l && l < b));
  bench.check_over();
}

TEST_CASE("a prefetch asks for the sectors or lines of its box, and nobody waits for it", "[tmau][TMA-01][TMA-42]") {
  const auto unit = GENERATE(tmau::PrefetchUnit::sector, tmau::PrefetchUnit::line);
  TmauParams params = stage_costs();
  params.prefetch = unit;
  TmauBench bench(1, params);
  // Rows of 256 bytes, of which the box has 16 (bytes 96 to 112 of their line) and 16 beyond the right side.
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 4, 8, 6));
  const std::uint32_t id = bench.ask(0, tensor(BulkKind::prefetch, kDescriptor, {60, 0}));
  // Bytes 0x4040 to 0x4110: in three lines.
  BulkRequest block = of_kind(BulkKind::prefetch);
  block.global = 0x4040;
  block.blocks = 13;
  const std::uint32_t other = bench.ask(0, block);
  bench.run();
  const auto seen = bench.memory.of(tlm::TLM_IGNORE_COMMAND, MemoryAction::prefetch);
  REQUIRE(seen.size() == 4 + 3);
  const bool lines = unit == tmau::PrefetchUnit::line;
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(arch::line_of(seen[i].address) == 0x1000 + 256 * i + 128);
    CHECK(seen[i].sectors == (lines ? 15 : 8));
  }
  CHECK(seen[4].sectors == (lines ? 15 : 12));
  CHECK(seen[5].sectors == 15);
  CHECK(seen[6].sectors == (lines ? 15 : 1));
  // Complete when generated, not when answered.
  CHECK(bench.cycle_of(id) < seen[3].cycle + 10);
  CHECK(bench.cycle_of(other) < seen[6].cycle + 10);
  CHECK(bench.sms[0]->data.empty());
  bench.check_over();
}

TEST_CASE("pieces of a prefetch that share a line are one request", "[tmau][TMA-42]") {
  TmauBench bench;
  // Rows of 32 bytes: four in a line, each a piece, as the box has half of each.
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 8, 64, 4, 10));
  (void)bench.ask(0, tensor(BulkKind::prefetch, kDescriptor, {0, 2}));
  bench.run();
  const auto seen = bench.memory.of(tlm::TLM_IGNORE_COMMAND, MemoryAction::prefetch);
  REQUIRE(seen.size() == 3);  // rows 2 and 3, 4 to 7, 8 to 11
  CHECK(arch::line_of(seen[0].address) == 0x1000);
  CHECK(arch::line_of(seen[2].address) == 0x1100);
  bench.check_over();
}

TEST_CASE("a copy from device to device reads and then writes", "[tmau][TMA-01]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, stage_costs(), mode);
  bench.fill_memory(5);
  const auto source = bytes_at(bench, 0x1010, 1600);
  BulkRequest copy = of_kind(BulkKind::copy);
  copy.global = 0x1010;
  copy.to = 0x9050;
  copy.blocks = 100;
  const std::uint32_t id = bench.ask(0, copy);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bytes_at(bench, 0x9050, 1600) == source);
  CHECK(bench.memory.of(tlm::TLM_READ_COMMAND).size() == bench.memory.of(tlm::TLM_WRITE_COMMAND).size());
  CHECK(bench.stat("bytes_in") == 1600);
  CHECK(bench.stat("bytes_out") == 1600);
  CHECK(bench.sms[0]->given == 0);  // shared memory has nothing to do with it
  bench.check_over();
}

TEST_CASE("lines outside the tensor are filled without a request", "[tmau][TMA-13][TMA-40]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, stage_costs(), mode);
  bench.fill_memory(6);
  arch::TensorDescriptor d = matrix_at(0x1000, 32, 16, 32, 8);
  d.fill = arch::Fill::nan;
  bench.put_descriptor(kDescriptor, d);
  const std::uint32_t id = bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 12}, 256));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  Bytes expected(kWindow);
  reference_load(d, {0, 12}, 0, 256, bench.memory.bytes, expected);
  CHECK(bench.sms[0]->windows[0] == expected);
  CHECK(bench.memory.seen.size() == 1 + 4);
  CHECK(bench.stat("fills") == 4);
  CHECK(bench.stat("delivered") == 8);
  CHECK(bench.sms[0]->barrier.at(0) == 1024);  // the whole box
  bench.check_over();
}

}  // namespace tmau_test

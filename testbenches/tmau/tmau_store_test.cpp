// From shared memory: stores, reductions and sends (TMA-01, TMA-07, TMA-13, TMA-41).
#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_store_test {

using namespace heddle;
using namespace heddle::test;

TEST_CASE("a store reads shared memory, writes, and then is complete", "[tmau][TMA-01][TMA-41]") {
  TmauBench bench(1, stage_costs());
  bench.fill_windows(1);
  const std::uint32_t id = bench.ask(10, block_store(256, 0x1230, 2));
  bench.run();
  // To shared memory and back 1 + 5 + 1, then memory.
  const Cycle read = 10 + 3 + 17 + 1 + 5 + 1;
  REQUIRE(bench.read_of(id) != nullptr);
  CHECK(bench.read_of(id)->cycle == read + 1);
  CHECK(bench.memory.seen.at(0).cycle == read);
  CHECK(bench.cycle_of(id) == read + 100 + 1);
  CHECK(std::equal(bench.sms[0]->windows[0].begin() + 256, bench.sms[0]->windows[0].begin() + 288,
                   bench.memory.bytes.begin() + 0x1230));
  CHECK(bench.stat("bytes_out") == 32);
  bench.check_over();
}

TEST_CASE("a source may be overwritten when it has been read, long before the end", "[tmau][TMA-41]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const Cycle ahead = GENERATE(0, 3000);  // acknowledgements that are known before the last line has been read
  TmauBench bench(1, stage_costs(), mode);
  bench.memory.latency = [](std::uint64_t) { return Cycle{3000}; };
  bench.memory.ahead = ahead;
  const std::uint32_t id = bench.ask(0, block_store(0, 0x1000, 160));
  bench.run();
  CHECK(bench.sms[0]->given == 20);
  REQUIRE(bench.read_of(id) != nullptr);
  const bool at = mode != TimingMode::lt;
  const Cycle last = at ? 20 + 19 + 7 : 19 + 5;
  CHECK(bench.read_of(id)->cycle == last + (at ? 1 : 0));
  CHECK(bench.cycle_of(id) == last + 3000 + (at ? 1 : 0));
  bench.check_over();
}

TEST_CASE("the SM hears that the L2 has taken a store over, long before memory has answered",
          "[tmau][TMA-41][TMA-45]") {
  TmauBench bench(1, stage_costs());
  bench.memory.latency = [](std::uint64_t) { return Cycle{3000}; };
  bench.memory.accepts = 60;
  const std::uint32_t id = bench.ask(0, block_store(0, 0x1000, 160));
  BulkRequest reduction = block_store(0, 0x4000, 8);
  reduction.kind = BulkKind::reduce;
  const std::uint32_t reduced = bench.ask(0, reduction);
  BulkRequest sends = block_store(0, 0, 8);
  sends.kind = BulkKind::send;
  (void)bench.ask(0, sends);
  bench.run();
  std::vector<TmauSm::Done> accepted;
  for (const TmauSm::Done& one : bench.sms[0]->done) {
    if (one.packet.kind == DoneKind::accepted) accepted.push_back(one);
  }
  REQUIRE(accepted.size() == 2);  // nothing takes a send over
  CHECK(accepted[0].packet.id == id);
  CHECK(accepted[1].packet.id == reduced);
  // The last of 20 lines has been read at 46.
  CHECK(accepted[0].cycle == 20 + 19 + 7 + 60 + 1);
  CHECK(bench.cycle_of(id) == 20 + 19 + 7 + 3000 + 1);
  bench.check_over();
}

TEST_CASE("a store whose error is known is not taken over", "[tmau][TMA-41][TMA-45]") {
  TmauParams params = stage_costs();
  params.block_store_rate = 0.01;  // the first line's error is known when the second one leaves
  TmauBench bench(1, params);
  bench.memory.latency = [](std::uint64_t address) { return address < 0x1080 ? Cycle{5} : Cycle{3000}; };
  bench.memory.accepts = 100;
  bench.memory.error = [](std::uint64_t line) { return line == 0x1000; };
  const std::uint32_t id = bench.ask(0, block_store(0, 0x1000, 16));
  bench.run();
  for (const TmauSm::Done& one : bench.sms[0]->done) CHECK(one.packet.kind != DoneKind::accepted);
  CHECK(bench.done(id).packet.kind == DoneKind::failed);
  bench.check_over();
}

TEST_CASE("elements outside the tensor are not stored", "[tmau][TMA-13]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, stage_costs(), mode);
  bench.fill_windows(2);
  bench.fill_memory(3);
  const arch::TensorDescriptor d = matrix_at(0x1000, 40, 16, 32, 8);
  bench.put_descriptor(kDescriptor, d);
  Bytes expected = bench.memory.bytes;
  const Coordinates at{20, 12};
  reference_store(d, at, 0, 512, bench.sms[0]->windows[0], expected);
  const std::uint32_t id = bench.ask(0, tensor(BulkKind::store, kDescriptor, at, 512));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.memory.bytes == expected);
  bench.check_over();
}

TEST_CASE("a store outside its tensor moves nothing and completes", "[tmau][TMA-13]") {
  TmauBench bench(1, stage_costs());
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 40, 16, 32, 8));
  const std::uint32_t id = bench.ask(0, tensor(BulkKind::store, kDescriptor, {0, 100}, 512));
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.memory.seen.size() == 1);
  CHECK(bench.sms[0]->given == 0);
  bench.check_over();
}

TEST_CASE("holes within a line are not written", "[tmau][TMA-13][TMA-15]") {
  TmauBench bench(1, stage_costs());
  bench.fill_windows(2);
  bench.fill_memory(3);
  // Rows of 16 bytes side by side in memory, of which the tensor has 8: one line has eight of them.
  arch::TensorDescriptor d = matrix_at(0x1000, 2, 64, 4, 16);
  d.stride[1] = 16;
  bench.put_descriptor(kDescriptor, d);
  Bytes expected = bench.memory.bytes;
  reference_store(d, {0, 0}, 0, 0, bench.sms[0]->windows[0], expected);
  (void)bench.ask(0, tensor(BulkKind::store, kDescriptor, {0, 0}, 0));
  bench.run();
  CHECK(bench.memory.bytes == expected);
  CHECK(bench.memory.of(tlm::TLM_WRITE_COMMAND).size() == 2);
  bench.check_over();
}

TEST_CASE("reductions of tensors are done at memory", "[tmau][TMA-01][TMA-07]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(1, stage_costs(), mode);
  bench.fill_windows(2);
  bench.fill_memory(3);
  arch::TensorDescriptor d = matrix_at(0x1000, 40, 16, 32, 8);
  d.type = arch::TensorType::s32;
  bench.put_descriptor(kDescriptor, d);
  Bytes expected = bench.memory.bytes;
  const auto kind = GENERATE(arch::AtomicKind::add, arch::AtomicKind::min);
  const Coordinates at{20, 12};
  reference_reduce(kind, d, at, 0, 512, bench.sms[0]->windows[0], expected);
  BulkRequest request = tensor(BulkKind::reduce, kDescriptor, at, 512);
  request.reduction = kind;
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.memory.bytes == expected);
  CHECK(bench.memory.of(tlm::TLM_IGNORE_COMMAND, MemoryAction::reduce_block).size() ==
        count_pieces(d, box_elements(d, at, 0)).inside);
  bench.check_over();
}

TEST_CASE("reductions of blocks have the type of the request", "[tmau][TMA-01][TMA-07]") {
  TmauBench bench(1, stage_costs());
  for (std::uint32_t i = 0; i < 256; i += 8) {
    bench.memory.bytes[0x1000 + i] = 200;
    bench.sms[0]->windows[0][i] = 100;
  }
  BulkRequest request = block_store(0, 0x1000, 16);
  request.kind = BulkKind::reduce;
  request.reduction = arch::AtomicKind::add;
  request.type = arch::ValueType::u64;
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  for (std::uint32_t i = 0; i < 256; i += 8) {
    REQUIRE(bench.memory.bytes[0x1000 + i] == 44);
    REQUIRE(bench.memory.bytes[0x1001 + i] == 1);
  }
  bench.check_over();
}

TEST_CASE("a send brings shared memory to another CTA, or to the own one", "[tmau][TMA-01]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const bool own = GENERATE(false, true);
  const bool reduces = GENERATE(false, true);
  TmauBench bench(2, stage_costs(), mode);
  bench.fill_windows(2);
  BulkRequest request = of_kind(BulkKind::send);
  request.shared = 512;
  request.destination = 0x2010;
  request.blocks = 50;
  request.data_cta = own ? std::nullopt : std::optional(1U);
  request.barrier = 24;
  request.reduces = reduces;
  Bytes expected = bench.sms[own ? 0 : 1]->windows[0];
  for (std::uint32_t i = 0; i < 800; i += 4) {
    std::uint64_t value = get_value(&bench.sms[0]->windows[0][512 + i], 4);
    if (reduces) value += get_value(&expected[0x2010 + i], 4);
    put_value(&expected[0x2010 + i], 4, value);
  }
  const std::uint32_t id = bench.ask(0, request);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.sms[own ? 0 : 1]->windows[0] == expected);
  CHECK(bench.sms[own ? 0 : 1]->barrier.at(24) == 800);
  CHECK(bench.memory.seen.empty());
  bench.check_over();
}

TEST_CASE("stores do not exceed the limit of open line requests", "[tmau][TMA-16]") {
  TmauParams params = stage_costs();
  params.outstanding = 3;
  TmauBench bench(1, params);
  bench.fill_windows(1);
  (void)bench.ask(0, block_store(0, 0x1000, 160));
  bench.run();
  CHECK(bench.memory.most_open == 3);
  CHECK(bench.stat("wait.outstanding") > 500);
  CHECK(std::equal(bench.sms[0]->windows[0].begin(), bench.sms[0]->windows[0].begin() + 2560,
                   bench.memory.bytes.begin() + 0x1000));
  bench.check_over();
}

TEST_CASE("loads and stores share the port in order of time", "[tmau][TMA-03]") {
  TmauBench bench(1, stage_costs());
  bench.fill_windows(1);
  bench.memory.hold = [n = 0]() mutable { return ++n % 3 == 0 ? Cycle{4} : Cycle{0}; };
  bench.sms[0]->read_cycles = [n = 0]() mutable { return Cycle{static_cast<Cycle>(++n * 7 % 40)}; };
  for (std::uint32_t i = 0; i < 6; ++i) {
    (void)bench.ask(i, block_store(1024 * i, 0x10000 + 1024 * i, 64));
    (void)bench.ask(i, block_load(0x4000, 64, 16'384));
  }
  bench.run();
  CHECK(bench.memory.of(tlm::TLM_WRITE_COMMAND).size() == 48);
  CHECK(std::equal(bench.sms[0]->windows[0].begin(), bench.sms[0]->windows[0].begin() + 6144,
                   bench.memory.bytes.begin() + 0x10000));
  bench.check_over();
}

}  // namespace tmau_store_test

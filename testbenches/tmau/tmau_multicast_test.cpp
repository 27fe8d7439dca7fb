// One request of memory, several receivers (TMA-30, TMA-31).
#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_multicast_test {

using namespace heddle;
using namespace heddle::test;

namespace {

TmauParams stages(std::uint32_t sms = 1) {
  TmauParams params = stage_costs();
  params.sms = sms;
  return params;
}

}  // namespace

TEST_CASE("a multicast goes to memory once and lands in each receiver", "[tmau][TMA-30][TMA-31]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const std::uint32_t per_unit = GENERATE(1U, 2U, 4U);
  TmauBench bench(4, stages(per_unit), mode);
  bench.fill_memory(2);
  BulkRequest request = block_load(0x1000, 64, 512, 16);
  request.multicast = 0b1101;
  const std::uint32_t id = bench.ask(0, request, 0);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.memory.seen.size() == 8);
  for (std::uint32_t sm = 0; sm < 4; ++sm) {
    CAPTURE(sm);
    const bool receives = (request.multicast >> sm & 1) != 0;
    CHECK(bench.sms[sm]->data.size() == (receives ? 8 : 0));
    if (!receives) continue;
    CHECK(bench.sms[sm]->barrier.at(16) == 1024);
    CHECK(std::equal(bench.memory.bytes.begin() + 0x1000, bench.memory.bytes.begin() + 0x1400,
                     bench.sms[sm]->windows[0].begin() + 512));
  }
  CHECK(bench.stat("multicast.sent") == 8);
  CHECK(bench.stat("multicast.saved") == 16);
  std::uint64_t received = 0;
  for (std::uint32_t unit = 0; unit < bench.units.size(); ++unit) received += bench.stat("multicast.received", unit);
  CHECK(received == 24);
  CHECK(bench.stat("multicast.acknowledged") == (per_unit == 4 ? 0 : 16));
  bench.check_over();
}

TEST_CASE("a load is complete when the last receiver's unit has acknowledged", "[tmau][TMA-31]") {
  TmauBench bench(2, stages());
  BulkRequest request = block_load(0x1000, 8, 512, 16);
  request.multicast = 0b11;
  const std::uint32_t id = bench.ask(10, request, 0);
  bench.run();
  const Cycle delivered = 10 + 3 + 17 + 100 + 23;
  CHECK(bench.sms[0]->data.at(0).cycle == delivered);
  CHECK(bench.sms[1]->data.at(0).cycle == delivered);
  CHECK(bench.cycle_of(id) == delivered + 40 + 1);
  bench.check_over();
}

TEST_CASE("the one that asks need not receive", "[tmau][TMA-30]") {
  TmauBench bench(4, stages());
  BulkRequest request = block_load(0x1000, 8, 512, 16);
  request.multicast = 0b1100;
  const std::uint32_t id = bench.ask(0, request, 1);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.sms[1]->data.empty());
  CHECK(bench.sms[2]->data.size() == 1);
  CHECK(bench.sms[3]->data.size() == 1);
  bench.check_over();
}

TEST_CASE("another CTA alone is a receiver as well", "[tmau][TMA-01][TMA-30]") {
  TmauBench bench(2, stages());
  BulkRequest request = block_load(0x1000, 8, 512, 16);
  request.data_cta = 1;
  const std::uint32_t id = bench.ask(0, request, 0, [](protocol::BulkRequestPacket& packet) {
    packet.by_rank = true;
    packet.ctas = 2;
    packet.sms = 2;
  });
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.sms[1]->barrier.at(16) == 128);
  CHECK(bench.stat("multicast.saved") == 0);
  bench.check_over();
}

TEST_CASE("two receivers on one SM get one packet", "[tmau][TMA-30]") {
  TmauBench bench(2, stages());
  bench.fill_memory(3);
  BulkRequest request = block_load(0x1000, 16, 512, 16);
  request.multicast = 0b0101;  // ranks 0 and 2: both on SM 0
  const std::uint32_t id = bench.ask(0, request, 1);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  CHECK(bench.sms[0]->data.size() == 2);
  CHECK(bench.sms[0]->barrier.at(16) == 256);
  CHECK(bench.sms[0]->barrier.at(16 + (1 << 24)) == 256);
  CHECK(bench.sms[0]->windows[0] == bench.sms[0]->windows[1]);
  CHECK(bench.stat("multicast.saved", 1) == 2);
  bench.check_over();
}

TEST_CASE("fill goes to the receivers by their units", "[tmau][TMA-13][TMA-30][TMA-40]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const std::uint32_t per_unit = GENERATE(1U, 2U);
  TmauBench bench(4, stages(per_unit), mode);
  bench.fill_memory(4);
  arch::TensorDescriptor d = matrix_at(0x1000, 48, 16, 32, 8);
  d.fill = arch::Fill::nan;
  bench.put_descriptor(kDescriptor, d);
  BulkRequest request = tensor(BulkKind::load, kDescriptor, {32, 12}, 1024);
  request.multicast = 0b1111;
  const std::uint32_t id = bench.ask(0, request, 2);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::complete);
  Bytes expected(kWindow);
  reference_load(d, {32, 12}, 0, 1024, bench.memory.bytes, expected);
  for (std::uint32_t sm = 0; sm < 4; ++sm) {
    CAPTURE(sm);
    CHECK(bench.sms[sm]->windows[0] == expected);
    CHECK(bench.sms[sm]->barrier.at(0) == 1024);
  }
  bench.check_over();
}

TEST_CASE("an error reaches no receiver, and only the one that asked hears of it", "[tmau][TMA-06][TMA-31]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(2, stages(), mode);
  bench.memory.error = [](std::uint64_t line) { return line == 0x1080; };
  BulkRequest request = block_load(0x1000, 32, 512, 16);
  request.multicast = 0b11;
  const std::uint32_t id = bench.ask(0, request, 0);
  bench.run();
  CHECK(bench.done(id).packet.kind == DoneKind::failed);
  CHECK(bench.done(id).packet.address == 0x1080);
  CHECK(bench.sms[0]->barrier.at(16) == 384);
  CHECK(bench.sms[1]->barrier.at(16) == 384);
  CHECK(bench.sms[1]->done.empty());
  bench.check_over();
}

TEST_CASE("a drain waits for acknowledgements, and a second one for the first", "[tmau][TMA-31][TMA-41]") {
  TmauBench bench(2, stages(), TimingMode::at, 1 << 20, 0, 500);
  BulkRequest request = block_load(0x1000, 8, 512, 16);
  request.multicast = 0b10;
  const std::uint32_t load = bench.ask(0, request, 0);
  const std::uint32_t drain = bench.ask(0, of_kind(BulkKind::drain), 0);
  const std::uint32_t next = bench.ask(0, request, 0);
  const std::uint32_t second = bench.ask(0, of_kind(BulkKind::drain), 0);
  const std::uint32_t other = bench.ask(0, of_kind(BulkKind::drain), 1);
  bench.run();
  CHECK(bench.cycle_of(load) > 600);
  CHECK(bench.cycle_of(drain) == bench.cycle_of(load));
  CHECK(bench.cycle_of(second) == bench.cycle_of(next));
  CHECK(bench.cycle_of(other) < 10);  // what others send to the SM is not its own
  bench.check_over();
}

TEST_CASE("a unit is not quiet before all is acknowledged", "[tmau][TMA-31]") {
  TmauBench bench(2, stages(), TimingMode::at, 1 << 20, 0, 5000);
  BulkRequest request = block_load(0x1000, 8, 512, 16);
  request.multicast = 0b10;
  bench.memory.latency = [](std::uint64_t) { return Cycle{1000}; };
  (void)bench.ask(0, request, 0);
  bench.run(500);
  CHECK_FALSE(bench.units[0]->quiescent());
  CHECK(bench.units[1]->quiescent());
  // The data have arrived, and the acknowledgement is on its way; then the SM is told.
  const Cycle delivered = 3 + 17 + 1000 + 23;
  bench.run(delivered + 100);
  CHECK(bench.sms[1]->data.size() == 1);
  CHECK_FALSE(bench.units[0]->quiescent());
  bench.run(delivered + 5000);
  CHECK_FALSE(bench.units[0]->quiescent());
  bench.run();
  CHECK(bench.domain.now() == delivered + 5000 + 1);
  bench.check_over();
}

TEST_CASE("units multicast to each other at the same time", "[tmau][TMA-30][TMA-31]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauBench bench(4, stages(2), mode);
  bench.fill_memory(5);
  for (std::uint32_t sm = 0; sm < 4; ++sm) {
    for (std::uint32_t i = 0; i < 4; ++i) {
      BulkRequest request = block_load(0x1000 * (4 * sm + i), 32, 4096 * sm + 512 * i, 8 * sm);
      request.multicast = 0b1111;
      (void)bench.ask(0, request, sm);
    }
  }
  bench.run();
  for (std::uint32_t sm = 0; sm < 4; ++sm) {
    for (std::uint32_t i = 0; i < 16; ++i) {
      const auto from = bench.memory.bytes.begin() + 0x1000 * i;
      CHECK(std::equal(from, from + 512, bench.sms[sm]->windows[0].begin() + 4096 * (i / 4) + 512 * (i % 4)));
    }
    for (std::uint32_t barrier = 0; barrier < 4; ++barrier) CHECK(bench.sms[sm]->barrier.at(8 * barrier) == 2048);
  }
  CHECK(bench.memory.seen.size() == 64);
  bench.check_over();
}

}  // namespace tmau_multicast_test

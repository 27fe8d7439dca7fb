// One request of memory, several receivers (TMA-30, TMA-31).
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

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

// Without payloads, many at once.
TEST_CASE("lines that calls read come when their payloads would", "[tmau][TMA-13][TMA-15][TMA-30][TMA-31]") {
  const auto mode = GENERATE(TimingMode::fast, TimingMode::lt);
  const std::uint32_t per_unit = GENERATE(1U, 2U);
  const std::uint16_t mask = GENERATE(std::uint16_t{0}, std::uint16_t{0b0110}, std::uint16_t{0b1111});
  const auto tracking = GENERATE(tmau::Tracking::carried, tmau::Tracking::table);
  CAPTURE(static_cast<int>(mode), per_unit, mask);
  TmauParams params = stages(per_unit);
  params.tracking = tracking;
  params.rate = params.block_rate = 0.75;
  params.outstanding = 20;
  struct Result {
    std::vector<std::vector<Bytes>> windows;
    std::vector<std::vector<std::tuple<Cycle, std::uint32_t, std::uint32_t>>> data;
    std::vector<std::map<std::uint32_t, std::uint64_t>> barriers;
    std::vector<Cycle> ends;
    std::vector<std::uint64_t> stats;
    std::uint64_t lots = 0;
    bool operator==(const Result& other) const {
      return windows == other.windows && data == other.data && barriers == other.barriers && ends == other.ends &&
             stats == other.stats;
    }
  };
  const auto run = [&](bool lines) {
    TmauBench bench(4, params, mode);
    bench.fill_memory(2);
    bench.memory.gives_lines = lines;
    bench.memory.latency = [](std::uint64_t address) { return address / 128 % 3 * 77 + 60; };
    // Rows that begin in mid-line, and rows and columns outside.
    bench.put_descriptor(kDescriptor, matrix_at(0x1010, 60, 40, 48, 12));
    std::vector<std::uint32_t> ids;
    for (std::uint32_t i = 0; i < 6; ++i) {
      BulkRequest request = tensor(
          BulkKind::load, kDescriptor,
          {static_cast<std::int32_t>(i) * 16 - 8, static_cast<std::int32_t>(i) * 9 - 4, 0, 0, 0}, 1024 + 4096 * i);
      if (i % 3 == 2) request = block_load(0x4000 + 0x70 * i, 50, 1024 + 4096 * i, 8);
      request.multicast = mask;
      ids.push_back(bench.ask(30 * i, request, i % 2));
    }
    bench.run();
    bench.check_over();
    Result result;
    for (auto& sm : bench.sms) {
      result.windows.push_back(sm->windows);
      result.barriers.push_back(sm->barrier);
      auto& data = result.data.emplace_back();
      for (const TmauSm::Data& one : sm->data) data.emplace_back(one.cycle, one.shared, one.bytes);
      std::sort(data.begin(), data.end());
      result.lots += sm->lots;
    }
    for (const std::uint32_t id : ids) {
      CHECK(bench.done(id).packet.kind == DoneKind::complete);
      result.ends.push_back(bench.cycle_of(id));
    }
    for (std::uint32_t unit = 0; unit < bench.units.size(); ++unit) {
      for (const char* stat : {"lines", "bytes_in", "delivered", "fills", "multicast.sent", "multicast.saved",
                               "multicast.received", "multicast.acknowledged", "wait.outstanding"}) {
        result.stats.push_back(bench.stat(stat, unit));
      }
    }
    return result;
  };
  const Result with = run(false);
  const Result without = run(true);
  CHECK(without == with);
  CHECK(without.lots > 0);
  std::size_t pieces = 0;
  for (const auto& data : without.data) pieces += data.size();
  CHECK(without.lots < pieces / 2);
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

// The unit: SMs that share it, drains, forgotten descriptors, resets, and what is seen of it.
#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_share_test {

using namespace heddle;
using namespace heddle::test;

TEST_CASE("a unit that one SM floods still serves the other", "[tmau][TMA-43]") {
  const bool tensors = GENERATE(false, true);
  TmauParams params = stage_costs();
  params.sms = 2;
  TmauBench bench(2, params);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 50));
  for (std::uint32_t i = 0; i < 12; ++i) {
    (void)bench.ask(0, tensors ? tensor(BulkKind::load, kDescriptor, {0, 0}) : block_load(0, 1600, 0), 0);
  }
  bench.run(500);
  const std::uint32_t other = bench.ask(500, block_load(0x100, 8, 0), 1);
  bench.run();
  // One line: a turn of the other one at most, and its own way.
  const Cycle alone = 3 + 17 + 100 + 23 + 1;
  CHECK(bench.cycle_of(other) <= bench.sms[1]->sent.at(0) + alone + 16);
  bench.check_over();
}

TEST_CASE("a unit without places, as one SM holds them all, serves the other as places come back", "[tmau][TMA-43]") {
  const auto tracking = GENERATE(tmau::Tracking::carried, tmau::Tracking::table);
  TmauParams params = stage_costs();
  params.sms = 2;
  params.tracking = tracking;
  params.outstanding = tracking == tmau::Tracking::carried ? 24 : 256;
  params.table = tracking == tmau::Tracking::table ? 24 : 256;
  constexpr Cycle kLatency = 600;
  TmauBench bench(2, params);
  bench.memory.latency = [](std::uint64_t) { return kLatency; };
  for (std::uint32_t i = 0; i < 12; ++i) (void)bench.ask(0, block_load(0, 1600, 0), 0);
  bench.run(2000);
  const std::uint32_t other = bench.ask(2000, block_load(0x100, 8, 0), 1);
  bench.run();
  CHECK(bench.memory.most_open == 24);
  CHECK(bench.stat("wait.outstanding") > 10'000);
  // All 24 places come back within a latency; one of the first sixteen of them is the other's.
  const Cycle alone = 3 + 17 + kLatency + 23 + 1;
  CHECK(bench.cycle_of(other) <= bench.sms[1]->sent.at(0) + alone + kLatency);
  CHECK(bench.cycle_of(other) > bench.sms[1]->sent.at(0) + alone);
  bench.check_over();
}

TEST_CASE("two SMs that both flood a unit get the same", "[tmau][TMA-43]") {
  TmauParams params = stage_costs();
  params.sms = 2;
  TmauBench bench(2, params);
  for (std::uint32_t sm = 0; sm < 2; ++sm) {
    // The same lines in requests of different size.
    for (std::uint32_t i = 0; i < (sm == 0 ? 2 : 16); ++i)
      (void)bench.ask(0, block_load(0, sm == 0 ? 1600 : 200, 0), sm);
  }
  bench.run(3 + 17 + 300);
  std::array<std::uint32_t, 2> lines{};
  for (const auto& seen : bench.memory.seen) ++lines[seen.sm];
  CHECK(lines[0] + lines[1] >= 295);
  CHECK(std::max(lines[0], lines[1]) - std::min(lines[0], lines[1]) <= 16);
  bench.run();
  bench.check_over();
}

TEST_CASE("a port without room does not stop the other SM of the unit", "[tmau][TMA-43]") {
  TmauParams params = stage_costs();
  params.sms = 2;
  params.outstanding = 64;  // if all of them went to the port that is held, the other SM would get none
  const bool stores = GENERATE(false, true);
  TmauBench bench(2, params);
  bool first = true;
  bench.memory.latency = [](std::uint64_t address) { return address == 0 ? Cycle{5000} : Cycle{100}; };
  bench.memory.hold = [&first] { return std::exchange(first, false) ? Cycle{5000} : Cycle{0}; };
  const std::uint32_t stuck = bench.ask(0, stores ? block_store(0, 0, 2048) : block_load(0, 2048, 0), 0);
  const std::uint32_t other = bench.ask(100, block_load(0x1000, 64, 0), 1);
  bench.run();
  CHECK(bench.cycle_of(other) == 100 + 3 + 17 + 7 + 100 + 23 + 1);
  CHECK(bench.cycle_of(stuck) > 5000);
  bench.check_over();
}

TEST_CASE("a drain waits for all requests of its SM before it, and for no other", "[tmau][TMA-31][TMA-41]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  TmauParams params = stage_costs();
  params.sms = 2;
  params.order = tmau::QueueOrder::smallest_first;  // it does not overtake
  TmauBench bench(2, params, mode);
  bench.memory.latency = [](std::uint64_t address) { return address == 0 ? Cycle{2000} : Cycle{100}; };
  const std::uint32_t slow = bench.ask(0, block_load(0, 8, 0), 0);
  const std::uint32_t quick = bench.ask(0, block_load(0x1000, 80, 4096), 0);
  const std::uint32_t drain = bench.ask(1, of_kind(BulkKind::drain), 0);
  const std::uint32_t elsewhere = bench.ask(1, of_kind(BulkKind::drain), 1);
  const std::uint32_t later = bench.ask(2, block_load(0x2000, 8, 8192), 0);
  const std::uint32_t second = bench.ask(3, of_kind(BulkKind::drain), 0);
  const std::uint32_t last = bench.ask(4, block_load(0x2000, 8, 8192), 0);
  bench.run();
  CHECK(bench.cycle_of(drain) == bench.cycle_of(slow));
  CHECK(bench.cycle_of(drain) > bench.cycle_of(quick));
  CHECK(bench.cycle_of(elsewhere) < 10);
  CHECK(bench.cycle_of(later) < bench.cycle_of(drain));
  // The second drain has the other phase, and has to wait for the first one.
  CHECK(bench.cycle_of(second) >= bench.cycle_of(drain));
  // Answers to calls are known when requests are made: nothing is held back.
  if (mode == TimingMode::at) CHECK(bench.cycle_of(last) > bench.cycle_of(drain));
  bench.check_over();
}

TEST_CASE("what a drain waits for can be read", "[tmau][TMA-41]") {
  TmauBench bench(1, stage_costs());
  bench.memory.latency = [](std::uint64_t) { return Cycle{2000}; };
  (void)bench.ask(0, block_load(0, 8, 0));
  (void)bench.ask(0, of_kind(BulkKind::drain));
  (void)bench.ask(0, of_kind(BulkKind::drain));
  bench.run(500);
  WaitGraph graph;
  bench.domain.collect_waits(graph);
  std::string text;
  for (const std::string& line : graph.chain()) text += line + "\n";
  CHECK(text.find("drain of SM 0") != std::string::npos);
  CHECK(text.find("load of SM 0, CTA 7, warp 3") != std::string::npos);
  CHECK(text.find("1 answers of") != std::string::npos);
  bench.run();
  bench.check_over();
}

TEST_CASE("a forgotten descriptor is fetched again", "[tmau][TMA-04]") {
  TmauBench bench(1, stage_costs());
  bench.fill_memory(9);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run();
  bench.put_descriptor(kDescriptor, matrix_at(0x2000, 64, 64, 4, 1));
  (void)bench.ask(2000, tensor(BulkKind::load, kDescriptor, {0, 0}, 128));
  bench.run();
  CHECK(window_at(bench, 0, 128, 16) == bytes_at(bench, 0x1000, 16));  // as cached
  BulkRequest forget = of_kind(BulkKind::forget);
  forget.descriptor = GENERATE(as<std::uint64_t>{}, kDescriptor, 0);
  const std::uint32_t id = bench.ask(4000, forget);
  (void)bench.ask(4000, tensor(BulkKind::load, kDescriptor, {0, 0}, 256));
  bench.run();
  CHECK(bench.cycle_of(id) == 4000 + 3 + 1);
  CHECK(window_at(bench, 0, 256, 16) == bytes_at(bench, 0x2000, 16));
  CHECK(bench.stat("descriptor.misses") == 2);
  bench.check_over();
}

TEST_CASE("a descriptor that is forgotten while it is fetched is fetched again for the next", "[tmau][TMA-04]") {
  TmauBench bench(1, stage_costs());
  bench.fill_memory(9);
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 4, 1));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 0}));
  bench.run(50);  // it is on its way
  BulkRequest forget = of_kind(BulkKind::forget);
  forget.descriptor = kDescriptor;
  (void)bench.ask(50, forget);
  (void)bench.ask(50, tensor(BulkKind::load, kDescriptor, {0, 0}, 16));
  bench.run(150);
  bench.put_descriptor(kDescriptor, matrix_at(0x2000, 64, 64, 4, 1));
  bench.run();
  CHECK(bench.stat("descriptor.misses") == 2);
  CHECK(bench.stat("descriptor.hits") == 0);
  bench.check_over();
}

TEST_CASE("a reset in mid-flight leaves a unit that works", "[tmau][TMA-31]") {
  const auto mode = GENERATE(TimingMode::at, TimingMode::fast, TimingMode::lt);
  const auto tracking = GENERATE(tmau::Tracking::carried, tmau::Tracking::table);
  const double rate = GENERATE(1.0, 0.3);
  CAPTURE(rate);
  for (const Cycle when : {1, 10, 30, 60, 110, 130, 200, 300}) {
    CAPTURE(when);
    TmauParams params = stage_costs();
    params.outstanding = 6;
    params.tracking = tracking;
    params.table = 5;
    plain_costs(params, rate);
    TmauBench bench(2, params, mode);
    bench.fill_memory(9);
    bench.put_descriptor(kDescriptor, matrix_at(0x1000, 64, 64, 32, 20));
    const auto ask_all = [&](Cycle cycle) {
      BulkRequest multicast = tensor(BulkKind::load, kDescriptor, {0, 55}, 4096);
      multicast.multicast = 3;
      (void)bench.ask(cycle, multicast, 0);
      (void)bench.ask(cycle, tensor(BulkKind::load, kDescriptor, {8, 4}), 1);
      (void)bench.ask(cycle, block_store(0, 0x20000, 100), 0);
      (void)bench.ask(cycle, of_kind(BulkKind::drain), 0);
      (void)bench.ask(cycle, of_kind(BulkKind::drain), 0);
      (void)bench.ask(cycle, block_load(0, 100, 0), 1);
    };
    ask_all(0);
    bench.run(when);
    bench.domain.reset();
    bench.forget_asked();
    for (auto& unit : bench.units) CHECK(unit->quiescent());
    ask_all(20);
    bench.run();
    bench.check_over();
    CHECK(bench.memory.most_open <= (tracking == tmau::Tracking::table ? 2 * 5 : 2 * 6) + 2);
    CHECK(window_at(bench, 1, 0, 1600) == bytes_at(bench, 0, 1600));
  }
}

TEST_CASE("each request is a slice of the timeline", "[tmau]") {
  struct Sink final : TimelineSink {
    TrackId track(const std::string& group, const std::string& line) override {
      names.push_back(group + "/" + line);
      return {1, static_cast<std::uint32_t>(names.size())};
    }
    void slice(TrackId on, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs args) override {
      if (begin < last[on.line]) {  // a part of the request's life
        CHECK(end <= last[on.line]);
        CHECK(args.size() == 0);
        return;
      }
      last[on.line] = end;
      slices.emplace_back(name);
      for (const auto& [key, value] : args) total[std::string(key)] += value;
    }
    void counter(TrackId, Picoseconds, std::string_view, double) override {}
    std::vector<std::string> names;
    std::vector<std::string> slices;
    std::map<std::uint32_t, Picoseconds> last;
    std::map<std::string, std::int64_t> total;
  };
  TmauBench bench(1, stage_costs());
  Sink sink;
  bench.observation.timeline = &sink;
  for (std::uint32_t i = 0; i < 6; ++i) (void)bench.ask(20 * i, block_load(0, 16, 0));
  (void)bench.ask(50, block_store(0, 0x1000, 8));
  // Ten rows of 16 bytes in three lines: the bytes of all pieces count.
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 8, 64, 4, 10));
  (void)bench.ask(60, tensor(BulkKind::prefetch, kDescriptor, {0, 2}));
  bench.run();
  CHECK(sink.slices.size() == 8);
  CHECK(std::count(sink.slices.begin(), sink.slices.end(), "store") == 1);
  CHECK(sink.total["bytes"] == 6 * 256 + 128 + 160);
  CHECK(sink.total["lines"] == 13 + 3);
  CHECK(sink.names.front() == "gpu0 gpc0.tmau0/request  0");
}

}  // namespace tmau_share_test

// What is seen of requests: their life on the timeline, and what they moved, by tensor.
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tmau/tmau.h"
#include "tmau/tmau_bench.h"

namespace tmau_visibility_test {

using namespace heddle;
using namespace heddle::test;

namespace {

struct Slice {
  std::string name;
  Picoseconds begin = 0;
  Picoseconds end = 0;
  std::map<std::string, std::int64_t> args;
};

struct Sink final : TimelineSink {
  TrackId track(const std::string& /*group*/, const std::string& /*line*/) override { return {1, ++tracks}; }
  void slice(TrackId, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs args) override {
    Slice one{std::string(name), begin, end, {}};
    for (const auto& [key, value] : args) one.args[std::string(key)] = value;
    slices.push_back(one);
  }
  void counter(TrackId, Picoseconds, std::string_view, double) override {}
  const Slice& the(const std::string& name) const {
    const Slice* found = nullptr;
    for (const Slice& one : slices) {
      if (one.name != name) continue;
      REQUIRE(found == nullptr);
      found = &one;
    }
    CAPTURE(name);
    REQUIRE(found != nullptr);
    return *found;
  }
  bool has(const std::string& name) const {
    return std::any_of(slices.begin(), slices.end(), [&](const Slice& one) { return one.name == name; });
  }
  std::uint32_t tracks = 0;
  std::vector<Slice> slices;
};

// The bench's clock has 1 GHz.
std::uint64_t cycle(Picoseconds when) { return static_cast<std::uint64_t>(when) / 1000; }

const BulkMap::Row& row_of(const TmauBench& bench, BulkKind kind) {
  const auto& rows = bench.observation.bulk.rows();
  const auto found = std::find_if(rows.begin(), rows.end(), [=](const auto& row) { return row.sum.kind == kind; });
  REQUIRE(found != rows.end());
  return *found;
}

}  // namespace

TEST_CASE("the timeline has the life of a request within its slice", "[tmau][TMA-03]") {
  TmauBench bench(1, stage_costs());
  Sink sink;
  bench.observation.timeline = &sink;
  // Eight rows in lines of their own; the descriptor takes 100 cycles of memory, each line as well.
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 32, 64, 8, 8));
  const std::uint32_t id = bench.ask(10, tensor(BulkKind::load, kDescriptor, {4, 2}, 128));
  bench.run();
  const Slice& whole = sink.the("load");
  CHECK(cycle(whole.begin) == 10 + 3);
  CHECK(cycle(whole.end) + 1 == bench.cycle_of(id));  // the SM hears of it a cycle later
  CHECK(whole.args.at("descriptor") == kDescriptor);
  CHECK(whole.args.at("at0") == 4);
  CHECK(whole.args.at("at1") == 2);
  const std::uint64_t described = 13 + 5 + 100;
  CHECK_FALSE(sink.has("queue"));  // it left at once
  CHECK(cycle(sink.the("descriptor").begin) == 13);
  CHECK(cycle(sink.the("descriptor").end) == described);
  CHECK(cycle(sink.the("set-up").begin) == described);
  CHECK(cycle(sink.the("set-up").end) == described + 11);
  const std::uint64_t first = described + 11 + 17;
  CHECK(cycle(sink.the("lines").begin) == first);
  CHECK(cycle(sink.the("lines").end) == first + 8);  // a line per cycle
  CHECK(cycle(sink.the("last answers").begin) == first + 8);
  CHECK(sink.the("last answers").end == whole.end);
  CHECK(cycle(whole.end) == first + 7 + 100 + 23);
}

TEST_CASE("what a request did not come to is no part of its life", "[tmau][TMA-06]") {
  TmauBench bench(1, stage_costs());
  Sink sink;
  bench.observation.timeline = &sink;
  (void)bench.ask(0, block_load(0, 8, 0));    // without descriptor and set-up
  (void)bench.ask(500, block_load(8, 8, 0));  // an address that breaks a rule
  bench.run();
  CHECK_FALSE(sink.has("descriptor"));
  CHECK_FALSE(sink.has("set-up"));
  CHECK(cycle(sink.the("lines").end) == 3 + 17 + 1);
}

TEST_CASE("a request that waits for its turn says so", "[tmau][TMA-03]") {
  TmauParams params = stage_costs();
  params.stages = params.ahead = 1;
  TmauBench bench(1, params);
  Sink sink;
  bench.observation.timeline = &sink;
  (void)bench.ask(0, block_load(0, 64, 0));
  (void)bench.ask(0, block_load(0, 8, 0));
  bench.run();
  // The second leaves the queue when the first has made its eight lines.
  CHECK(cycle(sink.the("queue").end) == 3 + 17 + 7);
}

TEST_CASE("memory fetches whole sectors, and a box may use less of them", "[tmau][TMA-15][TMA-42]") {
  TmauParams params = stage_costs();
  const bool lines = GENERATE(false, true);
  params.prefetch = lines ? tmau::PrefetchUnit::line : tmau::PrefetchUnit::sector;
  TmauBench bench(1, params);
  // Eight rows of 16 bytes, 128 bytes apart, of which the last two are outside the tensor.
  bench.put_descriptor(kDescriptor, matrix_at(0x1000, 32, 64, 4, 8));
  (void)bench.ask(0, tensor(BulkKind::load, kDescriptor, {0, 58}, 128));
  (void)bench.ask(2000, tensor(BulkKind::prefetch, kDescriptor, {0, 0}));
  (void)bench.ask(4000, tensor(BulkKind::store, kDescriptor, {0, 0}, 128));
  bench.run();
  const BulkMap::Row& load = row_of(bench, BulkKind::load);
  CHECK(load.sum.address == kDescriptor);
  CHECK(load.sum.source == BulkMap::Source::descriptor);
  CHECK(load.sum.bytes == 8 * 16);
  CHECK(load.sum.fetched == 6 * 32);
  CHECK(load.sum.used == 6 * 16);
  CHECK(load.sum.described_for == 5 + 100);
  const BulkMap::Row& prefetch = row_of(bench, BulkKind::prefetch);
  CHECK(prefetch.sum.fetched == 8 * (lines ? 128 : 32));
  CHECK(prefetch.sum.used == 8 * 16);
  CHECK(prefetch.sum.described_for == 5);
  const BulkMap::Row& store = row_of(bench, BulkKind::store);
  CHECK(store.sum.fetched == 0);
  CHECK(store.sum.bytes == 8 * 16);
}

TEST_CASE("blocks, carried parameters and errors are told apart", "[tmau][TMA-06][TMA-44]") {
  TmauBench bench(1, stage_costs());
  const arch::TensorDescriptor matrix = matrix_at(0x1000, 32, 64, 8, 8);
  bench.put_descriptor(kDescriptor, matrix);
  (void)bench.ask(0, block_load(0, 4, 0));
  BulkRequest carried = tensor(BulkKind::load, 0, {0, 0}, 128);
  carried.parameters = std::make_shared<const arch::TensorDescriptor>(matrix);
  (void)bench.ask(1000, carried);
  (void)bench.ask(2000, tensor(BulkKind::load, kDescriptor, {0, 0}, 16));  // off 128 bytes
  (void)bench.ask(3000, of_kind(BulkKind::drain));
  bench.run();
  const auto& rows = bench.observation.bulk.rows();
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].sum.source == BulkMap::Source::block);
  CHECK(rows[0].sum.bytes == 64);
  CHECK(rows[0].wrong == 0);
  CHECK(rows[1].sum.source == BulkMap::Source::carried);
  CHECK(rows[1].sum.address == 0x1000);
  CHECK(rows[2].sum.source == BulkMap::Source::descriptor);
  CHECK(rows[2].wrong == 1);
  CHECK(rows[2].sum.bytes == 0);
}

}  // namespace tmau_visibility_test

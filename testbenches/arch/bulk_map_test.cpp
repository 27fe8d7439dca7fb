// What requests to tensor memory access units have moved, by kind and by tensor.
#include "arch/bulk_map.h"

#include <catch2/catch.hpp>

namespace arch_bulk_map_test {

using heddle::BulkMap;
using heddle::CheckFailed;
using heddle::Stats;
using heddle::arch::BulkKind;

namespace {

BulkMap::Request load_of(std::uint64_t descriptor, std::uint64_t cycles) {
  BulkMap::Request request;
  request.source = BulkMap::Source::descriptor;
  request.address = descriptor;
  request.bytes = 256;
  request.fetched = 512;
  request.used = 200;
  request.lines = 4;
  request.cycles = cycles;
  request.described_for = 7;
  return request;
}

}  // namespace

TEST_CASE("requests of one tensor and kind are one row", "[arch][TMA-01]") {
  Stats stats;
  BulkMap map(stats, "gpu0");
  map.add(load_of(0x1000, 100));
  map.add(load_of(0x1000, 300));
  REQUIRE(map.rows().size() == 1);
  const BulkMap::Row& row = map.rows()[0];
  CHECK(row.requests == 2);
  CHECK(row.wrong == 0);
  CHECK(row.longest == 300);
  CHECK(row.sum.bytes == 512);
  CHECK(row.sum.fetched == 1024);
  CHECK(row.sum.used == 400);
  CHECK(row.sum.lines == 8);
  CHECK(row.sum.cycles == 400);
  CHECK(row.sum.described_for == 14);
  CHECK(stats.value("gpu0.bulk.load.bytes") == 512);
  CHECK(stats.value("gpu0.bulk.load.fetched") == 1024);
  CHECK(stats.value("gpu0.bulk.load.used") == 400);
  CHECK(stats.value("gpu0.bulk.load.cycles.mean") == 200);
  CHECK(stats.value("gpu0.bulk.store.bytes") == 0);
}

TEST_CASE("kind, source, address and subcontext make a row each", "[arch][TMA-01]") {
  Stats stats;
  BulkMap map(stats, "gpu0");
  const BulkMap::Request first = load_of(0x1000, 100);
  map.add(first);
  for (int what = 0; what < 4; ++what) {
    BulkMap::Request other = first;
    if (what == 0) other.kind = BulkKind::store;
    if (what == 1) other.source = BulkMap::Source::carried;
    if (what == 2) other.address = 0x1080;
    if (what == 3) other.subcontext = 3;
    map.add(other);
  }
  REQUIRE(map.rows().size() == 5);
  for (const BulkMap::Row& row : map.rows()) CHECK(row.requests == 1);
  CHECK(map.rows()[1].sum.kind == BulkKind::store);
  CHECK(map.rows()[2].sum.source == BulkMap::Source::carried);
  CHECK(map.rows()[3].sum.address == 0x1080);
  CHECK(map.rows()[4].sum.subcontext == 3);
  map.clear();
  CHECK(map.rows().empty());
  map.add(first);
  CHECK(map.rows().size() == 1);
}

TEST_CASE("requests that went wrong count, and their time does not", "[arch][TMA-06]") {
  Stats stats;
  BulkMap map(stats, "gpu0");
  BulkMap::Request wrong = load_of(0x1000, 5000);
  wrong.went_wrong = true;
  map.add(wrong);
  map.add(load_of(0x1000, 100));
  REQUIRE(map.rows().size() == 1);
  CHECK(map.rows()[0].requests == 2);
  CHECK(map.rows()[0].wrong == 1);
  CHECK(map.rows()[0].longest == 100);
  CHECK(map.rows()[0].sum.cycles == 100);
  CHECK(stats.value("gpu0.bulk.load.cycles.count") == 1);
  wrong.kind = BulkKind::drain;
  CHECK_THROWS_AS(map.add(wrong), CheckFailed);
}

}  // namespace arch_bulk_map_test

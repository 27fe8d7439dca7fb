// The L1: replacement against a list, and what stores, invalidations and failures do to lines and reads under way.
#include "sm/l1_cache.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace sm_l1_cache_test {

using heddle::CheckFailed;
using heddle::sm::L1Cache;
using heddle::test::Random;

namespace {

constexpr std::uint32_t kLine = 128;
using LineBytes = std::array<std::uint8_t, kLine>;

const auto kIgnore = [](std::uint32_t, std::uint8_t) {};

LineBytes filled(std::uint8_t value) {
  LineBytes bytes;
  bytes.fill(value);
  return bytes;
}

// Loads and, if something is missing, fills at once. Returns the sectors that were hit.
std::uint8_t touch(L1Cache& cache, std::uint64_t line, std::uint8_t sectors, std::uint8_t value = 1) {
  const L1Cache::Load load = cache.load(line, sectors, 0);
  REQUIRE(load.accepted);
  if (load.missing != 0) cache.fill(load.entry, filled(value).data(), 0, kIgnore);
  return load.hit;
}

// A set as a list, most recent first.
struct ReferenceCache {
  std::uint32_t sets;
  std::uint32_t ways;
  std::map<std::uint64_t, std::list<std::pair<std::uint64_t, std::uint8_t>>> set;

  std::uint8_t touch(std::uint64_t line, std::uint8_t sectors) {
    auto& lines = set[line / kLine % sets];
    const auto known = std::find_if(lines.begin(), lines.end(), [=](const auto& each) { return each.first == line; });
    std::uint8_t hit = 0;
    std::uint8_t there = 0;
    if (known != lines.end()) {
      there = known->second;
      hit = there & sectors;
      lines.erase(known);
    }
    lines.emplace_front(line, there | sectors);
    if (lines.size() > ways) lines.pop_back();
    return hit;
  }
};

}  // namespace

TEST_CASE("the least recently used line of a set goes, sector by sector", "[sm]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ways = random.between(1, 5);
    const std::uint32_t sets = random.between(1, 5);
    L1Cache cache(ways, 4);
    cache.resize(sets * ways * kLine + random.below(ways * kLine));  // rounded down
    REQUIRE(cache.capacity() == sets * ways * kLine);
    ReferenceCache reference{sets, ways, {}};
    bool right = true;
    for (int step = 0; step < 500; ++step) {
      const std::uint64_t line = std::uint64_t{random.below(40)} * kLine + (random.chance(10) ? 1ULL << 45 : 0);
      const auto sectors = static_cast<std::uint8_t>(random.between(1, 15));
      right = right && touch(cache, line, sectors) == reference.touch(line, sectors);
    }
    CHECK(right);
  }
}

TEST_CASE("a load behind a store does not share the read before it", "[sm][MEM-06]") {
  L1Cache cache(2, 4);
  cache.resize(4 * kLine);
  const L1Cache::Load before = cache.load(0, 3, 10);
  CHECK(before.missing == 3);
  CHECK(cache.load(0, 1, 11).merged == 1);
  const std::array<std::uint8_t, 4> value{9, 9, 9, 9};
  CHECK(cache.store(0, 4, value.data(), nullptr, 4) == 0);
  const L1Cache::Load behind = cache.load(0, 3, 12);
  CHECK(behind.merged == 2);
  CHECK(behind.missing == 1);
  std::vector<std::pair<std::uint32_t, int>> served;
  const auto note = [&served](std::uint32_t waiter, std::uint8_t sectors) { served.emplace_back(waiter, sectors); };
  cache.fill(before.entry, filled(1).data(), 0, note);
  CHECK(served == std::vector<std::pair<std::uint32_t, int>>{{10, 3}, {11, 1}, {12, 2}});
  CHECK(cache.present(0) == 2);
  served.clear();
  cache.fill(behind.entry, filled(2).data(), 0, note);
  CHECK(served == std::vector<std::pair<std::uint32_t, int>>{{12, 1}});
  CHECK(cache.present(0) == 3);
  CHECK(cache.reads() == 0);
}

TEST_CASE("an invalidation keeps reads under way from being kept or shared", "[sm][MEM-06]") {
  L1Cache cache(2, 4);
  cache.resize(4 * kLine);
  touch(cache, 0, 15);
  const L1Cache::Load pending = cache.load(kLine, 1, 1);
  cache.invalidate_all();
  CHECK(cache.present(0) == 0);
  const L1Cache::Load anew = cache.load(kLine, 1, 2);
  CHECK(anew.missing == 1);
  std::vector<std::uint32_t> served;
  const auto note = [&served](std::uint32_t waiter, std::uint8_t) { served.push_back(waiter); };
  cache.fill(anew.entry, filled(2).data(), 0, note);  // answers may overtake each other
  cache.fill(pending.entry, filled(1).data(), 0, note);
  CHECK(served == std::vector<std::uint32_t>{2, 1});
  const L1Cache::Load load = cache.load(kLine, 1, 3);
  REQUIRE(load.hit == 1);
  CHECK(load.bytes[0] == 2);
}

TEST_CASE("a store updates the sectors that are here and brings none in", "[sm][MEM-06]") {
  L1Cache cache(2, 4);
  cache.resize(4 * kLine);
  touch(cache, 0, 0b0110, 5);
  LineBytes enables{};
  enables[40] = 0xFF;   // sector 1
  enables[127] = 0xFF;  // sector 3
  CHECK(cache.store(0, 0, filled(7).data(), enables.data(), kLine) == 0b0010);
  CHECK(cache.present(0) == 0b0110);
  const L1Cache::Load load = cache.load(0, 0b0110, 0);
  REQUIRE(load.hit == 0b0110);
  CHECK(int{load.bytes[39]} == 5);
  CHECK(int{load.bytes[40]} == 7);
  CHECK(int{load.bytes[41]} == 5);
  CHECK(cache.store(kLine, 0, filled(7).data(), nullptr, kLine) == 0);
  CHECK(cache.present(kLine) == 0);
  cache.forget(0, 0b0010);
  CHECK(cache.present(0) == 0b0100);
  CHECK_THROWS_AS(cache.store(0, 100, filled(1).data(), nullptr, 29), CheckFailed);
}

TEST_CASE("without a free entry a load is turned away, and leaves no trace", "[sm]") {
  L1Cache cache(2, 2);
  cache.resize(4 * kLine);
  const L1Cache::Load first = cache.load(0, 1, 1);
  cache.load(kLine, 1, 2);
  CHECK(cache.free_entries() == 0);
  CHECK_FALSE(cache.load(2 * kLine, 1, 3).accepted);
  CHECK_FALSE(cache.load(0, 3, 3).accepted);  // one sector could merge, the other has no entry
  CHECK(cache.load(0, 1, 4).merged == 1);     // a merge takes none
  std::vector<std::uint32_t> served;
  cache.fill(first.entry, filled(1).data(), 0, [&](std::uint32_t waiter, std::uint8_t) {
    served.push_back(waiter);
    // The owner may ask again at once.
    if (waiter == 1) CHECK(cache.load(2 * kLine, 1, 5).missing == 1);
  });
  CHECK(served == std::vector<std::uint32_t>{1, 4});
  CHECK(cache.free_entries() == 0);
}

TEST_CASE("a read that failed leaves nothing, and its entry cannot be answered twice", "[sm][MEM-05]") {
  L1Cache cache(2, 2);
  cache.resize(4 * kLine);
  const L1Cache::Load load = cache.load(0, 1, 1);
  CHECK(cache.line_of(load.entry) == 0);
  std::uint32_t served = 0;
  cache.fail(load.entry, [&](std::uint32_t, std::uint8_t) { ++served; });
  CHECK(served == 1);
  CHECK(cache.present(0) == 0);
  CHECK_THROWS_AS(cache.fail(load.entry, kIgnore), CheckFailed);
  CHECK_THROWS_AS(cache.fill(7, nullptr, 0, kIgnore), CheckFailed);
}

TEST_CASE("a resize drops the lines and lets reads under way arrive; a reset drops both", "[sm]") {
  L1Cache cache(2, 2);
  touch(cache, 0, 1);
  CHECK(cache.present(0) == 0);  // no bytes yet
  cache.resize(8 * kLine);
  touch(cache, 0, 1);
  const L1Cache::Load load = cache.load(kLine, 1, 1);
  cache.resize(4 * kLine);
  CHECK(cache.present(0) == 0);
  cache.fill(load.entry, filled(3).data(), 0, kIgnore);
  CHECK(cache.present(kLine) == 1);
  cache.resize(4 * kLine);  // no change
  CHECK(cache.present(kLine) == 1);
  cache.load(0, 1, 1);
  cache.reset();
  CHECK(cache.reads() == 0);
  CHECK(cache.present(kLine) == 0);
  CHECK(cache.load(0, 1, 1).missing == 1);
}

}  // namespace sm_l1_cache_test

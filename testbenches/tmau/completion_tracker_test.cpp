// Phases: what a drain waits for (TMA-31, TMA-41).
#include <algorithm>
#include <deque>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"
#include "tmau/bulk_intake.h"

namespace tmau_completion_tracker_test {

using namespace heddle;
using tmau::CompletionTracker;

TEST_CASE("a drain is over when all before it are, and not before", "[tmau][TMA-31][TMA-41]") {
  CompletionTracker tracker;
  const std::uint8_t first = tracker.begin();
  const std::uint8_t second = tracker.begin();
  CHECK(first == second);
  CHECK_FALSE(tracker.drain(10));
  CHECK(tracker.draining());
  const std::uint8_t later = tracker.begin();
  CHECK(later != first);
  CHECK_FALSE(tracker.end(later, 500));  // it came after the drain
  CHECK_FALSE(tracker.end(first, 90));
  CHECK(tracker.end(second, 70));
  CHECK_FALSE(tracker.draining());
  CHECK(tracker.drained() == 90);
}

TEST_CASE("a drain with nothing before it is over at once", "[tmau][TMA-41]") {
  CompletionTracker tracker;
  CHECK(tracker.drain(10));
  CHECK(tracker.drained() == 10);
  // What ended, but will have ended only later, still counts.
  CHECK_FALSE(tracker.end(tracker.begin(), 60));
  CHECK(tracker.drain(20));
  CHECK(tracker.drained() == 60);
  CHECK(tracker.drain(80));
  CHECK(tracker.drained() == 80);
}

TEST_CASE("one drain at a time, and no request ends twice", "[tmau][TMA-31]") {
  CompletionTracker tracker;
  const std::uint8_t phase = tracker.begin();
  CHECK_FALSE(tracker.drain(0));
  CHECK_THROWS_AS(tracker.drain(1), CheckFailed);
  CHECK(tracker.end(phase, 2));
  CHECK_THROWS_AS(tracker.end(phase, 3), CheckFailed);
  CHECK(tracker.open() == 0);
  CHECK_FALSE(tracker.drain(4) == false);
  tracker.reset();
  CHECK(tracker.phase() == 0);
}

TEST_CASE("drains see exactly what came before them", "[tmau][TMA-31][TMA-41]") {
  for (const std::uint64_t seed : test::seeds(30)) {
    CAPTURE(seed);
    test::Random random(seed);
    CompletionTracker tracker;
    struct Open {
      std::uint32_t number;
      std::uint8_t phase;
    };
    std::vector<Open> open;
    std::vector<Cycle> ended(1000, 0);  // by number
    std::uint32_t next = 0;
    std::uint32_t before = 0;  // requests in front of the drain under way
    Cycle now = 0;
    Cycle last_drain = 0;
    const auto check_over = [&](Cycle asked) {
      for (const Open& one : open) REQUIRE(one.number >= before);
      Cycle latest = std::max(last_drain, asked);
      for (std::uint32_t i = 0; i < before; ++i) latest = std::max(latest, ended[i]);
      REQUIRE(tracker.drained() == latest);
      last_drain = latest;
    };
    Cycle asked = 0;
    while (next < 1000) {
      ++now;
      if (random.chance(45)) {
        open.push_back({next++, tracker.begin()});
      } else if (random.chance(15) && !tracker.draining()) {
        before = next;
        asked = now;
        if (tracker.drain(now)) {
          check_over(asked);
        } else {
          REQUIRE_FALSE(open.empty());
        }
      } else if (!open.empty()) {
        const std::size_t which = random.below(open.size());
        const Open one = open[which];
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
        ended[one.number] = now + random.below(30);
        const bool over = std::none_of(open.begin(), open.end(), [&](const Open& o) { return o.number < before; });
        const bool was = tracker.draining();
        REQUIRE(tracker.end(one.phase, ended[one.number]) == (was && over));
        if (was && over) check_over(asked);
      }
    }
  }
}

}  // namespace tmau_completion_tracker_test

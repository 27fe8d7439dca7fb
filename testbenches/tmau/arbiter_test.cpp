// Turns, places and phases: the small cores of the unit.
#include <algorithm>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"
#include "tmau/bulk_generator.h"
#include "tmau/request_queue.h"

namespace tmau_arbiter_test {

using namespace heddle;
using tmau::Arbiter;
using tmau::PlaceLimit;

TEST_CASE("each SM has its turn", "[tmau][TMA-43]") {
  Arbiter arbiter(3);
  const auto all = [](std::uint32_t) { return true; };
  for (std::uint32_t i = 0; i < 9; ++i) {
    const std::uint32_t index = arbiter.pick(all).value();
    CHECK(index == i % 3);
    arbiter.served(index);
  }
  // One that wants nothing is passed over, and is next again afterwards.
  CHECK(arbiter.pick([](std::uint32_t index) { return index == 2; }) == 2);
  CHECK(arbiter.pick(all) == 0);
  arbiter.keep(1);
  CHECK(arbiter.pick(all) == 1);
  CHECK_FALSE(arbiter.pick([](std::uint32_t) { return false; }));
  arbiter.reset();
  CHECK(arbiter.pick(all) == 0);
}

TEST_CASE("nobody waits for more than one turn of each other SM", "[tmau][TMA-43]") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::uint32_t count = random.between(2, 8);
    Arbiter arbiter(count);
    std::vector<std::uint32_t> waited(count, 0);
    for (std::uint32_t step = 0; step < 1000; ++step) {
      std::vector<bool> wants(count);
      for (std::uint32_t i = 0; i < count; ++i) wants[i] = waited[i] > 0 || random.chance(30);
      const std::optional<std::uint32_t> picked = arbiter.pick([&](std::uint32_t i) { return wants[i]; });
      if (!picked) continue;
      const std::uint32_t index = *picked;
      REQUIRE(wants[index]);
      arbiter.served(index);
      for (std::uint32_t i = 0; i < count; ++i) waited[i] = wants[i] && i != index ? waited[i] + 1 : 0;
      REQUIRE(*std::max_element(waited.begin(), waited.end()) < count);
    }
  }
}

TEST_CASE("a place is free from the cycle on that was said", "[tmau][TMA-16]") {
  PlaceLimit limit(2);
  CHECK(limit.earliest(5) == 5);
  limit.take();
  limit.take();
  CHECK(limit.taken() == 2);
  CHECK(limit.earliest(5) == kNever);
  limit.give_back(30);
  limit.give_back(20);
  CHECK(limit.taken() == 0);
  CHECK(limit.earliest(5) == 20);
  CHECK(limit.earliest(25) == 25);
  limit.take();
  CHECK(limit.earliest(5) == 30);
  limit.take();
  CHECK_THROWS_AS(limit.take(), CheckFailed);
  limit.reset();
  CHECK(limit.earliest(0) == 0);
  CHECK_THROWS_AS(limit.give_back(1), CheckFailed);
}

TEST_CASE("places are never taken twice at a time", "[tmau][TMA-16]") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::uint32_t places = random.between(1, 9);
    PlaceLimit limit(places);
    std::vector<std::pair<Cycle, Cycle>> held;  // from, until
    std::vector<Cycle> open;                    // taken, and not given back
    Cycle now = 0;
    for (std::uint32_t step = 0; step < 2000; ++step) {
      now += random.below(3);
      if (!open.empty() && random.chance(50)) {
        const std::size_t which = random.below(open.size());
        const Cycle until = std::max(now, open[which]) + random.below(20);
        held.emplace_back(open[which], until);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
        limit.give_back(until);
        continue;
      }
      const Cycle when = limit.earliest(now);
      if (when == kNever) {
        REQUIRE(open.size() == places);
        continue;
      }
      limit.take();
      const auto busy = std::count_if(held.begin(), held.end(),
                                      [&](const auto& one) { return one.first <= when && when < one.second; }) +
                        std::count_if(open.begin(), open.end(), [&](Cycle from) { return from <= when; });
      REQUIRE(busy < places);
      open.push_back(when);
    }
  }
}

}  // namespace tmau_arbiter_test

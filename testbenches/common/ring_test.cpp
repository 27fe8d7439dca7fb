// The ring against a deque, through growth and wrap-around.
#include <deque>

#include <catch2/catch.hpp>

#include "common/index_pool.h"
#include "support/random.h"

namespace common_ring_test {

using heddle::Ring;
using namespace heddle::test;

TEST_CASE("a ring is a queue", "[common]") {
  for (const std::uint64_t seed : seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    Ring<std::uint32_t> ring;
    std::deque<std::uint32_t> reference;
    for (int i = 0; i < 300; ++i) {
      const std::uint32_t item = random.below(1000);
      switch (random.below(8)) {
        case 0:
        case 1:
        case 2:
          ring.push(item);
          reference.push_back(item);
          break;
        case 3: {  // in front of the larger ones at the end
          ring.insert(item, [](std::uint32_t there, std::uint32_t fresh) { return there > fresh; });
          auto place = reference.end();
          while (place != reference.begin() && *(place - 1) > item) --place;
          reference.insert(place, item);
          break;
        }
        case 4:
          if (random.chance(10)) {
            ring.clear();
            reference.clear();
          }
          break;
        default:
          if (reference.empty()) break;
          REQUIRE(ring.front() == reference.front());
          REQUIRE(ring.pop() == reference.front());
          reference.pop_front();
      }
      REQUIRE(ring.size() == reference.size());
      REQUIRE(ring.empty() == reference.empty());
      for (std::size_t place = 0; place < reference.size(); ++place) REQUIRE(ring.at(place) == reference[place]);
    }
  }
}

}  // namespace common_ring_test

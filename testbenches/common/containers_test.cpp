// Small containers of the facilities.
#include <deque>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "common/block.h"
#include "common/fifo.h"
#include "support/random.h"

namespace common_containers_test {

using namespace heddle;

TEST_CASE("a Fifo gives what a deque gives", "[fifo]") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    test::Random random(seed);
    Fifo<std::uint64_t> fifo;
    std::deque<std::uint64_t> wanted;
    const std::uint32_t pushes = random.between(20, 60);  // of a hundred: it fills, or stays short
    for (int step = 0; step < 2'000; ++step) {
      if (random.below(100) < pushes) {
        const std::uint64_t item = random.next();
        fifo.push_back(item);
        wanted.push_back(item);
      } else if (!wanted.empty()) {
        fifo.pop_front();
        wanted.pop_front();
      }
      if (random.below(500) == 0) {
        fifo.clear();
        wanted.clear();
      }
      REQUIRE(fifo.size() == wanted.size());
      REQUIRE(fifo.empty() == wanted.empty());
      REQUIRE(std::deque<std::uint64_t>(fifo.begin(), fifo.end()) == wanted);
      if (wanted.empty()) continue;
      REQUIRE(fifo.front() == wanted.front());
      const std::size_t place = random.below(wanted.size());
      REQUIRE(fifo[place] == wanted[place]);
    }
  }
}

TEST_CASE("a Fifo that never empties does not grow beyond what is in it", "[fifo]") {
  Fifo<std::unique_ptr<int>> fifo;
  for (int i = 0; i < 10; ++i) fifo.push_back(std::make_unique<int>(i));
  for (int i = 10; i < 100'000; ++i) {
    fifo.push_back(std::make_unique<int>(i));
    fifo.pop_front();
    REQUIRE(*fifo.front() == i - 9);
  }
  CHECK(fifo.size() == 10);
  CHECK(fifo.capacity() <= 64);
}

TEST_CASE("children go last first", "[block]") {
  struct Child {
    Child(std::vector<int>& its_log, int its_number) : log(its_log), number(its_number) {}
    ~Child() { log.push_back(number); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    std::vector<int>& log;
    int number;
  };
  std::vector<int> log;
  {
    Children<Child> children;
    for (int i = 0; i < 4; ++i) children.push_back(std::make_unique<Child>(log, i));
  }
  CHECK(log == std::vector<int>{3, 2, 1, 0});
}

}  // namespace common_containers_test

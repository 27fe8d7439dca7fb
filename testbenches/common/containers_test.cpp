// Small containers of the facilities.
#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "common/block.h"
#include "common/fifo.h"
#include "common/index_pool.h"
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

TEST_CASE("an IndexPool never gives a place twice, and gives back all before it grows", "[index_pool]") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    test::Random random(seed);
    IndexPool<std::uint64_t> pool;
    std::map<std::uint32_t, std::uint64_t> wanted;  // what the taken places hold
    const std::uint32_t takes = random.between(40, 60);
    const std::uint32_t chosen = random.between(0, 20);
    for (int step = 0; step < 2'000; ++step) {
      if (random.below(100) < takes) {
        std::uint32_t place = random.below(60);
        const std::size_t size = pool.size();
        if (random.below(100) < chosen && wanted.count(place) == 0) {
          pool.take_at(place);
          REQUIRE(pool.size() == std::max<std::size_t>(size, place + 1));
        } else {
          place = pool.take();
          REQUIRE(pool.size() == size + (wanted.size() == size ? 1 : 0));
        }
        REQUIRE(wanted.emplace(place, random.next()).second);
        pool[place] = wanted[place];
      } else if (!wanted.empty()) {
        const auto at = std::next(wanted.begin(), random.below(static_cast<std::uint32_t>(wanted.size())));
        pool.give_back(at->first);
        CHECK_FALSE(pool.holds(at->first));
        wanted.erase(at);
      }
      if (random.below(700) == 0) {
        pool.clear();
        wanted.clear();
      }
      REQUIRE(pool.in_use() == wanted.size());
      std::map<std::uint32_t, std::uint64_t> held;
      pool.for_each_index([&](std::uint32_t place) { held[place] = pool[place]; });
      REQUIRE(held == wanted);
    }
  }
}

}  // namespace common_containers_test

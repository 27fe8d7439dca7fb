// Cached descriptors: who gives way, and what a forget does to a fetch under way.
#include "tmau/descriptor_cache.h"

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace tmau_descriptor_cache_test {

using namespace heddle;
using tmau::CheckedDescriptor;
using tmau::DescriptorCache;

namespace {

CheckedDescriptor marked(std::uint64_t mark) {
  CheckedDescriptor result;
  result.descriptor.address = mark;
  return result;
}
void fetch(DescriptorCache& cache, std::uint64_t address, std::uint64_t mark) {
  cache.begin_fetch(address);
  cache.end_fetch(marked(mark));
}

}  // namespace

TEST_CASE("the descriptor that has not been used for longest gives way", "[tmau][TMA-04]") {
  DescriptorCache cache(2);
  fetch(cache, 64, 1);
  fetch(cache, 128, 2);
  REQUIRE(cache.find(64) != nullptr);
  fetch(cache, 192, 3);
  CHECK(cache.find(128) == nullptr);
  REQUIRE(cache.find(64) != nullptr);
  CHECK(cache.find(64)->descriptor.address == 1);
  CHECK(cache.find(192)->descriptor.address == 3);
  CHECK(cache.size() == 2);
}

TEST_CASE("subcontexts have descriptors of their own", "[tmau][TMA-04][PRT-08]") {
  DescriptorCache cache(4);
  fetch(cache, 64, 1);
  cache.begin_fetch(64, 3);
  cache.end_fetch(marked(2));
  CHECK(cache.find(64)->descriptor.address == 1);
  CHECK(cache.find(64, 3)->descriptor.address == 2);
  CHECK(cache.peek(64, 3)->descriptor.address == 2);
  CHECK(cache.find(64, 2) == nullptr);
  CHECK(cache.peek(64, 2) == nullptr);
  cache.forget(64);
  CHECK(cache.size() == 0);
}

TEST_CASE("a look without use does not keep a descriptor", "[tmau][TMA-04]") {
  DescriptorCache cache(2);
  fetch(cache, 64, 1);
  fetch(cache, 128, 2);
  CHECK(cache.peek(64) != nullptr);
  CHECK(cache.peek(192) == nullptr);
  fetch(cache, 192, 3);
  CHECK(cache.find(64) == nullptr);
}

TEST_CASE("a descriptor that is forgotten while it is fetched is not entered", "[tmau][TMA-04]") {
  DescriptorCache cache(4);
  fetch(cache, 64, 1);
  cache.begin_fetch(128);
  const std::uint64_t forgotten = GENERATE(0, 64, 128);
  cache.forget(forgotten);
  cache.end_fetch(marked(2));
  CHECK((cache.find(128) != nullptr) == (forgotten == 64));
  CHECK((cache.find(64) != nullptr) == (forgotten == 128));
  // The next fetch is a new one.
  if (cache.find(128) == nullptr) fetch(cache, 128, 3);
  REQUIRE(cache.find(128) != nullptr);
}

TEST_CASE("a fetch that fails leaves nothing", "[tmau][TMA-04]") {
  DescriptorCache cache(4);
  cache.begin_fetch(64);
  cache.drop_fetch();
  CHECK(cache.find(64) == nullptr);
  fetch(cache, 64, 5);
  CHECK(cache.find(64)->descriptor.address == 5);
  cache.begin_fetch(128);
  CHECK_THROWS_AS(cache.begin_fetch(192), CheckFailed);
  cache.reset();
  CHECK(cache.size() == 0);
  cache.begin_fetch(192);
}

TEST_CASE("the cache holds what a list in order of use holds", "[tmau][TMA-04]") {
  for (const std::uint64_t seed : test::seeds(20)) {
    CAPTURE(seed);
    test::Random random(seed);
    const std::size_t entries = random.between(1, 6);
    DescriptorCache cache(static_cast<std::uint32_t>(entries));
    std::vector<std::pair<std::uint64_t, std::uint64_t>> used;  // address, mark; the last one is the latest
    const auto find = [&](std::uint64_t address) {
      return std::find_if(used.begin(), used.end(), [&](const auto& item) { return item.first == address; });
    };
    for (std::uint64_t step = 1; step < 500; ++step) {
      const std::uint64_t address = 64 * random.between(1, 9);
      const auto known = find(address);
      if (random.chance(8)) {
        const bool all = random.chance(20);
        cache.forget(all ? 0 : address);
        if (all) used.clear();
        if (!all && known != used.end()) used.erase(known);
        continue;
      }
      const CheckedDescriptor* found = cache.find(address);
      REQUIRE((found != nullptr) == (known != used.end()));
      if (found != nullptr) {
        REQUIRE(found->descriptor.address == known->second);
        const auto item = *known;
        used.erase(known);
        used.push_back(item);
        continue;
      }
      fetch(cache, address, step);
      if (used.size() == entries) used.erase(used.begin());
      used.emplace_back(address, step);
    }
  }
}

}  // namespace tmau_descriptor_cache_test

#include "arch/address_map.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace heddle::test::memory_address_map_test {

using arch::AddressMap;
using arch::kLineBytes;

TEST_CASE("every run of lines has one in each slice", "[memory][MEM-01]") {
  for (const std::uint32_t slices : {1U, 2U, 3U, 24U, 80U, 96U}) {
    CAPTURE(slices);
    const AddressMap map(std::uint64_t{1} << 40, slices, 1);
    HEDDLE_RANDOM(dice);
    for (int round = 0; round < 300; ++round) {
      const std::uint64_t run = round < 20 ? static_cast<std::uint64_t>(round)
                                           : dice.between64(0, (std::uint64_t{1} << 40) / slices / kLineBytes - 1);
      std::vector<int> lines(slices);
      for (std::uint64_t i = 0; i < slices; ++i) {
        const std::uint64_t address = (run * slices + i) * kLineBytes;
        const std::uint32_t slice = map.slice_of(address);
        REQUIRE(slice < slices);
        ++lines[slice];
        // A line is in one slice as a whole.
        REQUIRE(map.slice_of(address + dice.between64(0, kLineBytes - 1)) == slice);
      }
      REQUIRE(std::all_of(lines.begin(), lines.end(), [](int count) { return count == 1; }));
    }
  }
}

TEST_CASE("strides spread over the slices", "[memory][MEM-01]") {
  for (const std::uint32_t slices : {24U, 80U, 96U}) {
    const AddressMap map(std::uint64_t{1} << 37, slices, 2);
    // Powers of two, and the worst that a plain remainder knows: a line of the same place in every run.
    std::vector<std::uint64_t> strides = {std::uint64_t{slices} * kLineBytes, std::uint64_t{slices} * kLineBytes * 64};
    for (std::uint64_t stride = kLineBytes; stride <= std::uint64_t{1} << 26; stride *= 2) strides.push_back(stride);
    for (const std::uint64_t stride : strides) {
      CAPTURE(slices, stride);
      std::vector<std::uint32_t> lines(slices);
      constexpr std::uint32_t kLines = 1000;
      for (std::uint64_t i = 0; i < kLines; ++i) ++lines[map.slice_of(i * stride)];
      // Even shares would be 10 to 42. Random ones stay below twice that, and leave no slice out.
      const auto [fewest, most] = std::minmax_element(lines.begin(), lines.end());
      CHECK(*fewest > 0);
      CHECK(*most <= 3 * kLines / slices);
    }
  }
}

TEST_CASE("slices belong to partitions, addresses to memory or not", "[memory][MEM-01][MEM-05]") {
  const AddressMap map(1000, 6, 3);
  CHECK(map.slices() == 6);
  CHECK(map.partitions() == 3);
  CHECK(map.partition_of(0) == 0);
  CHECK(map.partition_of(1) == 0);
  CHECK(map.partition_of(2) == 1);
  CHECK(map.partition_of(5) == 2);
  CHECK(map.contains(0, 1000));
  CHECK(map.contains(999, 1));
  CHECK(map.contains(1000, 0));
  CHECK_FALSE(map.contains(999, 2));
  CHECK_FALSE(map.contains(1000, 1));
  CHECK_FALSE(map.contains(0, 1001));
  CHECK_FALSE(map.contains(~std::uint64_t{0}, 2));  // no wrap-around
  CHECK_FALSE(map.contains(2, ~std::uint64_t{0}));
  CHECK(map.slice_of(~std::uint64_t{0}) < 6);
  CHECK_THROWS(AddressMap(1000, 6, 4));
  CHECK_THROWS(AddressMap(1000, 0, 1));
  CHECK_THROWS(AddressMap(1000, 6, 0));
}

TEST_CASE("a slice counts its lines: every line has a place of its own, and is found there", "[memory][MEM-01]") {
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random dice(seed);
    const std::uint32_t slices = dice.between(1, 40);
    const std::uint64_t lines = dice.between(1, 6000);
    const AddressMap map(lines * kLineBytes, slices, 1);
    std::set<std::pair<std::uint32_t, std::uint64_t>> places;
    std::vector<std::uint64_t> counts(slices);
    for (std::uint64_t line = 0; line < lines; ++line) {
      const AddressMap::Place place = map.place_of(line * kLineBytes + dice.below(kLineBytes));
      REQUIRE(place.slice == map.slice_of(line * kLineBytes));
      REQUIRE(places.insert({place.slice, place.number}).second);
      REQUIRE(map.line_at(place) == line);
      REQUIRE(place.number == line / slices);  // one line of every run
      ++counts[place.slice];
    }
    for (const std::uint64_t count : counts) REQUIRE((count >= lines / slices && count <= lines / slices + 1));
    // A place behind the last line, and one of the last run that memory does not have.
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      CHECK_FALSE(map.line_at({slice, lines / slices + 1}));
      const auto last = map.line_at({slice, lines / slices});
      CHECK(last.has_value() == (places.count({slice, lines / slices}) == 1));
    }
  }
}

}  // namespace heddle::test::memory_address_map_test

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/hbm_banks.h"
#include "support/random.h"

namespace memory_hbm_map_test {

namespace {

using heddle::memory::DecodedAddress;
using heddle::memory::HbmMap;
using heddle::test::Random;

}  // namespace

TEST_CASE("every line of memory has a place of its own", "[memory][MEM-02]") {
  for (const std::uint64_t seed : heddle::test::seeds(40)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t channels = random.between(1, 40);
    const std::uint32_t banks = 1U << random.below(6);
    const std::uint64_t interleave = 128U << random.below(4);
    const HbmMap map(channels, banks, 1024, interleave);
    std::set<std::tuple<std::uint32_t, std::uint64_t>> lines;
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>> cells;
    constexpr std::uint64_t kLines = 5000;
    for (std::uint64_t line = 0; line < kLines; ++line) {
      const DecodedAddress place = map.decode(line * 128);
      REQUIRE(place.channel < channels);
      REQUIRE(place.bank < banks);
      lines.insert({place.channel, place.line});
      cells.insert({place.channel, place.bank, place.row, place.line % 8});
      // All bytes of a piece, and so of a line, lie in one row.
      const DecodedAddress piece = map.decode(line * 128 / interleave * interleave);
      REQUIRE(std::tie(piece.channel, piece.bank, piece.row) == std::tie(place.channel, place.bank, place.row));
    }
    CHECK(lines.size() == kLines);
    CHECK(cells.size() == kLines);
  }
}

TEST_CASE("streams give every channel the same share", "[memory][MEM-02]") {
  for (const std::uint32_t channels : {4U, 80U, 160U, 192U}) {
    const HbmMap map(channels, 32, 1024, 1024);
    std::vector<std::uint32_t> lines(channels);
    for (std::uint64_t line = 0; line < channels * 80U; ++line) ++lines[map.decode(line * 128).channel];
    CHECK(std::all_of(lines.begin(), lines.end(), [](std::uint32_t count) { return count == 80; }));
  }
}

TEST_CASE("strides of powers of two spread over channels and banks", "[memory][MEM-02]") {
  for (const std::uint32_t channels : {4U, 80U, 160U, 192U}) {
    const HbmMap map(channels, 32, 1024, 1024);
    for (std::uint32_t shift = 10; shift <= 24; ++shift) {
      CAPTURE(channels, shift);
      constexpr std::uint32_t kEach = 64;
      std::vector<std::uint32_t> per_channel(channels);
      std::vector<std::uint32_t> per_bank(32);
      for (std::uint64_t i = 0; i < std::uint64_t{channels} * kEach; ++i) {
        const DecodedAddress place = map.decode(i << shift);
        ++per_channel[place.channel];
        ++per_bank[place.bank];
      }
      // Even chance would give a worst channel of about 64 + 3 * 8.
      CHECK(*std::max_element(per_channel.begin(), per_channel.end()) < 2 * kEach);
      CHECK(*std::max_element(per_bank.begin(), per_bank.end()) < 2 * channels * kEach / 32);
    }
  }
}

}  // namespace memory_hbm_map_test

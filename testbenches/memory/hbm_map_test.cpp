#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/address_map.h"
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

TEST_CASE("channels that belong to slices hold their lines alone, a row those of one slice", "[memory][MEM-02]") {
  for (const std::uint64_t seed : heddle::test::seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t slices = random.between(1, 24);
    const std::uint32_t channels = random.between(1, 48);
    const std::uint32_t banks = 1U << random.below(6);
    constexpr std::uint64_t kLines = 8000;
    const heddle::arch::AddressMap map_of_slices(kLines * 128, slices, 1);
    HbmMap map(channels, banks, 1024, 1024);
    CHECK(map.row_lines() == 1);
    map.belong_to(map_of_slices);
    CHECK(map.row_lines() == 8);
    // The oracle: groups of as few slices and channels as the two numbers leave.
    std::uint32_t groups = 1;
    for (std::uint32_t n = 1; n <= std::min(slices, channels); ++n) {
      if (slices % n == 0 && channels % n == 0) groups = n;
    }
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t>> cells;
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, std::set<std::uint32_t>> rows;
    std::vector<std::uint64_t> counts(channels);
    for (std::uint64_t line = 0; line < kLines; ++line) {
      const DecodedAddress place = map.decode(line * 128);
      const std::uint32_t slice = map_of_slices.slice_of(line * 128);
      REQUIRE(place.channel < channels);
      REQUIRE(place.bank < banks);
      REQUIRE(place.channel / (channels / groups) == slice / (slices / groups));
      REQUIRE(cells.insert({place.channel, place.bank, place.row, place.line % 8}).second);
      rows[{place.channel, place.bank, place.row}].insert(slice);
      ++counts[place.channel];
    }
    for (const auto& [row, its] : rows) REQUIRE(its.size() == 1);
    // Lines come evenly, but for the last rows.
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    CHECK(*most - *least <= 8 * slices / groups + 8);
  }
}

TEST_CASE("memory of instances lies in their channels alone, and no two lines in one place", "[memory][PRT-11]") {
  for (const std::uint64_t seed : heddle::test::seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t channels = random.between(3, 24);
    const std::uint32_t banks = 1U << random.below(6);
    HbmMap map(channels, banks, 1024, 128U << random.below(4));
    // Two parts of some hundred rows, and what lies behind them.
    std::vector<std::uint32_t> own[2];
    for (std::uint32_t channel = 0; channel < channels; ++channel) {
      const std::uint32_t whose = random.below(3);
      if (whose < 2) own[whose].push_back(channel);
    }
    if (own[0].empty() || own[1].empty()) continue;
    const std::uint64_t first = 1024 * random.between(50, 300);
    const std::uint64_t second = first + 1024 * random.between(50, 300);
    map.add_part(0, first, own[0]);
    map.add_part(first, second, own[1]);
    std::set<std::tuple<std::uint32_t, std::uint64_t>> lines;
    std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t>> cells;
    const std::uint64_t end = second + 1024 * 400;
    std::vector<std::uint32_t> counts(channels);
    for (std::uint64_t address = 0; address < end; address += 128) {
      const DecodedAddress place = map.decode(address);
      REQUIRE(place.channel < channels);
      if (address < second) {
        const auto& its = own[address < first ? 0 : 1];
        REQUIRE(std::find(its.begin(), its.end(), place.channel) != its.end());
      } else {
        ++counts[place.channel];
      }
      lines.insert({place.channel, place.line});
      cells.insert({place.channel, place.bank, place.row, place.line % 8});
    }
    CHECK(lines.size() == end / 128);
    CHECK(cells.size() == end / 128);
    CHECK(std::all_of(counts.begin(), counts.end(), [](std::uint32_t count) { return count > 0; }));
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

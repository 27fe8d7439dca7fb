// Lines and sectors of a warp's access, byte by byte; and bytes to and from registers.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/lane_data.h"
#include "support/random.h"

namespace sm_coalescer_test {

using namespace heddle::sm;
using heddle::arch::kLineBytes;
using heddle::arch::kWarpLanes;
using heddle::arch::LaneMask;
using heddle::arch::Operation;
using heddle::arch::PerLane;
using heddle::test::Random;

namespace {

std::vector<LineAccess> byte_by_byte(LaneMask lanes, const PerLane<std::uint64_t>& address, std::uint32_t width) {
  std::vector<LineAccess> result;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    for (std::uint32_t byte = 0; byte < width; ++byte) {
      const std::uint64_t at = address[lane] + byte;
      const std::uint64_t line = at - at % 128;
      auto known = std::find_if(result.begin(), result.end(), [=](const LineAccess& a) { return a.line == line; });
      if (known == result.end()) known = result.insert(result.end(), {line, 0, 0});
      known->lanes |= LaneMask{1} << lane;
      known->sectors = static_cast<std::uint8_t>(known->sectors | 1U << (at % 128 / 32));
    }
  }
  return result;
}

bool same(const LineAccesses& got, const std::vector<LineAccess>& expected) {
  return std::equal(got.begin(), got.end(), expected.begin(), expected.end(),
                    [](const LineAccess& a, const LineAccess& b) {
                      return a.line == b.line && a.lanes == b.lanes && a.sectors == b.sectors;
                    });
}

PerLane<std::uint64_t> random_addresses(Random& random, std::uint32_t width) {
  PerLane<std::uint64_t> address;
  const std::uint64_t base = random.chance(10) ? ~std::uint64_t{0} - random.below(600) : random.below(100'000);
  const std::uint64_t aligned = random.chance(70) ? base - base % width : base;
  const std::uint64_t span = std::uint64_t{1} << random.between(3, 14);
  const std::uint32_t pattern = random.below(5);
  const std::uint64_t stride = random.below(300);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    switch (pattern) {
      case 0:
        address[lane] = aligned + std::uint64_t{lane} * width;
        break;
      case 1:
        address[lane] = aligned + lane * stride;
        break;
      case 2:
        address[lane] = aligned - std::uint64_t{lane} * width;
        break;
      case 3:  // almost a row
        address[lane] = aligned + std::uint64_t{lane ^ random.below(30) / 29} * width;
        break;
      default:
        address[lane] = aligned + random.below(span);
    }
  }
  return address;
}

LaneMask random_lanes(Random& random) {
  if (random.chance(50)) return ~LaneMask{0};
  const auto lanes = static_cast<LaneMask>(random.next());
  return random.chance(20) ? LaneMask{1} << (lanes % 32) : lanes;
}

// A word per lane, in a row from `address` on.
PerLane<std::uint64_t> row(std::uint64_t address, std::uint64_t width) {
  PerLane<std::uint64_t> result;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) result[lane] = address + lane * width;
  return result;
}

}  // namespace

TEST_CASE("an access becomes its lines and sectors, as counted byte by byte", "[sm][SM-03]") {
  LineAccesses lines;
  for (const std::uint64_t seed : heddle::test::seeds(20'000)) {
    Random random(seed);
    const std::uint32_t width = 1U << random.below(5);
    const PerLane<std::uint64_t> address = random_addresses(random, width);
    const LaneMask lanes = random_lanes(random);
    coalesce(lanes, address, width, lines);
    if (same(lines, byte_by_byte(lanes, address, width))) continue;
    CAPTURE(seed, width, lanes, address[0], address[1]);
    FAIL("other lines");
  }
}

TEST_CASE("rows of values take as few lines as can be", "[sm][SM-03]") {
  LineAccesses lines;
  coalesce(~LaneMask{0}, row(0x1000, 4), 4, lines);
  REQUIRE(lines.count == 1);
  CHECK(lines.line[0].line == 0x1000);
  CHECK(lines.line[0].lanes == ~LaneMask{0});
  CHECK(lines.line[0].sectors == 0xF);
  coalesce(~LaneMask{0}, row(0x1000, 16), 16, lines);
  REQUIRE(lines.count == 4);
  CHECK(lines.line[3].line == 0x1180);
  CHECK(lines.line[3].lanes == 0xFF00'0000);
  coalesce(~LaneMask{0}, row(0x1060, 1), 1, lines);
  REQUIRE(lines.count == 1);
  CHECK(lines.line[0].sectors == 8);
  coalesce(~LaneMask{0}, row(0x1000, 128), 4, lines);
  REQUIRE(lines.count == 32);
  CHECK(lines.line[31].sectors == 1);
  coalesce(~LaneMask{0}, row(126, 128), 4, lines);  // every lane across a line's end: 33 lines
  CHECK(lines.count == 33);
  coalesce(~LaneMask{0}, row(126, 256), 4, lines);
  CHECK(lines.count == LineAccesses::kMost);
  coalesce(0, row(0, 4), 4, lines);
  CHECK(lines.count == 0);
}

TEST_CASE("the first misaligned lane is found among those that take part", "[sm][MEM-05]") {
  for (const std::uint64_t seed : heddle::test::seeds(5'000)) {
    Random random(seed);
    const std::uint32_t width = 1U << random.below(5);
    PerLane<std::uint64_t> address;
    for (std::uint64_t& each : address)
      each = random.next() / width * width + (random.chance(5) ? random.below(width) : 0);
    const LaneMask lanes = random_lanes(random);
    std::uint32_t expected = kWarpLanes;
    for (std::uint32_t lane = kWarpLanes; lane-- > 0;) {
      if ((lanes >> lane & 1) != 0 && address[lane] % width != 0) expected = lane;
    }
    if (first_misaligned(lanes, address, width) != expected) FAIL("seed " << seed);
  }
}

TEST_CASE("what a warp stores to lines, it loads from them, sector by sector", "[sm][SM-04]") {
  LineAccesses lines;
  for (const std::uint64_t seed : heddle::test::seeds(3'000)) {
    CAPTURE(seed);
    Random random(seed);
    Operation operation;
    operation.width = static_cast<std::uint8_t>(1U << random.below(5));
    operation.lanes = random_lanes(random);
    const bool regular = random.chance(40);
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const std::uint64_t slot = regular ? lane : random.below(64);
      operation.address[lane] = 0x7F80 + slot * operation.width;
      for (std::uint32_t& word : operation.data[lane]) word = static_cast<std::uint32_t>(random.next());
    }
    // The reference: one flat memory.
    std::vector<std::uint8_t> flat(0x9000, 0xAA);
    std::vector<bool> written(flat.size());
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      for (std::uint32_t byte = 0; byte < operation.width; ++byte) {
        flat[operation.address[lane] + byte] =
            static_cast<std::uint8_t>(operation.data[lane][byte / 4] >> (8 * (byte % 4)));
        written[operation.address[lane] + byte] = true;
      }
    }
    std::vector<std::uint32_t> registers(4 * kWarpLanes, 0xDEAD'BEEF);
    std::vector<std::uint32_t> expected = registers;
    const std::uint32_t words = operation.width < 4 ? 1 : operation.width / 4;
    coalesce(operation.lanes, operation.address, operation.width, lines);
    bool right = true;
    for (const LineAccess& access : lines) {
      std::array<std::uint8_t, kLineBytes> bytes;
      std::array<std::uint8_t, kLineBytes> enables;
      take_line(operation, access, bytes.data(), enables.data());
      for (std::uint32_t i = 0; i < kLineBytes; ++i) {
        const std::uint64_t at = access.line + i;
        right = right && (enables[i] != 0) == written[at] && (enables[i] == 0 || bytes[i] == flat[at]);
      }
      // Sectors arrive in two portions, as payloads that begin at their first sector.
      const auto first = static_cast<std::uint8_t>(access.sectors & random.below(16));
      for (const std::uint8_t sectors : {first, static_cast<std::uint8_t>(access.sectors & ~first)}) {
        if (sectors == 0) continue;
        std::uint32_t offset = 0;
        while ((sectors >> offset / 32 & 1) == 0) offset += 32;
        put_sectors(operation, access, sectors, flat.data() + access.line + offset, offset, registers.data());
      }
    }
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      for (std::uint32_t word = 0; word < words; ++word) {
        std::uint32_t value = 0;
        for (std::uint32_t byte = 0; byte < 4 && byte < operation.width; ++byte) {
          value |= std::uint32_t{flat[operation.address[lane] + 4 * word + byte]} << (8 * byte);
        }
        expected[word * kWarpLanes + lane] = value;
      }
    }
    CHECK(right);
    CHECK(registers == expected);
  }
}

}  // namespace sm_coalescer_test

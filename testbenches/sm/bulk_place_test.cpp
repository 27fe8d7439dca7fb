// Pieces of boxes in shared memory against an oracle that knows single bytes.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/mbarrier.h"
#include "common/error.h"
#include "sm/bulk_data.h"
#include "sm/bulk_oracle.h"
#include "sm/dsmem_access.h"
#include "sm/sm_params.h"

namespace sm_bulk_place_test {

using namespace heddle;
using namespace heddle::sm;
using arch::DsmemStatus;
using test::Random;

namespace {

const arch::SwizzleTable kUsual;

// A window and what should be in it.
struct Judge {
  Judge(SharedMemory& memory, std::uint32_t its_window, Random& random) : shared(memory), window(its_window) {
    bytes.resize(shared.size(window));
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
    std::memcpy(shared.data(window), bytes.data(), bytes.size());
    corrupt.resize(bytes.size() / 32 + 1);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(bytes.size()); }
  std::vector<std::uint32_t> positions(const protocol::BulkTarget& target, bool inside_alone) const {
    std::vector<std::uint32_t> result;
    for (std::uint32_t i = 0; i < target.piece.bytes; ++i) {
      if (inside_alone && !target.piece.inside.test(i)) continue;
      result.push_back(test::swizzled(target.swizzle, target.piece.shared + i));
    }
    return result;
  }
  void write(const protocol::BulkTarget& target, const std::vector<std::uint8_t>& brought, bool poisoned) {
    const std::vector<std::uint32_t> at = positions(target, false);
    std::vector<std::uint8_t> covered(bytes.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      bytes[at[i]] = brought[i];
      covered[at[i]] = 1;
    }
    for (std::size_t granule = 0; granule * 32 < bytes.size(); ++granule) {
      bool whole = true;
      for (std::size_t i = granule * 32; i < std::min(bytes.size(), granule * 32 + 32); ++i) whole &= covered[i] != 0;
      if (whole) corrupt[granule] = false;
    }
    if (!poisoned) return;
    for (const std::uint32_t position : positions(target, true)) corrupt[position / 32] = true;
  }
  bool agrees() const {
    if (std::memcmp(shared.data(window), bytes.data(), bytes.size()) != 0) return false;
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (shared.poisoned(window, i, 1) != corrupt[i / 32]) return false;
    }
    return true;
  }

  SharedMemory& shared;
  std::uint32_t window;
  std::vector<std::uint8_t> bytes;
  std::vector<bool> corrupt;
};

struct Shared {
  // The window begins somewhere; it has any size.
  explicit Shared(Random& random) : memory(16'384, 4) {
    memory.open(0, random.below(1'000));
    memory.open(1, random.chance(50) ? 128 * random.between(1, 24) : random.between(1, 3'000));
  }
  SharedMemory memory;
};

std::array<std::uint8_t, 128> some_data(Random& random, arch::TensorType type) {
  std::array<std::uint8_t, 128> data{};
  for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(random.next());
  if (test::type_bytes(type) != 4) return data;
  // Numbers that conversion cares for: subnormal ones, halves of the last place, infinities, NaNs.
  constexpr std::array<std::uint32_t, 8> kSpecial{0x0000'0001, 0x807F'FFFF, 0x3F80'1000, 0x3F80'3000,
                                                  0x7F80'0000, 0x7F7F'FFFF, 0xFFC0'0001, 0x8000'0000};
  for (std::size_t i = 0; i < data.size(); i += 4) {
    if (random.chance(30)) std::memcpy(&data[i], &kSpecial[random.below(kSpecial.size())], 4);
  }
  return data;
}

}  // namespace

TEST_CASE("pieces lie in shared memory as a loop over their bytes puts them", "[sm][TMA-20][TMA-13][TMA-07]") {
  std::uint64_t written = 0;
  std::uint64_t refused = 0;
  std::array<std::uint32_t, 4> costs{};
  for (const std::uint64_t seed : test::seeds(250)) {
    CAPTURE(seed);
    Random random(seed);
    Shared shared(random);
    Judge judge(shared.memory, 1, random);
    if (random.chance(40)) {
      const std::uint32_t from = random.below(judge.size());
      shared.memory.poison(1, from, 1);
      judge.corrupt[from / 32] = true;
    }
    for (int round = 0; round < 24; ++round) {
      const protocol::BulkTarget target = test::random_target(random, judge.size());
      const auto data = some_data(random, target.type);
      const bool poisoned = random.chance(10);
      const BulkPlaced placed = write_piece(shared.memory, 1, kUsual, target, data.data(), poisoned);
      const std::vector<std::uint32_t> at = judge.positions(target, false);
      const auto outside =
          std::find_if(at.begin(), at.end(), [&judge](std::uint32_t each) { return each >= judge.size(); });
      if (outside != at.end()) {
        ++refused;
        CHECK(placed.status == DsmemStatus::out_of_range);
        CHECK(placed.offset == *outside);
      } else {
        ++written;
        REQUIRE(placed.status == DsmemStatus::ok);
        CHECK(placed.cycles == test::bank_cycles(at));
        ++costs.at(placed.cycles);
        judge.write(target, test::brought(target, data.data()), poisoned);
      }
      REQUIRE(judge.agrees());
    }
  }
  CHECK(written > 3'000);
  CHECK(refused > 300);
  CHECK(costs[1] > 1'000);
  CHECK(costs[2] > 100);
}

TEST_CASE("what is stored is what the inside bytes hold, and corrupt bytes are not", "[sm][TMA-20][TMA-13]") {
  std::array<std::uint32_t, 5> seen{};
  for (const std::uint64_t seed : test::seeds(250)) {
    CAPTURE(seed);
    Random random(seed);
    Shared shared(random);
    Judge judge(shared.memory, 1, random);
    for (std::uint32_t i = random.below(3); i > 0; --i) {
      const std::uint32_t from = random.below(judge.size());
      shared.memory.poison(1, from, 1);
      judge.corrupt[from / 32] = true;
    }
    for (int round = 0; round < 24; ++round) {
      const protocol::BulkTarget target = test::random_target(random, judge.size());
      std::array<std::uint8_t, 128> data{};
      const BulkPlaced placed = read_piece(shared.memory, 1, kUsual, target, data.data());
      ++seen.at(static_cast<std::size_t>(placed.status));
      const std::vector<std::uint32_t> at = judge.positions(target, true);
      const bool outside =
          std::any_of(at.begin(), at.end(), [&judge](std::uint32_t each) { return each >= judge.size(); });
      const bool corrupt = !outside && std::any_of(at.begin(), at.end(),
                                                   [&judge](std::uint32_t each) { return judge.corrupt[each / 32]; });
      REQUIRE(placed.status ==
              (outside ? DsmemStatus::out_of_range : (corrupt ? DsmemStatus::poison : DsmemStatus::ok)));
      if (placed.status != DsmemStatus::ok || at.empty()) continue;
      const std::uint32_t lowest = target.piece.inside.lowest();
      std::array<std::uint8_t, 128> expected{};
      for (std::uint32_t i = 0; i < target.piece.bytes; ++i) {
        if (!target.piece.inside.test(i)) continue;
        expected[i - lowest] = judge.bytes[test::swizzled(target.swizzle, target.piece.shared + i)];
      }
      REQUIRE(data == expected);
      REQUIRE(judge.agrees());
    }
  }
  CHECK(seen[static_cast<std::size_t>(DsmemStatus::ok)] > 2'000);
  CHECK(seen[static_cast<std::size_t>(DsmemStatus::out_of_range)] > 200);
  CHECK(seen[static_cast<std::size_t>(DsmemStatus::poison)] > 50);
}

TEST_CASE("a box of 8 rows of 128 bytes lies as the swizzle says", "[sm][TMA-20]") {
  SharedMemory memory(4'096, 2);
  memory.open(0, 2'048);
  std::array<std::uint8_t, 128> data{};
  for (std::uint32_t row = 0; row < 8; ++row) {
    for (std::uint32_t i = 0; i < 128; ++i) data[i] = static_cast<std::uint8_t>(16 * row + i / 16);
    protocol::BulkTarget target;
    target.tensor = true;
    target.type = arch::TensorType::f16;
    target.swizzle = arch::Swizzle::bytes128;
    target.piece = {0, 1'024 + 128 * row, 128, arch::ByteMask::first(128)};
    const BulkPlaced placed = write_piece(memory, 0, kUsual, target, data.data(), false);
    CHECK(placed.cycles == 1);
  }
  for (std::uint32_t row = 0; row < 8; ++row) {
    for (std::uint32_t unit = 0; unit < 8; ++unit) {
      // Unit u of row r is where u ^ r was.
      CHECK(memory.data(0)[1'024 + 128 * row + 16 * unit] == 16 * row + (unit ^ row));
    }
  }
}

TEST_CASE("another swizzle table is followed", "[sm][TMA-20]") {
  SharedMemory memory(1'024, 1);
  memory.open(0, 1'024);
  // Every row turned by one unit.
  std::vector<std::uint32_t> units;
  for (std::uint32_t row = 0; row < 8; ++row) {
    for (std::uint32_t unit = 0; unit < 8; ++unit) units.push_back((unit + 1) % 8);
  }
  SmParams params;
  params.swizzle_128 = units;
  const arch::SwizzleTable table = swizzles_of(params);
  std::array<std::uint8_t, 128> data{};
  for (std::uint32_t i = 0; i < 128; ++i) data[i] = static_cast<std::uint8_t>(i);
  protocol::BulkTarget target;
  target.swizzle = arch::Swizzle::bytes128;
  target.piece = {0, 256, 128, arch::ByteMask::first(128)};
  write_piece(memory, 0, table, target, data.data(), false);
  CHECK(memory.data(0)[256] == 112);
  CHECK(memory.data(0)[256 + 16] == 0);
  CHECK(memory.data(0)[256 + 127] == 111);
  std::array<std::uint8_t, 128> back{};
  read_piece(memory, 0, table, target, back.data());
  CHECK(back == data);
}

TEST_CASE("a swizzle table that is none is refused by its name", "[sm][TMA-20]") {
  SmParams params;
  params.swizzle_64 = std::vector<std::uint32_t>(64, 3);
  CHECK_THROWS_AS(swizzles_of(params), InputError);
  CHECK_THROWS_WITH(swizzles_of(params), Catch::Contains("gpu.sm.swizzle_64"));
}

TEST_CASE("nobody there: nothing is written or read", "[sm][TMA-40]") {
  SharedMemory memory(1'024, 2);
  memory.open(0, 512);
  std::array<std::uint8_t, 128> data{};
  data.fill(7);
  protocol::BulkTarget target;
  target.piece = {0, 0, 128, arch::ByteMask::first(128)};
  CHECK(write_piece(memory, std::nullopt, kUsual, target, data.data(), false).status == DsmemStatus::cta_not_present);
  CHECK(write_piece(memory, 1, kUsual, target, data.data(), false).status == DsmemStatus::cta_not_present);
  CHECK(read_piece(memory, 1, kUsual, target, data.data()).status == DsmemStatus::cta_not_present);
  CHECK(data[0] == 7);
  CHECK(memory.data(0)[0] == 0);
  // So far beyond that sums of 32 bits come round again.
  target.piece.shared = 0xFFFF'FFF0;
  CHECK(write_piece(memory, 0, kUsual, target, data.data(), false).status == DsmemStatus::out_of_range);
  CHECK(read_piece(memory, 0, kUsual, target, data.data()).status == DsmemStatus::out_of_range);
  CHECK(memory.data(0)[0] == 0);
}

TEST_CASE("bytes complete an mbarrier, or it says what is wrong", "[sm][TMA-40]") {
  SharedMemory memory(1'024, 1);
  memory.open(0, 512);
  std::uint64_t object = 0;
  arch::mbarrier_init(object, 1);
  arch::mbarrier_arrive(object, 1, 256);
  memory.set_word(0, 64, object);
  CHECK_FALSE(complete_bulk(memory, 0, 64, 128).completes);
  const BulkPlaced last = complete_bulk(memory, 0, 64, 128);
  CHECK(last.completes);
  CHECK(last.status == DsmemStatus::ok);
  CHECK(arch::decode(memory.word(0, 64)).parity == 1);
  CHECK(complete_bulk(memory, 0, 72, 128).status == DsmemStatus::mbarrier);  // zeros are none
  CHECK(complete_bulk(memory, 0, 72, 128).offset == 72);
  CHECK(memory.word(0, 72) == 0);
  CHECK(complete_bulk(memory, 0, 512, 128).status == DsmemStatus::out_of_range);
  memory.poison(0, 64, 8);
  CHECK(complete_bulk(memory, 0, 64, 128).status == DsmemStatus::poison);
}

}  // namespace sm_bulk_place_test

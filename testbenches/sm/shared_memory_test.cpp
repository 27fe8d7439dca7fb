// Shared memory: windows, bytes, atomics and bank conflicts against brute force.
#include "sm/shared_memory.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_descriptor.h"
#include "common/error.h"
#include "support/random.h"

namespace sm_shared_memory_test {

using namespace heddle::sm;
using heddle::CheckFailed;
using heddle::arch::AtomicKind;
using heddle::arch::kWarpLanes;
using heddle::arch::LaneMask;
using heddle::arch::OpCode;
using heddle::arch::Operation;
using heddle::arch::ValueType;
using heddle::test::Random;

namespace {

Operation access(OpCode code, std::uint32_t width, LaneMask lanes = ~LaneMask{0}) {
  Operation operation;
  operation.code = code;
  operation.space = heddle::arch::Space::shared;
  operation.width = static_cast<std::uint8_t>(width);
  operation.lanes = lanes;
  return operation;
}

Operation strided(std::uint64_t base, std::uint64_t stride, std::uint32_t width, OpCode code = OpCode::load) {
  Operation operation = access(code, width);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) operation.address[lane] = base + lane * stride;
  return operation;
}

// The bank model as its description says it.
std::uint32_t counted(const Operation& operation) {
  const std::uint32_t words = operation.width <= 4 ? 1 : operation.width / 4;
  std::uint32_t total = 0;
  for (std::uint32_t group = 0; group < words; ++group) {
    std::map<std::uint64_t, std::multiset<std::uint64_t>> banks;
    for (std::uint32_t lane = group * 32 / words; lane < (group + 1) * 32 / words; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      for (std::uint32_t word = 0; word < words; ++word) {
        const std::uint64_t number = operation.address[lane] / 4 + word;
        std::multiset<std::uint64_t>& bank = banks[number % 32];
        if (operation.code == OpCode::atomic || bank.count(number) == 0) bank.insert(number);
      }
    }
    std::size_t worst = 0;
    for (const auto& bank : banks) worst = std::max(worst, bank.second.size());
    total += static_cast<std::uint32_t>(worst);
  }
  return total;
}

}  // namespace

TEST_CASE("bank conflicts of the textbook", "[sm][SM-03]") {
  CHECK(wavefronts(strided(0, 4, 4)) == 1);
  CHECK(wavefronts(strided(36, 4, 4)) == 1);
  CHECK(wavefronts(strided(0, 8, 4)) == 2);
  CHECK(wavefronts(strided(0, 128, 4)) == 32);
  CHECK(wavefronts(strided(0, 132, 4)) == 1);  // padded by a word
  CHECK(wavefronts(strided(64, 0, 4)) == 1);   // broadcast
  CHECK(wavefronts(strided(0, 1, 1)) == 1);    // four lanes a word
  CHECK(wavefronts(strided(0, 2, 2)) == 1);
  CHECK(wavefronts(strided(0, 8, 8)) == 2);
  CHECK(wavefronts(strided(0, 16, 16)) == 4);
  CHECK(wavefronts(strided(0, 0, 16)) == 4);
  CHECK(wavefronts(strided(64, 0, 4, OpCode::store)) == 1);
  CHECK(wavefronts(strided(64, 0, 4, OpCode::atomic)) == 32);
  CHECK(wavefronts(strided(64, 4, 4, OpCode::atomic)) == 1);
  CHECK(wavefronts(access(OpCode::load, 4, 0)) == 0);
}

TEST_CASE("bank conflicts of what asynchronous copies write", "[sm][SM-03]") {
  for (const std::uint64_t seed : heddle::test::seeds(5'000)) {
    Random random(seed);
    const std::uint32_t width = 4U << random.below(3);
    Operation store = access(OpCode::store, width, ~LaneMask{0});
    const std::uint64_t slots = std::uint64_t{1} << random.below(12);
    heddle::arch::PerLane<std::uint32_t> target{};
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      target[lane] = static_cast<std::uint32_t>(random.below(slots)) * width;
      store.address[lane] = target[lane];
    }
    // All lanes: like a store.
    if (copy_wavefronts(store.lanes, target, width) != counted(store)) FAIL("seed " << seed);
    // As many as 128 bytes hold, whichever: together.
    LaneMask some = 0;
    for (std::uint32_t left = 128 / width; left > 0;) {
      const LaneMask lane = LaneMask{1} << random.below(kWarpLanes);
      if ((some & lane) != 0) continue;
      some |= lane;
      --left;
    }
    std::map<std::uint64_t, std::set<std::uint64_t>> banks;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((some >> lane & 1) == 0) continue;
      for (std::uint32_t word = target[lane] / 4; word < (target[lane] + width) / 4; ++word)
        banks[word % 32].insert(word);
    }
    std::size_t worst = 0;
    for (const auto& bank : banks) worst = std::max(worst, bank.second.size());
    if (copy_wavefronts(some, target, width) != worst) FAIL("seed " << seed);
  }
  CHECK(heddle::sm::copy_wavefronts(0, {}, 4) == 0);
}

TEST_CASE("bank conflicts of random accesses", "[sm][SM-03]") {
  for (const std::uint64_t seed : heddle::test::seeds(10'000)) {
    Random random(seed);
    constexpr std::array<OpCode, 3> kCodes{OpCode::load, OpCode::store, OpCode::atomic};
    const OpCode code = kCodes[random.below(3)];
    const std::uint32_t width = code == OpCode::atomic ? 4U << random.below(2) : 1U << random.below(5);
    Operation operation = access(code, width, random.chance(60) ? ~LaneMask{0} : static_cast<LaneMask>(random.next()));
    const std::uint64_t slots = std::uint64_t{1} << random.below(12);
    const std::uint64_t step = random.chance(30) ? 128 : width;
    for (std::uint64_t& address : operation.address) address = random.below(slots) * step;
    if (wavefronts(operation) != counted(operation)) FAIL("seed " << seed);
  }
}

TEST_CASE("windows come and go in any order, and what the sum admits finds its place", "[sm][SM-01]") {
  for (const std::uint64_t seed : heddle::test::seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    constexpr std::uint32_t kCapacity = 228 * 1024;
    constexpr std::uint32_t kWindows = 32;
    SharedMemory memory(kCapacity, kWindows);
    std::array<std::vector<std::uint8_t>, kWindows> mirror;
    std::uint32_t used = 0;
    bool right = true;
    for (int step = 0; step < 100; ++step) {
      const std::uint32_t window = random.below(kWindows);
      if (memory.is_open(window)) {
        right = right && memory.size(window) == mirror[window].size() &&
                std::equal(mirror[window].begin(), mirror[window].end(), memory.data(window));
        used -= memory.size(window);
        memory.close(window);
        continue;
      }
      // Exactly what is left, now and then.
      const std::uint32_t bytes = random.chance(30) ? kCapacity - used : random.below(kCapacity - used + 1) / 4;
      memory.open(window, bytes);
      used += bytes;
      right = right && std::all_of(memory.data(window), memory.data(window) + bytes, [](int b) { return b == 0; });
      mirror[window].resize(bytes);
      for (std::uint8_t& byte : mirror[window]) byte = static_cast<std::uint8_t>(random.next());
      std::copy(mirror[window].begin(), mirror[window].end(), memory.data(window));
      right = right && memory.used() == used;
    }
    CHECK(right);
    memory.reset();
    CHECK(memory.used() == 0);
    memory.open(0, kCapacity);
    CHECK_THROWS_AS(memory.open(1, 1), CheckFailed);
    CHECK_THROWS_AS(memory.open(0, 0), CheckFailed);
    CHECK_THROWS_AS(memory.close(1), CheckFailed);
  }
}

TEST_CASE("loads, stores and atomics of one window do not touch another", "[sm][SM-04]") {
  for (const std::uint64_t seed : heddle::test::seeds(100)) {
    CAPTURE(seed);
    Random random(seed);
    SharedMemory memory(64 * 1024, 2);
    std::array<std::vector<std::uint8_t>, 2> flat{std::vector<std::uint8_t>(512), std::vector<std::uint8_t>(1024)};
    memory.open(0, 512);
    memory.open(1, 1024);
    bool right = true;
    for (int step = 0; step < 100; ++step) {
      const std::uint32_t window = random.below(2);
      const auto code = std::array<OpCode, 3>{OpCode::load, OpCode::store, OpCode::atomic}[random.below(3)];
      const bool wide = random.chance(50);
      const std::uint32_t width = code == OpCode::atomic ? (wide ? 8 : 4) : 1U << random.below(5);
      Operation operation = access(code, width, static_cast<LaneMask>(random.next()));
      operation.type = wide ? ValueType::u64 : ValueType::u32;
      operation.atomic = random.chance(50) ? AtomicKind::add : AtomicKind::compare_exchange;
      const bool row = random.chance(30);
      if (row) operation.lanes = ~LaneMask{0};
      for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        const std::uint64_t slot = row ? lane : random.below(flat[window].size() / width);
        operation.address[lane] = slot * width;
        for (std::uint32_t& word : operation.data[lane]) word = static_cast<std::uint32_t>(random.next());
        operation.compare[lane] = 0;
      }
      if (memory.first_outside(window, operation) != kWarpLanes) continue;  // a row of 16 bytes ends at 512
      std::vector<std::uint32_t> registers(4 * kWarpLanes, 7);
      std::vector<std::uint32_t> expected = registers;
      for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
        if ((operation.lanes >> lane & 1) == 0) continue;
        std::uint8_t* at = flat[window].data() + operation.address[lane];
        std::array<std::uint32_t, 4> old{};
        for (std::uint32_t i = 0; i < width; ++i) old[i / 4] |= std::uint32_t{at[i]} << (8 * (i % 4));
        std::array<std::uint32_t, 4> value = operation.data[lane];
        if (code == OpCode::atomic) {
          const std::uint64_t before = std::uint64_t{old[1]} << 32 | old[0];
          std::uint64_t operand = std::uint64_t{value[1]} << 32 | value[0];
          if (!wide) operand &= 0xFFFF'FFFF;
          std::uint64_t after = before + operand;
          if (operation.atomic == AtomicKind::compare_exchange) after = before == 0 ? operand : before;
          value = {static_cast<std::uint32_t>(after), static_cast<std::uint32_t>(after >> 32), 0, 0};
        }
        if (code != OpCode::store) {
          for (std::uint32_t i = 0; i < std::max(width, 4U) / 4; ++i) expected[i * kWarpLanes + lane] = old[i];
        }
        if (code == OpCode::load) continue;
        for (std::uint32_t i = 0; i < width; ++i) at[i] = static_cast<std::uint8_t>(value[i / 4] >> (8 * (i % 4)));
      }
      const bool silent = code == OpCode::atomic && random.chance(20);
      if (code == OpCode::load) memory.load(window, operation, registers.data());
      if (code == OpCode::store) memory.store(window, operation);
      if (code == OpCode::atomic) memory.atomic(window, operation, silent ? nullptr : registers.data());
      right = right && (silent || registers == expected);
      for (std::uint32_t w = 0; w < 2; ++w) right = right && std::equal(flat[w].begin(), flat[w].end(), memory.data(w));
    }
    CHECK(right);
  }
}

TEST_CASE("the first lane beyond the CTA's window is found", "[sm][MEM-05]") {
  SharedMemory memory(1024, 2);
  memory.open(0, 100);
  memory.open(1, 900);
  CHECK(memory.first_outside(0, strided(0, 4, 4)) == 25);
  CHECK(memory.first_outside(1, strided(0, 4, 4)) == kWarpLanes);
  Operation operation = strided(0, 4, 4);
  operation.lanes = 0x01FF'FFFF;
  CHECK(memory.first_outside(0, operation) == kWarpLanes);
  operation.address[3] = ~std::uint64_t{0} - 1;  // the end would wrap
  CHECK(memory.first_outside(0, operation) == 3);
  operation.address[3] = 98;
  CHECK(memory.first_outside(0, operation) == 3);
  CHECK_THROWS_AS(memory.store(0, operation), CheckFailed);
  CHECK(memory.contains(0, 0, 100));
  CHECK(memory.contains(0, 100, 0));
  CHECK_FALSE(memory.contains(0, 1, 100));
  CHECK_FALSE(memory.contains(0, ~std::uint64_t{0}, 2));
  CHECK(memory.first_outside(0, strided(96, 0, 16)) == 0);
}

TEST_CASE("lanes that read or write a column of a tile of 16-byte units take 8 cycles, and 1 swizzled",
          "[sm][TMA-21][TMA-20]") {
  using heddle::arch::Swizzle;
  const heddle::arch::SwizzleTable table;
  const auto cycles = [&table](OpCode code, Swizzle swizzle, std::uint32_t pitch, std::uint32_t column) {
    Operation operation = access(code, 16, 0xFF);
    for (std::uint32_t row = 0; row < 8; ++row) operation.address[row] = table(swizzle, row * pitch + 16 * column);
    return wavefronts(operation);
  };
  for (const OpCode code : {OpCode::load, OpCode::store}) {
    for (std::uint32_t column = 0; column < 8; ++column) {
      CHECK(cycles(code, Swizzle::none, 128, column) == 8);
      CHECK(cycles(code, Swizzle::bytes128, 128, column) == 1);
    }
    for (std::uint32_t column = 0; column < 4; ++column) {
      CHECK(cycles(code, Swizzle::none, 64, column) == 4);
      CHECK(cycles(code, Swizzle::bytes64, 64, column) == 1);
    }
    for (std::uint32_t column = 0; column < 2; ++column) {
      CHECK(cycles(code, Swizzle::none, 32, column) == 2);
      CHECK(cycles(code, Swizzle::bytes32, 32, column) == 1);
    }
  }
}

}  // namespace sm_shared_memory_test

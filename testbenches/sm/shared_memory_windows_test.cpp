// Windows of shared memory that move, shrink and hold corrupt data, against plain vectors.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "sm/shared_memory.h"
#include "support/random.h"

namespace sm_shared_memory_windows_test {

using namespace heddle::sm;
using heddle::CheckFailed;
using heddle::arch::kWarpLanes;
using heddle::arch::LaneMask;
using heddle::arch::OpCode;
using heddle::arch::Operation;
using heddle::test::Random;

namespace {

// Windows as plain vectors of their own, and what moves where is nobody's business.
class Oracle {
 public:
  struct Window {
    bool open = false;
    std::vector<std::uint8_t> bytes;
    std::vector<bool> corrupt;  // by granule
  };
  static constexpr std::uint32_t kWindows = 12;
  static constexpr std::uint32_t kCapacity = 8192;

  explicit Oracle(std::uint64_t seed) : random_(seed), memory_(kCapacity, kWindows) {}

  bool run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::uint32_t window = random_.below(kWindows);
      act(window);
      if (!agrees()) return false;
    }
    return true;
  }
  std::uint32_t moves() const { return moves_; }

 private:
  void act(std::uint32_t window) {
    Window& its = windows_[window];
    if (!its.open) return open(window);
    if (random_.chance(15)) {
      memory_.close(window);
      its = {};
    } else if (random_.chance(15)) {
      release(window);
    } else if (random_.chance(20)) {
      poison(window);
    } else if (random_.chance(20)) {
      fill(window);
    } else {
      access_it(window);
    }
  }
  void open(std::uint32_t window) {
    const std::uint32_t left = kCapacity - memory_.used();
    const std::uint32_t most = random_.chance(10) ? left : left / random_.between(1, 6);
    const std::uint32_t bytes = random_.chance(20) ? most : random_.below(std::uint64_t{most} + 1);
    std::array<std::uint32_t, kWindows> before{};
    for (std::uint32_t i = 0; i < kWindows; ++i) before[i] = windows_[i].open ? memory_.base(i) : 0;
    memory_.open(window, bytes);
    for (std::uint32_t i = 0; i < kWindows; ++i) moves_ += windows_[i].open && memory_.base(i) != before[i] ? 1 : 0;
    windows_[window].open = true;
    windows_[window].bytes.assign(bytes, 0);
    windows_[window].corrupt.assign(bytes / kPoisonBytes + 1, false);
  }
  void release(std::uint32_t window) {
    std::vector<std::uint8_t>& bytes = windows_[window].bytes;
    const std::uint32_t from = random_.below(bytes.size() + bytes.size() / 4 + 1);
    const std::uint32_t freed = from < bytes.size() ? static_cast<std::uint32_t>(bytes.size()) - from : 0;
    right_ = right_ && memory_.release(window, from) == freed;
    bytes.resize(bytes.size() - freed);
    if (bytes.empty()) windows_[window].corrupt.assign(windows_[window].corrupt.size(), false);
  }
  void poison(std::uint32_t window) {
    Window& its = windows_[window];
    const std::uint32_t offset = random_.below(its.bytes.size() + 1);
    const std::uint32_t bytes = random_.below(std::min<std::size_t>(its.bytes.size() - offset, 200) + 1);
    memory_.poison(window, offset, bytes);
    for (std::uint32_t i = offset; i < offset + bytes; ++i) its.corrupt[i / kPoisonBytes] = true;
  }
  // As a request from elsewhere writes.
  void fill(std::uint32_t window) {
    Window& its = windows_[window];
    const std::uint32_t offset = random_.below(its.bytes.size() + 1);
    const std::uint32_t bytes = random_.below(std::min<std::size_t>(its.bytes.size() - offset, 128) + 1);
    std::vector<std::uint8_t> enables(bytes, 0xFF);
    if (random_.chance(60)) {
      for (std::uint8_t& enable : enables) enable = random_.chance(97) ? 0xFF : 0;
    }
    std::vector<bool> written(its.bytes.size());
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (enables[i] == 0) continue;
      const auto value = static_cast<std::uint8_t>(random_.next());
      memory_.data(window)[offset + i] = its.bytes[offset + i] = value;
      written[offset + i] = true;
    }
    const bool all = std::count(enables.begin(), enables.end(), 0) == 0;
    memory_.covered(window, offset, bytes, all ? nullptr : enables.data());
    heal(its, written);
  }
  void access_it(std::uint32_t window) {
    Window& its = windows_[window];
    const std::uint32_t width = 1U << random_.below(5);
    if (its.bytes.size() < width) return;
    const OpCode code = random_.chance(60) ? OpCode::store : OpCode::load;
    Operation operation;
    operation.code = code;
    operation.width = static_cast<std::uint8_t>(width);
    operation.lanes = random_.chance(60) ? ~LaneMask{0} : static_cast<LaneMask>(random_.next());
    const std::uint64_t slots = its.bytes.size() / width;
    const std::uint64_t first = random_.below(slots);
    const bool row = random_.chance(50) && first + kWarpLanes <= slots;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      operation.address[lane] = (row ? first + lane : random_.below(slots)) * width;
      for (std::uint32_t& word : operation.data[lane]) word = static_cast<std::uint32_t>(random_.next());
    }
    std::vector<bool> written(its.bytes.size());
    std::vector<std::uint32_t> expected(4 * kWarpLanes);
    std::uint32_t corrupt = kWarpLanes;
    for (std::uint32_t lane = kWarpLanes; lane-- > 0;) {
      if ((operation.lanes >> lane & 1) != 0 && its.corrupt[operation.address[lane] / kPoisonBytes]) corrupt = lane;
    }
    right_ = right_ && memory_.first_poisoned(window, operation) == corrupt;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      for (std::uint32_t i = 0; i < width; ++i) {
        std::uint8_t& byte = its.bytes[operation.address[lane] + i];
        expected[i / 4 * kWarpLanes + lane] |= std::uint32_t{byte} << (8 * (i % 4));
        if (code == OpCode::load) continue;
        byte = static_cast<std::uint8_t>(operation.data[lane][i / 4] >> (8 * (i % 4)));
        written[operation.address[lane] + i] = true;
      }
    }
    std::vector<std::uint32_t> registers(4 * kWarpLanes);
    if (code == OpCode::load) {
      memory_.load(window, operation, registers.data());
      right_ = right_ && registers == expected;
      return;
    }
    memory_.store(window, operation);
    heal(its, written);
  }
  // Of a window's end, what is left of the granule.
  static void heal(Window& its, const std::vector<bool>& written) {
    for (std::size_t granule = 0; granule * kPoisonBytes < its.bytes.size(); ++granule) {
      const std::size_t end = std::min(its.bytes.size(), (granule + 1) * kPoisonBytes);
      bool whole = true;
      for (std::size_t i = granule * kPoisonBytes; i < end; ++i) whole = whole && written[i];
      if (whole) its.corrupt[granule] = false;
    }
  }
  bool agrees() {
    std::uint32_t used = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> places;
    for (std::uint32_t i = 0; i < kWindows && right_; ++i) {
      const Window& its = windows_[i];
      right_ = memory_.is_open(i) == its.open;
      if (!its.open || !right_) continue;
      const auto size = static_cast<std::uint32_t>(its.bytes.size());
      used += size;
      right_ = memory_.size(i) == size && std::equal(its.bytes.begin(), its.bytes.end(), memory_.data(i)) &&
               !memory_.contains(i, size, 1) && memory_.contains(i, 0, size);
      if (size > 0) places.emplace_back(memory_.base(i), size);
      const std::uint32_t offset = random_.below(std::uint64_t{size} + 1);
      const std::uint32_t bytes = random_.below(std::min(size - offset, 100U) + 1);
      bool corrupt = false;
      for (std::uint32_t at = offset; at < offset + bytes; ++at) corrupt = corrupt || its.corrupt[at / kPoisonBytes];
      right_ = right_ && memory_.poisoned(i, offset, bytes) == corrupt;
    }
    std::sort(places.begin(), places.end());
    for (std::size_t i = 0; i < places.size(); ++i) {
      right_ = right_ && places[i].first % 128 == 0;
      if (i > 0) right_ = right_ && places[i - 1].first + places[i - 1].second <= places[i].first;
    }
    return right_ && memory_.used() == used;
  }

  Random random_;
  SharedMemory memory_;
  std::array<Window, kWindows> windows_;
  std::uint32_t moves_ = 0;
  bool right_ = true;
};

}  // namespace

TEST_CASE("windows keep their bytes while others come, shrink and go around them", "[sm][CGA-05][CGA-09]") {
  std::uint32_t moves = 0;
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    Oracle oracle(seed);
    if (!oracle.run(60)) FAIL("seed " << seed);
    moves += oracle.moves();
  }
  CHECK(moves > 1000);  // there were holes, none of which was enough
}

TEST_CASE("windows move together when no hole is large enough", "[sm][CGA-05]") {
  SharedMemory memory(1024, 5);
  for (std::uint32_t window = 0; window < 4; ++window) memory.open(window, 256);
  memory.data(3)[255] = 42;
  memory.set_word(1, 8, 0x0123'4567'89AB'CDEF);
  memory.poison(3, 64, 1);
  memory.close(0);
  memory.close(2);
  memory.open(4, 256);
  CHECK(memory.base(4) == 0);  // first fit
  memory.close(4);
  memory.open(4, 512);
  CHECK(memory.base(1) == 0);
  CHECK(memory.base(3) == 256);
  CHECK(memory.base(4) == 512);
  CHECK(memory.data(3)[255] == 42);
  CHECK(memory.word(1, 8) == 0x0123'4567'89AB'CDEF);
  CHECK(memory.poisoned(3, 95, 1));
  CHECK_FALSE(memory.poisoned(3, 96, 1));
  CHECK_FALSE(memory.poisoned(4, 0, 512));
  CHECK_THROWS_AS(memory.word(1, 249), CheckFailed);
  CHECK_THROWS_AS(memory.poison(1, 250, 7), CheckFailed);
}

TEST_CASE("what a window gives back is free, and not of the window any more", "[sm][CGA-09]") {
  SharedMemory memory(1024, 2);
  memory.open(0, 1000);
  CHECK(memory.release(0, 1000) == 0);
  CHECK(memory.release(0, 400) == 600);
  CHECK(memory.release(0, 700) == 0);
  CHECK(memory.used() == 400);
  CHECK(memory.contains(0, 399, 1));
  CHECK_FALSE(memory.contains(0, 400, 1));
  Operation row;
  row.lanes = ~LaneMask{0};
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) row.address[lane] = 368 + 4 * lane;
  CHECK(memory.first_outside(0, row) == 8);
  memory.open(1, 624);
  CHECK(memory.release(0, 0) == 400);
  CHECK(memory.is_open(0));
  memory.close(0);
  CHECK(memory.used() == 624);
}

}  // namespace sm_shared_memory_windows_test

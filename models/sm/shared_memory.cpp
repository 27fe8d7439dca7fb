#include "sm/shared_memory.h"

#include <array>
#include <cstring>

#include "common/error.h"
#include "sm/lane_data.h"

namespace heddle::sm {
namespace {

using arch::kWarpLanes;
using arch::LaneMask;
using arch::Operation;

std::uint64_t value_at(const std::uint8_t* bytes, std::uint32_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, width);
  return value;
}

std::uint64_t operand_of(const Operation& operation, std::uint32_t lane) {
  const std::array<std::uint32_t, 4>& data = operation.data[lane];
  return operation.width == 8 ? std::uint64_t{data[1]} << 32 | data[0] : data[0];
}

// What the banks have to do for one group of lanes.
class BankUse {
 public:
  explicit BankUse(bool shares) : shares_(shares) {}
  void touch(std::uint64_t word) {
    const auto bank = static_cast<std::uint32_t>(word % kBanks);
    std::array<std::uint64_t, kWarpLanes>& words = words_[bank];
    const std::uint32_t count = count_[bank];
    if (shares_) {
      for (std::uint32_t i = count; i-- > 0;) {
        if (words[i] == word) return;
      }
    }
    words[count] = word;
    count_[bank] = static_cast<std::uint8_t>(count + 1);
    if (count + 1 > worst_) worst_ = count + 1;
  }
  std::uint32_t worst() const { return worst_; }

 private:
  bool shares_;
  std::uint32_t worst_ = 0;
  std::array<std::uint8_t, kBanks> count_{};
  std::array<std::array<std::uint64_t, kWarpLanes>, kBanks> words_;  // of each bank, the first count_; not initialised
};

// All lanes, 4 bytes each, on words in a row: the common case.
bool is_row(const Operation& operation) {
  if (operation.lanes != ~LaneMask{0} || operation.width != 4) return false;
  std::uint64_t difference = operation.address[0] & 3;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    difference |= operation.address[lane] ^ (operation.address[0] + 4 * lane);
  }
  return difference == 0;
}

}  // namespace

SharedMemory::SharedMemory(std::uint32_t capacity, std::uint32_t windows) : capacity_(capacity), windows_(windows) {}

SharedMemory::Window& SharedMemory::at(std::uint32_t window) {
  HEDDLE_CHECK(window < windows_.size() && windows_[window].open, "no such window of shared memory");
  return windows_[window];
}

const SharedMemory::Window& SharedMemory::at(std::uint32_t window) const {
  HEDDLE_CHECK(window < windows_.size() && windows_[window].open, "no such window of shared memory");
  return windows_[window];
}

bool SharedMemory::is_open(std::uint32_t window) const { return window < windows_.size() && windows_[window].open; }

void SharedMemory::open(std::uint32_t window, std::uint32_t bytes) {
  HEDDLE_CHECK(window < windows_.size() && !windows_[window].open, "the window is open already");
  HEDDLE_CHECK(bytes <= capacity_ - used_, "more shared memory than there is");
  used_ += bytes;
  windows_[window] = {std::vector<std::uint8_t>(bytes), true};
}

void SharedMemory::close(std::uint32_t window) {
  used_ -= size(window);
  windows_[window] = {};
}

void SharedMemory::reset() {
  for (Window& window : windows_) window = {};
  used_ = 0;
}

std::uint32_t SharedMemory::first_outside(std::uint32_t window, const Operation& operation) const {
  const std::uint32_t there = size(window);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    if (operation.width > there || operation.address[lane] > there - operation.width) return lane;
  }
  return kWarpLanes;
}

void SharedMemory::load(std::uint32_t window, const Operation& operation, std::uint32_t* registers) const {
  HEDDLE_CHECK(first_outside(window, operation) == kWarpLanes, "a load beyond the window");
  const std::uint8_t* bytes = data(window);
  if (is_row(operation)) {
    std::memcpy(registers, bytes + operation.address[0], std::size_t{4} * kWarpLanes);
    return;
  }
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    put_lane(registers, lane, operation.width, bytes + operation.address[lane]);
  }
}

void SharedMemory::store(std::uint32_t window, const Operation& operation) {
  HEDDLE_CHECK(first_outside(window, operation) == kWarpLanes, "a store beyond the window");
  std::uint8_t* bytes = data(window);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    take_lane(operation.data[lane], operation.width, bytes + operation.address[lane]);
  }
}

void SharedMemory::atomic(std::uint32_t window, const Operation& operation, std::uint32_t* registers) {
  HEDDLE_CHECK(first_outside(window, operation) == kWarpLanes, "an atomic beyond the window");
  HEDDLE_CHECK(operation.width == arch::bytes_of(operation.type), "an atomic of another width than its type");
  std::uint8_t* bytes = data(window);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    std::uint8_t* at = bytes + operation.address[lane];
    const std::uint64_t old = value_at(at, operation.width);
    const std::uint64_t result = arch::atomic_result(operation.atomic, operation.type, old, operand_of(operation, lane),
                                                     operation.compare[lane]);
    if (registers != nullptr) put_lane(registers, lane, operation.width, at);
    std::memcpy(at, &result, operation.width);
  }
}

std::uint32_t wavefronts(const Operation& operation) {
  if (is_row(operation)) return 1;
  const bool shares = operation.code != arch::OpCode::atomic;
  const std::uint32_t words = operation.width <= kBankBytes ? 1 : operation.width / kBankBytes;
  const std::uint32_t group = kWarpLanes / words;  // lanes served together
  std::uint32_t cycles = 0;
  for (std::uint32_t first = 0; first < kWarpLanes; first += group) {
    BankUse banks(shares);
    for (std::uint32_t lane = first; lane < first + group; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      for (std::uint32_t word = 0; word < words; ++word) banks.touch(operation.address[lane] / kBankBytes + word);
    }
    cycles += banks.worst();
  }
  return cycles;
}

}  // namespace heddle::sm

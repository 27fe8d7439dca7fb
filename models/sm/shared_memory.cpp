#include "sm/shared_memory.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/bits.h"
#include "common/error.h"
#include "sm/lane_data.h"

namespace heddle::sm {
namespace {

using arch::kLineBytes;
using arch::kWarpLanes;
using arch::LaneMask;
using arch::Operation;

constexpr std::uint32_t room_for(std::uint32_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes; }

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
    difference |= operation.address[lane] ^ (operation.address[0] + std::uint64_t{4} * lane);
  }
  return difference == 0;
}

}  // namespace

// Windows begin at whole lines: so the array has a line more for each than they have bytes together.
SharedMemory::SharedMemory(std::uint32_t capacity, std::uint32_t windows)
    : capacity_(capacity), storage_(room_for(capacity) + windows * kLineBytes), windows_(windows) {}

SharedMemory::Window& SharedMemory::at(std::uint32_t window) {
  HEDDLE_CHECK(window < windows_.size() && windows_[window].open, "no such window of shared memory");
  return windows_[window];
}

const SharedMemory::Window& SharedMemory::at(std::uint32_t window) const {
  HEDDLE_CHECK(window < windows_.size() && windows_[window].open, "no such window of shared memory");
  return windows_[window];
}

void SharedMemory::open(std::uint32_t window, std::uint32_t bytes) {
  HEDDLE_CHECK(window < windows_.size() && !windows_[window].open, "the window is open already");
  HEDDLE_CHECK(bytes <= capacity_ - used_, "more shared memory than there is");
  if (bytes_.get() == nullptr) bytes_ = ZeroedArray<std::uint8_t>(storage_);
  used_ += bytes;
  windows_[window] = {};
  windows_[window].open = true;
  windows_[window].bytes = windows_[window].opened = bytes;
  if (bytes == 0) return;
  place(window);
  std::memset(data(window), 0, bytes);
}

// First fit.
void SharedMemory::place(std::uint32_t window) {
  if (fits(window, room_for(capacity_))) return;
  compact();
  HEDDLE_CHECK(fits(window, storage_), "windows of shared memory that were moved together left no room");
}

bool SharedMemory::fits(std::uint32_t window, std::uint32_t end) {
  Window& its = windows_[window];
  std::uint32_t hole = 0;
  for (std::size_t i = 0; i <= order_.size(); ++i) {
    const std::uint32_t next = i < order_.size() ? windows_[order_[i]].base : end;
    if (hole + room_for(its.bytes) <= next) {
      its.base = hole;
      order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(i), window);
      return true;
    }
    if (i < order_.size()) hole = next + room_for(windows_[order_[i]].bytes);
  }
  return false;
}

void SharedMemory::compact() {
  std::uint32_t end = 0;
  for (const std::uint32_t window : order_) {
    Window& its = windows_[window];
    if (its.base != end) std::memmove(bytes_.get() + end, bytes_.get() + its.base, its.bytes);
    its.base = end;
    end += room_for(its.bytes);
  }
}

void SharedMemory::fill(std::uint32_t window, const std::vector<std::uint8_t>& bytes) {
  Window& its = at(window);
  HEDDLE_CHECK(bytes.size() == its.bytes, "a window of shared memory is filled with more or less than it has");
  std::copy(bytes.begin(), bytes.end(), bytes_.get() + its.base);
  its.words = ~std::uint64_t{0};
}

void SharedMemory::close(std::uint32_t window) {
  release(window, 0);
  if (windows_[window].view != nullptr) --watched_;
  windows_[window].view.reset();
  windows_[window].open = false;
}

std::uint32_t SharedMemory::release(std::uint32_t window, std::uint64_t from) {
  Window& its = at(window);
  if (from >= its.bytes) return 0;
  const std::uint32_t freed = its.bytes - static_cast<std::uint32_t>(from);
  its.bytes -= freed;
  used_ -= freed;
  if (its.bytes == 0) {
    order_.erase(std::find(order_.begin(), order_.end(), window));
    drop_poison(its);
  }
  return freed;
}

void SharedMemory::reset() {
  for (Window& window : windows_) window = {};
  order_.clear();
  used_ = poisoned_windows_ = watched_ = 0;
}

void SharedMemory::watch(std::uint32_t window) {
  Window& its = at(window);
  if (its.view == nullptr) ++watched_;
  its.view = std::make_unique<AsyncView>(its.bytes);
}

void SharedMemory::tell_view(std::uint32_t window, std::uint32_t offset, std::uint32_t bytes,
                             std::optional<std::uint32_t> warp) {
  Window& its = at(window);
  if (its.view != nullptr) its.view->will_write(data(window), offset, bytes, warp);
}

std::optional<std::uint32_t> SharedMemory::async_read(std::uint32_t window, std::uint32_t offset, std::uint32_t bytes,
                                                      std::uint8_t* to) const {
  const Window& its = at(window);
  if (its.view != nullptr) return its.view->read(data(window), offset, bytes, to);
  std::memcpy(to, data(window) + offset, bytes);
  return std::nullopt;
}

void SharedMemory::drop_poison(Window& window) {
  if (window.poison.empty()) return;
  window.poison.clear();
  --poisoned_windows_;
}

void SharedMemory::poison(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes) {
  HEDDLE_CHECK(contains(window, offset, bytes), "poison beyond the window");
  if (bytes == 0) return;
  Window& its = at(window);
  if (its.poison.empty()) {
    its.poison.assign(its.opened / kPoisonBytes / 64 + 1, 0);
    ++poisoned_windows_;
  }
  for (std::uint64_t granule = offset / kPoisonBytes; granule <= (offset + bytes - 1) / kPoisonBytes; ++granule) {
    its.poison[granule / 64] |= std::uint64_t{1} << granule % 64;
  }
}

bool SharedMemory::poisoned(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes) const {
  const std::vector<std::uint64_t>& poison = at(window).poison;
  if (poison.empty() || bytes == 0) return false;
  for (std::uint64_t granule = offset / kPoisonBytes; granule <= (offset + bytes - 1) / kPoisonBytes; ++granule) {
    if ((poison[granule / 64] >> granule % 64 & 1) != 0) return true;
  }
  return false;
}

std::uint32_t SharedMemory::first_poisoned(std::uint32_t window, const Operation& operation) const {
  if (poisoned_windows_ == 0) return kWarpLanes;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    if (poisoned(window, operation.address[lane], operation.width)) return lane;
  }
  return kWarpLanes;
}

void SharedMemory::sound(std::uint32_t window, std::uint64_t offset, std::uint64_t bytes, const std::uint8_t* enables) {
  Window& its = at(window);
  if (its.poison.empty()) return;
  for (std::uint64_t granule = (offset + kPoisonBytes - 1) / kPoisonBytes;; ++granule) {
    const std::uint64_t begin = granule * kPoisonBytes;
    // The last granule of a window of odd size is shorter.
    const std::uint64_t end = std::min<std::uint64_t>(begin + kPoisonBytes, its.bytes);
    if (begin >= end || end > offset + bytes) return;
    const bool whole = enables == nullptr || std::all_of(enables + (begin - offset), enables + (end - offset),
                                                         [](std::uint8_t enable) { return enable != 0; });
    if (whole) its.poison[granule / 64] &= ~(std::uint64_t{1} << granule % 64);
  }
}

// What the lanes of one operation write together counts as one write. Each lane's bytes lie in one granule.
template <class Offset>
void SharedMemory::sound_lanes(std::uint32_t window, LaneMask lanes, const arch::PerLane<Offset>& offset,
                               std::uint32_t width) {
  if (at(window).poison.empty()) return;
  for (std::uint32_t first = 0; first < kWarpLanes; ++first) {
    if ((lanes >> first & 1) == 0) continue;
    const std::uint64_t granule = offset[first] / kPoisonBytes;
    std::array<std::uint8_t, kPoisonBytes> enables{};
    for (std::uint32_t lane = first; lane < kWarpLanes; ++lane) {
      if ((lanes >> lane & 1) == 0 || offset[lane] / kPoisonBytes != granule) continue;
      std::memset(enables.data() + offset[lane] % kPoisonBytes, 0xFF, width);
    }
    sound(window, granule * kPoisonBytes, kPoisonBytes, enables.data());
  }
}
template void SharedMemory::sound_lanes(std::uint32_t, LaneMask, const arch::PerLane<std::uint32_t>&, std::uint32_t);

std::uint64_t SharedMemory::word(std::uint32_t window, std::uint64_t offset) const {
  HEDDLE_CHECK(contains(window, offset, 8), "an object beyond the window");
  return value_at(data(window) + offset, 8);
}

void SharedMemory::set_word(std::uint32_t window, std::uint64_t offset, std::uint64_t value) {
  HEDDLE_CHECK(contains(window, offset, 8), "an object beyond the window");
  Window& its = at(window);
  std::memcpy(bytes_.get() + its.base + offset, &value, sizeof value);
  its.words |= std::uint64_t{1} << line_bit(offset);
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

void SharedMemory::store(std::uint32_t window, const Operation& operation, std::uint32_t warp) {
  HEDDLE_CHECK(first_outside(window, operation) == kWarpLanes, "a store beyond the window");
  if (watched_ > 0) tell_lanes(window, operation, warp);
  std::uint8_t* bytes = data(window);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    take_lane(operation.data[lane], operation.width, bytes + operation.address[lane]);
  }
  if (poisoned_windows_ > 0) sound_lanes(window, operation.lanes, operation.address, operation.width);
}

void SharedMemory::tell_lanes(std::uint32_t window, const Operation& operation, std::uint32_t warp) {
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    tell_view(window, static_cast<std::uint32_t>(operation.address[lane]), operation.width, warp);
  }
}

void SharedMemory::atomic(std::uint32_t window, const Operation& operation, std::uint32_t* registers,
                          std::uint32_t warp) {
  HEDDLE_CHECK(first_outside(window, operation) == kWarpLanes, "an atomic beyond the window");
  HEDDLE_CHECK(operation.width == arch::bytes_of(operation.type), "an atomic of another width than its type");
  if (watched_ > 0) tell_lanes(window, operation, warp);
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

std::uint32_t copy_wavefronts(LaneMask lanes, const arch::PerLane<std::uint32_t>& address, std::uint32_t width) {
  const std::uint32_t words = std::max(1U, width / kBankBytes);
  std::uint32_t cycles = 0;
  while (lanes != 0) {
    BankUse banks(true);
    for (std::uint32_t count = 0; lanes != 0 && count < kWarpLanes / words; ++count) {
      const std::uint32_t lane = bits::lowest(lanes);
      lanes &= lanes - 1;
      for (std::uint32_t word = 0; word < words; ++word) banks.touch(address[lane] / kBankBytes + word);
    }
    cycles += banks.worst();
  }
  return cycles;
}

}  // namespace heddle::sm

#include "memory/l2_array.h"

#include <array>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::memory {
namespace {

// Who has the lowest leaves first: evict_first, then those without a wish, then evict_last; the oldest of these.
std::uint64_t rank_of(const L2Line& line) {
  constexpr std::array<std::uint64_t, 3> kTurn{1, 0, 2};
  return kTurn[static_cast<std::size_t>(line.priority)] << 56 | line.used;
}

}  // namespace

L2Array::L2Array(std::uint32_t lines, std::uint32_t ways, std::uint32_t slices, std::uint32_t fetch_sectors)
    : lines_(lines), ways_(ways), slices_(slices), fetch_sectors_(fetch_sectors), sets_(lines / ways) {
  HEDDLE_CHECK(sets_ > 0 && lines % ways == 0, "the lines of a slice do not make whole sets");
  reset();
}

void L2Array::reset() {
  tags_ = ZeroedArray<std::uint32_t>(lines_);
  states_ = ZeroedArray<L2Line>(lines_);
  data_ = ZeroedArray<std::uint8_t>(std::size_t{lines_} * arch::kLineBytes);
  dirty_.assign((lines_ + 63) / 64, 0);
  uses_ = 0;
  if (presence_ != nullptr) presence_->clear();  // all slices are reset together
}

std::uint32_t L2Array::victim(std::uint64_t line) const {
  const std::uint32_t first = first_of(line);
  for (std::uint32_t i = first; i < first + ways_; ++i) {
    if (tags_[i] == 0) return i;
  }
  std::uint32_t best = kNone;
  std::uint64_t lowest = ~std::uint64_t{0};
  for (std::uint32_t i = first; i < first + ways_; ++i) {
    const L2Line& state = states_[i];
    const std::uint64_t rank = rank_of(state);
    if (rank >= lowest || state.mshr != 0 || state.pinned != 0) continue;
    best = i;
    lowest = rank;
  }
  return best;
}

bool L2Array::has_spare(std::uint64_t line) const {
  const std::uint32_t first = first_of(line);
  std::uint32_t places = 0;
  for (std::uint32_t i = first; i < first + ways_; ++i)
    places += states_[i].mshr == 0 && states_[i].pinned == 0 ? 1 : 0;
  return places > 1;
}

std::uint32_t L2Array::older_than(std::uint32_t index) const {
  const std::uint32_t first = index / ways_ * ways_;
  std::uint32_t older = 0;
  for (std::uint32_t i = first; i < first + ways_; ++i) {
    if (tags_[i] != 0 && states_[i].used < states_[index].used) ++older;
  }
  return older;
}

void L2Array::apply(const L2Access& access, std::uint32_t index) {
  touch(index, access);
  if (!perform(access, data(index))) return;
  L2Line& state = states_[index];
  state.valid = state.valid | access.bytes;
  const std::uint32_t sectors = access.bytes.touched();
  state.writers.set(sectors, access.owner());
  set_dirty(index, sectors);
}

void L2Array::fill(std::uint32_t index, std::uint32_t sectors, const std::uint8_t* image) {
  L2Line& state = states_[index];
  const LineMask arrived = LineMask::sectors(sectors);
  copy_bytes(data(index), image, arrived & ~state.valid);
  state.valid = state.valid | arrived;
}

void L2Array::drop(std::uint32_t index) {
  set_clean(index);
  if (presence_ != nullptr && occupied(index)) presence_->take(line_at(index));
  tags_[index] = 0;
  states_[index] = L2Line();
}

void L2Array::drop_clean(std::uint32_t index) {
  L2Line& state = states_[index];
  state.valid = state.valid & LineMask::sectors(state.dirty);
  if (state.dirty == 0 && state.mshr == 0 && state.pinned == 0) drop(index);
}

std::uint32_t L2Array::next_dirty(std::uint32_t index) const {
  for (std::uint32_t word = index / 64; word < dirty_.size(); ++word) {
    std::uint64_t dirty = dirty_[word];
    if (word == index / 64) dirty &= ~std::uint64_t{0} << (index % 64);
    if (dirty != 0) return word * 64 + bits::lowest(dirty);
  }
  return kNone;
}

}  // namespace heddle::memory

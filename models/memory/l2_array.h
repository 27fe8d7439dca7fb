// Tags, states and bytes of a slice's lines.
#pragma once

#include <cstdint>
#include <vector>

#include "common/storage.h"
#include "memory/l2_access.h"
#include "memory/l2_presence.h"

namespace heddle::memory {

// All zero: an empty place. A line of which no byte is valid can only be one that is being fetched.
struct L2Line {
  LineMask valid;  // bytes
  // When it was used last, a running number; and blocking accesses that work on it. One word, so that a line's state
  // stays half a line of the host's.
  std::uint64_t used : 56;
  std::uint64_t pinned : 8;
  SectorOwners writers;    // who has written the sector last, as far as it is dirty
  std::uint16_t mshr = 0;  // 1 + number of the miss-status register that fetches parts of it
  std::uint8_t dirty = 0;  // sectors with bytes that memory does not have
  arch::EvictionPriority priority = arch::EvictionPriority::normal;  // of the last access

  L2Line() : used(0), pinned(0) {}
  // All bytes of these sectors are valid.
  bool holds(std::uint32_t sectors) const {
    if ((valid.low & valid.high) == ~std::uint64_t{0}) return true;
    return !(LineMask::sectors(sectors) & ~valid).any();
  }
};

// Storage is allocated zeroed by the operating system and costs nothing until it is used: a machine has many slices.
class L2Array {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint64_t kUses = (std::uint64_t{1} << 56) - 1;  // enough for any run

  // `lines`: a multiple of `ways`. Lines are dealt out to `slices` slices in turn, which decides the set.
  // `fetch_sectors`: a power of two: a miss fetches all of an aligned group of so many.
  L2Array(std::uint32_t lines, std::uint32_t ways, std::uint32_t slices, std::uint32_t fetch_sectors = 1);

  // Lines are counted there as well.
  void count_in(L2Presence& presence) { presence_ = &presence; }

  // Where a line (address / 128) is; kNone if it is not here.
  std::uint32_t find(std::uint64_t line) const {
    const std::uint32_t first = first_of(line);
    const auto tag = static_cast<std::uint32_t>(line + 1);
    for (std::uint32_t i = first; i < first + ways_; ++i) {
      if (tags_[i] == tag) return i;
    }
    return kNone;
  }
  // Where it could go: an empty place, else the one used least recently among those that nobody works on, of the lowest
  // eviction priority that there is (TMA-05); else kNone.
  std::uint32_t victim(std::uint64_t line) const;
  void place(std::uint32_t index, std::uint64_t line) {
    tags_[index] = static_cast<std::uint32_t>(line + 1);
    if (presence_ != nullptr) presence_->add(line);
  }
  void drop(std::uint32_t index);
  // What memory has of the line goes, and what it does not have stays: the sectors that are dirty.
  void drop_clean(std::uint32_t index);
  std::uint32_t lines() const { return lines_; }
  // Two places at least that it could go to.
  bool has_spare(std::uint64_t line) const;
  // Lines of its set that were used less recently.
  std::uint32_t older_than(std::uint32_t index) const;
  // Sectors to fetch if the access needs some that are not here.
  std::uint32_t fetched(const L2Access& access, const LineMask& valid) const {
    const std::uint32_t sectors = access.fetched(valid);
    if (fetch_sectors_ == 1 || sectors == 0) return sectors;
    std::uint32_t widened = 0;
    for (std::uint32_t first = 0; first < arch::kSectorsPerLine; first += fetch_sectors_) {
      const std::uint32_t group = SectorRun{first, fetch_sectors_}.mask();
      if ((sectors & group) != 0) widened |= group;
    }
    return (LineMask::sectors(widened) & ~valid).touched();
  }
  bool occupied(std::uint32_t index) const { return tags_[index] != 0; }
  std::uint64_t line_at(std::uint32_t index) const { return tags_[index] - 1; }

  L2Line& state(std::uint32_t index) { return states_[index]; }
  const L2Line& state(std::uint32_t index) const { return states_[index]; }
  std::uint8_t* data(std::uint32_t index) { return data_.get() + std::size_t{index} * arch::kLineBytes; }
  const std::uint8_t* data(std::uint32_t index) const { return data_.get() + std::size_t{index} * arch::kLineBytes; }
  // For a CacheWarmer: the tags of a line's set, and after these what they lead to.
  void warm_tags(std::uint64_t line) const { warm_line(&tags_[first_of(line)]); }
  void warm_entry(std::uint64_t line) const {
    const std::uint32_t index = find(line);
    if (index != kNone) warm_place(index);
  }
  void warm_place(std::uint32_t index) const {
    warm_line(&states_[index]);
    warm_line(data(index));
    warm_line(data(index) + arch::kLineBytes / 2);
  }
  // All states of a set, of which one has to leave.
  void warm_set(std::uint64_t line) const {
    const std::uint32_t first = first_of(line);
    for (std::uint32_t i = first; i < first + ways_; i += 64 / sizeof(L2Line)) warm_line(&states_[i]);
  }
  bool is_at(std::uint32_t index, std::uint64_t line) const {
    return tags_[index] == static_cast<std::uint32_t>(line + 1);
  }
  void touch(std::uint32_t index, arch::EvictionPriority priority) {
    states_[index].used = ++uses_ & kUses;
    states_[index].priority = priority;
  }
  void touch(std::uint32_t index, const L2Access& access) {
    states_[index].used = ++uses_ & kUses;
    if (access.extension != nullptr) states_[index].priority = access.extension->priority;
  }
  // The access takes effect on the line, all of whose bytes that it reads are here.
  void apply(const L2Access& access, std::uint32_t index);
  // Sectors have come from memory. Bytes that are valid already are newer than memory's.
  void fill(std::uint32_t index, std::uint32_t sectors, const std::uint8_t* image);

  void set_dirty(std::uint32_t index, std::uint32_t sectors) {
    states_[index].dirty = static_cast<std::uint8_t>(states_[index].dirty | sectors);
    dirty_[index / 64] |= std::uint64_t{1} << (index % 64);
  }
  void set_clean(std::uint32_t index) {
    states_[index].dirty = 0;
    dirty_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
  }
  // The first dirty line from `index` on; kNone without one.
  std::uint32_t next_dirty(std::uint32_t index) const;

  void reset();

 private:
  std::uint32_t first_of(std::uint64_t line) const {
    // Line numbers have 32 bits, for which division is cheaper.
    return static_cast<std::uint32_t>(line) / slices_ % sets_ * ways_;
  }

  std::uint32_t lines_;
  std::uint32_t ways_;
  std::uint32_t slices_;
  std::uint32_t fetch_sectors_;
  std::uint32_t sets_;
  ZeroedArray<std::uint32_t> tags_;  // 1 + line number; 0: empty
  ZeroedArray<L2Line> states_;
  ZeroedArray<std::uint8_t> data_;
  std::vector<std::uint64_t> dirty_;  // one bit per line
  std::uint64_t uses_ = 0;
  L2Presence* presence_ = nullptr;  // null: nobody asks
};

}  // namespace heddle::memory

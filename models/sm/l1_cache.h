// The L1 data cache of one SM: lines of real bytes, and the reads under way to the L2.
//
// Set associative, 128-byte lines of four sectors, least recently used. Write-through: a store updates sectors that are
// here and brings none in. There is no coherence with other SMs (MEM-06): the owner says when to forget.
//
// Each read under way has an entry; loads that want sectors which a read will bring wait for it. A read that a store,
// an atomic or an invalidation has overtaken still serves those who waited before, for they are older; but its bytes
// are not kept, and later loads ask anew. As the path to the L2 keeps the order of one SM's requests to one address,
// they see the SM's own store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/memory_op.h"
#include "common/error.h"
#include "common/storage.h"

namespace heddle::sm {

class L1Cache {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Load {
    bool accepted = false;                // false: no entry is free; nothing has changed
    std::uint8_t hit = 0;                 // sectors that are here: read them from `bytes` now
    std::uint8_t merged = 0;              // that an earlier read brings
    std::uint8_t missing = 0;             // that have to be requested now, for `entry`
    std::uint32_t entry = kNone;          // of `missing`; kNone if there is none
    const std::uint8_t* bytes = nullptr;  // the line, for hit sectors; valid until the next call
  };

  // `entries`: reads under way at a time. No bytes before resize().
  L1Cache(std::uint32_t ways, std::uint32_t entries);

  // Capacity in bytes, rounded down to whole sets; 0: nothing is kept. A change drops all lines; reads under way go on.
  void resize(std::uint32_t bytes);
  std::uint32_t capacity() const { return sets_ * ways_ * arch::kLineBytes; }

  // A weak load of those sectors. `waiter` (the owner's own number) is named by fill() once for each read that brings
  // some of merged | missing.
  Load load(std::uint64_t line, std::uint8_t sectors, std::uint32_t waiter);

  // A read's answer: the line's bytes from `offset` on, at least the requested sectors. Calls
  // served(waiter, sectors) for all who waited for it, in the order in which they came. The entry is free again.
  template <class Served>
  void fill(std::uint32_t entry, const std::uint8_t* bytes, std::uint32_t offset, Served&& served) {
    keep(entry, bytes, offset);
    finish(entry, served);
  }
  // The same for a read that failed: nothing is kept.
  template <class Served>
  void fail(std::uint32_t entry, Served&& served) {
    finish(entry, served);
  }

  // The same at once, where what is missing comes inside the same call: no read is ever under way. First, where the
  // line is or will go; then a load of sectors that are here, or sectors of an image of the line that have come.
  struct Place {
    std::uint32_t tag = kNone;  // kNone: nothing can be kept
    std::uint8_t here = 0;      // sectors
    std::uint32_t version = 0;  // of the cache, when it was looked up
  };
  Place look(std::uint64_t line) const {
    Place place;
    place.version = version_;
    if (sets_ == 0) return place;
    const auto first = static_cast<std::uint32_t>(set_of(line) * ways_);
    for (std::uint32_t i = first; i < first + ways_; ++i) {
      // The key of a line that is here differs from its address by its sectors.
      if ((tags_[i].key ^ line) - 1 >= kAllSectors || tags_[i].epoch != epoch_) continue;
      place.tag = i;
      place.here = tags_[i].sectors();
      return place;
    }
    place.tag = static_cast<std::uint32_t>(victim(first));
    return place;
  }
  // Nothing has changed since then.
  bool still(const Place& place) const { return place.version == version_; }
  const std::uint8_t* read(const Place& place) {
    ++version_;
    use(tags_[place.tag]);
    return bytes_of(place);
  }
  void put(const Place& place, std::uint64_t line, std::uint8_t sectors, const std::uint8_t* image);
  // For the computer's caches, before look() and before read() or put().
  void warm_set(std::uint64_t line) const {
    if (sets_ == 0) return;
    const Tag* tags = &tags_[set_of(line) * ways_];
    for (std::uint32_t way = 0; way < ways_; way += 64 / sizeof(Tag)) warm_line(tags + way);
  }
  void warm_place(const Place& place) const {
    if (place.tag == kNone) return;
    warm_line(bytes_of(place));
    warm_line(bytes_of(place) + 64);
  }

  // A store of this SM to [line + offset, line + offset + count): bytes whose enable is not 0 (null: all). Returns the
  // sectors that were here and have been updated.
  std::uint8_t store(std::uint64_t line, std::uint32_t offset, const std::uint8_t* bytes, const std::uint8_t* enables,
                     std::uint32_t count);
  // Those sectors change beyond this cache: an atomic or strong store of this SM.
  void forget(std::uint64_t line, std::uint8_t sectors);
  // An acquire, or a kernel's start. Takes no time that depends on the contents.
  void invalidate_all() {
    ++version_;
    if (++epoch_ == 0) begin_epochs();
  }
  // Another number after each invalidate_all().
  std::uint32_t epoch() const { return epoch_; }
  // Drops everything, reads under way included.
  void reset();

  // Sectors of that line that are here; for statistics and tests.
  std::uint8_t present(std::uint64_t line) const;
  std::uint32_t reads() const { return entries_used_; }
  std::uint32_t free_entries() const { return max_entries_ - entries_used_; }
  std::uint64_t line_of(std::uint32_t entry) const { return used(entry).line; }
  std::uint8_t sectors_of(std::uint32_t entry) const { return used(entry).sectors; }

 private:
  // Small, as every access looks at all of a set.
  struct Tag {
    std::uint64_t key = 0;    // address of the line; below, its sectors: none, the place is free
    std::uint32_t epoch = 0;  // valid only in the cache's
    std::uint32_t stamp = 0;  // of the last use
    std::uint64_t line() const { return key & ~std::uint64_t{arch::kLineBytes - 1}; }
    std::uint8_t sectors() const { return key & kAllSectors; }
    void set_sectors(std::uint8_t sectors) { key = line() | sectors; }
  };
  struct Entry {
    std::uint64_t line = 0;
    std::uint32_t epoch = 0;      // in which it was asked for
    std::uint32_t next = kNone;   // in its bucket, or of the free ones
    std::uint32_t first = kNone;  // waiter
    std::uint32_t last = kNone;
    std::uint8_t sectors = 0;  // requested; 0: the entry is free
    std::uint8_t live = 0;     // of these, what may be kept and merged with
  };
  // A load that waits for a line that is under way.
  struct MshrTarget {
    std::uint32_t id = 0;
    std::uint32_t next = kNone;
    std::uint8_t sectors = 0;
  };

  template <class Served>
  void finish(std::uint32_t entry, Served& served) {
    std::uint32_t node = release(entry);
    while (node != kNone) {
      const MshrTarget target = targets_[node];
      targets_[node].next = free_target_;
      free_target_ = node;
      served(target.id, target.sectors);
      node = target.next;
    }
  }

  std::size_t set_of(std::uint64_t line) const {
    const std::uint64_t number = line / arch::kLineBytes;
    // A division of 32 bits is cheaper, and memories are small enough for it.
    const auto low = static_cast<std::uint32_t>(number);
    return low == number ? low % sets_ : number % sets_;
  }
  const std::uint8_t* bytes_of(const Place& place) const {
    return bytes_.data() + std::size_t{place.tag} * arch::kLineBytes;
  }
  std::size_t find(std::uint64_t line) const;  // of the tag; kNoTag
  // Where a line will go in the set that begins there.
  std::size_t victim(std::size_t first) const {
    std::size_t oldest = first;
    for (std::size_t i = first; i < first + ways_; ++i) {
      if (tags_[i].epoch != epoch_ || tags_[i].sectors() == 0) return i;
      if (tags_[i].stamp < tags_[oldest].stamp) oldest = i;
    }
    return oldest;
  }
  std::uint32_t& bucket_of(std::uint64_t line);
  std::uint32_t first_entry(std::uint64_t line) { return entries_used_ == 0 ? kNone : bucket_of(line); }
  void clear_entries();
  std::uint8_t live_of(const Entry& entry) const { return entry.epoch == epoch_ ? entry.live : std::uint8_t{0}; }
  const Entry& used(std::uint32_t entry) const;
  std::uint32_t take_entry(std::uint64_t line, std::uint8_t sectors);
  void wait(Entry& entry, std::uint32_t waiter, std::uint8_t sectors);
  void keep(std::uint32_t entry, const std::uint8_t* bytes, std::uint32_t offset);
  std::uint32_t release(std::uint32_t entry);  // gives the first waiter
  void overtake(std::uint64_t line, std::uint8_t sectors);

  void use(Tag& tag) {
    if (stamp_ == ~std::uint32_t{0}) begin_stamps();
    tag.stamp = ++stamp_;
  }
  void begin_epochs();
  void begin_stamps();

  static constexpr std::size_t kNoTag = ~std::size_t{0};
  static constexpr std::uint8_t kAllSectors = (1U << arch::kSectorsPerLine) - 1;

  std::uint32_t ways_;
  std::uint32_t sets_ = 0;
  std::uint32_t epoch_ = 1;
  std::uint32_t stamp_ = 0;
  std::uint32_t version_ = 1;      // another one after each change of the tags
  BigVector<Tag> tags_;            // [set][way]
  BigVector<std::uint8_t> bytes_;  // of the tags' lines
  const std::uint32_t max_entries_;
  std::vector<Entry> entries_;          // none before the first read
  std::vector<std::uint32_t> buckets_;  // of entries, by line
  std::vector<MshrTarget> targets_;     // grows to what was ever needed
  std::uint32_t free_entry_ = kNone;
  std::uint32_t free_target_ = kNone;
  std::uint32_t entries_used_ = 0;
};

}  // namespace heddle::sm

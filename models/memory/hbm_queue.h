// Accesses that wait for a pseudo-channel in one direction: a list per bank, in order of age.
#pragma once

#include <cstdint>
#include <vector>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::memory {

// A part of a request: sectors of one 128-byte line.
struct HbmAccess {
  std::uint64_t line = 0;  // number in the channel
  std::uint32_t row = 0;
  std::uint32_t tag = 0;  // the owner's own
  std::uint8_t bank = 0;
  std::uint8_t sectors = 0;  // bit = 32-byte sector that is read or touched
  std::uint8_t full = 0;     // writes: sectors all of whose bytes are written
};

class HbmQueue {
 public:
  using Index = std::uint16_t;
  static constexpr Index kNone = 0xFFFF;

  HbmQueue(std::uint32_t entries, std::uint32_t banks, std::uint32_t access_bytes)
      : access_bytes_(access_bytes), entries_(entries), lists_(banks) {
    HEDDLE_CHECK(entries > 0 && entries < kNone, "a queue without entries, or with too many");
    clear();
  }

  bool full() const { return free_ == kNone; }
  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }
  // One bit per bank: something waits for it; something of its open row may go.
  std::uint64_t pending() const { return pending_; }
  std::uint64_t hits() const { return hits_; }

  void push(const HbmAccess& access, std::uint64_t age) {
    const Index index = free_;
    Entry& entry = entries_[index];
    free_ = entry.next;
    entry.access = access;
    entry.columns = columns_of(access.sectors);
    entry.age = age;
    entry.next = kNone;
    List& list = lists_[access.bank];
    (list.head == kNone ? list.head : entries_[list.tail].next) = index;
    list.tail = index;
    pending_ |= bits::one(access.bank);
    ++size_;
  }

  // Of a bank for which something waits.
  std::uint64_t oldest_age(std::uint32_t bank) const { return entries_[lists_[bank].head].age; }
  std::uint32_t oldest_row(std::uint32_t bank) const { return entries_[lists_[bank].head].access.row; }
  // Of a bank with its bit in hits().
  std::uint64_t hit_age(std::uint32_t bank) const { return entries_[lists_[bank].hit].age; }

  // Looks for the oldest access to that row, or for none.
  void find_hit(std::uint32_t bank, bool allowed, std::uint32_t row) {
    List& list = lists_[bank];
    hits_ &= ~bits::one(bank);
    if (!allowed) return;
    Index before = kNone;
    for (Index index = list.head; index != kNone; before = index, index = entries_[index].next) {
      if (entries_[index].access.row != row) continue;
      list.hit = index;
      list.before_hit = before;
      hits_ |= bits::one(bank);
      return;
    }
  }
  // One column command of the access that find_hit() found. True if it was the last one: `access` is out of the queue,
  // and find_hit() has to be called again.
  bool take_column(std::uint32_t bank, HbmAccess& access) {
    List& list = lists_[bank];
    Entry& entry = entries_[list.hit];
    entry.columns = static_cast<std::uint8_t>(entry.columns & (entry.columns - 1));
    if (entry.columns != 0) return false;
    access = entry.access;
    (list.before_hit == kNone ? list.head : entries_[list.before_hit].next) = entry.next;
    if (list.tail == list.hit) list.tail = list.before_hit;
    entry.next = free_;
    free_ = list.hit;
    if (list.head == kNone) pending_ &= ~bits::one(bank);
    --size_;
    return true;
  }

  // The access to that line that waits; kNone without one.
  Index find(std::uint32_t bank, std::uint64_t line) const {
    if (!bits::contains(pending_, bank)) return kNone;
    Index index = lists_[bank].head;
    while (index != kNone && entries_[index].access.line != line) index = entries_[index].next;
    return index;
  }
  const HbmAccess& at(Index index) const { return entries_[index].access; }
  // Adds sectors to an access that waits.
  void merge(Index index, const HbmAccess& more) {
    Entry& entry = entries_[index];
    entry.access.sectors = static_cast<std::uint8_t>(entry.access.sectors | more.sectors);
    entry.access.full = static_cast<std::uint8_t>(entry.access.full | more.full);
    entry.columns = static_cast<std::uint8_t>(entry.columns | columns_of(more.sectors));
  }

  void clear() {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      entries_[i].next = i + 1 < entries_.size() ? static_cast<Index>(i + 1) : kNone;
    for (List& list : lists_) list = List{};
    free_ = 0;
    size_ = 0;
    pending_ = hits_ = 0;
  }

 private:
  struct Entry {
    HbmAccess access;
    std::uint64_t age = 0;
    std::uint8_t columns = 0;  // column commands that are left: one bit per access of the line
    Index next = kNone;
  };
  struct List {
    Index head = kNone;
    Index tail = kNone;
    Index hit = kNone;
    Index before_hit = kNone;
  };

  std::uint8_t columns_of(std::uint8_t sectors) const {
    if (access_bytes_ == 32) return sectors;
    if (access_bytes_ == 128) return 1;
    return static_cast<std::uint8_t>(((sectors & 3) != 0 ? 1 : 0) | ((sectors & 12) != 0 ? 2 : 0));
  }

  std::uint32_t access_bytes_;
  std::vector<Entry> entries_;
  std::vector<List> lists_;
  Index free_ = 0;
  std::uint32_t size_ = 0;
  std::uint64_t pending_ = 0;
  std::uint64_t hits_ = 0;
};

}  // namespace heddle::memory

// One pseudo-channel and its scheduler, without SystemC.
//
// Reads and writes wait in queues of their own, sorted by bank. Rows are opened as early as the part allows, the oldest
// access first; of the columns that can go at the next free place on the data bus, the oldest goes (first-ready,
// first-come first-served). While bandwidth is shared, accesses come with turns, and the least turn counts as the
// oldest (PRT-11). A bank that served `row_hit_cap` accesses from one row turns to its oldest access. Writes wait until
// there are `write_high` of them or nothing is to be read, and then go in one batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/bits.h"
#include "common/error.h"
#include "common/stats.h"
#include "memory/hbm_banks.h"

namespace heddle::memory {

// A part of a request: sectors of one 128-byte line.
struct HbmAccess {
  std::uint64_t line = 0;  // number in the channel
  std::uint32_t row = 0;
  std::uint32_t tag = 0;  // the owner's own
  std::uint8_t bank = 0;
  std::uint8_t sectors = 0;  // bit = 32-byte sector that is read or touched
  std::uint8_t full = 0;     // writes: sectors all of whose bytes are written
  // While bandwidth is shared, the least turn counts as the oldest; 0: the order of entering counts.
  std::uint64_t turn = 0;
};

// Accesses that wait for a pseudo-channel in one direction: a list per bank, in order of age.
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

  // In its list by age, behind those of the same. True if it is the last there.
  bool push(const HbmAccess& access, std::uint64_t age) {
    const Index index = free_;
    Entry& entry = entries_[index];
    free_ = entry.next;
    entry.access = access;
    entry.columns = columns_of(access.sectors);
    entry.age = age;
    List& list = lists_[access.bank];
    Index before = list.tail;
    if (before != kNone && entries_[before].age > age) {
      before = kNone;
      for (Index at = list.head; entries_[at].age <= age; at = entries_[at].next) before = at;
    }
    Index& link = before == kNone ? list.head : entries_[before].next;
    entry.next = link;
    link = index;
    if (entry.next == kNone) list.tail = index;
    pending_ |= bits::one(access.bank);
    ++size_;
    return entry.next == kNone;
  }

  // Of all banks, of which one waits at least.
  std::uint64_t oldest_age() const {
    std::uint64_t oldest = ~std::uint64_t{0};
    bits::for_each(pending_, [&](std::uint32_t bank) { oldest = std::min(oldest, oldest_age(bank)); });
    return oldest;
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

struct HbmQueues {
  std::uint32_t reads = 64;   // lines
  std::uint32_t writes = 64;  // lines
  std::uint32_t write_high = 48;
  std::uint32_t write_low = 16;
  std::uint32_t row_hit_cap = 32;   // accesses
  std::uint32_t shared_streak = 4;  // the same, once turns are given out
};

struct HbmDone {
  HbmTick when = 0;  // end of its last data
  std::uint32_t tag = 0;
};

class HbmChannel {
 public:
  // The first refresh is due at `first_refresh`. `trace` may be null.
  HbmChannel(const HbmTiming& timing, const HbmQueues& queues, HbmCounters& counters, HbmTick first_refresh,
             HbmTrace* trace = nullptr);

  bool has_room(bool write) const { return !queue(write).full(); }
  std::uint32_t waiting(bool write) const { return queue(write).size(); }

  enum class Entered {
    queued,
    merged,     // a write to a line that already waits to be written
    forwarded,  // a read of sectors that wait to be written: nothing more will be done
  };
  // The turn that is served: the oldest of what waits to be read or, without any, to be written; without either, one
  // behind all.
  std::uint64_t turn() const {
    if (!reads_.empty()) return reads_.oldest_age();
    return writes_.empty() ? age_ : writes_.oldest_age();
  }
  // Takes an access in; has_room() holds.
  Entered enter(bool write, const HbmAccess& access);

  // Issues the commands that begin before `until`. Reads whose last command was issued are appended to `done`, in order
  // of time. Returns when to call again, `until` or later: kNoTick if there is no work. A refresh alone is no work: it
  // is made up for when work comes. `now`: nothing may begin before; until - now is a cycle.
  HbmTick advance(HbmTick now, HbmTick until, std::vector<HbmDone>& done);

  // As built.
  void reset();

 private:
  HbmQueue& queue(bool write) { return write ? writes_ : reads_; }
  const HbmQueue& queue(bool write) const { return write ? writes_ : reads_; }

  // Accesses from one row while an older one waits.
  std::uint32_t streak() const {
    return shared_ ? std::min(limits_.row_hit_cap, limits_.shared_streak) : limits_.row_hit_cap;
  }
  void choose_direction();
  bool writes_come_next() const;
  void turn_to(bool writing) {
    writing_ = writing;
    open_at_ = 0;
  }
  void open_rows(HbmTick now);
  HbmTick issue_column(HbmTick now, HbmTick until, std::vector<HbmDone>& done);
  void update_hits(bool write, std::uint32_t bank);
  void after_close(std::uint64_t banks);

  HbmQueues limits_;
  HbmCounters* counters_;
  HbmTick lead_;   // how far ahead rows are opened
  HbmTick slack_;  // by how much less they may be
  HbmBanks banks_;
  HbmQueue reads_;
  HbmQueue writes_;
  bool writing_ = false;
  bool batch_ = false;           // writing began at write_high and goes on down to write_low
  std::uint32_t turn_left_ = 0;  // lines before the direction may change while both wait
  std::uint64_t age_ = 0;
  bool shared_ = false;  // turns are given out
  HbmTick open_at_ = 0;  // no row of this direction can be opened before
};

}  // namespace heddle::memory

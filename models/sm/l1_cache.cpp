#include "sm/l1_cache.h"

#include <algorithm>
#include <cstring>

#include "common/bits.h"

namespace heddle::sm {
namespace {

using arch::kLineBytes;
using arch::kSectorBytes;
using arch::kSectorsPerLine;

std::uint8_t without(std::uint8_t mask, std::uint8_t taken) { return static_cast<std::uint8_t>(mask & ~taken); }

std::uint8_t touched(std::uint32_t offset, std::uint32_t count) {
  return static_cast<std::uint8_t>((2U << (offset + count - 1) / kSectorBytes) - (1U << offset / kSectorBytes));
}

// Sectors with an enabled byte.
std::uint8_t enabled(std::uint32_t offset, const std::uint8_t* enables, std::uint32_t count) {
  std::uint32_t sectors = 0;
  for (std::uint32_t at = offset; at < offset + count;) {
    const std::uint32_t sector = at / kSectorBytes;
    const std::uint32_t end = std::min((sector + 1) * kSectorBytes, offset + count);
    std::uint8_t any = 0;
    for (; at < end; ++at) any |= enables[at - offset];
    if (any != 0) sectors |= 1U << sector;
  }
  return static_cast<std::uint8_t>(sectors);
}

std::size_t power_of_two(std::size_t least) {
  std::size_t result = 1;
  while (result < least) result *= 2;
  return result;
}

}  // namespace

L1Cache::L1Cache(std::uint32_t ways, std::uint32_t entries) : ways_(ways), max_entries_(entries) {
  HEDDLE_CHECK(ways > 0 && entries > 0, "an L1 without ways or entries");
  reset();
}

void L1Cache::resize(std::uint32_t bytes) {
  const std::uint32_t sets = bytes / (kLineBytes * ways_);
  if (sets == sets_) return;
  ++version_;
  sets_ = sets;
  tags_.assign(std::size_t{sets} * ways_, Tag{});
  bytes_.resize(tags_.size() * kLineBytes);
}

// The numbers of epochs have been used up: everything of older ones goes.
void L1Cache::begin_epochs() {
  epoch_ = 1;
  for (Tag& tag : tags_) tag = {};
  for (Entry& entry : entries_) entry.live = 0;
}

// The same for stamps: they count anew, and the lines of a set keep their order.
void L1Cache::begin_stamps() {
  std::vector<std::uint32_t> order(ways_);
  for (std::size_t first = 0; first < tags_.size(); first += ways_) {
    for (std::uint32_t way = 0; way < ways_; ++way) {
      const auto older = [this, first, way](std::uint32_t other) {
        return tags_[first + other].stamp < tags_[first + way].stamp;
      };
      order[way] = 0;
      for (std::uint32_t other = 0; other < ways_; ++other) order[way] += older(other) ? 1U : 0U;
    }
    for (std::uint32_t way = 0; way < ways_; ++way) tags_[first + way].stamp = order[way];
  }
  stamp_ = ways_;
}

void L1Cache::reset() {
  invalidate_all();
  entries_used_ = 0;
  targets_.clear();
  free_target_ = kNone;
  clear_entries();
}

void L1Cache::clear_entries() {
  std::fill(buckets_.begin(), buckets_.end(), kNone);
  free_entry_ = 0;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    entries_[i] = {};
    entries_[i].next = i + 1 < entries_.size() ? i + 1 : kNone;
  }
}

std::size_t L1Cache::find(std::uint64_t line) const {
  if (sets_ == 0) return kNoTag;
  const std::size_t first = set_of(line) * ways_;
  for (std::size_t i = first; i < first + ways_; ++i) {
    // The key of a line that is here differs from its address by its sectors.
    const std::uint64_t difference = tags_[i].key ^ line;
    if (difference - 1 < kAllSectors && tags_[i].epoch == epoch_) return i;
  }
  return kNoTag;
}

std::uint32_t& L1Cache::bucket_of(std::uint64_t line) {
  const std::uint64_t mix = line / kLineBytes * 0x9E37'79B9'7F4A'7C15U;
  return buckets_[(mix >> 32) & (buckets_.size() - 1)];
}

const L1Cache::Entry& L1Cache::used(std::uint32_t entry) const {
  HEDDLE_CHECK(entry < entries_.size() && entries_[entry].sectors != 0, "no read is under way for this L1 entry");
  return entries_[entry];
}

std::uint32_t L1Cache::take_entry(std::uint64_t line, std::uint8_t sectors) {
  if (entries_.empty()) {
    entries_.resize(max_entries_);
    buckets_.resize(power_of_two(2 * std::size_t{max_entries_}));
    clear_entries();
  }
  const std::uint32_t entry = free_entry_;
  free_entry_ = entries_[entry].next;
  std::uint32_t& bucket = bucket_of(line);
  entries_[entry] = {line, epoch_, bucket, kNone, kNone, sectors, sectors};
  bucket = entry;
  ++entries_used_;
  return entry;
}

std::uint32_t L1Cache::release(std::uint32_t entry) {
  const std::uint32_t first = used(entry).first;
  std::uint32_t* link = &bucket_of(entries_[entry].line);
  while (*link != entry) link = &entries_[*link].next;
  *link = entries_[entry].next;
  entries_[entry] = {};
  entries_[entry].next = free_entry_;
  free_entry_ = entry;
  --entries_used_;
  return first;
}

void L1Cache::wait(Entry& entry, std::uint32_t waiter, std::uint8_t sectors) {
  std::uint32_t node = free_target_;
  if (node == kNone) {
    node = static_cast<std::uint32_t>(targets_.size());
    targets_.emplace_back();
  } else {
    free_target_ = targets_[node].next;
  }
  targets_[node] = {waiter, kNone, sectors};
  if (entry.first == kNone) {
    entry.first = node;
  } else {
    targets_[entry.last].next = node;
  }
  entry.last = node;
}

L1Cache::Load L1Cache::load(std::uint64_t line, std::uint8_t sectors, std::uint32_t waiter) {
  Load result;
  const std::size_t tag = find(line);
  if (tag != kNoTag) {
    result.hit = sectors & tags_[tag].sectors();
    result.bytes = bytes_.data() + tag * kLineBytes;
  }
  if (result.hit != sectors) {
    for (std::uint32_t i = first_entry(line); i != kNone; i = entries_[i].next) {
      if (entries_[i].line == line)
        result.merged = static_cast<std::uint8_t>(result.merged | (sectors & live_of(entries_[i])));
    }
    result.missing = without(sectors, result.hit | result.merged);
    if (result.missing != 0 && free_entries() == 0) return {};
    for (std::uint32_t i = first_entry(line); i != kNone && result.merged != 0; i = entries_[i].next) {
      if (entries_[i].line != line) continue;
      const std::uint8_t shared = sectors & live_of(entries_[i]);
      if (shared != 0) wait(entries_[i], waiter, shared);
    }
    if (result.missing != 0) {
      result.entry = take_entry(line, result.missing);
      wait(entries_[result.entry], waiter, result.missing);
    }
  }
  if (tag != kNoTag) use(tags_[tag]);
  result.accepted = true;
  return result;
}

void L1Cache::keep(std::uint32_t entry, const std::uint8_t* bytes, std::uint32_t offset) {
  const Entry& from = used(entry);
  const std::uint8_t live = live_of(from);
  if (live == 0 || sets_ == 0) return;
  std::size_t tag = find(from.line);
  if (tag == kNoTag) {
    tag = victim(set_of(from.line) * ways_);
    tags_[tag] = {from.line, epoch_, 0};
  }
  use(tags_[tag]);
  tags_[tag].key |= live;
  std::uint8_t* to = bytes_.data() + tag * kLineBytes;
  if (live == kAllSectors && offset == 0) {
    std::memcpy(to, bytes, kLineBytes);
    return;
  }
  for (std::uint32_t sector = 0; sector < kSectorsPerLine; ++sector) {
    if ((live >> sector & 1) == 0) continue;
    const std::size_t at = std::size_t{sector} * kSectorBytes;
    HEDDLE_CHECK(at >= offset, "a fill without all of its sectors");
    std::memcpy(to + at, bytes + (at - offset), kSectorBytes);
  }
}

void L1Cache::put(const Place& place, std::uint64_t line, std::uint8_t sectors, const std::uint8_t* image) {
  if (place.tag == kNone) return;
  ++version_;
  Tag& tag = tags_[place.tag];
  if (place.here == 0) tag = {line, epoch_, 0};
  use(tag);
  tag.key |= sectors;
  std::uint8_t* to = bytes_.data() + std::size_t{place.tag} * kLineBytes;
  if (sectors == kAllSectors) {
    std::memcpy(to, image, kLineBytes);
    return;
  }
  bits::for_each(sectors, [=](std::uint32_t sector) {
    std::memcpy(to + sector * kSectorBytes, image + sector * kSectorBytes, kSectorBytes);
  });
}

void L1Cache::overtake(std::uint64_t line, std::uint8_t sectors) {
  for (std::uint32_t i = first_entry(line); i != kNone; i = entries_[i].next) {
    if (entries_[i].line == line) entries_[i].live = without(entries_[i].live, sectors);
  }
}

std::uint8_t L1Cache::store(std::uint64_t line, std::uint32_t offset, const std::uint8_t* bytes,
                            const std::uint8_t* enables, std::uint32_t count) {
  HEDDLE_CHECK(count > 0 && count <= kLineBytes && offset <= kLineBytes - count, "a store beyond its line");
  const std::uint8_t sectors = enables == nullptr ? touched(offset, count) : enabled(offset, enables, count);
  overtake(line, sectors);
  const std::size_t tag = find(line);
  if (tag == kNoTag) return 0;
  // Bytes of absent sectors change too: nobody reads them before a fill.
  std::uint8_t* to = bytes_.data() + tag * kLineBytes + offset;
  if (enables == nullptr) {
    std::memcpy(to, bytes, count);
  } else {
    for (std::uint32_t i = 0; i < count; ++i) to[i] = enables[i] != 0 ? bytes[i] : to[i];
  }
  return sectors & tags_[tag].sectors();
}

void L1Cache::forget(std::uint64_t line, std::uint8_t sectors) {
  overtake(line, sectors);
  ++version_;
  if (const std::size_t tag = find(line); tag != kNoTag) tags_[tag].set_sectors(without(tags_[tag].sectors(), sectors));
}

std::uint8_t L1Cache::present(std::uint64_t line) const {
  const std::size_t tag = find(line);
  return tag == kNoTag ? std::uint8_t{0} : tags_[tag].sectors();
}

}  // namespace heddle::sm

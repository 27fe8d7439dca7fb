#include "arch/page_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::uint64_t kPresent = 1;
constexpr std::uint64_t kWritable = 2;
constexpr std::uint64_t kLarge = 4;
constexpr std::uint64_t kAddress = 0x00FF'FFFF'FFFF'FF00;

constexpr std::uint32_t kLastLevel = kPageLevels - 1;
constexpr std::uint32_t kLargeLevel = 2;

std::uint64_t bytes_of(std::uint32_t level) {
  return std::max<std::uint64_t>(std::uint64_t{kLevels[level].entries()} * kPageEntryBytes, kPageTableAlignment);
}

}  // namespace

PageEntry decode_entry(std::uint64_t word, std::uint32_t level) {
  PageEntry entry;
  const std::uint64_t address = word & kAddress;
  const bool large = (word & kLarge) != 0;
  if ((word & kPresent) == 0 || (word & ~(kPresent | kWritable | kLarge | kAddress)) != 0) return entry;
  if (large && level != kLargeLevel) return entry;
  const bool page = large || level == kLastLevel;
  if (!page) {
    if ((word & kWritable) != 0) return entry;
    entry.kind = PageEntry::Kind::table;
    entry.address = address;
    return entry;
  }
  const std::uint32_t bits = large ? kLargePageBits : kSmallPageBits;
  if ((address & ((std::uint64_t{1} << bits) - 1)) != 0) return entry;
  entry.kind = PageEntry::Kind::page;
  entry.writable = (word & kWritable) != 0;
  entry.address = address;
  entry.page_bits = bits;
  return entry;
}

std::uint64_t table_entry(std::uint64_t table) { return table | kPresent; }

std::uint64_t page_entry(std::uint64_t frame, bool writable, bool large) {
  return frame | kPresent | (writable ? kWritable : 0) | (large ? kLarge : 0);
}

PageWalk::PageWalk(std::uint64_t root, std::uint64_t address) : address_(address), done_(false) {
  result_.page = address / kSmallPage * kSmallPage;
  if (!is_virtual(address) || (root & ~kAddress) != 0) {
    done_ = true;
  } else {
    enter(root);
  }
}

void PageWalk::enter(std::uint64_t table) { wanted_ = table + page_index(address_, level_) * kPageEntryBytes; }

void PageWalk::fail() {
  ++level_;
  done_ = true;
}

void PageWalk::feed(std::uint64_t word) {
  HEDDLE_CHECK(!done_, "an entry for a page walk that is over");
  const PageEntry entry = decode_entry(word, level_++);
  done_ = entry.kind != PageEntry::Kind::table;
  if (!done_) return enter(entry.address);
  if (entry.kind == PageEntry::Kind::none) return;
  result_.present = true;
  result_.writable = entry.writable;
  result_.page_bits = entry.page_bits;
  result_.page = address_ >> entry.page_bits << entry.page_bits;
  result_.frame = entry.address;
}

PageTables::PageTables(std::uint64_t base, std::uint64_t bytes, Write write)
    : base_(base), end_(base + bytes), next_(base), write_(std::move(write)) {
  HEDDLE_CHECK(base % kPageTableAlignment == 0, "page tables that do not begin at a multiple of their alignment");
  root_ = new_table(0);
}

std::uint64_t PageTables::new_table(std::uint32_t level) {
  const std::uint64_t bytes = bytes_of(level);
  if (bytes > end_ - next_) {
    throw InputError(fmt::format("the page tables of a subcontext do not fit into {} bytes", end_ - base_),
                     "map less or larger ranges, or make room for more tables");
  }
  const std::uint64_t table = next_;
  next_ += bytes;
  tables_[table].assign(kLevels[level].entries(), 0);
  for (std::uint64_t at = 0; at < bytes; at += kPageEntryBytes) write_(table + at, 0);
  return table;
}

void PageTables::set(std::uint64_t table, std::uint64_t index, std::uint64_t word) {
  tables_.at(table)[index] = word;
  write_(table + index * kPageEntryBytes, word);
}

std::uint64_t PageTables::table_of(std::uint64_t address, std::uint32_t level) {
  std::uint64_t table = root_;
  for (std::uint32_t at = 0; at < level; ++at) {
    const std::uint64_t index = page_index(address, at);
    PageEntry entry = decode_entry(tables_.at(table)[index], at);
    if (entry.kind == PageEntry::Kind::none) {
      const std::uint64_t made = new_table(at + 1);
      set(table, index, table_entry(made));
      table = made;
      continue;
    }
    if (entry.kind == PageEntry::Kind::page) {
      split(table, index, entry);
      entry = decode_entry(tables_.at(table)[index], at);
    }
    table = entry.address;
  }
  return table;
}

// A large page of which a part changes. The new table is complete before it is entered.
void PageTables::split(std::uint64_t table, std::uint64_t index, const PageEntry& large) {
  const std::uint64_t made = new_table(kLastLevel);
  for (std::uint32_t i = 0; i < kLevels[kLastLevel].entries(); ++i) {
    set(made, i, page_entry(large.address + i * kSmallPage, large.writable, false));
  }
  set(table, index, table_entry(made));
}

void PageTables::map(std::uint64_t virtual_address, std::uint64_t physical, std::uint64_t bytes, bool writable) {
  HEDDLE_CHECK(virtual_address % kSmallPage == 0 && physical % kSmallPage == 0 && bytes % kSmallPage == 0,
               "a mapping that is not made of whole pages");
  HEDDLE_CHECK(bytes <= (std::uint64_t{1} << kVirtualBits) && is_virtual(virtual_address) &&
                   virtual_address <= (std::uint64_t{1} << kVirtualBits) - bytes,
               "a mapping beyond the virtual addresses");
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t at = virtual_address + done;
    const std::uint64_t frame = physical + done;
    const bool large = at % kLargePage == 0 && frame % kLargePage == 0 && bytes - done >= kLargePage;
    const std::uint32_t level = large ? kLargeLevel : kLastLevel;
    set(table_of(at, level), page_index(at, level), page_entry(frame, writable, large));
    done += large ? kLargePage : kSmallPage;
  }
}

void PageTables::unmap(std::uint64_t virtual_address, std::uint64_t bytes) {
  HEDDLE_CHECK(virtual_address % kSmallPage == 0 && bytes % kSmallPage == 0, "an unmapping of parts of pages");
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t at = virtual_address + done;
    const bool large = at % kLargePage == 0 && bytes - done >= kLargePage;
    const std::uint32_t level = large ? kLargeLevel : kLastLevel;
    set(table_of(at, level), page_index(at, level), 0);
    done += large ? kLargePage : kSmallPage;
  }
}

// For each range a table of every level at both ends, and one of 64 KiB pages for each 2 MiB.
std::uint64_t page_table_bytes(std::uint64_t ranges, std::uint64_t bytes) {
  const std::uint64_t ends = 2 * (bytes_of(1) + bytes_of(kLargeLevel));
  const std::uint64_t last = bytes / kLargePage + 2 * ranges;
  const std::uint64_t middle = bytes / (std::uint64_t{1} << kLevels[1].shift);
  const std::uint64_t upper = bytes / (std::uint64_t{1} << kLevels[0].shift);
  return bytes_of(0) + ranges * ends + middle * bytes_of(kLargeLevel) + upper * bytes_of(1) +
         last * bytes_of(kLastLevel);
}

}  // namespace heddle::arch

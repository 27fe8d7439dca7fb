#include "memory/tlb.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::memory {

Tlb::Tlb(std::uint32_t entries, std::uint32_t ways)
    : ways_(std::min(ways, entries)), sets_(entries / std::max(ways_, 1U)) {
  HEDDLE_CHECK(ways_ > 0, "a TLB without entries");
  entries_.resize(std::size_t{sets_} * ways_);
}

// Subcontexts begin at different sets: they often use the same addresses.
std::uint32_t Tlb::set_of(std::uint8_t subcontext, std::uint64_t address, std::uint32_t page_bits) const {
  return static_cast<std::uint32_t>(((address >> page_bits) + std::uint64_t{subcontext} * 37) % sets_);
}

const Tlb::Entry* Tlb::look_up(std::uint8_t subcontext, std::uint64_t address, std::uint32_t page_bits) const {
  const Entry* set = entries_.data() + std::size_t{set_of(subcontext, address, page_bits)} * ways_;
  for (const Entry* entry = set; entry < set + ways_; ++entry) {
    if (entry->used == 0 || entry->subcontext != subcontext || entry->page.page_bits != page_bits) continue;
    if (entry->page.covers(address)) return entry;
  }
  return nullptr;
}

const arch::Translation* Tlb::find(std::uint8_t subcontext, std::uint64_t address) {
  Entry* entry = look_up(subcontext, address, arch::kSmallPageBits);
  if (entry == nullptr) entry = look_up(subcontext, address, arch::kLargePageBits);
  if (entry == nullptr) return nullptr;
  entry->used = ++uses_;
  return &entry->page;
}

const arch::Translation* Tlb::peek(std::uint8_t subcontext, std::uint64_t address) const {
  const Entry* entry = look_up(subcontext, address, arch::kSmallPageBits);
  if (entry == nullptr) entry = look_up(subcontext, address, arch::kLargePageBits);
  return entry == nullptr ? nullptr : &entry->page;
}

void Tlb::insert(std::uint8_t subcontext, const arch::Translation& page) {
  HEDDLE_CHECK(page.present && !page.untranslated(), "a TLB keeps pages only");
  Entry* entry = look_up(subcontext, page.page, page.page_bits);
  if (entry == nullptr) {
    Entry* set = entries_.data() + std::size_t{set_of(subcontext, page.page, page.page_bits)} * ways_;
    entry = std::min_element(set, set + ways_, [](const Entry& a, const Entry& b) { return a.used < b.used; });
  }
  *entry = {page, ++uses_, subcontext};
}

void Tlb::invalidate(std::uint8_t subcontext) {
  for (Entry& entry : entries_) {
    if (entry.subcontext == subcontext) entry = {};
  }
}

void Tlb::reset() {
  for (Entry& entry : entries_) entry = {};
  uses_ = 0;
}

std::uint32_t Tlb::size() const {
  return static_cast<std::uint32_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.used != 0; }));
}

}  // namespace heddle::memory

#include "tmau/descriptor_cache.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::tmau {

const CheckedDescriptor* DescriptorCache::find(std::uint64_t address, std::uint8_t subcontext) {
  for (Item& item : items_) {
    if (item.address != address || item.subcontext != subcontext) continue;
    item.used = ++uses_;
    return &item.descriptor;
  }
  return nullptr;
}

const CheckedDescriptor* DescriptorCache::peek(std::uint64_t address, std::uint8_t subcontext) const {
  const auto found = std::find_if(items_.begin(), items_.end(), [=](const Item& item) {
    return item.address == address && item.subcontext == subcontext;
  });
  return found == items_.end() ? nullptr : &found->descriptor;
}

void DescriptorCache::begin_fetch(std::uint64_t address, std::uint8_t subcontext) {
  HEDDLE_CHECK(!fetching_, "two descriptors are fetched at a time");
  fetching_ = true;
  forgotten_ = false;
  fetched_ = address;
  fetched_of_ = subcontext;
}

void DescriptorCache::end_fetch(const CheckedDescriptor& descriptor) {
  HEDDLE_CHECK(fetching_, "a descriptor came that was not fetched");
  fetching_ = false;
  if (forgotten_) return;
  const Item item{fetched_, fetched_of_, ++uses_, descriptor};
  if (items_.size() < entries_) {
    items_.push_back(item);
    return;
  }
  *std::min_element(items_.begin(), items_.end(), [](const Item& a, const Item& b) { return a.used < b.used; }) = item;
}

void DescriptorCache::forget(std::uint64_t address) {
  forgotten_ = forgotten_ || address == 0 || address == fetched_;
  items_.erase(std::remove_if(items_.begin(), items_.end(),
                              [address](const Item& item) { return address == 0 || item.address == address; }),
               items_.end());
}

void DescriptorCache::reset() {
  items_.clear();
  fetching_ = forgotten_ = false;
  uses_ = 0;
}

}  // namespace heddle::tmau

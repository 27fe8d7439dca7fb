#include "tmau/descriptor_cache.h"

#include <algorithm>

#include "arch/tensor_data.h"
#include "common/error.h"

namespace heddle::tmau {

using arch::BulkKind;
using arch::BulkRequest;
using arch::kBulkBlock;
using arch::TensorRule;

namespace {

bool in_shared(const BulkRequest& request) {
  return request.kind == BulkKind::load || request.kind == BulkKind::store || request.kind == BulkKind::reduce ||
         request.kind == BulkKind::send;
}

TensorRule check_shared(const BulkRequest& request) {
  if (in_shared(request) && request.shared % kBulkBlock != 0) return TensorRule::shared_address;
  if (request.kind == BulkKind::send && request.destination % kBulkBlock != 0) return TensorRule::shared_address;
  return TensorRule::none;
}

TensorRule check_range(std::uint64_t address, std::uint64_t blocks, std::uint64_t memory) {
  if (address % kBulkBlock != 0) return TensorRule::block_address;
  if (address > memory || blocks > (memory - address) / kBulkBlock) return TensorRule::unmapped;
  return TensorRule::none;
}

}  // namespace

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

TensorRule check_block(const BulkRequest& request, std::uint64_t memory) {
  if (request.kind != BulkKind::send) {
    const TensorRule rule = check_range(request.global, request.blocks, memory);
    if (rule != TensorRule::none) return rule;
  }
  if (request.kind == BulkKind::copy) {
    const TensorRule rule = check_range(request.to, request.blocks, memory);
    if (rule != TensorRule::none) return rule;
  }
  const TensorRule rule = check_shared(request);
  if (rule != TensorRule::none) return rule;
  const bool send = request.kind == BulkKind::send;
  const bool reduces = request.kind == BulkKind::reduce || (send && request.reduces);
  if (reduces && !arch::reduction_exists(request.reduction, request.type, send)) return TensorRule::reduction;
  return TensorRule::none;
}

TensorRule check_descriptor_address(const BulkRequest& request, std::uint64_t memory) {
  if (request.descriptor % (arch::kDescriptorBytes / 2) != 0) return TensorRule::descriptor_address;
  if (memory < arch::kDescriptorBytes || request.descriptor > memory - arch::kDescriptorBytes) {
    return TensorRule::unmapped;
  }
  return TensorRule::none;
}

CheckedDescriptor check_descriptor(const std::uint8_t* bytes, std::uint64_t memory) {
  CheckedDescriptor result;
  result.rule = arch::decode(bytes, result.descriptor);
  if (result.rule == TensorRule::none) result.rule = arch::check(result.descriptor, memory);
  return result;
}

TensorRule check_tensor(const BulkRequest& request, std::uint32_t room, const CheckedDescriptor& descriptor) {
  if (descriptor.rule != TensorRule::none) return descriptor.rule;
  const TensorRule rule = check_shared(request);
  if (rule != TensorRule::none) return rule;
  if (in_shared(request) && descriptor.descriptor.box_bytes() > room) return TensorRule::shared_address;
  const arch::ValueType type = arch::value_type(descriptor.descriptor.type);
  if (request.kind == BulkKind::reduce && !arch::reduction_exists(request.reduction, type, false)) {
    return TensorRule::reduction;
  }
  return TensorRule::none;
}

}  // namespace heddle::tmau

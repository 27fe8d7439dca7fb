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

// Elements of less than a byte begin and end at whole bytes; padded ones come 128 at a time, and are padded in shared
// memory alone; none of them is reduced.
bool has_packed_place(const BulkRequest& request, const arch::TensorDescriptor& descriptor) {
  if (!arch::is_packed(descriptor.type)) return true;
  if (request.kind == BulkKind::reduce) return false;
  if (request.kind == BulkKind::copy && arch::is_padded(descriptor.type)) return false;
  if (request.kind == BulkKind::store && descriptor.type == arch::TensorType::u4x16_padded) return false;
  if (descriptor.interleave != arch::Interleave::none) return true;
  return request.coordinates[0] % (arch::is_padded(descriptor.type) ? 128 : 2) == 0;
}

bool takes_four_rows(const arch::TensorDescriptor& descriptor) {
  return descriptor.mode == arch::TensorMode::tile && descriptor.rank == 2 &&
         descriptor.interleave == arch::Interleave::none && descriptor.box[1] == 1;
}

}  // namespace

const CheckedDescriptor* DescriptorCache::find(std::uint64_t address, std::uint8_t subcontext, Cycle from) {
  for (Item& item : items_) {
    if (item.address != address || item.subcontext != subcontext || item.fetched < from) continue;
    item.used = ++uses_;
    return &item.descriptor;
  }
  return nullptr;
}

const CheckedDescriptor* DescriptorCache::peek(std::uint64_t address, std::uint8_t subcontext, Cycle from) const {
  const auto found = std::find_if(items_.begin(), items_.end(), [=](const Item& item) {
    return item.address == address && item.subcontext == subcontext && item.fetched >= from;
  });
  return found == items_.end() ? nullptr : &found->descriptor;
}

void DescriptorCache::begin_fetch(std::uint64_t address, std::uint8_t subcontext, Cycle when) {
  HEDDLE_CHECK(!fetching_, "two descriptors are fetched at a time");
  fetching_ = true;
  forgotten_ = false;
  fetched_ = address;
  fetched_of_ = subcontext;
  fetched_at_ = when;
}

void DescriptorCache::end_fetch(const CheckedDescriptor& descriptor) {
  HEDDLE_CHECK(fetching_, "a descriptor came that was not fetched");
  fetching_ = false;
  if (forgotten_) return;
  const Item item{fetched_, fetched_of_, ++uses_, fetched_at_, descriptor};
  const auto older = std::find_if(items_.begin(), items_.end(), [this](const Item& known) {
    return known.address == fetched_ && known.subcontext == fetched_of_;
  });
  if (older != items_.end()) {
    *older = item;
    return;
  }
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

CheckedDescriptor check_descriptor(const std::uint8_t* bytes) {
  CheckedDescriptor result;
  result.rule = arch::decode(bytes, result.descriptor);
  if (result.rule == TensorRule::none) result.rule = arch::check(result.descriptor);
  return result;
}

CheckedDescriptor check_descriptor(const arch::TensorDescriptor& descriptor) {
  return {descriptor, arch::check(descriptor)};
}

TensorRule check_tensor(const BulkRequest& request, const BoxRoom& room, const CheckedDescriptor& checked) {
  if (checked.rule != TensorRule::none) return checked.rule;
  const arch::TensorDescriptor& descriptor = checked.descriptor;
  const bool writes = request.kind == BulkKind::store || request.kind == BulkKind::reduce;
  if (!has_packed_place(request, descriptor)) return TensorRule::packed;
  std::uint32_t halo = 0;
  if (arch::is_wide(descriptor.mode)) {
    halo = arch::unpack_wide(request.offsets).halo;
    if (descriptor.mode == arch::TensorMode::im2col_w128 && halo >= arch::kWideGroup) return TensorRule::wide;
  }
  if (writes && descriptor.swizzle == arch::Swizzle::bytes128_atom32_flip8) return TensorRule::flip_store;
  if (request.four_rows && !takes_four_rows(descriptor)) return TensorRule::gather;
  const TensorRule rule = check_shared(request);
  if (rule != TensorRule::none) return rule;
  const std::uint64_t bytes = descriptor.box_bytes(halo) * (request.four_rows ? 4 : 1);
  if (in_shared(request) && bytes > room.shared) return TensorRule::shared_address;
  const bool send = request.kind == BulkKind::send;
  if (send && bytes > room.destination) return TensorRule::shared_address;
  if (request.kind == BulkKind::copy) {
    const TensorRule there = check_range(request.to, bytes / kBulkBlock, room.memory);
    if (there != TensorRule::none) return there;
  }
  const arch::ValueType type = arch::value_type(descriptor.type);
  const bool reduces = request.kind == BulkKind::reduce || (send && request.reduces);
  if (reduces && (arch::is_packed(descriptor.type) || !arch::reduction_exists(request.reduction, type, send))) {
    return TensorRule::reduction;
  }
  return TensorRule::none;
}

TensorRule check_soft_rules(const BulkRequest& request, const arch::TensorDescriptor& descriptor, bool base_outside,
                            const SoftRules& rules, arch::RuleSet& reported) {
  TensorRule refused = TensorRule::none;
  const auto judge = [&](bool broken, RuleAction action, TensorRule rule) {
    if (!broken) return;
    if (action == RuleAction::report) reported.add(rule);
    if (action == RuleAction::refuse && refused == TensorRule::none) refused = rule;
  };
  const bool send = request.kind == BulkKind::send;
  const bool off_line = (in_shared(request) && request.shared % arch::kLineBytes != 0) ||
                        (send && request.destination % arch::kLineBytes != 0);
  judge(off_line, rules.shared_alignment, TensorRule::shared_alignment);
  judge(arch::has_empty_box(descriptor), rules.empty_box, TensorRule::empty_box);
  judge(base_outside, rules.base_outside, TensorRule::base_outside);
  const bool slices = descriptor.interleave != arch::Interleave::none;
  const std::int64_t bits = std::int64_t{request.coordinates[0]} * arch::element_bits(descriptor.type);
  judge(!slices && bits % (8 * kBulkBlock) != 0, rules.inner_address, TensorRule::inner_address);
  return refused;
}

}  // namespace heddle::tmau

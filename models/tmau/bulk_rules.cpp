#include "tmau/bulk_rules.h"

#include "arch/tensor_data.h"

namespace heddle::tmau {
namespace {

using arch::BulkKind;
using arch::BulkRequest;
using arch::kBulkBlock;
using arch::TensorRule;

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

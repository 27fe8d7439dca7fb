// What a request has to keep to before anything of it is generated (TMA-06). Plain C++.
#pragma once

#include <cstdint>

#include "arch/bulk.h"
#include "arch/tensor_descriptor.h"
#include "tmau/descriptor_cache.h"

namespace heddle::tmau {

// The first rule that a block breaks. `memory`: bytes of device memory.
arch::TensorRule check_block(const arch::BulkRequest& request, std::uint64_t memory);
// The same of a tensor, before its descriptor is looked up.
arch::TensorRule check_descriptor_address(const arch::BulkRequest& request, std::uint64_t memory);
// A descriptor as it was fetched.
CheckedDescriptor check_descriptor(const std::uint8_t* bytes, std::uint64_t memory);
// The request against its descriptor. `room`: bytes that the CTA's shared memory has from request.shared on.
arch::TensorRule check_tensor(const arch::BulkRequest& request, std::uint32_t room,
                              const CheckedDescriptor& descriptor);

}  // namespace heddle::tmau

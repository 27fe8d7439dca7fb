// Where the linear memories of CGAs lie in device memory (CWD-22, CGA-10).
#pragma once

#include <cstdint>

#include "arch/kernel_record.h"
#include "common/error.h"

namespace heddle::gpc {

struct CgaMemoryPool {
  std::uint64_t base = 0;   // address
  std::uint32_t slots = 0;  // of each subcontext
  std::uint64_t slot_bytes = 0;

  std::uint64_t bytes() const { return std::uint64_t{arch::kSubcontexts} * slots * slot_bytes; }
  std::uint64_t address(std::uint32_t subcontext, std::uint32_t slot) const {
    HEDDLE_CHECK(subcontext < arch::kSubcontexts && slot < slots, "a CGA memory slot that does not exist");
    return base + (std::uint64_t{subcontext} * slots + slot) * slot_bytes;
  }
};

}  // namespace heddle::gpc

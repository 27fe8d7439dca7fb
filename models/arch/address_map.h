// Which L2 slice holds an address.
#pragma once

#include <cstdint>

#include "arch/memory_op.h"
#include "common/error.h"

namespace heddle::arch {

// Lines are dealt to slices: every run of `slices` consecutive lines has one in each slice, in an order that depends on
// the run, so that power-of-two strides spread as well. Slices are numbered partition by partition.
class AddressMap {
 public:
  // `bytes` of memory from address 0; slices a multiple of partitions.
  AddressMap(std::uint64_t bytes, std::uint32_t slices, std::uint32_t partitions) : bytes_(bytes), slices_(slices) {
    HEDDLE_CHECK(partitions > 0 && slices > 0 && slices % partitions == 0, "slices do not divide by partitions");
    per_partition_ = slices / partitions;
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t slices() const { return slices_; }
  std::uint32_t partitions() const { return slices_ / per_partition_; }
  // Of an address in memory, or outside it: such a request has to be refused somewhere.
  std::uint32_t slice_of(std::uint64_t address) const {
    const std::uint64_t line = address / kLineBytes;
    const std::uint64_t run = line / slices_;
    std::uint64_t mix = run * 0x9E37'79B9'7F4A'7C15U;
    mix ^= mix >> 32;
    return static_cast<std::uint32_t>((line - run * slices_ + (mix & 0xFFFF'FFFF)) % slices_);
  }
  std::uint32_t partition_of(std::uint32_t slice) const { return slice / per_partition_; }
  // True if [address, address + bytes) lies in memory.
  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    return bytes <= bytes_ && address <= bytes_ - bytes;
  }

 private:
  std::uint64_t bytes_;
  std::uint32_t slices_;
  std::uint32_t per_partition_ = 1;
};

}  // namespace heddle::arch

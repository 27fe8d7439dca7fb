// Tensor descriptors that have been used, by their address and the subcontext that it belongs to (TMA-04, PRT-08).
// Plain C++.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/tensor_descriptor.h"

namespace heddle::tmau {

// A descriptor as set-up sees it: what is wrong with it is found once.
struct CheckedDescriptor {
  arch::TensorDescriptor descriptor;
  arch::TensorRule rule = arch::TensorRule::none;
};

// The one that has not been used for longest gives way. One fetch at a time.
class DescriptorCache {
 public:
  explicit DescriptorCache(std::uint32_t entries) : entries_(entries) {}

  // Null: a miss. A use, which peek() is not.
  const CheckedDescriptor* find(std::uint64_t address, std::uint8_t subcontext = 0);
  const CheckedDescriptor* peek(std::uint64_t address, std::uint8_t subcontext = 0) const;

  void begin_fetch(std::uint64_t address, std::uint8_t subcontext = 0);
  // What has come is entered, unless it has been forgotten since.
  void end_fetch(const CheckedDescriptor& descriptor);
  // It did not come.
  void drop_fetch() { fetching_ = false; }

  // The one at that address, of whatever subcontext; 0: all (TMA-04).
  void forget(std::uint64_t address);
  std::size_t size() const { return items_.size(); }
  void reset();

 private:
  struct Item {
    std::uint64_t address = 0;
    std::uint8_t subcontext = 0;
    std::uint64_t used = 0;
    CheckedDescriptor descriptor;
  };

  std::size_t entries_;
  std::vector<Item> items_;
  std::uint64_t uses_ = 0;
  std::uint64_t fetched_ = 0;  // address
  std::uint8_t fetched_of_ = 0;
  bool fetching_ = false;
  bool forgotten_ = false;  // while it is fetched
};

}  // namespace heddle::tmau

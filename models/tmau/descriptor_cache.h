// Tensor descriptors that have been used, by their address and the subcontext that it belongs to (TMA-04, PRT-08).
// Plain C++.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/mbarrier.h"
#include "arch/tensor_descriptor.h"
#include "common/cycle.h"
#include "tmau/tmau_params.h"

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

  // Null: a miss; so is one that was fetched before the cycle `from`, which goes on to count for others. A use, which
  // peek() is not.
  const CheckedDescriptor* find(std::uint64_t address, std::uint8_t subcontext = 0, Cycle from = 0);
  const CheckedDescriptor* peek(std::uint64_t address, std::uint8_t subcontext = 0, Cycle from = 0) const;

  void begin_fetch(std::uint64_t address, std::uint8_t subcontext = 0, Cycle when = 0);
  // What has come is entered, in the place of an older one of that address, unless it has been forgotten since.
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
    Cycle fetched = 0;
    CheckedDescriptor descriptor;
  };

  std::size_t entries_;
  std::vector<Item> items_;
  std::uint64_t uses_ = 0;
  std::uint64_t fetched_ = 0;  // address
  std::uint8_t fetched_of_ = 0;
  Cycle fetched_at_ = 0;
  bool fetching_ = false;
  bool forgotten_ = false;  // while it is fetched
};

// What a request has to keep to before anything of it is generated (TMA-06). Plain C++.

// The first rule that a block breaks. `memory`: bytes of device memory.
arch::TensorRule check_block(const arch::BulkRequest& request, std::uint64_t memory);
// The same of a tensor, before its descriptor is looked up.
arch::TensorRule check_descriptor_address(const arch::BulkRequest& request, std::uint64_t memory);
// A descriptor as it was fetched, or as an instruction carries it.
CheckedDescriptor check_descriptor(const std::uint8_t* bytes);
CheckedDescriptor check_descriptor(const arch::TensorDescriptor& descriptor);
// Bytes that there are for a box.
struct BoxRoom {
  std::uint32_t shared = 0;       // from request.shared to the end of the receivers' shared memory, or of the source's
  std::uint32_t destination = 0;  // send: from request.destination to the end of the receiver's
  std::uint64_t memory = 0;       // copy: device memory
};
// The request against its descriptor.
arch::TensorRule check_tensor(const arch::BulkRequest& request, const BoxRoom& room,
                              const CheckedDescriptor& descriptor);

// Rules that a parameter of the unit turns into reports: each is broken by a request that keeps to all others.
struct SoftRules {
  RuleAction shared_alignment;
  RuleAction empty_box;
  RuleAction base_outside;
  RuleAction inner_address;
};
// The first that refuses; `reported` gets those that do not. `base_outside`: as the walk has found.
arch::TensorRule check_soft_rules(const arch::BulkRequest& request, const arch::TensorDescriptor& descriptor,
                                  bool base_outside, const SoftRules& rules, arch::RuleSet& reported);

}  // namespace heddle::tmau

// From the queue to a request that can be generated: descriptor cache and set-up (TMA-03, TMA-04, TMA-06).
#pragma once

#include <array>
#include <optional>

#include "tmau/bulk_generator.h"
#include "tmau/descriptor_cache.h"

namespace heddle::tmau {

class SetupUnit {
 public:
  SetupUnit(const TmauContext& unit, BulkGenerator& generator, LineSender& sender, SmPorts& ports);

  // The request has left its queue and is lined up. Tensors alone need the look-up, which must be free.
  void start(BulkWork& work);
  // When the look-up is free again; kNever: once a descriptor has come, which look_up_free() tells.
  Cycle look_up_free() const { return look_up_free_; }
  // Bytes that the request moves, as far as the unit knows them before it looks up: else the greatest number.
  std::uint64_t bytes_of(const BulkWork& work) const;
  // The type of the elements that it moves, as far as the unit knows it before it looks up.
  std::optional<std::uint32_t> type_of(const BulkWork& work) const;
  // What a fetch of a descriptor has come to.
  void fetched(protocol::MemoryRequest& request, BulkWork& work, Cycle arrival);
  // The cached descriptor at that address does not count any more; 0: none does (TMA-04).
  void forget(std::uint64_t address) { cache_.forget(address); }
  bool idle() const { return !fetch_; }
  void reset();

 private:
  // A descriptor that is under way.
  struct Fetch {
    std::uint32_t number = 0;  // whose
    std::uint32_t open = 0;    // requests for it
    bool failed = false;
    Cycle begin = 0;
    std::array<std::uint8_t, arch::kDescriptorBytes> bytes{};
  };

  const CheckedDescriptor* known_of(const BulkWork& work) const;
  void look_up(BulkWork& work);
  void fetch(BulkWork& work, Cycle when);
  void set_up(BulkWork& work, const CheckedDescriptor& descriptor, Cycle when);
  void drop(BulkWork& work, arch::TensorRule rule, Cycle when);
  void generate_from(BulkWork& work, Cycle when);
  void fill_target(BulkWork& work) const;
  void stay_until(Cycle when);
  arch::TensorRule check_place(BulkWork& work, const arch::TensorDescriptor& descriptor) const;
  Cycle setup_of(const BulkWork& work, const arch::TensorDescriptor& descriptor) const;

  const TmauContext& unit_;
  BulkGenerator& generator_;
  LineSender& sender_;
  SmPorts& ports_;
  const Cycle descriptor_hit_;  // what the stages cost in this mode
  const Cycle setup_;
  const Cycle setup_loop_;
  const Cycle generate_;
  const SoftRules soft_rules_;
  DescriptorCache cache_;
  std::optional<Fetch> fetch_;
  Cycle look_up_free_ = 0;
  Cycle setup_free_ = 0;
};

}  // namespace heddle::tmau

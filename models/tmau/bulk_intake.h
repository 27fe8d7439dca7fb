// The input of a tensor memory access unit: phases of requests, drains, and orders to forget descriptors (TMA-31,
// TMA-41).
#pragma once

#include <optional>
#include <vector>

#include "tmau/bulk_reporter.h"
#include "tmau/completion_tracker.h"
#include "tmau/request_selector.h"

namespace heddle::tmau {

// Phases are given in the order of arrival: whatever the queue does, a drain knows what came before it.
class BulkIntake final : private EventHandler {
 public:
  // `input`: by SM of the unit; a credit is a place of its queue.
  BulkIntake(const UnitContext& unit, const std::vector<CreditSink*>& input, RequestSelector& selector,
             SetupUnit& setup, BulkReporter& reporter);

  void arrive(const protocol::BulkRequestPacket& packet, std::uint32_t sm);
  // A request of that phase is over, now or at a later cycle, and its number is free again.
  void ended(std::uint32_t sm, std::uint8_t phase, Cycle when);
  // What an input behind a drain, or a drain itself, waits for.
  void add_waits(const BulkWork& work, WaitGraph& graph) const;
  void reset();

 private:
  // An SM of the unit.
  struct Lane {
    Ring<std::uint32_t> input;  // numbers of requests; behind the first lies what a drain holds back
    CompletionTracker tracker;
    std::optional<std::uint32_t> drain;  // number of the one that is under way
  };

  void on_event(std::uint32_t kind, std::uint64_t sm) override;
  const char* handler_name() const override { return unit_.module; }
  void enter(std::uint32_t sm);
  void begin_drain(BulkWork& work);
  void end_drain(std::uint32_t sm);

  const UnitContext& unit_;
  const std::vector<CreditSink*>& input_;
  RequestSelector& selector_;
  SetupUnit& setup_;
  BulkReporter& reporter_;
  std::vector<Lane> lanes_;
};

}  // namespace heddle::tmau

// The queues of a tensor memory access unit, one or two for each SM, and which request leaves them next (TMA-03,
// TMA-43).
#pragma once

#include <optional>
#include <vector>

#include "common/packet_port.h"
#include "tmau/request_queue.h"
#include "tmau/setup_unit.h"

namespace heddle::tmau {

class RequestSelector final : private EventHandler {
 public:
  // `input`: by SM of the unit; a credit is a place of its queue.
  RequestSelector(const TmauContext& unit, const std::vector<CreditSink*>& input, SetupUnit& setup,
                  BulkGenerator& generator);

  void push(BulkWork& work);
  // Requests leave their queues, as long as the stages behind take them.
  void choose();
  // The look-up will be free, if something waits for it: it is chosen then.
  void arm();
  void add_waits(const BulkWork& work, WaitGraph& graph) const;
  void reset();

 private:
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return unit_.module; }
  bool has_place(std::uint32_t lane) const;
  bool can_choose(std::uint32_t lane) const;
  std::optional<std::uint32_t> class_of(const BulkWork& work) const;
  std::size_t next_of(std::uint32_t lane) const;

  const TmauContext& unit_;
  const std::vector<CreditSink*>& input_;
  SetupUnit& setup_;
  BulkGenerator& generator_;
  std::vector<RequestQueue> queues_;  // by lane of the unit
  Arbiter arbiter_;
  Cycle choose_at_ = kNever;   // event
  std::uint32_t waiting_ = 0;  // requests in all queues
  Cycle waiting_since_ = 0;    // statistics: one of them at least
};

}  // namespace heddle::tmau

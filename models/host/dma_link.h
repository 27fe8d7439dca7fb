// The way of DMA payloads to the host's bus and back: tags, the bandwidth of the link in each direction, its latency.
// In `lt` the latency is free; bandwidth is not in any timing (HST-05).
#pragma once

#include <cstdint>
#include <string>

#include "common/domain.h"
#include "common/index_pool.h"
#include "common/link_network.h"
#include "common/range_target.h"
#include "common/reservation.h"
#include "common/stats.h"
#include "common/waits.h"
#include "host/boundary_params.h"
#include "host/dma_bus.h"
#include "host/dma_port_payload.h"

namespace heddle::host {

class DmaLink final : private EventHandler, private DmaBus::Listener {
 public:
  class Listener {
   public:
    // The answer to a payload of this life has come back over the link; its tag is free.
    virtual void on_dma_answer(DmaPayload& payload) = 0;
    // None will come, and the payload is not ours any more; its tag is free.
    virtual void on_dma_lost(DmaPayload& payload) = 0;
    // A payload of before a reset does not count as out any more.
    virtual void on_dma_settled(DmaPayload& payload) = 0;

   protected:
    ~Listener() = default;
  };

  // `name`: for messages. All references must outlive it.
  DmaLink(const char* name, Domain& domain, DmaBus::Socket& socket, const HubParams& params,
          const DmaBusCounters& counters, Listener& listener);

  // A payload, with one reference, that goes out with the next pump().
  DmaPayload& add();
  // Sends what tags and bandwidth allow.
  void pump();

  // The range goes out by itself, where its lines take the target so many cycles, and comes back; it takes tags as
  // lines do, for which `queue` of them can wait.
  bool takes(const RangeMove& range) const { return range.bytes / arch::kLineBytes <= tag_limit_; }
  void go_out(RangeMove& range, std::uint32_t queue, Cycle target);
  void come_back(RangeMove& range);
  Cycle latency() const { return latency_; }  // of each way

  DmaBus& bus() { return bus_; }
  const DmaBus& bus() const { return bus_; }
  // Calls keep(payload) for each that the target still has and that may still take effect.
  template <class Keep>
  void reset(Keep&& keep) {
    reset_link();
    bus_.reset(keep);
  }

 private:
  enum Event : std::uint32_t { kLeave, kArrive, kFinish };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }
  void schedule(Cycle when, Event event, DmaPayload& payload) {
    domain_.schedule(when, *this, event, reinterpret_cast<std::uintptr_t>(&payload));
  }
  void on_bus_answer(DmaPayload& payload) override;
  void on_bus_lost(DmaPayload& payload) override;
  void on_bus_settled(DmaPayload& payload) override { listener_.on_dma_settled(payload); }
  void reset_link();

  const char* name_;
  Domain& domain_;
  Listener& listener_;
  DmaBus bus_;
  const std::uint32_t tag_limit_;
  const Cycle latency_;

  // Where accesses are requests.
  LinkPace out_;
  LinkPace back_;
  // The same two where they are calls: ranges take them ahead, and have tags of their own.
  const bool called_;
  const double rate_;  // bytes per cycle
  ReservedLink out_ahead_;
  ReservedLink back_ahead_;
  struct Tags {
    std::uint32_t lines = 0;
    Cycle first = 0;  // when the first of them is free again
    Cycle last = 0;
  };
  Ring<Tags> range_tags_;
  std::uint32_t range_lines_ = 0;  // of these
  std::uint64_t ranges_gone_ = 0;  // that have left range_tags_
  Ring<DmaPayload*> leaving_;      // before the link
  std::uint32_t tags_ = 0;         // in use
  bool leave_event_ = false;
};

}  // namespace heddle::host

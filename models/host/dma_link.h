// The way of DMA payloads to the CPU's bus and back: tags, the bandwidth of the link, the target's calls (HST-02). In
// `lt` a thread carries payloads out one after the other with b_transport, in which the target may wait.
//
// A reset does not reach the outside. Payloads that the target has stay alive until it gives them back; a request that
// it has not accepted yet keeps the channel busy until it does.
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
#include "host/dma_port_payload.h"

namespace heddle::host {

class DmaLink final : private EventHandler, private tlm::tlm_bw_transport_if<> {
 public:
  using Socket = tlm::tlm_initiator_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

  class Listener {
   public:
    // The answer to a payload of this life has come back over the link; its tag is free.
    virtual void on_dma_answer(DmaPayload& payload) = 0;
    // The target has given back a payload of before a reset.
    virtual void on_dma_settled(DmaPayload& payload) = 0;

   protected:
    ~Listener() = default;
  };

  // `name`: for messages. All references must outlive it. In `lt`, somebody's thread calls run().
  DmaLink(const char* name, Domain& domain, Socket& socket, const HubParams& params, Counter& stray,
          Listener& listener);

  // A payload, with one reference, that goes out with the next pump().
  DmaPayload& add();
  // Sends what tags and bandwidth allow.
  void pump();
  [[noreturn]] void run();

  // The range can go by itself: the target has shown how long it takes, and nothing of before a reset is there.
  bool takes(const RangeMove& range) const;
  // It goes out and comes back; it takes tags as lines do, for which `queue` of them can wait.
  void go_out(RangeMove& range, std::uint32_t queue);
  void come_back(RangeMove& range);
  Cycle latency() const { return latency_; }  // of each way

  // Nothing of before the last reset is at the target.
  bool settled() const { return stale_ == 0; }
  std::size_t payloads() const { return pool_.in_use(); }
  // Calls keep(payload) for each that the target still has.
  template <class Keep>
  void reset(Keep&& keep) {
    reset_link();
    for (const auto& payload : pool_.all()) {
      if (payload->state != DmaPayload::State::stale) continue;
      ++stale_;
      keep(*payload);
    }
  }
  void collect_waits(WaitGraph& graph, const std::string& path) const;

 private:
  enum Event : std::uint32_t { kLeave, kArrive, kBus, kAnswer, kFinish, kSettle };

  struct Call {
    DmaPayload* payload = nullptr;
    Cycle when = 0;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }
  void schedule(Cycle when, Event event, DmaPayload& payload) {
    domain_.schedule(when, *this, event, reinterpret_cast<std::uintptr_t>(&payload));
  }
  void send_bus();
  void send(DmaPayload& payload);
  void free_bus(const DmaPayload& payload, const sc_core::sc_time& delay);
  bool take_response(DmaPayload& payload, const sc_core::sc_time& delay);
  void enter_answer(DmaPayload& payload);
  void reset_link();
  Cycle arrival_of(const sc_core::sc_time& delay) const;
  static DmaPayload* own(tlm::tlm_generic_payload& payload);

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

  const char* name_;
  Domain& domain_;
  Socket& socket_;
  const std::uint32_t tag_limit_;
  const Cycle latency_;
  const bool timed_;
  Counter& stray_;
  Listener& listener_;
  DmaPayloadPool pool_;

  LinkPace out_;
  LinkPace back_;
  // The same two where accesses are calls: ranges take them ahead, and have tags of their own.
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
  std::uint32_t range_lines_ = 0;             // of these
  std::uint64_t ranges_gone_ = 0;             // that have left range_tags_
  Cycle target_takes_[2] = {kNever, kNever};  // reads, writes: for the last of them
  bool target_waits_ = false;                 // in blocking calls
  Ring<DmaPayload*> leaving_;                 // before the link
  std::uint32_t tags_ = 0;                    // in use
  bool leave_event_ = false;
  Ring<DmaPayload*> bus_;             // behind the link
  DmaPayload* requesting_ = nullptr;  // whose END_REQ is outstanding
  bool sending_ = false;              // inside send()
  Cycle bus_free_ = 0;
  std::uint32_t away_ = 0;   // payloads at the target, of this life
  std::uint32_t stale_ = 0;  // and of those before
  Ring<Call> calls_;         // for run()
  sc_core::sc_event wake_;
};

}  // namespace heddle::host

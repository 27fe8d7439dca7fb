// The host's bus as the DMA initiator finds it: one socket, behind which anybody's target or bus may be (HST-02,
// HST-06).
//
// A payload goes out by nb_transport, by b_transport from a thread of its own, or is a copy through a direct pointer;
// it comes back in any way that the base protocol allows, or never. A reset does not reach the outside: payloads that
// the target has stay alive until it gives them back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/domain.h"
#include "common/index_pool.h"
#include "common/stats.h"
#include "common/waits.h"
#include "host/boundary_params.h"
#include "host/dma_callers.h"
#include "host/dma_direct.h"
#include "host/dma_port_payload.h"

namespace heddle::host {

struct DmaBusCounters {
  Counter& stray;
  Counter& lost;
  Counter& direct;
};

// For people, once: `before` says whether it has been told, and does from then on.
void report_dma(bool& before, sc_core::sc_severity severity, const std::string& text);

class DmaBus final : private EventHandler, private tlm::tlm_bw_transport_if<> {
 public:
  using Socket = DirectAccess::Socket;

  class Listener {
   public:
    // The answer to a payload of this life, in the cycle in which it comes.
    virtual void on_bus_answer(DmaPayload& payload) = 0;
    // It has not come in time. The target may still have the payload, which is not the listener's any more.
    virtual void on_bus_lost(DmaPayload& payload) = 0;
    // The target has given back a payload of before a reset, or nobody waits for that any more; the same holds.
    virtual void on_bus_settled(DmaPayload& payload) = 0;

   protected:
    ~Listener() = default;
  };

  // `name`: for messages. All references must outlive it. During elaboration, in a module's constructor.
  DmaBus(const char* name, Domain& domain, Socket& socket, const HubParams& params, const DmaBusCounters& counters,
         Listener& listener);

  // With one reference.
  DmaPayload& acquire() { return pool_.acquire(); }
  // Now: inside an event.
  void send(DmaPayload& payload);

  // Moves bytes of a range without a transaction: through a direct pointer, or as for a debugger if a transaction in
  // the same direction has shown how long the target takes. Returns the cycles that the target takes for one of its
  // lines.
  std::optional<Cycle> move(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address,
                            std::uint8_t* data, std::uint32_t bytes);
  DirectAccess& direct() { return direct_; }

  // Nothing of before the last reset is at the target, as far as anybody expects it back.
  bool settled() const { return stale_ == 0; }
  std::size_t payloads() const { return pool_.in_use(); }
  // Calls keep(payload) for each that the target still has and that may still take effect.
  template <class Keep>
  void reset(Keep&& keep) {
    reset_bus();
    for (const auto& payload : pool_.all()) {
      if (payload->state == DmaPayload::State::stale) keep(*payload);
    }
  }
  void collect_waits(WaitGraph& graph, const std::string& path) const;

 private:
  enum Event : std::uint32_t { kBus, kAnswer, kSettle, kExpire };
  // What nb_transport has shown.
  struct Habit {
    std::uint32_t implied = 0;  // requests that were accepted with their response only
    bool accepts = false;       // one has been accepted before that
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }
  void schedule(Cycle when, Event event, DmaPayload& payload) {
    domain_.schedule(when, *this, event, reinterpret_cast<std::uintptr_t>(&payload));
  }

  bool blocking() const;
  void send_waiting();
  void send_request(DmaPayload& payload);
  bool call(DmaPayload& payload, Cycle when);
  void leave(DmaPayload& payload, Cycle when);
  void free_channel(const DmaPayload& payload, const sc_core::sc_time& delay);
  void note_acceptance(const DmaPayload& payload, bool by_response);
  bool take_response(DmaPayload& payload, const sc_core::sc_time& delay);
  void take_answer(DmaPayload& payload);
  void give_up_late_ones();
  void reset_bus();

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override { direct_.invalidate(first, last); }

  const char* name_;
  Domain& domain_;
  Socket& socket_;
  const HubParams& params_;
  const DmaBusCounters counters_;
  Listener& listener_;
  DmaPayloadPool pool_;
  DirectAccess direct_;
  DmaCallers callers_;
  Ring<DmaPayload*> waiting_;         // for the request channel
  DmaPayload* requesting_ = nullptr;  // whose END_REQ is outstanding
  bool sending_ = false;              // inside send_request()
  Cycle free_at_ = 0;                 // when the channel is, if nobody is requesting
  Habit habit_;
  Cycle takes_[2] = {kNever, kNever};  // cycles of the target for the last read, and write
  bool waits_ = false;                 // in blocking calls
  std::uint32_t away_ = 0;             // payloads at the target, of this life
  std::uint32_t stale_ = 0;            // and of those before
  sc_core::sc_event timer_;
  struct {
    bool serial = false, incomplete = false, lost = false;
  } reported_;
};

}  // namespace heddle::host

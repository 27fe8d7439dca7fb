// The DMA initiator: the device's boundary to the host's memory (HST-01, HST-02).
//
// What goes out are plain reads and writes of at most 128 bytes, without byte enables: a write with holes becomes
// several. All forms of answer that the base protocol allows are understood. In `lt` a thread carries them out one
// after the other with b_transport, in which the target may wait.
//
// Atomics. A target that knows the protocol's extension carries an atomic out as one; what it is asked with is a
// command to be ignored for everybody else. Where it is ignored, or refused, the atomic is a read and a write, which no
// access of this device to the same bytes comes between. Who has ignored it is not asked again for addresses nearby; an
// error says nothing about the next one.
//
// A reset does not reach the outside: writes that it has may still take effect. Later accesses to the same bytes wait
// for them, and settled() says when the last one is over.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/link_pace.h"
#include "common/ring.h"
#include "host/dma_port_order.h"
#include "host/dma_port_payload.h"
#include "host/hub_params.h"

namespace heddle::host {

class DmaPort : public Block, private tlm::tlm_bw_transport_if<> {
 public:
  using Socket = tlm::tlm_initiator_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

  DmaPort(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HubParams& params);
  ~DmaPort() override;

  Socket socket;
  bool bound() const { return socket.size() > 0; }

  // There are tags for another request.
  bool has_room() const { return open_ < params_.link_tags; }
  // A request to the host window, of bytes of one line, from inside an event. It stays the caller's, who keeps it alive
  // until on_done is called with its token, in that call or in a later event, or until a reset.
  void start(tlm::tlm_generic_payload& request, std::uint32_t token);
  void on_done(std::function<void(std::uint32_t token, tlm::tlm_response_status status)> done) {
    done_ = std::move(done);
  }
  // Without time: bytes of the host's bus. The bytes done.
  unsigned debug(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint32_t bytes);

  bool idle() const { return open_ == 0; }
  // The target has nothing any more of before the last reset.
  bool settled() const { return stale_ == 0; }
  // Payloads that are not free, those of before a reset included.
  std::size_t payloads() const { return pool_.in_use(); }

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  // Payloads that the target has stay alive until it gives them back; a request that it has not accepted yet keeps the
  // channel busy until it does.
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  enum Event : std::uint32_t { kLeave, kArrive, kBus, kAnswer, kFinish, kSettle };
  enum class Step : std::uint8_t { plain, probe, read, write };

  struct Job {
    tlm::tlm_generic_payload* request = nullptr;  // null: free
    std::uint32_t token = 0;
    std::uint64_t address = 0;  // on the host's bus, of the first byte that it touches
    std::uint32_t parts = 0;    // payloads under way
    std::uint32_t lane = 0;     // of an atomic: the value that is worked on
    Step step = Step::plain;
    tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
    Cycle since = 0;
  };
  struct Statistics {
    explicit Statistics(DmaPort& owner);
    Counter& read_bytes;
    Counter& written_bytes;
    Counter& atomics;
    Counter& split_atomics;
    Counter& held;
    Counter& errors;
    Counter& stray;
    Histogram& latency;
  };

  // The job.
  tlm::tlm_response_status judge(tlm::tlm_generic_payload& request, std::uint32_t& first, std::uint32_t& bytes,
                                 bool& changes) const;
  std::uint32_t new_job(tlm::tlm_generic_payload& request, std::uint32_t token);
  void begin(std::uint32_t number);
  void begin_plain(std::uint32_t number);
  void begin_lane(std::uint32_t number);
  void ask_lane(std::uint32_t number);
  void read_lane(std::uint32_t number);
  std::uint64_t lane_address(const Job& job) const;
  DmaPayload& part(std::uint32_t number, tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes);
  void begin_freed();
  void finish_part(DmaPayload& payload);
  void finish_lane(std::uint32_t number, DmaPayload& payload, tlm::tlm_response_status status);
  void finish_read(const Job& job, const DmaPayload& payload);
  void end_job(std::uint32_t number);

  // The link.
  void pump();
  void send_bus();
  void send(DmaPayload& payload);
  void free_bus(const DmaPayload& payload, const sc_core::sc_time& delay);
  bool take_response(DmaPayload& payload, const sc_core::sc_time& delay);
  void enter_answer(DmaPayload& payload);
  void keep_stale();
  void settle(DmaPayload& payload);
  Cycle arrival_of(const sc_core::sc_time& delay) const;
  DmaPayload* own(tlm::tlm_generic_payload& payload) const;

  // The target's calls, and the thread of `lt`.
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
  void run();

  struct Call {
    DmaPayload* payload = nullptr;
    Cycle when = 0;
  };

  const HubParams params_;
  const Cycle link_latency_;
  const bool timed_;
  Statistics stats_;
  std::function<void(std::uint32_t, tlm::tlm_response_status)> done_;
  DmaPayloadPool pool_;
  DmaOrder order_;
  IgnorantRegions ignorant_;

  std::vector<Job> jobs_;
  std::vector<std::uint32_t> free_jobs_;
  std::uint32_t open_ = 0;  // jobs
  std::vector<std::uint32_t> freed_;

  LinkPace out_;
  LinkPace back_;
  Ring<DmaPayload*> leaving_;  // before the link
  std::uint32_t tags_ = 0;     // in use
  bool leave_event_ = false;
  Ring<DmaPayload*> bus_;             // behind it
  DmaPayload* requesting_ = nullptr;  // whose END_REQ is outstanding
  bool sending_ = false;              // inside send()
  Cycle bus_free_ = 0;
  std::uint32_t away_ = 0;   // payloads at the target, of this life
  std::uint32_t stale_ = 0;  // and of those before

  Ring<Call> calls_;
  sc_core::sc_event wake_;
};

}  // namespace heddle::host

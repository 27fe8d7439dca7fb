// The DMA initiator: the device's boundary to the host's memory (HST-01, HST-02, HST-06).
//
// What goes out are plain reads and writes of at most 128 bytes, without byte enables: a write with holes becomes
// several. Every payload says whose request it is (host/dma_requester.h), and subcontexts reach what they have been
// given (host/host_windows.h).
//
// Atomics. A target that says that it knows the protocol's extension carries an atomic out as one; what it gets is a
// command to be ignored for everybody else. Elsewhere the atomic is a read and a write, which no access of this device
// to the same bytes comes between. What has become clear holds for addresses nearby, until a reset.
//
// A reset does not reach the outside: writes that it has may still take effect. Later accesses to the same bytes wait
// for them, and settled() says when the last one is over, or counts as lost.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/index_pool.h"
#include "host/boundary_params.h"
#include "host/dma_link.h"
#include "host/dma_port_order.h"
#include "host/dma_port_payload.h"
#include "host/window_guard.h"

namespace heddle::host {

class DmaPort : public Block, private DmaLink::Listener {
 public:
  using Socket = DmaBus::Socket;

  DmaPort(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HubParams& params);
  ~DmaPort() override;

  Socket socket;
  bool bound() const { return socket.size() > 0; }

  // There are tags for another request.
  bool has_room() const { return jobs_.in_use() < params_.link_tags; }
  // A request to the host window, of bytes of one line, from inside an event. It stays the caller's, who keeps it alive
  // until on_done is called with its token, in that call or in a later event, or until a reset.
  void start(tlm::tlm_generic_payload& request, std::uint32_t token);
  void on_done(std::function<void(std::uint32_t token, tlm::tlm_response_status status)> done) {
    done_ = std::move(done);
  }
  // Of the host window: through a direct pointer, or as for a debugger, and then the target takes as long as for the
  // last read or write that it was sent (RangeTarget). So one of these has to go first.
  bool move(RangeMove& range);
  void come_back(RangeMove& range) { link_.come_back(range); }
  // Without time: bytes of the host's bus. The bytes done.
  unsigned debug(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint32_t bytes);

  bool idle() const { return jobs_.in_use() == 0; }
  // Nothing of before the last reset is expected from the target any more.
  bool settled() const { return link_.bus().settled(); }
  // Payloads that are not free, those of before a reset included.
  std::size_t payloads() const { return link_.bus().payloads(); }

  void on_event(std::uint32_t, std::uint64_t) override {}
  // Payloads that the target has stay alive until it gives them back; a request that it has not accepted yet keeps the
  // channel busy until it does.
  void reset() override;
  void collect_waits(WaitGraph& graph) const override { link_.bus().collect_waits(graph, path()); }

 private:
  enum class Step : std::uint8_t { plain, offer, read, write };

  struct Job {
    tlm::tlm_generic_payload* request = nullptr;
    std::uint32_t token = 0;
    std::uint64_t address = 0;  // on the host's bus, of the first byte that it touches
    std::uint32_t parts = 0;    // payloads under way
    std::uint32_t lane = 0;     // of an atomic: the value that is worked on
    Step step = Step::plain;
    tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
    Cycle since = 0;
  };
  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& read_bytes = counter("read_bytes", "bytes", "bytes read from the host's bus");
    Counter& written_bytes = counter("written_bytes", "bytes", "bytes written to the host's bus");
    Counter& atomics = counter("atomics", "values", "atomics that the host's memory has carried out as one");
    Counter& split_atomics = counter("split_atomics", "values", "atomics that became a read and a write");
    Counter& held = counter("held", "requests", "requests that waited for an earlier one to the same bytes");
    Counter& errors = counter("errors", "requests", "requests that ended with an error");
    Counter& direct = counter("direct", "accesses", "accesses, lines of ranges among them, through direct pointers");
    Counter& refused = counter("refused", "requests", "requests that were in no window of their subcontext's");
    Counter& lost = counter("lost", "requests", "requests whose answer has not come in time");
    Counter& stray = counter("stray", "calls", "calls of the target that belong to no request of ours: ignored");
    Histogram& latency = histogram("latency", "cycles", "from a request's start to its end");
  };

  // The status of a request that cannot go out, or the bytes that it touches.
  tlm::tlm_response_status validate(tlm::tlm_generic_payload& request, std::uint32_t& first, std::uint32_t& bytes,
                                    bool& changes) const;
  void begin(std::uint32_t number);
  void begin_plain(std::uint32_t number);
  void begin_lane(std::uint32_t number);
  void offer_lane(std::uint32_t number, bool known);
  void read_lane(std::uint32_t number);
  DmaPayload& part(std::uint32_t number, tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes);
  void begin_freed();
  void finish_lane(std::uint32_t number, DmaPayload& payload, tlm::tlm_response_status status);
  void finish_read(const Job& job, const DmaPayload& payload);
  void end_job(std::uint32_t number);
  void on_dma_answer(DmaPayload& payload) override;
  void on_dma_lost(DmaPayload& payload) override;
  void on_dma_settled(DmaPayload& payload) override;

  const HubParams params_;
  Statistics stats_;

 public:
  // Who may reach what. A request that may not gets an address error.
  WindowGuard guard;

 private:
  DmaLink link_;
  std::function<void(std::uint32_t, tlm::tlm_response_status)> done_;
  DmaOrder order_;
  AtomicRegions atomics_;
  bool split_reported_ = false;
  IndexPool<Job> jobs_;
  std::vector<std::uint32_t> freed_;
};

}  // namespace heddle::host

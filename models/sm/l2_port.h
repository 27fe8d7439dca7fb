// Requests of an SM to the L2: when they leave, and the answers' way back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/cycle.h"
#include "common/index_pool.h"
#include "sm/accesses.h"
#include "sm/fence_tracker.h"
#include "sm/memory_port.h"
#include "sm/sm_stats.h"

namespace tlm {
class tlm_generic_payload;
}
namespace heddle {
class Domain;
class MemoryOut;
}  // namespace heddle
namespace heddle::protocol {
class MemoryRequest;
class RequestPool;
}  // namespace heddle::protocol

namespace heddle::sm {

// Whose addresses those of an instruction are.
struct Requester {
  std::uint8_t subcontext = 0;
  bool physical = false;
};

// Who made a request: a transaction waits for its answer or, of a read for the L1, an entry there.
struct L2Owner {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t transaction = kNone;
  std::uint32_t entry = kNone;
};

class L2Client {
 public:
  // The answer to a request, known inside the call that brings it; it arrives at `arrival`, now or later.
  virtual void answered(protocol::MemoryRequest& request, const L2Owner& owner, Cycle arrival) = 0;

 protected:
  ~L2Client() = default;
};

// Requests leave with the cycle in which they will have passed the tags of the L1, so that neither side needs an event.
class L2Port {
 public:
  L2Port(Domain& domain, MemoryOut& out, std::uint32_t sm, RequestGate& gate, FenceTracker& fences, SmStats& stats);
  ~L2Port();
  void serve(L2Client& client) { client_ = &client; }

  // Loosely timed: a request has been answered when submit() returns.
  bool blocking() const { return blocking_; }
  protocol::MemoryRequest& new_request(const Requester& requester);
  void submit(protocol::MemoryRequest& request, const L2Owner& owner, Cycle departure);
  // A blocking read that nothing waits for but the caller. `when`: departure, and then arrival.
  void read_now(protocol::MemoryRequest& request, Cycle& when);

  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival);
  void on_room(std::uint32_t, Cycle when);

  // Requests that wait for the crossbar.
  std::size_t waiting() const { return waiting_.size(); }
  // Payloads that are out.
  std::size_t payloads() const;
  void reset();

 private:
  struct Open {
    protocol::MemoryRequest* request = nullptr;
    FenceTracker::Epoch epoch = 0;
    L2Owner owner;
  };
  struct Waiting {
    protocol::MemoryRequest* request = nullptr;
    Cycle earliest = 0;
  };

  void count(const protocol::MemoryRequest& request);
  void answer(protocol::MemoryRequest& request, Cycle arrival);
  void send_waiting(Cycle now);

  Domain& domain_;
  MemoryOut& out_;
  const bool blocking_;
  const std::uint32_t sm_;
  RequestGate& gate_;
  FenceTracker& fences_;
  SmStats& stats_;
  L2Client* client_ = nullptr;
  std::unique_ptr<protocol::RequestPool> pool_;
  IndexPool<Open> open_;
  std::deque<Waiting> waiting_;
  Cycle last_departure_ = 0;
  std::vector<protocol::MemoryRequest*> retired_;  // answered, and perhaps still looked at by who answers
  std::uint32_t depth_ = 0;                        // of calls of on_response
  bool sending_ = false;
};

}  // namespace heddle::sm

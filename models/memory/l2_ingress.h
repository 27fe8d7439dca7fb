// The ingress ports of an L2 slice: one from the crossbar and, where there is one, one from the memory hub of the front
// end. Each has its own back-pressure: one that takes no responses does not hold back the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "memory/l2_access.h"
#include "memory/l2_array.h"
#include "memory/l2_write_buffer.h"

namespace heddle::memory {

// A payload and, in the lowest bit of its address, the port that it came by: one word, so that it can be the handle of
// a request in the core.
class PendingRequest {
 public:
  PendingRequest() = default;
  PendingRequest(tlm::tlm_generic_payload& payload, std::uint32_t port)
      : bits_(reinterpret_cast<std::uintptr_t>(&payload) | port) {}
  explicit PendingRequest(void* handle) : bits_(reinterpret_cast<std::uintptr_t>(handle)) {}

  tlm::tlm_generic_payload& payload() const {
    return *reinterpret_cast<tlm::tlm_generic_payload*>(bits_ & ~std::uintptr_t{1});
  }
  std::uint32_t port() const { return static_cast<std::uint32_t>(bits_ & 1); }
  void* handle() const { return reinterpret_cast<void*>(bits_); }

 private:
  std::uintptr_t bits_ = 0;
};

class L2Ingress {
 public:
  static constexpr std::uint32_t kCrossbar = 0;
  static constexpr std::uint32_t kHub = 1;
  static constexpr std::uint32_t kPorts = 2;

  // Of each port: `queue` requests that wait to be served, `responses` that wait to be taken.
  L2Ingress(std::uint32_t queue, std::uint32_t responses) : queue_(queue), responses_(responses) {}
  void connect(std::uint32_t port, MemoryIn& socket) { ports_[port].socket = &socket; }

  // A request has come. True if there is room for another.
  bool enter(std::uint32_t port) { return ++ports_[port].waiting < queue_; }
  // A request is served; accept() follows once whatever else it does is done: the next one may come inside.
  void leave(std::uint32_t port) { --ports_[port].waiting; }
  void accept(std::uint32_t port, Cycle now) {
    Port& from = ports_[port];
    if (from.socket->withholding() && from.waiting < queue_) from.socket->accept(now);
  }
  std::uint32_t waiting(std::uint32_t port) const { return ports_[port].waiting; }

  // A response that leaves the data pipeline at `when`. Those of a port leave in the order of these calls.
  void respond(const PendingRequest& request, Cycle when, Cycle now) {
    Port& to = ports_[request.port()];
    const Departure departure{&request.payload(), when};
    if (to.departures.empty() && to.socket->can_respond()) {
      deliver(to, departure, now);
    } else {
      to.departures.push(departure);
    }
  }
  // The port takes responses again.
  void send_responses(std::uint32_t port, Cycle now) {
    Port& to = ports_[port];
    while (!to.departures.empty() && to.socket->can_respond()) deliver(to, to.departures.pop(), now);
  }
  // The port has no place for another response. What is still on its way through the data pipeline needs none.
  bool blocked(std::uint32_t port, Cycle now) const {
    const Ring<Departure>& departures = ports_[port].departures;
    return departures.size() >= responses_ && departures.at(responses_ - 1).when <= now;
  }
  bool has_responses(std::uint32_t port) const { return !ports_[port].departures.empty(); }

  void reset() {
    for (Port& port : ports_) {
      port.waiting = 0;
      port.departures.clear();
    }
    last_departure_ = 0;
  }

 private:
  struct Departure {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle when = 0;
  };
  struct Port {
    MemoryIn* socket = nullptr;
    std::uint32_t waiting = 0;   // requests that have not been served
    Ring<Departure> departures;  // responses that are not taken yet
  };

  void deliver(Port& to, const Departure& departure, Cycle now) {
    last_departure_ = std::max({last_departure_, departure.when, now});
    to.socket->respond(*departure.payload, last_departure_);
  }

  std::uint32_t queue_;
  std::uint32_t responses_;
  std::array<Port, kPorts> ports_;
  Cycle last_departure_ = 0;
};

// Blocking accesses to an L2 slice: done at once, with memory called from inside.
//
// Memory may suspend the caller, and another access may come in the meantime. So lines under way are pinned, and bytes
// under way to memory are entries of the write buffer, as everywhere. The path keeps its own order with requests that
// wait for memory: between different initiators, none is promised.
class L2BlockingPath {
 public:
  L2BlockingPath(L2Array& array, L2Poison& poison, L2WriteBuffer& buffer, L2Counters& counters)
      : array_(array), poison_(poison), buffer_(buffer), counters_(counters) {}

  // Returns kL2Ok or memory's error.
  int serve(const L2Access& access, L2Memory& memory);

 private:
  static constexpr std::uint32_t kNone = L2Array::kNone;

  std::uint32_t allocate(std::uint64_t line, L2Memory& memory);
  int read(const L2Access& access, std::uint32_t sectors, std::uint8_t* image, L2Memory& memory);
  int fetch(std::uint32_t index, const L2Access& access, L2Memory& memory);
  int flush(L2Memory& memory);
  int bypass(const L2Access& access, L2Memory& memory);

  L2Array& array_;
  L2Poison& poison_;
  L2WriteBuffer& buffer_;
  L2Counters& counters_;
};

}  // namespace heddle::memory

// The ingress ports of an L2 slice: one from the crossbar and, where there are, one from the memory hub of the front
// end and one from the slice's twin. Each has its own back-pressure: one that takes no responses does not hold back the
// other. And what has come in by them and waits to be served.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "memory/l2_access.h"
#include "memory/l2_array.h"
#include "memory/l2_command.h"
#include "memory/l2_lanes.h"
#include "memory/l2_write_buffer.h"

namespace heddle::memory {

// A payload and, in the lowest bits of its address, the port that it came by: one word, so that it can be the handle of
// a request in the core.
class PendingRequest {
 public:
  PendingRequest() = default;
  PendingRequest(tlm::tlm_generic_payload& payload, std::uint32_t port)
      : bits_(reinterpret_cast<std::uintptr_t>(&payload) | port) {}
  explicit PendingRequest(void* handle) : bits_(reinterpret_cast<std::uintptr_t>(handle)) {}

  tlm::tlm_generic_payload& payload() const {
    return *reinterpret_cast<tlm::tlm_generic_payload*>(bits_ & ~std::uintptr_t{3});
  }
  std::uint32_t port() const { return static_cast<std::uint32_t>(bits_ & 3); }
  void* handle() const { return reinterpret_cast<void*>(bits_); }

 private:
  std::uintptr_t bits_ = 0;
};

class L2Ingress {
 public:
  static constexpr std::uint32_t kCrossbar = 0;
  static constexpr std::uint32_t kHub = 1;
  static constexpr std::uint32_t kTwin = 2;
  static constexpr std::uint32_t kPorts = 3;

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
  bool has_responses() const {
    return std::any_of(ports_.begin(), ports_.end(), [](const Port& port) { return !port.departures.empty(); });
  }

  void reset() {
    for (Port& port : ports_) {
      port.waiting = 0;
      port.departures.clear();
      port.last = 0;
    }
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
    Cycle last = 0;              // departure
  };

  void deliver(Port& to, const Departure& departure, Cycle now) {
    to.last = std::max({to.last, departure.when, now});
    to.socket->respond(*departure.payload, to.last);
  }

  std::uint32_t queue_;
  std::uint32_t responses_;
  std::array<Port, kPorts> ports_;
};

// Requests that wait at a slice: in the order of their arrival or, while bandwidth is shared, in lanes.
class L2Arrivals {
 public:
  struct Arrival {
    PendingRequest request;
    Cycle ready = 0;  // when its tags are known
  };

  // `counters` learns of the lanes. All must outlive it.
  L2Arrivals(const SliceShares& shares, L2Counters& counters) : shares_(shares), counters_(counters) {}

  // Announced ahead of time, perhaps: so one from the other port can come first.
  void enter(const Arrival& arrived);
  bool empty() const { return lanes_ != nullptr ? lanes_->empty() : queue_.empty(); }
  // Null: in the order of arrival, and what follows is for that. Somebody may have been given a share since.
  L2Lanes* lanes() {
    if (lanes_ == nullptr && shares_.table != nullptr && shares_.table->any()) open_lanes();
    return lanes_.get();
  }

  const Arrival& front() const { return queue_.front(); }
  // The first one, or what the lanes have chosen, is served.
  void leave() {
    if (lanes_ != nullptr) return lanes_->serve();
    queue_.pop();
  }
  // When the first one of a port, of which something waits, is ready.
  Cycle first_of(std::uint32_t port) const { return queue_.at(place_of(port)).ready; }
  // It becomes the first of all.
  void put_first(std::uint32_t port);

  // The request that is served next; null without one, or if nobody knows.
  const tlm::tlm_generic_payload* next_payload() const {
    return queue_.empty() ? nullptr : &queue_.front().request.payload();
  }
  // Something of these lines waits.
  bool touches(std::uint64_t first_line, std::uint64_t last_line) const;
  void reset();

 private:
  std::size_t place_of(std::uint32_t port) const {
    std::size_t place = 0;
    while (queue_.at(place).request.port() != port) ++place;
    return place;
  }
  void open_lanes();
  void enter_lane(const Arrival& arrived);

  const SliceShares shares_;
  L2Counters& counters_;
  Ring<Arrival> queue_;
  std::unique_ptr<L2Lanes> lanes_;
};

// Blocking accesses to an L2 slice: done at once, with memory called from inside.
//
// Memory may suspend the caller, and another access may come in the meantime. So lines under way are pinned, and bytes
// under way to memory are entries of the write buffer, as everywhere. The path keeps its own order with requests that
// wait for memory: between different initiators, none is promised.
class L2BlockingPath {
 public:
  L2BlockingPath(L2Array& array, L2Poison& poison, L2WriteBuffer& buffer, L2Invalidation& invalidation,
                 L2Counters& counters)
      : array_(array), poison_(poison), buffer_(buffer), invalidation_(invalidation), counters_(counters) {}

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
  L2Invalidation& invalidation_;
  L2Counters& counters_;
};

}  // namespace heddle::memory

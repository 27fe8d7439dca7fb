// When the load-store unit of an SM takes instructions, and when it serves them: a queue in front of one port (SM-03),
// and a limit to the requests that are open.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cycle.h"
#include "sm/scoreboard.h"
#include "sm/sm_params.h"

namespace heddle::sm {

// The port gives 128 bytes per cycle: a line of the L1, or a wavefront of shared memory. Instructions are served in
// the order of their issue, so their times are known then, and nothing has to be stepped.
class MemoryPort {
 public:
  explicit MemoryPort(std::uint32_t queue) : begins_(queue) {}

  // The first cycle in which an instruction can issue: when the queue has a place.
  Cycle free() const { return begins_[next_]; }
  // An instruction that issues at `now` and takes that many cycles of the port; gives the first of them.
  Cycle take(Cycle now, std::uint64_t cycles) {
    const Cycle begin = take_past_queue(now, cycles);
    begins_[next_] = begin;
    next_ = next_ + 1 == begins_.size() ? 0 : next_ + 1;
    return begin;
  }
  // The cycles for something that does not stand in the queue.
  Cycle take_past_queue(Cycle now, std::uint64_t cycles) {
    const Cycle begin = std::max(now, free_);
    free_ = begin + cycles;
    return begin;
  }

  void reset() {
    std::fill(begins_.begin(), begins_.end(), 0);
    free_ = 0;
  }

 private:
  std::vector<Cycle> begins_;  // of the last instructions, as many as the queue has places: a ring
  std::size_t next_ = 0;       // the oldest of them
  Cycle free_ = 0;
};

class GateListener {
 public:
  // The gate was closed, and instructions can issue again from `when` on.
  virtual void gate_opened(Cycle when) = 0;

 protected:
  ~GateListener() = default;
};

// Closed while too many requests are open, or wait to be sent: those to the L2 and those to other SMs together.
class RequestGate {
 public:
  RequestGate(const MemoryPort& port, const MemoryParams& params)
      : port_(port), most_open_(params.requests), most_queued_(params.request_queue) {}

  // The first cycle in which an instruction can issue; kNeverReady while the gate is closed.
  Cycle free() const { return closed() ? kNeverReady : port_.free(); }
  bool closed() const { return open_ >= most_open_ || queued_ >= most_queued_; }
  std::size_t open() const { return open_; }

  void request_begins() { ++open_; }
  void request_ends() { --open_; }
  void request_queued() { ++queued_; }
  void request_sent() { --queued_; }
  // A request has been submitted: if that has closed the gate, the listeners are told when it opens.
  void note_closed() { was_closed_ |= closed(); }
  void consider_opening(Cycle when) {
    if (!was_closed_ || closed()) return;
    was_closed_ = false;
    for (GateListener* listener : listeners_) listener->gate_opened(when);
  }
  // Listeners are told in the order of these calls.
  void listen(GateListener& listener) { listeners_.push_back(&listener); }

  void reset() {
    open_ = queued_ = 0;
    was_closed_ = false;
  }

 private:
  const MemoryPort& port_;
  const std::size_t most_open_;
  const std::size_t most_queued_;
  std::size_t open_ = 0;
  std::size_t queued_ = 0;
  bool was_closed_ = false;
  std::vector<GateListener*> listeners_;
};

}  // namespace heddle::sm

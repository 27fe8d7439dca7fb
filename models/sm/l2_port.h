// Requests of an SM to the L2: when they leave, and the answers' way back.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/bits.h"
#include "common/cycle.h"
#include "common/fifo.h"
#include "common/index_pool.h"
#include "common/line_source.h"
#include "common/link_network.h"
#include "sm/accesses.h"
#include "sm/context_transfer.h"
#include "sm/issue_unit.h"
#include "sm/sm_context.h"
#include "sm/sm_params.h"
#include "sm/sub_partition.h"
#include "sm/warp.h"

namespace heddle::sm {

class GlobalPath;

// When the load-store unit of an SM takes instructions, and when it serves them: a queue in front of one port (SM-03),
// and a limit to the requests that are open.

// What is known to come to a port at later cycles, bulk data read by calls: it takes the port then, in the order of
// time with what comes unforeseen.
class PortArrivals {
 public:
  // Something that takes so many cycles comes at `when`. False: that is too far ahead, or too much.
  bool add(Cycle now, Cycle when, std::uint32_t cycles) {
    if (count_ == 0) passed_ = now;
    if (when < passed_ || when >= passed_ + kReach || cycles_[when % kReach] + cycles > kMost) return false;
    cycles_[when % kReach] = static_cast<std::uint8_t>(cycles_[when % kReach] + cycles);
    std::uint64_t& word = some_[when % kReach / 64];
    const std::uint64_t bit = std::uint64_t{1} << when % 64;
    if ((word & bit) == 0) ++count_;
    word |= bit;
    return true;
  }
  // All that has come by `now` has taken the port, which was free from `free` on: gives from when it is free now.
  Cycle pass(Cycle now, Cycle free) {
    if (count_ == 0 || now < passed_) return free;
    const Cycle last = std::min(now, passed_ + kReach - 1);
    for (Cycle at = passed_; at <= last && count_ != 0;) {
      const std::uint64_t left = some_[at % kReach / 64] >> at % 64;
      if (left == 0) {
        at = (at / 64 + 1) * 64;
        continue;
      }
      at += bits::lowest(left);
      if (at > last) break;
      some_[at % kReach / 64] &= ~(std::uint64_t{1} << at % 64);
      free = end_ = std::max(at, free) + std::exchange(cycles_[at % kReach], std::uint8_t{0});
      --count_;
      ++at;
    }
    passed_ = now + 1;
    return free;
  }
  // When the last of what has passed was done with the port.
  Cycle end() const { return end_; }
  void reset() { *this = PortArrivals(); }

 private:
  static constexpr Cycle kReach = 1024;  // cycles
  static constexpr std::uint32_t kMost = 255;

  std::array<std::uint64_t, kReach / 64> some_{};  // bit = cycle in which something comes
  std::array<std::uint8_t, kReach> cycles_{};      // that it takes
  std::uint32_t count_ = 0;                        // bits of some_
  Cycle passed_ = 0;                               // nothing is to come before
  Cycle end_ = 0;
};

// The port gives 128 bytes per cycle: a line of the L1, or a wavefront of shared memory. Instructions are served in
// the order of their issue, so their times are known then, and nothing has to be stepped.
class IssuePort {
 public:
  // `shared_starts`: instructions on shared memory that begin per cycle, at most.
  IssuePort(std::uint32_t queue, double shared_starts) : begins_(queue), starts_(shared_starts) {}

  // The first cycle in which an instruction can issue: when the queue has a place.
  Cycle free() const { return begins_[next_]; }
  // An instruction that issues at `now` and takes that many cycles of the port; gives the first of them.
  Cycle take(Cycle now, std::uint64_t cycles) {
    settle(now);
    return queue(now, cycles);
  }
  // The same for an instruction on shared memory, whose addresses take the unit their time, beside the cycles of data
  // of those in front of it.
  Cycle take_shared(Cycle now, std::uint64_t cycles) {
    settle(now);
    const Cycle begin = queue(starts_.earliest(std::max(now, free_)), cycles);
    starts_.take(begin, 1);
    return begin;
  }
  // The cycles for something that does not stand in the queue.
  Cycle take_past_queue(Cycle now, std::uint64_t cycles) {
    settle(now);
    return reserve(now, cycles);
  }
  // Something that does not stand in the queue will come at `when`. False: that cannot be said yet.
  bool expect(Cycle now, Cycle when, std::uint32_t cycles) {
    settle(now);
    return arrivals_.add(now, when, cycles);
  }
  // What was expected for `now` has come: the last cycle that it takes of the port.
  Cycle come(Cycle now) {
    settle(now);
    return std::max(now, arrivals_.end() - 1);
  }

  void reset() {
    std::fill(begins_.begin(), begins_.end(), 0);
    starts_.reset();
    arrivals_.reset();
    free_ = 0;
  }

 private:
  void settle(Cycle now) { free_ = arrivals_.pass(now, free_); }
  Cycle reserve(Cycle from, std::uint64_t cycles) {
    const Cycle begin = std::max(from, free_);
    free_ = begin + cycles;
    return begin;
  }
  Cycle queue(Cycle from, std::uint64_t cycles) {
    const Cycle begin = reserve(from, cycles);
    begins_[next_] = begin;
    next_ = next_ + 1 == begins_.size() ? 0 : next_ + 1;
    return begin;
  }

  std::vector<Cycle> begins_;  // of the last instructions, as many as the queue has places: a ring
  std::size_t next_ = 0;       // the oldest of them
  LinkPace starts_;            // of instructions on shared memory
  PortArrivals arrivals_;
  Cycle free_ = 0;
};

class GateListener {
 public:
  // The gate was closed, and instructions can issue again from `when` on.
  virtual void gate_opened(Cycle when) = 0;

 protected:
  ~GateListener() = default;
};

// As many requests as may be open at a time, where each is answered by the call that sends it: one leaves when that
// which had its place before has been answered.
class OpenPlaces {
 public:
  explicit OpenPlaces(std::uint32_t places) : answered_(places) {}
  Cycle earliest(Cycle departure) const { return std::max(departure, answered_[next_]); }
  void take(Cycle answered) {
    answered_[next_] = answered;
    next_ = next_ + 1 == answered_.size() ? 0 : next_ + 1;
  }
  // So many places are taken by calls that are still to be made: not free before `earliest`, and then until set().
  // Returns the first.
  std::uint32_t reserve(std::uint32_t count, Cycle earliest) {
    const auto first = static_cast<std::uint32_t>(next_);
    for (; count > 0; --count) take(earliest);
    return first;
  }
  // Of the place that many behind the first.
  void set(std::uint32_t first, std::uint32_t offset, Cycle answered) {
    answered_[(first + offset) % answered_.size()] = answered;
  }
  void reset() {
    std::fill(answered_.begin(), answered_.end(), 0);
    next_ = 0;
  }

 private:
  std::vector<Cycle> answered_;
  std::size_t next_ = 0;
};

// Closed while too many requests are open, or wait to be sent: those to the L2 and those to other SMs together.
class RequestGate {
 public:
  RequestGate(const IssuePort& port, const MemoryParams& params)
      : port_(port), most_open_(params.requests), most_queued_(params.request_queue), calls_(params.requests) {}

  // The first cycle in which an instruction can issue; kNever while the gate is closed.
  Cycle free() const { return closed() ? kNever : calls_.earliest(port_.free()); }
  bool closed() const { return open_ >= most_open_ || queued_ >= most_queued_; }
  std::size_t open() const { return open_; }

  // A request was a call: it is open until then.
  void called(Cycle answered) { calls_.take(answered); }
  // Calls that are still to be made have places as well.
  OpenPlaces& calls() { return calls_; }
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
    calls_.reset();
  }

 private:
  const IssuePort& port_;
  const std::size_t most_open_;
  const std::size_t most_queued_;
  std::size_t open_ = 0;
  std::size_t queued_ = 0;
  bool was_closed_ = false;
  OpenPlaces calls_;
  std::vector<GateListener*> listeners_;
};

}  // namespace heddle::sm

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
  std::uint32_t kernel = 0;  // row of the kernel; 0: nobody's
};

// Who made a request: a transaction waits for its answer or, of a read for the L1, an entry there.
struct L2Owner {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t transaction = kNone;
  std::uint32_t entry = kNone;
};

// Corrupt data get no further than here: not into registers, shared memory or the L1.
AccessFailure failure_of(const protocol::MemoryRequest& request);
// Sectors of a line, from the first to the last.
void aim_read(protocol::MemoryRequest& request, std::uint64_t line, std::uint8_t sectors);

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
  L2Port(Domain& domain, MemoryOut& out, protocol::SmId sm, RequestGate& gate, FenceTracker& fences, SmStats& stats);
  ~L2Port();
  void serve(L2Client& client) { client_ = &client; }

  RequestGate& gate() { return gate_; }
  // A request has been answered when submit() returns.
  bool blocking() const { return blocking_; }
  bool has_costs() const { return has_costs_; }
  protocol::MemoryRequest& new_request(const Requester& requester);
  void submit(protocol::MemoryRequest& request, const L2Owner& owner, Cycle departure);
  // A blocking read that nothing waits for but the caller. It counts as an open request of its own once the caller has
  // told the gate.
  AccessFailure read_now(LineRead& read);
  // Soon the line will be read.
  void warm(std::uint64_t line, std::uint8_t subcontext, LinePlace& at, bool data) {
    if (!lines_.offered()) return;
    LineRead read;
    read.address = read.physical_address = line;
    read.subcontext = subcontext;
    read.at = at;
    lines_.warm(read, data);
    at = read.at;
  }

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

  void find_lines();
  Cycle call(protocol::MemoryRequest& request, Cycle departure);
  void count(std::uint32_t bytes);
  void answer(protocol::MemoryRequest& request, Cycle arrival);
  void send_waiting(Cycle now);

  Domain& domain_;
  MemoryOut& out_;
  const bool blocking_;
  const bool has_costs_;
  const protocol::SmId sm_;
  RequestGate& gate_;
  FenceTracker& fences_;
  SmStats& stats_;
  L2Client* client_ = nullptr;
  std::unique_ptr<protocol::RequestPool> pool_;
  IndexPool<Open> open_;
  Fifo<Waiting> waiting_;
  Cycle last_departure_ = 0;
  std::vector<protocol::MemoryRequest*> retired_;  // answered, and perhaps still looked at by who answers
  std::uint32_t depth_ = 0;                        // of calls of on_response
  LinePort lines_;
  bool lines_known_ = false;
  std::array<std::uint8_t, arch::kLineBytes> image_{};  // of a line that a payload has brought
  bool sending_ = false;
};

// A transfer goes on without its CTA if that cannot wait for it.
struct Transfer {
  struct Flight {
    bool busy = false;
    bool failed = false;
    ContextTransfer::Access access;
  };
  std::optional<ContextTransfer> steps;  // none: the place is free
  std::optional<std::uint32_t> cta;      // slot; none: it goes on alone
  bool waits = false;                    // for the load-store unit
  Cycle begin = 0;
  Cycle not_before = 0;  // of the next access
  std::array<Flight, ContextTransfer::kWindow> flights;
};

class TransferListener {
 public:
  // An access of the transfer has been answered, and its CTA has not been detached.
  virtual void transfer_changed(std::uint32_t transfer) = 0;

 protected:
  ~TransferListener() = default;
};

// The accesses that context transfers of CTAs take (TSK-12): made by warps behind those of CTAs, one for each transfer,
// which never issue and have nothing but registers for what comes.
class TransferUnit final : private SmUnit, public AccessClient, public GateListener, private EventHandler {
 public:
  struct Peers {
    const RequestGate& gate;
    GlobalPath& global;
    TransferListener& listener;
  };
  // `first_slot`: behind those of warps. `memory`: for the retries of steps.
  TransferUnit(const UnitContext& context, std::uint32_t first_slot, const arch::LaunchMemory& memory,
               const Peers& peers)
      : SmUnit(context), first_slot_(first_slot), memory_(memory), peers_(peers) {}

  // Its accesses begin at `when`, now or later.
  std::uint32_t begin(const Cta& cta, ContextTransfer steps, Cycle when);
  Transfer& operator[](std::uint32_t transfer) { return transfers_[transfer]; }
  // It wants something again that it did not want before.
  void go_on_now(std::uint32_t transfer) { time_.schedule(time_.now(), *this, kGoesOn, transfer); }
  // From now on the transfer is alone: it gives back what it has taken.
  void detach(std::uint32_t transfer);
  void reset() { transfers_.clear(); }

  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override { access_ended(access, when); }
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;
  void gate_opened(Cycle when) override;

 private:
  enum Event : std::uint32_t {
    kGoesOn,    // argument: transfer
    kAnswered,  // argument: transfer, and above it the number of the access
  };
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void go_on(std::uint32_t index);
  void issue(std::uint32_t index);
  void answered(std::uint32_t index, std::uint32_t flight);

  const std::uint32_t first_slot_;
  const arch::LaunchMemory& memory_;
  Peers peers_;
  IndexPool<Transfer> transfers_;
};

}  // namespace heddle::sm

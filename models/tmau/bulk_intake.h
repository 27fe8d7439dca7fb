// The input of a tensor memory access unit: phases of requests, drains, and orders to forget descriptors (TMA-31,
// TMA-41).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/gpu_observation.h"
#include "common/domain.h"
#include "common/error.h"
#include "common/packet_port.h"
#include "tmau/bulk_work.h"
#include "tmau/request_selector.h"

namespace heddle::tmau {

// What the SMs of a tensor memory access unit are told of their requests, and the requests' slices of the timeline.
class BulkReporter {
 public:
  // `done`: link = SM of the unit.
  BulkReporter(const TmauContext& unit, PacketSender<protocol::BulkDonePacket>& done)
      : unit_(unit), done_(done), map_(gpu_observation(unit.timebase).bulk) {}

  // Its source in shared memory may be overwritten. Told once.
  void tell_read(BulkWork& work);
  // The L2 has taken it over. Told once.
  void tell_accepted(BulkWork& work);
  // It is over, now or at a later cycle `when`.
  void tell_done(const BulkWork& work, Cycle when);
  // The SMs have been told of everything that is over.
  bool quiet() const { return unit_.now() >= quiet_from_; }
  void reset();

 private:
  void note(const BulkWork& work, Cycle end);
  void draw(const BulkWork& work, Cycle end);

  const TmauContext& unit_;
  PacketSender<protocol::BulkDonePacket>& done_;
  BulkMap& map_;
  Cycle quiet_from_ = 0;
  std::vector<TrackId> tracks_;
  std::vector<Cycle> track_ends_;
};

// Which requests of an SM are still open, in two phases, so that one instruction can wait for all before it
// (TMA-31, TMA-41). Plain C++.

// A drain flips the phase: later requests count in the other one, and the drain is over when the old one is empty. So
// there is one drain at a time.
class CompletionTracker {
 public:
  std::uint8_t phase() const { return phase_; }
  bool draining() const { return draining_; }
  std::uint32_t open() const { return open_[0] + open_[1]; }

  // A request; gives its phase.
  std::uint8_t begin() {
    ++open_[phase_];
    return phase_;
  }
  // It is over at `when`, now or later. True: the drain is as well, at drained().
  bool end(std::uint8_t phase, Cycle when) {
    HEDDLE_CHECK(phase < 2 && open_[phase] > 0, "a request ended twice");
    latest_[phase] = std::max(latest_[phase], when);
    if (--open_[phase] > 0 || !draining_ || phase == phase_) return false;
    end_drain(phase);
    return true;
  }
  // True: it is over at once, at drained().
  bool drain(Cycle now) {
    HEDDLE_CHECK(!draining_, "a drain began before the last one was over");
    const std::uint8_t old = phase_;
    phase_ ^= 1;
    drained_ = std::max(drained_, now);
    draining_ = true;
    if (open_[old] > 0) return false;
    end_drain(old);
    return true;
  }
  // When the last drain was, or is, over.
  Cycle drained() const { return drained_; }
  void reset() { *this = CompletionTracker(); }

 private:
  void end_drain(std::uint8_t old) {
    draining_ = false;
    drained_ = std::max(drained_, latest_[old]);
  }

  std::array<std::uint32_t, 2> open_{};
  std::array<Cycle, 2> latest_{};
  Cycle drained_ = 0;
  std::uint8_t phase_ = 0;
  bool draining_ = false;
};

// Phases are given in the order of arrival: whatever the queue does, a drain knows what came before it.
class BulkIntake final : private EventHandler {
 public:
  // `input`: by SM of the unit; a credit is a place of its queue.
  BulkIntake(const TmauContext& unit, const std::vector<CreditSink*>& input, RequestSelector& selector,
             SetupUnit& setup, BulkReporter& reporter);

  void arrive(const protocol::BulkRequestPacket& packet, std::uint32_t sm);
  // A request of that phase is over, now or at a later cycle, and its number is free again.
  void ended(std::uint32_t sm, std::uint8_t phase, Cycle when);
  // What an input behind a drain, or a drain itself, waits for.
  void add_waits(const BulkWork& work, WaitGraph& graph) const;
  void reset();

 private:
  // An SM of the unit.
  struct Lane {
    Ring<std::uint32_t> input;  // numbers of requests; behind the first lies what a drain holds back
    CompletionTracker tracker;
    std::optional<std::uint32_t> drain;  // number of the one that is under way
  };

  void on_event(std::uint32_t kind, std::uint64_t sm) override;
  const char* handler_name() const override { return unit_.module; }
  void enter(std::uint32_t sm);
  void begin_drain(BulkWork& work);
  void end_drain(std::uint32_t sm);

  const TmauContext& unit_;
  const std::vector<CreditSink*>& input_;
  RequestSelector& selector_;
  SetupUnit& setup_;
  BulkReporter& reporter_;
  std::vector<Lane> lanes_;
};

}  // namespace heddle::tmau

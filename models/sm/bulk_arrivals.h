// Bulk data that arrive in shared memory (TMA-20, TMA-40): with payloads, or, where reads are calls, many lines at once
// without.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "arch/address_map.h"
#include "arch/tensor_descriptor.h"
#include "common/index_pool.h"
#include "common/timebase.h"
#include "protocol/sm_tmau.h"
#include "sm/dsmem_paths.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

// What a receiver on this SM found wrong with bulk data (TMA-40).
struct BulkError {
  arch::DsmemStatus status = arch::DsmemStatus::ok;  // poison: of the mbarrier, or of what a send reduces into
  std::uint32_t rank = 0;                            // of the receiver, if the target is by_rank
  std::uint32_t offset = 0;                          // in its shared memory
  const protocol::BulkTarget& target;                // valid inside the call
};

class BulkErrorListener {
 public:
  // Bulk data for a CTA here could not be written or read, or its mbarrier does not take them; or what a CTA here has
  // sent failed at its receiver.
  virtual void bulk_failed(const BulkError& error, Cycle when) = 0;
  // A request of a CTA here has read bytes of shared memory, at that offset, that no proxy fence has published
  // (TMA-41).
  virtual void missing_fence(const protocol::BulkTarget& target, std::uint32_t offset, Cycle when) = 0;

 protected:
  ~BulkErrorListener() = default;
};

struct BulkPlaced;

// Data are written to the receivers' windows, swizzled, filled and converted as the target says, over the port past its
// queue; then each receiver's mbarrier completes that many bytes, filled ones included, and window_changed() tells.
//
// Lines without payloads are written as soon as they have been read, before they arrive: a program that waits at the
// mbarrier, as it has to, cannot see it. What else their arrival means is done when the last of them arrives, all
// checks among it: a phase of an mbarrier cannot end before. What cannot be written yet is kept until then.
class BulkArrivals final : private EventHandler {
 public:
  BulkArrivals(Timebase& time, Cycle mbarrier_latency, const SmContext& place, const arch::SwizzleTable& swizzles,
               SharedMemory& shared, const ClusterTables& tables, IssuePort& port, SmStats& stats,
               BulkErrorListener& errors, WindowListener& windows)
      : time_(time),
        mbarrier_latency_(mbarrier_latency),
        place_(place),
        swizzles_(swizzles),
        shared_(shared),
        tables_(tables),
        port_(port),
        stats_(stats),
        errors_(errors),
        windows_(windows) {}

  // Data arrive now, or will.
  void arrive(const protocol::BulkDataPacket& packet);
  void expect(const protocol::BulkDataPacket& packet, Cycle arrival);
  // The port's cycles for bulk data: gives the last of them.
  Cycle use_port(Cycle from, std::uint32_t cycles);
  void reset();

 private:
  static constexpr std::uint32_t kPacket = 0;  // kinds of events; argument: in packets_ or lots_
  static constexpr std::uint32_t kLot = 1;

  struct Line {
    std::uint32_t shared = 0;  // offset
    std::uint16_t bytes = 0;   // of the piece
    std::uint16_t counts = 0;  // bytes of shared memory
  };
  // Lines that have been read and have not arrived.
  struct Lot {
    std::uint32_t count = 0;
    std::uint32_t bytes = 0;    // of shared memory
    std::uint64_t end = 0;      // of what they touch in the window
    std::uint32_t written = 0;  // mask of ranks; of a request for the own CTA: bit 0
    std::uint32_t cycles = 0;   // of the port, for each of those
    std::uint32_t late = 0;     // of these, what the port does not expect
    std::uint8_t group = 0;     // TensorPiece::group
    std::array<Line, protocol::BulkLines::kMost> line;
    protocol::BulkTarget target;
    std::unique_ptr<protocol::BulkLines> kept;  // null: all is written
  };
  using Place = std::optional<std::uint32_t>;

  const char* handler_name() const override { return "bulk data"; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  // visit(window, rank) for the target's receivers on this SM.
  template <class Visit>
  void each_receiver(const protocol::BulkTarget& target, Visit&& visit) const;
  void expect(const protocol::BulkLines& lines, Cycle arrival);
  bool write(Lot& lot, const protocol::BulkLines& lines, Place place, Cycle arrival);
  void arrive(Lot& lot, Place place, std::uint32_t rank);
  void arrive_singly(Lot& lot, Place place, std::uint32_t rank);
  Cycle come(const Lot& lot);
  void land(const protocol::BulkTarget& target, const BulkPlaced& placed, Place place, std::uint32_t rank,
            std::optional<Cycle> come);
  void count(const protocol::BulkTarget& target, std::uint32_t window, std::uint32_t rank, std::uint32_t bytes,
             Cycle done);

  Timebase& time_;
  const Cycle mbarrier_latency_;
  const SmContext& place_;
  const arch::SwizzleTable& swizzles_;
  SharedMemory& shared_;
  const ClusterTables& tables_;
  IssuePort& port_;
  SmStats& stats_;
  BulkErrorListener& errors_;
  WindowListener& windows_;
  IndexPool<protocol::BulkDataPacket> packets_;
  IndexPool<Lot, std::deque<Lot>> lots_;
};

}  // namespace heddle::sm

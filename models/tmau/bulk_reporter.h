// What the SMs of a tensor memory access unit are told of their requests, and the requests' slices of the timeline.
#pragma once

#include <vector>

#include "common/packet_port.h"
#include "tmau/unit_context.h"

namespace heddle::tmau {

class BulkReporter {
 public:
  // `done`: link = SM of the unit.
  BulkReporter(const UnitContext& unit, PacketSender<protocol::BulkDonePacket>& done) : unit_(unit), done_(done) {}

  // Its source in shared memory may be overwritten. Told once.
  void tell_read(BulkWork& work);
  // It is over, now or at a later cycle `when`.
  void tell_done(const BulkWork& work, Cycle when);
  // The SMs have been told of everything that is over.
  bool quiet() const { return unit_.now() >= quiet_from_; }
  void reset();

 private:
  void draw(const BulkWork& work, Cycle end);

  const UnitContext& unit_;
  PacketSender<protocol::BulkDonePacket>& done_;
  Cycle quiet_from_ = 0;
  std::vector<TrackId> tracks_;
  std::vector<Cycle> track_ends_;
};

}  // namespace heddle::tmau

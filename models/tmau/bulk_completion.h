// What has become of the line requests of a tensor memory access unit, and when a request is over (TMA-31, TMA-40).
#pragma once

#include "tmau/bulk_intake.h"

namespace heddle::tmau {

class BulkCompletion {
 public:
  BulkCompletion(const TmauContext& unit, LineSender& sender, SmPorts& ports, SharedDelivery& delivery,
                 BulkGenerator& generator, BulkReporter& reporter, BulkIntake& intake)
      : unit_(unit),
        sender_(sender),
        ports_(ports),
        delivery_(delivery),
        generator_(generator),
        reporter_(reporter),
        intake_(intake) {}

  // Memory has answered a line request, now or at `arrival`.
  void answered(protocol::MemoryRequest& request, std::uint32_t sm, Cycle arrival);
  // Shared memory has given its bytes, or has brought them where they go.
  void source_read(const protocol::BulkReadPacket& packet, std::uint32_t sm, Cycle arrival);
  // The L2 has taken a write of an SM over, or will have at `arrival` (TMA-45).
  void accepted(protocol::MemoryRequest& request, std::uint32_t sm, Cycle arrival);
  // Packets of a multicast load, or fills, have been delivered.
  void acknowledged(std::uint32_t number, std::uint32_t count, std::uint8_t phase, Cycle when);
  // All of its lines have been generated.
  void all_generated(BulkWork& work);
  void add_waits(const BulkWork& work, WaitGraph& graph) const;

 private:
  void line_answered(protocol::MemoryRequest& request, BulkWork& work, Cycle arrival);
  void take_over(BulkWork& work, Cycle when);
  void consider(BulkWork& work);
  void complete(BulkWork& work);

  const TmauContext& unit_;
  LineSender& sender_;
  SmPorts& ports_;
  SharedDelivery& delivery_;
  BulkGenerator& generator_;
  BulkReporter& reporter_;
  BulkIntake& intake_;
};

}  // namespace heddle::tmau

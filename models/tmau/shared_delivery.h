// Bytes on their way to shared memory, and what the units of a GPC tell each other of them (TMA-31, TMA-40).
#pragma once

#include "common/packet_port.h"
#include "tmau/unit_context.h"

namespace heddle::tmau {

class SharedDelivery {
 public:
  // `data`: link = SM of the unit; `peers`: link = unit of the GPC.
  SharedDelivery(const UnitContext& unit, PacketSender<protocol::BulkDataPacket>& data,
                 PacketSender<protocol::BulkPeerPacket>& peers)
      : unit_(unit), data_(data), peers_(peers), response_(unit.timebase.cost(unit.params.response)) {}

  // Cycles from the network to shared memory.
  Cycle response() const { return response_; }
  // To shared memory of an SM of the unit, and the unit that has asked is told. `packet.sm`: bit of the GPC's masks.
  void receive(const protocol::BulkDataPacket& packet, Cycle arrival);
  // A piece without bytes from memory, to an SM of whatever unit of the GPC (its bit), on behalf of a request.
  void fill(const BulkWork& work, protocol::MemoryRequest& request, std::uint32_t sm, Cycle when);
  // To shared memory of an SM of the unit, at `when`.
  void deliver(protocol::MemoryRequest& request, std::uint32_t sm, Cycle when);

 private:
  const UnitContext& unit_;
  PacketSender<protocol::BulkDataPacket>& data_;
  PacketSender<protocol::BulkPeerPacket>& peers_;
  const Cycle response_;
};

}  // namespace heddle::tmau

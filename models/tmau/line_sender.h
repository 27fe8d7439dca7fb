// Line requests, and where each of them leaves for: memory, shared memory, other units (TMA-15).
#pragma once

#include "common/packet_port.h"
#include "tmau/bulk_work.h"
#include "tmau/sm_ports.h"

namespace heddle::tmau {

// Bytes on their way to shared memory, and what the units of a GPC tell each other of them (TMA-31, TMA-40).
class SharedDelivery {
 public:
  // `data`: link = SM of the unit.
  SharedDelivery(const TmauContext& unit, PacketSender<protocol::BulkDataPacket>& data,
                 PacketSender<protocol::BulkPeerPacket>& peers)
      : unit_(unit),
        data_(data),
        peers_(peers),
        response_(unit.timebase.cost(unit.params.response)),
        look_up_(unit.timebase.cost(unit.params.tracking == Tracking::table ? unit.params.table_latency : 0)) {}

  // Cycles from the network to shared memory.
  Cycle response() const { return response_; }
  // Until it is known what they are for, if no packet carries it.
  Cycle look_up() const { return look_up_; }
  // To shared memory of an SM of the unit, and the unit that has asked is told. `packet.sm`: bit of the GPC's masks.
  void receive(const protocol::BulkDataPacket& packet, Cycle arrival);
  // A piece without bytes from memory, to an SM of whatever unit of the GPC (its bit), on behalf of a request.
  void fill(const BulkWork& work, protocol::MemoryRequest& request, protocol::SmInGpc sm, Cycle when);
  // To shared memory of an SM of the unit, at `when`.
  void deliver(protocol::MemoryRequest& request, std::uint32_t sm, Cycle when);

 private:
  void send_peer(protocol::BulkPeerPacket& packet, std::uint32_t unit, Cycle when);

  const TmauContext& unit_;
  PacketSender<protocol::BulkDataPacket>& data_;
  PacketSender<protocol::BulkPeerPacket>& peers_;
  const Cycle response_;
  const Cycle look_up_;
};

class LineSender {
 public:
  // What a payload is for: the low bits of its entry. The others are the number of its request.
  enum class Role : std::uint8_t { line, prefetch, descriptor, copied };

  // `source`: to shared memory, for its bytes; link = SM of the unit.
  LineSender(const TmauContext& unit, RequestStore& store, SmPorts& ports, SharedDelivery& delivery,
             PacketSender<protocol::BulkReadPacket>& source)
      : unit_(unit), store_(store), ports_(ports), delivery_(delivery), source_(source) {}

  protocol::MemoryRequest& make(const BulkWork& work, Role role);
  static Role role_of(const protocol::MemoryRequest& request) {
    return static_cast<Role>(request.extension.entry & ((1U << kRoleBits) - 1));
  }
  static std::uint32_t number_of(const protocol::MemoryRequest& request) {
    return request.extension.entry >> kRoleBits;
  }
  // Its current line takes one of the places of line requests: it leaves for memory or for shared memory.
  static bool goes_out(const BulkWork& work) {
    const Line& line = work.lines.line();
    if (work.kind() == arch::BulkKind::prefetch) return line.sectors != 0;
    return work.kind() == arch::BulkKind::copy || line.piece.inside.any();
  }
  // The request's current line leaves.
  void send(BulkWork& work, Cycle when);
  // device -> device: a piece is written where the copy's bytes go, filled and converted as a load would deliver it.
  // `data`: of its inside bytes, from the lowest on.
  void send_copied(BulkWork& work, const arch::TensorPiece& piece, const std::uint8_t* data, Cycle when);

 private:
  static constexpr std::uint32_t kRoleBits = 2;

  void send_read(BulkWork& work, Cycle when);
  void promote(BulkWork& work, protocol::MemoryRequest& request, Cycle when);
  void send_source(BulkWork& work, Cycle when);
  void send_prefetch(BulkWork& work, Cycle when);
  static void count_fetched(BulkWork& work, const protocol::MemoryRequest& request, std::uint32_t used);
  void send_fill(BulkWork& work, Cycle when);

  const TmauContext& unit_;
  RequestStore& store_;
  SmPorts& ports_;
  SharedDelivery& delivery_;
  PacketSender<protocol::BulkReadPacket>& source_;
};

}  // namespace heddle::tmau

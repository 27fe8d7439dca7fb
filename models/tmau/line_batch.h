// Lines of loads that calls read without payloads, where reads are calls (LineSource): those of a request that follow
// each other go to shared memory together.
#pragma once

#include <array>
#include <cstdint>

#include "arch/mbarrier.h"
#include "protocol/sm_tmau.h"
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
  // To shared memory of an SM of the unit, at `when`: a payload, or lines, of which the last arrives then.
  void deliver(protocol::MemoryRequest& request, std::uint32_t sm, Cycle when);
  void deliver(const protocol::BulkLines& lines, std::uint32_t sm, Cycle when);

 private:
  void send_peer(protocol::BulkPeerPacket& packet, std::uint32_t unit, Cycle when);

  const TmauContext& unit_;
  PacketSender<protocol::BulkDataPacket>& data_;
  PacketSender<protocol::BulkPeerPacket>& peers_;
  const Cycle response_;
  const Cycle look_up_;
};

// The lines leave for shared memory before the first of them arrives there.
class LineBatch {
 public:
  LineBatch(const TmauContext& unit, SmPorts& ports, SharedDelivery& delivery)
      : unit_(unit), ports_(ports), delivery_(delivery) {}

  // Reads the piece's inside bytes, of a load, by a call. `read`: but for the line's address and the receivers. False:
  // it is a matter for a payload. Else read.when is the cycle in which memory has answered, and read.bytes are null if
  // it has refused.
  bool read(BulkWork& work, const arch::TensorPiece& piece, LineRead& read);
  // A piece without bytes from memory, for the own SM, which is there at `when`.
  void fill(const BulkWork& work, const arch::TensorPiece& piece, Cycle when);
  // What there is leaves; or, if no other line comes before `next`, may wait for that.
  void send();
  void pause(Cycle next) {
    if (lines_.count > 0 && next >= first_) send();
  }
  void reset() { lines_.count = 0; }

 private:
  std::uint32_t take_place(const BulkWork& work, const arch::TensorPiece& piece, Cycle arrival);
  void pass_on();

  const TmauContext& unit_;
  SmPorts& ports_;
  SharedDelivery& delivery_;
  std::uint32_t work_ = 0;  // whose lines they are
  std::uint32_t sm_ = 0;    // of the unit
  std::uint64_t receivers_ = 0;
  Cycle first_ = 0;  // no line arrives before
  protocol::BulkLines lines_;
  std::array<Cycle, arch::kMulticastCtas> copies_{};  // of a line
  // By receiver, in the order of the bits.
  std::array<std::array<Cycle, protocol::BulkLines::kMost>, arch::kMulticastCtas> arrivals_{};
};

}  // namespace heddle::tmau

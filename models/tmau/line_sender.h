// Line requests, and where each of them leaves for: memory, shared memory, other units (TMA-15).
#pragma once

#include "common/packet_port.h"
#include "tmau/bulk_work.h"
#include "tmau/line_batch.h"
#include "tmau/sm_ports.h"

namespace heddle::tmau {

class LineSender {
 public:
  // What a payload is for: the low bits of its entry. The others are the number of its request.
  enum class Role : std::uint8_t { line, prefetch, descriptor, copied };

  // `source`: to shared memory, for its bytes; link = SM of the unit.
  LineSender(const TmauContext& unit, RequestStore& store, SmPorts& ports, SharedDelivery& delivery,
             PacketSender<protocol::BulkReadPacket>& source)
      : unit_(unit),
        store_(store),
        ports_(ports),
        delivery_(delivery),
        source_(source),
        batch_(unit, ports, delivery),
        calls_(unit.blocking()) {}

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
  // The request's current line leaves. The cycle in which its place is free, if that is known by then; kNever: memory
  // will tell.
  Cycle send(BulkWork& work, Cycle when);
  // No line comes before `next`; kNever: nobody knows when one does.
  void pause(Cycle next) { batch_.pause(next); }
  // device -> device: a piece is written where the copy's bytes go, filled and converted as a load would deliver it.
  // `data`: of its inside bytes, from the lowest on.
  void send_copied(BulkWork& work, const arch::TensorPiece& piece, const std::uint8_t* data, Cycle when);
  void reset() { batch_.reset(); }

 private:
  static constexpr std::uint32_t kRoleBits = 2;
  // How far ahead of a line what it touches is fetched.
  static constexpr std::uint32_t kFar = 14;
  static constexpr std::uint32_t kNear = 7;

  Cycle send_read(BulkWork& work, Cycle when);
  bool read_now(BulkWork& work, Cycle when, Cycle& answered);
  void warm_ahead(BulkWork& work);
  void count_read(BulkWork& work, std::uint32_t sectors, std::uint32_t bytes);
  void promise_copies(BulkWork& work);
  std::uint8_t carried_of(const BulkWork& work) const;
  void promote_pair(BulkWork& work, std::uint64_t address, Cycle when);
  void send_source(BulkWork& work, Cycle when);
  void send_prefetch(BulkWork& work, Cycle when);
  static void count_fetched(BulkWork& work, std::uint32_t sectors, std::uint32_t used);
  void send_fill(BulkWork& work, Cycle when);

  const TmauContext& unit_;
  RequestStore& store_;
  SmPorts& ports_;
  SharedDelivery& delivery_;
  PacketSender<protocol::BulkReadPacket>& source_;
  LineBatch batch_;
  const bool calls_;  // reads are calls
};

}  // namespace heddle::tmau

#include "tmau/line_sender.h"

#include <cstring>

#include "common/bits.h"

namespace heddle::tmau {

using arch::BulkKind;
using protocol::BulkPeerPacket;
using protocol::MemoryRequest;

namespace {

void enable_inside(MemoryRequest& request, const arch::TensorPiece& piece, std::uint32_t first) {
  std::uint8_t* enables = request.use_enables();
  for (std::uint32_t i = 0; i < request.get_data_length(); ++i) {
    enables[i] = piece.inside.test(first + i) ? TLM_BYTE_ENABLED : TLM_BYTE_DISABLED;
  }
}

}  // namespace

void SharedDelivery::receive(const protocol::BulkDataPacket& packet, Cycle arrival) {
  const Cycle when = arrival + response_;
  const std::uint32_t sm = packet.sm - unit_.place.first;
  HEDDLE_CHECK(packet.sm >= unit_.place.first && sm < unit_.place.sms(), "data for an SM of another unit");
  const protocol::BulkTarget& target = packet.request->extension.bulk.get();
  BulkPeerPacket reply;
  reply.kind = BulkPeerPacket::Kind::acknowledge;
  reply.request = target.request;
  reply.count = 1;
  reply.phase = target.phase;
  const std::uint32_t requester = target.unit;
  deliver(*packet.request, sm, when);  // the SM may be done with it inside this call
  if (requester == unit_.place.number) {
    unit_.events.acknowledged(reply.request, 1, reply.phase, when);
  } else {
    send_peer(reply, requester, when);
  }
}

void SharedDelivery::send_peer(BulkPeerPacket& packet, std::uint32_t unit, Cycle when) {
  packet.from_sm = protocol::SmInGpc(unit_.place.first);
  packet.to_sm = protocol::SmInGpc(unit * unit_.place.per_unit);
  peers_.send_at(when, packet);
}

void SharedDelivery::fill(const BulkWork& work, MemoryRequest& request, protocol::SmInGpc sm, Cycle when) {
  BulkPeerPacket packet;
  packet.kind = BulkPeerPacket::Kind::fill;
  packet.request = work.number;
  packet.count = 1;
  packet.phase = work.phase;
  packet.data.request = &request;
  packet.data.sm = sm;
  const std::uint32_t receiver = sm / unit_.place.per_unit;
  if (receiver == unit_.place.number) {
    receive(packet.data, when);
  } else {
    send_peer(packet, receiver, when);
  }
}

void SharedDelivery::deliver(MemoryRequest& request, std::uint32_t sm, Cycle when) {
  unit_.stats.delivered.add();
  protocol::BulkDataPacket packet;
  packet.request = &request;
  packet.sm = protocol::SmInGpc(unit_.place.first + sm);
  data_.send_at(when, packet, sm);
}

MemoryRequest& LineSender::make(const BulkWork& work, Role role) {
  MemoryRequest& request = store_.acquire();
  protocol::MemoryExtension& extension = request.extension;
  extension.entry = work.number << kRoleBits | static_cast<std::uint32_t>(role);
  extension.sm = protocol::SmId(unit_.place.ids[work.sm]);
  extension.subcontext = work.packet.subcontext;
  extension.priority = work.request().priority;
  if (role != Role::line) return request;
  // Other units have no entry of the table: what comes to them carries all of it.
  const bool indexed = unit_.params.tracking == Tracking::table && !work.target.by_rank;
  extension.carried = static_cast<std::uint8_t>(indexed ? unit_.params.index_bytes() : unit_.params.carried_bytes);
  protocol::BulkTarget& target = extension.bulk.get();
  target = work.target;
  target.piece = work.lines.line().piece;
  return request;
}

void LineSender::send(BulkWork& work, Cycle when) {
  ++work.traffic.pieces;
  const arch::TensorPiece& piece = work.lines.line().piece;
  work.traffic.bytes += work.kind() == BulkKind::prefetch ? work.lines.line().bytes : piece.bytes;
  switch (work.kind()) {
    case BulkKind::load:
      if (!piece.inside.any()) return send_fill(work, when);
      return send_read(work, when);
    case BulkKind::copy:
      if (!piece.inside.any()) return send_copied(work, piece, nullptr, when);
      return send_read(work, when);
    case BulkKind::prefetch:
      return send_prefetch(work, when);
    default:
      return send_source(work, when);
  }
}

void LineSender::send_read(BulkWork& work, Cycle when) {
  const arch::TensorPiece& piece = work.lines.line().piece;
  MemoryRequest& request = make(work, Role::line);
  const std::uint32_t first = piece.inside.lowest();
  const std::uint32_t length = piece.inside.highest() - first + 1;
  request.aim(tlm::TLM_READ_COMMAND, piece.address + first, length);
  if (work.target.by_rank && work.kind() == BulkKind::load) {
    request.extension.multicast = work.packet.sms;
    work.awaited.acknowledgements += bits::count(work.packet.sms);
    unit_.stats.multicast_sent.add();
    unit_.stats.multicast_saved.add(bits::count(work.packet.ctas) - 1);
  }
  ++work.awaited.answers;
  unit_.stats.lines.add();
  unit_.stats.bytes_in.add(length);
  count_fetched(work, request, piece.inside.count());
  if (work.promotion != arch::Promotion::none) promote(work, request, when);
  ports_.send(work.sm, request, when);
}

// By a payload of its own: the target of the read may still look at that one.
void LineSender::send_copied(BulkWork& work, const arch::TensorPiece& piece, const std::uint8_t* data, Cycle when) {
  MemoryRequest& copy = make(work, Role::copied);
  copy.aim(tlm::TLM_WRITE_COMMAND, work.request().to + piece.shared, piece.bytes);
  const protocol::BulkTarget& target = work.target;
  if (piece.inside.any()) {
    const std::uint32_t first = piece.inside.lowest();
    const std::uint32_t bytes = piece.inside.highest() + 1 - first;
    std::memcpy(copy.data.data() + first, data, bytes);
    arch::convert(target.type, bytes, copy.data.data() + first);
  }
  if (!piece.all_inside()) {
    arch::fill_outside(target.type, target.fill, piece.inside, piece.bytes, copy.data.data());
  }
  ++work.awaited.answers;
  unit_.stats.lines.add();
  unit_.stats.bytes_out.add(copy.get_data_length());
  ports_.push_ready(work.sm, copy, when);
}

// What a miss of the read brings from memory beside its own sectors (TMA-05). The other line of 256 bytes is another
// slice's: it is asked for by a prefetch, once for the pair.
void LineSender::promote(BulkWork& work, MemoryRequest& request, Cycle when) {
  std::uint32_t sectors = (1U << arch::kSectorsPerLine) - 1;
  if (work.promotion == arch::Promotion::bytes64) {
    const std::uint32_t wanted = request.extension.sectors;
    sectors = ((wanted & 3U) != 0 ? 3U : 0U) | ((wanted & 12U) != 0 ? 12U : 0U);
  }
  request.extension.promoted = static_cast<std::uint8_t>(sectors);
  if (work.promotion != arch::Promotion::bytes256) return;
  const std::uint64_t line = arch::line_of(request.get_address());
  const std::uint64_t pair = line / (2 * arch::kLineBytes);
  const std::uint64_t other = line ^ arch::kLineBytes;
  if (work.promoted_pair == pair || other + arch::kLineBytes > unit_.place.memory) return;
  work.promoted_pair = pair;
  MemoryRequest& ahead = make(work, Role::prefetch);
  ahead.aim(tlm::TLM_IGNORE_COMMAND, other, arch::kLineBytes);
  ahead.extension.action = protocol::MemoryAction::prefetch;
  unit_.stats.lines.add();
  ports_.push_ready(work.sm, ahead, when);
}

// Bytes of shared memory are asked for; those outside the tensor are not stored (TMA-13).
void LineSender::send_source(BulkWork& work, Cycle when) {
  const arch::TensorPiece& piece = work.lines.line().piece;
  if (!piece.inside.any()) return;
  MemoryRequest& request = make(work, Role::line);
  const std::uint32_t first = piece.inside.lowest();
  request.aim(tlm::TLM_WRITE_COMMAND, piece.address + first, piece.inside.highest() - first + 1);
  const bool forward = work.kind() == BulkKind::send;
  if (forward) request.extension.bulk.get().destination = static_cast<std::uint32_t>(piece.address);
  if (!(arch::ByteMask::range(first, piece.inside.highest() + 1) == piece.inside)) enable_inside(request, piece, first);
  if (work.kind() == BulkKind::reduce) {
    request.set_command(tlm::TLM_IGNORE_COMMAND);
    request.extension.action = protocol::MemoryAction::reduce_block;
    request.extension.atomic = work.target.reduction;
    request.extension.type = work.target.value;
  }
  ++work.awaited.reads;
  protocol::BulkReadPacket packet;
  packet.request = &request;
  packet.sm = protocol::SmInGpc(unit_.place.first + work.sm);
  packet.forward = forward;
  source_.send_at(when, packet, work.sm);
}

void LineSender::send_prefetch(BulkWork& work, Cycle when) {
  const Line& line = work.lines.line();
  if (line.sectors == 0) return;
  MemoryRequest& request = make(work, Role::prefetch);
  const std::uint32_t first = bits::lowest(line.sectors);
  request.aim(tlm::TLM_IGNORE_COMMAND, arch::line_of(line.piece.address) + first * arch::kSectorBytes,
              (bits::highest(line.sectors) - first + 1) * arch::kSectorBytes);
  request.extension.sectors = line.sectors;
  request.extension.action = protocol::MemoryAction::prefetch;
  unit_.stats.lines.add();
  count_fetched(work, request, line.used);
  ports_.send(work.sm, request, when);
}

// Memory gives whole sectors (TMA-15, TMA-42).
void LineSender::count_fetched(BulkWork& work, const MemoryRequest& request, std::uint32_t used) {
  work.traffic.fetched += std::uint64_t{bits::count(request.extension.sectors)} * arch::kSectorBytes;
  work.traffic.used += used;
}

// Nothing of the piece is in the tensor: it does not go to memory, but to the same places.
void LineSender::send_fill(BulkWork& work, Cycle when) {
  MemoryRequest& request = make(work, Role::line);
  request.set_address(work.lines.line().piece.address);
  request.set_response_status(tlm::TLM_OK_RESPONSE);
  unit_.stats.fills.add();
  if (!work.target.by_rank) {
    work.note(when + delivery_.response());
    return delivery_.deliver(request, work.sm, when + delivery_.response());
  }
  bits::for_each(work.packet.sms, [&](std::uint32_t sm) {
    request.acquire();
    ++work.awaited.acknowledgements;
    delivery_.fill(work, request, protocol::SmInGpc(sm), when);
  });
  request.release();
}

}  // namespace heddle::tmau

#include "tmau/line_sender.h"

#include <cstring>

#include "common/bits.h"

namespace heddle::tmau {

using arch::BulkKind;
using protocol::MemoryRequest;

namespace {

void enable_inside(MemoryRequest& request, const arch::TensorPiece& piece, std::uint32_t first) {
  std::uint8_t* enables = request.use_enables();
  for (std::uint32_t i = 0; i < request.get_data_length(); ++i) {
    enables[i] = piece.inside.test(first + i) ? TLM_BYTE_ENABLED : TLM_BYTE_DISABLED;
  }
}

// What a miss of the read brings from memory beside the sectors that it wants (TMA-05).
std::uint8_t promoted(const BulkWork& work, std::uint32_t wanted) {
  if (work.promotion == arch::Promotion::none) return 0;
  std::uint32_t sectors = (1U << arch::kSectorsPerLine) - 1;
  if (work.promotion == arch::Promotion::bytes64) {
    sectors = ((wanted & 3U) != 0 ? 3U : 0U) | ((wanted & 12U) != 0 ? 12U : 0U);
  }
  return static_cast<std::uint8_t>(sectors);
}

}  // namespace

MemoryRequest& LineSender::make(const BulkWork& work, Role role) {
  MemoryRequest& request = store_.acquire();
  protocol::MemoryExtension& extension = request.extension;
  extension.entry = work.number << kRoleBits | static_cast<std::uint32_t>(role);
  extension.sm = protocol::SmId(unit_.place.ids[work.sm]);
  extension.subcontext = work.packet.subcontext;
  extension.kernel = work.packet.kernel;
  extension.priority = work.request().priority;
  if (role != Role::line) return request;
  extension.carried = carried_of(work);
  protocol::BulkTarget& target = extension.bulk.get();
  target = work.target;
  target.piece = work.lines.line().piece;
  return request;
}

// Other units have no entry of the table: what comes to them carries all of it.
std::uint8_t LineSender::carried_of(const BulkWork& work) const {
  const bool indexed = unit_.params.tracking == Tracking::table && !work.target.by_rank;
  return static_cast<std::uint8_t>(indexed ? unit_.params.index_bytes() : unit_.params.carried_bytes);
}

Cycle LineSender::send(BulkWork& work, Cycle when) {
  ++work.traffic.pieces;
  const arch::TensorPiece& piece = work.lines.line().piece;
  work.traffic.bytes += work.kind() == BulkKind::prefetch ? work.lines.line().bytes : piece.bytes;
  switch (work.kind()) {
    case BulkKind::load:
      if (piece.inside.any()) return send_read(work, when);
      send_fill(work, when);
      break;
    case BulkKind::copy:
      if (piece.inside.any()) return send_read(work, when);
      send_copied(work, piece, nullptr, when);
      break;
    case BulkKind::prefetch:
      send_prefetch(work, when);
      break;
    default:
      send_source(work, when);
  }
  return kNever;
}

Cycle LineSender::send_read(BulkWork& work, Cycle when) {
  const bool load = work.kind() == BulkKind::load;
  Cycle answered = 0;
  if (calls_ && load && read_now(work, when, answered)) return answered;
  const arch::TensorPiece& piece = work.lines.line().piece;
  MemoryRequest& request = make(work, Role::line);
  const std::uint32_t first = piece.inside.lowest();
  const std::uint32_t length = piece.inside.highest() - first + 1;
  request.aim(tlm::TLM_READ_COMMAND, piece.address + first, length);
  request.extension.promoted = promoted(work, request.extension.sectors);
  if (work.target.by_rank && load) {
    request.extension.multicast = work.packet.sms;
    promise_copies(work);
  }
  ++work.awaited.answers;
  count_read(work, request.extension.sectors, length);
  if (work.promotion == arch::Promotion::bytes256) promote_pair(work, request.get_address(), when);
  ports_.send(work.sm, request, when);
  return kNever;
}

// Without a payload. `answered`: when its place is free.
bool LineSender::read_now(BulkWork& work, Cycle when, Cycle& answered) {
  const arch::TensorPiece& piece = work.lines.line().piece;
  const std::uint32_t first = piece.inside.lowest();
  const std::uint32_t last = piece.inside.highest();
  warm_ahead(work);
  LineRead read;
  read.sectors = static_cast<std::uint8_t>((2U << arch::sector_of(piece.address + last)) -
                                           (1U << arch::sector_of(piece.address + first)));
  read.subcontext = work.packet.subcontext;
  read.kernel = work.packet.kernel;
  read.carried = carried_of(work);
  read.priority = static_cast<std::uint8_t>(work.request().priority);
  read.promoted = promoted(work, read.sectors);
  read.when = when;
  if (!batch_.read(work, piece, read)) return false;
  if (work.target.by_rank) promise_copies(work);
  count_read(work, read.sectors, last + 1 - first);
  if (work.promotion == arch::Promotion::bytes256) promote_pair(work, piece.address + first, when);
  answered = read.when;
  work.note(answered);
  if (read.bytes == nullptr) {
    work.fail({BulkFailure::Cause::memory, false, piece.address + first, answered});
    if (work.target.by_rank) work.awaited.acknowledgements -= bits::count(work.packet.sms);
  } else if (!work.target.by_rank) {
    work.note(answered + delivery_.look_up() + delivery_.response());
  }
  return true;
}

// Of the lines that come, what leads to them is fetched into the computer's caches, and then themselves.
void LineSender::warm_ahead(BulkWork& work) {
  const auto warm = [&](std::uint32_t ahead, bool line) {
    const arch::TensorPiece* piece = work.lines.look(ahead);
    if (piece == nullptr || !piece->inside.any()) return;
    LineRead read;
    read.address = read.physical_address = arch::line_of(piece->address + piece->inside.lowest());
    read.subcontext = work.packet.subcontext;
    ports_.warm(work.sm, read, line);
  };
  if (work.traffic.pieces == 1) {
    for (std::uint32_t i = 0; i < kFar; ++i) warm(i, false);
  }
  warm(kFar, false);
  warm(kNear, true);
}

void LineSender::promise_copies(BulkWork& work) {
  work.awaited.acknowledgements += bits::count(work.packet.sms);
  unit_.stats.multicast_sent.add();
  unit_.stats.multicast_saved.add(bits::count(work.packet.ctas) - 1);
}

void LineSender::count_read(BulkWork& work, std::uint32_t sectors, std::uint32_t bytes) {
  unit_.stats.lines.add();
  unit_.stats.bytes_in.add(bytes);
  count_fetched(work, sectors, work.lines.line().piece.inside.count());
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

// The other line of 256 bytes is another slice's: it is asked for by a prefetch, once for the pair (TMA-05).
void LineSender::promote_pair(BulkWork& work, std::uint64_t address, Cycle when) {
  const std::uint64_t line = arch::line_of(address);
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
  count_fetched(work, request.extension.sectors, line.used);
  ports_.send(work.sm, request, when);
}

// Memory gives whole sectors (TMA-15, TMA-42).
void LineSender::count_fetched(BulkWork& work, std::uint32_t sectors, std::uint32_t used) {
  work.traffic.fetched += std::uint64_t{bits::count(sectors)} * arch::kSectorBytes;
  work.traffic.used += used;
}

// Nothing of the piece is in the tensor: it does not go to memory, but to the same places.
void LineSender::send_fill(BulkWork& work, Cycle when) {
  if (calls_ && !work.target.by_rank) {
    unit_.stats.fills.add();
    work.note(when + delivery_.response());
    return batch_.fill(work, work.lines.line().piece, when);
  }
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

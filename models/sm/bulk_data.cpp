#include "sm/bulk_data.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "arch/mbarrier.h"
#include "arch/tensor_data.h"
#include "protocol/memory_request.h"
#include "sm/dsmem_access.h"

namespace heddle::sm {

using arch::ByteMask;
using arch::DsmemStatus;
using protocol::BulkReadPacket;
using protocol::BulkTarget;

namespace {

// Byte enables for the bytes from the lowest to the highest that count.
void enable_inside(protocol::MemoryRequest& request, const BulkTarget& target) {
  const ByteMask& inside = target.piece.inside;
  if (!inside.any()) return;
  const std::uint32_t first = inside.lowest();
  const std::uint32_t end = inside.highest() + 1;
  if (inside == ByteMask::range(first, end)) return;
  for (std::uint32_t byte = first; byte < end; ++byte) request.enables[byte - first] = inside.test(byte) ? 0xFF : 0;
  request.set_byte_enable_ptr(request.enables.data());
  request.set_byte_enable_length(end - first);
}

using arch::kLineBytes;
using arch::kSwizzleUnit;
using arch::Swizzle;
using arch::SwizzleTable;

// Bytes [from, to) of a piece, and where they lie in the window before the swizzle.
struct Span {
  const arch::TensorPiece& piece;
  std::uint32_t from = 0;
  std::uint32_t to = 0;

  std::uint32_t bytes() const { return to - from; }
  std::uint32_t shared() const { return piece.shared_of(from); }
  std::uint32_t shared_end() const { return piece.shared_of(to - 1) + 1; }
  // Of padded types with the holes between its groups.
  std::uint32_t shared_bytes() const { return shared_end() - shared(); }
};

Span whole(const arch::TensorPiece& piece) { return {piece, 0, piece.bytes}; }
Span inside_of(const arch::TensorPiece& piece) { return {piece, piece.inside.lowest(), piece.inside.highest() + 1}; }

bool touches(const ByteMask& mask, std::uint32_t from, std::uint32_t to) {
  const ByteMask range = ByteMask::range(from, to);
  return (mask.low & range.low) != 0 || (mask.high & range.high) != 0;
}

// visit(offset in the window, first byte of the piece, bytes) for what of each unit belongs to the span, in order,
// until it says no. A unit is what stays together, in the swizzle and in groups of padded types.
template <class Visit>
void each_unit(const SwizzleTable& swizzles, Swizzle swizzle, const Span& span, Visit&& visit) {
  const std::uint32_t grain = arch::swizzle_grain(swizzle);
  std::uint32_t byte = span.from;
  while (byte < span.to) {
    const std::uint32_t at = span.piece.shared_of(byte);
    std::uint32_t bytes = std::min(grain - at % grain, span.to - byte);
    if (span.piece.group != 0) bytes = std::min(bytes, span.piece.group - at % arch::kPaddedGroup);
    if (!visit(swizzles(swizzle, at), byte, bytes)) return;
    byte += bytes;
  }
}

// The swizzle moves units within rows of 128 bytes, so that mostly the end of the last row decides. `needed`: bytes
// that count.
bool fits(std::uint32_t size, const SwizzleTable& swizzles, const BulkTarget& target, const Span& span,
          const ByteMask& needed, BulkPlaced& result) {
  const std::uint64_t last = std::uint64_t{span.shared()} + span.shared_bytes();
  if (((last + kLineBytes - 1) & ~std::uint64_t{kLineBytes - 1}) <= size) return true;
  if (last > ~std::uint32_t{0}) {
    result.status = DsmemStatus::out_of_range;
    result.offset = span.shared();
    return false;
  }
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (at + i < size || !needed.test(byte + i)) continue;
      result.status = DsmemStatus::out_of_range;
      result.offset = at + i;
      return false;
    }
    return true;
  });
  return result.status == DsmemStatus::ok;
}

// A row of 128 bytes has each of the bank groups once, in whatever order.
std::uint32_t cycles_of(const SwizzleTable& swizzles, Swizzle swizzle, const Span& span) {
  if (span.shared() / kLineBytes == (span.shared_end() - 1) / kLineBytes) return 1;
  // Halves of units, or units of 8 bytes with padding: twice as many as units of a line.
  std::array<std::uint32_t, 2 * kLineBytes / kSwizzleUnit + 1> units{};
  std::uint32_t count = 0;
  each_unit(swizzles, swizzle, span, [&](std::uint32_t at, std::uint32_t, std::uint32_t) {
    units[count++] = at & ~(kSwizzleUnit - 1);
    return true;
  });
  return arch::unit_cycles(units.data(), count);
}

void scatter(std::uint8_t* window, const SwizzleTable& swizzles, Swizzle swizzle, const Span& span,
             const std::uint8_t* from) {
  const bool runs = span.piece.group == 0;
  const std::uint32_t first = span.shared();
  if (runs && swizzle == Swizzle::none) {
    std::memcpy(window + first, from, span.bytes());
    return;
  }
  const bool units = first % kSwizzleUnit == 0 && span.bytes() % kSwizzleUnit == 0;
  if (runs && units && arch::swizzle_grain(swizzle) == kSwizzleUnit) {
    for (std::uint32_t i = 0; i < span.bytes(); i += kSwizzleUnit) {
      std::memcpy(window + swizzles(swizzle, first + i), from + i, kSwizzleUnit);
    }
    return;
  }
  each_unit(swizzles, swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    std::memcpy(window + at, from + (byte - span.from), bytes);
    return true;
  });
}

// Granules of poison are larger than units, so rows are looked at as a whole.
void mark(SharedMemory& memory, std::uint32_t window, const SwizzleTable& swizzles, const BulkTarget& target,
          bool poisoned) {
  const Span span = whole(target.piece);
  if (memory.any_poison()) {
    std::array<std::uint8_t, std::size_t{3} * kLineBytes> written{};  // a padded line is two
    const std::uint32_t first = span.shared() / kLineBytes * kLineBytes;
    each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t, std::uint32_t bytes) {
      std::memset(written.data() + (at - first), 0xFF, bytes);
      return true;
    });
    memory.covered(window, first, written.size(), written.data());
  }
  if (!poisoned) return;
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    if (touches(target.piece.inside, byte, byte + bytes)) memory.poison(window, at, bytes);
    return true;
  });
}

// The piece's bytes for its destination, where a tensor's box is swizzled anew: within one row of 128 bytes, as pieces
// end at the destination's lines.
void aim_send(protocol::MemoryRequest& request, const SwizzleTable& swizzles, const BulkTarget& target,
              const std::uint8_t* data) {
  arch::TensorPiece there = target.piece;
  there.shared = target.destination;
  const Span span = whole(there);
  std::uint32_t first = ~std::uint32_t{0};
  std::uint32_t end = 0;
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t, std::uint32_t bytes) {
    first = std::min(first, at);
    end = std::max(end, at + bytes);
    return true;
  });
  request.aim(target.reduces ? tlm::TLM_IGNORE_COMMAND : tlm::TLM_WRITE_COMMAND, first, end - first);
  if (target.reduces) {
    request.extension.action = protocol::MemoryAction::reduce_block;
    request.extension.atomic = target.reduction;
    request.extension.type = target.value;
  }
  std::uint8_t* enables = nullptr;
  if (end - first != there.bytes) {
    enables = request.use_enables();
    std::memset(enables, TLM_BYTE_DISABLED, end - first);
  }
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    std::memcpy(request.data.data() + (at - first), data + byte, bytes);
    if (enables != nullptr) std::memset(enables + (at - first), TLM_BYTE_ENABLED, bytes);
    return true;
  });
}

}  // namespace

BulkData::BulkData(Timebase& time, const MemoryParams& params, const SmContext& place,
                   const arch::SwizzleTable& swizzles, SharedMemory& shared, const ClusterTables& tables,
                   IssuePort& port, DsmemClient& dsmem, DsmemFlights& flights, SmStats& stats, const Links& links)
    : time_(time),
      shared_latency_(params.shared_latency),
      place_(place),
      swizzles_(swizzles),
      shared_(shared),
      tables_(tables),
      dsmem_(dsmem),
      flights_(flights),
      stats_(stats),
      links_(links),
      arrivals_(time, params.mbarrier_latency, place, swizzles, shared, tables, port, stats, links.errors,
                links.windows),
      pool_(std::make_unique<protocol::RequestPool>()) {
  dsmem.serve(*this);
}

BulkData::~BulkData() = default;

std::size_t BulkData::payloads() const { return pool_->in_use(); }

void BulkData::reset() {
  sends_.for_each([](Send& send) { send.request->release(); });
  sends_.clear();
  arrivals_.reset();
}

void BulkData::on_read(const BulkReadPacket& packet, std::uint32_t) {
  protocol::MemoryRequest& request = *packet.request;
  const BulkTarget& target = request.extension.bulk.get();
  const Cycle now = time_.now();
  BulkReadPacket answer = packet;
  const BulkPlaced read = read_piece(shared_, target.cta_slot, swizzles_, target, request.get_data_ptr());
  Cycle done = now;
  if (read.status == DsmemStatus::ok) {
    done = arrivals_.use_port(now, read.cycles);
    if (read.old) links_.errors.missing_fence(target, read.offset, now);
    if (packet.forward) return forward(packet, done);
    enable_inside(request, target);
  } else {
    answer.failed = true;
    if (read.status == DsmemStatus::poison) {
      request.extension.poisoned = true;
    } else {
      links_.errors.bulk_failed({read.status, target.rank, read.offset, target}, now);
    }
  }
  links_.reads.send_at(done + shared_latency_, answer);
}

// The bytes of a send have been read. They go to the receiver as a DSMEM request with a payload of our own, which
// completes the receiver's mbarrier as well.
void BulkData::forward(const BulkReadPacket& packet, Cycle read) {
  const BulkTarget& target = packet.request->extension.bulk.get();
  stats_.bulk_sends.add();
  protocol::MemoryRequest& request = pool_->acquire();
  aim_send(request, swizzles_, target, packet.request->get_data_ptr());
  request.extension.sm = place_.id;
  BulkTarget& note = request.extension.bulk.get();
  note = target;
  note.by_rank = target.data_cta.has_value();  // for bulk_failed()
  const std::uint32_t index = sends_.take();
  sends_[index] = {&request, packet};
  request.extension.entry = index;
  protocol::DsmemPacket out;
  out.request = &request;
  out.cga_id = target.cga_id;
  out.rank = target.data_cta.value_or(target.rank);
  out.from_sm = place_.in_gpc;
  out.sequence = target.sequence;
  const bool own = !note.by_rank;
  if (!own) tables_.check(*target.cga_id, target.sequence);
  const std::optional<protocol::SmInGpc> sm = own ? place_.in_gpc : tables_.sm_of(*target.cga_id, out.rank);
  if (sm && *sm != place_.in_gpc) {
    out.to_sm = *sm;
    flights_.begin(*out.cga_id, std::nullopt);
    dsmem_.send(out, read + shared_latency_);
    return;
  }
  std::optional<std::uint32_t> window;
  if (own) {
    window = target.cta_slot;
  } else if (sm) {
    window = tables_.match(*target.cga_id, out.rank);
  }
  const DsmemResult result = serve_dsmem(shared_, window, request);
  out.status = result.status;
  out.offset = result.offset;
  const Cycle done = arrivals_.use_port(read, result.cycles);
  tell_changes(links_.windows, window, request, result, done);
  send_answered(out, done + shared_latency_);
}

// The receiver has answered.
void BulkData::send_answered(const protocol::DsmemPacket& reply, Cycle when) {
  const std::uint32_t index = reply.request->extension.entry;
  const Send send = sends_[index];
  HEDDLE_CHECK(send.request == reply.request, "a bulk send was answered twice");
  sends_[index].request = nullptr;
  sends_.give_back(index);
  BulkReadPacket answer = send.packet;
  answer.failed = reply.status != DsmemStatus::ok;
  if (answer.failed) {
    links_.errors.bulk_failed({reply.status, reply.rank, reply.offset, reply.request->extension.bulk.get()}, when);
  }
  reply.request->release();
  links_.reads.send_at(when, answer);
}

BulkPlaced check_piece(const SharedMemory& memory, std::optional<std::uint32_t> place, const SwizzleTable& swizzles,
                       const BulkTarget& target) {
  BulkPlaced result;
  const arch::TensorPiece& piece = target.piece;
  const Span span = whole(piece);
  if (!place || !memory.is_open(*place)) {
    result.status = DsmemStatus::cta_not_present;
    result.offset = piece.shared;
    return result;
  }
  if (!fits(memory.size(*place), swizzles, target, span, ByteMask::first(piece.bytes), result)) return result;
  result.cycles = cycles_of(swizzles, target.swizzle, span);
  return result;
}

BulkPlaced write_piece(SharedMemory& memory, std::optional<std::uint32_t> place, const SwizzleTable& swizzles,
                       const BulkTarget& target, const std::uint8_t* data, bool poisoned) {
  const BulkPlaced result = check_piece(memory, place, swizzles, target);
  if (result.status != DsmemStatus::ok) return result;
  const arch::TensorPiece& piece = target.piece;
  const Span span = whole(piece);
  const std::uint32_t window = *place;
  const bool full = piece.all_inside();
  if (full && !arch::converts(target.type)) {
    scatter(memory.data(window), swizzles, target.swizzle, span, data);
  } else {
    alignas(16) std::array<std::uint8_t, kLineBytes> bytes;  // NOLINT(*-init-variables): all that counts is written
    if (piece.inside.any()) {
      const Span inside = inside_of(piece);
      std::memcpy(bytes.data() + inside.from, data, inside.bytes());
      arch::convert(target.type, inside.bytes(), bytes.data() + inside.from);
    }
    if (!full) arch::fill_outside(target.type, target.fill, piece.inside, piece.bytes, bytes.data());
    scatter(memory.data(window), swizzles, target.swizzle, span, bytes.data());
  }
  if (memory.watches()) {
    each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t, std::uint32_t bytes) {
      memory.async_wrote(window, at, bytes);
      return true;
    });
  }
  if (poisoned || memory.any_poison()) mark(memory, window, swizzles, target, poisoned);
  return result;
}

BulkPlaced read_piece(const SharedMemory& memory, std::uint32_t window, const SwizzleTable& swizzles,
                      const BulkTarget& target, std::uint8_t* data) {
  BulkPlaced result;
  const arch::TensorPiece& piece = target.piece;
  result.offset = piece.shared;
  if (!memory.is_open(window)) {
    result.status = DsmemStatus::cta_not_present;
    return result;
  }
  if (!piece.inside.any()) return result;
  const Span span = inside_of(piece);
  if (!fits(memory.size(window), swizzles, target, span, piece.inside, result)) return result;
  result.cycles = cycles_of(swizzles, target.swizzle, span);
  const std::uint32_t size = memory.size(window);
  const bool all = piece.inside == ByteMask::range(span.from, span.to);
  each_unit(swizzles, target.swizzle, span, [&](std::uint32_t at, std::uint32_t byte, std::uint32_t bytes) {
    if (memory.any_poison() && touches(piece.inside, byte, byte + bytes) &&
        memory.poisoned(window, at, std::min(bytes, size - at))) {
      result.status = DsmemStatus::poison;
      result.offset = at;
      return false;
    }
    // Bytes that do not count may lie beyond the window.
    const std::uint32_t there = at < size ? std::min(bytes, size - at) : 0;
    for (std::uint32_t run = 0; run < there;) {
      std::uint32_t end = run + 1;
      const bool counts = all || piece.inside.test(byte + run);
      while (end < there && (all || piece.inside.test(byte + end) == counts)) ++end;
      std::uint8_t* to = data + (byte - span.from) + run;
      if (counts) {
        const std::optional<std::uint32_t> old = memory.async_read(window, at + run, end - run, to);
        if (old && !result.old) result.offset = *old;
        result.old |= old.has_value();
      } else {
        std::memset(to, 0, end - run);
      }
      run = end;
    }
    std::memset(data + (byte - span.from) + there, 0, bytes - there);
    return true;
  });
  return result;
}

BulkPlaced complete_bulk(SharedMemory& memory, std::uint32_t window, std::uint32_t barrier, std::uint32_t bytes) {
  BulkPlaced result;
  result.offset = barrier;
  if (!memory.contains(window, barrier, arch::kMbarrierBytes)) {
    result.status = DsmemStatus::out_of_range;
    return result;
  }
  if (memory.poisoned(window, barrier, arch::kMbarrierBytes)) {
    result.status = DsmemStatus::poison;
    return result;
  }
  std::uint64_t object = memory.word(window, barrier);
  const arch::MbarrierResult done = arch::mbarrier_complete(object, bytes);
  if (done == arch::MbarrierResult::wrong) {
    result.status = DsmemStatus::mbarrier;
    return result;
  }
  memory.set_word(window, barrier, object);
  result.completes = done == arch::MbarrierResult::completes;
  return result;
}

}  // namespace heddle::sm

#include "sm/bulk_arrivals.h"

#include <algorithm>

#include "arch/mbarrier.h"
#include "common/bits.h"
#include "common/storage.h"
#include "protocol/memory_request.h"
#include "sm/bulk_data.h"

namespace heddle::sm {

using arch::DsmemStatus;
using arch::kLineBytes;
using protocol::BulkDataPacket;
using protocol::BulkLines;
using protocol::BulkTarget;

void BulkArrivals::reset() {
  packets_.clear();
  lots_.clear();
}

template <class Visit>
void BulkArrivals::each_receiver(const BulkTarget& target, Visit&& visit) const {
  if (!target.by_rank) return visit(Place(target.cta_slot), target.rank);
  const protocol::CgaId cga = *target.cga_id;
  tables_.check(cga, target.sequence);
  bits::for_each(target.ctas, [&](std::uint32_t rank) {
    if (tables_.sm_of(cga, rank) != place_.in_gpc && !tables_.hosted(cga, rank)) return;
    visit(tables_.match(cga, rank), rank);
  });
}

void BulkArrivals::arrive(const BulkDataPacket& packet) {
  protocol::MemoryRequest& request = *packet.request;
  const BulkTarget& target = request.extension.bulk.get();
  each_receiver(target, [&](Place place, std::uint32_t rank) {
    const BulkPlaced placed =
        write_piece(shared_, place, swizzles_, target, request.get_data_ptr(), request.extension.poisoned);
    land(target, placed, place, rank, std::nullopt);
  });
  request.release();
}

void BulkArrivals::expect(const BulkDataPacket& packet, Cycle arrival) {
  if (packet.lines != nullptr) return expect(*packet.lines, arrival);
  const std::uint32_t index = packets_.take();
  packets_[index] = packet;
  time_.schedule(arrival, *this, kPacket, index);
}

void BulkArrivals::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto index = static_cast<std::uint32_t>(argument);
  if (kind == kPacket) {
    const BulkDataPacket packet = packets_[index];
    packets_.give_back(index);
    return arrive(packet);
  }
  Lot& lot = lots_[index];
  each_receiver(lot.target, [&](Place place, std::uint32_t rank) { arrive(lot, place, rank); });
  lot.kept.reset();
  lots_.give_back(index);
}

// For one receiver. What is written is there at once; who waits for it goes on when the port has had its cycles, and
// the mbarrier its own. `come`: the port has given its cycles up to that one.
void BulkArrivals::land(const BulkTarget& target, const BulkPlaced& placed, Place place, std::uint32_t rank,
                        std::optional<Cycle> come) {
  const Cycle now = time_.now();
  if (placed.status != DsmemStatus::ok) {
    return errors_.bulk_failed({placed.status, rank, placed.offset, target}, now);
  }
  const std::uint32_t window = *place;
  const std::uint32_t bytes = target.piece.shared_bytes();
  const Cycle done = come ? *come : use_port(now, placed.cycles);
  stats_.bulk_pieces.add();
  stats_.bulk_bytes.add(bytes);
  // There may have been an mbarrier where the data are now.
  const std::uint32_t first = target.piece.shared;
  if (shared_.may_have_words(window, first, bytes)) windows_.window_changed(window, first, done);
  if (target.barrier) count(target, window, rank, bytes, done);
}

void BulkArrivals::count(const BulkTarget& target, std::uint32_t window, std::uint32_t rank, std::uint32_t bytes,
                         Cycle done) {
  const BulkPlaced counted = complete_bulk(shared_, window, *target.barrier, bytes);
  if (counted.status != DsmemStatus::ok) {
    errors_.bulk_failed({counted.status, rank, counted.offset, target}, time_.now());
  } else if (counted.completes) {
    windows_.window_changed(window, *target.barrier, done + mbarrier_latency_);
  }
}

Cycle BulkArrivals::use_port(Cycle from, std::uint32_t cycles) {
  count_wavefronts(stats_, KernelAccount::kNobody, cycles);
  stats_.bulk_port.add(cycles);
  if (cycles > 1) stats_.bulk_conflicts.add(cycles - 1);
  return port_.take_past_queue(from, cycles) + cycles - 1;
}

void BulkArrivals::expect(const BulkLines& lines, Cycle arrival) {
  const std::uint32_t index = lots_.take();
  Lot& lot = lots_[index];
  lot.target = lines.target;
  lot.count = lines.count;
  lot.end = 0;
  lot.bytes = lot.written = lot.cycles = lot.late = 0;
  lot.group = lines.pieces[0].group;
  for (std::uint32_t i = 0; i < lines.count; ++i) {
    const arch::TensorPiece& piece = lines.pieces[i];
    Line& line = lot.line[i];
    line.shared = piece.shared;
    line.bytes = static_cast<std::uint16_t>(piece.bytes);
    line.counts = static_cast<std::uint16_t>(piece.shared_bytes());
    lot.bytes += line.counts;
    // The swizzle moves units within rows.
    const std::uint64_t end = std::uint64_t{piece.shared} + line.counts;
    lot.end = std::max(lot.end, (end + kLineBytes - 1) / kLineBytes * kLineBytes);
  }
  if (!lot.target.by_rank) {
    if (write(lot, lines, lot.target.cta_slot, arrival)) lot.written = 1;
  } else {
    each_receiver(lot.target, [&](Place place, std::uint32_t rank) {
      if (write(lot, lines, place, arrival)) lot.written |= 1U << rank;
    });
  }
  // Who is not known to be elsewhere may still come.
  bool all = true;
  if (!lot.target.by_rank) {
    all = lot.written != 0;
  } else {
    bits::for_each(lot.target.ctas & ~lot.written, [&](std::uint32_t rank) {
      const std::optional<protocol::SmInGpc> sm = tables_.sm_of(*lot.target.cga_id, rank);
      all = all && sm && *sm != place_.in_gpc;
    });
  }
  if (!all) lot.kept = std::make_unique<BulkLines>(lines);
  time_.schedule(arrival, *this, kLot, index);
}

bool BulkArrivals::write(Lot& lot, const BulkLines& lines, Place place, Cycle arrival) {
  if (!place || !shared_.is_open(*place) || shared_.size(*place) < lot.end) return false;
  const auto* window = reinterpret_cast<const char*>(shared_.data(*place));
  for (std::uint32_t i = 0; i < lot.count; ++i) {
    warm_line(window + lot.line[i].shared);
    warm_line(window + lot.line[i].shared + kLineBytes / 2);
  }
  const Cycle now = time_.now();
  lot.cycles = lot.late = 0;
  for (std::uint32_t i = 0; i < lot.count; ++i) {
    lot.target.piece = lines.pieces[i];
    const BulkPlaced placed = write_piece(shared_, place, swizzles_, lot.target, lines.bytes[i].data(), false);
    HEDDLE_CHECK(placed.status == DsmemStatus::ok, "a line that fits does not");
    lot.cycles += placed.cycles;
    if (!port_.expect(now, arrival - (lines.last - lines.arrivals[i]), placed.cycles)) lot.late += placed.cycles;
  }
  return true;
}

// The last of its lines comes: the last cycle that they take of the port.
Cycle BulkArrivals::come(const Lot& lot) {
  const Cycle now = time_.now();
  const Cycle done = port_.come(now);
  count_wavefronts(stats_, KernelAccount::kNobody, lot.cycles);
  stats_.bulk_port.add(lot.cycles);
  if (lot.cycles > lot.count) stats_.bulk_conflicts.add(lot.cycles - lot.count);
  return lot.late == 0 ? done : port_.take_past_queue(now, lot.late) + lot.late - 1;
}

void BulkArrivals::arrive(Lot& lot, Place place, std::uint32_t rank) {
  const BulkTarget& target = lot.target;
  const bool written = (lot.written >> (target.by_rank ? rank : 0) & 1) != 0;
  const bool there = place && shared_.is_open(*place) && shared_.size(*place) >= lot.end;
  if (!written || !there) return arrive_singly(lot, place, rank);
  const std::uint32_t window = *place;
  if (target.barrier && shared_.contains(window, *target.barrier, arch::kMbarrierBytes) &&
      arch::mbarrier_ends_within(shared_.word(window, *target.barrier), lot.bytes)) {
    return arrive_singly(lot, place, rank);
  }
  const Cycle done = come(lot);
  stats_.bulk_pieces.add(lot.count);
  stats_.bulk_bytes.add(lot.bytes);
  for (std::uint32_t i = 0; i < lot.count; ++i) {
    const Line& line = lot.line[i];
    if (shared_.may_have_words(window, line.shared, line.counts)) windows_.window_changed(window, line.shared, done);
  }
  if (target.barrier) count(target, window, rank, lot.bytes, done);
}

// Something has changed since the lines were read, or a part of them ends a phase: one after the other.
void BulkArrivals::arrive_singly(Lot& lot, Place place, std::uint32_t rank) {
  BulkTarget& target = lot.target;
  const bool written = (lot.written >> (target.by_rank ? rank : 0) & 1) != 0;
  HEDDLE_CHECK(written || lot.kept != nullptr, "lines came for a receiver that was elsewhere");
  std::optional<Cycle> done;
  if (written) done = come(lot);
  for (std::uint32_t i = 0; i < lot.count; ++i) {
    const Line& line = lot.line[i];
    BulkPlaced placed;
    if (written) {
      target.piece = {0, line.shared, line.bytes, arch::ByteMask::first(line.bytes), lot.group};
      placed = check_piece(shared_, place, swizzles_, target);
    } else {
      target.piece = lot.kept->pieces[i];
      placed = write_piece(shared_, place, swizzles_, target, lot.kept->bytes[i].data(), false);
    }
    land(target, placed, place, rank, done);
  }
}

}  // namespace heddle::sm

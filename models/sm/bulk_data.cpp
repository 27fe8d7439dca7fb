#include "sm/bulk_data.h"

#include <algorithm>
#include <cstring>

#include "common/bits.h"
#include "protocol/memory_request.h"
#include "sm/bulk_place.h"

namespace heddle::sm {

using arch::ByteMask;
using arch::DsmemStatus;
using protocol::BulkDataPacket;
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

}  // namespace

BulkData::BulkData(Timebase& time, const MemoryParams& params, const SmContext& place,
                   const arch::SwizzleTable& swizzles, SharedMemory& shared, const ClusterTables& tables,
                   MemoryPort& port, DsmemClient& dsmem, DsmemFlights& flights, SmStats& stats, const Links& links)
    : time_(time),
      shared_latency_(params.shared_latency),
      place_(place),
      swizzles_(swizzles),
      shared_(shared),
      tables_(tables),
      port_(port),
      dsmem_(dsmem),
      flights_(flights),
      stats_(stats),
      links_(links),
      pool_(std::make_unique<protocol::RequestPool>()) {
  dsmem.serve(*this);
}

BulkData::~BulkData() = default;

std::size_t BulkData::payloads() const { return pool_->in_use(); }

void BulkData::reset() {
  sends_.for_each([](Send& send) { send.request->release(); });
  sends_.clear();
}

void BulkData::on_data(const BulkDataPacket& packet, std::uint32_t) {
  protocol::MemoryRequest& request = *packet.request;
  const BulkTarget& target = request.extension.bulk.get();
  if (!target.by_rank) {
    place_piece(request, target, target.cta_slot, target.rank);
  } else {
    tables_.check(target.cga_id, target.sequence);
    bits::for_each(target.ctas, [&](std::uint32_t rank) {
      if (tables_.sm_of(target.cga_id, rank) != place_.in_gpc) return;
      place_piece(request, target, tables_.match(target.cga_id, rank), rank);
    });
  }
  request.release();
}

// For one receiver. What is written is there at once; who waits for it goes on when the port has had its cycles.
void BulkData::place_piece(const protocol::MemoryRequest& request, const BulkTarget& target, std::uint32_t window,
                           std::uint32_t rank) {
  const Cycle now = time_.now();
  const BulkPlaced placed =
      write_piece(shared_, window, swizzles_, target, request.get_data_ptr(), request.extension.poisoned);
  if (placed.status != DsmemStatus::ok) {
    links_.errors.bulk_failed({placed.status, rank, placed.offset, target}, now);
    return;
  }
  const std::uint32_t bytes = target.piece.bytes;
  const Cycle done = use_port(now, placed.cycles);
  stats_.bulk_pieces.add();
  stats_.bulk_bytes.add(bytes);
  // There may have been an mbarrier where the data are now.
  const std::uint32_t first = target.piece.shared;
  if (shared_.may_have_words(window, first, bytes)) links_.windows.window_changed(window, first, done);
  if (target.barrier == arch::kNoBarrier) return;
  const BulkPlaced counted = complete_bulk(shared_, window, target.barrier, bytes);
  if (counted.status != DsmemStatus::ok) {
    links_.errors.bulk_failed({counted.status, rank, counted.offset, target}, now);
  } else if (counted.completes) {
    links_.windows.window_changed(window, target.barrier, done);
  }
}

Cycle BulkData::use_port(Cycle from, std::uint32_t cycles) {
  stats_.shared_wavefronts.add(cycles);
  if (cycles > 1) stats_.bulk_conflicts.add(cycles - 1);
  return port_.take_past_queue(from, cycles) + cycles - 1;
}

void BulkData::on_read(const BulkReadPacket& packet, std::uint32_t) {
  protocol::MemoryRequest& request = *packet.request;
  const BulkTarget& target = request.extension.bulk.get();
  const Cycle now = time_.now();
  BulkReadPacket answer = packet;
  const BulkPlaced read = read_piece(shared_, target.cta_slot, swizzles_, target, request.get_data_ptr());
  Cycle done = now;
  if (read.status == DsmemStatus::ok) {
    done = use_port(now, read.cycles);
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
  const std::uint32_t bytes = target.piece.bytes;
  protocol::MemoryRequest& request = pool_->acquire();
  request.aim(target.reduces ? tlm::TLM_IGNORE_COMMAND : tlm::TLM_WRITE_COMMAND, target.destination, bytes);
  if (target.reduces) {
    request.extension.action = protocol::MemoryAction::reduce_block;
    request.extension.atomic = target.reduction;
    request.extension.type = target.value;
  }
  std::memcpy(request.data.data(), packet.request->get_data_ptr(), bytes);
  request.extension.sm = place_.id;
  BulkTarget& note = request.extension.bulk.get();
  note = target;
  note.by_rank = target.data_cta != arch::kOwnCta;  // for bulk_failed()
  const std::uint32_t index = sends_.take();
  sends_[index] = {&request, packet};
  request.extension.entry = index;
  protocol::DsmemPacket out;
  out.request = &request;
  out.cga_id = target.cga_id;
  out.rank = note.by_rank ? target.data_cta : target.rank;
  out.from_sm = place_.in_gpc;
  out.sequence = target.sequence;
  const bool own = !note.by_rank;
  if (!own) tables_.check(target.cga_id, target.sequence);
  const std::uint32_t sm = own ? place_.in_gpc : tables_.sm_of(target.cga_id, out.rank);
  out.to_sm = sm;
  if (sm != place_.in_gpc && sm != ClusterTables::kNone) {
    flights_.begin(out.cga_id, kNoCta);
    dsmem_.send(out, read + shared_latency_);
    return;
  }
  std::uint32_t window = kNoWindow;
  if (own) {
    window = target.cta_slot;
  } else if (sm != ClusterTables::kNone) {
    window = tables_.match(target.cga_id, out.rank);
  }
  const DsmemResult result = serve_dsmem(shared_, window, request);
  out.status = result.status;
  out.offset = result.offset;
  const Cycle done = use_port(read, result.cycles);
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

}  // namespace heddle::sm

// The memory unit and the tensor memory access unit (TMAU): bytes of boxes and blocks for shared memory and out of it
// (TMA-01, TMA-20, TMA-40), shared -> shared copies among them.
#include <algorithm>
#include <cstring>

#include "sm/bulk_place.h"
#include "sm/memory_unit.h"

namespace heddle::sm {

using arch::ByteMask;
using arch::DsmemStatus;
using protocol::BulkDataPacket;
using protocol::BulkReadPacket;
using protocol::BulkTarget;

void MemoryUnit::on_bulk_data(const BulkDataPacket& packet) {
  protocol::MemoryRequest& request = *packet.request;
  const BulkTarget& target = request.extension.bulk.get();
  if (!target.by_rank) {
    place_bulk(request, target, target.cta_slot, target.rank);
  } else {
    tables_.check(target.cga_id, target.sequence);
    for (std::uint32_t left = target.ctas; left != 0; left &= left - 1) {
      const auto rank = static_cast<std::uint32_t>(__builtin_ctz(left));
      if (tables_.sm_of(target.cga_id, rank) != links_.in_gpc) continue;
      place_bulk(request, target, tables_.match(target.cga_id, rank), rank);
    }
  }
  request.release();
}

// For one receiver. What is written is there at once; who waits for it goes on when the port has had its cycles.
void MemoryUnit::place_bulk(const protocol::MemoryRequest& request, const BulkTarget& target, std::uint32_t window,
                            std::uint32_t rank) {
  const Cycle now = domain_.now();
  const BulkPlaced placed =
      write_piece(shared_, window, swizzles_, target, request.get_data_ptr(), request.extension.poisoned);
  if (placed.status != DsmemStatus::ok) {
    client_.bulk_failed({placed.status, rank, placed.offset, target}, now);
    return;
  }
  const std::uint32_t bytes = target.piece.bytes;
  const Cycle done = use_port_for_bulk(now, placed.cycles);
  stats_.bulk_pieces.add();
  stats_.bulk_bytes.add(bytes);
  // There may have been an mbarrier where the data are now.
  const std::uint32_t first = target.piece.shared;
  if (shared_.may_have_words(window, first, bytes)) client_.mbarrier_changed(window, first, done);
  if (target.barrier == arch::kNoBarrier) return;
  const BulkPlaced counted = complete_bulk(shared_, window, target.barrier, bytes);
  if (counted.status != DsmemStatus::ok) {
    client_.bulk_failed({counted.status, rank, counted.offset, target}, now);
  } else if (counted.completes) {
    client_.mbarrier_changed(window, target.barrier, done);
  }
}

Cycle MemoryUnit::use_port_for_bulk(Cycle from, std::uint32_t cycles) {
  stats_.shared_wavefronts.add(cycles);
  if (cycles > 1) stats_.bulk_conflicts.add(cycles - 1);
  return port_.take_past_queue(from, cycles) + cycles - 1;
}

void MemoryUnit::on_bulk_read(const BulkReadPacket& packet) {
  protocol::MemoryRequest& request = *packet.request;
  const BulkTarget& target = request.extension.bulk.get();
  const Cycle now = domain_.now();
  BulkReadPacket answer = packet;
  const BulkPlaced read = read_piece(shared_, target.cta_slot, swizzles_, target, request.get_data_ptr());
  Cycle done = now;
  if (read.status == DsmemStatus::ok) {
    done = use_port_for_bulk(now, read.cycles);
    if (packet.forward) return forward(packet, done);
    enable_inside(request, target);
  } else {
    answer.failed = true;
    if (read.status == DsmemStatus::poison) {
      request.extension.poisoned = true;
    } else {
      client_.bulk_failed({read.status, target.rank, read.offset, target}, now);
    }
  }
  bulk_.reads.send_at(done + params_.shared_latency, answer);
}

// Of the bytes from the lowest to the highest that count.
void MemoryUnit::enable_inside(protocol::MemoryRequest& request, const BulkTarget& target) {
  const ByteMask& inside = target.piece.inside;
  if (!inside.any()) return;
  const std::uint32_t first = inside.lowest();
  const std::uint32_t end = inside.highest() + 1;
  if (inside == ByteMask::range(first, end)) return;
  for (std::uint32_t byte = first; byte < end; ++byte) request.enables[byte - first] = inside.test(byte) ? 0xFF : 0;
  request.set_byte_enable_ptr(request.enables.data());
  request.set_byte_enable_length(end - first);
}

// The bytes of a send have been read. They go to the receiver as a DSMEM request with a payload of our own, which
// completes the receiver's mbarrier as well.
void MemoryUnit::forward(const BulkReadPacket& packet, Cycle read) {
  const BulkTarget& target = packet.request->extension.bulk.get();
  stats_.bulk_sends.add();
  const std::uint32_t bytes = target.piece.bytes;
  protocol::MemoryRequest& request = send_pool_.acquire();
  request.aim(target.reduces ? tlm::TLM_IGNORE_COMMAND : tlm::TLM_WRITE_COMMAND, target.destination, bytes);
  if (target.reduces) {
    request.extension.action = protocol::MemoryAction::reduce_block;
    request.extension.atomic = target.reduction;
    request.extension.type = target.value;
  }
  std::memcpy(request.data.data(), packet.request->get_data_ptr(), bytes);
  request.extension.sm = sm_;
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
  out.from_sm = links_.in_gpc;
  out.sequence = target.sequence;
  const bool own = !note.by_rank;
  if (!own) tables_.check(target.cga_id, target.sequence);
  const std::uint32_t sm = own ? links_.in_gpc : tables_.sm_of(target.cga_id, out.rank);
  out.to_sm = sm;
  if (sm != links_.in_gpc && sm != ClusterTables::kNone) {
    ++cluster_of_cga_[out.cga_id];
    send_cluster(out, read + params_.shared_latency);
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
  const Cycle done = use_port_for_bulk(read, result.cycles);
  tell_changes(window, request, result, done);
  send_answered(out, done + params_.shared_latency);
}

// The receiver has answered.
void MemoryUnit::send_answered(const protocol::DsmemPacket& reply, Cycle when) {
  const std::uint32_t index = reply.request->extension.entry;
  const BulkSend send = sends_[index];
  HEDDLE_CHECK(send.request == reply.request, "a bulk send was answered twice");
  sends_[index].request = nullptr;
  sends_.give_back(index);
  BulkReadPacket answer = send.packet;
  answer.failed = reply.status != DsmemStatus::ok;
  if (answer.failed) {
    client_.bulk_failed({reply.status, reply.rank, reply.offset, reply.request->extension.bulk.get()}, when);
  }
  reply.request->release();
  bulk_.reads.send_at(when, answer);
}

// Who waits for an mbarrier of that window looks again.
void MemoryUnit::tell_changes(std::uint32_t window, const protocol::MemoryRequest& request, const DsmemResult& result,
                              Cycle done) {
  if (result.changes) client_.mbarrier_changed(window, static_cast<std::uint32_t>(request.get_address()), done);
  if (result.completes) client_.mbarrier_changed(window, result.barrier, done);
}

}  // namespace heddle::sm

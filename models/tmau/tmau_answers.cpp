// What comes back: from memory, from shared memory, from other units (TMA-31, TMA-40, TMA-41).
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tmau/tmau.h"

namespace heddle::tmau {

using arch::BulkKind;
using protocol::MemoryRequest;

bool Tmau::on_response(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival) {
  // Whoever answered the earlier ones has returned, unless this is called from inside such a call.
  const std::size_t over = depth_ == 0 ? retired_.size() : 0;
  ++depth_;
  auto& request = static_cast<MemoryRequest&>(payload);  // NOLINT(*-static-cast-downcast): all are ours
  answered(request, sm, arrival);
  retired_.push_back(&request);
  --depth_;
  for (std::size_t i = 0; i < over; ++i) retired_[i]->release();
  retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(over));
  return true;
}

void Tmau::on_room(std::uint32_t sm, Cycle when) {
  Lane& lane = lanes_[sm];
  lane.last = std::max(lane.last, when);
  if (when > now()) {
    arm_pump(sm);
    wake(when);
    return;
  }
  pump(sm);
  generate();
}

void Tmau::answered(MemoryRequest& request, std::uint32_t sm, Cycle arrival) {
  const std::uint32_t entry = request.extension.entry;
  const std::uint32_t number = entry >> kRoleBits;
  const auto role = static_cast<Role>(entry & ((1U << kRoleBits) - 1));
  if (role == Role::descriptor) return fetched(request, number, arrival);
  const bool ok = request.get_response_status() == tlm::TLM_OK_RESPONSE;
  if (role == Role::prefetch) return give_place(arrival);  // nobody waits for it (TMA-42)
  HEDDLE_CHECK(number < works_.size() && works_[number].sm == sm && works_[number].answers > 0,
               "an answer that nobody waits for");
  BulkWork& work = works_[number];
  --work.answers;
  if (role == Role::line && work.kind() == BulkKind::copy && ok && !request.extension.poisoned) {
    copy_on(request, work, number, arrival);
    return;
  }
  give_place(arrival);
  if (role == Role::line) {
    line_answered(request, work, ok, arrival);
  } else if (!ok) {
    work.fail(request, arrival);
  }
  work.note(arrival);
  if (work.over()) complete(number);
}

void Tmau::line_answered(MemoryRequest& request, BulkWork& work, bool ok, Cycle arrival) {
  const bool load = work.kind() == BulkKind::load;
  // Poisoned: a copy is not written, and what a reduction has made of corrupt data is corrupt.
  const bool lost = request.extension.poisoned && !load;
  if (!ok || lost) {
    if (ok) {
      work.fail(request.get_address(), arrival, true);
    } else {
      work.fail(request, arrival);
    }
    if (load && work.target.by_rank) {
      work.acknowledgements -= static_cast<std::uint32_t>(__builtin_popcountll(work.packet.sms));
    }
    return;
  }
  if (!load || work.target.by_rank) return;
  work.note(arrival + response_);
  request.acquire();
  deliver(request, work.sm, arrival + response_);
}

// device -> device: what was read is written. Not with the same payload, which its target may still look at.
void Tmau::copy_on(const MemoryRequest& request, BulkWork& work, std::uint32_t number, Cycle arrival) {
  MemoryRequest& copy = new_request(work, number, Role::copied);
  copy.aim(tlm::TLM_WRITE_COMMAND, work.request().to + (request.get_address() - work.request().global),
           request.get_data_length());
  std::memcpy(copy.data.data(), request.get_data_ptr(), request.get_data_length());
  ++work.answers;
  stats_.lines.add();
  stats_.bytes_out.add(copy.get_data_length());
  push_ready(work.sm, copy, arrival);
}

// Shared memory has given its bytes, or has brought them where they go.
void Tmau::on_read(const protocol::BulkReadPacket& packet, std::uint32_t sm, Cycle arrival) {
  MemoryRequest& request = *packet.request;
  const std::uint32_t number = request.extension.entry >> kRoleBits;
  HEDDLE_CHECK(number < works_.size() && works_[number].sm == sm && works_[number].reads > 0,
               "data for a store that nobody waits for");
  BulkWork& work = works_[number];
  --work.reads;
  work.last_read = std::max(work.last_read, arrival);
  // Of other errors the SM has told by itself: it knows the CTA that is concerned.
  if (packet.failed && request.extension.poisoned) {
    const arch::TensorPiece& piece = request.extension.bulk.get().piece;
    work.fail(piece.shared + piece.inside.lowest(), arrival, true);
  }
  if (packet.failed || packet.forward) {
    work.note(arrival);
    give_place(arrival);
    request.release();
  } else {
    ++work.answers;
    stats_.lines.add();
    stats_.bytes_out.add(request.get_data_length());
    push_ready(sm, request, arrival);
  }
  if (!work.generated || work.reads > 0) return;
  if (work.over()) return complete(number);
  tell_read(work);
}

void Tmau::on_multicast(const protocol::BulkDataPacket& packet, std::uint32_t sm, Cycle arrival) {
  HEDDLE_CHECK(packet.sm == place_.first + sm, "multicast data came to the wrong SM");
  stats_.multicast_received.add();
  receive(packet, arrival);
}

void Tmau::on_peer(const protocol::BulkPeerPacket& packet, std::uint32_t /*unit*/, Cycle arrival) {
  if (packet.kind == protocol::BulkPeerPacket::Kind::fill) return receive(packet.data, arrival);
  stats_.acknowledgements.add(packet.count);
  acknowledged(packet.request, packet.count, packet.phase, arrival);
}

// To shared memory, and the unit that asked is told (TMA-31).
void Tmau::receive(const protocol::BulkDataPacket& packet, Cycle arrival) {
  const Cycle when = arrival + response_;
  const std::uint32_t sm = packet.sm - place_.first;
  HEDDLE_CHECK(packet.sm >= place_.first && sm < sms(), "data for an SM of another unit");
  const protocol::BulkTarget& target = packet.request->extension.bulk.get();
  protocol::BulkPeerPacket reply;
  reply.kind = protocol::BulkPeerPacket::Kind::acknowledge;
  reply.from = place_.number;
  reply.request = target.request;
  reply.count = 1;
  reply.phase = target.phase;
  const std::uint32_t unit = target.unit;
  deliver(*packet.request, sm, when);  // the SM may be done with it inside this call
  if (unit == place_.number) {
    acknowledged(reply.request, 1, reply.phase, when);
  } else {
    peer_out.send_at(when, reply, unit);
  }
}

void Tmau::acknowledged(std::uint32_t number, std::uint32_t count, std::uint8_t phase, Cycle when) {
  HEDDLE_CHECK(number < works_.size() && works_[number].acknowledgements >= count && works_[number].phase == phase,
               "an acknowledgement that nobody waits for");
  BulkWork& work = works_[number];
  work.acknowledgements -= count;
  work.note(when);
  if (work.over()) complete(number);
}

void Tmau::deliver(MemoryRequest& request, std::uint32_t sm, Cycle when) {
  stats_.delivered.add();
  protocol::BulkDataPacket packet;
  packet.request = &request;
  packet.sm = place_.first + sm;
  data_out.send_at(when, packet, sm);
}

}  // namespace heddle::tmau

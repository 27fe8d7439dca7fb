#include "tmau/line_batch.h"

#include <algorithm>
#include <cstring>

#include "common/bits.h"

namespace heddle::tmau {

using protocol::BulkLines;
using protocol::BulkPeerPacket;
using protocol::MemoryRequest;

void SharedDelivery::receive(const protocol::BulkDataPacket& packet, Cycle arrival) {
  const Cycle when = arrival + response_;
  const std::uint32_t sm = packet.sm - unit_.place.first;
  HEDDLE_CHECK(packet.sm >= unit_.place.first && sm < unit_.place.sms(), "data for an SM of another unit");
  const bool lines = packet.lines != nullptr;
  const protocol::BulkTarget& target = lines ? packet.lines->target : packet.request->extension.bulk.get();
  BulkPeerPacket reply;
  reply.kind = BulkPeerPacket::Kind::acknowledge;
  reply.request = target.request;
  reply.count = lines ? packet.lines->count : 1;
  reply.phase = target.phase;
  const std::uint32_t requester = target.unit;
  if (lines) {
    deliver(*packet.lines, sm, when);
  } else {
    deliver(*packet.request, sm, when);  // the SM may be done with it inside this call
  }
  if (requester == unit_.place.number) {
    unit_.events.acknowledged(reply.request, reply.count, reply.phase, when);
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

void SharedDelivery::deliver(const BulkLines& lines, std::uint32_t sm, Cycle when) {
  unit_.stats.delivered.add(lines.count);
  protocol::BulkDataPacket packet;
  packet.sm = protocol::SmInGpc(unit_.place.first + sm);
  packet.lines = &lines;
  data_.send_at(when, packet, sm);
}

bool LineBatch::read(BulkWork& work, const arch::TensorPiece& piece, LineRead& read) {
  const std::uint64_t address = piece.address + piece.inside.lowest();
  const auto offset = static_cast<std::uint32_t>(address % arch::kLineBytes);
  read.address = address - offset;
  if (work.target.by_rank) {
    read.receivers = work.packet.sms;
    read.arrivals = copies_.data();
    if (bits::count(read.receivers) > copies_.size()) return false;
  }
  if (!ports_.read(work.sm, read)) return false;
  if (read.bytes == nullptr) return true;
  const std::uint32_t copies = bits::count(read.receivers);
  const Cycle first = copies == 0 ? read.when : *std::min_element(copies_.begin(), copies_.begin() + copies);
  const std::uint32_t place = take_place(work, piece, first);
  std::memcpy(lines_.bytes[place].data(), read.bytes + offset, piece.inside.highest() + 1 - piece.inside.lowest());
  if (!work.target.by_rank) {
    arrivals_[0][place] = read.when + delivery_.look_up();
    return true;
  }
  for (std::uint32_t i = 0; i < copies; ++i) arrivals_[i][place] = copies_[i];
  return true;
}

void LineBatch::fill(const BulkWork& work, const arch::TensorPiece& piece, Cycle when) {
  arrivals_[0][take_place(work, piece, when)] = when;
}

std::uint32_t LineBatch::take_place(const BulkWork& work, const arch::TensorPiece& piece, Cycle arrival) {
  if (lines_.count == BulkLines::kMost || (lines_.count > 0 && work_ != work.number)) send();
  if (lines_.count == 0) {
    work_ = work.number;
    sm_ = work.sm;
    receivers_ = work.packet.sms;
    lines_.target = work.target;
    first_ = arrival;
  }
  first_ = std::min(first_, arrival);
  lines_.pieces[lines_.count] = piece;
  return lines_.count++;
}

void LineBatch::send() {
  if (lines_.count == 0) return;
  if (lines_.target.by_rank) {
    pass_on();
  } else {
    lines_.arrivals = arrivals_[0].data();
    lines_.last = *std::max_element(lines_.arrivals, lines_.arrivals + lines_.count);
    delivery_.deliver(lines_, sm_, lines_.last + delivery_.response());
  }
  lines_.count = 0;
}

void LineBatch::pass_on() {
  std::size_t number = 0;
  bits::for_each(receivers_, [&](std::uint32_t receiver) {
    lines_.arrivals = arrivals_[number++].data();
    lines_.last = *std::max_element(lines_.arrivals, lines_.arrivals + lines_.count);
    ports_.pass_on(sm_, lines_, receiver);
  });
}

}  // namespace heddle::tmau

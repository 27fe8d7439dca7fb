#include "tmau/shared_delivery.h"

namespace heddle::tmau {

using protocol::BulkPeerPacket;
using protocol::MemoryRequest;

void SharedDelivery::receive(const protocol::BulkDataPacket& packet, Cycle arrival) {
  const Cycle when = arrival + response_;
  const std::uint32_t sm = packet.sm - unit_.place.first;
  HEDDLE_CHECK(packet.sm >= unit_.place.first && sm < unit_.place.sms(), "data for an SM of another unit");
  const protocol::BulkTarget& target = packet.request->extension.bulk.get();
  BulkPeerPacket reply;
  reply.kind = BulkPeerPacket::Kind::acknowledge;
  reply.from = unit_.place.number;
  reply.request = target.request;
  reply.count = 1;
  reply.phase = target.phase;
  const std::uint32_t asker = target.unit;
  deliver(*packet.request, sm, when);  // the SM may be done with it inside this call
  if (asker == unit_.place.number) {
    unit_.events.acknowledged(reply.request, 1, reply.phase, when);
  } else {
    peers_.send_at(when, reply, asker);
  }
}

void SharedDelivery::fill(const BulkWork& work, MemoryRequest& request, std::uint32_t sm, Cycle when) {
  BulkPeerPacket packet;
  packet.kind = BulkPeerPacket::Kind::fill;
  packet.from = unit_.place.number;
  packet.request = work.number;
  packet.count = 1;
  packet.phase = work.phase;
  packet.data.request = &request;
  packet.data.sm = sm;
  const std::uint32_t receiver = sm / unit_.place.per_unit;
  if (receiver == unit_.place.number) {
    receive(packet.data, when);
  } else {
    peers_.send_at(when, packet, receiver);
  }
}

void SharedDelivery::deliver(MemoryRequest& request, std::uint32_t sm, Cycle when) {
  unit_.stats.delivered.add();
  protocol::BulkDataPacket packet;
  packet.request = &request;
  packet.sm = unit_.place.first + sm;
  data_.send_at(when, packet, sm);
}

}  // namespace heddle::tmau

// Whose turn it is: order within a queue, barrier bits, the decoder that all queues share (PKT-04, PKT-10).
#include "packet/engine.h"

namespace heddle::packet {

using arch::HsaStatus;
using arch::PacketType;
using protocol::QueueState;

// A condensed packet has the one of its first kernel (PKT-06). Barrier bits of table entries are known on the chip
// wherever the tables lie.
bool PacketProcessor::Engine::barrier_bit(const Queue& queue, const arch::PacketBytes& bytes) const {
  if (arch::type_of(bytes) != PacketType::condensed_dispatch) return (bytes[1] & 1) != 0;
  const std::uint32_t kernels = bytes[1];
  const std::uint32_t entry = bytes[2] & 7U;
  const bool changed = (bytes[2] & 8U) != 0;  // bit 0 of the vector: the scopes follow
  if (kernels == 0) return false;
  if (changed) return (bytes[4] & 1) != 0;
  const ReferenceTable& table = table_of(static_cast<std::uint32_t>(&queue - queues_.data()));
  return table.valid(entry) && (table.at(entry).synch_scopes & 1) != 0;
}

// The next packet of the queue has its turn, if it can.
void PacketProcessor::Engine::advance(std::uint32_t number) {
  Queue& queue = queues_[number];
  if (queue.state == QueueState::active && queue.turn == kNone) {
    const QueueCore::Fetched* front = queue.core.front();
    if (front != nullptr && front->slot == QueueCore::Slot::failed) {
      fail(number, queue.core.front_index(), 0, {HsaStatus::invalid_queue, "the ring cannot be read"});
    } else if (front != nullptr && front->slot == QueueCore::Slot::published &&
               (queue.core.front_is_oldest() || !barrier_bit(queue, front->bytes))) {
      begin(number);
    }
  }
  note_wait(number);
}

void PacketProcessor::Engine::begin(std::uint32_t number) {
  Queue& queue = queues_[number];
  const std::uint64_t index = queue.core.front_index();
  const QueueCore::Fetched fetched = queue.core.begin();
  const std::uint32_t slot = new_packet();
  Packet& packet = packets_[slot];
  packet.queue = number;
  packet.index = index;
  packet.bytes = fetched.bytes;
  packet.type = arch::type_of(fetched.bytes);
  packet.times.doorbell = fetched.doorbell;
  packet.times.fetched = fetched.fetched;
  queue.turn = slot;
  block_.progress();
  note_open();
  fetch(number);  // there is room for another
  arm_poll(number);
  if (static_cast<std::uint8_t>(packet.type) >= arch::kPacketTypes) {
    packet.times.ready = now();
    packet.verdict = {HsaStatus::invalid_packet_format, "there is no such type of packets"};
    fail_turn(slot);
    return;
  }
  decoder_.want(number);
  serve_decoder();
}

// The packet has been launched as a whole; it may run on.
void PacketProcessor::Engine::end_turn(Packet& packet) {
  if (!packet.in_turn) return;
  Queue& queue = queues_[packet.queue];
  packet.in_turn = false;
  queue.turn = kNone;
  queue.core.end_turn();
  advance(packet.queue);
}

// The packet that has its turn is forgotten: nothing of it has been launched.
void PacketProcessor::Engine::drop_turn(std::uint32_t number) {
  Queue& queue = queues_[number];
  const std::uint32_t slot = queue.turn;
  Packet& packet = packets_[slot];
  HEDDLE_CHECK(!packet.launched, "a packet that has been launched was dropped");
  decoder_.forget(number);
  if (packet.stage == Stage::dispatch) leave_flight();
  stop_waiting(slot);
  queue.core.drop_turn();
  queue.turn = kNone;
  free_packet(slot);
  note_open();
}

void PacketProcessor::Engine::serve_decoder() {
  if (decoder_busy_) return;
  const std::uint32_t number = decoder_.take();
  if (number == TurnOrder::kNone) return;
  const std::uint32_t slot = queues_[number].turn;
  Packet& packet = packets_[slot];
  decoder_busy_ = true;
  packet.stage = Stage::decoding;
  packet.in_decoder = true;
  packet.times.ready = now();
  schedule(cost(decode(slot)), kDecoded, slot);
  note_wait(number);
}

// The decoder is free again, whatever has become of the packet; reads of that may still be under way.
void PacketProcessor::Engine::decoded(std::uint64_t reference) {
  decoder_busy_ = false;
  Packet* packet = live(reference);
  if (packet != nullptr) {
    packet->in_decoder = false;
    decode_on(static_cast<std::uint32_t>(reference));
  }
  serve_decoder();
}

void PacketProcessor::Engine::decode_on(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  if (packet.stage != Stage::decoding || packet.in_decoder || packet.reads > 0) return;
  if (packet.verdict.ok()) packet.verdict = judge(packet);
  if (!packet.verdict.ok()) {
    fail_turn(slot);
  } else if (packet.type == PacketType::reference_dispatch) {
    store_entry(slot);
  } else {
    proceed(slot);
  }
}

}  // namespace heddle::packet

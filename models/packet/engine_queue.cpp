// Commands of the host, and the traffic with rings.
#include <algorithm>

#include "packet/engine.h"

namespace heddle::packet {

using arch::HsaStatus;
using protocol::QueueCommand;
using protocol::QueueEvent;
using protocol::QueueState;
using Use = MemoryTag::Use;

namespace {

constexpr std::uint32_t kLeastPackets = 2;
constexpr std::uint32_t kMostPackets = 1U << 20;
constexpr std::uint64_t kLastFirst = std::uint64_t{1} << 63;  // indices never come round
constexpr std::uint32_t kHeaderBytes = 2;
constexpr std::uint32_t kIndexBytes = 8;

const char* what_is_wrong(const protocol::QueueSetup& setup) {
  const std::uint64_t bytes = std::uint64_t{setup.size} * arch::kPacketBytes;
  if (setup.size < kLeastPackets || setup.size > kMostPackets || (setup.size & (setup.size - 1)) != 0) {
    return "the size is no power of two from 2 to 2^20";
  }
  if (setup.base % arch::kPacketBytes != 0) return "the ring does not begin at a multiple of 64";
  if (setup.base + bytes < setup.base ||
      arch::in_host_window(setup.base) != arch::in_host_window(setup.base + bytes - 1)) {
    return "the ring reaches past the end of memory";
  }
  if (setup.read_index % kIndexBytes != 0) return "the read index is not at a multiple of 8";
  if (setup.first > kLastFirst) return "the index of the first packet is above 2^63";
  if (setup.subcontext >= arch::kSubcontexts) return "there is no such subcontext";
  return nullptr;
}

}  // namespace

void PacketProcessor::Engine::on_command(const protocol::QueueCommandPacket& packet, std::uint32_t) {
  if (packet.queue >= queues_.size()) {
    protocol::QueueEventPacket event;
    event.queue = packet.queue;
    event.status = HsaStatus::invalid_queue;
    block_.event_out.send(event);
    return;
  }
  Queue& queue = queues_[packet.queue];
  switch (packet.command) {
    case QueueCommand::open:
      open_queue(packet.queue, packet.setup);
      break;
    case QueueCommand::close:
      close_queue(packet.queue);
      break;
    case QueueCommand::doorbell:
      if (queue.state != QueueState::active || !queue.core.ring(packet.index, now())) break;
      stats_.doorbells.add();
      block_.progress();
      fetch(packet.queue);
      break;
    case QueueCommand::agent_done:
      agent_done(packet.queue, packet.status);
      break;
  }
  if (packet.queue < queues_.size()) note_wait(packet.queue);
}

void PacketProcessor::Engine::open_queue(std::uint32_t number, const protocol::QueueSetup& setup) {
  Queue& queue = queues_[number];
  if (queue.state != QueueState::closed) {
    send_state(number, HsaStatus::invalid_queue, 0);  // nothing changes
    return;
  }
  const std::uint32_t epoch = queue.epoch + 1;
  queue = Queue();
  queue.epoch = epoch;
  queue.setup = setup;
  queue.state = QueueState::active;
  queue.core.open(setup.first, setup.size, params_.fetch_ahead);
  decoder_.set_priority(number, setup.priority);
  if (params_.table_owner == TableOwner::queue) table_of(number).clear();
  block_.progress();
  const char* wrong = what_is_wrong(setup);
  if (wrong != nullptr) {
    fail(number, setup.first, 0, {HsaStatus::invalid_queue, wrong});
    return;
  }
  send_state(number, HsaStatus::success, setup.first);
}

// PKT-04: what has been launched ends as usual; the rest is dropped.
void PacketProcessor::Engine::close_queue(std::uint32_t number) {
  Queue& queue = queues_[number];
  if (queue.state != QueueState::active && queue.state != QueueState::error) return;
  queue.state = QueueState::draining;
  queue.core.stop();
  send_state(number, HsaStatus::success, queue.core.read_index());
  block_.progress();
  if (queue.turn != kNone) {
    const std::uint32_t slot = queue.turn;
    if (packets_[slot].launched) {
      step(slot);  // of a condensed packet: no more kernels
    } else {
      drop_turn(number);
    }
  }
  try_close(number);
}

void PacketProcessor::Engine::try_close(std::uint32_t number) {
  Queue& queue = queues_[number];
  if (queue.state != QueueState::draining || queue.core.open_packets() > 0 || queue.requests > 0) return;
  queue.state = QueueState::closed;
  send_state(number, HsaStatus::success, queue.core.read_index());
}

void PacketProcessor::Engine::send_state(std::uint32_t number, HsaStatus status, std::uint64_t index) {
  protocol::QueueEventPacket event;
  event.event = QueueEvent::state;
  event.queue = number;
  event.state = queues_[number].state;
  event.status = status;
  event.index = index;
  block_.event_out.send(event);
}

void PacketProcessor::Engine::fetch(std::uint32_t number) {
  Queue& queue = queues_[number];
  if (queue.state != QueueState::active) return;
  while (const auto index = queue.core.next_read()) {
    MemoryTag ring;
    ring.use = Use::ring;
    ring.queue = number;
    ring.generation = queue.epoch;
    ring.index = *index;
    const std::uint64_t slot = *index & (queue.setup.size - 1);
    ++queue.requests;
    stats_.fetches.add();
    memory_.read(queue.setup.base + slot * arch::kPacketBytes, arch::kPacketBytes, queue.setup.subcontext, ring);
  }
}

void PacketProcessor::Engine::fetched(const MemoryAnswer& answer) {
  const std::uint32_t number = answer.tag.queue;
  Queue& queue = queues_[number];
  const bool again = queue.retries > 0 && answer.tag.index == queue.retried;
  if (again) queue.retries = 0;
  if (queue.state != QueueState::active) return;
  arch::PacketBytes bytes;
  std::copy_n(answer.data.begin(), bytes.size(), bytes.begin());
  QueueCore::Slot slot = QueueCore::Slot::published;
  if (!answer.ok) {
    slot = QueueCore::Slot::failed;
  } else if (arch::type_of(bytes) == arch::PacketType::invalid) {
    slot = QueueCore::Slot::unpublished;
    stats_.unpublished.add();
  }
  queue.core.arrived(answer.tag.index, slot, bytes, now());
  if (slot != QueueCore::Slot::unpublished) fetch(number);
  arm_poll(number);
  advance(number);
}

void PacketProcessor::Engine::arm_poll(std::uint32_t number) {
  Queue& queue = queues_[number];
  if (queue.poll_armed || queue.state != QueueState::active || !queue.core.wants_retry()) return;
  queue.poll_armed = true;
  domain_.schedule_in(poll_cycles_, block_, kPoll, std::uint64_t{queue.epoch} << 32 | number);
}

void PacketProcessor::Engine::poll(std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  Queue& queue = queues_[number];
  if (queue.epoch != argument >> 32 || queue.state != QueueState::active) return;
  queue.poll_armed = false;
  const auto index = queue.core.retry();
  if (!index) return;
  queue.retries = 1;
  queue.retried = *index;
  fetch(number);
}

// The slot says `invalid` before the read index passes it: so the producer never sees its place taken by an old packet.
void PacketProcessor::Engine::clear_slot(Packet& packet) {
  Queue& queue = queues_[packet.queue];
  MemoryTag cleared;
  cleared.use = Use::slot_cleared;
  cleared.queue = packet.queue;
  cleared.index = packet.index;
  const std::uint64_t slot = packet.index & (queue.setup.size - 1);
  ++queue.requests;
  memory_.write_value(queue.setup.base + slot * arch::kPacketBytes,
                      static_cast<std::uint64_t>(arch::PacketType::invalid), kHeaderBytes, queue.setup.subcontext,
                      cleared);
}

void PacketProcessor::Engine::slot_cleared(const MemoryAnswer& answer) {
  const std::uint32_t number = answer.tag.queue;
  Queue& queue = queues_[number];
  if (!answer.ok) {
    fail(number, answer.tag.index, 0, {HsaStatus::invalid_queue, "the ring cannot be written"});
    return;
  }
  if (!queue.core.cleared(answer.tag.index)) return;
  protocol::QueueEventPacket event;
  event.event = QueueEvent::read;
  event.queue = number;
  event.state = queue.state;
  event.index = queue.core.read_index();
  block_.event_out.send(event);
  write_index(number);
  fetch(number);
}

void PacketProcessor::Engine::write_index(std::uint32_t number) {
  Queue& queue = queues_[number];
  if (queue.setup.read_index == 0 || queue.writing_index) return;
  queue.writing_index = true;
  MemoryTag index;
  index.use = Use::read_index;
  index.queue = number;
  index.index = queue.core.read_index();
  ++queue.requests;
  memory_.write_value(queue.setup.read_index, index.index, kIndexBytes, queue.setup.subcontext, index);
}

void PacketProcessor::Engine::index_written(const MemoryAnswer& answer) {
  const std::uint32_t number = answer.tag.queue;
  Queue& queue = queues_[number];
  queue.writing_index = false;
  if (!answer.ok) {
    fail(number, answer.tag.index, 0, {HsaStatus::invalid_queue, "the read index cannot be written"});
    return;
  }
  if (answer.tag.index != queue.core.read_index()) write_index(number);
}

}  // namespace heddle::packet

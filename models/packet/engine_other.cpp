// Barrier, agent and vendor packets.
#include <algorithm>

#include "packet/engine.h"

namespace heddle::packet {

using arch::HsaStatus;
using arch::PacketType;
using Use = MemoryTag::Use;

// A signal that has been seen at 0 need not be looked at again.
void PacketProcessor::Engine::look_at_signals(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  Queue& queue = queues_[packet.queue];
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    const std::uint64_t handle = packet.barrier.signals[i];
    if (handle == 0 || packet.zero[i]) continue;
    ++packet.reads;
    ++queue.requests;
    stats_.signal_polls.add();
    memory_.read(arch::signal_address(handle), 8, queue.setup.subcontext, tag(Use::dependency, slot, i));
  }
  if (packet.reads == 0) satisfied(slot);  // there are none
}

void PacketProcessor::Engine::dependency_read(std::uint32_t slot, const MemoryAnswer& answer) {
  Packet& packet = packets_[slot];
  const std::uint32_t signal = answer.tag.part;
  std::uint64_t value = 0;
  for (std::uint32_t i = 8; i-- > 0;) value = value << 8 | answer.data[i];
  packet.values[signal] = static_cast<std::int64_t>(value);
  packet.zero[signal] = answer.ok && value == 0;
  if (!answer.ok) packet.verdict = {HsaStatus::invalid_signal, "a signal that it waits for cannot be read"};
  if (packet.reads == 0) judge_signals(slot);
}

void PacketProcessor::Engine::judge_signals(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  if (!packet.verdict.ok()) {
    fail_turn(slot);
    return;
  }
  std::uint32_t open = 0;
  std::uint32_t zero = 0;
  std::int64_t negative = 0;
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    if (packet.barrier.signals[i] == 0) continue;
    if (packet.zero[i]) ++zero;
    if (!packet.zero[i]) ++open;
    if (!packet.zero[i] && packet.values[i] < 0 && negative == 0) negative = packet.values[i];
  }
  const bool enough = packet.type == PacketType::barrier_and ? open == 0 : zero > 0;
  if (!enough && negative == 0) {
    schedule(poll_cycles_, kSignals, slot);
    return;
  }
  if (!enough) {
    // The packet fails, and hands the error on; its queue does not.
    packet.status = HsaStatus::error;
    packet.value = negative;
  }
  satisfied(slot);
}

void PacketProcessor::Engine::satisfied(std::uint32_t slot) {
  packets_[slot].times.ready = now();
  acquire(slot);
  note_wait(packets_[slot].queue);
}

void PacketProcessor::Engine::launch_other(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  packet.times.dispatched = packet.times.started = now();
  packet.stage = Stage::running;
  take_lane(queues_[packet.queue], packet.lane);
  launched(packet);
  if (packet.type == PacketType::agent_dispatch) {
    launch_agent(slot);
  } else if (packet.type == PacketType::vendor) {
    launch_vendor(slot);
  } else {
    other_ended(slot);
  }
  if (!is_barrier_packet(packet)) end_turn(packet);  // nothing behind those begins before they are complete
}

void PacketProcessor::Engine::launch_agent(std::uint32_t slot) {
  const Packet& packet = packets_[slot];
  Queue& queue = queues_[packet.queue];
  queue.agent = slot;
  protocol::QueueEventPacket event;
  event.event = protocol::QueueEvent::agent;
  event.queue = packet.queue;
  event.state = queue.state;
  event.index = packet.index;
  event.packet = packet.bytes;
  block_.event_out.send(event);
}

void PacketProcessor::Engine::agent_done(std::uint32_t number, std::uint32_t status) {
  Queue& queue = queues_[number];
  if (queue.agent == kNone) return;  // the host holds none
  const std::uint32_t slot = queue.agent;
  Packet& packet = packets_[slot];
  queue.agent = kNone;
  if (status != 0) {
    packet.status = static_cast<HsaStatus>(status);
    packet.value = -static_cast<std::int64_t>(status);
  }
  block_.progress();
  other_ended(slot);
  if (queue.turn != kNone && packets_[queue.turn].stage == Stage::agent) acquire(queue.turn);
}

void PacketProcessor::Engine::launch_vendor(std::uint32_t slot) {
  const Packet& packet = packets_[slot];
  const arch::VendorPacket& vendor = packet.vendor;
  if (vendor.format == arch::VendorFormat::hold) {
    schedule(domain_.clock().cycles_for_ns(static_cast<double>(vendor.bytes)), kHoldEnds, slot);
    return;
  }
  if (vendor.bytes == 0) {
    schedule(0, kHoldEnds, slot);
    return;
  }
  while (copying_.count(copies_) > 0) ++copies_;  // the number comes round
  protocol::CopyRequestPacket request;
  request.tag = copies_++;
  request.kind = vendor.format == arch::VendorFormat::copy ? protocol::CopyKind::copy : protocol::CopyKind::fill;
  request.from = vendor.from;
  request.to = vendor.to;
  request.bytes = vendor.bytes;
  request.value = vendor.value;
  request.subcontext = queues_[packet.queue].setup.subcontext;
  copying_[request.tag] = slot;
  block_.copy_out.send(request);
}

void PacketProcessor::Engine::on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t) {
  const auto found = copying_.find(done.tag);
  if (found == copying_.end()) return;  // not of this processor
  const std::uint32_t slot = found->second;
  copying_.erase(found);
  Packet& packet = packets_[slot];
  packet.times.started = std::max<Cycle>(done.start, packet.times.dispatched);
  block_.progress();
  if (done.status != HsaStatus::success) {
    packet.status = done.status;
    packet.value = -static_cast<std::int64_t>(done.status);
    fail(packet.queue, packet.index, 0, {done.status, "memory refused a copy"});
  }
  other_ended(slot);
}

void PacketProcessor::Engine::other_ended(std::uint32_t slot) {
  packets_[slot].times.ended = now();
  clean_up(slot, kWhole);
}

}  // namespace heddle::packet

// Who waits for whom: what a run without progress ends with.
#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "packet/engine.h"

namespace heddle::packet {

using arch::PacketType;
using protocol::QueueState;

namespace {

const std::string kHost = "the host";

std::string signal_text(std::uint64_t handle, std::int64_t value) {
  return fmt::format("signal {:#x} (value {})", arch::signal_address(handle), value);
}

}  // namespace

std::string PacketProcessor::Engine::who(std::uint32_t queue, std::uint64_t index) const {
  for (const Packet& packet : packets_) {
    if (packet.live && packet.queue == queue && packet.index == index) return who(packet);
  }
  return fmt::format("packet {} of queue {}", index, queue);
}

std::string PacketProcessor::Engine::who(const Packet& packet) const {
  std::string name = packet_text(packet.type);
  if (!packet.kernels.empty() && !packet.kernels.front().object.name.empty()) {
    name = packet.kernels.front().object.name;
    if (packet.kernels.size() > 1) name += fmt::format(" and {} more", packet.kernels.size() - 1);
  }
  return fmt::format("packet {} of queue {} ({})", packet.index, packet.queue, name);
}

void PacketProcessor::Engine::collect_waits(WaitGraph& graph) const {
  for (const Packet& packet : packets_) {
    if (packet.live) collect_packet(graph, packet);
  }
  for (std::uint32_t number = 0; number < queues_.size(); ++number) collect_queue(graph, number);
}

void PacketProcessor::Engine::collect_packet(WaitGraph& graph, const Packet& packet) const {
  const Queue& queue = queues_[packet.queue];
  const std::string name = who(packet);
  if (packet.reads > 0 && packet.stage != Stage::signals) graph.add(name, "for an answer from", "memory");
  switch (packet.stage) {
    case Stage::decoder:
      graph.add(name, "for its turn at", "the decoder");
      break;
    case Stage::barrier:
      graph.add(name, "its barrier bit is set, so for", who(packet.queue, queue.core.oldest()));
      break;
    case Stage::agent:
      graph.add(name, "the host holds another agent packet:", who(packets_[queue.agent]));
      break;
    case Stage::limit:
      for (const Packet& other : packets_) {
        if (other.live && other.launched) graph.add(name, "as many kernels are in flight as can be:", who(other));
      }
      break;
    case Stage::signals:
      collect_signals(graph, packet);
      break;
    default:
      break;
  }
  if (queue.agent != kNone && &packets_[queue.agent] == &packet) graph.add(name, "for", kHost);
  for (std::uint32_t i = 0; i < packet.dispatched; ++i) {
    const std::uint32_t operation = packet.kernels[i].operation;
    if (running_.count(operation) > 0) graph.add(name, "for the end of", gpu_observation(domain_).labels.of(operation));
  }
  if (packet.launched && packet.type == PacketType::vendor && packet.times.ended == 0) {
    graph.add(name, "for the end of", packet.vendor.format == arch::VendorFormat::hold ? "its time" : "its copy");
  }
}

void PacketProcessor::Engine::collect_signals(WaitGraph& graph, const Packet& packet) const {
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    const std::uint64_t handle = packet.barrier.signals[i];
    if (handle == 0 || packet.zero[i]) continue;
    const std::string text = signal_text(handle, packet.values[i]);
    graph.add(who(packet), "for", text);
    collect_signal(graph, text, arch::signal_address(handle));
  }
}

// Who will change a signal is known as far as it is the completion signal of a packet that has been read.
void PacketProcessor::Engine::collect_signal(WaitGraph& graph, const std::string& text, std::uint64_t address) const {
  constexpr const char* kReason = "it is the completion signal of";
  for (const Packet& other : packets_) {
    if (other.live && arch::signal_address(signal_of(other)) == address) graph.add(text, kReason, who(other));
  }
  for (std::uint32_t number = 0; number < queues_.size(); ++number) {
    const QueueCore& core = queues_[number].core;
    for (std::uint64_t index = core.front_index(); core.waiting_at(index) != nullptr; ++index) {
      const QueueCore::Fetched& fetched = *core.waiting_at(index);
      const bool there = fetched.slot == QueueCore::Slot::published;
      if (there && arch::signal_address(signal_in(fetched.bytes)) == address) {
        graph.add(text, kReason, who(number, index));
      }
    }
  }
}

void PacketProcessor::Engine::collect_queue(WaitGraph& graph, std::uint32_t number) const {
  const Queue& queue = queues_[number];
  if (queue.state == QueueState::error) {
    graph.add(fmt::format("queue {}", number),
              fmt::format("stopped by its packet {} ({}), to be closed by", queue.error_index, queue.error), kHost);
  }
  if (queue.state == QueueState::draining) {
    graph.add(fmt::format("queue {}", number), "to be closed, for", who(number, queue.core.oldest()));
  }
  const std::string next = who(number, queue.core.front_index());
  const std::string turn = queue.turn != kNone ? who(packets_[queue.turn]) : next;
  for (std::uint64_t index = queue.core.front_index(); queue.core.waiting_at(index) != nullptr; ++index) {
    const bool there = queue.core.waiting_at(index)->slot == QueueCore::Slot::published;
    if (there && who(number, index) != turn) graph.add(who(number, index), "for its turn behind", turn);
  }
  if (queue.turn != kNone) return;
  const QueueCore::Fetched* front = queue.core.front();
  if (front == nullptr) return;
  if (front->slot == QueueCore::Slot::published) {
    graph.add(next, "its barrier bit is set, so for", who(number, queue.core.oldest()));
  } else if (front->slot == QueueCore::Slot::unpublished || queue.retries > 0) {
    graph.add(next, "the doorbell has told of it, but its header is invalid, for", kHost);
  } else {
    graph.add(next, "it is being read from", "memory");
  }
}

}  // namespace heddle::packet

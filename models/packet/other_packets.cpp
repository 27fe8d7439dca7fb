#include "packet/other_packets.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "packet/completion.h"
#include "packet/decoder.h"
#include "packet/dispatcher.h"
#include "packet/head_of_queue.h"
#include "packet/ring_reader.h"

namespace heddle::packet {

using arch::HsaStatus;
using arch::PacketType;
using protocol::QueueCommand;
using protocol::QueueState;

namespace {

constexpr std::uint32_t kLeastPackets = 2;
constexpr std::uint32_t kMostPackets = 1U << 20;
constexpr std::uint64_t kLastFirst = std::uint64_t{1} << 63;  // indices never come round
constexpr std::uint32_t kIndexAlignment = 8;

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
  if (setup.read_index % kIndexAlignment != 0) return "the read index is not at a multiple of 8";
  if (setup.first > kLastFirst) return "the index of the first packet is above 2^63";
  if (setup.subcontext >= arch::kSubcontexts) return "there is no such subcontext";
  return nullptr;
}

}  // namespace

void QueueControl::on_command(const protocol::QueueCommandPacket& command, std::uint32_t) {
  if (command.queue >= context_.queues.count()) {
    protocol::QueueEventPacket event;
    event.queue = command.queue;
    event.status = HsaStatus::invalid_queue;
    context_.queues.tell_host(event);
    return;
  }
  switch (command.command) {
    case QueueCommand::open:
      open(command.queue, command.setup);
      break;
    case QueueCommand::close:
      close(command.queue);
      break;
    case QueueCommand::doorbell:
      to_.reader.doorbell(command.queue, command.index);
      break;
    case QueueCommand::agent_done:
      to_.others.agent_done(command.queue, command.status);
      break;
  }
  context_.reporter.note_wait(command.queue);
}

void QueueControl::open(std::uint32_t queue, const protocol::QueueSetup& setup) {
  if (context_.queues.state(queue) != QueueState::closed) {
    tell_state(queue, HsaStatus::invalid_queue, 0);  // nothing changes
    return;
  }
  context_.queues.open(queue, setup);
  to_.reader.open(queue);
  to_.heads.open(queue);
  context_.reporter.open_queue(queue);
  to_.decoder.set_priority(queue, setup.priority);
  to_.tables.open(queue);
  context_.reporter.progress();
  if (const char* wrong = what_is_wrong(setup); wrong != nullptr) {
    fail(queue, setup.first, 0, {HsaStatus::invalid_queue, wrong});
    return;
  }
  tell_state(queue, HsaStatus::success, setup.first);
}

// What has been launched ends as usual; the rest is dropped.
void QueueControl::close(std::uint32_t queue) {
  const QueueState state = context_.queues.state(queue);
  if (state != QueueState::active && state != QueueState::error) return;
  context_.queues.set_state(queue, QueueState::draining);
  to_.reader.stop(queue);
  tell_state(queue, HsaStatus::success, to_.reader.ring(queue).read_index());
  context_.reporter.progress();
  to_.heads.cut(queue, false);
  try_close(queue);
}

void QueueControl::try_close(std::uint32_t queue) {
  if (context_.queues.state(queue) != QueueState::draining) return;
  const QueueCore& ring = to_.reader.ring(queue);
  if (ring.open_packets() > 0 || context_.memory.outstanding(queue) > 0) return;
  context_.queues.set_state(queue, QueueState::closed);
  tell_state(queue, HsaStatus::success, ring.read_index());
}

void QueueControl::fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const arch::HsaResult& result) {
  context_.reporter.stats().count_error(result.status);
  if (!context_.queues.active(queue)) return;  // it has stopped already
  context_.queues.stop(queue, {result.why, result.status, index});
  to_.reader.stop(queue);
  to_.heads.cut(queue, true);  // not at once: the head may be in a step
  tell_state(queue, result.status, index, kernel);
  context_.reporter.progress();
  context_.reporter.note_wait(queue);
}

void QueueControl::tell_state(std::uint32_t queue, HsaStatus status, std::uint64_t index, std::uint32_t kernel) {
  auto event = context_.queues.event(protocol::QueueEvent::state, queue, index);
  event.status = status;
  event.kernel = kernel;
  context_.queues.tell_host(event);
}

void QueueControl::collect_waits(WaitGraph& graph, std::uint32_t queue) const {
  const std::string name = fmt::format("queue {}", queue);
  if (context_.queues.state(queue) == QueueState::error) {
    const QueueTable::Error& error = context_.queues.error(queue);
    graph.add(name, fmt::format("stopped by its packet {} ({}), to be closed by", error.index, error.why), "the host");
  }
  if (context_.queues.state(queue) == QueueState::draining) {
    graph.add(name, "to be closed, for", context_.packets.name_of(queue, to_.reader.ring(queue).oldest()));
  }
}

using Use = MemoryTag::Use;

OtherPackets::OtherPackets(const StageContext& context, const Neighbours& to,
                           PacketSender<protocol::CopyRequestPacket>& copies)
    : PipelineStage(context), to_(to), copies_(copies), held_(queues().count(), nullptr) {}

void OtherPackets::await_signals(Packet& packet) {
  packet.phase = Phase::signals;
  poll_signals(packet);
}

// A signal that has been seen at 0 need not be looked at again.
void OtherPackets::poll_signals(Packet& packet) {
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    const std::uint64_t handle = packet.other.barrier.signals[i];
    if (handle == 0 || packet.other.seen_zero[i]) continue;
    ++packet.reads;
    stats().signal_polls.add();
    memory().read(arch::signal_address(handle), 8, tag(Use::dependency, packet, i));
  }
  if (packet.reads == 0) satisfied(packet);  // there are none
}

void OtherPackets::on_answer(Packet& packet, const MemoryAnswer& answer) {
  const std::uint32_t signal = answer.tag.part;
  const std::uint64_t value = arch::get_64(answer.data, 0);
  packet.other.values[signal] = static_cast<std::int64_t>(value);
  packet.other.seen_zero[signal] = answer.ok && value == 0;
  if (!answer.ok) packet.result = {HsaStatus::invalid_signal, "a signal that it waits for cannot be read"};
  if (packet.reads == 0) evaluate_signals(packet);
}

void OtherPackets::evaluate_signals(Packet& packet) {
  if (!packet.result.ok()) return to_.completion.reject(packet);
  const Packet::Other& other = packet.other;
  std::uint32_t open = 0;
  std::uint32_t zero = 0;
  std::int64_t negative = 0;
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    if (other.barrier.signals[i] == 0) continue;
    if (other.seen_zero[i]) ++zero;
    if (!other.seen_zero[i]) ++open;
    if (!other.seen_zero[i] && other.values[i] < 0 && negative == 0) negative = other.values[i];
  }
  const bool enough = packet.type == PacketType::barrier_and ? open == 0 : zero > 0;
  if (!enough && negative == 0) return schedule(poll_cycles(), kPollSignals, packet);
  if (!enough) {
    // The packet fails, and hands the error on; its queue does not.
    packet.status = HsaStatus::error;
    packet.signal_value = negative;
  }
  satisfied(packet);
}

void OtherPackets::satisfied(Packet& packet) {
  packet.times.ready = now();
  to_.dispatcher.acquire(packet);
  reporter().note_wait(packet.queue);
}

void OtherPackets::launch(Packet& packet) {
  packet.times.dispatched = packet.times.started = now();
  packet.phase = Phase::running;
  reporter().launched(packet);
  to_.reader.clear_slot(packet.queue, packet.index);
  if (packet.type == PacketType::agent_dispatch) {
    launch_agent(packet);
  } else if (packet.type == PacketType::vendor) {
    launch_vendor(packet);
  } else {
    end(packet);
  }
  if (!packet.is_barrier())
    to_.heads.release(packet);  // nothing behind barrier packets begins before they are complete
}

void OtherPackets::launch_agent(Packet& packet) {
  held_[packet.queue] = &packet;
  auto event = queues().event(protocol::QueueEvent::agent, packet.queue, packet.index);
  event.packet = packet.bytes;
  queues().tell_host(event);
}

void OtherPackets::agent_done(std::uint32_t queue, std::uint32_t status) {
  if (!host_is_busy(queue)) return;
  Packet& packet = *held_[queue];
  held_[queue] = nullptr;
  if (status != 0) {
    packet.status = static_cast<HsaStatus>(status);
    packet.signal_value = -static_cast<std::int64_t>(status);
  }
  reporter().progress();
  end(packet);
  Packet* head = to_.heads.head(queue);
  if (head != nullptr && head->phase == Phase::agent) to_.dispatcher.acquire(*head);
}

void OtherPackets::launch_vendor(Packet& packet) {
  const arch::VendorPacket& vendor = packet.other.vendor;
  if (vendor.format == arch::VendorFormat::hold) {
    return schedule(clock().to_cycles(static_cast<double>(vendor.bytes)), kHoldEnds, packet);
  }
  if (vendor.bytes == 0) return schedule(0, kHoldEnds, packet);
  while (copying_.count(next_tag_) > 0) ++next_tag_;  // the number comes round
  protocol::CopyRequestPacket request;
  request.tag = next_tag_++;
  request.kind = vendor.format == arch::VendorFormat::copy ? protocol::CopyKind::copy : protocol::CopyKind::fill;
  request.from = vendor.from;
  request.to = vendor.to;
  request.bytes = vendor.bytes;
  request.value = vendor.value;
  request.subcontext = queues().setup(packet.queue).subcontext;
  copying_[request.tag] = &packet;
  copies_.send(request);
}

void OtherPackets::on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t) {
  const auto found = copying_.find(done.tag);
  if (found == copying_.end()) return;  // a copy of somebody else
  Packet& packet = *found->second;
  copying_.erase(found);
  packet.times.started = std::max<Cycle>(done.start, packet.times.dispatched);
  reporter().progress();
  if (done.status != HsaStatus::success) {
    packet.status = done.status;
    packet.signal_value = -static_cast<std::int64_t>(done.status);
    to_.supervisor.fail(packet.queue, packet.index, 0, {done.status, "memory refused a copy"});
  }
  end(packet);
}

void OtherPackets::end(Packet& packet) {
  packet.times.ended = now();
  packet.phase = Phase::finishing;
  to_.completion.finish(packet);
}

void OtherPackets::on_event(std::uint32_t kind, std::uint64_t argument) {
  Packet* packet = packets().find(argument);
  if (packet == nullptr) return;
  if (kind == kPollSignals) return poll_signals(*packet);
  end(*packet);
}

void OtherPackets::reset() {
  held_.assign(held_.size(), nullptr);
  next_tag_ = 0;
  copying_.clear();
}

void OtherPackets::collect_waits(WaitGraph& graph, const Packet& packet) const {
  const std::string name = name_of(packet);
  const Packet* held = held_[packet.queue];
  if (packet.phase == Phase::agent) graph.add(name, "the host holds another agent packet:", name_of(*held));
  if (packet.phase == Phase::signals) collect_signals(graph, packet);
  if (held == &packet) graph.add(name, "for", "the host");
  if (packet.type == PacketType::vendor && packet.phase == Phase::running) {
    const bool holds = packet.other.vendor.format == arch::VendorFormat::hold;
    graph.add(name, "for the end of", holds ? "its time" : "its copy");
  }
}

void OtherPackets::collect_signals(WaitGraph& graph, const Packet& packet) const {
  for (std::uint32_t i = 0; i < arch::kBarrierSignals; ++i) {
    const std::uint64_t handle = packet.other.barrier.signals[i];
    if (handle == 0 || packet.other.seen_zero[i]) continue;
    const std::uint64_t address = arch::signal_address(handle);
    const std::string text = fmt::format("signal {:#x} (value {})", address, packet.other.values[i]);
    graph.add(name_of(packet), "for", text);
    collect_owners(graph, text, address);
  }
}

// Who will change a signal is known as far as it is the completion signal of a packet that has been read.
void OtherPackets::collect_owners(WaitGraph& graph, const std::string& text, std::uint64_t address) const {
  constexpr const char* kReason = "it is the completion signal of";
  packets().for_each([&](const Packet& other) {
    if (arch::signal_address(signal_of(other)) == address) graph.add(text, kReason, name_of(other));
  });
  for (std::uint32_t queue = 0; queue < queues().count(); ++queue) {
    const QueueCore& ring = to_.reader.ring(queue);
    for (std::uint64_t index = ring.front_index(); ring.waiting_at(index) != nullptr; ++index) {
      const QueueCore::Fetched& fetched = *ring.waiting_at(index);
      const bool there = fetched.slot == QueueCore::Slot::published;
      if (there && arch::signal_address(signal_in(fetched.bytes)) == address) {
        graph.add(text, kReason, packets().name_of(queue, index));
      }
    }
  }
}

}  // namespace heddle::packet

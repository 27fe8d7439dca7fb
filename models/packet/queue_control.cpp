#include "packet/queue_control.h"

#include <fmt/format.h>

#include "packet/decoder.h"
#include "packet/head_of_queue.h"
#include "packet/other_packets.h"
#include "packet/ring_reader.h"

namespace heddle::packet {

using arch::HsaStatus;
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

void QueueControl::fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const arch::Verdict& result) {
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

}  // namespace heddle::packet

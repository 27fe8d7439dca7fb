#include "packet/queue_control.h"

#include <vector>

#include <fmt/format.h>

#include "packet/decoder.h"
#include "packet/dispatcher.h"
#include "packet/head_of_queue.h"
#include "packet/other_packets.h"
#include "packet/ring_reader.h"

namespace heddle::packet {

using arch::HsaResult;
using arch::HsaStatus;
using arch::Reason;
using protocol::QueueCommand;
using protocol::QueueState;

namespace {

constexpr std::uint32_t kMostPackets = 1U << 20;
constexpr std::uint64_t kLastFirst = std::uint64_t{1} << 63;  // indices never come round
constexpr std::uint32_t kIndexAlignment = 8;

Reason what_is_wrong(const protocol::QueueSetup& setup) {
  const std::uint64_t bytes = std::uint64_t{setup.size} * arch::kPacketBytes;
  if (setup.size == 0 || setup.size > kMostPackets || (setup.size & (setup.size - 1)) != 0) return Reason::queue_size;
  if (setup.base % arch::kPacketBytes != 0) return Reason::ring_alignment;
  if (setup.base + bytes < setup.base ||
      arch::in_host_window(setup.base) != arch::in_host_window(setup.base + bytes - 1)) {
    return Reason::ring_range;
  }
  if (setup.read_index % kIndexAlignment != 0) return Reason::read_index_alignment;
  if (setup.first > kLastFirst) return Reason::first_index;
  if (setup.subcontext >= arch::kSubcontexts) return Reason::queue_subcontext;
  return Reason::none;
}

}  // namespace

void QueueControl::on_command(const protocol::QueueCommandPacket& command, std::uint32_t) {
  if (command.queue >= context_.queues.count()) {
    protocol::QueueEventPacket event;
    event.queue = command.queue;
    event.status = HsaStatus::invalid_queue;
    event.reason = Reason::queue_number;
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
    case QueueCommand::inactivate:
      inactivate(command.queue);
      break;
    case QueueCommand::doorbell:
      to_.reader.doorbell(command.queue, command.index);
      break;
    case QueueCommand::agent_done:
      to_.others.agent_done(command.queue, command.index, command.status);
      break;
  }
  context_.reporter.note_wait(command.queue);
}

void QueueControl::open(std::uint32_t queue, const protocol::QueueSetup& setup) {
  if (context_.queues.state(queue) != QueueState::closed) {
    tell_state(queue, {HsaStatus::invalid_queue, Reason::queue_open}, 0);  // nothing changes
    return;
  }
  enter(queue, setup, setup.first);
  to_.tables.open(queue);
  context_.reporter.progress();
  if (const Reason wrong = what_is_wrong(setup); wrong != Reason::none) {
    fail(queue, setup.first, 0, {HsaStatus::invalid_queue, wrong});
    return;
  }
  tell_state(queue, {}, setup.first);
}

void QueueControl::enter(std::uint32_t queue, const protocol::QueueSetup& setup, std::uint64_t first) {
  context_.queues.open(queue, setup);
  to_.reader.open(queue, first);
  to_.heads.open(queue);
  context_.reporter.open_queue(queue);
  to_.decoder.set_priority(queue, setup.priority);
}

// What has been launched ends as usual; the rest is dropped.
void QueueControl::close(std::uint32_t queue) {
  const QueueState state = context_.queues.state(queue);
  if (state == QueueState::inactive) {
    context_.queues.set_state(queue, QueueState::closed);
    tell_state(queue, {}, to_.reader.ring(queue).read_index());
  }
  if (state != QueueState::active && state != QueueState::error) return;
  stop(queue, QueueState::draining);
  try_close(queue);
}

// What has begun and not been launched is dropped, as by a close; what runs is killed, also if the queue is already
// being closed.
void QueueControl::inactivate(std::uint32_t queue) {
  const QueueState state = context_.queues.state(queue);
  if (state != QueueState::active && state != QueueState::error && state != QueueState::draining) return;
  std::vector<std::uint64_t> launched;
  context_.packets.for_each([&](Packet& packet) {
    if (packet.queue != queue || !packet.launched()) return;
    packet.aborted = true;
    launched.push_back(packet.reference());
  });
  stop(queue, QueueState::aborting);
  for (const std::uint64_t reference : launched) {
    Packet* packet = context_.packets.find(reference);
    if (packet == nullptr) continue;  // nothing of it was left to run
    if (packet->kernels.empty()) {
      to_.others.abort(*packet);
    } else {
      to_.dispatcher.abort(*packet);
    }
  }
  try_close(queue);
}

void QueueControl::stop(std::uint32_t queue, QueueState state) {
  context_.queues.set_state(queue, state);
  to_.reader.stop(queue);
  tell_state(queue, {}, to_.reader.ring(queue).read_index());
  context_.reporter.progress();
  to_.heads.cut(queue, false);
}

void QueueControl::try_close(std::uint32_t queue) {
  const QueueState state = context_.queues.state(queue);
  if (state != QueueState::draining && state != QueueState::aborting) return;
  const QueueCore& ring = to_.reader.ring(queue);
  if (ring.open_packets() > 0 || context_.memory.outstanding(queue) > 0) return;
  context_.queues.set_state(queue, state == QueueState::draining ? QueueState::closed : QueueState::inactive);
  tell_state(queue, {}, ring.read_index());
  context_.reporter.note_wait(queue);
}

void QueueControl::fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const HsaResult& result) {
  context_.reporter.stats().count_error(result.status);
  if (!context_.queues.active(queue)) return;  // it has stopped already
  context_.queues.stop(queue, {result, index});
  to_.reader.stop(queue);
  to_.heads.cut(queue, true);  // not at once: the head may be in a step
  tell_state(queue, result, index, kernel);
  context_.reporter.progress();
  context_.reporter.note_wait(queue);
}

void QueueControl::tell_state(std::uint32_t queue, const HsaResult& result, std::uint64_t index, std::uint32_t kernel) {
  auto event = context_.queues.event(protocol::QueueEvent::state, queue, index);
  event.status = result.status;
  event.reason = result.reason;
  event.kernel = kernel;
  context_.queues.tell_host(event);
}

void QueueControl::collect_waits(WaitGraph& graph, std::uint32_t queue) const {
  const std::string name = fmt::format("queue {}", queue);
  const QueueState state = context_.queues.state(queue);
  if (state == QueueState::error) {
    const QueueTable::Error& error = context_.queues.error(queue);
    graph.add(name,
              fmt::format("stopped by its packet {} ({}), to be closed by", error.index,
                          arch::reason_text(error.result.reason)),
              "the host");
  }
  if (state == QueueState::inactive) graph.add(name, "inactive, to be closed by", "the host");
  if (state == QueueState::draining || state == QueueState::aborting) {
    graph.add(name, state == QueueState::draining ? "to be closed, for" : "to be inactive, for",
              context_.packets.name_of(queue, to_.reader.ring(queue).oldest()));
  }
}

// All packets before the read index are complete, and what a doorbell has told of beyond it is not there: another
// doorbell will.
void QueueControl::save(std::uint32_t queue, StateWriter& to) const {
  const protocol::QueueSetup& setup = context_.queues.setup(queue);
  const QueueTable::Error& error = context_.queues.error(queue);
  to.number(static_cast<std::uint64_t>(context_.queues.state(queue)));
  to.number(to_.reader.ring(queue).read_index());
  to.number(setup.base);
  to.number(setup.size);
  to.number(setup.read_index);
  to.number(setup.first);
  to.number(static_cast<std::uint32_t>(setup.priority));
  to.number(setup.subcontext);
  to.number(static_cast<std::uint64_t>(error.result.status));
  to.number(static_cast<std::uint64_t>(error.result.reason));
  to.number(error.index);
}

void QueueControl::restore(std::uint32_t queue, StateReader& from) {
  constexpr std::uint64_t kWord = std::uint64_t{1} << 32;
  const auto state = from.one_of<QueueState>(static_cast<std::uint64_t>(QueueState::inactive) + 1, "a queue's state");
  const std::uint64_t next = from.number();
  protocol::QueueSetup setup;
  setup.base = from.number();
  setup.size = static_cast<std::uint32_t>(from.below(kWord, "a queue's size"));
  setup.read_index = from.number();
  setup.first = from.number();
  setup.priority = static_cast<std::int32_t>(from.below(kWord, "a queue's priority"));
  setup.subcontext = static_cast<std::uint8_t>(from.below(256, "a queue's subcontext"));  // as refused ones may have it
  QueueTable::Error error;
  error.result.status = from.one_of<HsaStatus>(kWord, "a queue's status");
  error.result.reason = from.one_of<Reason>(std::uint64_t{1} << 16, "a queue's reason");
  error.index = from.number();
  if (state == QueueState::closed) return;
  if (state == QueueState::draining || state == QueueState::aborting) from.bad("a queue that is being closed");
  // One that was refused when it was opened has read nothing.
  const bool opened = what_is_wrong(setup) == Reason::none;
  if ((state == QueueState::active && !opened) || next < setup.first || (!opened && next != setup.first)) {
    from.bad("a queue that cannot have been opened");
  }
  if (opened && next - setup.first > kLastFirst) from.bad("a queue that has read more packets than there can be");
  enter(queue, setup, next);
  if (state == QueueState::active) return;
  if (state == QueueState::error) context_.queues.stop(queue, error);
  if (state == QueueState::inactive) context_.queues.set_state(queue, state);
  to_.reader.stop(queue);
}

}  // namespace heddle::packet

// What follows the work of a packet: release fence, completion signal, mailbox and interrupt (PKT-04); and errors
// (PKT-09).
#include "packet/engine.h"

namespace heddle::packet {

using arch::FenceScope;
using arch::HsaStatus;
using arch::PacketType;
using protocol::QueueState;
using Use = MemoryTag::Use;

namespace {

constexpr std::size_t kSignalOffset = 56;  // of all types but condensed packets
constexpr std::uint32_t kMailboxOffset = 8;
constexpr std::uint32_t kMailboxBytes = 12;  // address and event id
constexpr std::uint32_t kEventBytes = 4;

std::uint64_t number_at(const std::uint8_t* bytes, std::uint32_t count) {
  std::uint64_t value = 0;
  for (std::uint32_t i = count; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

}  // namespace

std::uint32_t PacketProcessor::Engine::new_clean_up(std::uint32_t queue, std::uint64_t index) {
  std::uint32_t number = static_cast<std::uint32_t>(clean_ups_.size());
  if (free_clean_ups_.empty()) {
    clean_ups_.emplace_back();
  } else {
    number = free_clean_ups_.back();
    free_clean_ups_.pop_back();
  }
  clean_ups_[number] = CleanUp();
  clean_ups_[number].queue = queue;
  clean_ups_[number].index = index;
  return number;
}

// Of the whole packet, or of a kernel that is not its last (PKT-07).
void PacketProcessor::Engine::clean_up(std::uint32_t slot, std::uint32_t kernel) {
  const Packet& packet = packets_[slot];
  const bool whole = kernel == kWhole;
  const bool all_ran = packet.dispatched == packet.kernels.size();
  CleanUp work;
  work.queue = packet.queue;
  work.index = packet.index;
  work.packet = slot;
  work.kernel = kernel;
  if (!whole) {
    const Kernel& part = packet.kernels[kernel];
    work.scope = part.release;
    work.signal = part.signal;
    if (part.status != HsaStatus::success) work.value = -static_cast<std::int64_t>(part.status);
  } else {
    work.value = packet.value;
    work.signal = packet.kernels.empty() ? packet.signal : packet.kernels.back().signal;
    if (packet.kernels.empty()) work.scope = packet.scopes.release;
    if (!packet.kernels.empty() && all_ran) work.scope = packet.kernels.back().release;
  }
  const std::uint32_t number = new_clean_up(packet.queue, packet.index);
  clean_ups_[number] = work;
  if (!whole && work.scope == FenceScope::none && work.signal == 0) {
    clean_up_done(number);  // it has not asked for any
    return;
  }
  double ns = 0;
  if (work.scope == FenceScope::agent) ns = params_.release_agent;
  if (work.scope == FenceScope::system) ns = params_.release_system;
  domain_.schedule_in(cost(ns), block_, kFenced, number);
}

void PacketProcessor::Engine::fenced(std::uint32_t number) {
  const CleanUp& work = clean_ups_[number];
  if (work.scope != FenceScope::system) {
    domain_.schedule_in(cost(params_.clean_up), block_, kCleaned, number);
    return;
  }
  MemoryTag fence;
  fence.use = Use::fence;
  fence.queue = work.queue;
  fence.slot = number;
  ++queues_[work.queue].requests;
  stats_.fences.add();
  memory_.write_back(fence);
}

void PacketProcessor::Engine::signal(std::uint32_t number) {
  const CleanUp& work = clean_ups_[number];
  if (work.signal == 0) {
    clean_up_done(number);
    return;
  }
  Queue& queue = queues_[work.queue];
  MemoryTag tag;
  tag.use = Use::signal;
  tag.queue = work.queue;
  tag.slot = number;
  ++queue.requests;
  const std::uint64_t address = arch::signal_address(work.signal);
  if (work.value == 0) {
    memory_.decrement(address, queue.setup.subcontext, tag);
  } else {
    memory_.write_value(address, static_cast<std::uint64_t>(work.value), 8, queue.setup.subcontext, tag);
  }
}

void PacketProcessor::Engine::clean_up_answer(const MemoryAnswer& answer) {
  const std::uint32_t number = answer.tag.slot;
  CleanUp& work = clean_ups_[number];
  switch (answer.tag.use) {
    case Use::fence:
      if (!answer.ok) {
        fail(work.queue, work.index, 0, {HsaStatus::error, "what the caches hold cannot be written back"});
        if (work.value == 0) work.value = -static_cast<std::int64_t>(HsaStatus::error);
      }
      domain_.schedule_in(cost(params_.clean_up), block_, kCleaned, number);
      return;
    case Use::signal:
      signalled(number, answer.ok);
      return;
    case Use::mailbox_read:
      mailbox_known(number, answer);
      return;
    default:
      if (!answer.ok) fail(work.queue, work.index, 0, {HsaStatus::invalid_signal, "a mailbox cannot be written"});
      if (answer.ok) raise(work);
      clean_up_done(number);
  }
}

void PacketProcessor::Engine::signalled(std::uint32_t number, bool ok) {
  const CleanUp& work = clean_ups_[number];
  if (ok) stats_.signals.add();
  if (!ok) fail(work.queue, work.index, 0, {HsaStatus::invalid_signal, "a completion signal cannot be written"});
  if (!ok || (work.signal & arch::kSignalInterrupt) == 0) {
    clean_up_done(number);
    return;
  }
  Queue& queue = queues_[work.queue];
  MemoryTag tag;
  tag.use = Use::mailbox_read;
  tag.queue = work.queue;
  tag.slot = number;
  ++queue.requests;
  memory_.read(arch::signal_address(work.signal) + kMailboxOffset, kMailboxBytes, queue.setup.subcontext, tag);
}

void PacketProcessor::Engine::mailbox_known(std::uint32_t number, const MemoryAnswer& answer) {
  CleanUp& work = clean_ups_[number];
  const std::uint64_t mailbox = number_at(answer.data.data(), 8);
  work.event_id = static_cast<std::uint32_t>(number_at(answer.data.data() + 8, kEventBytes));
  if (!answer.ok || mailbox % kEventBytes != 0) {
    fail(work.queue, work.index, 0, {HsaStatus::invalid_signal, "a signal names no mailbox that can be written"});
    clean_up_done(number);
    return;
  }
  if (mailbox == 0) {
    raise(work);
    clean_up_done(number);
    return;
  }
  Queue& queue = queues_[work.queue];
  MemoryTag tag;
  tag.use = Use::mailbox_write;
  tag.queue = work.queue;
  tag.slot = number;
  ++queue.requests;
  memory_.write_value(mailbox, work.event_id, kEventBytes, queue.setup.subcontext, tag);
}

void PacketProcessor::Engine::raise(const CleanUp& work) {
  protocol::QueueEventPacket event;
  event.event = protocol::QueueEvent::signal;
  event.queue = work.queue;
  event.state = queues_[work.queue].state;
  event.index = work.index;
  event.event_id = work.event_id;
  block_.event_out.send(event);
}

void PacketProcessor::Engine::clean_up_done(std::uint32_t number) {
  const CleanUp work = clean_ups_[number];
  free_clean_ups_.push_back(number);
  if (work.packet == kNone) return;
  Packet& packet = packets_[work.packet];
  const bool fence_failed = work.value == -static_cast<std::int64_t>(HsaStatus::error);
  if (fence_failed && packet.status == HsaStatus::success) packet.status = HsaStatus::error;
  if (work.kernel == kWhole) {
    complete(work.packet);
    return;
  }
  Kernel& kernel = packet.kernels[work.kernel];
  const bool asked = work.scope != FenceScope::none || work.signal != 0;
  kernel.times.cleaned = asked ? now() : kernel.times.ended;
  --packet.cleaning;
  report(packet, work.kernel);
  leave_flight();
  if (asked) step(work.packet);
}

void PacketProcessor::Engine::complete(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  const std::uint32_t number = packet.queue;
  Queue& queue = queues_[number];
  const auto count = static_cast<std::uint32_t>(packet.kernels.size());
  packet.times.cleaned = now();
  if (count == 0) {
    report(packet, 0);
  } else if (packet.dispatched == count) {
    packet.kernels.back().times.cleaned = now();
    report(packet, count - 1);
    leave_flight();
  }
  stats_.count_packet(packet.type);
  queue.core.complete(packet.index);
  end_turn(packet);  // of a barrier packet
  free_packet(slot);
  block_.progress();
  note_open();
  if (queue.turn != kNone && packets_[queue.turn].stage == Stage::barrier &&
      queue.core.is_oldest(packets_[queue.turn].index)) {
    acquire(queue.turn);
  }
  advance(number);
  try_close(number);
}

// The queue stops: nothing more of it is fetched or launched, and kernels that have been launched end as usual.
void PacketProcessor::Engine::fail(std::uint32_t number, std::uint64_t index, std::uint32_t kernel,
                                   const arch::Verdict& verdict) {
  Queue& queue = queues_[number];
  stats_.count_error(verdict.status);
  if (queue.state != QueueState::active) return;  // it has stopped already
  queue.state = QueueState::error;
  queue.error = verdict.why;
  queue.error_index = index;
  queue.status = verdict.status;
  queue.core.stop();
  if (queue.turn != kNone) {
    const std::uint32_t slot = queue.turn;
    if (packets_[slot].launched) {
      schedule(0, kStep, slot);  // of a condensed packet: no more kernels. Not at once: it may be in a step
    } else {
      drop_turn(number);
    }
  }
  protocol::QueueEventPacket event;
  event.event = protocol::QueueEvent::state;
  event.queue = number;
  event.state = queue.state;
  event.status = verdict.status;
  event.index = index;
  event.kernel = kernel;
  block_.event_out.send(event);
  block_.progress();
  note_wait(number);
}

// The packet whose turn it is is bad: its slot and the read index stay, its signal tells.
void PacketProcessor::Engine::fail_turn(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  const arch::Verdict verdict = packet.verdict;
  const std::uint32_t number = packet.queue;
  const std::uint64_t index = packet.index;
  const std::uint64_t signal_handle = signal_of(packet);
  packet.status = verdict.status;
  report(packet, packet.bad);
  fail(number, index, packet.bad, verdict);
  if (signal_handle == 0 || arch::signal_address(signal_handle) % arch::kSignalAlignment != 0) return;
  const std::uint32_t work = new_clean_up(number, index);
  clean_ups_[work].signal = signal_handle;
  clean_ups_[work].value = -static_cast<std::int64_t>(verdict.status);
  signal(work);
}

// 0: none, or it cannot be told.
std::uint64_t PacketProcessor::Engine::signal_in(const arch::PacketBytes& bytes) {
  const PacketType type = arch::type_of(bytes);
  if (static_cast<std::uint8_t>(type) >= arch::kPacketTypes || type == PacketType::condensed_dispatch) return 0;
  return number_at(bytes.data() + kSignalOffset, 8);
}

std::uint64_t PacketProcessor::Engine::signal_of(const Packet& packet) {
  return packet.kernels.empty() ? signal_in(packet.bytes) : packet.kernels.back().signal;
}

}  // namespace heddle::packet

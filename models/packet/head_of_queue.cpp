#include "packet/head_of_queue.h"

#include "arch/gpu_observation.h"
#include "packet/decoder.h"
#include "packet/dispatcher.h"

namespace heddle::packet {

using arch::HsaStatus;

HeadOfQueue::HeadOfQueue(const StageContext& context, const Neighbours& to)
    : context_(context),
      to_(to),
      heads_(context.queues.count(), nullptr),
      looks_(context.queues.count()),
      begun_work_(idle_account(context.timebase), IdleAccount::Work::packets),
      ring_work_(idle_account(context.timebase), IdleAccount::Work::ring),
      signals_work_(idle_account(context.timebase), IdleAccount::Work::signals),
      waiting_(context.queues.count(), 0) {}

void HeadOfQueue::note_open() {
  const std::uint64_t open = to_.reader.open_packets();
  context_.reporter.stats().open.set(static_cast<double>(open));
  begun_work_.set(open);
}

void HeadOfQueue::note_waiting(std::uint32_t queue) {
  const std::uint64_t waiting = to_.reader.ring(queue).waiting();
  all_waiting_ += waiting - waiting_[queue];
  waiting_[queue] = waiting;
  ring_work_.set(all_waiting_);
}

void HeadOfQueue::advance(std::uint32_t queue) {
  if (context_.queues.active(queue) && heads_[queue] == nullptr) {
    const QueueCore& ring = to_.reader.ring(queue);
    const QueueCore::Fetched* front = ring.front();
    if (front != nullptr && front->slot == QueueCore::Slot::failed) {
      to_.supervisor.fail(queue, ring.front_index(), 0, {HsaStatus::invalid_queue, arch::Reason::ring_unreadable});
    } else if (front != nullptr && front->slot == QueueCore::Slot::published &&
               (ring.front_is_oldest() || !held_back(queue, ring))) {
      begin(queue);
    }
  }
  note_waiting(queue);
  context_.reporter.note_wait(queue);
}

// Whether the next packet waits for those before it. Where its table entry decides that, it does until this is known.
bool HeadOfQueue::held_back(std::uint32_t queue, const QueueCore& ring) {
  const PacketParams& params = context_.params;
  const BarrierBit bit = barrier_bit(ring.front()->bytes, params.diff_format(), params.entries);
  if (!bit.entry) return bit.set;
  Look& look = looks_[queue];
  if (look.state == Look::State::none || look.index != ring.front_index()) {
    look = {++last_look_, ring.front_index(), Look::State::asked};
    to_.tables.read_scopes(queue, *bit.entry, look.ticket);
  }
  return look.state != Look::State::no_barrier;
}

bool HeadOfQueue::asks(std::uint32_t queue) const {
  const Look& look = looks_[queue];
  return look.state == Look::State::asked && look.index == to_.reader.ring(queue).front_index();
}

void HeadOfQueue::scopes_read(std::uint32_t queue, std::uint64_t ticket, std::uint8_t scopes) {
  Look& look = looks_[queue];
  if (look.ticket != ticket) return;  // of another packet
  look.state = (scopes & 1) != 0 ? Look::State::barrier : Look::State::no_barrier;
  advance(queue);
}

// What was known of packets is forgotten when their queue is opened again.
void HeadOfQueue::reset() {
  heads_.assign(heads_.size(), nullptr);
  waiting_.assign(waiting_.size(), 0);
  all_waiting_ = 0;
}

void HeadOfQueue::begin(std::uint32_t queue) {
  const std::uint64_t index = to_.reader.ring(queue).front_index();
  const QueueCore::Fetched fetched = to_.reader.take_head(queue);
  Packet& packet = context_.packets.take();
  packet.queue = queue;
  packet.index = index;
  packet.bytes = fetched.bytes;
  packet.type = arch::type_of(fetched.bytes);
  packet.times.doorbell = fetched.doorbell;
  packet.times.fetched = fetched.fetched;
  heads_[queue] = &packet;
  context_.reporter.progress();
  note_open();
  if (static_cast<std::uint8_t>(packet.type) >= arch::kPacketTypes) {
    packet.times.ready = context_.timebase.now();
    packet.result = {HsaStatus::invalid_packet_format, arch::Reason::packet_type};
    to_.completion.reject(packet);
    return;
  }
  to_.decoder.enqueue(packet);
}

void HeadOfQueue::release(Packet& packet) {
  if (heads_[packet.queue] != &packet) return;
  heads_[packet.queue] = nullptr;
  to_.reader.release_head(packet.queue);
  advance(packet.queue);
}

void HeadOfQueue::cut(std::uint32_t queue, bool later) {
  note_waiting(queue);  // what has been read is nobody's any more
  Packet* packet = heads_[queue];
  if (packet == nullptr) return;
  if (packet->launched()) {
    to_.dispatcher.cut(*packet, later);
  } else {
    drop(queue);
  }
}

// Nothing of the head has been launched: it is as if it had never begun.
void HeadOfQueue::drop(std::uint32_t queue) {
  Packet& packet = *heads_[queue];
  to_.decoder.withdraw(queue);
  to_.dispatcher.forget(packet);
  to_.reader.drop_head(queue);
  heads_[queue] = nullptr;
  if (packet.phase == Phase::signals) signals_work_.remove();
  context_.packets.free(packet);
  note_open();
}

void HeadOfQueue::retire(Packet& packet) {
  const std::uint32_t queue = packet.queue;
  to_.reader.complete(queue, packet.index);
  release(packet);  // barrier packets have kept the others back
  context_.packets.free(packet);
  context_.reporter.progress();
  note_open();
  Packet* head = heads_[queue];
  if (head != nullptr && head->phase == Phase::barrier && is_oldest(*head)) to_.dispatcher.acquire(*head);
  advance(queue);
  to_.supervisor.try_close(queue);
}

const char* HeadOfQueue::wait_reason(std::uint32_t queue) const {
  if (!context_.queues.active(queue)) return nullptr;
  const Packet* packet = heads_[queue];
  if (packet != nullptr) return wait_text(packet->phase);
  return asks(queue) ? "table entry" : to_.reader.wait_reason(queue);
}

void HeadOfQueue::collect_waits(WaitGraph& graph, const Packet& packet) const {
  if (packet.phase != Phase::barrier) return;
  graph.add(name_of(packet), "its barrier bit is set, so for",
            context_.packets.name_of(packet.queue, to_.reader.ring(packet.queue).oldest()));
}

void HeadOfQueue::collect_waits(WaitGraph& graph, std::uint32_t queue) const {
  const auto name = [&](std::uint64_t index) { return context_.packets.name_of(queue, index); };
  const QueueCore& ring = to_.reader.ring(queue);
  const std::string next = name(ring.front_index());
  const std::string head = heads_[queue] != nullptr ? name_of(*heads_[queue]) : next;
  for (std::uint64_t index = ring.front_index(); ring.waiting_at(index) != nullptr; ++index) {
    const bool there = ring.waiting_at(index)->slot == QueueCore::Slot::published;
    if (there && name(index) != head) graph.add(name(index), "for its turn behind", head);
  }
  if (heads_[queue] != nullptr) return;
  const QueueCore::Fetched* front = ring.front();
  if (front == nullptr) return;
  if (asks(queue)) {
    graph.add(next, "its table entry says whether it waits, so for an answer from", "the reference state table");
  } else if (front->slot == QueueCore::Slot::published) {
    graph.add(next, "its barrier bit is set, so for", name(ring.oldest()));
  } else if (to_.reader.awaits_producer(queue)) {
    graph.add(next, "the doorbell has told of it, but its header is invalid, for", "the host");
  } else {
    graph.add(next, "it is being read from", "memory");
  }
}

}  // namespace heddle::packet

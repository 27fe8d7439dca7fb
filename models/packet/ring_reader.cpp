#include "packet/ring_reader.h"

#include <algorithm>

#include "arch/race_checker.h"

namespace heddle::packet {

using arch::HsaStatus;
using protocol::QueueEvent;
using Use = MemoryTag::Use;

namespace {

constexpr std::uint32_t kHeaderBytes = 2;
constexpr std::uint32_t kIndexBytes = 8;

}  // namespace

RingReader::RingReader(const StageContext& context, RingListener& listener, QueueSupervisor& supervisor)
    : Stage(context), listener_(listener), supervisor_(supervisor), rings_(queues().count()) {}

void RingReader::open(std::uint32_t queue, std::uint64_t first) {
  rings_[queue] = Ring();
  rings_[queue].core.open(first, queues().setup(queue).size, params().fetch_ahead);
  if (races() != nullptr) races()->order().opened(queue, first);
}

void RingReader::doorbell(std::uint32_t queue, std::uint64_t index) {
  if (!queues().active(queue) || !rings_[queue].core.ring(index, now())) return;
  stats().doorbells.add();
  reporter().progress();
  fetch(queue);
}

std::uint64_t RingReader::slot_address(std::uint32_t queue, std::uint64_t index) const {
  const protocol::QueueSetup& setup = queues().setup(queue);
  return setup.base + (index & (setup.size - 1)) * arch::kPacketBytes;
}

void RingReader::fetch(std::uint32_t queue) {
  if (!queues().active(queue)) return;
  while (const auto index = rings_[queue].core.next_read()) {
    stats().fetches.add();
    memory().read(slot_address(queue, *index), arch::kPacketBytes, ring_tag(Use::ring, queue, *index));
  }
}

// Memory that nobody has written is no packet, unless a producer says so.
void RingReader::fetched(const MemoryAnswer& answer) {
  const std::uint32_t queue = answer.tag.queue;
  QueueCore& core = rings_[queue].core;
  if (!queues().active(queue)) return;
  arch::PacketBytes bytes;
  std::copy_n(answer.data.begin(), bytes.size(), bytes.begin());
  const bool zeros = bytes == arch::PacketBytes{} && !core.told(answer.tag.index);
  QueueCore::Slot slot = QueueCore::Slot::published;
  if (!answer.ok) {
    slot = QueueCore::Slot::failed;
  } else if (arch::type_of(bytes) == arch::PacketType::invalid || zeros) {
    slot = QueueCore::Slot::unpublished;
    stats().unpublished.add();
  }
  core.arrived(answer.tag.index, slot, bytes, now());
  if (races() != nullptr && slot == QueueCore::Slot::published) races()->order().published(queue, answer.tag.index);
  fetch(queue);
  listener_.advance(queue);
}

QueueCore::Fetched RingReader::take_head(std::uint32_t queue) {
  const QueueCore::Fetched head = rings_[queue].core.take_head();
  fetch(queue);
  return head;
}

// The slot says `invalid` before the read index passes it: so the producer never sees its place taken by an old packet.
void RingReader::clear_slot(std::uint32_t queue, std::uint64_t index) {
  memory().write_value(slot_address(queue, index), static_cast<std::uint64_t>(arch::PacketType::invalid), kHeaderBytes,
                       ring_tag(Use::slot_cleared, queue, index));
}

void RingReader::slot_cleared(const MemoryAnswer& answer) {
  const std::uint32_t queue = answer.tag.queue;
  if (!answer.ok) {
    supervisor_.fail(queue, answer.tag.index, 0, {HsaStatus::invalid_queue, arch::Reason::ring_unwritable});
    return;
  }
  QueueCore& core = rings_[queue].core;
  if (!core.cleared(answer.tag.index)) return;
  queues().tell_host(queues().event(QueueEvent::read, queue, core.read_index()));
  write_index(queue);
  fetch(queue);
}

void RingReader::write_index(std::uint32_t queue) {
  Ring& ring = rings_[queue];
  const std::uint64_t address = queues().setup(queue).read_index;
  if (address == 0 || ring.writing_index) return;
  ring.writing_index = true;
  const std::uint64_t index = ring.core.read_index();
  memory().write_value(address, index, kIndexBytes, ring_tag(Use::read_index, queue, index));
}

void RingReader::index_written(const MemoryAnswer& answer) {
  const std::uint32_t queue = answer.tag.queue;
  rings_[queue].writing_index = false;
  if (!answer.ok) {
    supervisor_.fail(queue, answer.tag.index, 0, {HsaStatus::invalid_queue, arch::Reason::read_index_unwritable});
    return;
  }
  if (answer.tag.index != rings_[queue].core.read_index()) write_index(queue);
}

void RingReader::on_answer(const MemoryAnswer& answer) {
  switch (answer.tag.use) {
    case Use::ring:
      return fetched(answer);
    case Use::slot_cleared:
      return slot_cleared(answer);
    default:
      return index_written(answer);
  }
}

std::uint64_t RingReader::open_packets() const {
  std::uint64_t count = 0;
  for (const Ring& ring : rings_) count += ring.core.open_packets();
  return count;
}

bool RingReader::idle() const {
  const auto waits = [](const Ring& ring) { return ring.core.waiting() > 0; };
  return open_packets() == 0 && memory().open() == 0 && std::none_of(rings_.begin(), rings_.end(), waits);
}

const char* RingReader::wait_reason(std::uint32_t queue) const {
  const QueueCore::Fetched* front = rings_[queue].core.front();
  if (front == nullptr) return nullptr;
  if (front->slot == QueueCore::Slot::published) return "barrier bit";
  return awaits_producer(queue) ? "packet not published" : nullptr;
}

bool RingReader::awaits_producer(std::uint32_t queue) const {
  const QueueCore::Fetched* front = rings_[queue].core.front();
  return front != nullptr && front->slot == QueueCore::Slot::unpublished;
}

}  // namespace heddle::packet

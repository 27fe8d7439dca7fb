#include "packet/engine.h"
#include "arch/gpu_observation.h"

#include <algorithm>

namespace heddle::packet {

using Use = MemoryTag::Use;

PacketProcessor::Engine::Engine(PacketProcessor& block, const PacketParams& params, const arch::SmLimits& limits,
                                arch::CodeStore& codes, const FitCheck& fit, std::uint64_t table_base)
    : block_(block),
      domain_(block.domain_),
      params_(params),
      limits_(limits),
      codes_(codes),
      fit_(fit),
      table_base_(table_base),
      // Time passes between looks in all modes: the machine would never get on otherwise.
      poll_cycles_(std::max<Cycle>(1, block.domain_.clock().cycles_for_ns(params.poll))),
      memory_(block.domain_, block.memory_out, block, kAnswer, kSend),
      stats_(block.domain_.observation().stats, block.domain_.observation().prefix + "." + block.path()),
      queues_(params.queues),
      tables_(params.table_owner == TableOwner::queue ? params.queues : 1),
      decoder_(params.queues, params.order == QueueOrder::priority) {}

Cycle PacketProcessor::Engine::cost(double ns) const { return domain_.cost(domain_.clock().cycles_for_ns(ns)); }

std::uint64_t PacketProcessor::Engine::open() const {
  std::uint64_t count = 0;
  for (const Queue& queue : queues_) count += queue.core.open_packets();
  return count;
}

bool PacketProcessor::Engine::quiescent() const {
  std::size_t polls = 0;
  for (const Queue& queue : queues_) {
    polls += queue.retries;
    if (queue.core.waiting() > 0) return false;
  }
  return open() == 0 && memory_.open() == polls;
}

void PacketProcessor::Engine::reset() {
  memory_.reset();
  const auto queues = static_cast<std::uint32_t>(queues_.size());
  queues_.clear();
  queues_.resize(queues);
  packets_.clear();
  free_packets_.clear();
  clean_ups_.clear();
  free_clean_ups_.clear();
  for (ReferenceTable& table : tables_) table.clear();
  decoder_.reset();
  decoder_busy_ = false;
  stats_.in_flight.set(in_flight_ = 0);
  stats_.open.set(0);
  limited_.clear();
  for (const auto& [operation, running] : running_) gpu_observation(domain_).labels.forget(operation);
  operations_ = 0;
  running_.clear();
  copies_ = 0;
  copying_.clear();
  fits_.clear();
  codes_.reset();
}

PacketProcessor::Engine::Packet* PacketProcessor::Engine::live(std::uint64_t reference) {
  const auto slot = static_cast<std::uint32_t>(reference);
  if (slot >= packets_.size()) return nullptr;
  Packet& packet = packets_[slot];
  return packet.live && packet.generation == reference >> 32 ? &packet : nullptr;
}

void PacketProcessor::Engine::schedule(Cycle cycles, Event event, std::uint32_t slot) {
  domain_.schedule_in(cycles, block_, event, ref(packets_[slot], slot));
}

MemoryTag PacketProcessor::Engine::tag(Use use, std::uint32_t slot, std::uint32_t part) const {
  const Packet& packet = packets_[slot];
  return {use, packet.queue, slot, packet.generation, part, packet.index};
}

std::uint32_t PacketProcessor::Engine::new_packet() {
  std::uint32_t slot = static_cast<std::uint32_t>(packets_.size());
  if (free_packets_.empty()) {
    packets_.emplace_back();
  } else {
    slot = free_packets_.back();
    free_packets_.pop_back();
  }
  const std::uint32_t generation = packets_[slot].generation;
  packets_[slot] = Packet();
  packets_[slot].generation = generation;
  packets_[slot].live = true;
  return slot;
}

// What comes later for the packet finds another generation.
void PacketProcessor::Engine::free_packet(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  packet.live = false;
  ++packet.generation;
  free_packets_.push_back(slot);
}

void PacketProcessor::Engine::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kAnswer:
      answer(memory_.take(argument));
      return;
    case kSend:
      memory_.send();
      return;
    case kPoll:
      poll(argument);
      return;
    case kDecoded:
      decoded(argument);
      return;
    case kFenced:
      fenced(static_cast<std::uint32_t>(argument));
      return;
    case kCleaned:
      signal(static_cast<std::uint32_t>(argument));
      return;
    default:
      if (live(argument) != nullptr) run(kind, static_cast<std::uint32_t>(argument));
  }
}

void PacketProcessor::Engine::run(std::uint32_t kind, std::uint32_t slot) {
  switch (kind) {
    case kAcquired:
      acquired(slot);
      return;
    case kDispatch:
      dispatch(slot);
      return;
    case kSignals:
      look_at_signals(slot);
      return;
    case kHoldEnds:
      other_ended(slot);
      return;
    case kStep:
      step(slot);
      return;
    default:
      HEDDLE_CHECK(false, "an event of no kind");
  }
}

void PacketProcessor::Engine::answer(const MemoryAnswer& answer) {
  const std::uint32_t number = answer.tag.queue;
  --queues_[number].requests;
  switch (answer.tag.use) {
    case Use::ring:
      fetched(answer);
      break;
    case Use::slot_cleared:
      slot_cleared(answer);
      break;
    case Use::read_index:
      index_written(answer);
      break;
    case Use::table_read:
    case Use::table_write:
    case Use::kernel_object:
    case Use::dependency:
      answer_packet(answer);
      break;
    default:
      clean_up_answer(answer);
  }
  note_wait(number);
  try_close(number);
}

void PacketProcessor::Engine::answer_packet(const MemoryAnswer& answer) {
  const std::uint32_t slot = answer.tag.slot;
  Packet* packet = live(std::uint64_t{answer.tag.generation} << 32 | slot);
  if (packet == nullptr) return;  // dropped in the meantime
  --packet->reads;
  switch (answer.tag.use) {
    case Use::table_read:
      entry_read(slot, answer);
      return;
    case Use::table_write:
      entry_written(slot, answer);
      return;
    case Use::kernel_object:
      object_read(*packet, answer);
      decode_on(slot);
      return;
    default:
      dependency_read(slot, answer);
  }
}

}  // namespace heddle::packet

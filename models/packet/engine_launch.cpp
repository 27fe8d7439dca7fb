// Kernels, from decoded packets to task management and back (PKT-04, PKT-07).
#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "packet/engine.h"

namespace heddle::packet {

using arch::FenceScope;
using arch::HsaStatus;
using arch::PacketType;
using protocol::DoneStatus;
using protocol::QueueState;

// The packet is good.
void PacketProcessor::Engine::proceed(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  const Queue& queue = queues_[packet.queue];
  if (is_barrier_packet(packet)) {
    packet.stage = Stage::signals;
    look_at_signals(slot);
  } else if (packet.type == PacketType::agent_dispatch && queue.agent != kNone) {
    packet.stage = Stage::agent;
  } else if (packet.type == PacketType::condensed_dispatch && packet.kernels.front().barrier &&
             !queue.core.is_oldest(packet.index)) {
    packet.stage = Stage::barrier;  // its table entry has changed since its turn began
  } else {
    acquire(slot);
  }
  note_wait(packet.queue);
}

// The L1s are emptied by the start of the kernel (MEM-06): the fence is a cost.
void PacketProcessor::Engine::acquire(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  const FenceScope scope = packet.kernels.empty() ? packet.scopes.acquire : packet.kernels.front().acquire;
  double ns = 0;
  if (scope == FenceScope::agent) ns = params_.acquire_agent;
  if (scope == FenceScope::system) ns = params_.acquire_system;
  packet.stage = Stage::acquire;
  schedule(cost(ns), kAcquired, slot);
}

void PacketProcessor::Engine::acquired(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  packet.times.decoded = now();
  for (Kernel& kernel : packet.kernels) kernel.times = packet.times;
  if (packet.kernels.empty()) {
    launch_other(slot);
  } else {
    launch_next(slot);
  }
}

void PacketProcessor::Engine::launch_next(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  // The second and further kernels of a packet have no phases before their dispatch.
  if (packet.dispatched > 0) {
    PacketTimes& times = packet.kernels[packet.dispatched].times;
    times.doorbell = times.fetched = times.ready = times.decoded = now();
  }
  if (in_flight_ >= params_.in_flight) {
    packet.stage = Stage::limit;
    limited_.push_back(slot);
    note_wait(packet.queue);
    return;
  }
  start_dispatch(slot);
}

void PacketProcessor::Engine::start_dispatch(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  packet.stage = Stage::dispatch;
  stats_.in_flight.set(++in_flight_);
  schedule(cost(params_.dispatch), kDispatch, slot);
  note_wait(packet.queue);
}

void PacketProcessor::Engine::dispatch(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  packet.stage = Stage::running;
  if (is_cut(packet)) {  // in the meantime
    leave_flight();
    step(slot);
    return;
  }
  const std::uint32_t number = packet.dispatched++;
  hand_over(slot, packet.kernels[number], number);
  if (number == 0) launched(packet);
  step(slot);
}

void PacketProcessor::Engine::hand_over(std::uint32_t slot, Kernel& kernel, std::uint32_t number) {
  Packet& packet = packets_[slot];
  HEDDLE_CHECK(operations_ < protocol::kDispatchBit, "there are no ids left for dispatches");
  kernel.operation = protocol::kDispatchBit | operations_++;
  kernel.times.dispatched = now();
  if (kernel.object.program != arch::kNoCode) {
    kernel.shape.code = codes_.lend(kernel.object.program, kernel.shape, kernel.items, kernel.fields.kernarg);
  }
  running_[kernel.operation] = {slot, number};
  take_lane(queues_[packet.queue], kernel.lane);
  gpu_observation(domain_).labels.set(
      kernel.operation,
      fmt::format("{} (queue {}, packet {})", kernel.object.name.empty() ? "kernel" : kernel.object.name, packet.queue,
                  packet.index));
  stats_.kernels.add();
  block_.progress();
  if (listener_ != nullptr) listener_->kernel_dispatched(record_of(packet, number));
  block_.dispatch_out.send({kernel.operation, queues_[packet.queue].setup.priority, kernel.shape, packet.queue});
}

void PacketProcessor::Engine::launched(Packet& packet) {
  packet.launched = true;
  clear_slot(packet);
}

// A kernel is complete, or will not be dispatched.
void PacketProcessor::Engine::leave_flight() {
  stats_.in_flight.set(--in_flight_);
  if (limited_.empty()) return;
  const auto priority = [this](std::uint32_t slot) { return queues_[packets_[slot].queue].setup.priority; };
  auto next = limited_.begin();
  if (params_.order == QueueOrder::priority) {
    // The first of the most urgent ones (PKT-10).
    next = std::max_element(limited_.begin(), limited_.end(),
                            [&](std::uint32_t a, std::uint32_t b) { return priority(a) < priority(b); });
  }
  const std::uint32_t slot = *next;
  limited_.erase(next);
  start_dispatch(slot);
}

void PacketProcessor::Engine::stop_waiting(std::uint32_t slot) {
  limited_.erase(std::remove(limited_.begin(), limited_.end(), slot), limited_.end());
}

// Nothing more of a launched packet is dispatched: its queue is being closed, or has stopped.
bool PacketProcessor::Engine::is_cut(const Packet& packet) const {
  return packet.stop || queues_[packet.queue].state != QueueState::active;
}

// What comes next for a packet whose kernels have begun.
void PacketProcessor::Engine::step(std::uint32_t slot) {
  Packet& packet = packets_[slot];
  if (packet.kernels.empty()) return;
  const auto count = static_cast<std::uint32_t>(packet.kernels.size());
  if (packet.stage == Stage::limit && is_cut(packet)) {
    stop_waiting(slot);
    packet.stage = Stage::running;
  }
  if (packet.stage != Stage::running || packet.finishing) return;
  if (packet.dispatched < count && !is_cut(packet)) {
    const bool overlap = params_.condensed == CondensedOrder::overlap && !packet.kernels[packet.dispatched].barrier;
    const bool all_before = packet.ended == packet.dispatched && packet.cleaning == 0;
    if (overlap || all_before) launch_next(slot);
    return;
  }
  end_turn(packet);
  if (packet.ended < packet.dispatched || packet.cleaning > 0) return;
  packet.finishing = true;
  if (packet.dispatched < count && !packet.stop) {
    // The kernels that are left never run. After a close the signal stays, after an error it tells.
    const HsaStatus status = queues_[packet.queue].status;
    if (status == HsaStatus::success) {
      complete(slot);
      return;
    }
    packet.status = status;
    packet.value = -static_cast<std::int64_t>(status);
  }
  clean_up(slot, kWhole);
}

void PacketProcessor::Engine::on_dispatch_done(const protocol::DispatchDonePacket& done, std::uint32_t) {
  const auto found = running_.find(done.operation);
  if (found == running_.end()) return;  // not of this processor
  const Running running = found->second;
  running_.erase(found);
  kernel_ended(running.packet, running.kernel, done);
}

void PacketProcessor::Engine::kernel_ended(std::uint32_t slot, std::uint32_t number,
                                           const protocol::DispatchDonePacket& done) {
  Packet& packet = packets_[slot];
  Kernel& kernel = packet.kernels[number];
  kernel.times.started = std::max<Cycle>(done.start, kernel.times.dispatched);
  kernel.times.ended = std::max<Cycle>(done.end, kernel.times.started);
  if (kernel.shape.code != arch::kNoCode) codes_.give_back(kernel.shape.code);
  ++packet.ended;
  block_.progress();
  if (done.status != DoneStatus::ok) {
    const bool faulted = done.status == DoneStatus::faulted;
    kernel.status = faulted ? HsaStatus::exception : HsaStatus::out_of_resources;
    if (!packet.stop) {
      packet.stop = true;
      packet.status = kernel.status;
      packet.value = -static_cast<std::int64_t>(kernel.status);
    }
    if (faulted) {
      protocol::QueueEventPacket event;
      event.event = protocol::QueueEvent::fault;
      event.queue = packet.queue;
      event.state = queues_[packet.queue].state;
      event.status = kernel.status;
      event.index = packet.index;
      event.kernel = number;
      block_.event_out.send(event);
    }
    fail(packet.queue, packet.index, number,
         {kernel.status, faulted ? "a CTA of a kernel faulted" : "the machine cannot hold a kernel"});
  }
  if (number + 1 < packet.kernels.size()) {
    ++packet.cleaning;
    clean_up(slot, number);
  }
  step(slot);
}

}  // namespace heddle::packet

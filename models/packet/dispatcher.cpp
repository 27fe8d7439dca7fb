#include "packet/dispatcher.h"

#include <algorithm>

#include "packet/head_of_queue.h"
#include "packet/other_packets.h"
#include "packet/ring_reader.h"

namespace heddle::packet {

using arch::FenceScope;
using arch::HsaStatus;
using arch::PacketType;
using protocol::DoneStatus;

Dispatcher::Dispatcher(const StageContext& context, const Neighbours& to, arch::CodeStore& codes,
                       PacketSender<protocol::DispatchPacket>& tasks)
    : PipelineStage(context), to_(to), codes_(codes), tasks_(tasks) {}

void Dispatcher::accept(Packet& packet) {
  if (packet.is_barrier()) {
    to_.others.await_signals(packet);
  } else if (packet.type == PacketType::agent_dispatch && to_.others.host_is_busy(packet.queue)) {
    to_.others.await_agent(packet);
  } else if (packet.type == PacketType::condensed_dispatch && packet.kernels.front().barrier &&
             !to_.heads.is_oldest(packet)) {
    packet.phase = Phase::barrier;  // its table entry has changed since it became the head
  } else {
    acquire(packet);
  }
  reporter().note_wait(packet.queue);
}

// The L1s are emptied by the start of the kernel (MEM-06): the fence is a cost.
void Dispatcher::acquire(Packet& packet) {
  fence(packet, packet.kernels.empty() ? packet.other.scopes.acquire : packet.kernels.front().acquire);
}

void Dispatcher::fence(Packet& packet, FenceScope scope) {
  double ns = 0;
  if (scope == FenceScope::agent) ns = params().acquire_agent;
  if (scope == FenceScope::system) ns = params().acquire_system;
  packet.phase = Phase::acquire;
  schedule(cost(ns), kAcquired, packet);
}

void Dispatcher::acquired(Packet& packet) {
  if (packet.dispatched > 0) {
    packet.kernels[packet.dispatched].times.decoded = now();
    packet.phase = Phase::running;
    return is_cut(packet) ? step(packet) : enter_flight(packet);
  }
  packet.times.decoded = now();
  for (Kernel& kernel : packet.kernels) kernel.times = packet.times;
  if (packet.kernels.empty()) {
    to_.others.launch(packet);
  } else {
    launch_next(packet);
  }
}

void Dispatcher::launch_next(Packet& packet) {
  // The second and further kernels of a packet have no phases before their dispatch.
  if (packet.dispatched > 0) {
    PacketTimes& times = packet.kernels[packet.dispatched].times;
    times.doorbell = times.fetched = times.ready = times.decoded = now();
    // A diff may ask for a fence before a later kernel (PKT-06).
    const FenceScope scope = packet.kernels[packet.dispatched].acquire;
    if (scope != FenceScope::none) return fence(packet, scope);
  }
  enter_flight(packet);
}

void Dispatcher::enter_flight(Packet& packet) {
  if (in_flight_ >= params().in_flight) {
    packet.phase = Phase::limit;
    limited_.push_back(&packet);
    reporter().note_wait(packet.queue);
    return;
  }
  start_dispatch(packet);
}

void Dispatcher::start_dispatch(Packet& packet) {
  packet.phase = Phase::dispatch;
  stats().in_flight.set(++in_flight_);
  schedule(spend(work_of_dispatch()), kDispatch, packet);
  reporter().note_wait(packet.queue);
}

void Dispatcher::dispatch(Packet& packet) {
  packet.phase = Phase::running;
  if (is_cut(packet)) {  // in the meantime
    leave_flight();
    step(packet);
    return;
  }
  const std::uint32_t number = packet.dispatched++;
  hand_over(packet, number);
  if (number == 0) to_.reader.clear_slot(packet.queue, packet.index);
  step(packet);
}

void Dispatcher::hand_over(Packet& packet, std::uint32_t number) {
  Kernel& kernel = packet.kernels[number];
  HEDDLE_CHECK(operations_ < protocol::kDispatchBit, "there are no ids left for dispatches");
  kernel.operation = protocol::kDispatchBit | operations_++;
  kernel.times.dispatched = now();
  if (kernel.object.program != arch::kNoCode) {
    kernel.shape.code = codes_.lend(kernel.object.program, kernel.shape, kernel.items, kernel.fields.kernarg);
  }
  running_[kernel.operation] = {&packet, number};
  reporter().kernel_dispatched(packet, number);
  tasks_.send({kernel.operation, queues().setup(packet.queue).priority, kernel.shape, packet.queue});
}

// A kernel is complete, or will not be dispatched.
void Dispatcher::leave_flight() {
  stats().in_flight.set(--in_flight_);
  if (limited_.empty()) return;
  const auto priority = [this](const Packet* packet) { return queues().setup(packet->queue).priority; };
  auto next = limited_.begin();
  if (params().order == QueueOrder::priority) {
    // The first of the most urgent ones (PKT-10).
    next = std::max_element(limited_.begin(), limited_.end(),
                            [&](const Packet* a, const Packet* b) { return priority(a) < priority(b); });
  }
  Packet& packet = **next;
  limited_.erase(next);
  start_dispatch(packet);
}

void Dispatcher::stop_waiting(Packet& packet) {
  limited_.erase(std::remove(limited_.begin(), limited_.end(), &packet), limited_.end());
}

void Dispatcher::forget(Packet& packet) {
  if (packet.phase == Phase::dispatch) leave_flight();
  stop_waiting(packet);
}

void Dispatcher::cut(Packet& packet, bool later) {
  if (later) return schedule(0, kStep, packet);
  step(packet);
}

bool Dispatcher::is_cut(const Packet& packet) const { return packet.kernel_failed || !queues().active(packet.queue); }

// What comes next for a packet whose kernels have begun.
void Dispatcher::step(Packet& packet) {
  if (packet.kernels.empty()) return;
  if (packet.phase == Phase::limit && is_cut(packet)) {
    stop_waiting(packet);
    packet.phase = Phase::running;
  }
  if (packet.phase != Phase::running) return;
  if (packet.dispatched < packet.kernels.size() && !is_cut(packet)) {
    const bool overlap = params().condensed == CondensedOrder::overlap && !packet.kernels[packet.dispatched].barrier;
    const bool all_before = packet.ended == packet.dispatched && packet.cleaning_up == 0;
    if (overlap || all_before) launch_next(packet);
    return;
  }
  to_.heads.release(packet);
  if (packet.ended == packet.dispatched && packet.cleaning_up == 0) finish(packet);
}

// All kernels that were dispatched have ended, and no more will be.
void Dispatcher::finish(Packet& packet) {
  packet.phase = Phase::finishing;
  if (packet.dispatched < packet.kernels.size() && !packet.kernel_failed) {
    // The kernels that are left never run. After a close the signal stays, after an error it tells.
    const HsaStatus status = queues().error(packet.queue).status;
    if (status == HsaStatus::success) return to_.completion.complete(packet);
    packet.status = status;
    packet.signal_value = -static_cast<std::int64_t>(status);
  }
  to_.completion.finish(packet);
}

void Dispatcher::on_dispatch_done(const protocol::DispatchDonePacket& done, std::uint32_t) {
  const auto found = running_.find(done.operation);
  if (found == running_.end()) return;  // a kernel of somebody else
  Packet& packet = *found->second.packet;
  const std::uint32_t number = found->second.kernel;
  running_.erase(found);
  Kernel& kernel = packet.kernels[number];
  kernel.times.started = std::max<Cycle>(done.start, kernel.times.dispatched);
  kernel.times.ended = std::max<Cycle>(done.end, kernel.times.started);
  if (kernel.shape.code != arch::kNoCode) codes_.give_back(kernel.shape.code);
  ++packet.ended;
  reporter().progress();
  if (done.status != DoneStatus::ok) kernel_failed(packet, number, done.status);
  if (number + 1 < packet.kernels.size()) {
    ++packet.cleaning_up;
    to_.completion.finish_kernel(packet, number);
  }
  step(packet);
}

void Dispatcher::kernel_failed(Packet& packet, std::uint32_t number, DoneStatus status) {
  const bool faulted = status == DoneStatus::faulted;
  Kernel& kernel = packet.kernels[number];
  kernel.status = faulted ? HsaStatus::exception : HsaStatus::out_of_resources;
  if (!packet.kernel_failed) {
    packet.kernel_failed = true;
    packet.status = kernel.status;
    packet.signal_value = -static_cast<std::int64_t>(kernel.status);
  }
  if (faulted) {
    auto event = queues().event(protocol::QueueEvent::fault, packet.queue, packet.index);
    event.status = kernel.status;
    event.kernel = number;
    queues().tell_host(event);
  }
  to_.supervisor.fail(packet.queue, packet.index, number,
                      {kernel.status, faulted ? "a CTA of a kernel faulted" : "the machine cannot hold a kernel"});
}

void Dispatcher::kernel_completed(Packet& packet, bool resume) {
  leave_flight();
  if (resume) step(packet);
}

void Dispatcher::on_event(std::uint32_t kind, std::uint64_t argument) {
  Packet* packet = packets().find(argument);
  if (packet == nullptr) return;
  switch (kind) {
    case kAcquired:
      return acquired(*packet);
    case kDispatch:
      return dispatch(*packet);
    default:
      return step(*packet);
  }
}

void Dispatcher::reset() {
  in_flight_ = 0;
  limited_.clear();
  for (const auto& [operation, running] : running_) reporter().forget_label(operation);
  running_.clear();
  operations_ = 0;
  codes_.reset();
}

void Dispatcher::collect_waits(WaitGraph& graph, const Packet& packet) const {
  const std::string name = name_of(packet);
  if (packet.phase == Phase::limit) {
    packets().for_each([&](const Packet& other) {
      if (other.launched()) graph.add(name, "as many kernels are in flight as can be:", name_of(other));
    });
  }
  for (std::uint32_t i = 0; i < packet.dispatched; ++i) {
    const std::uint32_t operation = packet.kernels[i].operation;
    if (running_.count(operation) > 0) graph.add(name, "for the end of", reporter().label(operation));
  }
}

}  // namespace heddle::packet

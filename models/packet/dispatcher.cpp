#include "packet/dispatcher.h"

#include <algorithm>

#include "arch/race_checker.h"
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

void Dispatcher::acquire(Packet& packet) {
  if (races() != nullptr) note_begin(packet);
  fence(packet, packet.kernels.empty() ? packet.other.scopes.acquire : packet.kernels.front().acquire);
}

// For the race checker.
void Dispatcher::note_begin(const Packet& packet) {
  std::vector<std::uint64_t> zeros;
  for (std::uint32_t i = 0; packet.is_barrier() && i < arch::kBarrierSignals; ++i) {
    if (packet.other.seen_zero[i]) zeros.push_back(packet.other.barrier.signals[i]);
  }
  const bool condensed = packet.type == PacketType::condensed_dispatch;
  const bool barrier = condensed ? packet.kernels.front().barrier : (packet.bytes[1] & 1) != 0;
  races()->order().begins(packet.queue, packet.index, barrier, zeros);
}

// What caches of the machine hold may be old: L1s always, slices of the L2 of what others write as well. The slices
// forget it first, since L1s are filled from them.
void Dispatcher::fence(Packet& packet, FenceScope scope) {
  packet.phase = Phase::acquire;
  if (scope != FenceScope::system) return schedule(0, scope == FenceScope::agent ? kAcquired : kUnfenced, packet);
  ++packet.reads;
  memory().invalidate(tag(MemoryTag::Use::acquire, packet, 0));
}

void Dispatcher::acquired(Packet& packet, FenceScope scope) {
  if (scope != FenceScope::none) {
    ++fences_;
    stats().acquires.add();
  }
  if (races() != nullptr) races()->order().acquired(packet.queue, packet.index, scope);
  if (packet.dispatched > 0) {  // a later kernel of the packet
    packet.phase = Phase::running;
    if (is_cut(packet)) return step(packet);
    packet.kernels[packet.dispatched].times.decoded = now();
    return admit(packet);
  }
  packet.times.decoded = now();
  for (Kernel& kernel : packet.kernels) kernel.times = packet.times;
  if (packet.kernels.empty()) {
    to_.others.launch(packet);
  } else {
    admit(packet);
  }
}

// The second and further kernels of a packet have no phases before their dispatch but a fence, if they ask for one.
void Dispatcher::launch_next(Packet& packet) {
  const Kernel& next = packet.kernels[packet.dispatched];
  PacketTimes& times = packet.kernels[packet.dispatched].times;
  times.doorbell = times.fetched = times.ready = times.decoded = now();
  if (next.acquire != FenceScope::none) return fence(packet, next.acquire);
  admit(packet);
}

void Dispatcher::admit(Packet& packet) {
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
  kernel.operation = ids_.next([this](std::uint32_t id) { return running_.count(id) > 0; });
  kernel.times.dispatched = now();
  if (kernel.object.program != arch::kNoCode) {
    kernel.shape.code = codes_.lend(kernel.object.program, kernel.shape, kernel.items, kernel.fields.kernarg);
  }
  running_[kernel.operation] = {&packet, number};
  reporter().kernel_dispatched(packet, number);
  if (races() != nullptr) {
    races()->kernel_starts(kernel.operation, {packet.queue, packet.index, number}, reporter().label(kernel.operation));
  }
  tasks_.send({kernel.operation, queues().setup(packet.queue).priority, kernel.shape, packet.queue, fences_, false});
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
    if (!overlap && all_before && races() != nullptr) races()->order().follows(packet.queue, packet.index);
    if (overlap || all_before) launch_next(packet);
    return;
  }
  to_.heads.release(packet);
  if (packet.ended == packet.dispatched && packet.cleaning_up == 0) finish(packet);
}

// All kernels that were dispatched have ended, and no more will be.
void Dispatcher::finish(Packet& packet) {
  packet.phase = Phase::finishing;
  const bool killed = packet.outcome.reason == arch::Reason::inactivated;
  if (packet.aborted && (killed || packet.dispatched < packet.kernels.size())) {
    packet.outcome = {HsaStatus::error, arch::Reason::inactivated};
    stats().aborted.add();
    return to_.completion.complete(packet);  // nobody is told by a signal
  }
  if (packet.dispatched < packet.kernels.size() && !packet.kernel_failed) {
    // The kernels that are left never run. After a close the signal stays, after an error it tells.
    const arch::HsaResult& error = queues().error(packet.queue).result;
    if (error.ok()) return to_.completion.complete(packet);
    packet.outcome = error;
    packet.signal_value = -static_cast<std::int64_t>(error.status);
  }
  to_.completion.finish(packet);
}

// What has ended by then has ended as usual: only kernels that run are asked to go.
void Dispatcher::abort(Packet& packet) {
  packet.aborted = true;
  for (std::uint32_t i = 0; i < packet.dispatched; ++i) {
    protocol::DispatchPacket kill;
    kill.operation = packet.kernels[i].operation;
    kill.abort = true;
    if (running_.count(kill.operation) > 0) tasks_.send(kill);
  }
}

void Dispatcher::on_dispatch_done(const protocol::DispatchDonePacket& done, std::uint32_t) {
  const auto found = running_.find(done.operation);
  if (found == running_.end()) return;  // a kernel of somebody else
  Packet& packet = *found->second.packet;
  const std::uint32_t number = found->second.kernel;
  running_.erase(found);
  if (races() != nullptr) races()->ends(done.operation);
  Kernel& kernel = packet.kernels[number];
  kernel.times.started = std::max<Cycle>(done.start, kernel.times.dispatched);
  kernel.times.ended = std::max<Cycle>(done.end, kernel.times.started);
  if (kernel.shape.code != arch::kNoCode) codes_.give_back(kernel.shape.code);
  ++packet.ended;
  reporter().progress();
  if (done.status == DoneStatus::aborted) {
    kernel_killed(packet, number);
  } else if (done.status != DoneStatus::ok) {
    kernel_failed(packet, number, done.status);
  }
  if (number + 1 < packet.kernels.size()) {
    ++packet.cleaning_up;
    to_.completion.finish_kernel(packet, number);
  }
  step(packet);
}

void Dispatcher::kernel_killed(Packet& packet, std::uint32_t number) {
  packet.kernels[number].outcome = {HsaStatus::error, arch::Reason::inactivated};
  packet.outcome = packet.kernels[number].outcome;
}

void Dispatcher::kernel_failed(Packet& packet, std::uint32_t number, DoneStatus status) {
  const bool faulted = status == DoneStatus::faulted;
  Kernel& kernel = packet.kernels[number];
  kernel.outcome = {faulted ? HsaStatus::exception : HsaStatus::out_of_resources,
                    faulted ? arch::Reason::kernel_fault : arch::Reason::machine_room};
  if (!packet.kernel_failed) {
    packet.kernel_failed = true;
    packet.outcome = kernel.outcome;
    packet.signal_value = -static_cast<std::int64_t>(kernel.outcome.status);
  }
  if (faulted) {
    auto event = queues().event(protocol::QueueEvent::fault, packet.queue, packet.index);
    event.status = kernel.outcome.status;
    event.kernel = number;
    queues().tell_host(event);
  }
  to_.supervisor.fail(packet.queue, packet.index, number, kernel.outcome);
}

void Dispatcher::kernel_completed(Packet& packet, bool resume) {
  leave_flight();
  if (resume) step(packet);
}

void Dispatcher::on_event(std::uint32_t kind, std::uint64_t argument) {
  Packet* packet = packets().find(argument);
  if (packet == nullptr) return;
  switch (kind) {
    case kUnfenced:
      return acquired(*packet, FenceScope::none);
    case kAcquired:
      return acquired(*packet, FenceScope::agent);
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
  ids_ = DispatchIds();
  fences_ = 0;
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

#include "task/task_unit.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace heddle::task {

using protocol::DispatchPacket;
using protocol::DoneStatus;
using protocol::SubmitKind;
using protocol::SubmitPacket;

TaskUnit::TaskUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                   const TaskParams& params, const arch::SmLimits& limits, Cycle start_path, std::uint32_t task_slots)
    : Block(name, domain, path),
      submit_in("submit_in", domain, 0),
      done_out("done_out", domain, 0, kUnlimitedCredits),
      dispatch_in("dispatch_in", domain, 0),
      dispatch_done_out("dispatch_done_out", domain, 0, kUnlimitedCredits),
      task_out("task_out", domain, params.to_cwd, task_slots),
      control_out("control_out", domain, params.to_cwd, kUnlimitedCredits),
      task_done_in("task_done_in", domain, 0),
      limits_(limits),
      stream_gap_(domain.cost(domain.clock().cycles_for_ns(params.stream_gap))),
      start_path_(domain.cost(start_path)),
      submitted_(counter("submitted", "operations", "operations taken in from the host")),
      packets_(counter("dispatches", "kernels", "kernels taken in from the packet processor")),
      kernels_(counter("kernels", "kernels", "kernels that have ended")),
      holds_(counter("holds", "operations", "copies and fills that have ended")),
      rejected_(counter("rejected", "kernels", "kernels that can never run on this machine")),
      faulted_(counter("faulted", "kernels", "kernels that a fault ended")),
      open_(gauge("open", "operations", "operations and dispatches taken in and not ended")),
      launch_latency_(
          histogram("launch_latency", "ns",
                    "from when nothing but the launch held a kernel back (its submission, or the end of what "
                    "it waited for) to its first launch packet")),
      queue_time_(histogram("queue_time", "ns", "from a kernel's submission to its first launch packet")) {
  submit_in.on_packet<TaskUnit, &TaskUnit::on_submit>(*this);
  dispatch_in.on_packet<TaskUnit, &TaskUnit::on_dispatch>(*this);
  task_done_in.on_packet<TaskUnit, &TaskUnit::on_task_done>(*this);
  task_out.on_credit<TaskUnit, &TaskUnit::on_credit>(*this);
}

void TaskUnit::reset() {
  streams_.reset();
  dispatched_.clear();
  dispatches_.clear();
  lists_.clear();
  show_open();
}

void TaskUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto stream = static_cast<std::uint32_t>(argument);
  if (kind == kDue) {
    due(stream);
    return;
  }
  const Cycle start = dispatched_.at(streams_.head(stream).packet.operation).due;
  finish(stream, start, now(), DoneStatus::ok);
}

void TaskUnit::on_submit(const SubmitPacket& packet, std::uint32_t) {
  if (packet.kind == SubmitKind::control) {
    control_out.send(packet.tpc);
    return;
  }
  HEDDLE_CHECK((packet.operation & protocol::kDispatchBit) == 0, "an operation has an id of the packet processor's");
  if (packet.kind != SubmitKind::wait) submitted_.add();
  streams_.submit(packet, now());
  show_open();
  progress();
  take_ready();
}

// Nothing holds it back: it has had its wait where it comes from.
void TaskUnit::on_dispatch(const DispatchPacket& packet, std::uint32_t) {
  HEDDLE_CHECK((packet.operation & protocol::kDispatchBit) != 0, "a dispatch has an id of the host's");
  HEDDLE_CHECK(dispatches_.emplace(packet.operation, Dispatch{packet, now()}).second, "a dispatch's id was used twice");
  packets_.add();
  show_open();
  progress();
  if (!arch::why_impossible(limits_, packet.kernel).empty()) {
    end_dispatch({packet.operation, DoneStatus::rejected, now(), now()});
    return;
  }
  lists_[packet.priority].push_back({false, packet.operation});
  dispatch();
}

// A stream's next operation starts no earlier than the gap after what it waited for; the way to the distributor and the
// session there are part of the gap.
void TaskUnit::take_ready() {
  for (const StreamTable::Ready& ready : streams_.take_ready()) {
    const SubmitPacket& packet = streams_.head(ready.stream).packet;
    Cycle when = now();
    if (ready.released) {
      const Cycle path = packet.kind == SubmitKind::kernel ? start_path_ : 0;
      const Cycle gap = stream_gap_ > path ? stream_gap_ - path : 0;
      when = std::max(when, *ready.released + gap);
    }
    const Cycle released = std::max(streams_.head(ready.stream).submitted, ready.released.value_or(0));
    dispatched_[packet.operation] = {ready.stream, released, when};
    domain_.schedule(when, *this, kDue, ready.stream);
  }
}

void TaskUnit::due(std::uint32_t stream) {
  const SubmitPacket& packet = streams_.head(stream).packet;
  if (packet.kind == SubmitKind::hold) {
    const Cycle cycles = domain_.clock().cycles_for_ns(packet.hold_ns);
    domain_.schedule(now() + cycles, *this, kHoldEnds, stream);
    return;
  }
  if (!arch::why_impossible(limits_, packet.kernel).empty()) {
    finish(stream, now(), now(), DoneStatus::rejected);
    return;
  }
  lists_[packet.priority].push_back({true, stream});
  dispatch();
}

void TaskUnit::on_credit(std::uint32_t) { dispatch(); }

// One list per priority (TSK-02); a credit is a free slot of the task table.
void TaskUnit::dispatch() {
  for (auto& [priority, kernels] : lists_) {
    while (!kernels.empty()) {
      if (!task_out.can_send()) return;
      const Waiting kernel = kernels.front();
      kernels.pop_front();
      send(kernel);
      progress();
    }
  }
}

void TaskUnit::send(const Waiting& waiting) {
  const auto hand_over = [this](std::uint32_t operation, std::int32_t priority, const arch::KernelShape& kernel) {
    task_out.send({operation, priority, kernel.grid, arch::need_of(limits_, kernel), kernel.duration, kernel.cluster,
                   kernel.local_bytes > 0, kernel.subcontext, kernel.code});
  };
  if (waiting.of_stream) {
    const SubmitPacket& packet = streams_.head(waiting.id).packet;
    hand_over(packet.operation, packet.priority, packet.kernel);
  } else {
    const DispatchPacket& packet = dispatches_.at(waiting.id).packet;
    hand_over(packet.operation, packet.priority, packet.kernel);
  }
}

void TaskUnit::on_task_done(const protocol::TaskDonePacket& done, std::uint32_t) {
  DoneStatus status = done.faulted ? DoneStatus::faulted : DoneStatus::ok;
  if (done.rejected) status = DoneStatus::rejected;  // by the distributor: no domain can hold its CGAs (CWD-25)
  const auto found = dispatches_.find(done.operation);
  if (found != dispatches_.end()) {
    const Cycle arrived = found->second.arrived;
    if (!done.rejected) note_latency(done.start, arrived, arrived);
    end_dispatch({done.operation, status, done.start, done.end});
    return;
  }
  const Dispatched& dispatched = dispatched_.at(done.operation);
  const std::uint32_t stream = dispatched.stream;
  if (!done.rejected) note_latency(done.start, streams_.head(stream).submitted, dispatched.released);
  finish(stream, done.start, done.end, status);
}

void TaskUnit::note_latency(Cycle start, Cycle submitted, Cycle released) {
  const auto ns = [this](Cycle cycles) {
    return static_cast<std::uint64_t>(std::llround(domain_.clock().ns_for_cycles(static_cast<double>(cycles))));
  };
  launch_latency_.add(ns(start - std::min(start, released)));
  queue_time_.add(ns(start - std::min(start, submitted)));
}

void TaskUnit::count(DoneStatus status) {
  kernels_.add(status == DoneStatus::ok ? 1 : 0);
  rejected_.add(status == DoneStatus::rejected ? 1 : 0);
  faulted_.add(status == DoneStatus::faulted ? 1 : 0);
}

// The packet processor draws its queues itself.
void TaskUnit::end_dispatch(const protocol::DispatchDonePacket& done) {
  dispatches_.erase(done.operation);
  count(done.status);
  dispatch_done_out.send(done);
  show_open();
  progress();
}

void TaskUnit::finish(std::uint32_t stream, Cycle start, Cycle end, DoneStatus status) {
  const StreamTable::Entry entry = streams_.head(stream);
  const std::uint32_t operation = entry.packet.operation;
  if (entry.packet.kind == SubmitKind::kernel) {
    count(status);
  } else {
    holds_.add();
  }
  if (timeline() != nullptr) draw(entry, dispatched_.at(operation), start, end);
  dispatched_.erase(operation);
  const Clock& clock = domain_.clock();
  done_out.send({operation, status, clock.time_of(entry.submitted), clock.time_of(start), clock.time_of(end)});
  streams_.complete(stream, end);
  show_open();
  progress();
  take_ready();
}

// The stream's line shows what runs; the line below it why nothing of the stream ran before.
void TaskUnit::draw(const StreamTable::Entry& entry, const Dispatched& dispatched, Cycle start, Cycle end) {
  Observation& observation = domain_.observation();
  const std::string stream = observation.streams.of(entry.packet.stream);
  const Clock& clock = domain_.clock();
  const TrackId runs = timeline()->track(observation.prefix + " streams", stream);
  const TrackId waits = timeline()->track(observation.prefix + " streams", stream + " waits");
  timeline()->slice(runs, clock.time_of(start), clock.time_of(end), observation.labels.of(entry.packet.operation),
                    {{"operation", entry.packet.operation},
                     {"ctas", static_cast<std::int64_t>(
                                  entry.packet.kind == SubmitKind::kernel ? entry.packet.kernel.grid.count() : 0)}});
  Cycle at = streams_.last_end(entry.packet.stream).value_or(entry.submitted);
  const auto until = [&](Cycle when, const char* why) {
    when = std::min(when, start);
    if (when > at) timeline()->slice(waits, clock.time_of(at), clock.time_of(when), why);
    at = std::max(at, when);
  };
  until(entry.submitted, "not submitted yet");
  until(dispatched.released, "waits for another stream");
  until(dispatched.due, "gap between operations");
  until(dispatched.due + start_path_, "on its way through task management and distributor");
  until(start, "no task table slot, or other tasks first");
}

void TaskUnit::collect_waits(WaitGraph& graph) const {
  const Labels& labels = domain_.observation().labels;
  streams_.collect_waits(graph, [&labels](std::uint32_t operation) { return labels.of(operation); });
  for (const auto& [priority, kernels] : lists_) {
    for (const Waiting& kernel : kernels) graph.add(name_of(kernel), "for a slot of", "the task table");
  }
}

std::string TaskUnit::name_of(const Waiting& kernel) const {
  const std::uint32_t operation = kernel.of_stream ? streams_.head(kernel.id).packet.operation : kernel.id;
  return domain_.observation().labels.of(operation);
}

}  // namespace heddle::task

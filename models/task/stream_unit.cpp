#include "task/stream_unit.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::task {

using protocol::DispatchPacket;
using protocol::DoneStatus;
using protocol::SubmitKind;
using protocol::SubmitPacket;

namespace {

// Sources of a list take turns: those of the host have numbers, those of device code addresses.
constexpr std::uint64_t kStreamSource = std::uint64_t{1} << 63;
constexpr std::uint64_t kPacketSource = std::uint64_t{1} << 62;

}  // namespace

StreamUnit::StreamUnit(Timebase& timebase, std::string name, const Setup& setup, TaskLife& life, QueueTasks& queues,
                       TaskRows& rows, PacketSender<protocol::DonePacket>& done_out,
                       PacketSender<protocol::DispatchDonePacket>& dispatch_done_out, const std::string& stat_prefix)
    : timebase_(timebase),
      name_(std::move(name)),
      setup_(setup),
      life_(life),
      queues_(queues),
      rows_(rows),
      done_out_(done_out),
      dispatch_done_out_(dispatch_done_out),
      stats_(timebase.observation().stats, stat_prefix) {}

void StreamUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto stream = static_cast<std::uint32_t>(argument);
  if (kind == kDue) {
    due(stream);
  } else {
    hold_ended(stream);
  }
}

void StreamUnit::on_submit(const SubmitPacket& packet, std::uint32_t) {
  if (packet.queue != 0) queues_.submitted(packet.queue);
  HEDDLE_CHECK((packet.operation & protocol::kDispatchBit) == 0, "an operation has an id of the packet processor's");
  HEDDLE_CHECK((packet.operation & protocol::kChildBit) == 0, "an operation has an id of device code's");
  if (!ends_by_itself(packet.kind)) stats_.submitted.add();
  streams_.submit(packet, timebase_.now());
  show_open();
  progress();
  start_ready();
}

// A dispatch is held back by nothing here: it has had its wait in the packet processor.
void StreamUnit::on_dispatch(const DispatchPacket& packet, std::uint32_t) {
  HEDDLE_CHECK((packet.operation & protocol::kDispatchBit) != 0, "a dispatch has an id of the host's");
  const Cycle now = timebase_.now();
  HEDDLE_CHECK(dispatches_.emplace(packet.operation, now).second, "a dispatch's id was used twice");
  stats_.dispatches.add();
  show_open();
  progress();
  if (!arch::why_impossible(setup_.limits, packet.kernel).empty()) {
    finish_dispatch({packet.operation, DoneStatus::rejected, now, now});
    return;
  }
  Task task = make_task(setup_.limits, setup_.codes, packet.operation, packet.priority, packet.kernel);
  task.origin = Task::Origin::packet;
  task.source = kPacketSource | packet.queue;
  life_.task_due(std::move(task));
}

void StreamUnit::pushed(const SubmitPacket& packet) {
  Pushed pushed{packet, timebase_.now(), std::nullopt};
  if (packet.kind == SubmitKind::queued) pushed.behind = packet.wait_for;
  HEDDLE_CHECK(pushed_.emplace(packet.operation, pushed).second, "an operation was pushed twice");
  stats_.submitted.add();
  show_open();
}

// A stream's next operation starts no earlier than the gap after what it waited for; the way to the distributor and the
// session there are part of the gap.
void StreamUnit::start_ready() {
  for (const StreamTable::Ready& ready : streams_.take_ready()) {
    const SubmitPacket& packet = streams_.head(ready.stream).packet;
    Cycle when = timebase_.now();
    if (ready.released) {
      const Cycle path = packet.kind == SubmitKind::kernel ? setup_.start_path : 0;
      const Cycle gap = setup_.stream_gap > path ? setup_.stream_gap - path : 0;
      when = std::max(when, *ready.released + gap);
    }
    const Cycle released = std::max(streams_.head(ready.stream).submitted, ready.released.value_or(0));
    started_[packet.operation] = {ready.stream, released, when};
    const bool early = setup_.early && packet.kind == SubmitKind::kernel;
    timebase_.schedule(early ? timebase_.now() : when, *this, kDue, ready.stream);
  }
  for (const std::uint32_t operation : streams_.take_closed()) {
    queues_.release(operation, streams_.completed(operation));
  }
}

void StreamUnit::due(std::uint32_t stream) {
  const SubmitPacket& packet = streams_.head(stream).packet;
  const Cycle now = timebase_.now();
  if (packet.kind == SubmitKind::hold) {
    timebase_.schedule(now + setup_.time.cycles(packet.hold_ns), *this, kHoldEnds, stream);
    return;
  }
  const Cycle not_before = started_.at(packet.operation).due;
  const bool endless = packet.queue != 0 && (setup_.codes == nullptr || packet.entries > arch::kMaxGridX);
  if (endless || !arch::why_impossible(setup_.limits, packet.kernel).empty()) {
    if (not_before > now) {
      timebase_.schedule(not_before, *this, kDue, stream);
      return;
    }
    finish(stream, now, now, DoneStatus::rejected, nullptr);
    return;
  }
  Task task = make_task(setup_.limits, setup_.codes, packet.operation, packet.priority, packet.kernel);
  task.origin = Task::Origin::stream;
  task.source = kStreamSource | stream;
  task.stream = stream;
  task.head = packet.head;
  task.not_before = not_before;
  if (packet.queue != 0) task.queue = Task::QueueUse{packet.queue, packet.entries, packet.held_open};
  life_.task_due(std::move(task));
}

void StreamUnit::hold_ended(std::uint32_t stream) {
  const Cycle start = started_.at(streams_.head(stream).packet.operation).due;
  finish(stream, start, timebase_.now(), DoneStatus::ok, nullptr);
}

void StreamUnit::note_start(const Task& task) {
  Cycle submitted = 0;
  Cycle released = 0;
  switch (task.origin) {
    case Task::Origin::packet:
      submitted = released = dispatches_.at(task.operation());
      break;
    case Task::Origin::tmdq:
      submitted = pushed_.at(task.operation()).submitted;
      released = std::max(submitted, task.launch.arrived);
      break;
    default:
      submitted = streams_.head(task.stream).submitted;
      released = started_.at(task.operation()).released;
      break;
  }
  stats_.launch_latency.add(setup_.time.ns(task.start - std::min(task.start, released)));
  stats_.queue_time.add(setup_.time.ns(task.start - std::min(task.start, submitted)));
}

void StreamUnit::count(DoneStatus status) {
  stats_.kernels.add(status == DoneStatus::ok ? 1 : 0);
  stats_.rejected.add(status == DoneStatus::rejected ? 1 : 0);
  stats_.faulted.add(status == DoneStatus::faulted ? 1 : 0);
}

// The packet processor draws its queues itself.
void StreamUnit::finished(const Task& task, Cycle end) {
  if (task.origin == Task::Origin::stream) {
    finish(task.stream, task.start, end, task.status, &task);
    return;
  }
  if (task.origin == Task::Origin::tmdq) {
    finish_pushed(task, end);
    return;
  }
  if (timebase_.observation().timeline != nullptr) rows_.subcontext(task, end);
  finish_dispatch({task.operation(), task.status, task.start, end});
}

void StreamUnit::finish_dispatch(const protocol::DispatchDonePacket& done) {
  dispatches_.erase(done.operation);
  count(done.status);
  dispatch_done_out_.send(done);
  show_open();
  progress();
}

void StreamUnit::finish_pushed(const Task& task, Cycle end) {
  const auto found = pushed_.find(task.operation());
  HEDDLE_CHECK(found != pushed_.end(), "a task of the host ended that it had not pushed");
  const Pushed& pushed = found->second;
  count(task.status);
  if (timebase_.observation().timeline != nullptr) {
    TaskRows::Host times;
    const auto before = pushed_ends_.find(pushed.packet.stream);
    times.before = before == pushed_ends_.end() ? pushed.submitted : before->second;
    times.submitted = pushed.submitted;
    times.released = times.due = std::max(pushed.submitted, task.launch.arrived);
    times.start = task.start;
    times.end = end;
    rows_.host(pushed.packet, times, &task);
  }
  pushed_ends_[pushed.packet.stream] = end;
  done_out_.send({task.operation(), task.status, timebase_.time_of(pushed.submitted), timebase_.time_of(task.start),
                  timebase_.time_of(end)});
  pushed_.erase(found);
  show_open();
  progress();
}

void StreamUnit::finish(std::uint32_t stream, Cycle start, Cycle end, DoneStatus status, const Task* task) {
  const StreamTable::Entry entry = streams_.head(stream);
  const std::uint32_t operation = entry.packet.operation;
  if (entry.packet.kind == SubmitKind::kernel) {
    count(status);
  } else {
    stats_.holds.add();
  }
  if (timebase_.observation().timeline != nullptr) draw(entry, start, end, task);
  started_.erase(operation);
  done_out_.send(
      {operation, status, timebase_.time_of(entry.submitted), timebase_.time_of(start), timebase_.time_of(end)});
  streams_.complete(stream, end);
  show_open();
  progress();
  start_ready();
}

void StreamUnit::draw(const StreamTable::Entry& entry, Cycle start, Cycle end, const Task* task) {
  const Started& started = started_.at(entry.packet.operation);
  TaskRows::Host times;
  times.before = streams_.last_end(entry.packet.stream).value_or(entry.submitted);
  times.submitted = entry.submitted;
  times.released = started.released;
  times.due = started.due;
  times.start = start;
  times.end = end;
  rows_.host(entry.packet, times, task);
}

void StreamUnit::reset() {
  streams_.reset();
  started_.clear();
  dispatches_.clear();
  pushed_.clear();
  pushed_ends_.clear();
  show_open();
}

}  // namespace heddle::task

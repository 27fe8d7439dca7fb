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

// A CTA that launches tasks can be saved, and comes back as one of another task, which would not wait: such a kernel is
// not launched ahead.
SubmitPacket in_its_turn(SubmitPacket packet, const arch::CodeStore* codes) {
  const std::uint32_t code = packet.kernel.code;
  const bool launches = codes != nullptr && code != arch::kNoCode && codes->at(code).launches();
  packet.programmatic = packet.programmatic && !launches;
  return packet;
}

}  // namespace

StreamUnit::StreamUnit(Timebase& timebase, std::string name, const Setup& setup, TaskLife& life,
                       LaunchScheduler& scheduler, Dependents& dependents, QueueTasks& queues, TaskRows& rows,
                       const Senders& senders, const std::string& stat_prefix)
    : timebase_(timebase),
      name_(std::move(name)),
      setup_(setup),
      life_(life),
      dependents_(dependents),
      queues_(queues),
      rows_(rows),
      senders_(senders),
      front_(timebase, name_ + ".front", setup.front, scheduler, *this),
      work_(idle_account(timebase), IdleAccount::Work::operations),
      holds_(idle_account(timebase), IdleAccount::Work::holds),
      stats_(timebase.observation().stats, stat_prefix) {}

// The time of a copy or fill is over.
void StreamUnit::on_event(std::uint32_t, std::uint64_t argument) {
  const auto operation = static_cast<std::uint32_t>(argument);
  holds_.remove();
  finish(operation, front_.started(operation).due, timebase_.now(), DoneStatus::ok, nullptr);
}

void StreamUnit::on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t) {
  const bool good = done.status == arch::HsaStatus::success;
  finish(done.tag, front_.started(done.tag).due, timebase_.now(), good ? DoneStatus::ok : DoneStatus::faulted, nullptr);
}

void StreamUnit::on_submit(const SubmitPacket& packet, std::uint32_t) {
  if (packet.queue != 0) queues_.submitted(packet.queue);
  if (packet.kind == SubmitKind::signal) {
    streams_.ended_elsewhere(packet.operation, timebase_.now());
    return start_ready();
  }
  HEDDLE_CHECK((packet.operation & protocol::kDispatchBit) == 0, "an operation has an id of the packet processor's");
  HEDDLE_CHECK((packet.operation & protocol::kChildBit) == 0, "an operation has an id of device code's");
  const bool edge = packet.kind == SubmitKind::edge;
  if (!ends_by_itself(packet.kind) && !edge) stats_.submitted.add();
  if (edge || packet.kind == SubmitKind::wait) rows_.edge(packet.operation, packet.wait_for);
  if (packet.in_graph) graphs_.submit(packet, timebase_.now());
  if (!packet.in_graph || packet.graph_last) streams_.submit(in_its_turn(packet, setup_.codes), timebase_.now());
  changed();
  start_ready();
}

// A dispatch is held back by nothing here: it has had its wait in the packet processor.
void StreamUnit::on_dispatch(const DispatchPacket& packet, std::uint32_t) {
  HEDDLE_CHECK((packet.operation & protocol::kDispatchBit) != 0, "a dispatch has an id of the host's");
  if (packet.abort) {
    if (dispatches_.count(packet.operation) > 0) life_.task_killed(packet.operation);
    return;
  }
  const Cycle now = timebase_.now();
  HEDDLE_CHECK(dispatches_.emplace(packet.operation, now).second, "a dispatch's id was used twice");
  stats_.dispatches.add();
  changed();
  if (!arch::why_impossible(setup_.limits, packet.kernel).empty()) {
    finish_dispatch({packet.operation, DoneStatus::rejected, now, now});
    return;
  }
  Task task = make_task(setup_.limits, setup_.codes, packet.operation, packet.priority, packet.kernel);
  task.origin = Task::Origin::packet;
  task.source = kPacketSource | packet.queue;
  task.packet.fence = packet.fence;
  life_.task_due(std::move(task));
}

void StreamUnit::pushed(const SubmitPacket& packet) {
  pushed_.push(packet, timebase_.now());
  stats_.submitted.add();
  changed();
}

StreamUnit::Submitted StreamUnit::submitted(std::uint32_t operation) const {
  if (graphs_.has(operation)) {
    const GraphTable::Node& node = graphs_.node(operation);
    return {node.packet, node.submitted};
  }
  const StreamTable::Entry& entry = streams_.entry(front_.started(operation).stream, operation);
  return {entry.packet, entry.submitted};
}

// One that is launched ahead has been fetched while the kernel before it ran.
void StreamUnit::start_ready() {
  for (const StreamTable::Ready& ready : streams_.take_ready()) {
    if (ready.ahead_of) {
      const StreamTable::Entry& entry = streams_.next(ready.stream);
      dependents_.launched(entry.packet.operation, *ready.ahead_of);
      front_.start_node(entry.packet.operation, ready.stream, timebase_.now());
      continue;
    }
    const StreamTable::Entry& entry = streams_.head(ready.stream);
    const bool kernel = entry.packet.kind == SubmitKind::kernel && !entry.packet.in_graph;
    front_.take({entry.packet.operation, ready.stream, entry.submitted, ready.released, kernel});
  }
  for (const std::uint32_t operation : streams_.take_closed()) {
    queues_.release(operation, streams_.completed(operation));
  }
}

// A kernel of a graph is taken up once nothing keeps it: its descriptor is read then.
void StreamUnit::begin_graph(std::uint32_t launch) {
  const std::uint32_t stream = front_.started(launch).stream;
  front_.forget(launch);
  for (const std::uint32_t operation : graphs_.begin(launch, timebase_.now())) {
    if (graphs_.taken(operation)) front_.take_node(operation, stream);
  }
}

void StreamUnit::node_taken(std::uint32_t operation) {
  const GraphTable::Node& node = graphs_.node(operation);
  front_.start_node(operation, node.packet.stream, node.released);
}

void StreamUnit::operation_due(std::uint32_t operation) {
  const StreamFront::Started started = front_.started(operation);
  const SubmitPacket& packet = submitted(operation).packet;
  const Cycle now = timebase_.now();
  if (packet.in_graph && !graphs_.begun(operation)) {
    begin_graph(operation);
    return;
  }
  if (packet.kind == SubmitKind::hold) {
    timebase_.schedule(now + setup_.time.cycles(packet.hold_ns), *this, 0, operation);
    holds_.add();
    return;
  }
  if (packet.kind == SubmitKind::copy) {
    senders_.copy.send(
        {operation, protocol::CopyKind::copy, packet.copy_from, packet.copy_to, packet.copy_bytes, 0, 0});
    return;
  }
  if (packet.kind == SubmitKind::fill) {
    senders_.copy.send(
        {operation, protocol::CopyKind::fill, 0, packet.copy_to, packet.copy_bytes, packet.fill_value, 0});
    return;
  }
  const bool endless = packet.queue != 0 && (setup_.codes == nullptr || packet.entries > arch::kMaxGridX);
  if (endless || !arch::why_impossible(setup_.limits, packet.kernel).empty()) {
    if (started.due > now) {
      front_.due_at(operation, started.due);
      return;
    }
    finish(operation, now, now, DoneStatus::rejected, nullptr);
    return;
  }
  Task task = make_task(setup_.limits, setup_.codes, operation, packet.priority, packet.kernel);
  task.origin = Task::Origin::stream;
  task.source = kStreamSource | started.stream;
  task.host.stream = started.stream;
  task.head = packet.head;
  task.not_before = started.due;
  task.host.reports = true;
  task.packet.ahead = !packet.in_graph && streams_.is_ahead(started.stream, operation);
  if (packet.queue != 0) task.queue = Task::QueueUse{packet.queue, packet.entries, packet.held_open};
  life_.task_due(std::move(task));
}

// The children of a program that launches need room, which the next kernel could take.
void StreamUnit::lets_go(const Task& task) {
  if (task.origin != Task::Origin::stream || task.launches || graphs_.has(task.operation())) return;
  streams_.let_go(task.host.stream, task.operation());
  start_ready();
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
      submitted = this->submitted(task.operation()).when;
      released = front_.started(task.operation()).released;
      break;
  }
  stats_.launch_latency.add(setup_.time.ns(task.start - std::min(task.start, released)));
  stats_.queue_time.add(setup_.time.ns(task.start - std::min(task.start, submitted)));
}

// The packet processor draws its queues itself.
void StreamUnit::finished(const Task& task, Cycle end) {
  if (task.origin == Task::Origin::stream) {
    finish(task.operation(), task.start, end, task.status, &task);
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
  stats_.count(done.status);
  senders_.dispatch_done.send(done);
  changed();
}

void StreamUnit::finish_pushed(const Task& task, Cycle end) {
  const PushedOperations::Pushed pushed = pushed_.take(task.operation(), end);
  stats_.count(task.status);
  if (timebase_.observation().timeline != nullptr) {
    TaskRows::Host times;
    times.before = pushed.before;
    times.submitted = pushed.submitted;
    times.released = times.due = std::max(pushed.submitted, task.launch.arrived);
    times.start = task.start;
    times.end = end;
    rows_.host(pushed.packet, times, &task);
  }
  senders_.done.send({task.operation(), task.status, timebase_.time_of(pushed.submitted), timebase_.time_of(task.start),
                      timebase_.time_of(end)});
  changed();
}

// Operations of a stream end in their order: one that was launched ahead does so behind the one before it.
void StreamUnit::finish(std::uint32_t operation, Cycle start, Cycle end, DoneStatus status, const Task* task) {
  const std::uint32_t stream = front_.started(operation).stream;
  if (!graphs_.has(operation) && streams_.is_ahead(stream, operation)) {
    held_[operation] = {start, end, status, task == nullptr ? std::nullopt : std::optional<Task>(*task)};
    return;
  }
  const Submitted what = submitted(operation);
  if (what.packet.kind == SubmitKind::kernel) {
    stats_.count(status);
  } else {
    stats_.holds.add();
  }
  if (timebase_.observation().timeline != nullptr) draw(what, start, end, task);
  senders_.done.send(
      {operation, status, timebase_.time_of(what.when), timebase_.time_of(start), timebase_.time_of(end)});
  close_entry(operation, end);
  dependents_.ended(operation);
  changed();
  start_ready();
  const auto next = streams_.running(stream);
  const auto found = next ? held_.find(*next) : held_.end();
  if (found == held_.end()) return;
  const Held held = std::move(found->second);
  held_.erase(found);
  finish(*next, held.start, std::max(held.end, end), held.status, held.task ? &*held.task : nullptr);
}

// What waited for it can go on: kernels of its graph at once, its stream once its graph has ended.
void StreamUnit::close_entry(std::uint32_t operation, Cycle end) {
  const std::uint32_t stream = front_.started(operation).stream;
  front_.forget(operation);
  if (!graphs_.has(operation)) {
    streams_.complete(stream, end);
    return;
  }
  for (const std::uint32_t next : graphs_.ended(operation, end)) front_.take_node(next, stream);
  if (graphs_.take_over(operation)) streams_.complete(stream, end);
}

void StreamUnit::draw(const Submitted& what, Cycle start, Cycle end, const Task* task) {
  const StreamFront::Started& started = front_.started(what.packet.operation);
  TaskRows::Host times;
  times.before = what.packet.in_graph ? what.when : streams_.last_end(what.packet.stream).value_or(what.when);
  times.submitted = what.when;
  times.released = started.released;
  times.due = started.due;
  times.start = start;
  times.end = end;
  rows_.host(what.packet, times, task);
}

void StreamUnit::reset() {
  streams_.reset();
  graphs_.reset();
  held_.clear();
  front_.reset();
  dispatches_.clear();
  pushed_.reset();
  changed();
}

}  // namespace heddle::task

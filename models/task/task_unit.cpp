#include "task/task_unit.h"

#include <algorithm>
#include <cmath>

namespace heddle::task {

using protocol::DispatchPacket;
using protocol::DoneStatus;
using protocol::SubmitKind;
using protocol::SubmitPacket;

namespace {

// The other end of a socket that nobody has bound.
template <class Packet>
std::shared_ptr<void> loose_end(PacketIn<Packet>& socket, Domain& domain) {
  if (socket.get_base_port().bind_count() > 0) return nullptr;
  auto end = std::make_shared<PacketOut<Packet>>((std::string("unbound_") + socket.basename()).c_str(), domain, 0,
                                                 kUnlimitedCredits);
  end->bind(socket);
  return end;
}

// Sources take turns: those of the host have numbers, those of device code addresses.
constexpr std::uint64_t kStreamSource = std::uint64_t{1} << 63;
constexpr std::uint64_t kPacketSource = std::uint64_t{1} << 62;

}  // namespace

TaskUnit::TaskUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                   const TaskParams& params, const arch::SmLimits& limits, Cycle start_path, std::uint32_t task_slots,
                   const NestedPlace& nested)
    : Block(name, domain, path),
      submit_in("submit_in", domain, 0),
      done_out("done_out", domain, 0, kUnlimitedCredits),
      dispatch_in("dispatch_in", domain, 0),
      dispatch_done_out("dispatch_done_out", domain, 0, kUnlimitedCredits),
      task_out("task_out", domain, params.to_cwd, task_slots),
      control_out("control_out", domain, params.to_cwd, kUnlimitedCredits),
      task_done_in("task_done_in", domain, 0),
      share_in("share_in", domain, 0),
      share_out("share_out", domain, params.to_cwd, kUnlimitedCredits),
      evict_out("evict_out", domain, params.to_cwd, kUnlimitedCredits),
      evicted_in("evicted_in", domain, 0),
      grow_out("grow_out", domain, params.to_cwd, kUnlimitedCredits),
      idle_in("idle_in", domain, 0),
      child_in("child_in", nested.sms,
               [&domain](const char* socket, std::size_t) {
                 return new PacketIn<protocol::ChildPacket>(socket, domain, 0);
               }),
      wake_out("wake_out", domain, params.nested.sm_distance, kUnlimitedCredits),
      memory_out("memory_out", domain),
      limits_(limits),
      stream_gap_(domain.cost(domain.clock().cycles_for_ns(params.stream_gap))),
      start_path_(domain.cost(start_path)),
      nested_(nested),
      record_places_(std::max(task_slots, 1U)),
      scheduler_(domain, std::string(this->name()) + ".scheduler", memory_out, *this, params.nested.in_flight,
                 domain.cost(params.nested.schedule_cycles), std::max<Cycle>(1, params.nested.retry)),
      rows_(domain),
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
      queue_time_(histogram("queue_time", "ns", "from a kernel's submission to its first launch packet")),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  submit_in.on_packet<TaskUnit, &TaskUnit::on_submit>(*this);
  dispatch_in.on_packet<TaskUnit, &TaskUnit::on_dispatch>(*this);
  share_in.on_packet<TaskUnit, &TaskUnit::on_share>(*this);
  task_done_in.on_packet<TaskUnit, &TaskUnit::on_task_done>(*this);
  task_out.on_credit<TaskUnit, &TaskUnit::on_credit>(*this);
  evicted_in.on_packet<TaskUnit, &TaskUnit::on_evicted>(*this);
  idle_in.on_packet<TaskUnit, &TaskUnit::on_idle>(*this);
  for (std::uint32_t sm = 0; sm < child_in.size(); ++sm) {
    child_in[sm].on_packet<TaskUnit, &TaskUnit::on_child>(*this, sm);
  }
}

TaskUnit::~TaskUnit() = default;

void TaskUnit::before_end_of_elaboration() {
  loose_ends_.push_back(loose_end(evicted_in, domain_));
  loose_ends_.push_back(loose_end(idle_in, domain_));
  loose_ends_.push_back(loose_end(share_in, domain_));
  for (auto& socket : child_in) loose_ends_.push_back(loose_end(socket, domain_));
}

void TaskUnit::reset() {
  streams_.reset();
  dispatched_.clear();
  dispatches_.clear();
  tasks_.clear();
  lists_.clear();
  table_.clear();
  scheduler_.reset();
  unprepared_.clear();
  holding_.clear();
  records_.clear();
  starting_.clear();
  queued_.clear();
  queues_.clear();
  stopped_queues_.clear();
  refused_records_.clear();
  released_queues_.clear();
  next_number_ = 0;
  child_number_ = 0;
  open_children_ = 0;
  rows_.reset();
  show_open();
}

void TaskUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto stream = static_cast<std::uint32_t>(argument);
  if (kind == kDue) {
    due(stream);
  } else {
    hold_ended(stream);
  }
}

void TaskUnit::on_share(const protocol::SubcontextPacket& packet, std::uint32_t) {
  rows_.show_subcontexts();
  for (std::uint32_t link = 0; link < share_out.links(); ++link) share_out.send(packet, link);
}

void TaskUnit::on_submit(const SubmitPacket& packet, std::uint32_t) {
  if (packet.queue != 0) stopped_queues_.erase(packet.queue);
  if (packet.kind == SubmitKind::control) {
    control_out.send(packet.tpc);
    return;
  }
  if (packet.kind == SubmitKind::share) {
    on_share(packet.share, 0);
    return;
  }
  HEDDLE_CHECK((packet.operation & protocol::kDispatchBit) == 0, "an operation has an id of the packet processor's");
  HEDDLE_CHECK((packet.operation & protocol::kChildBit) == 0, "an operation has an id of device code's");
  if (!ends_by_itself(packet.kind)) submitted_.add();
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
  Task task = task_of(packet.operation, packet.priority, packet.kernel);
  task.origin = Task::Origin::packet;
  task.source = kPacketSource | packet.queue;
  take_in(std::move(task));
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
  close_turns();
}

void TaskUnit::due(std::uint32_t stream) {
  const SubmitPacket& packet = streams_.head(stream).packet;
  if (packet.kind == SubmitKind::hold) {
    const Cycle cycles = domain_.clock().cycles_for_ns(packet.hold_ns);
    domain_.schedule(now() + cycles, *this, kHoldEnds, stream);
    return;
  }
  const bool endless = packet.queue != 0 && (nested_.codes == nullptr || packet.entries > arch::kMaxGridX);
  if (endless || !arch::why_impossible(limits_, packet.kernel).empty()) {
    finish(stream, now(), now(), DoneStatus::rejected, nullptr);
    return;
  }
  Task task = task_of(packet.operation, packet.priority, packet.kernel);
  task.origin = Task::Origin::stream;
  task.source = kStreamSource | stream;
  task.stream = stream;
  task.head = packet.head;
  task.queue = packet.queue;
  task.entries = packet.entries;
  task.held_open = packet.held_open && released_queues_.erase(packet.operation) == 0;
  take_in(std::move(task));
}

void TaskUnit::hold_ended(std::uint32_t stream) {
  const Cycle start = dispatched_.at(streams_.head(stream).packet.operation).due;
  finish(stream, start, now(), DoneStatus::ok, nullptr);
}

std::uint64_t TaskUnit::ns(Cycle cycles) const {
  return static_cast<std::uint64_t>(std::llround(domain_.clock().ns_for_cycles(static_cast<double>(cycles))));
}

void TaskUnit::note_latency(Cycle start, Cycle submitted, Cycle released) {
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

void TaskUnit::finish(std::uint32_t stream, Cycle start, Cycle end, DoneStatus status, const Task* task) {
  const StreamTable::Entry entry = streams_.head(stream);
  const std::uint32_t operation = entry.packet.operation;
  if (entry.packet.kind == SubmitKind::kernel) {
    count(status);
  } else {
    holds_.add();
  }
  if (timeline() != nullptr) draw(entry, start, end, task);
  dispatched_.erase(operation);
  done_out.send(
      {operation, status, domain_.time_of(entry.submitted), domain_.time_of(start), domain_.time_of(end)});
  streams_.complete(stream, end);
  show_open();
  progress();
  take_ready();
}

void TaskUnit::draw(const StreamTable::Entry& entry, Cycle start, Cycle end, const Task* task) {
  const Dispatched& dispatched = dispatched_.at(entry.packet.operation);
  TaskRows::Host times;
  times.before = streams_.last_end(entry.packet.stream).value_or(entry.submitted);
  times.submitted = entry.submitted;
  times.released = dispatched.released;
  times.due = dispatched.due;
  times.path = start_path_;
  times.start = start;
  times.end = end;
  rows_.host(entry.packet, times, task);
}

}  // namespace heddle::task

#include "replay/tmdq_submitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "common/error.h"

namespace heddle::replay {

using protocol::SubmitKind;
using protocol::SubmitPacket;

namespace {

Cycle whole(double ns) { return static_cast<Cycle>(std::llround(ns)); }

std::int64_t lead_of(const TmdqPlan& plan, const HostControls& controls) {
  std::int64_t first = controls.first();
  for (const std::int64_t when : plan.when) first = std::min(first, when);
  return 1 - first;
}

}  // namespace

TmdqSubmitter::TmdqSubmitter(const sc_core::sc_module_name& name, TmdqSubmitterSetup setup, DeviceAccess device,
                             GpuObservation& gpu, Observation& host)
    : sc_core::sc_module(name),
      domain("domain", 1.0, TimingMode::at, 0, host),
      bus(domain, setup.link, *this),
      submit_out("submit_out", domain, 1, setup.submit_queue),
      done_in("done_in", domain, 1),
      workload_(*setup.workload),
      plan_(std::move(setup.plan)),
      params_(setup.params),
      device_(std::move(device)),
      gpu_(gpu),
      controls_(workload_.tpc_switches, setup.shares),
      lead_(lead_of(plan_, controls_)),
      queues_(plan_.tmdqs.size()),
      free_(plan_.tmds.begin(), plan_.tmds.end()),
      records_(workload_.ops.size(), 0),
      known_(workload_.ops.size(), false),
      results_(workload_.ops.size()) {
  domain.add_resettable(*this);
  domain.add_wait_source(*this);
  submit_out.on_credit<TmdqSubmitter, &TmdqSubmitter::on_credit>(*this);
  done_in.on_packet<TmdqSubmitter, &TmdqSubmitter::on_done>(*this);
  for (std::size_t i = 0; i < workload_.streams.size(); ++i) {
    gpu.streams.set(static_cast<std::uint32_t>(i), "stream " + workload_.streams[i].name);
  }
  for (std::size_t i = 0; i < workload_.ops.size(); ++i) {
    gpu.labels.set(static_cast<std::uint32_t>(i), operation_label(workload_, i));
  }
}

TmdqSubmitter::~TmdqSubmitter() = default;

void TmdqSubmitter::start() {
  for (const MemoryWrite& write : plan_.contents) {
    const bool ok = device_.write(write.address, write.bytes.data(), write.bytes.size());
    HEDDLE_CHECK(ok, "the host's records in device memory cannot be written");
  }
  controls_.send(domain, submit_out, lead_, *this, kControl);
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) domain.schedule(domain.now(), *this, kLook, queue);
}

void TmdqSubmitter::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  switch (kind) {
    case kLook:
      look(number);
      break;
    case kRung:
      queues_[number].busy = false;
      look(number);
      break;
    case kWritten:
      written(number);
      break;
    case kLearned:
      learned(number);
      break;
    case kHoldEnds:
      hold_ended(number);
      break;
    case kControl:
      controls_.send(domain, submit_out, lead_, *this, kControl);
      break;
    default:
      HEDDLE_CHECK(false, "an event that nobody knows");
  }
}

void TmdqSubmitter::on_credit(std::uint32_t) {
  send_notes();
  controls_.send(domain, submit_out, lead_, *this, kControl);
}

// A thread that has nothing to do is looked at again when its next operation is due, and whenever the host learns of an
// end.
void TmdqSubmitter::look(std::uint32_t number) {
  Queue& queue = queues_[number];
  const std::vector<std::size_t>& ops = plan_.tmdqs[number].ops;
  if (queue.busy || queue.place == ops.size()) return;
  const std::size_t op = ops[queue.place];
  const auto when = static_cast<Cycle>(plan_.when[op] + lead_);
  if (when > domain.now()) {
    if (queue.looks != when) domain.schedule(when, *this, kLook, number);
    queue.looks = when;
    return;
  }
  if (!ready(number, op)) return;
  queue.busy = true;
  ++queue.place;
  ++domain.observation().progress;
  results_[op].submitted = static_cast<double>(domain.now()) - static_cast<double>(lead_);
  queue.op = op;
  if (workload_.ops[op].kind != workload::OpKind::kernel) {
    results_[op].start = results_[op].submitted;
    domain.schedule_in(static_cast<Cycle>(workload_.ops[op].duration), *this, kHoldEnds, number);
    return;
  }
  queue.record = records_[op] = free_.front();
  free_.pop_front();
  ++queue.open;
  domain.schedule_in(whole(params_.enqueue), *this, kWritten, number);
}

// What a copy waits for the host sees itself; a kernel waits for its own stream in memory.
bool TmdqSubmitter::ready(std::uint32_t queue, std::size_t number) {
  const workload::Op& op = workload_.ops[number];
  const bool kernel = op.kind == workload::OpKind::kernel;
  if (kernel ? free_.empty() : queues_[queue].open > 0) return false;
  return std::all_of(op.after.begin(), op.after.end(), [&](const workload::Edge& edge) {
    return (kernel && workload_.ops[edge.from].stream == op.stream) || known_[edge.from];
  });
}

void TmdqSubmitter::look_all() {
  for (std::uint32_t queue = 0; queue < queues_.size(); ++queue) look(queue);
}

void TmdqSubmitter::hold_ended(std::uint32_t queue) {
  const std::size_t op = queues_[queue].op;
  results_[op].done = known_[op] = true;
  results_[op].end = static_cast<double>(domain.now()) - static_cast<double>(lead_);
  if (gpu_.timeline != nullptr) {
    const Cycle begin = domain.now() - static_cast<Cycle>(workload_.ops[op].duration);
    const std::string stream = gpu_.streams.of(static_cast<std::uint32_t>(workload_.ops[op].stream));
    gpu_.timeline->slice(gpu_.timeline->track(gpu_.prefix + " streams", stream), domain.time_of(begin),
                         domain.time_of(domain.now()), gpu_.labels.of(static_cast<std::uint32_t>(op)),
                         {{"operation", static_cast<std::int64_t>(op)}, {"ctas", 0}});
  }
  ++done_;
  ++copies_;
  ++domain.observation().progress;
  queues_[queue].busy = false;
  look_all();
}

// The host counts itself into its context while the TMD is on its way. A bus answers an atomic behind the posted writes
// before it: with both answers the TMD is there.
void TmdqSubmitter::written(std::uint32_t number) {
  Queue& queue = queues_[number];
  queue.awaited = 2;
  queue.push.emplace(plan_.tmdqs[number].last_task(), queue.record);
  bus.write(queue.record, tmd_of(workload_, plan_, plan_.tmdqs[number], queue.op), number);
  bus.step({arch::MemoryStep::Kind::add, plan_.tmdqs[number].work(), 1}, number);
}

void TmdqSubmitter::on_bus_answer(std::uint32_t number, std::uint64_t old) {
  Queue& queue = queues_[number];
  if (queue.awaited > 0) {
    if (--queue.awaited == 0) bus.step(queue.push->step(), number);
    return;
  }
  queue.push->answer(old);
  exchanged(number);
}

// An empty queue: the doorbell. Otherwise the task ahead is to name this one, which nobody waits for.
void TmdqSubmitter::exchanged(std::uint32_t number) {
  Queue& queue = queues_[number];
  SubmitPacket packet;
  packet.operation = static_cast<std::uint32_t>(queue.op);
  packet.stream = static_cast<std::uint32_t>(plan_.tmdqs[number].stream);
  packet.kind = queue.push->starts() ? SubmitKind::start : SubmitKind::queued;
  packet.record = queue.record;
  if (!queue.push->starts()) packet.wait_for = static_cast<std::uint32_t>(*queue.last);
  queue.last = queue.op;
  notes_.push_back({packet, number});
  send_notes();
}

// Once the note has left, so has the doorbell; or the link is on its way, and the thread turns to its next operation.
void TmdqSubmitter::send_notes() {
  while (!notes_.empty() && submit_out.can_send()) {
    const Note note = notes_.front();
    notes_.pop_front();
    Queue& queue = queues_[note.queue];
    if (note.packet.kind == SubmitKind::start) {
      const Cycle rings = domain.now() + whole(params_.doorbell);
      submit_out.send_at(rings + bus.latency(), note.packet);
      domain.schedule(rings, *this, kRung, note.queue);
      continue;
    }
    submit_out.send(note.packet);
    bus.post(queue.push->step());
    queue.busy = false;
    look(note.queue);
  }
}

void TmdqSubmitter::on_done(const protocol::DonePacket& done, std::uint32_t) {
  HEDDLE_CHECK(done.operation < results_.size() && !results_[done.operation].done, "an operation was reported twice");
  OpResult& result = results_[done.operation];
  const sc_core::sc_time origin = domain.clock().time_of(0);
  const auto ns = [&](Picoseconds time) {
    return (sc_time_of(time) - origin).to_seconds() * 1e9 - static_cast<double>(lead_);
  };
  result.done = true;
  result.rejected = done.status == protocol::DoneStatus::rejected;
  result.faulted = done.status == protocol::DoneStatus::faulted;
  result.start = ns(done.start);
  result.end = ns(done.end);
  ++done_;
  domain.schedule_in(bus.latency(), *this, kLearned, done.operation);
}

void TmdqSubmitter::learned(std::size_t op) {
  known_[op] = true;
  free_.push_back(records_[op]);
  const auto queue = std::find_if(plan_.tmdqs.begin(), plan_.tmdqs.end(),
                                  [&](const HostTmdq& tmdq) { return tmdq.stream == workload_.ops[op].stream; });
  --queues_[static_cast<std::size_t>(queue - plan_.tmdqs.begin())].open;
  look_all();
}

void TmdqSubmitter::reset() {
  bus.reset();
  controls_.reset();
  queues_.assign(queues_.size(), {});
  free_.assign(plan_.tmds.begin(), plan_.tmds.end());
  std::fill(records_.begin(), records_.end(), 0);
  std::fill(known_.begin(), known_.end(), false);
  notes_.clear();
  std::fill(results_.begin(), results_.end(), OpResult{});
  done_ = copies_ = 0;
}

void TmdqSubmitter::check_memory() {
  const auto word = [this](std::uint64_t address) {
    std::uint64_t value = 0;
    HEDDLE_CHECK(device_.read(address, &value, sizeof value), "the host's records in device memory cannot be read");
    return value;
  };
  for (const HostTmdq& tmdq : plan_.tmdqs) {
    HEDDLE_CHECK(word(tmdq.last_task()) == 0,
                 fmt::format("the TMDQ of stream {} is not empty", workload_.streams[tmdq.stream].name));
  }
  for (const std::uint64_t context : plan_.contexts) {
    HEDDLE_CHECK(word(context + arch::context::kWork) == 1, "work is left in a context of the host");
  }
}

// Operations that wait behind another one which has not even been pushed: the host is at fault, not the GPU.
void TmdqSubmitter::collect_waits(WaitGraph& graph) const {
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    const Queue& queue = queues_[i];
    const std::vector<std::size_t>& ops = plan_.tmdqs[i].ops;
    if (queue.place == ops.size()) continue;
    const std::size_t op = ops[queue.place];
    const std::string name = gpu_.labels.of(static_cast<std::uint32_t>(op));
    const bool kernel = workload_.ops[op].kind == workload::OpKind::kernel;
    bool waits = false;
    for (const workload::Edge& edge : workload_.ops[op].after) {
      if (known_[edge.from]) continue;
      graph.add(name, "for the end of", gpu_.labels.of(static_cast<std::uint32_t>(edge.from)));
      waits = true;
    }
    if (!kernel && queue.open > 0 && queue.last) {
      graph.add(name, "for its turn in the stream, behind", gpu_.labels.of(static_cast<std::uint32_t>(*queue.last)));
      waits = true;
    }
    if (!waits) graph.add(name, "to be pushed by", "the host");
  }
}

}  // namespace heddle::replay

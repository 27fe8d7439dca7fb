#include "replay/stream_submitter.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

namespace heddle::replay {

using protocol::SubmitKind;
using protocol::SubmitPacket;
using workload::OpKind;

StreamSubmitter::StreamSubmitter(const sc_core::sc_module_name& name, const StreamSubmission& what, GpuObservation& gpu,
                                 Observation& own)
    : sc_core::sc_module(name),
      domain("domain", 1.0, TimingMode::at, 0, own),
      submit_out("submit_out", domain, 1, what.timings.submit_queue),
      done_in("done_in", domain, 1),
      ends_out("ends_out", domain, std::max<Cycle>(1, static_cast<Cycle>(what.event_latency_ns)), kUnlimitedCredits),
      ends_in("ends_in", domain, 0, CreditReturn::on_receipt, PacketSenders::many),
      gpu_(gpu),
      device_(what.device),
      results_(what.workload.ops.size()) {
  const workload::Workload& workload = what.workload;
  domain.add_resettable(*this);
  domain.add_wait_source(*this);
  submit_out.on_credit<StreamSubmitter, &StreamSubmitter::on_credit>(*this);
  ends_in.on_packet<StreamSubmitter, &StreamSubmitter::on_remote_end>(*this);
  done_in.on_packet<StreamSubmitter, &StreamSubmitter::on_done>(*this);
  for (std::size_t i = 0; i < workload.streams.size(); ++i) {
    gpu.streams.set(static_cast<std::uint32_t>(i), "stream " + workload.streams[i].name);
  }
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    gpu.labels.set(static_cast<std::uint32_t>(i), operation_label(workload, i));
  }
  plan(what);
  plan_controls(workload.tpc_switches, what.shares);
  std::int64_t first = 1;  // the link takes a nanosecond
  for (const Item& item : items_) first = std::min(first, item.when);
  lead_ = 1 - first;
  if (what.part != nullptr && what.part->begin) lead_ = -*what.part->begin;  // what was due before is due at once
  done_ = stretches_.left_out;
}

StreamSubmitter::~StreamSubmitter() = default;

void StreamSubmitter::plan(const StreamSubmission& what) {
  const workload::Workload& workload = what.workload;
  const std::vector<std::int64_t> times = host_times(workload, what.pace, what.timings);
  struct Timed {
    std::int64_t when;
    std::size_t op;
    std::uint32_t stretch;
  };
  static const WorkloadPart kAll;
  const WorkloadPart& part = what.part == nullptr ? kAll : *what.part;
  std::vector<Timed> timed;
  stretches_.ends.assign(1, 0);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool out = part.leaves_out(i);
    const Timed entry{times[i], i, out ? 0 : part.stretch_of(i)};
    stretches_.left_out += out ? 1 : 0;
    if (!out) timed.push_back(entry);
    if (stretches_.ends.size() <= entry.stretch) stretches_.ends.resize(entry.stretch + 1);
    ++stretches_.ends[entry.stretch];
  }
  std::partial_sum(stretches_.ends.begin(), stretches_.ends.end(), stretches_.ends.begin());
  std::stable_sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) {
    return std::tie(a.stretch, a.when) < std::tie(b.stretch, b.when);
  });

  streams_ = static_cast<std::uint32_t>(workload.streams.size());
  for (const Timed& entry : timed) {
    const workload::Op& op = workload.ops[entry.op];
    const SubmitPacket packet = packet_of(workload, entry.op, what.codes);
    const std::size_t first = items_.size();
    for (const workload::Edge& edge : op.after) {
      if (what.ended && what.ended(edge)) continue;
      SubmitPacket wait = packet;
      wait.kind = SubmitKind::wait;
      wait.wait_for = number_of(edge);
      items_.push_back({entry.when, wait});
    }
    if (op.graph) plan_edges(*op.graph, packet, entry.when);
    items_.push_back({entry.when, packet});
    if (packet.held_open) plan_closes(workload, packet, entry.when);
    for (std::size_t i = first; i < items_.size(); ++i) items_[i].stretch = entry.stretch;
  }
}

SubmitPacket StreamSubmitter::packet_of(const workload::Workload& workload, std::size_t op,
                                        const std::vector<std::uint32_t>& codes) const {
  const workload::Op& from = workload.ops[op];
  SubmitPacket packet;
  packet.operation = static_cast<std::uint32_t>(op);
  packet.stream = static_cast<std::uint32_t>(from.stream);
  packet.priority = from.priority.value_or(workload.streams[from.stream].priority);
  packet.in_graph = from.graph.has_value();
  packet.graph_last = from.graph && from.graph->last;
  if (from.moved) {
    packet.kind = SubmitKind::copy;
    packet.copy_from = from.moved->from;
    packet.copy_to = from.moved->to;
    packet.copy_bytes = from.bytes;
    return packet;
  }
  if (from.kind != OpKind::kernel) {
    packet.kind = SubmitKind::hold;
    packet.hold_ns = static_cast<double>(from.duration);
    return packet;
  }
  packet.kernel = static_cast<const arch::KernelShape&>(from.kernel);  // without its name
  if (!codes.empty()) packet.kernel.code = codes[op];
  packet.head = from.head;
  packet.programmatic = from.programmatic;
  if (from.queue) {
    packet.queue = from.queue->address;
    packet.entries = from.queue->entries;
    packet.held_open = !from.queue->until.empty();
  }
  return packet;
}

void StreamSubmitter::plan_edges(const workload::GraphUse& graph, const SubmitPacket& kernel, std::int64_t when) {
  SubmitPacket edge = kernel;
  edge.kind = SubmitKind::edge;
  edge.graph_last = false;
  for (const std::size_t before : graph.after) {
    edge.wait_for = static_cast<std::uint32_t>(before);
    items_.push_back({when, edge});
  }
}

// In a stream of its own, which waits for all that may append to the queue.
void StreamSubmitter::plan_closes(const workload::Workload& workload, const SubmitPacket& queue, std::int64_t when) {
  SubmitPacket packet;
  packet.operation = queue.operation;
  packet.stream = streams_++;
  gpu_.streams.set(packet.stream, fmt::format("end of the queue of operation {}", queue.operation));
  for (const std::size_t op : workload.ops[queue.operation].queue->until) {
    packet.kind = SubmitKind::wait;
    packet.wait_for = static_cast<std::uint32_t>(op);
    items_.push_back({when, packet});
  }
  packet.kind = SubmitKind::close;
  packet.wait_for = queue.operation;
  items_.push_back({when, packet});
}

// A switch keeps its time at any pace, and comes before the operations of the same nanosecond. How the machine is
// shared at first comes before everything.
void StreamSubmitter::plan_controls(const std::vector<workload::TpcSwitch>& switches,
                                    const std::vector<TimedShare>& shares) {
  std::vector<Item> controls;
  // Operations of a recording can be due before its begin, so that they start with it.
  std::int64_t begin = 0;
  for (const Item& item : items_) begin = std::min(begin, item.when);
  for (const TimedShare& share : shares) {
    SubmitPacket packet;
    packet.kind = SubmitKind::share;
    packet.share = share.packet;
    controls.push_back({share.when == 0 ? begin : share.when, packet});
  }
  for (const workload::TpcSwitch& change : switches) {
    SubmitPacket packet;
    packet.kind = SubmitKind::control;
    packet.tpc = {protocol::GpcId(change.gpc), protocol::TpcInGpc(change.tpc), change.enabled};
    controls.push_back({change.when, packet});
  }
  const auto earlier = [](const Item& a, const Item& b) { return a.when < b.when; };
  std::stable_sort(controls.begin(), controls.end(), earlier);
  std::vector<Item> all;
  auto control = controls.begin();
  for (Item& item : items_) {
    while (control != controls.end() && !earlier(item, *control)) all.push_back(*control++);
    all.push_back(std::move(item));
  }
  all.insert(all.end(), control, controls.end());
  items_ = std::move(all);
}

void StreamSubmitter::start() {
  HEDDLE_CHECK(next_ == 0 && !scheduled_, "a host was started twice");
  for (Item& item : items_) item.due = static_cast<Cycle>(std::max<std::int64_t>(0, item.when + lead_ - 1));
  schedule_next();
}

void StreamSubmitter::schedule_next() {
  if (next_ == items_.size() || !stretches_.has_begun(items_[next_].stretch) || scheduled_) return;
  scheduled_ = true;
  domain.schedule(std::max(domain.now(), items_[next_].due), *this, 0);
}

void StreamSubmitter::go_on() {
  HEDDLE_CHECK(rests(), "a stretch begins before the one ahead of it has ended");
  ++stretches_.now;
  schedule_next();
}

void StreamSubmitter::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  submit();
}

void StreamSubmitter::on_credit(std::uint32_t) { submit(); }

// An operation of another GPU has an id here, behind those of this one.
std::uint32_t StreamSubmitter::number_of(const workload::Edge& edge) {
  const auto operation = static_cast<std::uint32_t>(edge.from);
  if (!edge.gpu) return operation;
  const auto device = static_cast<std::uint32_t>(*edge.gpu);
  const auto next = static_cast<std::uint32_t>(results_.size() + remote_.size());
  const auto [found, added] = remote_.emplace(std::make_pair(device, operation), next);
  if (added) gpu_.labels.set(next, fmt::format("operation {} of gpu{}", operation, device));
  return found->second;
}

void StreamSubmitter::on_remote_end(const protocol::RemoteEndPacket& end, std::uint32_t) {
  const auto found = remote_.find({end.device, end.operation});
  if (found == remote_.end()) return;
  signals_.push(found->second);
  submit();
}

void StreamSubmitter::submit() {
  while (!signals_.empty()) {
    if (!submit_out.can_send()) return;
    SubmitPacket packet;
    packet.kind = SubmitKind::signal;
    packet.operation = signals_.pop();
    submit_out.send(packet);
  }
  while (next_ < items_.size() && stretches_.has_begun(items_[next_].stretch) && items_[next_].due <= domain.now()) {
    if (!submit_out.can_send()) return;  // on_credit() comes back
    submit_out.send(items_[next_].packet);
    ++next_;
  }
  schedule_next();
}

void StreamSubmitter::on_done(const protocol::DonePacket& done, std::uint32_t) {
  HEDDLE_CHECK(done.operation < results_.size() && !results_[done.operation].done, "an operation was reported twice");
  // The difference in whole ticks: after a reset the results are those of a fresh machine to the last bit.
  const sc_core::sc_time origin = domain.clock().time_of(0);
  const auto ns = [&](const sc_core::sc_time& time) {
    return (time - origin).to_seconds() * 1e9 - static_cast<double>(lead_);
  };
  results_[done.operation] = {true,
                              done.status == protocol::DoneStatus::rejected,
                              done.status == protocol::DoneStatus::faulted,
                              ns(sc_time_of(done.submitted)),
                              ns(sc_time_of(done.start)),
                              ns(sc_time_of(done.end))};
  ++done_;
  if (told_.count(done.operation) == 0) return;
  for (std::uint32_t link = 0; link < ends_out.links(); ++link) ends_out.send({device_, done.operation}, link);
}

void StreamSubmitter::reset() {
  next_ = 0;
  signals_.clear();
  scheduled_ = false;
  done_ = stretches_.left_out;
  stretches_.now = 0;
  std::fill(results_.begin(), results_.end(), OpResult{});
}

// Operations that wait behind another one which has not even been submitted: the host is at fault, not the GPU.
void StreamSubmitter::collect_waits(WaitGraph& graph) const {
  const auto next =
      std::find_if(items_.begin() + static_cast<std::ptrdiff_t>(next_), items_.end(), [](const Item& item) {
        return item.packet.kind != SubmitKind::control && item.packet.kind != SubmitKind::share;
      });
  if (next != items_.end()) graph.add(gpu_.labels.of(next->packet.operation), "to be submitted by", "the host");
}

}  // namespace heddle::replay

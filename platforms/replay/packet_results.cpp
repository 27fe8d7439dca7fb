#include "replay/packet_results.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::replay {

PacketResults::PacketResults(std::size_t operations, std::size_t queues, double lead,
                             std::function<double(Cycle)> ns_of)
    : lead_(lead), ns_of_(std::move(ns_of)), sent_(queues), results_(operations), started_(operations, false) {}

void PacketResults::sent(std::uint32_t queue, const PreparedPacket& packet, double begun) {
  sent_[queue].push_back({packet.ops, packet.begins, packet.ends, begun});
}

const PacketResults::Sent& PacketResults::sent_of(std::uint32_t queue, std::uint64_t index) const {
  HEDDLE_CHECK(queue < sent_.size() && index < sent_[queue].size(), "a packet is told of that was never sent");
  return sent_[queue][index];
}

std::size_t PacketResults::dispatched(const packet::PacketRecord& record) {
  const Sent& sent = sent_of(record.queue, record.index);
  HEDDLE_CHECK(record.kernel < sent.ops.size(), "a packet launches more kernels than were put into it");
  const std::size_t op = sent.ops[record.kernel];
  HEDDLE_CHECK(!started_[op], "an operation was launched twice");
  started_[op] = true;
  operation_of_[record.operation] = op;
  return op;
}

void PacketResults::done(const packet::PacketRecord& record) {
  const Sent& sent = sent_of(record.queue, record.index);
  if (sent.ops.empty()) return;  // a barrier packet
  HEDDLE_CHECK(record.kernel < sent.ops.size(), "a packet ends more kernels than were put into it");
  end(sent.ops[record.kernel], record, sent);
}

void PacketResults::end(std::size_t op, const packet::PacketRecord& record, const Sent& sent) {
  OpResult& result = results_[op];
  if (result.done) {
    HEDDLE_CHECK(result.rejected, "an operation was reported twice");
    return;  // the queue has stopped, and its end was told before that of its packet
  }
  const packet::PacketTimes& t = record.times;
  const auto axis = [this](Cycle cycle) { return ns_of_(cycle) - lead_; };
  const bool bad = record.status != arch::HsaStatus::success;
  if (sent.begins) {
    result.submitted = sent.begun - lead_;
    result.start = axis(t.started);
  }
  result.end = axis(t.ended);
  started_[op] = true;
  const bool kernel = record.type != arch::PacketType::vendor;
  if (kernel && t.ended > 0) {
    PacketLaunch launch{
        op, record.queue, record.index, record.kernel, record.kernels, record.type, record.status, record.reason, {}};
    // The doorbell of a packet before it may have made it be found: then it counts from when it was there.
    const double told = std::max(sent.begun, ns_of_(t.doorbell));
    launch.times = {sent.begun,        told,
                    ns_of_(t.fetched), ns_of_(t.ready),
                    ns_of_(t.decoded), ns_of_(t.dispatched),
                    ns_of_(t.started), ns_of_(t.ended),
                    ns_of_(t.cleaned)};
    launches_.push_back(launch);
  }
  if (!sent.ends && !bad) return;
  result.done = true;
  result.faulted = record.status == arch::HsaStatus::exception;
  result.rejected = bad && !result.faulted;
  if (t.ended == 0) result.start = result.end = result.submitted;  // it never ran
  ++ended_;
}

std::vector<std::size_t> PacketResults::stopped(std::uint32_t queue, std::uint64_t index,
                                                const std::vector<std::size_t>& unsent, double now) {
  std::vector<std::size_t> ended;
  const auto drop = [&](std::size_t op) {
    OpResult& result = results_[op];
    if (result.done || std::find(ended.begin(), ended.end(), op) != ended.end()) return;
    result.done = result.rejected = true;
    result.submitted = result.start = result.end = now - lead_;
    ++ended_;
    ended.push_back(op);
  };
  const std::vector<Sent>& sent = sent_[queue];
  for (std::size_t i = static_cast<std::size_t>(index); i < sent.size(); ++i) {
    for (const std::size_t op : sent[i].ops) {
      const bool runs = started_[op] && sent[i].begins && sent[i].ends;
      if (!runs) drop(op);
    }
  }
  for (const std::size_t op : unsent) drop(op);
  return ended;
}

}  // namespace heddle::replay

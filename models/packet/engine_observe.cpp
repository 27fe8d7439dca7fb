// What the outside sees: records, statistics, the timeline.
#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "packet/engine.h"

namespace heddle::packet {

using arch::HsaStatus;
using protocol::QueueState;

namespace {

// Phases that were not reached end with the last one that was.
void fill(PacketTimes& times) {
  times.fetched = std::max(times.fetched, times.doorbell);
  times.ready = std::max(times.ready, times.fetched);
  times.decoded = std::max(times.decoded, times.ready);
  times.dispatched = std::max(times.dispatched, times.decoded);
  times.started = std::max(times.started, times.dispatched);
  times.ended = std::max(times.ended, times.started);
  times.cleaned = std::max(times.cleaned, times.ended);
}

}  // namespace

PacketRecord PacketProcessor::Engine::record_of(const Packet& packet, std::uint32_t kernel) const {
  PacketRecord record;
  record.queue = packet.queue;
  record.index = packet.index;
  record.kernel = kernel;
  record.kernels = std::max(1U, static_cast<std::uint32_t>(packet.kernels.size()));
  record.type = packet.type;
  record.status = packet.status;
  record.times = packet.times;
  if (kernel < packet.kernels.size()) {
    const Kernel& part = packet.kernels[kernel];
    record.operation = part.operation;
    record.name = part.object.name;
    if (packet.launched || part.times.dispatched > 0) record.times = part.times;
    if (part.status != HsaStatus::success || kernel + 1 < packet.kernels.size()) {
      record.status = packet.launched ? part.status : packet.status;
    }
  }
  fill(record.times);
  return record;
}

void PacketProcessor::Engine::report(Packet& packet, std::uint32_t kernel) {
  const PacketRecord record = record_of(packet, kernel);
  Queue& queue = queues_[packet.queue];
  const bool has_kernel = packet.launched && kernel < packet.kernels.size();
  if (has_kernel) stats_.add_phases(record, domain_.clock());
  if (listener_ != nullptr) listener_->packet_done(record);
  if (packet.launched) {
    std::uint32_t& lane = has_kernel ? packet.kernels[kernel].lane : packet.lane;
    draw(queue, record, lane);
    give_lane(queue, lane);
  }
  if (has_kernel) gpu_observation(domain_).labels.forget(record.operation);
}

// The queue's own line shows what has its turn, and lines below it what has been launched.
void PacketProcessor::Engine::draw(Queue& queue, const PacketRecord& record, std::uint32_t lane) {
  TimelineSink* sink = block_.timeline();
  if (sink == nullptr || lane == kNone) return;
  const Timebase& clock = domain_;
  const auto number = static_cast<std::uint32_t>(&queue - queues_.data());
  const std::string group = domain_.observation().prefix + " queues";
  const std::string line = fmt::format("queue {}", number);
  const TrackId turn = sink->track(group, line);
  const TrackId runs = sink->track(group, fmt::format("{} lane {}", line, lane));
  const std::string name = record.name.empty() ? packet_text(record.type) : record.name;
  const auto slice = [&](TrackId track, Cycle from, Cycle to, const std::string& text) {
    if (to <= from) return;
    sink->slice(track, clock.time_of(from), clock.time_of(to), text,
                {{"packet", static_cast<std::int64_t>(record.index)},
                 {"kernel", record.kernel},
                 {"operation", record.operation}});
  };
  const PacketTimes& times = record.times;
  slice(turn, times.ready, times.decoded, "decode " + name);
  slice(turn, times.decoded, times.dispatched, "dispatch " + name);
  slice(runs, times.dispatched, times.started, "launch");
  slice(runs, times.started, times.ended, name);
  slice(runs, times.ended, times.cleaned, "clean-up");
}

void PacketProcessor::Engine::take_lane(Queue& queue, std::uint32_t& lane) {
  if (block_.timeline() == nullptr) return;
  const auto free = std::find(queue.lanes.begin(), queue.lanes.end(), false);
  lane = static_cast<std::uint32_t>(free - queue.lanes.begin());
  if (free == queue.lanes.end()) queue.lanes.push_back(false);
  queue.lanes[lane] = true;
}

void PacketProcessor::Engine::give_lane(Queue& queue, std::uint32_t& lane) {
  if (lane != kNone) queue.lanes[lane] = false;
  lane = kNone;
}

// Why nothing of the queue is decoded or launched; null: there is nothing, or it is.
const char* PacketProcessor::Engine::wait_of(const Queue& queue) const {
  if (queue.state != QueueState::active) return nullptr;
  if (queue.turn == kNone) {
    const QueueCore::Fetched* front = queue.core.front();
    if (front == nullptr) return nullptr;
    if (front->slot == QueueCore::Slot::published) return "barrier bit";
    const bool again = queue.retries > 0 && queue.retried == queue.core.front_index();
    return front->slot == QueueCore::Slot::unpublished || again ? "packet not published" : nullptr;
  }
  switch (packets_[queue.turn].stage) {
    case Stage::decoder:
      return "decoder busy";
    case Stage::barrier:
      return "barrier bit";
    case Stage::signals:
      return "dependency signal";
    case Stage::agent:
      return "agent packet before it";
    case Stage::limit:
      return "limit of kernels in flight";
    default:
      return nullptr;
  }
}

void PacketProcessor::Engine::note_wait(std::uint32_t number) {
  TimelineSink* sink = block_.timeline();
  if (sink == nullptr) return;
  Queue& queue = queues_[number];
  const char* wait = wait_of(queue);
  if (wait == queue.wait) return;
  if (queue.wait != nullptr && now() > queue.wait_since) {
    const TrackId track = sink->track(domain_.observation().prefix + " queues", fmt::format("queue {} waits", number));
    sink->slice(track, domain_.time_of(queue.wait_since), domain_.time_of(now()), queue.wait);
  }
  queue.wait = wait;
  queue.wait_since = now();
}

void PacketProcessor::Engine::note_open() { stats_.open.set(static_cast<double>(open())); }

}  // namespace heddle::packet

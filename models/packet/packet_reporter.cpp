#include "packet/packet_reporter.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::packet {

PacketReporter::PacketReporter(Timebase& timebase, const std::string& path, const Nanoseconds& clock,
                               const QueueWaits& waits, std::uint32_t queues)
    : timebase_(timebase),
      observation_(gpu_observation(timebase)),
      clock_(clock),
      waits_(waits),
      stats_(observation_.stats, observation_.prefix + "." + path),
      queues_(queues) {}

PacketRecord PacketReporter::record_of(const Packet& packet, std::uint32_t kernel) {
  PacketRecord record;
  record.queue = packet.queue;
  record.index = packet.index;
  record.kernel = kernel;
  record.kernels = std::max(1U, static_cast<std::uint32_t>(packet.kernels.size()));
  record.type = packet.type;
  arch::HsaResult outcome = packet.outcome;
  record.times = packet.times;
  if (kernel < packet.kernels.size()) {
    const Kernel& part = packet.kernels[kernel];
    record.operation = part.operation;
    record.name = part.object.name;
    if (packet.launched() || part.times.dispatched > 0) record.times = part.times;
    const bool own = !part.outcome.ok() || kernel + 1 < packet.kernels.size();
    if (own && packet.launched()) outcome = part.outcome;
  }
  record.status = outcome.status;
  record.reason = outcome.reason;
  record.times.fill();
  return record;
}

void PacketReporter::kernel_dispatched(Packet& packet, std::uint32_t kernel) {
  Kernel& part = packet.kernels[kernel];
  take_lane(packet.queue, part.lane);
  observation_.labels.set(
      part.operation, fmt::format("{} (queue {}, packet {})", part.object.name.empty() ? "kernel" : part.object.name,
                                  packet.queue, packet.index));
  stats_.kernels.add();
  progress();
  if (listener_ != nullptr) listener_->kernel_dispatched(record_of(packet, kernel));
}

void PacketReporter::done(Packet& packet, std::uint32_t kernel) {
  const PacketRecord record = record_of(packet, kernel);
  const bool has_kernel = packet.launched() && kernel < packet.kernels.size();
  if (has_kernel) stats_.add_phases(record.times, clock_);
  if (listener_ != nullptr) listener_->packet_done(record);
  if (packet.launched()) {
    std::optional<std::uint32_t>& lane = has_kernel ? packet.kernels[kernel].lane : packet.lane;
    draw(packet.queue, record, lane);
    give_lane(packet.queue, lane);
  }
  if (has_kernel) forget_label(record.operation);
}

// The queue's own line shows its head, and lines below it show what has been launched.
void PacketReporter::draw(std::uint32_t queue, const PacketRecord& record, std::optional<std::uint32_t> lane) {
  TimelineSink* sink = observation_.timeline;
  if (sink == nullptr || !lane) return;
  const std::string line = fmt::format("queue {}", queue);
  const TrackId head = sink->track(group(), line);
  const TrackId runs = sink->track(group(), fmt::format("{} lane {}", line, *lane));
  const std::string name = record.name.empty() ? packet_text(record.type) : record.name;
  const auto slice = [&](TrackId track, Cycle from, Cycle to, const std::string& text) {
    if (to <= from) return;
    sink->slice(track, timebase_.time_of(from), timebase_.time_of(to), text,
                {{"packet", static_cast<std::int64_t>(record.index)},
                 {"kernel", record.kernel},
                 {"operation", record.operation}});
  };
  const PacketTimes& times = record.times;
  slice(head, times.ready, times.decoded, "decode " + name);
  slice(head, times.decoded, times.dispatched, "dispatch " + name);
  slice(runs, times.dispatched, times.started, "launch");
  slice(runs, times.started, times.ended, name);
  slice(runs, times.ended, times.cleaned, "clean-up");
  if (times.dispatched <= times.decoded || times.started <= times.dispatched) return;
  const auto mark = [this](TrackId track, Cycle from, Cycle to) {
    return TimelineMark{track, timebase_.time_of(from), timebase_.time_of(to)};
  };
  sink->flow(mark(head, times.decoded, times.dispatched), mark(runs, times.dispatched, times.started));
}

void PacketReporter::take_lane(std::uint32_t queue, std::optional<std::uint32_t>& lane) {
  if (observation_.timeline == nullptr) return;
  std::vector<bool>& lanes = queues_[queue].lanes;
  const auto free = std::find(lanes.begin(), lanes.end(), false);
  lane = static_cast<std::uint32_t>(free - lanes.begin());
  if (free == lanes.end()) lanes.push_back(false);
  lanes[*lane] = true;
}

void PacketReporter::give_lane(std::uint32_t queue, std::optional<std::uint32_t>& lane) {
  if (lane) queues_[queue].lanes[*lane] = false;
  lane.reset();
}

void PacketReporter::note_wait(std::uint32_t queue) {
  TimelineSink* sink = observation_.timeline;
  if (sink == nullptr) return;
  Queue& its = queues_[queue];
  const char* wait = waits_.wait_reason(queue);
  if (wait == its.wait) return;
  const Cycle now = timebase_.now();
  if (its.wait != nullptr && now > its.wait_since) {
    const TrackId track = sink->track(group(), fmt::format("queue {} waits", queue));
    sink->slice(track, timebase_.time_of(its.wait_since), timebase_.time_of(now), its.wait);
  }
  its.wait = wait;
  its.wait_since = now;
}

void PacketReporter::reset() {
  queues_.assign(queues_.size(), Queue());
  stats_.in_flight.set(0);
  stats_.open.set(0);
}

}  // namespace heddle::packet

#include "cuda/cudart/host_streams.h"

#include <algorithm>
#include <utility>

namespace heddle::cuda {

HostStream& HostStreams::add(std::int32_t priority, bool blocking) {
  auto made = std::make_unique<HostStream>();
  const auto idle = std::find_if(freed_.begin(), freed_.end(),
                                 [this](const Freed& freed) { return !freed.last || device_.done(*freed.last); });
  made->number = idle == freed_.end() ? next_++ : idle->number;
  if (idle != freed_.end()) freed_.erase(idle);
  made->priority = priority;
  made->blocking = blocking;
  streams_.push_back(std::move(made));
  return *streams_.back();
}

void HostStreams::remove(HostStream& stream) {
  // The default stream waits for what is left of it.
  if (stream.blocking) wait(default_, open(stream));
  freed_.push_back({stream.number, stream.last});
  streams_.erase(
      std::remove_if(streams_.begin(), streams_.end(), [&](const auto& one) { return one.get() == &stream; }),
      streams_.end());
}

bool HostStreams::has(const HostStream* stream) const {
  return stream == &default_ ||
         std::any_of(streams_.begin(), streams_.end(), [stream](const auto& one) { return one.get() == stream; });
}

void HostStreams::add_open(std::vector<std::uint32_t>& to, const HostStream& stream) const {
  for (const std::uint32_t operation : stream.pending) {
    if (!device_.done(operation)) to.push_back(operation);
  }
  if (stream.last && !device_.done(*stream.last)) to.push_back(*stream.last);
}

// The default stream waits for all that are not non-blocking, and they wait for it.
std::vector<std::uint32_t> HostStreams::open(const HostStream& stream) const {
  std::vector<std::uint32_t> operations;
  add_open(operations, stream);
  if (&stream == &default_) {
    for (const auto& other : streams_) {
      if (other->blocking) add_open(operations, *other);
    }
  } else if (stream.blocking) {
    add_open(operations, default_);
  }
  return operations;
}

void HostStreams::wait(HostStream& stream, const std::vector<std::uint32_t>& operations) {
  for (const std::uint32_t operation : operations) {
    if (!device_.done(operation)) stream.pending.push_back(operation);
  }
}

std::uint32_t HostStreams::submit(HostStream& stream, protocol::SubmitPacket packet, Operation record) {
  const std::uint32_t id = device_.next_id();
  packet.operation = id;
  packet.stream = stream.number;
  packet.priority = stream.priority;
  std::vector<protocol::SubmitPacket> packets;
  for (const std::uint32_t operation : open(stream)) {
    if (stream.last && operation == *stream.last) continue;  // its stream sees to that
    protocol::SubmitPacket wait = packet;
    wait.kind = protocol::SubmitKind::wait;
    wait.wait_for = operation;
    packets.push_back(wait);
  }
  packets.push_back(packet);
  record.stream = stream.number;
  record.priority = stream.priority;
  stream.last = device_.submit(packets, std::move(record));
  stream.pending.clear();
  return id;
}

void HostStreams::leave_capture(std::uint64_t capture) {
  for (const auto& stream : streams_) {
    if (stream->capture != capture) continue;
    stream->capture = 0;
    stream->nodes.clear();
  }
}

void HostStreams::record(HostEvent& event, const HostStream& stream) const {
  event.recorded = true;
  event.host_ns = device_.now();
  event.operations = open(stream);
  event.capture = 0;
  event.nodes.clear();
}

bool HostStreams::complete(const HostEvent& event) const {
  return std::all_of(event.operations.begin(), event.operations.end(),
                     [this](std::uint32_t operation) { return device_.done(operation); });
}

double HostStreams::time_of(const HostEvent& event) const {
  double time = event.host_ns;
  for (const std::uint32_t operation : event.operations) time = std::max(time, device_.operations()[operation].end);
  return time;
}

}  // namespace heddle::cuda

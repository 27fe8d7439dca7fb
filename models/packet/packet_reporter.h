// What the outside sees of packets: records for a listener, statistics, lines of the timeline. Nothing here changes
// what the processor does.
#pragma once

#include <string>
#include <vector>

#include "arch/gpu_observation.h"
#include "packet/active_packet.h"
#include "packet/packet_stats.h"

namespace heddle::packet {

// Knows why nothing of a queue is decoded or launched.
class QueueWaits {
 public:
  // Null: there is nothing to be decoded or launched, or it is.
  virtual const char* wait_reason(std::uint32_t queue) const = 0;

 protected:
  ~QueueWaits() = default;
};

class PacketReporter {
 public:
  // `path`: of the block, without the prefix of the device.
  PacketReporter(Timebase& timebase, const std::string& path, const Nanoseconds& clock, const QueueWaits& waits,
                 std::uint32_t queues);

  PacketStats& stats() { return stats_; }
  void listen(PacketListener& listener) { listener_ = &listener; }
  // Work has been taken in, started or finished.
  void progress() { ++observation_.progress; }

  // The kernel goes to task management: it has its operation id.
  void kernel_dispatched(Packet& packet, std::uint32_t kernel);
  // A packet without kernels has been launched.
  void launched(Packet& packet) { take_lane(packet.queue, packet.lane); }
  // The kernel, or the packet without kernels, is complete or bad.
  void done(Packet& packet, std::uint32_t kernel);
  void forget_label(std::uint32_t operation) { observation_.labels.forget(operation); }
  std::string label(std::uint32_t operation) const { return observation_.labels.of(operation); }

  // The reason for which the queue waits may have changed.
  void note_wait(std::uint32_t queue);
  void open_queue(std::uint32_t queue) { queues_[queue] = Queue(); }
  void reset();

 private:
  struct Queue {
    const char* wait = nullptr;
    Cycle wait_since = 0;
    std::vector<bool> lanes;  // true: taken
  };

  static PacketRecord record_of(const Packet& packet, std::uint32_t kernel);
  void draw(std::uint32_t queue, const PacketRecord& record, std::uint32_t lane);
  void take_lane(std::uint32_t queue, std::uint32_t& lane);
  void give_lane(std::uint32_t queue, std::uint32_t& lane);
  std::string group() const { return observation_.prefix + " queues"; }

  Timebase& timebase_;
  GpuObservation& observation_;
  const Nanoseconds clock_;
  const QueueWaits& waits_;
  PacketStats stats_;
  PacketListener* listener_ = nullptr;
  std::vector<Queue> queues_;
};

}  // namespace heddle::packet

// From operations to the packets that carry them, queue by queue in their order. Plain C++ over the host library.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "heddle_plan.h"
#include "replay/packet_memory.h"
#include "replay/packet_plan.h"
#include "workload/packet_options.h"

namespace heddle::replay {

struct PreparedPacket {
  heddle_packet packet{};
  std::vector<std::size_t> ops;  // kernels in their order, or a copy; empty: a barrier packet
  bool begins = true;            // a copy in parts: its first,
  bool ends = true;              // and its last
  bool ring = true;              // the doorbell rings after it
};

struct EncoderParams {
  workload::PacketOptions options;
  heddle_plan_costs costs{};
  bool overlap = false;       // the machine overlaps the kernels of a condensed packet
  bool shared_table = false;  // one reference state table for all queues
};

class PacketEncoder {
 public:
  // All must outlive it.
  PacketEncoder(const workload::Workload& workload, const PacketPlan& plan, const PacketMemory& memory,
                const EncoderParams& params);

  // Appends the packets of the next operations of a queue, from PlannedQueue::ops[place] on, of which `ready` are there
  // (1 or more). Returns how many of these it has taken.
  std::size_t prepare(std::uint32_t queue, std::size_t place, std::size_t ready, std::deque<PreparedPacket>& out);

  heddle_dispatch dispatch_of(std::size_t op) const;
  // Prepared packets that count in PacketMemory::queue_signals.
  std::uint64_t counted(std::uint32_t queue) const { return queues_[queue].counted; }

 private:
  struct Queue {
    heddle_table table{};
    std::uint8_t entries = 0;                       // bit = table entry that it may use; 0: none
    std::map<std::uint64_t, std::uint32_t> stored;  // reference packets so far, by kernel object
    std::uint64_t counted = 0;
  };

  std::size_t batch_of(std::uint32_t queue, std::size_t place, std::size_t ready) const;
  void barriers(std::size_t op, std::deque<PreparedPacket>& out) const;
  void signal(heddle_dispatch& dispatch, std::size_t op);
  void kernel(Queue& queue, std::size_t op, std::deque<PreparedPacket>& out);
  void condensed(Queue& queue, const std::vector<std::size_t>& ops, std::deque<PreparedPacket>& out);
  void copy(std::size_t op, std::deque<PreparedPacket>& out) const;
  void part(std::size_t op, std::uint64_t bytes, std::uint64_t signal, heddle_packet& packet) const;
  bool last_of_queue(std::size_t op) const;
  std::uint64_t signal_of(std::size_t op) const;

  const workload::Workload& workload_;
  const PacketPlan& plan_;
  const PacketMemory& memory_;
  const EncoderParams params_;
  std::vector<Queue> queues_;
  std::vector<std::uint64_t> workspace_;
};

}  // namespace heddle::replay

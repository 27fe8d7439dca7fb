// From operations to the packets that carry them, queue by queue in their order. Plain C++ over the host library.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "arch/kernel_object.h"
#include "heddle_plan.h"
#include "replay/packet_plan.h"
#include "replay/submission.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::replay {

// Where everything lies that a host of packets keeps in memory: rings, indices, signals, kernel objects, arguments, and
// what copies move. Plain C++.

// Hands out memory from `begin` up, or from `end` down. Addresses are unified.
class Area {
 public:
  Area(std::string name, std::uint64_t begin, std::uint64_t end, bool downwards)
      : name_(std::move(name)), begin_(begin), end_(end), downwards_(downwards) {}
  // `align`: a power of two. Throws InputError if there is no room.
  std::uint64_t take(std::uint64_t bytes, std::uint64_t align);
  std::uint64_t left() const { return end_ - begin_; }
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }

 private:
  std::string name_;
  std::uint64_t begin_;
  std::uint64_t end_;
  bool downwards_;
};

struct MemoryWrite {
  std::uint64_t address = 0;  // unified
  std::vector<std::uint8_t> bytes;
};

constexpr std::uint64_t kManySignals = std::uint64_t{1} << 40;

struct PacketMemory {
  struct Ring {
    std::uint64_t base = 0;
    std::uint64_t read_index = 0;
  };
  struct Scratch {
    std::uint64_t host = 0;
    std::uint64_t device[2] = {0, 0};
    std::uint64_t bytes = 0;  // of each
  };
  std::vector<Ring> rings;
  std::vector<std::uint64_t> signals;  // handles, by number
  std::vector<std::uint64_t>
      queue_signals;  // handles, by queue: of packets that nobody waits for; kManySignals at first
  std::vector<std::uint64_t> kernel_objects;  // by operation
  std::vector<heddle_kernel_object> objects;  // what lies there, by operation; without names
  std::vector<std::uint64_t> kernargs;        // by operation; 0: none
  Scratch scratch;
  std::vector<MemoryWrite> contents;  // when the run begins
};

// `codes`: numbers of the kernels' programs, by operation; empty: none. `host` is shared by all GPUs; `device`: below
// what the machine itself uses. Launches of a recording have arguments of their own, in a ring of kArgumentBlocks; the
// contents do not matter. Throws InputError where a kernel does not fit packets or memory is too small.
constexpr std::uint32_t kArgumentBlocks = 4096;
constexpr std::uint64_t kArgumentBytes = 256;
constexpr std::uint64_t kMostScratch = std::uint64_t{16} << 30;
PacketMemory lay_out(const workload::Workload& workload, const std::vector<std::uint32_t>& codes,
                     const PacketPlan& plan, const workload::PacketOptions& options, const SubmissionParams& params,
                     Area& host, Area& device);

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
  bool overlap = false;         // the machine overlaps the kernels of a condensed packet
  bool shared_table = false;    // one reference state table for all queues
  heddle_diff_format format{};  // of its condensed packets; all 0: that of the text
  unsigned table_entries = HEDDLE_REFERENCE_ENTRIES;
};

class PacketEncoder {
 public:
  // All must outlive it.
  PacketEncoder(const workload::Workload& workload, const PacketPlan& plan, const PacketMemory& memory,
                const EncoderParams& params);

  struct Prepared {
    std::size_t taken = 0;    // operations
    std::size_t planned = 0;  // of them, the kernels of a list for which the best packets were looked for
  };
  // Appends the packets of the next operations of a queue, from PlannedQueue::ops[place] on, of which `ready` are there
  // (1 or more).
  Prepared prepare(std::uint32_t queue, std::size_t place, std::size_t ready, std::deque<PreparedPacket>& out);

  heddle_dispatch dispatch_of(std::size_t op) const;
  // Prepared packets that count in PacketMemory::queue_signals.
  std::uint64_t counted(std::uint32_t queue) const { return queues_[queue].counted; }

 private:
  struct Queue {
    heddle_table table{};
    std::uint32_t entries = 0;                      // bit = table entry that it may use; 0: none
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

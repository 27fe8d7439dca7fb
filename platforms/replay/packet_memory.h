// Where everything lies that a host of packets keeps in memory: rings, indices, signals, kernel objects, arguments, and
// what copies move. Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/kernel_object.h"
#include "replay/packet_plan.h"
#include "replay/submission.h"
#include "workload/packet_options.h"
#include "workload/workload.h"

namespace heddle::replay {

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
  std::vector<std::uint64_t> kernargs;        // by operation; 0: none
  Scratch scratch;
  std::vector<MemoryWrite> contents;  // when the run begins
};

// `codes`: numbers of the kernels' programs, by operation; empty: none. `host` is shared by all GPUs; `device`: below
// what the machine itself uses. Launches of a recording have arguments of their own, in a ring of kArgumentBlocks; the
// contents do not matter. Throws InputError where a kernel does not fit packets or memory is too small.
constexpr std::uint32_t kArgumentBlocks = 4096;
constexpr std::uint64_t kArgumentBytes = 256;
constexpr std::uint64_t kMostScratch = std::uint64_t{256} << 20;
PacketMemory lay_out(const workload::Workload& workload, const std::vector<std::uint32_t>& codes,
                     const PacketPlan& plan, const workload::PacketOptions& options, const SubmissionParams& params,
                     Area& host, Area& device);

}  // namespace heddle::replay

// Where the time of a kernel goes that was launched by a packet (PKT-08). Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/aql_packet.h"
#include "arch/hsa_status.h"

namespace heddle::replay {

enum class Part : std::uint8_t { enqueue, fetch, wait, decode, dispatch, launch, execution, clean_up };
constexpr std::size_t kParts = 8;
// "clean_up", for files and statistics; what it is, in words.
const char* part_key(Part part);
const char* part_text(Part part);

// One kernel. Times in nanoseconds on the simulation's axis.
struct PacketLaunch {
  std::size_t op = 0;
  std::uint32_t queue = 0;
  std::uint64_t index = 0;    // of its packet
  std::uint32_t kernel = 0;   // which of the packet
  std::uint32_t kernels = 1;  // of the packet
  arch::PacketType type = arch::PacketType::kernel_dispatch;
  arch::HsaStatus status = arch::HsaStatus::success;
  // The ends of its parts: the host begins to write, doorbell, fetched, ready, decoded, dispatched, started, ended,
  // cleaned.
  std::array<double, kParts + 1> times{};

  // Of a part, 0 or more. What a condensed packet takes as a whole counts for its first kernel.
  double part_ns(Part part) const;
};

using Parts = std::array<double, kParts>;  // ns

// The parts as they lie behind each other: of every launch, what no earlier launch of its queue covers. In a queue that
// always has work they add up to the time from the first enqueue to the last clean-up. By launch.
std::vector<Parts> own_parts(const std::vector<PacketLaunch>& launches);

}  // namespace heddle::replay

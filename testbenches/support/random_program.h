// Random operations in streams, with waits between streams that never form a circle.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "support/random.h"
#include "support/scripted_host.h"

namespace heddle::test {

struct Program {
  std::vector<protocol::SubmitPacket> packets;                 // in an order of submission that keeps streams in order
  std::map<std::uint32_t, protocol::SubmitPacket> work;        // kernels and holds by operation
  std::map<std::uint32_t, std::vector<std::uint32_t>> before;  // what must have ended: stream predecessor and waits
};

struct ProgramLimits {
  std::uint32_t operations = 30;
  std::uint32_t streams = 5;
  std::uint32_t max_ctas = 60;
  std::uint32_t max_cycles = 500;
  bool oversized = false;  // some kernels that no SM can hold
};

inline protocol::SubmitPacket random_kernel(Random& random, std::uint32_t operation, std::uint32_t stream,
                                            const ProgramLimits& limits) {
  const std::uint32_t x = random.between(1, limits.max_ctas);
  protocol::SubmitPacket packet = kernel_packet(operation, stream, {x, 1, 1}, {random.between(1, 1024), 1, 1});
  if (random.chance(30)) packet.kernel.grid = {(x + 5) / 6, random.between(1, 3), random.between(1, 2)};
  if (random.chance(50)) packet.kernel.registers_per_thread = random.between(16, 64);
  if (random.chance(40)) packet.kernel.shared_bytes = random.between(0, 100'000);
  packet.kernel.duration.min = random.between(0, limits.max_cycles);
  packet.kernel.duration.max =
      packet.kernel.duration.min + (random.chance(50) ? 0 : random.below(limits.max_cycles + 1));
  packet.priority = static_cast<std::int32_t>(random.below(3)) - 1;
  if (limits.oversized && random.chance(10)) packet.kernel.block = {1024, 2, 1};
  return packet;
}

inline Program random_program(Random& random, const ProgramLimits& limits) {
  Program program;
  std::vector<std::vector<protocol::SubmitPacket>> streams(limits.streams);
  std::vector<std::vector<std::uint32_t>> last(limits.streams);
  for (std::uint32_t operation = 0; operation < limits.operations; ++operation) {
    const std::uint32_t s = random.below(limits.streams);
    const std::uint32_t stream = s * 7 + 3;  // numbers need not be dense
    std::vector<std::uint32_t>& before = program.before[operation];
    before = last[s];
    while (operation > 0 && random.chance(30)) {
      const std::uint32_t other = random.below(operation);
      streams[s].push_back(wait_packet(operation, stream, other));
      before.push_back(other);
    }
    const protocol::SubmitPacket packet = random.chance(20)
                                              ? hold_packet(operation, stream, random.below(limits.max_cycles * 2))
                                              : random_kernel(random, operation, stream, limits);
    streams[s].push_back(packet);
    program.work[operation] = packet;
    last[s] = {operation};
  }
  // Streams are mixed at random: a wait may be submitted before what it waits for.
  std::vector<std::size_t> next(limits.streams, 0);
  for (;;) {
    std::vector<std::uint32_t> open;
    for (std::uint32_t s = 0; s < limits.streams; ++s) {
      if (next[s] < streams[s].size()) open.push_back(s);
    }
    if (open.empty()) return program;
    const std::uint32_t s = open[random.below(open.size())];
    program.packets.push_back(streams[s][next[s]++]);
  }
}

}  // namespace heddle::test

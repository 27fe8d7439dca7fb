// What became of every kernel and every other packet of user-mode queues: when each phase of it began (PKT-08).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "arch/aql_packet.h"
#include "common/cycle.h"

namespace heddle::packet {

// "kernel dispatch", "undefined"
constexpr const char* packet_text(arch::PacketType type) {
  constexpr std::array<const char*, arch::kPacketTypes> kTexts{
      "vendor",         "invalid",    "kernel dispatch",    "barrier-AND",
      "agent dispatch", "barrier-OR", "reference dispatch", "condensed dispatch"};
  const auto number = static_cast<std::size_t>(type);
  return number < kTexts.size() ? kTexts[number] : "undefined";
}

// Cycles of the GPU's domain. A phase that a packet does not have takes no time: equal ends.
struct PacketTimes {
  Cycle doorbell = 0;    // the doorbell that told of the packet arrived
  Cycle fetched = 0;     // the packet is in the processor
  Cycle ready = 0;       // its turn: in order, barrier bit and dependency signals satisfied, the decoder is its own
  Cycle decoded = 0;     // decoded, kernel objects and table entries read, acquire fence done. The second and further
                         // kernels of a condensed packet have no phases up to here but an acquire fence of their own,
                         // if their diff asks for one: doorbell, fetched and ready are when nothing else but the
                         // dispatch was left: the kernel before has been dispatched (if they overlap), or all before it
                         // are back, with what they ask for of release fence and signal
  Cycle dispatched = 0;  // handed to task management
  Cycle started = 0;     // first launch packet
  Cycle ended = 0;       // last completion at the distributor
  Cycle cleaned = 0;     // release fence done, signal written (if it has any of that)

  // Phases that were not reached end with the last one that was.
  void fill() {
    fetched = std::max(fetched, doorbell);
    ready = std::max(ready, fetched);
    decoded = std::max(decoded, ready);
    dispatched = std::max(dispatched, decoded);
    started = std::max(started, dispatched);
    ended = std::max(ended, started);
    cleaned = std::max(cleaned, ended);
  }
};

struct PacketRecord {
  std::uint32_t queue = 0;
  std::uint64_t index = 0;    // index of the packet
  std::uint32_t kernel = 0;   // which kernel of a condensed packet, from 0
  std::uint32_t kernels = 1;  // kernels that the packet has
  arch::PacketType type = arch::PacketType::kernel_dispatch;
  std::uint32_t operation = 0;  // id of a kernel's dispatch
  std::string name;             // name of the kernel object; empty for packets without a kernel
  arch::HsaStatus status = arch::HsaStatus::success;
  arch::Reason reason = arch::Reason::none;  // of another status than success
  PacketTimes times;
};

// Nothing that it does may change what the machine does.
class PacketListener {
 public:
  // A kernel goes to task management: `operation` will be the task of its CTAs, faults and waits. The listener may set
  // its label. Called before the first of its CTAs starts.
  virtual void kernel_dispatched(const PacketRecord& record) = 0;
  // Kernels, one by one in the order of their clean-up, and other packets. Also a bad packet that stops its queue: one
  // record for all of it, with the kernel that is wrong and without an operation. Nothing that a close drops.
  virtual void packet_done(const PacketRecord& record) = 0;

 protected:
  ~PacketListener() = default;
};

}  // namespace heddle::packet

// The packets inside the processor. A packet belongs to one stage at a time, which its phase names; the stage that is
// done with it hands it on by reference.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/aql_packet.h"
#include "arch/brought_code.h"
#include "arch/kernel_object.h"
#include "arch/task_record.h"
#include "common/index_pool.h"
#include "packet/packet_log.h"
#include "packet/reference_table.h"

namespace heddle::packet {

// One kernel of a packet.
struct Kernel {
  arch::DispatchFields fields;
  arch::KernelObject object;
  arch::KernelShape shape;
  arch::WorkItems items;
  FieldSet changed = kAllFields;  // what no table entry vouches for: rules for it are checked
  bool reads_object = true;       // `object` is read from memory, and is not that of a table entry
  bool barrier = false;           // in the overlapping mode: the kernel waits for those before it in the packet
  arch::FenceScope acquire = arch::FenceScope::none;
  arch::FenceScope release = arch::FenceScope::none;
  std::uint64_t signal = 0;
  std::uint32_t operation = 0;
  std::optional<std::uint32_t> lane;  // of the timeline
  arch::HsaResult outcome;
  PacketTimes times;
};

enum class Phase : std::uint8_t {
  decoder,    // The packet waits for the decoder.
  decoding,   // It occupies the decoder, and reads what it needs.
  reading,    // It has left the decoder; table entries or answers of memory are missing.
  checks,     // What it has read is there: it waits for the decoder again.
  checking,   // It occupies the decoder, which checks it.
  storing,    // It writes a table entry.
  barrier,    // A condensed packet whose barrier bit became known late waits for those before it.
  signals,    // A barrier packet waits for its dependency signals.
  agent,      // An agent packet waits for one of those that the host holds.
  acquire,    // The acquire fence takes its time.
  limit,      // Its next kernel would be one too many in flight.
  dispatch,   // Its next kernel is being handed over.
  running,    // Something of it has been launched, and nothing is held back.
  finishing,  // All that it started has ended; fence and signal of the whole packet follow.
};

struct Packet {
  std::uint32_t slot = 0;        // place in the table
  std::uint32_t generation = 0;  // tells the packets of one slot apart
  std::uint32_t queue = 0;
  std::uint64_t index = 0;
  arch::PacketBytes bytes{};
  arch::PacketType type = arch::PacketType::invalid;
  Phase phase = Phase::decoder;
  PacketTimes times;

  // Code of a kernel object that is being read, or has been.
  struct Code {
    std::uint32_t kernel = 0;  // the first that reads the object
    arch::KernelObject object;
    arch::CodeReading reading;
  };

  // Decoding.
  std::uint32_t reads = 0;                  // table entries and answers of memory that it waits for
  arch::HsaResult result;                   // what validation has found so far
  std::uint32_t bad_kernel = 0;             // the kernel that `result` is about
  std::uint32_t entry = 0;                  // table entry that a reference packet stores
  std::unique_ptr<ReferenceTable> entries;  // table entries that have been read for it
  std::vector<Code> codes;

  // Kernels.
  std::vector<Kernel> kernels;
  std::uint32_t dispatched = 0;
  std::uint32_t ended = 0;
  std::uint32_t cleaning_up = 0;  // kernels whose clean-up is under way; the last one's is the packet's
  bool kernel_failed = false;     // no more kernels are dispatched

  // Barrier, agent and vendor packets.
  struct Other {
    arch::SynchScopes scopes;
    std::uint64_t signal = 0;
    arch::BarrierPacket barrier;
    std::array<bool, arch::kBarrierSignals> seen_zero{};
    std::array<std::int64_t, arch::kBarrierSignals> values{};
    bool polls = false;  // an event for the next look has been entered
    bool again = false;  // a signal has changed since the look that is under way began
    arch::VendorPacket vendor;
  } other;

  // How it ends.
  arch::HsaResult outcome;
  bool aborted = false;               // its queue was inactivated while it ran
  std::int64_t signal_value = 0;      // value that its signal gets; 0: the signal is decremented
  std::optional<std::uint32_t> lane;  // of the timeline, of a packet without kernels

  bool is_barrier() const { return type == arch::PacketType::barrier_and || type == arch::PacketType::barrier_or; }
  // Something of it runs or has run: it can no longer be dropped.
  bool launched() const { return kernels.empty() ? phase >= Phase::running : dispatched > 0; }
  // Events and requests name a packet so that they find out if it has gone.
  std::uint64_t reference() const { return std::uint64_t{generation} << 32 | slot; }
};

// Handle of the completion signal in the bytes of a packet; 0: it has none, or it cannot be told.
std::uint64_t signal_in(const arch::PacketBytes& bytes);
// The handle of a packet that may have been decoded.
std::uint64_t signal_of(const Packet& packet);
// "packet 3 of queue 0 (gemm)"
std::string name_of(const Packet& packet);
// What a packet in that phase waits for, for the timeline; null: nothing that is worth telling.
const char* wait_text(Phase phase);

// All packets that have begun and are not complete. They stay where they are.
class PacketTable {
 public:
  Packet& take();
  void free(Packet& packet);  // what comes later for it finds another generation
  // The packet that reference() named; null if it has gone.
  Packet* find(std::uint64_t reference);
  void clear() { packets_.clear(); }

  // name_of() a packet that may or may not have begun.
  std::string name_of(std::uint32_t queue, std::uint64_t index) const;
  template <class Visit>
  void for_each(Visit&& visit) const {
    packets_.for_each([&](const std::unique_ptr<Packet>& packet) { visit(*packet); });
  }

 private:
  IndexPool<std::unique_ptr<Packet>> packets_;
};

}  // namespace heddle::packet

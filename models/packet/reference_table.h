// Reference state table (PKT-05): what condensed packets are differences from. Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/aql_packet.h"
#include "packet/packet_params.h"

namespace heddle::packet {

class ReferenceTable {
 public:
  void store(std::uint32_t entry, const arch::DispatchFields& fields);
  bool valid(std::uint32_t entry) const { return entry < arch::kReferenceEntries && valid_[entry]; }
  const arch::DispatchFields& at(std::uint32_t entry) const;  // valid(entry)
  void clear();

 private:
  std::array<arch::DispatchFields, arch::kReferenceEntries> entries_{};
  std::array<bool, arch::kReferenceEntries> valid_{};
};

// The tables of all queues: one each, or one for all (PKT-05). What lies in memory besides is at address() (PKT-11).
class ReferenceTables {
 public:
  // `base`: device address of the tables, if they lie in memory.
  ReferenceTables(TableOwner owner, std::uint32_t queues, std::uint64_t base)
      : owner_(owner), base_(base), tables_(owner == TableOwner::queue ? queues : 1) {}

  ReferenceTable& of(std::uint32_t queue) { return tables_[number_of(queue)]; }
  const ReferenceTable& of(std::uint32_t queue) const { return tables_[number_of(queue)]; }
  std::uint64_t address(std::uint32_t queue, std::uint32_t entry) const {
    return base_ + (std::uint64_t{number_of(queue)} * arch::kReferenceEntries + entry) * arch::kPacketBytes;
  }
  // The queue is opened: a table of its own is empty then.
  void open(std::uint32_t queue) {
    if (owner_ == TableOwner::queue) of(queue).clear();
  }
  void reset() {
    for (ReferenceTable& table : tables_) table.clear();
  }
  // Whether a packet that has not been decoded waits for those before it.
  bool barrier_bit(std::uint32_t queue, const arch::PacketBytes& bytes) const;

 private:
  std::uint32_t number_of(std::uint32_t queue) const { return owner_ == TableOwner::queue ? queue : 0; }

  const TableOwner owner_;
  const std::uint64_t base_;
  std::vector<ReferenceTable> tables_;
};

// An entry in memory has the bytes of a kernel dispatch packet of type 6 with its number in reserved0 (PKT-11).
arch::PacketBytes encode_entry(std::uint32_t entry, const arch::DispatchFields& fields);
// invalid_argument if what lies there is no such entry: software has overwritten it.
arch::HsaResult decode_entry(const arch::PacketBytes& bytes, std::uint32_t entry, arch::DispatchFields& fields);

// The kernels of a condensed packet, decoded as a whole before the first is launched (PKT-06): entries with their diffs
// applied, and what the packet asks of each (PKT-07).
struct CondensedKernel {
  arch::DispatchFields fields;
  // The first kernel has the packet's bit; another one waits for those before it, in the overlapping mode.
  bool barrier = false;
  arch::FenceScope acquire = arch::FenceScope::none;  // of a later one without own scopes: agent at most
  arch::FenceScope release = arch::FenceScope::none;  // the last one's, and that of one whose diff asks for it
  std::uint64_t signal = 0;                           // the last one's, and that of one whose diff has it
  std::uint8_t reference = 0;
  std::uint32_t half_words = 0;  // with the header
};
struct CondensedKernels {
  std::uint32_t count = 0;
  std::array<CondensedKernel, arch::kDiffValues> kernels;
};
// Which entries a packet needs, before any is read: bit = entry.
arch::HsaResult entries_needed(const arch::PacketBytes& bytes, std::uint8_t& entries);
// In a packet whose format is wrong: the first kernel whose diff is; the last one if what lies behind the diffs is.
std::uint32_t first_bad_diff(const arch::PacketBytes& bytes);
// In a packet whose format is right: the first kernel that names one of these entries.
std::uint32_t first_kernel_of(const arch::PacketBytes& bytes, std::uint8_t entries);
// Empty entries: invalid_argument. Fields are not validated beyond their scopes. `bad`: the kernel that is wrong, if
// one is; `kernels.count` is then 0.
arch::HsaResult expand(const arch::PacketBytes& bytes, const ReferenceTable& table, CondensedKernels& kernels,
                       std::uint32_t& bad);

}  // namespace heddle::packet

// Reference state table (PKT-05): what condensed packets are differences from. Plain C++.
//
// An entry is what the decoder has worked out of a reference packet: its fields, its scopes and sizes in the units in
// which a kernel is launched, and the contents of its kernel object. Whoever refers to it needs none of that again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "arch/aql_diff.h"
#include "arch/kernel_object.h"
#include "packet/packet_check.h"
#include "packet/packet_params.h"

namespace heddle::packet {

// Dispatch and clean-up information of a kernel that has been checked.
struct StoredKernel {
  arch::DispatchFields fields;
  arch::KernelObject object;  // as it was read
  arch::KernelShape shape;    // its subcontext is that of whoever launches it
  arch::WorkItems items;
};

// Bits of an entry: valid 1; scopes 5; dimensions 2; workgroup 3 x 16; grid in work-items 3 x 32 and in workgroups
// 32 + 2 x 16; private and group segment 2 x 32; whether workgroups are partial 1; addresses of kernel object and
// arguments, and signal 3 x 64. Of the kernel object: flags 4; program, limit of
// threads, registers, static shared memory 4 x 32; duration 2 x 64; levels and smaller sizes 8 x 3 x 16; order and tile
// 2 + 16. Its name is for people, and costs nothing.
constexpr std::uint32_t kEntryBits = 1 + 5 + 2 + 3 * 16 + 3 * 32 + 64 + 2 * 32 + 1 + 3 * 64 +  //
                                     4 + 4 * 32 + 2 * 64 + 8 * 3 * 16 + 18;

class ReferenceTable {
 public:
  explicit ReferenceTable(std::uint32_t entries = arch::kReferenceEntries) : entries_(entries) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }
  void store(std::uint32_t entry, const StoredKernel& kernel);
  bool valid(std::uint32_t entry) const { return entry < size() && entries_[entry].has_value(); }
  const StoredKernel& at(std::uint32_t entry) const;  // valid(entry)
  // The programs of its entries.
  void mark_codes(std::set<std::uint32_t>& used) const {
    for (const auto& entry : entries_) {
      if (entry) used.insert(entry->object.program);
    }
  }
  void clear() { entries_.assign(entries_.size(), std::nullopt); }

 private:
  std::vector<std::optional<StoredKernel>> entries_;
};

// An entry in device memory (PKT-11), little-endian, two lines. The first one:
//     0  mark             4      'H', 'D', 'R', 'E'; 0: the entry is empty, whatever else is there
//     4  number           2      of the entry
//     6  synch scopes     1      as in a packet
//     7  0                1
//     8  setup            2      dimensions
//    10  workgroup        3 x 2  work-items
//    16  grid             3 x 4  work-items
//    28  private segment  4
//    32  group segment    4
//    36  program          4      of a kernel object with code in memory: what the machine has made of it; else 0
//    40  workgroups       3 x 4
//    52  partial          4      1: some workgroups are not full
//    56  kernarg          8
//    64  signal           8
//    72  kernel object    8      its address
//    80  0                48
// The second one is the kernel object (arch/kernel_object.h) as it was.
constexpr std::uint32_t kEntryBytes = 256;
using EntryBytes = std::array<std::uint8_t, kEntryBytes>;
// Of all tables.
constexpr std::uint64_t table_bytes(const PacketParams& params) {
  const std::uint64_t tables = params.table_owner == TableOwner::queue ? params.queues : 1;
  return tables * params.entries * kEntryBytes;
}
EntryBytes encode_entry(std::uint32_t entry, const StoredKernel& kernel);
// invalid_argument if it is empty, or if it is nothing that the packet processor can have stored there: software has
// reached it through the aperture of the host interface.
arch::HsaResult decode_entry(const EntryBytes& bytes, std::uint32_t entry, KernelValidator& validator,
                             StoredKernel& kernel);
// The scopes of an entry of which only the beginning is known; 0 if it is empty.
constexpr std::uint32_t kEntryHeadBytes = 8;
std::uint8_t scopes_of_entry(const EntryBytes& bytes);

// The diffs of a condensed packet, taken apart as a whole before any entry is read (PKT-06).
struct CondensedDiffs {
  arch::HsaResult result;        // of the format, and of the numbers of entries
  std::uint32_t bad = 0;         // if it is bad: the kernel that is; the last one if what lies behind the diffs is
  std::uint32_t count = 0;       // kernels, if it is good
  std::uint32_t half_words = 0;  // of all of them
  std::uint32_t entries = 0;     // that they name: bit = entry
  arch::WrittenDiffs items;

  // The first kernel that names the entry.
  std::uint32_t first_with(std::uint32_t entry) const;
};
// `entries`: that the table has.
CondensedDiffs read_diffs(const arch::PacketBytes& bytes, const arch::DiffFormat& format, std::uint32_t entries);

// What decides whether a packet that has not been decoded waits for those before it: its header, the first diff, or
// the entry that this one names, of which nothing has been read.
struct BarrierBit {
  bool set = false;
  std::optional<std::uint32_t> entry;  // below the entries of the table: its scopes decide
};
BarrierBit barrier_bit(const arch::PacketBytes& bytes, const arch::DiffFormat& format, std::uint32_t entries);

// A kernel of a condensed packet: an entry with its diff applied, and what the packet asks of it (PKT-07).
struct CondensedKernel {
  StoredKernel kernel;        // shape and items are those of the entry
  FieldSet changed = 0;       // what has to be checked again
  bool reads_object = false;  // it has another kernel object than the entry
  // The first kernel has the packet's bit; another one waits for those before it, in the overlapping mode.
  bool barrier = false;
  arch::FenceScope acquire = arch::FenceScope::none;  // of a later one without own scopes: agent at most
  arch::FenceScope release = arch::FenceScope::none;  // the last one's, and that of one whose diff asks for it
  std::uint64_t signal = 0;                           // the last one's, and that of one whose diff has it
};
struct CondensedKernels {
  arch::HsaResult result;
  std::uint32_t bad = 0;  // the kernel that is bad, if one is; there are no kernels then
  std::vector<CondensedKernel> kernels;
};
// Empty entries: invalid_argument. What a diff of stored information asks for is checked as far as packets could not
// say it: invalid_argument for a grid of 2^32 work-items or more in a dimension, invalid_code_object where a program is
// taken away. Everything else is for KernelValidator.
CondensedKernels expand(const CondensedDiffs& diffs, arch::DiffOf of, const ReferenceTable& table);

}  // namespace heddle::packet

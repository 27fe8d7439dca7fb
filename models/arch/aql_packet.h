// Packets of user-mode queues (PKT-01, PKT-02): 64 bytes, little-endian, laid out as in the HSA specification, with two
// types of ours. Plain C++: what a packet says, and what is wrong with it whatever the machine.
#pragma once

#include <array>
#include <cstdint>

#include "arch/cluster.h"
#include "arch/reason.h"

namespace heddle::arch {

// Status codes of the HSA runtime specification that the machine reports (PKT-09).
enum class HsaStatus : std::uint32_t {
  success = 0,
  error = 0x1000,                   // the way to memory failed
  invalid_argument = 0x1001,        // dimensions, sizes, alignment, an empty table entry
  invalid_allocation = 0x1003,      // a group segment smaller than what the kernel has of static shared memory
  invalid_signal = 0x1006,          // a signal that memory does not have
  invalid_queue = 0x1007,           // a ring or index that memory does not have, or a size that is no power of two
  out_of_resources = 0x1008,        // more than an SM, or what can hold its clusters, has
  invalid_packet_format = 0x1009,   // an undefined type, a reserved field that is not 0, a diff that runs past the end
  incompatible_arguments = 0x100D,  // packet and kernel object contradict each other: clusters and grid, threads
  invalid_code_object = 0x1010,     // no KernelObject there, or one that does not make sense
  exception = 0x1016,               // a CTA of the kernel faulted
};
// "invalid packet format"
const char* status_text(HsaStatus status);

constexpr std::uint32_t kPacketBytes = 64;
constexpr std::uint32_t kDiffValues = 31;        // half-words of a condensed packet
constexpr std::uint32_t kReferenceEntries = 8;   // of a reference state table
constexpr std::uint32_t kBarrierSignals = 5;     // of a barrier-AND or barrier-OR packet
constexpr std::uint64_t kKernargAlignment = 16;  // bytes

using PacketBytes = std::array<std::uint8_t, kPacketBytes>;

// Bits 0-7 of the header.
enum class PacketType : std::uint8_t {
  vendor = 0,  // of ours: copy, fill, hold
  invalid = 1,
  kernel_dispatch = 2,
  barrier_and = 3,
  agent_dispatch = 4,
  barrier_or = 5,
  reference_dispatch = 6,  // a kernel dispatch that is also stored in the reference state table (PKT-05)
  condensed_dispatch = 7,  // several kernels as differences from entries of that table (PKT-06)
};
constexpr std::uint8_t kPacketTypes = 8;

enum class FenceScope : std::uint8_t { none = 0, agent = 1, system = 2 };

// The upper byte of the header, also field 0 of a diff: bit 0 barrier, bits 1-2 acquire, bits 3-4 release; 5-7 are
// reserved, and scope 3 does not exist.
struct SynchScopes {
  bool barrier = false;
  FenceScope acquire = FenceScope::none;
  FenceScope release = FenceScope::none;

  bool operator==(const SynchScopes& o) const {
    return barrier == o.barrier && acquire == o.acquire && release == o.release;
  }
};

// The thirteen fields that a diff can change, by bit of its vector (PKT-06): 0 synch scopes, 1 setup, 2-4 workgroup
// size, 5-7 grid size, 8 private segment, 9 group segment, 10 kernel object, 11 kernarg address, 12 completion signal.
// The raw values, as they lie in the packet: nothing has been validated yet.
struct DispatchFields {
  std::uint8_t synch_scopes = 0;
  std::uint16_t setup = 0;  // bits 0-1: dimensions, 1 to 3; the rest is reserved
  std::array<std::uint16_t, 3> workgroup{};
  std::array<std::uint32_t, 3> grid{};  // work-items
  std::uint32_t private_segment = 0;    // bytes per work-item
  std::uint32_t group_segment = 0;      // bytes per workgroup: all of its shared memory, static and dynamic
  std::uint64_t kernel_object = 0;      // device address of a KernelObject
  std::uint64_t kernarg = 0;            // address; a multiple of kKernargAlignment
  std::uint64_t completion_signal = 0;  // handle; 0: none

  bool operator==(const DispatchFields& o) const;
};
constexpr std::uint32_t kDispatchFields = 13;
// Half-words that a field takes in a diff: 1, 2 or 4.
std::uint32_t half_words_of(std::uint32_t field);
// The value of a field, and the field set to a value (higher bits of which do not count).
std::uint64_t field_of(const DispatchFields& fields, std::uint32_t field);
void set_field(DispatchFields& fields, std::uint32_t field, std::uint64_t value);

struct KernelDispatch {
  DispatchFields fields;
  std::uint16_t reserved0 = 0;  // type 6: the number of the table entry
  std::uint64_t reserved2 = 0;
};

struct BarrierPacket {
  SynchScopes scopes;
  std::array<std::uint64_t, kBarrierSignals> signals{};  // handles; 0: none
  std::uint64_t completion_signal = 0;
};

struct AgentDispatch {
  SynchScopes scopes;
  std::uint16_t function = 0;
  std::uint64_t return_address = 0;
  std::array<std::uint64_t, 4> arguments{};
  std::uint64_t completion_signal = 0;
};

// Type 0 (ours). Offset 2: format (8 bits); 3: 0; 4: value (32 bits); 8: from; 16: to; 24: bytes or, of a hold,
// nanoseconds; 32, 40, 48: 0; 56: completion signal. What a format does not use is 0. Ranges are of unified addresses
// (address_map.h) and lie in one memory; of no bytes they are fine.
enum class VendorFormat : std::uint8_t {
  copy = 1,  // `bytes` from `from` to `to`; host or device, any alignment; the ranges must not overlap
  fill = 2,  // `bytes` at `to`, both multiples of 4, with a 32-bit value; `from` is 0
  hold = 3,  // holds its place for a time: what a recording knows of work that is not modelled; other fields are 0
};
struct VendorPacket {
  SynchScopes scopes;
  VendorFormat format = VendorFormat::copy;
  std::uint32_t value = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes = 0;  // of a hold: nanoseconds
  std::uint64_t completion_signal = 0;
};
constexpr std::uint64_t kMaxHold = 1'000'000'000'000;  // ns

// Header {type 7, num_kernels}: it has no scopes of its own.
struct CondensedPacket {
  std::uint8_t kernels = 0;
  std::array<std::uint16_t, kDiffValues> diff{};
};

// One kernel of a condensed packet. Header: reference | vector << 3.
struct Diff {
  std::uint8_t reference = 0;  // below kReferenceEntries
  std::uint16_t vector = 0;    // bit = field that has a new value
  DispatchFields values;       // those fields only
};
std::uint32_t half_words_of(const Diff& diff);  // with its header
void apply(const Diff& diff, DispatchFields& fields);

PacketType type_of(const PacketBytes& bytes);  // types from 8 on: PacketType(n), which has no name
std::uint16_t header_of(const PacketBytes& bytes);
std::uint8_t encode(const SynchScopes& scopes);

// Encoders write every byte.
PacketBytes encode(const KernelDispatch& packet, PacketType type = PacketType::kernel_dispatch);
PacketBytes encode(const BarrierPacket& packet, PacketType type);
PacketBytes encode(const AgentDispatch& packet);
PacketBytes encode(const VendorPacket& packet);
PacketBytes encode(const CondensedPacket& packet);
// Appends a kernel to a condensed packet, `used` half-words of which are taken; false if it does not fit (or there are
// 255 kernels).
bool append(CondensedPacket& packet, std::uint32_t& used, const Diff& diff);

// A status of the HSA runtime with its reason. Decoders check the format (PKT-09); arguments
// that depend on the machine are checked by packet/packet_check.h.
struct HsaResult {
  HsaStatus status = HsaStatus::success;
  Reason reason = Reason::none;
  bool ok() const { return status == HsaStatus::success; }
};
constexpr HsaResult bad_format(Reason reason) { return {HsaStatus::invalid_packet_format, reason}; }
HsaResult decode(SynchScopes& scopes, std::uint8_t raw);
// Aligned, or 0: else invalid_signal.
HsaResult check_signal(std::uint64_t handle);
// Types 2 and 6: header, reserved fields, ref_num (invalid_argument above any table's). Fields are validated by
// packet/packet_check.h.
HsaResult decode(const PacketBytes& bytes, KernelDispatch& packet);
// All there is to validate: header, reserved fields, signal handles; of vendor packets the format, ranges, alignment
// and the length of a hold (invalid_argument).
HsaResult decode(const PacketBytes& bytes, BarrierPacket& packet);
HsaResult decode(const PacketBytes& bytes, AgentDispatch& packet);
HsaResult decode(const PacketBytes& bytes, VendorPacket& packet);
// All diffs of the packet, `kernels` of them. Half-words behind the last diff must be 0. Bits of 8-bit fields above
// the eighth must be 0. If it is not ok, `kernels` is the diff that is wrong, or where the packet ends too late or
// early.
HsaResult decode(const PacketBytes& bytes, std::array<Diff, kDiffValues>& diffs, std::uint32_t& kernels);

}  // namespace heddle::arch

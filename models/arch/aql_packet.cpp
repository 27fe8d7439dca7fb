#include "arch/aql_packet.h"

#include <algorithm>

#include "arch/address_map.h"
#include "arch/aql_diff.h"
#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::arch {

namespace {

// Offsets of the HSA specification. Those that every type but the condensed one has, then those of kernel dispatches,
// barriers, agent dispatches and, ours, vendor packets.
constexpr std::size_t kType = 0;
constexpr std::size_t kScopes = 1;
constexpr std::size_t kReserved2 = 48;
constexpr std::size_t kCompletion = 56;

constexpr std::size_t kSetup = 2;
constexpr std::size_t kWorkgroup = 4;
constexpr std::size_t kReserved0 = 10;
constexpr std::size_t kGrid = 12;
constexpr std::size_t kPrivate = 24;
constexpr std::size_t kGroup = 28;
constexpr std::size_t kObject = 32;
constexpr std::size_t kKernarg = 40;

constexpr std::size_t kDependencies = 8;

constexpr std::size_t kFunction = 2;
constexpr std::size_t kReturn = 8;
constexpr std::size_t kArguments = 16;

constexpr std::size_t kFormat = 2;
constexpr std::size_t kValue = 4;
constexpr std::size_t kFrom = 8;
constexpr std::size_t kTo = 16;
constexpr std::size_t kBytes = 24;

constexpr HsaResult kGood{};
constexpr HsaResult bad_argument(Reason reason) { return {HsaStatus::invalid_argument, reason}; }
constexpr HsaResult kReservedField = bad_format(Reason::reserved_field);
constexpr HsaResult kOtherType = bad_format(Reason::other_type);

PacketBytes with_header(PacketType type, std::uint8_t scopes) {
  PacketBytes bytes{};
  bytes[kType] = static_cast<std::uint8_t>(type);
  bytes[kScopes] = scopes;
  return bytes;
}

bool zero(const PacketBytes& bytes, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

bool is_copy_or_fill(VendorFormat format) { return format == VendorFormat::copy || format == VendorFormat::fill; }

bool known(VendorFormat format) { return is_copy_or_fill(format) || format == VendorFormat::hold; }

// A range that does not run past the end of the device's half of the addresses, or of the host's.
bool in_one_memory(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t room = kHostWindow - (address & (kHostWindow - 1));
  return bytes <= room;
}

bool overlap(const VendorPacket& packet) {
  if (packet.bytes == 0) return false;
  return packet.from < packet.to ? packet.to - packet.from < packet.bytes : packet.from - packet.to < packet.bytes;
}

// What a format does not use is reserved.
bool unused_are_zero(const VendorPacket& packet) {
  switch (packet.format) {
    case VendorFormat::copy:
      return packet.value == 0;
    case VendorFormat::fill:
      return packet.from == 0;
    case VendorFormat::hold:
      break;
  }
  return packet.value == 0 && packet.from == 0 && packet.to == 0;
}

HsaResult check_arguments(const VendorPacket& packet) {
  if (packet.format == VendorFormat::hold) {
    return packet.bytes <= kMaxHold ? kGood : bad_argument(Reason::long_hold);
  }
  if (!in_one_memory(packet.to, packet.bytes)) return bad_argument(Reason::target_range);
  if (packet.format == VendorFormat::fill) {
    const bool whole = packet.to % 4 == 0 && packet.bytes % 4 == 0;
    return whole ? kGood : bad_argument(Reason::fill_alignment);
  }
  if (!in_one_memory(packet.from, packet.bytes)) return bad_argument(Reason::source_range);
  return overlap(packet) ? bad_argument(Reason::copy_overlap) : kGood;
}

}  // namespace

const char* status_text(HsaStatus status) {
  switch (status) {
    case HsaStatus::success:
      return "success";
    case HsaStatus::error:
      return "error";
    case HsaStatus::invalid_argument:
      return "invalid argument";
    case HsaStatus::invalid_allocation:
      return "invalid allocation";
    case HsaStatus::invalid_signal:
      return "invalid signal";
    case HsaStatus::invalid_queue:
      return "invalid queue";
    case HsaStatus::out_of_resources:
      return "out of resources";
    case HsaStatus::invalid_packet_format:
      return "invalid packet format";
    case HsaStatus::incompatible_arguments:
      return "incompatible arguments";
    case HsaStatus::invalid_code_object:
      return "invalid code object";
    case HsaStatus::exception:
      return "exception";
  }
  return "unknown status";
}

PacketType type_of(const PacketBytes& bytes) { return static_cast<PacketType>(bytes[kType]); }

std::uint16_t header_of(const PacketBytes& bytes) { return get_16(bytes, kType); }

std::uint8_t encode(const SynchScopes& scopes) {
  return static_cast<std::uint8_t>((scopes.barrier ? 1U : 0U) | static_cast<std::uint32_t>(scopes.acquire) << 1 |
                                   static_cast<std::uint32_t>(scopes.release) << 3);
}

HsaResult decode(SynchScopes& scopes, std::uint8_t raw) {
  constexpr std::uint32_t kNoScope = 3;
  const std::uint32_t acquire = raw >> 1 & 3U;
  const std::uint32_t release = raw >> 3 & 3U;
  if (raw >> 5 != 0) return bad_format(Reason::header_bits);
  if (acquire == kNoScope || release == kNoScope) return bad_format(Reason::fence_scope);
  scopes = {(raw & 1U) != 0, static_cast<FenceScope>(acquire), static_cast<FenceScope>(release)};
  return kGood;
}

HsaResult check_signal(std::uint64_t handle) {
  if (signal_address(handle) % signal_alignment(handle) == 0) return kGood;
  return {HsaStatus::invalid_signal, Reason::signal_alignment};
}

PacketBytes encode(const KernelDispatch& packet, PacketType type) {
  HEDDLE_CHECK(type == PacketType::kernel_dispatch || type == PacketType::reference_dispatch, "no kernel dispatch");
  const DispatchFields& fields = packet.fields;
  PacketBytes bytes = with_header(type, fields.synch_scopes);
  put_number(bytes, kSetup, 2, fields.setup);
  for (std::size_t i = 0; i < 3; ++i) put_number(bytes, kWorkgroup + 2 * i, 2, fields.workgroup[i]);
  put_number(bytes, kReserved0, 2, packet.reserved0);
  for (std::size_t i = 0; i < 3; ++i) put_number(bytes, kGrid + 4 * i, 4, fields.grid[i]);
  put_number(bytes, kPrivate, 4, fields.private_segment);
  put_number(bytes, kGroup, 4, fields.group_segment);
  put_number(bytes, kObject, 8, fields.kernel_object);
  put_number(bytes, kKernarg, 8, fields.kernarg);
  put_number(bytes, kReserved2, 8, packet.reserved2);
  put_number(bytes, kCompletion, 8, fields.completion_signal);
  return bytes;
}

HsaResult decode(const PacketBytes& bytes, KernelDispatch& packet) {
  const PacketType type = type_of(bytes);
  if (type != PacketType::kernel_dispatch && type != PacketType::reference_dispatch) return kOtherType;
  DispatchFields& fields = packet.fields;
  fields.synch_scopes = bytes[kScopes];
  fields.setup = get_16(bytes, kSetup);
  for (std::size_t i = 0; i < 3; ++i) fields.workgroup[i] = get_16(bytes, kWorkgroup + 2 * i);
  packet.reserved0 = get_16(bytes, kReserved0);
  for (std::size_t i = 0; i < 3; ++i) fields.grid[i] = get_32(bytes, kGrid + 4 * i);
  fields.private_segment = get_32(bytes, kPrivate);
  fields.group_segment = get_32(bytes, kGroup);
  fields.kernel_object = get_64(bytes, kObject);
  fields.kernarg = get_64(bytes, kKernarg);
  packet.reserved2 = get_64(bytes, kReserved2);
  fields.completion_signal = get_64(bytes, kCompletion);

  SynchScopes scopes;
  if (const HsaResult result = decode(scopes, fields.synch_scopes); !result.ok()) return result;
  if (packet.reserved2 != 0) return kReservedField;
  if (type == PacketType::kernel_dispatch) return packet.reserved0 == 0 ? kGood : kReservedField;
  return packet.reserved0 < kMostEntries ? kGood : bad_argument(Reason::no_entry);
}

PacketBytes encode(const BarrierPacket& packet, PacketType type) {
  HEDDLE_CHECK(type == PacketType::barrier_and || type == PacketType::barrier_or, "no barrier packet");
  PacketBytes bytes = with_header(type, encode(packet.scopes));
  for (std::size_t i = 0; i < kBarrierSignals; ++i) put_number(bytes, kDependencies + 8 * i, 8, packet.signals[i]);
  put_number(bytes, kCompletion, 8, packet.completion_signal);
  return bytes;
}

HsaResult decode(const PacketBytes& bytes, BarrierPacket& packet) {
  const PacketType type = type_of(bytes);
  if (type != PacketType::barrier_and && type != PacketType::barrier_or) return kOtherType;
  for (std::size_t i = 0; i < kBarrierSignals; ++i) packet.signals[i] = get_64(bytes, kDependencies + 8 * i);
  packet.completion_signal = get_64(bytes, kCompletion);
  if (const HsaResult result = decode(packet.scopes, bytes[kScopes]); !result.ok()) return result;
  if (!zero(bytes, kScopes + 1, kDependencies) || !zero(bytes, kReserved2, kCompletion)) return kReservedField;
  for (const std::uint64_t signal : packet.signals) {
    if (const HsaResult result = check_signal(signal); !result.ok()) return result;
  }
  const bool any = std::any_of(packet.signals.begin(), packet.signals.end(), [](std::uint64_t s) { return s != 0; });
  if (type == PacketType::barrier_or && !any) return bad_argument(Reason::no_dependency);
  return check_signal(packet.completion_signal);
}

PacketBytes encode(const AgentDispatch& packet) {
  PacketBytes bytes = with_header(PacketType::agent_dispatch, encode(packet.scopes));
  put_number(bytes, kFunction, 2, packet.function);
  put_number(bytes, kReturn, 8, packet.return_address);
  for (std::size_t i = 0; i < packet.arguments.size(); ++i) {
    put_number(bytes, kArguments + 8 * i, 8, packet.arguments[i]);
  }
  put_number(bytes, kCompletion, 8, packet.completion_signal);
  return bytes;
}

HsaResult decode(const PacketBytes& bytes, AgentDispatch& packet) {
  if (type_of(bytes) != PacketType::agent_dispatch) return kOtherType;
  packet.function = get_16(bytes, kFunction);
  packet.return_address = get_64(bytes, kReturn);
  for (std::size_t i = 0; i < packet.arguments.size(); ++i) packet.arguments[i] = get_64(bytes, kArguments + 8 * i);
  packet.completion_signal = get_64(bytes, kCompletion);
  if (const HsaResult result = decode(packet.scopes, bytes[kScopes]); !result.ok()) return result;
  if (!zero(bytes, kFunction + 2, kReturn) || !zero(bytes, kReserved2, kCompletion)) return kReservedField;
  return check_signal(packet.completion_signal);
}

PacketBytes encode(const VendorPacket& packet) {
  PacketBytes bytes = with_header(PacketType::vendor, encode(packet.scopes));
  bytes[kFormat] = static_cast<std::uint8_t>(packet.format);
  put_number(bytes, kValue, 4, packet.value);
  put_number(bytes, kFrom, 8, packet.from);
  put_number(bytes, kTo, 8, packet.to);
  put_number(bytes, kBytes, 8, packet.bytes);
  put_number(bytes, kCompletion, 8, packet.completion_signal);
  return bytes;
}

HsaResult decode(const PacketBytes& bytes, VendorPacket& packet) {
  if (type_of(bytes) != PacketType::vendor) return kOtherType;
  packet.format = static_cast<VendorFormat>(bytes[kFormat]);
  packet.value = get_32(bytes, kValue);
  packet.from = get_64(bytes, kFrom);
  packet.to = get_64(bytes, kTo);
  packet.bytes = get_64(bytes, kBytes);
  packet.completion_signal = get_64(bytes, kCompletion);
  if (const HsaResult result = decode(packet.scopes, bytes[kScopes]); !result.ok()) return result;
  if (!known(packet.format))
    return bad_format(zero(bytes, 0, bytes.size()) ? Reason::zeroed_slot : Reason::vendor_format);
  const bool reserved = !zero(bytes, kFormat + 1, kValue) || !zero(bytes, kBytes + 8, kCompletion);
  if (reserved || !unused_are_zero(packet)) return kReservedField;
  if (const HsaResult result = check_arguments(packet); !result.ok()) return result;
  return check_signal(packet.completion_signal);
}

}  // namespace heddle::arch

// From a payload to what a slice does.
#include "memory/l2_command.h"

#include <algorithm>

#include "arch/tensor_data.h"
#include "common/bits.h"
#include "memory/l2_access.h"

namespace heddle::memory {
namespace {

// Only bytes that are enabled count.
bool apply_enables(const tlm::tlm_generic_payload& payload, L2Access& access) {
  const unsigned char* enables = payload.get_byte_enable_ptr();
  const unsigned period = payload.get_byte_enable_length();
  if (period == 0) return false;
  LineMask enabled;
  for (std::uint32_t i = 0; i < access.length; ++i) {
    if (enables[i % period] == TLM_BYTE_ENABLED) enabled = enabled | LineMask::range(access.offset + i, 1);
  }
  access.bytes = access.bytes & enabled;
  access.dense = false;
  return true;
}

// Bytes of one line, with data and enables.
tlm::tlm_response_status decode_range(const tlm::tlm_generic_payload& payload, const arch::AddressMap& map,
                                      L2Access& access) {
  const std::uint64_t address = payload.get_address();
  const std::uint32_t length = payload.get_data_length();
  if (!map.contains(address, std::max(length, 1U))) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  const auto offset = static_cast<std::uint32_t>(address % arch::kLineBytes);
  const std::uint32_t width = payload.get_streaming_width();
  if (length == 0 || length > arch::kLineBytes - offset || (width != 0 && width < length)) {
    return tlm::TLM_BURST_ERROR_RESPONSE;
  }
  if (payload.get_data_ptr() == nullptr) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  access.offset = static_cast<std::uint8_t>(offset);
  access.length = static_cast<std::uint8_t>(length);
  access.bytes = LineMask::range(offset, length);
  access.data = payload.get_data_ptr();
  access.dense = true;
  if (payload.get_byte_enable_ptr() != nullptr && !apply_enables(payload, access)) {
    return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  }
  return tlm::TLM_OK_RESPONSE;
}

tlm::tlm_response_status decode_plain(const tlm::tlm_generic_payload& payload, const arch::AddressMap& map,
                                      std::uint8_t sectors, L2Access& access) {
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
    const std::uint32_t length = std::max(payload.get_data_length(), 1U);
    access.kind = L2Access::Kind::prefetch;  // of nothing
    access.bytes = LineMask();
    return map.contains(payload.get_address(), length) ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE;
  }
  const tlm::tlm_response_status status = decode_range(payload, map, access);
  if (status != tlm::TLM_OK_RESPONSE) return status;
  access.kind = payload.is_read() ? L2Access::Kind::read : L2Access::Kind::write;
  // A read may want some sectors of its range only.
  const std::uint32_t wanted = sectors & kAllSectors;
  if (access.kind == L2Access::Kind::read && wanted != 0 && (access.bytes.touched() & ~wanted) != 0) {
    access.bytes = access.bytes & LineMask::sectors(wanted);
    access.dense = false;
  }
  return tlm::TLM_OK_RESPONSE;
}

tlm::tlm_response_status decode_atomic(protocol::MemoryExtension& atomic, const arch::AddressMap& map,
                                       L2Access& access) {
  if (atomic.lanes > atomic.lane.size() || !arch::atomic_exists(atomic.atomic, atomic.type)) {
    return tlm::TLM_COMMAND_ERROR_RESPONSE;
  }
  const std::uint32_t bytes = arch::bytes_of(atomic.type);
  std::uint32_t end = 0;
  access.bytes = LineMask();
  for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
    const std::uint32_t offset = atomic.lane[i].offset;
    if (offset % bytes != 0 || offset + bytes > arch::kLineBytes) return tlm::TLM_BURST_ERROR_RESPONSE;
    access.bytes = access.bytes | LineMask::range(offset, bytes);
    end = std::max(end, offset + bytes);
  }
  if (!map.contains(access.line * arch::kLineBytes, std::max(end, 1U))) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  access.kind = L2Access::Kind::atomic;
  return tlm::TLM_OK_RESPONSE;
}

bool whole_elements(const L2Access& access, std::uint32_t bytes) {
  if (access.dense || bytes == 1) return true;
  for (std::uint32_t at = access.offset; at < access.offset + access.length; at += bytes) {
    const LineMask element = LineMask::range(at, bytes);
    const LineMask enabled = access.bytes & element;
    if (enabled.any() && !(enabled == element)) return false;
  }
  return true;
}

// The data of a write, and a reduction: of whole elements, each enabled or not.
tlm::tlm_response_status decode_block(const tlm::tlm_generic_payload& payload, protocol::MemoryExtension& block,
                                      const arch::AddressMap& map, L2Access& access) {
  if (!arch::reduction_exists(block.atomic, block.type, false)) return tlm::TLM_COMMAND_ERROR_RESPONSE;
  const tlm::tlm_response_status status = decode_range(payload, map, access);
  if (status != tlm::TLM_OK_RESPONSE) return status;
  const std::uint32_t bytes = arch::bytes_of(block.type);
  if (access.offset % bytes != 0 || access.length % bytes != 0) return tlm::TLM_BURST_ERROR_RESPONSE;
  if (!whole_elements(access, bytes)) return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  access.kind = L2Access::Kind::reduce;
  return tlm::TLM_OK_RESPONSE;
}

tlm::tlm_response_status decode_prefetch(const tlm::tlm_generic_payload& payload, const arch::AddressMap& map,
                                         std::uint8_t sectors, L2Access& access) {
  const std::uint64_t address = payload.get_address();
  std::uint32_t wanted = sectors & kAllSectors;
  if (wanted == 0) {
    const auto offset = static_cast<std::uint32_t>(address % arch::kLineBytes);
    const std::uint32_t length = std::max(payload.get_data_length(), 1U);
    if (length > arch::kLineBytes - offset) return tlm::TLM_BURST_ERROR_RESPONSE;
    wanted = LineMask::range(offset, length).touched();
  }
  access.kind = L2Access::Kind::prefetch;
  access.bytes = LineMask::sectors(wanted);
  const std::uint32_t sectors_end = bits::highest(wanted) + 1;
  const bool inside = map.contains(access.line * arch::kLineBytes, std::uint64_t{sectors_end} * arch::kSectorBytes);
  return inside ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE;
}

}  // namespace

tlm::tlm_response_status decode(tlm::tlm_generic_payload& payload, const arch::AddressMap& map, L2Access& access) {
  access.line = payload.get_address() / arch::kLineBytes;
  protocol::MemoryExtension* extension = protocol::extension_of(payload);
  access.extension = extension;
  if (extension == nullptr) return decode_plain(payload, map, 0, access);
  switch (extension->action) {
    case protocol::MemoryAction::plain:
    case protocol::MemoryAction::copy:
      break;
    case protocol::MemoryAction::atomic:
    case protocol::MemoryAction::reduce:
      return decode_atomic(*extension, map, access);
    case protocol::MemoryAction::prefetch:
      return decode_prefetch(payload, map, extension->sectors, access);
    case protocol::MemoryAction::write_back:
      access.kind = L2Access::Kind::write_back;
      return tlm::TLM_OK_RESPONSE;
    case protocol::MemoryAction::invalidate:
      access.kind = L2Access::Kind::invalidate;
      return tlm::TLM_OK_RESPONSE;
    case protocol::MemoryAction::drop_copy:
      access.kind = L2Access::Kind::drop_copy;
      return tlm::TLM_OK_RESPONSE;
    case protocol::MemoryAction::mbarrier_arrive:
    case protocol::MemoryAction::mbarrier_expect:
    case protocol::MemoryAction::mbarrier_complete:
    case protocol::MemoryAction::multimem:
      return tlm::TLM_COMMAND_ERROR_RESPONSE;  // of shared memory, or of a switch, only
    case protocol::MemoryAction::reduce_block:
      return decode_block(payload, *extension, map, access);
  }
  return decode_plain(payload, map, extension->sectors, access);
}

}  // namespace heddle::memory

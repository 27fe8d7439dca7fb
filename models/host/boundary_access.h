// What a generic payload of the outside asks of a range of bytes: judged, and cut into runs.
#pragma once

#include <algorithm>
#include <cstdint>

#include <tlm>

namespace heddle::host {

// Addresses may be absolute or relative: those from `base` on are absolute.
inline std::uint64_t relative_address(std::uint64_t address, std::uint64_t base) {
  return address >= base ? address - base : address;
}

// The streaming width that counts: 0 was never set.
inline std::uint32_t width_of(const tlm::tlm_generic_payload& payload) {
  const std::uint32_t length = payload.get_data_length();
  const std::uint32_t width = payload.get_streaming_width();
  return width == 0 || width > length ? length : width;
}

inline bool byte_enabled(const tlm::tlm_generic_payload& payload, std::uint32_t index) {
  const std::uint8_t* enables = payload.get_byte_enable_ptr();
  return enables == nullptr || enables[index % payload.get_byte_enable_length()] == TLM_BYTE_ENABLED;
}

// Calls act(offset in the range, index in the data, count) for every run of enabled bytes, in the order of the data.
template <class Act>
void for_each_run(const tlm::tlm_generic_payload& payload, Act&& act) {
  const std::uint32_t length = payload.get_data_length();
  const std::uint32_t width = width_of(payload);
  for (std::uint32_t begin = 0; begin < length;) {
    const std::uint32_t wrap = begin + std::min(length - begin, width - begin % width);
    std::uint32_t end = begin;
    if (payload.get_byte_enable_ptr() == nullptr) {
      end = wrap;
    } else {
      while (end < wrap && byte_enabled(payload, end)) ++end;
    }
    if (end > begin) act(begin % width, begin, end - begin);
    begin = std::max(end, begin + 1);
  }
}

// Of a read or a write of [address, address + width) within `size` bytes; TLM_INCOMPLETE_RESPONSE: nothing is wrong.
inline tlm::tlm_response_status validate(const tlm::tlm_generic_payload& payload, std::uint64_t address,
                                         std::uint64_t size) {
  const std::uint64_t width = width_of(payload);
  if (payload.get_data_length() == 0) return tlm::TLM_BURST_ERROR_RESPONSE;
  if (payload.get_data_ptr() == nullptr) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (address >= size || width > size - address) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  if (payload.get_byte_enable_ptr() != nullptr && payload.get_byte_enable_length() == 0) {
    return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  }
  return tlm::TLM_INCOMPLETE_RESPONSE;
}

}  // namespace heddle::host

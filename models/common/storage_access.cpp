#include "common/storage_access.h"

#include <algorithm>

namespace heddle {

namespace {

tlm::tlm_response_status validate(const Storage& storage, const tlm::tlm_generic_payload& payload) {
  if (!payload.is_read() && !payload.is_write()) return tlm::TLM_COMMAND_ERROR_RESPONSE;
  if (payload.get_data_length() == 0 || payload.get_streaming_width() == 0) return tlm::TLM_BURST_ERROR_RESPONSE;
  if (payload.get_data_ptr() == nullptr) return tlm::TLM_GENERIC_ERROR_RESPONSE;
  if (payload.get_byte_enable_ptr() != nullptr && payload.get_byte_enable_length() == 0)
    return tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE;
  const unsigned width = std::min(payload.get_data_length(), payload.get_streaming_width());
  if (!storage.contains(payload.get_address(), width)) return tlm::TLM_ADDRESS_ERROR_RESPONSE;
  return tlm::TLM_OK_RESPONSE;
}

void move(Storage& storage, bool write, std::uint64_t address, std::uint8_t* data, std::uint64_t length) {
  if (write) {
    storage.write(address, data, length);
  } else {
    storage.read(address, data, length);
  }
}

// One beat of the streaming width: `first` is the index of its first byte in the data.
void move_enabled(Storage& storage, const tlm::tlm_generic_payload& payload, unsigned first, unsigned length) {
  const unsigned char* enables = payload.get_byte_enable_ptr();
  const unsigned pattern = payload.get_byte_enable_length();
  const bool repeats = first + length > pattern;
  const auto enabled = [=](unsigned i) {
    return enables[repeats ? (first + i) % pattern : first + i] == TLM_BYTE_ENABLED;
  };
  unsigned char* data = payload.get_data_ptr() + first;
  unsigned begin = 0;
  while (begin < length) {
    if (!enabled(begin)) {
      ++begin;
      continue;
    }
    unsigned end = begin + 1;
    while (end < length && enabled(end)) ++end;
    move(storage, payload.is_write(), payload.get_address() + begin, data + begin, end - begin);
    begin = end;
  }
}

}  // namespace

bool access(Storage& storage, tlm::tlm_generic_payload& payload) {
  const tlm::tlm_response_status status = validate(storage, payload);
  payload.set_response_status(status);
  if (status != tlm::TLM_OK_RESPONSE) return false;
  const unsigned length = payload.get_data_length();
  const unsigned width = std::min(length, payload.get_streaming_width());
  for (std::uint64_t at = 0; at < length; at += width) {
    const auto first = static_cast<unsigned>(at);
    const unsigned part = std::min(width, length - first);
    if (payload.get_byte_enable_ptr() == nullptr) {
      move(storage, payload.is_write(), payload.get_address(), payload.get_data_ptr() + first, part);
    } else {
      move_enabled(storage, payload, first, part);
    }
  }
  return true;
}

unsigned debug_access(Storage& storage, tlm::tlm_generic_payload& payload) {
  const std::uint64_t address = payload.get_address();
  if ((!payload.is_read() && !payload.is_write()) || address >= storage.bytes()) return 0;
  const std::uint64_t length = std::min<std::uint64_t>(payload.get_data_length(), storage.bytes() - address);
  if (length == 0 || payload.get_data_ptr() == nullptr) return 0;
  move(storage, payload.is_write(), address, payload.get_data_ptr(), length);
  return static_cast<unsigned>(length);
}

}  // namespace heddle

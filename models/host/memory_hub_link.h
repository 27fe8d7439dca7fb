// What requests cost on the link between hub and slices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "protocol/memory_request.h"

namespace heddle::host {

constexpr std::uint32_t kHubHeaderBytes = 16;
constexpr std::uint32_t kHubLaneBytes = 8;  // of an atomic: its operand, or its old value

inline bool is_write_back(tlm::tlm_generic_payload& payload) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  return extension != nullptr && extension->action == protocol::MemoryAction::write_back;
}

inline std::uint32_t hub_request_bytes(tlm::tlm_generic_payload& payload) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  const auto action = extension == nullptr ? protocol::MemoryAction::plain : extension->action;
  if (action == protocol::MemoryAction::atomic || action == protocol::MemoryAction::reduce) {
    return kHubHeaderBytes + kHubLaneBytes * extension->lanes;
  }
  const bool data = payload.is_write() || action == protocol::MemoryAction::reduce_block;
  return kHubHeaderBytes + (data ? std::min(payload.get_data_length(), arch::kLineBytes) : 0);
}

inline std::uint32_t hub_response_bytes(tlm::tlm_generic_payload& payload) {
  const protocol::MemoryExtension* extension = protocol::extension_of(payload);
  if (extension != nullptr && extension->action == protocol::MemoryAction::atomic) {
    return kHubHeaderBytes + kHubLaneBytes * extension->lanes;
  }
  return kHubHeaderBytes + (payload.is_read() ? std::min(payload.get_data_length(), arch::kLineBytes) : 0);
}

}  // namespace heddle::host

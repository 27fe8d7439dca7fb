// What a request does to memory, as far as permissions are concerned (PRT-08).
#pragma once

#include "protocol/memory_request.h"

namespace heddle::protocol {

// It changes bytes: atomics and reductions do as well.
inline bool writes(const tlm::tlm_generic_payload& payload, const MemoryExtension& extension) {
  if (payload.is_write()) return true;
  return extension.action != MemoryAction::plain && extension.action != MemoryAction::prefetch;
}

}  // namespace heddle::protocol

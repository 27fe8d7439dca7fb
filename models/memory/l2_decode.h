// From a payload to what a slice does.
#pragma once

#include "arch/address_map.h"
#include "memory/l2_access.h"

namespace heddle::memory {

// Fills in `access`; anything but TLM_OK_RESPONSE says why the request is refused (MEM-05). A payload without our
// extension is a plain access. Judged liberally: the status that it comes with does not matter, nor a streaming width
// of 0.
tlm::tlm_response_status decode(tlm::tlm_generic_payload& payload, const arch::AddressMap& map, L2Access& access);

}  // namespace heddle::memory

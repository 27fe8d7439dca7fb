// What a plain base-protocol payload asks of a memory, validated and carried out without time.
#pragma once

#include <tlm>

#include "common/storage.h"

namespace heddle {

// Moves the bytes of a read or a write, with byte enables (a pattern shorter than the data repeats) and streaming
// width, and sets the response status: OK, or an error, and then nothing was moved (MEM-05). Returns whether it is OK.
//   command error: neither a read nor a write, an atomic for example
//   burst error: no data, or a streaming width of 0
//   byte enable error: enables without a length
//   address error: a byte of the range lies outside memory
bool access(Storage& storage, tlm::tlm_generic_payload& payload);

// The debug transport: any length; what lies behind the end of memory is left out. Returns the bytes done.
unsigned debug_access(Storage& storage, tlm::tlm_generic_payload& payload);

}  // namespace heddle

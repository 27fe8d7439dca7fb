// Status codes of the HSA runtime specification that the machine reports (PKT-09).
#pragma once

#include <cstdint>

namespace heddle::arch {

enum class HsaStatus : std::uint32_t {
  success = 0,
  error = 0x1000,                  // the way to memory failed
  invalid_argument = 0x1001,       // dimensions, sizes, alignment, an empty table entry
  invalid_signal = 0x1006,         // a signal that memory does not have
  invalid_queue = 0x1007,          // a ring or index that memory does not have, or a size that is no power of two
  out_of_resources = 0x1008,       // more than an SM, or what can hold its clusters, has
  invalid_packet_format = 0x1009,  // an undefined type, a reserved field that is not 0, a diff that runs past the end
  invalid_code_object = 0x1010,    // no KernelObject there, or one that does not make sense
  exception = 0x1016,              // a CTA of the kernel faulted
};
// "invalid packet format"
const char* status_text(HsaStatus status);

}  // namespace heddle::arch

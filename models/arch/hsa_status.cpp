#include "arch/hsa_status.h"

namespace heddle::arch {

const char* status_text(HsaStatus status) {
  switch (status) {
    case HsaStatus::success:
      return "success";
    case HsaStatus::error:
      return "error";
    case HsaStatus::invalid_argument:
      return "invalid argument";
    case HsaStatus::invalid_signal:
      return "invalid signal";
    case HsaStatus::invalid_queue:
      return "invalid queue";
    case HsaStatus::out_of_resources:
      return "out of resources";
    case HsaStatus::invalid_packet_format:
      return "invalid packet format";
    case HsaStatus::invalid_code_object:
      return "invalid code object";
    case HsaStatus::exception:
      return "exception";
  }
  return "unknown status";
}

}  // namespace heddle::arch

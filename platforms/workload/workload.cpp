#include "workload/workload.h"

#include <algorithm>

namespace heddle::workload {

CopyDirection direction_of(const std::string& name) {
  const auto has = [&name](const char* text) { return name.find(text) != std::string::npos; };
  // ROCm writes "CopyHostToDevice", CUDA "Memcpy HtoD".
  if (has("HtoD") || has("HtoA") || has("HostToDevice")) return CopyDirection::host_to_device;
  if (has("DtoH") || has("AtoH") || has("DeviceToHost")) return CopyDirection::device_to_host;
  return CopyDirection::device_to_device;
}

std::size_t Workload::kernels() const {
  return static_cast<std::size_t>(
      std::count_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::kernel; }));
}

}  // namespace heddle::workload

#include "workload/workload.h"

#include <algorithm>

namespace heddle::workload {

std::size_t Workload::kernels() const {
  return static_cast<std::size_t>(
      std::count_if(ops.begin(), ops.end(), [](const Op& op) { return op.kind == OpKind::kernel; }));
}

}  // namespace heddle::workload

// Machines of any size: h100-sxm, but for its shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "support/gpu_lab.h"

namespace heddle::test {

inline gpu::GpuParams large_machine(std::uint32_t gpcs, std::uint32_t sms_per_gpc, std::vector<std::string> sets = {}) {
  const std::vector<std::uint32_t> sms(gpcs, sms_per_gpc);
  sets.push_back("gpu.shape=" + arch::Shape::from_sms_per_gpc(sms).text());
  return preset_params("h100-sxm", sets);
}

}  // namespace heddle::test

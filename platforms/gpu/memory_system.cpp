#include "gpu/memory_system.h"

#include <fmt/format.h>

namespace heddle::gpu {

MemorySystem::MemorySystem(const sc_core::sc_module_name& name, Domain& domain, const GpuParams& params,
                           const arch::Topology& topology, DeviceMemory memory)
    : sc_core::sc_module(name),
      map(params.machine.memory, params.l2.slices, params.l2.partitions),
      crossbar("crossbar", domain, "xbar", params.xbar, topology, map) {
  if (memory == DeviceMemory::own) {
    hbm = std::make_unique<memory::Hbm>("hbm", domain, "hbm", params.hbm, map.bytes(), map.slices());
  }
  for (std::uint32_t s = 0; s < map.slices(); ++s) {
    slices.push_back(std::make_unique<memory::L2Slice>(fmt::format("l2_{}", s).c_str(), domain,
                                                       fmt::format("l2.slice{}", s), params.l2, map, s,
                                                       memory::L2IngressPorts::crossbar_and_hub));
    crossbar.slice_out(s).bind(slices.back()->request_in);
    if (!hbm) continue;
    slices.back()->memory_out.bind(hbm->in(s));
    slices.back()->watch(hbm->direct());
  }
}

MemorySystem::~MemorySystem() = default;

}  // namespace heddle::gpu

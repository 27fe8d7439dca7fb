// The way from the SMs to memory: crossbar, L2 slices, HBM, wired from a configuration. It holds and wires, and has no
// behaviour.
#pragma once

#include <memory>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "gpu/gpu_params.h"
#include "memory/crossbar.h"
#include "memory/hbm.h"
#include "memory/l2_slice.h"

namespace heddle::gpu {

// What stands behind the L2.
enum class DeviceMemory {
  own,       // the GPU's HBM
  attached,  // somebody else's: every MemoryOut of the slices is to be bound before simulation
};

class MemorySystem : public sc_core::sc_module {
 public:
  // `topology` must outlive it.
  MemorySystem(const sc_core::sc_module_name& name, Domain& domain, const GpuParams& params,
               const arch::Topology& topology, DeviceMemory memory);
  ~MemorySystem() override;

  // Which address is where; SMs see it as well.
  const arch::AddressMap map;
  memory::Crossbar crossbar;
  std::vector<std::unique_ptr<memory::L2Slice>> slices;
  std::unique_ptr<memory::Hbm> hbm;  // null if another memory is attached
};

}  // namespace heddle::gpu

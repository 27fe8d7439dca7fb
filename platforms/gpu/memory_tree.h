// The containers between the SMs and memory: address translation, crossbar, L2 slices, HBM, wired from a configuration.
// They hold and wire, and have no behaviour.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "common/packet_socket.h"
#include "gpu/gpu_params.h"
#include "memory/crossbar.h"
#include "memory/gpc_mmu.h"
#include "memory/hbm.h"
#include "memory/l2_slice.h"
#include "memory/mmu.h"

namespace heddle::host {
class MemoryHub;
}

namespace heddle::gpu {

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

// Address translation of a machine: the MMU and a TLB for each GPC (MEM-04). Without it nothing lies between SMs and
// the crossbar.
class MmuSystem {
 public:
  MmuSystem(Domain& domain, const memory::MmuParams& params, const arch::Topology& topology);

  // The way of an SM's requests, or of its tensor memory access unit's, to their ports of the crossbar.
  void bind_sm(MemoryOut& out, std::uint32_t gpc, std::uint32_t in_gpc, MemoryIn& port);
  void bind_bulk(MemoryOut& out, std::uint32_t gpc, std::uint32_t in_gpc, MemoryIn& port);
  // `client`: of the hub, for the walkers.
  void bind_hub(host::MemoryHub& hub, std::uint32_t client);

  PacketIn<protocol::SubcontextPacket>& share_in() { return mmu_.share_in; }
  // A way to physical memory for debug accesses.
  MemoryOut& debug_out() { return gpcs_.front()->port_out(0); }

 private:
  memory::Mmu mmu_;
  std::vector<std::unique_ptr<memory::GpcMmu>> gpcs_;
  std::vector<std::uint32_t> sms_;  // by GPC
};

}  // namespace heddle::gpu

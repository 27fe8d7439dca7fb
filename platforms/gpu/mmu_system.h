// Address translation of a machine: the MMU and a TLB for each GPC (MEM-04). Without it nothing lies between SMs and
// the crossbar.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/topology.h"
#include "common/packet_socket.h"
#include "gpu/gpc_tree.h"
#include "host/memory_hub.h"
#include "memory/crossbar.h"
#include "memory/gpc_mmu.h"
#include "memory/mmu.h"

namespace heddle::gpu {

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
  bool idle() const;

 private:
  memory::Mmu mmu_;
  std::vector<std::unique_ptr<memory::GpcMmu>> gpcs_;
  std::vector<std::uint32_t> sms_;  // by GPC
};

}  // namespace heddle::gpu

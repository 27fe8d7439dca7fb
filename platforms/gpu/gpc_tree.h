// The containers between the GPU and its SMs: GPC -> CPC -> TPC -> SM. They hold and wire, and have no behaviour.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "arch/virtual_map.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "gpc/gpm.h"
#include "gpc/mpc.h"
#include "gpc/sm_network.h"
#include "gpu/gpu_params.h"
#include "memory/bandwidth_control.h"
#include "memory/crossbar.h"
#include "memory/gpc_mmu.h"
#include "memory/hbm.h"
#include "memory/l2_slice.h"
#include "memory/mmu.h"
#include "sm/sm.h"
#include "tmau/tmau.h"

namespace heddle::host {
class MemoryHub;
}

namespace heddle::gpu {

// What all GPCs of a machine share.
struct MachineContext {
  Domain& domain;
  const GpuParams& params;
  std::uint64_t seed = 1;  // of CTA durations
  const arch::CodeStore& code;
  const arch::AddressMap& map;
  const arch::Topology& topology;
  std::uint64_t memory = 0;  // bytes that tensor memory access units may address
  gpc::CgaMemoryPool cga_memory;
  const arch::LaunchMemory& nested;
  sm::LoadBatch* loads = nullptr;  // of SMs whose accesses are calls
};

// A GPC as its parts see it while they are built.
struct GpcContext {
  const MachineContext& machine;
  const arch::Topology::Gpc& shape;
  gpc::GpcNumbers numbers;
  std::string path;                      // of its statistics
  std::vector<arch::VirtualPart> parts;  // by TPC
};

class Tpc : public sc_core::sc_module {
 public:
  // `path`: of its statistics. `number`: in its GPC.
  Tpc(const sc_core::sc_module_name& name, const GpcContext& gpc, const std::string& path, std::uint32_t number);
  ~Tpc() override;

  Children<gpc::Mpc> mpcs;  // one for each SM, or one for all
  Children<sm::Sm> sms;
};

class Cpc : public sc_core::sc_module {
 public:
  // `number`: in its GPC.
  Cpc(const sc_core::sc_module_name& name, const GpcContext& gpc, std::uint32_t number);
  ~Cpc() override;

  Children<Tpc> tpcs;  // in the order of the GPC's masks
};

class Gpc : public sc_core::sc_module {
 public:
  Gpc(const sc_core::sc_module_name& name, const GpcContext& gpc);
  ~Gpc() override;

  gpc::Gpm gpm;
  gpc::SmNetwork network;
  Children<Cpc> cpcs;
  Children<tmau::Tmau> tmaus;  // each serves gpu.tmau.sms SMs, in the order of the GPC's masks

  // The unit of an SM, and its place among those of the unit.
  tmau::Tmau& tmau_of(std::uint32_t in_gpc) { return *tmaus[in_gpc / sms_per_tmau_]; }
  std::uint32_t place_at_tmau(std::uint32_t in_gpc) const { return in_gpc % sms_per_tmau_; }

 private:
  void wire(const arch::Topology::Gpc& shape);
  void add_tmaus(const GpcContext& gpc);
  void wire_tmaus(const std::vector<sm::Sm*>& sms);

  std::uint32_t sms_per_tmau_;
};

// The containers between the SMs and memory: address translation, crossbar, L2 slices, HBM, wired from a configuration.
// They hold and wire, and have no behaviour.
class MemorySystem : public sc_core::sc_module {
 public:
  // `topology` must outlive it. `hbm_domain`: the clock of the HBM's controllers.
  MemorySystem(const sc_core::sc_module_name& name, Domain& domain, Domain& hbm_domain, const GpuParams& params,
               const arch::Topology& topology, DeviceMemory memory);
  ~MemorySystem() override;

  // Which address is where; SMs see it as well.
  const arch::AddressMap map;
  memory::OwnerAccounts owners;
  memory::BandwidthControl bandwidth;
  memory::WriteWatch watch;
  memory::Crossbar crossbar;
  Children<memory::L2Slice> slices;
  std::unique_ptr<memory::Hbm> hbm;  // null if another memory is attached

 private:
  std::unique_ptr<memory::L2Presence> presence_;  // null: nobody asks
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
  memory::Mmu& mmu() { return mmu_; }
  // A way to physical memory for debug accesses.
  MemoryOut& debug_out() { return gpcs_.front()->port_out(0); }

 private:
  memory::Mmu mmu_;
  Children<memory::GpcMmu> gpcs_;
  std::vector<std::uint32_t> sms_;  // by GPC
};

}  // namespace heddle::gpu

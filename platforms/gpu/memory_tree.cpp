#include "gpu/memory_tree.h"

#include <fmt/format.h>

#include "host/memory_hub.h"

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

// Clients of the MMU: the GPCs in their order, then the memory hub.
MmuSystem::MmuSystem(Domain& domain, const memory::MmuParams& params, const arch::Topology& topology)
    : mmu_("mmu", domain, "mmu", params, topology.gpcs() + 1) {
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    sms_.push_back(topology.gpc(g).sms);
    const std::string name = fmt::format("gpc{}_mmu", g);
    gpcs_.push_back(
        std::make_unique<memory::GpcMmu>(name.c_str(), domain, fmt::format("gpc{}.mmu", g), params, 2 * sms_[g], mmu_));
    gpcs_[g]->translate_out.bind(mmu_.translate_in[g]);
    mmu_.translated_out.bind(gpcs_[g]->translated_in);
    mmu_.invalidate_out.bind(gpcs_[g]->invalidate_in);
  }
}

void MmuSystem::bind_sm(MemoryOut& out, std::uint32_t gpc, std::uint32_t in_gpc, MemoryIn& port) {
  out.bind(gpcs_[gpc]->port_in(in_gpc));
  gpcs_[gpc]->port_out(in_gpc).bind(port);
}

void MmuSystem::bind_bulk(MemoryOut& out, std::uint32_t gpc, std::uint32_t in_gpc, MemoryIn& port) {
  bind_sm(out, gpc, sms_[gpc] + in_gpc, port);
}

void MmuSystem::bind_hub(host::MemoryHub& hub, std::uint32_t client) {
  hub.translate_out().bind(mmu_.translate_in[gpcs_.size()]);
  mmu_.translated_out.bind(hub.translated_in());
  mmu_.invalidate_out.bind(hub.invalidate_in());
  mmu_.memory_out.bind(hub.client_in(client));
}

}  // namespace heddle::gpu

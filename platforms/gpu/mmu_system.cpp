#include "gpu/mmu_system.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::gpu {

// Clients of the MMU: the GPCs in their order, then the memory hub.
MmuSystem::MmuSystem(Domain& domain, const memory::MmuParams& params, const arch::Topology& topology)
    : mmu_("mmu", domain, "mmu", params, topology.gpcs() + 1) {
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    sms_.push_back(topology.gpc(g).sms);
    const std::string name = fmt::format("gpc{}_mmu", g);
    gpcs_.push_back(
        std::make_unique<memory::GpcMmu>(name.c_str(), domain, fmt::format("gpc{}.mmu", g), params, 2 * sms_[g], mmu_));
    gpcs_[g]->translate_out.bind(mmu_.translate_in[g]);
    mmu_.translated_out.bind(gpcs_[g]->answer_in);
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

bool MmuSystem::idle() const {
  return mmu_.idle() && std::all_of(gpcs_.begin(), gpcs_.end(), [](const auto& gpc) { return gpc->idle(); });
}

}  // namespace heddle::gpu

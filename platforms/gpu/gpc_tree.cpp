#include "gpu/gpc_tree.h"

#include <fmt/format.h>

namespace heddle::gpu {

Tpc::Tpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
         const arch::Topology::Gpc& gpc, const arch::Topology::Tpc& tpc, const SmSurroundings& around)
    : sc_core::sc_module(name), mpc("mpc", domain, path + ".mpc", params.gpc, tpc.sms, params.sm.limits.ctas) {
  for (std::uint32_t i = 0; i < tpc.sms; ++i) {
    const std::string sm_name = fmt::format("sm{}", i);
    sms.push_back(std::make_unique<sm::Sm>(sm_name.c_str(), domain, fmt::format("{}.{}", path, sm_name), params.sm,
                                           gpc.sm_ids[tpc.first_sm + i], params.gpc.mpc_to_sm, around.seed, around.code,
                                           sm::MemoryView{around.map}, around.sms));
    mpc.start_out.bind(sms.back()->start_in);
    sms.back()->exit_out.bind(mpc.exit_in[i]);
    mpc.abort_out.bind(sms.back()->abort_in);
  }
}

Cpc::Cpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
         const arch::Topology::Gpc& gpc, std::uint32_t index, const SmSurroundings& around)
    : sc_core::sc_module(name) {
  for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) {
    if (gpc.tpcs[t].cpc != index) continue;
    const std::string tpc_name = fmt::format("tpc{}", t);
    tpcs.push_back(std::make_unique<Tpc>(tpc_name.c_str(), domain, fmt::format("{}.cpc{}.{}", path, index, tpc_name),
                                         params, gpc, gpc.tpcs[t], around));
  }
}

Gpc::Gpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
         const arch::Topology::Gpc& gpc, const SmSurroundings& around)
    : sc_core::sc_module(name), gpm("gpm", domain, path + ".gpm", params.gpc, gpc) {
  std::uint32_t tpc = 0;
  for (std::uint32_t c = 0; c < gpc.cpcs; ++c) {
    cpcs.push_back(std::make_unique<Cpc>(fmt::format("cpc{}", c).c_str(), domain, path, params, gpc, c, around));
    for (const std::unique_ptr<Tpc>& member : cpcs.back()->tpcs) {
      gpm.tpc_launch_out.bind(member->mpc.launch_in);
      gpm.local_out.bind(member->mpc.local_in);
      gpm.abort_out.bind(member->mpc.abort_in);
      member->mpc.complete_out.bind(gpm.complete_in[tpc++]);
    }
  }
}

}  // namespace heddle::gpu

#include "gpu/gpc_tree.h"

#include <fmt/format.h>

namespace heddle::gpu {

Tpc::Tpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
         const arch::Topology::Gpc& gpc, std::uint32_t number, std::uint32_t gpc_number, const SmSurroundings& around)
    : sc_core::sc_module(name),
      mpc("mpc", domain, path + ".mpc", params.gpc, gpc.tpcs[number].sms, params.sm.limits.ctas, number,
          gpc.tpcs[number].first_sm) {
  const arch::Topology::Tpc& tpc = gpc.tpcs[number];
  for (std::uint32_t i = 0; i < tpc.sms; ++i) {
    const std::string sm_name = fmt::format("sm{}", i);
    const std::uint32_t in_gpc = tpc.first_sm + i;
    const sm::SmPlace place{gpc.sm_ids[in_gpc], around.sms, gpc_number, in_gpc,
                            static_cast<std::uint32_t>(gpc.tpcs.size())};
    sms.push_back(std::make_unique<sm::Sm>(sm_name.c_str(), domain, fmt::format("{}.{}", path, sm_name), params.sm,
                                           place, params.gpc.mpc_to_sm, around.seed, around.code,
                                           sm::MemoryView{around.map}));
    sm::Sm& sm = *sms.back();
    mpc.start_out.bind(sm.start_in);
    sm.exit_out.bind(mpc.exit_in[i]);
    mpc.abort_out.bind(sm.abort_in);
    mpc.order_out.bind(sm.order_in);
    sm.notice_out.bind(mpc.notice_in[i]);
  }
}

Cpc::Cpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
         const arch::Topology::Gpc& gpc, std::uint32_t index, std::uint32_t gpc_number, const SmSurroundings& around)
    : sc_core::sc_module(name) {
  for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) {
    if (gpc.tpcs[t].cpc != index) continue;
    const std::string tpc_name = fmt::format("tpc{}", t);
    tpcs.push_back(std::make_unique<Tpc>(tpc_name.c_str(), domain, fmt::format("{}.cpc{}.{}", path, index, tpc_name),
                                         params, gpc, t, gpc_number, around));
  }
}

Gpc::Gpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
         const arch::Topology::Gpc& gpc, std::uint32_t number, const SmSurroundings& around)
    : sc_core::sc_module(name),
      gpm("gpm", domain, path + ".gpm", params.gpc, gpc, number, around.cga_memory),
      network("network", domain, path + ".network", params.network, gpc, number) {
  for (std::uint32_t c = 0; c < gpc.cpcs; ++c) {
    cpcs.push_back(
        std::make_unique<Cpc>(fmt::format("cpc{}", c).c_str(), domain, path, params, gpc, c, number, around));
  }
  wire(gpc);
}

void Gpc::wire(const arch::Topology::Gpc& gpc) {
  std::vector<Tpc*> tpcs;
  for (const std::unique_ptr<Cpc>& cpc : cpcs) {
    for (const std::unique_ptr<Tpc>& tpc : cpc->tpcs) tpcs.push_back(tpc.get());
  }
  // Links are numbered by the order of binding.
  std::vector<sm::Sm*> sms(gpc.sm_ids.size());
  for (std::uint32_t t = 0; t < tpcs.size(); ++t) {
    Tpc& tpc = *tpcs[t];
    gpm.tpc_launch_out.bind(tpc.mpc.launch_in);
    gpm.local_out.bind(tpc.mpc.local_in);
    gpm.abort_out.bind(tpc.mpc.abort_in);
    gpm.order_out.bind(tpc.mpc.order_in);
    tpc.mpc.complete_out.bind(gpm.complete_in[t]);
    tpc.mpc.notice_out.bind(gpm.notice_in[t]);
    for (std::uint32_t i = 0; i < tpc.sms.size(); ++i) sms[gpc.tpcs[t].first_sm + i] = tpc.sms[i].get();
  }
  for (std::uint32_t bit = 0; bit < sms.size(); ++bit) {
    sm::Sm& sm = *sms[bit];
    for (std::uint32_t t = 0; t < tpcs.size(); ++t) tpcs[t]->mpc.entry_out.bind(sm.entry_in[t]);
    sm.dsmem_out.bind(network.request_in[bit]);
    network.request_out.bind(sm.dsmem_in);
    sm.reply_out.bind(network.reply_in[bit]);
    network.reply_out.bind(sm.reply_in);
  }
}

}  // namespace heddle::gpu

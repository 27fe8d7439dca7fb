#include "gpu/gpc_tree.h"

#include <algorithm>

#include <fmt/format.h>

#include "host/memory_hub.h"

namespace heddle::gpu {

namespace {

// GPCs may stand at different distances from the distributor.
gpc::GpcParams params_of(const GpcContext& gpc) {
  const GpuParams& params = gpc.machine.params;
  gpc::GpcParams own = params.gpc;
  if (!params.cwd.gpc_distances.empty()) own.gpm_to_cwd = params.cwd.gpc_distances[gpc.numbers.gpc];
  return own;
}

}  // namespace

Tpc::Tpc(const sc_core::sc_module_name& name, const GpcContext& gpc, const std::string& path, std::uint32_t number)
    : sc_core::sc_module(name) {
  const MachineContext& machine = gpc.machine;
  const GpuParams& params = machine.params;
  const arch::Topology::Tpc& tpc = gpc.shape.tpcs[number];
  const std::vector<gpc::MpcPlace> places = gpc::mpc_places(gpc.shape, params.gpc.mpc, params.sm.limits.ctas);
  for (const gpc::MpcPlace& place : places) {
    if (place.tpc != number) continue;
    const std::string mpc_name = fmt::format("mpc{}", mpcs.size());
    mpcs.push_back(std::make_unique<gpc::Mpc>(mpc_name.c_str(), machine.domain, fmt::format("{}.{}", path, mpc_name),
                                              params.gpc, place));
  }
  for (std::uint32_t i = 0; i < tpc.sms; ++i) {
    const std::string sm_name = fmt::format("sm{}", i);
    const std::uint32_t in_gpc = tpc.first_sm + i;
    sm::SmContext place;
    place.id = protocol::SmId(gpc.shape.sm_ids[in_gpc]);
    place.sms = machine.topology.sms();
    place.gpc = gpc.numbers.gpc;
    place.in_gpc = protocol::SmInGpc(in_gpc);
    place.bulk_queue = params.tmau.queue;
    place.bulk_way = params.tmau.input;
    place.share_receivers = params.tmau.share_receivers;
    place.answer_way = params.gpc.gpm_to_mpc + params.gpc.mpc_to_sm;
    place.query_way = place.answer_way + params_of(gpc).gpm_to_cwd;
    place.tpc = number;
    place.in_tpc = i;
    place.sms_per_tpc = machine.topology.sms_per_tpc();
    place.cpc = tpc.cpc;
    place.ugpu = machine.topology.ugpu_of(gpc.numbers.gpc);
    place.part = gpc.parts[number];
    if (place.part.sm != arch::kNoVirtual) place.part.sm += i;
    sms.push_back(std::make_unique<sm::Sm>(
        sm_name.c_str(), machine.domain, fmt::format("{}.{}", path, sm_name), params.sm, place, params.gpc.mpc_to_sm,
        machine.seed, machine.code,
        sm::MemoryView{machine.map, machine.nested, params.machine.instances.of_gpc(gpc.numbers.gpc),
                       machine.topology.partition_of(gpc.numbers.gpc.value(), machine.map.partitions()),
                       machine.loads}));
    sm::Sm& sm = *sms.back();
    // The number of the MPC, and of the SM among those that it serves.
    const bool shared = params.gpc.mpc == gpc::MpcPer::tpc;
    gpc::Mpc& mpc = *mpcs[shared ? 0 : i];
    const std::uint32_t link = shared ? i : 0;
    mpc.start_out.bind(sm.start_in);
    sm.exit_out.bind(mpc.exit_in[link]);
    mpc.abort_out.bind(sm.abort_in);
    mpc.part_out.bind(sm.part_in);
    mpc.local_out.bind(sm.local_in);
    mpc.order_out.bind(sm.order_in);
    sm.notice_out.bind(mpc.notice_in[link]);
  }
}

Tpc::~Tpc() = default;

Cpc::Cpc(const sc_core::sc_module_name& name, const GpcContext& gpc, std::uint32_t number) : sc_core::sc_module(name) {
  for (std::uint32_t t = 0; t < gpc.shape.tpcs.size(); ++t) {
    if (gpc.shape.tpcs[t].cpc != number) continue;
    const std::string tpc_name = fmt::format("tpc{}", t);
    tpcs.push_back(
        std::make_unique<Tpc>(tpc_name.c_str(), gpc, fmt::format("{}.cpc{}.{}", gpc.path, number, tpc_name), t));
  }
}

Cpc::~Cpc() = default;

Gpc::Gpc(const sc_core::sc_module_name& name, const GpcContext& gpc)
    : sc_core::sc_module(name),
      gpm("gpm", gpc.machine.domain, gpc.path + ".gpm", params_of(gpc), gpc.shape, gpc.numbers, gpc.machine.cga_memory),
      network("network", gpc.machine.domain, gpc.path + ".network", gpc.machine.params.network, gpc.shape,
              gpc.numbers.gpc, gpc.machine.params.tmau.sms),
      sms_per_tmau_(gpc.machine.params.tmau.sms) {
  for (std::uint32_t c = 0; c < gpc.shape.cpcs; ++c) {
    cpcs.push_back(std::make_unique<Cpc>(fmt::format("cpc{}", c).c_str(), gpc, c));
  }
  add_tmaus(gpc);
  wire(gpc.shape);
}

Gpc::~Gpc() = default;

void Gpc::add_tmaus(const GpcContext& gpc) {
  const auto sms = static_cast<std::uint32_t>(gpc.shape.sm_ids.size());
  const std::uint32_t units = (sms + sms_per_tmau_ - 1) / sms_per_tmau_;
  for (std::uint32_t u = 0; u < units; ++u) {
    tmau::TmauPlace place;
    place.gpc = gpc.numbers.gpc;
    place.number = u;
    place.units = units;
    place.per_unit = sms_per_tmau_;
    place.first = u * sms_per_tmau_;
    for (std::uint32_t bit = place.first; bit < std::min(sms, place.first + sms_per_tmau_); ++bit) {
      place.ids.push_back(gpc.shape.sm_ids[bit]);
    }
    place.memory = gpc.machine.memory;
    const std::string name = fmt::format("tmau{}", u);
    tmaus.push_back(std::make_unique<tmau::Tmau>(name.c_str(), gpc.machine.domain, fmt::format("{}.{}", gpc.path, name),
                                                 gpc.machine.params.tmau, place));
  }
}

void Gpc::wire(const arch::Topology::Gpc& shape) {
  std::vector<Tpc*> tpcs;
  for (const std::unique_ptr<Cpc>& cpc : cpcs) {
    for (const std::unique_ptr<Tpc>& tpc : cpc->tpcs) tpcs.push_back(tpc.get());
  }
  // Links are numbered by the order of binding.
  std::vector<sm::Sm*> sms(shape.sm_ids.size());
  std::vector<gpc::Mpc*> mpcs;
  for (std::uint32_t t = 0; t < tpcs.size(); ++t) {
    Tpc& tpc = *tpcs[t];
    for (const std::unique_ptr<gpc::Mpc>& mpc : tpc.mpcs) {
      const std::size_t m = mpcs.size();
      mpcs.push_back(mpc.get());
      gpm.tpc_launch_out.bind(mpc->launch_in);
      gpm.local_out.bind(mpc->local_in);
      gpm.abort_out.bind(mpc->abort_in);
      gpm.part_out.bind(mpc->part_in);
      gpm.order_out.bind(mpc->order_in);
      mpc->complete_out.bind(gpm.complete_in[m]);
      mpc->notice_out.bind(gpm.notice_in[m]);
    }
    for (std::uint32_t i = 0; i < tpc.sms.size(); ++i) sms[shape.tpcs[t].first_sm + i] = tpc.sms[i].get();
  }
  for (std::uint32_t bit = 0; bit < sms.size(); ++bit) {
    sm::Sm& sm = *sms[bit];
    for (gpc::Mpc* mpc : mpcs) mpc->entry_out.bind(sm.entry_in);
    sm.dsmem_out.bind(network.request_in[bit]);
    network.request_out.bind(sm.dsmem_in);
    sm.reply_out.bind(network.reply_in[bit]);
    network.reply_out.bind(sm.reply_in);
  }
  wire_tmaus(sms);
}

void Gpc::wire_tmaus(const std::vector<sm::Sm*>& sms) {
  for (std::uint32_t bit = 0; bit < sms.size(); ++bit) {
    sm::Sm& sm = *sms[bit];
    tmau::Tmau& unit = tmau_of(bit);
    const std::uint32_t place = place_at_tmau(bit);
    sm.bulk_out.bind(unit.request_in[place]);
    unit.done_out.bind(sm.bulk_done_in);
    unit.data_out.bind(sm.bulk_data_in);
    unit.read_out.bind(sm.bulk_read_in);
    sm.bulk_read_out.bind(unit.read_in[place]);
  }
  for (const auto& unit : tmaus) {
    unit->peer_out.bind(network.peer_in[unit->place().number]);
    network.peer_out.bind(unit->peer_in);
  }
}

namespace {

arch::AddressMap map_of(const GpuParams& params) {
  arch::AddressMap map(params.machine.memory, params.l2.slices, params.l2.partitions, params.machine.instances);
  if (params.l2.copies == memory::L2Copies::near && params.machine.instances.count() == 0) map.keep_copies();
  return map;
}

}  // namespace

MemorySystem::MemorySystem(const sc_core::sc_module_name& name, Domain& domain, Domain& hbm_domain,
                           const GpuParams& params, const arch::Topology& topology, DeviceMemory memory)
    : sc_core::sc_module(name),
      map(map_of(params)),
      owners(domain.observation()),
      bandwidth("bandwidth", domain, "memory.bandwidth"),
      watch("watch", domain, "memory.watch", params.hub.latency),
      crossbar("crossbar", domain, "xbar", params.xbar, topology, map, &owners, {&bandwidth.table(), params.l2.queue},
               params.links.enabled ? params.links.ports : 0) {
  memory::SliceSurroundings around{
      &owners, {&bandwidth.table(), static_cast<double>(params.l2.memory_bandwidth), params.l2.limit_burst}};
  around.twin = {params.xbar.crossing, params.xbar.crossing_bandwidth * 2 / params.l2.slices, params.xbar.header_bytes};
  around.watch = &watch;
  if (memory == DeviceMemory::own) {
    hbm = std::make_unique<memory::Hbm>("hbm", hbm_domain, "hbm", params.hbm, map.bytes(), map.slices(),
                                        &bandwidth.table(), params.machine.instances);
    const double peak = hbm->peak() * domain.clock().period().to_seconds() / map.slices();
    around.shares.memory_bytes_per_cycle = std::min(around.shares.memory_bytes_per_cycle, peak);
    around.direct = &hbm->direct();
    around.row_lines = hbm->map().row_lines();
    if (has_calls(domain.mode()) && &domain == &hbm_domain) {
      presence_ = std::make_unique<memory::L2Presence>(map.bytes());
      around.presence = presence_.get();
    }
  }
  for (std::uint32_t s = 0; s < map.slices(); ++s) {
    slices.push_back(std::make_unique<memory::L2Slice>(fmt::format("l2_{}", s).c_str(), domain,
                                                       fmt::format("l2.slice{}", s), params.l2, map, s,
                                                       memory::L2IngressPorts::crossbar_and_hub, around));
    crossbar.slice_out(s).bind(slices.back()->request_in);
    if (hbm) slices.back()->memory_out.bind(hbm->in(s));
  }
  for (std::uint32_t s = 0; map.copies() && s < map.slices(); ++s) {
    slices[s]->twin().way.out.bind(slices[map.twin_of(s)]->twin().in);
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
  hub.translator().translate_out.bind(mmu_.translate_in[gpcs_.size()]);
  mmu_.translated_out.bind(hub.translator().translated_in);
  mmu_.invalidate_out.bind(hub.translator().invalidate_in);
  mmu_.memory_out.bind(hub.client_in(client));
}

}  // namespace heddle::gpu

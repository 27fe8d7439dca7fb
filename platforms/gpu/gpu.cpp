#include "gpu/gpu.h"

#include <fmt/format.h>

namespace heddle::gpu {
namespace {

const GpuParams& checked(const GpuParams& params) {
  params.check();
  return params;
}

}  // namespace

Cycle Gpu::start_path(const GpuParams& params) {
  // A grid on an empty machine: the bisection always takes the same steps, the scan one if the grid is small.
  Cycle steps = 1;
  if (params.cwd.level_search == cwd::LevelSearch::bisection) {
    steps = 0;
    for (std::uint32_t top = 1; top <= params.sm.limits.ctas; top *= 2) ++steps;
  }
  return Cycle{params.task.to_cwd} + params.cwd.session_pipeline + steps * params.cwd.session_step;
}

Gpu::Gpu(const sc_core::sc_module_name& name, const GpuParams& params, std::uint64_t seed, Observation& observation)
    : sc_core::sc_module(name),
      params_(checked(params)),
      topology_(params.machine.shape, params.machine.ugpus),
      domain_("domain", params.machine.clock, params.machine.timing, params.machine.run_ahead, observation),
      task_("task", domain_, "task", params.task, params.sm.limits, start_path(params), params.cwd.table_slots),
      cwd_("cwd", domain_, "cwd", params.cwd, topology_, arch::capacity_of(params.sm.limits),
           {params.gpc.cga_ids, params.gpc.cga_barriers}) {
  observation.load_map.configure(topology_.sms(), params.sm.limits.warps);
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const std::string gpc_name = fmt::format("gpc{}", g);
    GpuParams own = params_;
    if (!params.cwd.gpc_distances.empty()) own.gpc.gpm_to_cwd = params.cwd.gpc_distances[g];
    gpcs_.push_back(std::make_unique<Gpc>(gpc_name.c_str(), domain_, gpc_name, own, topology_.gpc(g), seed));
  }
  wire();
}

void Gpu::wire() {
  task_.task_out.bind(cwd_.task_in);
  task_.control_out.bind(cwd_.control_in);
  cwd_.done_out.bind(task_.task_done_in);
  for (std::uint32_t g = 0; g < gpcs_.size(); ++g) {
    cwd_.launch_out.bind(gpcs_[g]->gpm.launch_in);
    cwd_.local_out.bind(gpcs_[g]->gpm.local_in);
    gpcs_[g]->gpm.complete_out.bind(cwd_.complete_in[g]);
    gpcs_[g]->gpm.cga_out.bind(cwd_.cga_in[g]);
  }
}

sm::Sm& Gpu::sm(std::uint32_t id) {
  const arch::Topology::Sm& place = topology_.sm(id);
  const Gpc& gpc = *gpcs_[place.gpc];
  std::uint32_t tpc = place.tpc;
  for (const auto& cpc : gpc.cpcs) {
    if (tpc < cpc->tpcs.size()) return *cpc->tpcs[tpc]->sms[place.in_tpc];
    tpc -= static_cast<std::uint32_t>(cpc->tpcs.size());
  }
  HEDDLE_CHECK(false, "an SM has no place in the tree");
  std::terminate();
}

void Gpu::preload(const std::vector<SmLoad>& loads) {
  std::vector<arch::ResourceVector> sums(topology_.sms());
  const arch::ResourceVector capacity = arch::capacity_of(params_.sm.limits);
  for (const SmLoad& load : loads) {
    if (load.sm >= topology_.sms()) {
      throw InputError(
          fmt::format("a load names SM {}, but the machine has SMs 0 to {}", load.sm, topology_.sms() - 1));
    }
    sums[load.sm].add(load.amount);
    for (std::size_t i = 0; i < arch::kResources; ++i) {
      if (sums[load.sm].amount[i] <= capacity.amount[i]) continue;
      throw InputError(fmt::format("SM {} cannot hold its load: {} of {}, it has {}", load.sm, sums[load.sm].amount[i],
                                   arch::resource_name(static_cast<arch::Resource>(i)), capacity.amount[i]));
    }
  }
  for (const SmLoad& load : loads) {
    cwd_.preload(load.sm, load.amount, load.until);
    sm(load.sm).preload(load.amount, load.until);
  }
}

void Gpu::reset() {
  domain_.reset();
  domain_.observation().stats.clear();
  domain_.observation().load_map.clear();
}

void Gpu::check_quiescent() const {
  HEDDLE_CHECK(task_.open() == 0, "operations are open in an idle machine");
  HEDDLE_CHECK(cwd_.quiescent(), "the distributor of an idle machine still accounts for work");
  for (const auto& gpc : gpcs_) {
    HEDDLE_CHECK(gpc->gpm.live_ctas() == 0, "a GPM of an idle machine counts live CTAs");
    HEDDLE_CHECK(gpc->gpm.live_cgas() == 0, "a GPM of an idle machine counts live CGAs");
    for (const auto& cpc : gpc->cpcs) {
      for (const auto& tpc : cpc->tpcs) {
        for (std::uint32_t i = 0; i < tpc->sms.size(); ++i) {
          HEDDLE_CHECK(tpc->mpc.slots_used(i) == 0, "CTA slots are in use on an idle machine");
          HEDDLE_CHECK(tpc->sms[i]->resident() == 0 && tpc->sms[i]->used() == tpc->sms[i]->base(),
                       "an SM of an idle machine holds resources");
        }
      }
    }
  }
}

}  // namespace heddle::gpu

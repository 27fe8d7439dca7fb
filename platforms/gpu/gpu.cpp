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
      topology_(params.machine.shape),
      domain_("domain", params.machine.clock, params.machine.timing, params.machine.run_ahead, observation),
      task_("task", domain_, "task", params.task, params.sm.limits, start_path(params), params.cwd.table_slots),
      cwd_("cwd", domain_, "cwd", params.cwd, topology_, arch::capacity_of(params.sm.limits)) {
  observation.load_map.configure(topology_.sms(), params.sm.limits.warps);
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const std::string gpc_name = fmt::format("gpc{}", g);
    gpcs_.push_back(std::make_unique<Gpc>(gpc_name.c_str(), domain_, gpc_name, params_, topology_.gpc(g), seed));
  }
  wire();
}

void Gpu::wire() {
  task_.task_out.bind(cwd_.task_in);
  cwd_.done_out.bind(task_.task_done_in);
  for (std::uint32_t g = 0; g < gpcs_.size(); ++g) {
    cwd_.launch_out.bind(gpcs_[g]->gpm.launch_in);
    gpcs_[g]->gpm.complete_out.bind(cwd_.complete_in[g]);
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
    for (const auto& cpc : gpc->cpcs) {
      for (const auto& tpc : cpc->tpcs) {
        for (std::uint32_t i = 0; i < tpc->sms.size(); ++i) {
          HEDDLE_CHECK(tpc->mpc.slots_used(i) == 0, "CTA slots are in use on an idle machine");
          HEDDLE_CHECK(tpc->sms[i]->resident() == 0 && tpc->sms[i]->used() == arch::ResourceVector{},
                       "an SM of an idle machine holds resources");
        }
      }
    }
  }
}

}  // namespace heddle::gpu

#include "replay/idle_parameters.h"

#include <algorithm>
#include <cstddef>

#include "arch/topology.h"
#include "common/error.h"
#include "common/params.h"
#include "fluid/fluid_machine.h"
#include "gpu/demand_peaks.h"

namespace heddle::replay {
namespace {

using arch::Demand;
using arch::DemandUnit;
using gpu::GpuParams;

std::vector<ParamEntry> entries_of(GpuParams params) {
  ParamBinder binder;
  params.bind(binder);
  return binder.entries();
}

fluid::FluidMachine peaks_of(const GpuParams& params) {
  return gpu::fluid_machine(params, gpu::topology_of(params), params.machine.clock);
}

// What comes from memory follows from what the L2 holds (RecordedDemands::demands_on()).
bool holds_as_much(const memory::L2Params& one, const memory::L2Params& other) {
  return one.bytes == other.bytes && one.copies == other.copies && one.partitions == other.partitions;
}

bool reads_l2(const Demand* demand) { return demand->of(DemandUnit::l2_read) > 0; }

// The chosen machine, with those before and one more parameter as they were recorded: `put_back`, which has it as well
// if that makes no difference. So what is said of several parameters holds of all of them together.
bool tells_apart(const std::vector<const Demand*>& demands, const GpuParams& chosen, const fluid::FluidMachine& peaks,
                 const ParamEntry& recorded, GpuParams& put_back) {
  if (demands.empty()) return false;
  try {
    GpuParams other = put_back;
    ParamBinder binder;
    other.bind(binder);
    binder.set(recorded.path + "=" + recorded.value_text);
    if (!holds_as_much(chosen.l2, other.l2) && std::any_of(demands.begin(), demands.end(), reads_l2)) return true;
    const fluid::FluidMachine its = peaks_of(other);
    if (std::any_of(demands.begin(), demands.end(),
                    [&](const Demand* demand) { return !fluid::alike(*demand, peaks, its); })) {
      return true;
    }
    put_back = other;
    return false;
  } catch (const InputError&) {
    return true;  // without the others that have changed, it makes no machine
  }
}

}  // namespace

IdleParameters idle_parameters(const GpuParams& recorded, const GpuParams& chosen,
                               const std::vector<const Demand*>& demands) {
  // What stands behind requests of CTAs, put back all at once: of these first where the front end's go as well.
  GpuParams put_back = chosen;
  put_back.xbar = recorded.xbar;
  put_back.l2 = recorded.l2;
  put_back.hbm = recorded.hbm;
  const std::vector<ParamEntry> shared = entries_of(put_back);
  put_back.sm.issue = recorded.sm.issue;
  put_back.sm.memory = recorded.sm.memory;
  put_back.tmau = recorded.tmau;
  const std::vector<ParamEntry> all = entries_of(put_back);
  const std::vector<ParamEntry> now = entries_of(chosen);
  const fluid::FluidMachine peaks = peaks_of(chosen);
  GpuParams with_idle = chosen;
  IdleParameters idle;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (all[i].value_text == now[i].value_text || tells_apart(demands, chosen, peaks, all[i], with_idle)) continue;
    (shared[i].value_text != now[i].value_text ? idle.front_end : idle.paths).push_back(now[i].path);
  }
  return idle;
}

}  // namespace heddle::replay

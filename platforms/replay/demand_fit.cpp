#include "replay/demand_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "arch/topology.h"
#include "common/domain.h"
#include "gpu/demand_peaks.h"

namespace heddle::replay {
namespace {

using arch::Demand;
using arch::DemandUnit;

// The time that so many CTAs take at least, in cycles, spread over all SMs, and the resource that sets it.
struct Limit {
  double cycles = 0;
  std::size_t resource = fluid::kResources;  // none: nothing is shared
};

// Part of the CTAs, spread evenly over all SMs, over the capacity that serves them: of the GPC, or the pool of memory,
// that is loaded most. 0: nothing has a capacity.
double heaviest(const fluid::FluidMachine& machine, std::size_t wide) {
  const bool of_gpc = wide < fluid::kGpcWides;
  std::vector<double> sms(of_gpc ? machine.gpcs.size() : machine.pools.size(), 0);
  std::vector<double> capacity(sms.size(), 0);
  for (const std::uint32_t gpc : machine.gpc_of) {
    const std::size_t at = of_gpc ? gpc : machine.gpcs[gpc].pool;
    sms[at] += 1;
    capacity[at] = machine.capacity(gpc, static_cast<fluid::Resource>(fluid::kFirstWide + wide));
  }
  double most = 0;
  for (std::size_t i = 0; i < sms.size(); ++i) {
    if (capacity[i] > 0) most = std::max(most, sms[i] / static_cast<double>(machine.gpc_of.size()) / capacity[i]);
  }
  return most;
}

Limit shared(const fluid::CtaWork& work, const fluid::FluidMachine& machine, double ctas,
             const DemandFit::ByWide& left) {
  Limit limit;
  const auto take = [&limit](double cycles, std::size_t resource) {
    if (cycles > limit.cycles) limit = {cycles, resource};
  };
  const double on_one = std::ceil(ctas / static_cast<double>(machine.gpc_of.size()));
  for (std::size_t i = 0; i < fluid::kLocals; ++i) take(work.load[i] * on_one / work.pace, i);
  const std::array<double, fluid::kPlaces> places{machine.requests, machine.bulk_requests};
  for (std::size_t i = 0; i < fluid::kPlaces; ++i) {
    take(work.held[i].empty * on_one / places[i], fluid::kLocals + i);
  }
  for (std::size_t i = 0; i < fluid::kWides; ++i) {
    take(work.flow[i] / work.pace * ctas * heaviest(machine, i) / left[i], fluid::kFirstWide + i);
  }
  return limit;
}

// The factor from low to high at which `duration` comes to `wanted`, to a part in a million. It grows with the factor.
template <class Duration>
double solve(double low, double high, double wanted, Duration duration) {
  for (int i = 0; i < 100 && high > low * (1 + 1e-6); ++i) {
    const double middle = low > 0 ? std::sqrt(low * high) : high / 2;
    (duration(middle) < wanted ? low : high) = middle;
    if (high < 1e-9) break;
  }
  return high;
}

}  // namespace

Demand scaled(const Demand& demand, double factor) {
  Demand made = demand;
  for (double& amount : made.amounts) amount *= factor;
  made.bulk_read *= factor;
  return made;
}

Demand with_memory(const Demand& demand, double factor) {
  Demand made = demand;
  made.of(DemandUnit::dram_read) *= factor;
  made.of(DemandUnit::dram_write) *= factor;
  return made;
}

DemandFit::DemandFit(const gpu::GpuParams& machine)
    : params_(machine),
      machine_(gpu::fluid_machine(machine, arch::Topology(machine.machine.shape, machine.machine.ugpus),
                                  machine.machine.clock)) {}

double DemandFit::duration(const arch::KernelShape& kernel, const Demand& demand, const Left& left) const {
  return duration(SoloKernel(params_, kernel, left.places), demand, left.wide);
}

DemandFit::ByWide DemandFit::busy(const arch::KernelShape& kernel, const Demand& demand) const {
  const fluid::CtaWork work = fluid::work_of(demand, machine_);
  const auto ctas = static_cast<double>(kernel.grid.count());
  ByWide ns{};
  for (std::size_t i = 0; i < ns.size(); ++i) {
    ns[i] = work.flow[i] / work.pace * ctas * heaviest(machine_, i) / params_.machine.clock;
  }
  return ns;
}

double DemandFit::duration(const SoloKernel& solo, const Demand& demand, const ByWide& left) const {
  const fluid::CtaWork work = fluid::work_of(demand, machine_);
  const double wave = shared(work, machine_, solo.slots(), left).cycles;
  const double last = shared(work, machine_, solo.last_wave(), left).cycles;
  return solo.duration(1 / work.pace, wave, last) / params_.machine.clock;
}

std::size_t DemandFit::limit(const arch::KernelShape& kernel, const Demand& demand) const {
  const fluid::CtaWork work = fluid::work_of(demand, machine_);
  const SoloKernel solo(params_, kernel);
  const Limit limit =
      shared(work, machine_, std::min(solo.slots(), static_cast<double>(kernel.grid.count())), Left().wide);
  return limit.cycles >= 1 / work.pace ? limit.resource : fluid::kResources;
}

DemandFit::Fit DemandFit::fit(const arch::KernelShape& kernel, const Demand& demand, double ns,
                              const Left& left) const {
  Fit made;
  made.demand = demand;
  const SoloKernel solo(params_, kernel, left.places);
  const auto of_scale = [&](double scale) { return duration(solo, scaled(demand, scale), left.wide); };
  const double all = of_scale(1);
  const double work = all - of_scale(0);
  if (all < ns && work < kWorks * ns) {
    made.waits = true;
    const auto of_floor = [&](double floor) {
      Demand its = demand;
      its.floor_ns = floor;
      return duration(solo, its, left.wide);
    };
    made.demand.floor_ns = solve(std::max(1.0, demand.floor_ns), std::max(2.0, ns), ns, of_floor);
    const bool nothing = work < 0.01 * ns;
    if (nothing || made.demand.floor_ns <= std::max(demand.floor_ns, kTrips * memory_latency())) return made;
    made = {demand};
  }
  if (all < ns) {
    double high = 2;
    while (of_scale(high) < ns && high < 1e12) high *= 2;
    made.scale = solve(1, high, ns, of_scale);
  } else if (all > ns) {
    const auto of_memory = [&](double part) { return duration(solo, with_memory(demand, part), left.wide); };
    if (of_memory(0) <= ns) {
      made.memory = solve(0, 1, ns, of_memory);
      made.demand = with_memory(demand, made.memory);
      return made;
    }
    made.scale = of_scale(0) > ns ? 0 : solve(0, 1, ns, of_scale);
  }
  made.demand = scaled(demand, made.scale);
  return made;
}

}  // namespace heddle::replay

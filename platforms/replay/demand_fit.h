// How long a kernel with a demand takes that has the machine to itself, in closed form, and which part of what the
// machine could do it reaches in a recording.
#pragma once

#include <array>
#include <cstdint>

#include "arch/demand.h"
#include "arch/task_record.h"
#include "fluid/fluid_machine.h"
#include "gpu/gpu_params.h"
#include "replay/comparison.h"

namespace heddle::replay {

class DemandFit {
 public:
  explicit DemandFit(const gpu::GpuParams& machine);

  using ByWide = std::array<double, fluid::kWides>;  // machine-wide resources, from fluid::kFirstWide on

  // What of the machine is there for a kernel, where others run beside it: parts above 0, up to 1.
  struct Left {
    double places = 1;  // for CTAs
    ByWide wide{};      // of what each of these carries

    Left() { wide.fill(1); }
  };

  // ns from the first launch packet to the last completion, of a kernel whose CTAs demand that and no more.
  double duration(const arch::KernelShape& kernel, const arch::Demand& demand, const Left& left = {}) const;
  // ns for which it would have each of the machine-wide resources to itself.
  ByWide busy(const arch::KernelShape& kernel, const arch::Demand& demand) const;

  // Number of the resource (fluid::Resource) that sets its pace while as many of its CTAs run as the machine holds;
  // fluid::kResources: nothing but its own floor.
  std::size_t limit(const arch::KernelShape& kernel, const arch::Demand& demand) const;

  // What a kernel's demand has to be for the kernel to take the recorded time alone.
  struct Fit {
    arch::Demand demand;
    // Times which all amounts are: 1 over the part of its limiting peak that it reaches; below 1: it demands less; 1
    // where its floor explains the time. 0: launching its CTAs alone takes longer than recorded.
    double scale = 1;
    double memory = 1;   // of what was estimated to come from memory and to go there, the part that did
    bool waits = false;  // its work is less than kWorks of the time: its floor is what was fitted
  };
  static constexpr double kWorks = 0.2;
  static constexpr double kTrips = 32;  // to memory: what takes longer is no latency, unless there is no work at all
  // First the recording is held against the demand as it is. Where the kernel was faster, fewer of its bytes come from
  // memory; where that does not explain it, all amounts shrink. Where it was slower, it waited, if its work is little,
  // and has a longer floor; or all amounts grow: it does not reach the peak that limits it. `ns`: more than 0. `left`:
  // by others beside it.
  Fit fit(const arch::KernelShape& kernel, const arch::Demand& demand, double ns, const Left& left = {}) const;

  // ns of an access that misses the L2, with nobody else under way: of floors.
  double memory_latency() const { return machine_.memory_latency / machine_.cycles_per_ns; }

 private:
  double duration(const SoloKernel& solo, const arch::Demand& demand, const ByWide& left) const;

  gpu::GpuParams params_;
  fluid::FluidMachine machine_;
};

// All amounts times a factor; the floor stays.
arch::Demand scaled(const arch::Demand& demand, double factor);
// The same of what comes from memory and goes there.
arch::Demand with_memory(const arch::Demand& demand, double factor);

}  // namespace heddle::replay

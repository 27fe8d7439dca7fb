// What a recording lets one say of kernels that nothing was fitted to: launches of it that were held back, and the same
// work on another machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "demand/sources.h"
#include "gpu/gpu_params.h"
#include "replay/demand_fit.h"
#include "workload/workload.h"

namespace heddle::replay {

// Takes away what of shared memory and registers an SM does not have: a library would bring a kernel that asks for no
// more than its machine has.
void fit_into(arch::KernelShape& shape, const arch::SmLimits& limits);

// Kernels of a recording with the machine that they ran on, and what they demand of it.
class RecordedDemands {
 public:
  // Kernels of which nothing but the duration is known have no demand.
  RecordedDemands(const workload::Workload& workload, const gpu::GpuParams& machine,
                  const std::vector<workload::KernelCounters>& counters);

  // What became of a kernel's demand to suit its recording: DemandFit::Fit.
  struct Factor {
    double scale = 1;             // of all amounts
    double memory = 1;            // of what comes from memory and goes there
    std::optional<double> floor;  // ns: of a kernel that waits more than it works
  };
  // By operation: of kernels with a recording and a demand; others have the default.
  const Factor& factor(std::size_t op) const { return factors_[op]; }
  // Part of its recorded time, alone, that what is known of its demand does not explain: 1 - modelled / recorded, below
  // 0 where that would take longer. Nothing is fitted to that. 0: it has no recording or no demand.
  double unexplained(std::size_t op) const { return unexplained_[op]; }
  const demand::Demands& demands() const { return demands_; }
  const workload::Workload& workload() const { return workload_; }
  const DemandFit& fit() const { return fit_; }

  // Its demand as fitted to its recording, and the number of the resource that limits it then: DemandFit::limit().
  arch::Demand fitted(std::size_t op) const { return demand(op, factors_[op]); }
  std::size_t limit(std::size_t op) const;
  // CTAs as the demand divides the work among: of a kernel that is recorded without a grid they follow from its work.
  arch::KernelShape shape(std::size_t op) const;

  // Another machine's L2 holds less or more of what the kernels use.
  bool l2_differs(const gpu::GpuParams& other) const;
  // By operation: the fitted demand with what has to come from memory there. None: a kernel without a demand.
  std::vector<std::optional<arch::Demand>> demands_on(const gpu::GpuParams& other,
                                                      const std::vector<workload::KernelCounters>& counters) const;

  // A kernel's demand with such a factor, and how long it takes on the machine alone then, in ns. It has a demand.
  arch::Demand demand(std::size_t op, const Factor& factor) const;
  double duration(std::size_t op, const Factor& factor) const;
  // The same on another machine, whose L2 may hold less or more of what the kernels of the recording use. Kernels whose
  // CTAs work on several tiles each, as many CTAs as the recorded machine holds, have a CTA for each tile there.
  std::vector<double> durations_on(const gpu::GpuParams& other) const;

 private:
  bool is_recorded(std::size_t op) const;  // and has a demand
  void fit_to_recording(std::size_t op, const DemandFit::Left& left);
  // Kernels that ran beside others, with what these left: places, and of bandwidths their share of what all wanted.
  void share_machine(const gpu::GpuParams& machine);

  const workload::Workload& workload_;
  double l2_bytes_;
  DemandFit fit_;
  demand::Demands demands_;
  std::vector<Factor> factors_;
  std::vector<double> unexplained_;
};

// Launches that were held back, and how far what is said of them is off.
struct HeldBack {
  std::size_t launches = 0;
  double error_p50 = 0;  // |predicted / recorded - 1|
  double error_p95 = 0;
  double time_error = 0;  // sum of predicted / sum of recorded - 1
};

enum class HoldBack : std::uint8_t {
  launches,  // every other launch, at random
  names,     // all launches of every other name, at random
};

// With demands: a kernel that was held back demands what is known of it without its duration, with the median factors
// of the others of its signature (name, grid and block), otherwise of its name, otherwise of its kind (demand::Kind),
// otherwise of all. Without: its CTAs run for the median of those of its signature, otherwise of its name, otherwise of
// all with its block, otherwise of all; kernels without a demand likewise in both. Overlapping kernels, whose durations
// are not their own, take no part.
HeldBack predict(const RecordedDemands& recording, const gpu::GpuParams& machine, HoldBack what, bool with_demands,
                 std::uint64_t seed);

}  // namespace heddle::replay

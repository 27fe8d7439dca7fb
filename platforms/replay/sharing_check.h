// Settings of sharing that contradict each other or the machine, or that mean nothing: refused before the run begins,
// with the place of the entry (PRT-12). The distributor's own record of who has what judges them, in the order of their
// times.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "cwd/occupancy.h"
#include "cwd/tpc_quota.h"
#include "gpu/gpu_params.h"
#include "replay/initial_state.h"
#include "workload/workload.h"

namespace heddle::replay {

class SharingCheck {
 public:
  // All arguments must outlive it.
  SharingCheck(const workload::Workload& workload, const std::string& instance, const gpu::GpuParams& params,
               const arch::Topology& topology);

  // In the order of their times. Throws InputError.
  void run(const std::vector<TimedShare>& shares);

 private:
  using Mode = protocol::PartitionMode;

  // Which modes the machine has at some time from the i-th change on.
  void find_modes(const std::vector<TimedShare>& shares);
  void check_use(const TimedShare& share, std::size_t index) const;
  void apply(const TimedShare& share);
  // Kernels that have found a place are looked at no more.
  void place_kernels();
  std::string why_no_place(const arch::KernelRecord& kernel);
  void refuse_kernels() const;

  const workload::Workload& workload_;
  const std::string& instance_;
  const gpu::GpuParams& params_;
  const arch::Topology& topology_;
  cwd::TpcQuota quota_;
  cwd::EmptyMachine machine_;
  std::vector<std::set<Mode>> modes_;
  struct Homeless {
    const arch::KernelRecord* kernel = nullptr;
    std::string why;
  };
  std::vector<Homeless> homeless_;
};

}  // namespace heddle::replay

// A GPU: task management, distributor, GPCs, wired from a configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cwd/cwd.h"
#include "gpu/gpc_tree.h"
#include "gpu/gpu_params.h"
#include "task/task_unit.h"

namespace heddle::gpu {

// Resources of one SM that something outside the model holds from the start.
struct SmLoad {
  std::uint32_t sm = 0;  // id
  arch::ResourceVector amount;
  Cycle until = 0;  // cycle in which they become free; 0: never
};

// Any number of them can be in one simulation, of different shapes; none knows of the others. A Gpu never calls
// sc_start, and leaves the time resolution alone.
class Gpu : public sc_core::sc_module {
 public:
  // `observation` must outlive the Gpu; its prefix ("gpu0") begins the paths of all statistics. `seed` decides what is
  // random: the durations of CTAs whose kernel gives a range. Throws InputError if the parameters contradict each
  // other.
  Gpu(const sc_core::sc_module_name& name, const GpuParams& params, std::uint64_t seed, Observation& observation);

  // The way in and out. Packets: protocol/submit_packet.h.
  PacketIn<protocol::SubmitPacket>& submit_in() { return task_.submit_in; }
  PacketOut<protocol::DonePacket>& done_out() { return task_.done_out; }

  // What SMs hold at the start; before the simulation, once. A reset restores it. Throws InputError if an SM does not
  // exist or cannot hold that much.
  void preload(const std::vector<SmLoad>& loads);

  Domain& domain() { return domain_; }
  const Domain& domain() const { return domain_; }
  const arch::Topology& topology() const { return topology_; }
  const GpuParams& params() const { return params_; }

  // Back to the state after elaboration, in mid-flight: whatever ran or was on its way is gone. Statistics start anew.
  // To be called from outside the GPU's own events, e.g. from the process of a testbench.
  // What has already left through done_out is the host's and may still arrive.
  void reset();

  // Operations taken in and not ended.
  std::size_t open_operations() const { return task_.open(); }
  // Throws CheckFailed unless the idle machine is as it was after elaboration: no CTA, no resource, no credit is
  // missing.
  void check_quiescent() const;
  void collect_waits(WaitGraph& graph) const { domain_.collect_waits(graph); }

  // From a task's dispatch by task management to its first launch packet on an idle machine, in cycles.
  static Cycle start_path(const GpuParams& params);

 private:
  void wire();
  sm::Sm& sm(std::uint32_t id);

  const GpuParams params_;
  const arch::Topology topology_;
  Domain domain_;
  task::TaskUnit task_;
  cwd::Cwd cwd_;
  std::vector<std::unique_ptr<Gpc>> gpcs_;
};

}  // namespace heddle::gpu

// The jobs of a simulation that are submitted by packets: their submitters share the memory of one host.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "arch/gpu_observation.h"
#include "replay/initial_state.h"
#include "replay/packet_submitter.h"
#include "replay/simulation.h"

namespace heddle::gpu {
class Gpu;
}

namespace heddle::replay {

// Tells CTAs by operation of the workload instead of by dispatch.
class TaskTranslator : public CtaListener {
 public:
  explicit TaskTranslator(CtaListener& listener) : listener_(listener) {}
  void use(const std::unordered_map<std::uint32_t, std::size_t>& operations) { operations_ = &operations; }
  void cta_started(const Cta& cta) override { listener_.cta_started(translated(cta)); }
  void cta_ended(const Cta& cta) override { listener_.cta_ended(translated(cta)); }
  void cta_saved(const Cta& cta) override { listener_.cta_saved(translated(cta)); }
  void cta_restored(const Cta& cta) override { listener_.cta_restored(translated(cta)); }
  void task_launched(const Launched& task) override;

 private:
  std::uint32_t operation_of(std::uint32_t task) const;
  Cta translated(Cta cta) const;

  CtaListener& listener_;
  const std::unordered_map<std::uint32_t, std::size_t>* operations_ = nullptr;
};

class PacketJobs {
 public:
  PacketJobs(const std::vector<Job>& jobs, const SimulationOptions& options);
  ~PacketJobs();

  // The submitter of one job, bound to its GPU. Throws InputError where the workload cannot be submitted by packets.
  // `end`: of what the workload has in the GPU's memory. `shares`: how the machine is shared.
  std::unique_ptr<PacketSubmitter> add(const Job& job, gpu::Gpu& gpu, std::uint64_t end, std::vector<TimedShare> shares,
                                       GpuObservation& gpu_observation, Observation& host_observation);

 private:
  const SubmissionParams params_;
  std::unique_ptr<host::HostMemory> memory_;
  Area area_;
  std::uint32_t ports_ = 0;  // in use
};

// The GPU's memory, without time. `gpu` must outlive it.
DeviceAccess device_access(gpu::Gpu& gpu);

// What the modelled machine itself takes from the host's first write of a kernel's packet to the kernel's start on an
// idle GPU, in nanoseconds: part of the launch latency of a recording.
double packet_path_ns(const gpu::Gpu& gpu, const SubmissionParams& host, const workload::PacketOptions& options);

// What the submitter knows at the end, into the result.
void take_packets(PacketSubmitter& submitter, JobResult& result);

}  // namespace heddle::replay

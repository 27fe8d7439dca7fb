// A GPU in a simulation that the process's own calls drive: time goes on while the host waits for something, and stands
// still while it does anything else.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arch/gpu_observation.h"
#include "cuda/cudart/host_side.h"
#include "gpu/gpu.h"
#include "gpu/machine_file.h"

namespace heddle::cuda {

// What was given to the device, and what became of it. Times in nanoseconds of simulated time.
struct Operation {
  std::string kind;  // "kernel", "copy", "fill"
  std::string name;  // of the kernel; of a copy: "HtoD" …
  std::uint32_t stream = 0;
  std::int32_t priority = 0;
  arch::KernelShape shape;
  std::uint64_t bytes = 0;
  bool done = false;
  protocol::DoneStatus status = protocol::DoneStatus::ok;
  double submitted = 0;
  double start = 0;
  double end = 0;
  std::vector<std::uint8_t> staged;  // bytes that it reads or writes, until it has ended
};

class SimulatedDevice {
 public:
  explicit SimulatedDevice(const gpu::ResolvedMachine& machine);
  ~SimulatedDevice();

  gpu::Gpu& gpu() { return *gpu_; }
  const gpu::GpuParams& params() const { return gpu_->params(); }
  GpuObservation& observation() { return observation_; }

  // The next operation's id. Its record is entered with submit().
  std::uint32_t next_id() const { return static_cast<std::uint32_t>(operations_.size()); }
  // `packets`: of that one operation, the last of them is it; the host takes its time for them. Returns the id.
  std::uint32_t submit(const std::vector<protocol::SubmitPacket>& packets, Operation record);
  // Outside all streams.
  void control(const protocol::SubmitPacket& packet);
  const std::vector<Operation>& operations() const { return operations_; }
  bool done(std::uint32_t id) const { return operations_[id].done; }
  std::size_t open() const { return open_; }

  // Simulates until the condition holds, which becomes true by ends of operations. False: nothing goes on any more, or
  // something has failed: see why().
  bool run_until(const std::function<bool()>& condition);
  bool run_all() {
    return run_until([this] { return open_ == 0; });
  }
  // The host looks, and does not wait: simulates for as long as a look takes.
  void look();
  const std::string& why() const { return why_; }

  // When the host does what it does next, in nanoseconds.
  double now() const { return now_; }

 private:
  bool step(const sc_core::sc_time& most, sc_core::sc_starvation_policy end);
  void on_done(const protocol::DonePacket& done);

  GpuObservation observation_{"gpu0"};
  Observation host_observation_{"host"};
  std::unique_ptr<gpu::Gpu> gpu_;
  std::unique_ptr<ProcessMemory> memory_;
  std::unique_ptr<HostPort> port_;
  sc_core::sc_signal<bool> irq_{"gpu0_irq"};
  sc_core::sc_signal<bool> reset_{"gpu0_rst"};
  std::vector<Operation> operations_;
  std::size_t open_ = 0;
  const std::function<bool()>* awaited_ = nullptr;  // inside run_until()
  double now_ = 0;
  std::string why_;
};

// stats.json, kernels.csv and config.yaml in that folder, which is made if it is not there (run_record.cpp). Throws
// InputError if it cannot be written.
void write_run(SimulatedDevice& device, const gpu::ResolvedMachine& machine, const std::string& folder);

}  // namespace heddle::cuda

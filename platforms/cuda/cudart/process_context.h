// The one device of the process, with all that its calls need, and how work gets to it.
#pragma once

#include <cstdint>
#include <driver_types.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda/cudart/device_heap.h"
#include "cuda/cudart/host_streams.h"
#include "cuda/cudart/host_work.h"
#include "cuda/cudart/loaded_code.h"
#include "cuda/cudart/shared_pages.h"
#include "cuda/cudart/simulated_device.h"

namespace heddle::cuda {

// Work that a stream does not carry out but notes.
struct Capture {
  std::unique_ptr<WorkGraph> graph;
  const HostStream* origin = nullptr;
};

// What programs have registered, before anything runs.
struct Registrations {
  std::vector<std::unique_ptr<CodeModule>> modules;
  std::map<const void*, std::unique_ptr<CodeFunction>> functions;  // by the stub in the program
  std::map<const void*, CodeVariable> variables;                   // by the shadow in the program
};

class ProcessContext {
 public:
  // Of the process; made at the first call, and never destroyed: programs call until they end.
  static ProcessContext& get();

  std::recursive_mutex& mutex() { return mutex_; }
  Registrations& registered() { return registered_; }

  // Makes the device, as the environment says, if there is none yet. False: it cannot be made, and why has been said.
  bool start();
  SimulatedDevice& device() { return parts_->device; }
  DeviceHeap& heap() { return parts_->heap; }
  PageMover& mover() { return parts_->mover; }
  LoadedCode& code() { return parts_->code; }
  HostStreams& streams() { return parts_->streams; }
  std::map<std::uint64_t, Capture>& captures() { return captures_; }

  // Carried out, or noted where the stream is captured.
  cudaError_t issue(HostStream& stream, HostWork work);
  cudaError_t launch(HostStream& stream, const WorkGraph& graph);
  // Until these have ended and the host has what the device has changed.
  cudaError_t wait_for(const std::vector<std::uint32_t>& operations);
  cudaError_t wait_for_all();
  // The error that stays until the process ends; success: there is none.
  cudaError_t lasting() const { return lasting_; }

  // Says it on stderr, once for each name.
  cudaError_t missing(const std::string& what);
  void say(const std::string& text) const;
  void write_results();

 private:
  struct Parts {
    explicit Parts(const gpu::ResolvedMachine& machine);
    SimulatedDevice device;
    DeviceHeap heap;
    LoadedCode code;
    HostStreams streams;
    PageMover mover;
  };

  cudaError_t execute(HostStream& stream, const HostWork& work);
  cudaError_t launch_kernel(HostStream& stream, const HostWork& work, protocol::SubmitPacket packet);
  cudaError_t copy(HostStream& stream, const HostWork& work);
  cudaError_t fill(HostStream& stream, const HostWork& work);
  cudaError_t failed();

  std::recursive_mutex mutex_;
  Registrations registered_;
  std::unique_ptr<gpu::ResolvedMachine> machine_;
  std::unique_ptr<Parts> parts_;
  std::map<std::uint64_t, Capture> captures_;
  std::vector<std::string> said_;
  bool unusable_ = false;
  cudaError_t lasting_ = cudaSuccess;
  std::size_t seen_faults_ = 0;
};

}  // namespace heddle::cuda

// Streams and events of the process: which operation waits for which.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cuda/cudart/simulated_device.h"

namespace heddle::cuda {

struct WorkNode;

struct HostEvent {
  bool recorded = false;
  bool timing = true;
  double host_ns = 0;                     // when it was recorded
  std::vector<std::uint32_t> operations;  // it is complete when they are
  std::uint64_t capture = 0;              // recorded in a stream that is captured: number of the capture
  std::vector<WorkNode*> nodes;           // then: of its graph
};

struct HostStream {
  std::uint32_t number = 0;  // of the device
  std::int32_t priority = 0;
  bool blocking = true;                // it waits for the default stream, and that for it
  std::optional<std::uint32_t> last;   // operation
  std::vector<std::uint32_t> pending;  // the next one waits for them
  std::uint64_t capture = 0;           // number of the capture that it is part of; 0: none
  std::vector<WorkNode*> nodes;        // then: what its next node waits for
};

class HostStreams {
 public:
  explicit HostStreams(SimulatedDevice& device) : device_(device) {}

  HostStream& default_stream() { return default_; }
  HostStream& add(std::int32_t priority, bool blocking);
  // Its operations go on.
  void remove(HostStream& stream);
  bool has(const HostStream* stream) const;

  // Into that stream, behind what it waits for.
  std::uint32_t submit(HostStream& stream, protocol::SubmitPacket packet, Operation record);
  // What the next operation of the stream would wait for and has not ended.
  std::vector<std::uint32_t> open(const HostStream& stream) const;
  void wait(HostStream& stream, const std::vector<std::uint32_t>& operations);

  // What is captured under that number is over.
  void leave_capture(std::uint64_t capture);

  void record(HostEvent& event, const HostStream& stream) const;
  bool complete(const HostEvent& event) const;
  // Of one that is complete, in nanoseconds.
  double time_of(const HostEvent& event) const;

 private:
  void add_open(std::vector<std::uint32_t>& to, const HostStream& stream) const;

  SimulatedDevice& device_;
  HostStream default_;
  std::vector<std::unique_ptr<HostStream>> streams_;
  std::uint32_t next_ = 1;
  struct Freed {
    std::uint32_t number = 0;
    std::optional<std::uint32_t> last;  // operation
  };
  std::vector<Freed> freed_;  // numbers of streams that are gone
};

}  // namespace heddle::cuda

// What a device shows of itself while it runs. All of it is optional for the blocks' behaviour: nothing that is
// observed ever changes a result. What a GPU shows beyond this is in arch/gpu_observation.h.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "common/stats.h"
#include "common/timeline.h"

namespace heddle {

struct Observation {
  // `prefix` begins the path of every statistic of the device: "gpu0".
  explicit Observation(std::string prefix_) : prefix(std::move(prefix_)) {}
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  virtual ~Observation() = default;

  std::string prefix;
  Stats stats;
  std::exception_ptr failure;  // what ended the domain's last event, if it threw: SystemC wraps it beyond recognition
  std::uint64_t progress = 0;  // goes up whenever work is taken in, started or finished; for watchdogs
  TimelineSink* timeline = nullptr;  // null: off
};

}  // namespace heddle

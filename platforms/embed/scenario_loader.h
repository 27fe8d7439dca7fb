// Kernels and memory of a scenario, for a device that a platform drives: what the host library would put there.
#pragma once

#include <cstdint>
#include <string>

#include "embed/heddle_gpu.h"

namespace heddle::gpu {
class Gpu;
}

namespace heddle::embed {

// Puts files into the memory of one device.
class ScenarioLoader {
 public:
  // `gpu` must outlive it.
  explicit ScenarioLoader(gpu::Gpu& gpu) : gpu_(gpu) {}

  // `instance`: what messages call the device. Throws InputError for what is wrong in the file, what the device cannot
  // hold, what only a driver can set up, and memory that overlaps that of the files before.
  Contents load(const std::string& file, const std::string& instance);

 private:
  gpu::Gpu& gpu_;
  std::uint64_t end_ = 0;  // first byte behind what has been loaded
};

}  // namespace heddle::embed

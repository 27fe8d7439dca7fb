// Kernels and memory of a scenario, for a device that a platform drives: what the host library would put there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/state.h"
#include "embed/heddle_gpu.h"

namespace heddle::gpu {
class Gpu;
}

namespace heddle::embed {

// Puts files into the memory of one device.
class ScenarioLoader final : public Saved {
 public:
  // `gpu` must outlive it.
  explicit ScenarioLoader(gpu::Gpu& gpu) : gpu_(gpu) {}

  // `instance`: what messages call the device. Throws InputError for what is wrong in the file, what the device cannot
  // hold, what only a driver can set up, and memory that overlaps that of the files before.
  Contents load(const std::string& file, const std::string& instance);

  // Nothing of what was loaded is in memory any more. A restore may bring it back; a load of a file that is good begins
  // anew.
  void memory_cleared() { cleared_ = true; }
  void memory_restored() { cleared_ = false; }

  // Which files it has loaded, and where their kernels lie. They are the platform's to bring: restore() only compares.
  void save(StateWriter& to) const override;
  void restore(StateReader& from) override;

 private:
  void begin_anew();

  gpu::Gpu& gpu_;
  std::uint64_t end_ = 0;  // first byte behind what has been loaded
  std::vector<Kernel> kernels_;
  struct File {
    std::string name;
    std::uint64_t digest = 0;  // of its bytes
  };
  std::vector<File> files_;
  bool cleared_ = false;
};

}  // namespace heddle::embed

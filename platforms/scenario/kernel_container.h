// Kernels of a file as a container that software loads into a machine (HST-07). docs/kernels.md has the format; the
// host library reads it (platforms/driver/heddle_program.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::scenario {

struct ContainedKernel {
  std::string name;
  std::uint32_t code_bytes = 0;  // 0: its CTAs run for a duration
  std::uint32_t arguments = 0;   // bytes that it reads
  std::uint32_t registers = 0;   // per thread
  std::uint32_t shared = 0;      // bytes of a CTA
  std::vector<std::string> launches;
};
struct KernelContainer {
  std::vector<std::uint8_t> bytes;  // of the file
  std::vector<ContainedKernel> kernels;
};

// The kernels of a scenario, or of a file with `kernels` and nothing else. Throws InputError with file and line for
// what is wrong there, and for a program that names memory, a tensor or a queue of the scenario: where those lie is not
// known, and comes with an argument. `settings`: as read_scenario() has them.
KernelContainer compile_kernels(const std::string& path, const std::vector<std::string>& settings);
// The same for text that is in memory; `file` is what messages call it.
KernelContainer compile_kernel_text(const std::string& text, const std::string& file,
                                    const std::vector<std::string>& settings = {});

}  // namespace heddle::scenario

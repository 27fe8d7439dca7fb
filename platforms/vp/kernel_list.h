// What a card has from a scenario (docs/scenario.md): its machine, and as programs all kernels that the scenario
// submits, in that order. Operations, memory and expectations of the scenario are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/task_record.h"
#include "gpu/gpu.h"
#include "scenario/scenario.h"

namespace heddle::vp {

// A kernel and the number by which kernel objects name its program (docs/packets.md).
struct ListedKernel {
  std::string name;
  std::uint32_t program = 0;
  std::uint32_t registers = 0;  // of a thread
};

// The kernels that have a program, each once. What they work on they are to find by their arguments. Throws InputError
// if there are none.
std::vector<arch::KernelRecord> kernels_of(const scenario::Scenario& scenario);

// Puts them into the machine's program store. Throws InputError for programs that the machine cannot run.
std::vector<ListedKernel> load_kernels(const std::vector<arch::KernelRecord>& kernels, gpu::Gpu& gpu);

// The machine: `preset`, or what the scenario names if that is empty; what guests need in any case (timing lt, address
// translation); the scenario's `config`; and `sets`, as of --set. Throws InputError.
gpu::GpuParams machine_of(const scenario::Scenario& scenario, const std::string& preset,
                          const std::vector<std::string>& sets);

}  // namespace heddle::vp

// The device code of the process: modules as programs register them, their entries and variables, and what the device
// needs to run an entry.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/kernel_object.h"
#include "cuda/cudart/device_heap.h"
#include "cuda/cudart/simulated_device.h"
#include "ptx/module_image.h"
#include "ptx/resolver.h"

namespace heddle::cuda {

// One container of device code.
struct CodeModule {
  const std::uint8_t* container = nullptr;
  const std::uint8_t* const* linked = nullptr;  // of parts that are linked for the device, up to a null; null: none
  std::shared_ptr<const ptx::Module> module;    // null: nobody has asked for it yet
  std::unique_ptr<ptx::ModuleImage> image;
  std::uint64_t image_at = 0;
  bool managed = false;  // some of its variables are: all of them lie where the host reaches them
};

// An entry, with what the host has set for it.
struct CodeFunction {
  CodeModule* module = nullptr;
  std::string name;
  bool loaded = false;
  // What follows is known once it is loaded.
  const ptx::Function* entry = nullptr;
  std::vector<ptx::EntryParameter> parameters;
  std::uint32_t static_shared = 0;
  std::uint32_t local_bytes = 0;
  std::uint32_t registers = 0;
  bool multicasts = false;
  // Attributes.
  std::uint32_t most_dynamic_shared = 48 * 1024;
  std::int32_t carveout = -1;
  bool any_cluster_size = false;  // more than 8 CTAs
  // Programs with arguments at an address of their own: launches that are under way at once have one each.
  struct Slot {
    std::uint64_t arguments = 0;
    std::uint64_t workspace = 0;  // of cooperative grids
    std::shared_ptr<const arch::WarpProgram> program;
    struct Code {
      arch::KernelShape shape;  // that it was made for
      std::uint32_t number = 0;
    };
    std::vector<Code> codes;
    std::optional<std::uint32_t> operation;  // that used it last
  };
  std::vector<Slot> slots;
};

// A variable.
struct CodeVariable {
  CodeModule* module = nullptr;
  std::string name;
  std::uint64_t bytes = 0;
  void** managed = nullptr;  // of a managed variable: where the program wants its address
};

class LoadedCode {
 public:
  LoadedCode(SimulatedDevice& device, DeviceHeap& heap) : device_(device), heap_(heap) {}

  // All throw InputError: of the container, of the module, and where device memory has no room.
  void load(CodeModule& module);
  void load(CodeFunction& function);
  // A slot that no launch uses, with those arguments.
  CodeFunction::Slot& slot(CodeFunction& function, const std::vector<std::uint8_t>& arguments, bool cooperative);
  // The device's number for it in such a launch.
  std::uint32_t code(CodeFunction::Slot& slot, const arch::KernelShape& shape);
  // Its address in device memory.
  std::uint64_t address_of(const CodeVariable& variable);
  // Local memory for threads of that entry: the device's is made larger while nothing runs.
  bool give_local(std::uint32_t bytes);

  static std::uint32_t architecture(const gpu::GpuParams& params);

 private:
  std::uint64_t room(std::uint64_t bytes, MemoryKind kind);

  SimulatedDevice& device_;
  DeviceHeap& heap_;
  std::uint32_t local_bytes_ = 0;
  std::uint64_t local_at_ = 0;
};

}  // namespace heddle::cuda

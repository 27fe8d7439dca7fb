// What nvcc's own code calls before main(), and around launches.
#include <cstring>
#include <memory>

#include "cuda/cudart/api_call.h"
#include "cuda/fat_binary.h"

namespace heddle::cuda {
namespace {

constexpr std::uint32_t kWrapperMagic = 0x4662'43b1;

// What __cudaRegisterFatBinary is given.
struct Wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  const std::uint8_t* container;
  const std::uint8_t* const* linked;  // of version 2: containers of parts that are linked for the device
};

CodeModule* module_of(void** handle) { return reinterpret_cast<CodeModule*>(handle); }

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};

std::vector<Configuration>& configurations() {
  static thread_local std::vector<Configuration> stack;
  return stack;
}

}  // namespace
}  // namespace heddle::cuda

using namespace heddle;
using namespace heddle::cuda;

HEDDLE_CUDART void** __cudaRegisterFatBinary(void* wrapper) {
  Wrapper given{};
  std::memcpy(&given, wrapper, sizeof given);
  auto module = std::make_unique<CodeModule>();
  // What is wrong with it is said when something of it is used.
  if (given.magic == kWrapperMagic && given.version >= 1 && given.version <= 2) module->container = given.container;
  if (given.version == 2) module->linked = given.linked;
  CodeModule* registered = module.get();
  (void)without_device([&](ProcessContext& context) {
    context.registered().modules.push_back(std::move(module));
    return cudaSuccess;
  });
  return reinterpret_cast<void**>(registered);
}

HEDDLE_CUDART void __cudaRegisterFatBinaryEnd(void**) {}

HEDDLE_CUDART void __cudaUnregisterFatBinary(void**) {
  // The process is ending; its results are written behind its own last calls.
}

HEDDLE_CUDART void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*, uint3*,
                                          dim3*, dim3*, int*) {
  (void)without_device([&](ProcessContext& context) {
    auto function = std::make_unique<CodeFunction>();
    function->module = module_of(handle);
    function->name = name;
    context.registered().functions[stub] = std::move(function);
    return cudaSuccess;
  });
}

HEDDLE_CUDART void __cudaRegisterVar(void** handle, char* shadow, char*, const char* name, int, std::size_t bytes, int,
                                     int) {
  (void)without_device([&](ProcessContext& context) {
    context.registered().variables[shadow] = {module_of(handle), name, bytes, nullptr};
    return cudaSuccess;
  });
}

HEDDLE_CUDART void __cudaRegisterManagedVar(void** handle, void** shadow, char*, const char* name, int,
                                            std::size_t bytes, int, int) {
  (void)without_device([&](ProcessContext& context) {
    context.registered().variables[shadow] = {module_of(handle), name, bytes, shadow};
    return cudaSuccess;
  });
}

// The program is about to use a managed variable of the module.
HEDDLE_CUDART char __cudaInitModule(void** handle) {
  const cudaError_t error = with_device([&](ProcessContext& context) {
    prepare_managed(context, *module_of(handle));
    return cudaSuccess;
  });
  return error == cudaSuccess ? 1 : 0;
}

HEDDLE_CUDART unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}

HEDDLE_CUDART cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations().empty()) return remember(cudaErrorMissingConfiguration);
  const Configuration top = configurations().back();
  configurations().pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

// Handles of kernels are the addresses of their stubs.
HEDDLE_CUDART cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel =
      static_cast<cudaKernel_t>(const_cast<void*>(stub));  // NOLINT(cppcoreguidelines-pro-type-const-cast): a handle
  return cudaSuccess;
}

HEDDLE_CUDART cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  return __cudaGetKernel(kernel, stub);
}

HEDDLE_CUDART cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                             std::size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

// Launches, what functions are, and what the machine holds of them.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "arch/sm_limits.h"
#include "cuda/cudart/api_call.h"
#include "gpu/gpu_params.h"

namespace heddle::cuda {
namespace {

arch::Dim3 extents_of(const dim3& extents) { return {extents.x, extents.y, extents.z}; }

arch::Dim3 directive(const ptx::Function& entry, const char* name) {
  const auto found = entry.directives.find(name);
  if (found == entry.directives.end() || found->second.empty()) return {0, 0, 0};
  const auto at = [&](std::size_t i) {
    return i < found->second.size() ? static_cast<std::uint32_t>(found->second[i]) : 1U;
  };
  return {at(0), at(1), at(2)};
}

bool is_grid(const dim3& grid) {
  return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= arch::kMaxGridX && grid.y <= arch::kMaxGridY &&
         grid.z <= arch::kMaxGridZ;
}

bool is_block(const dim3& block, std::uint64_t most) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return threads > 0 && threads <= most && block.x <= 1024 && block.y <= 1024 && block.z <= 64;
}

cudaError_t launch(const LaunchRequest& request, void** arguments, cudaStream_t handle) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    HostWork work;
    const cudaError_t error = kernel_work(context, request, arguments, work);
    return error != cudaSuccess ? error : context.issue(stream, std::move(work));
  });
}

// What the attributes of a launch say. Those that are hints are passed over.
cudaError_t read_attributes(ProcessContext& context, const cudaLaunchConfig_t& config, LaunchRequest& request) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeClusterDimension:
        request.cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z};
        break;
      case cudaLaunchAttributeCooperative:
        request.cooperative = attribute.val.cooperative != 0;
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        request.programmatic = attribute.val.programmaticStreamSerializationAllowed != 0;
        break;
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributeMemSyncDomainMap:
        break;
      default:
        return context.missing(fmt::format("launch attribute {}", static_cast<int>(attribute.id)));
    }
  }
  return cudaSuccess;
}

}  // namespace

CodeFunction* function_of(ProcessContext& context, const void* stub) {
  const auto found = context.registered().functions.find(stub);
  if (found == context.registered().functions.end()) return nullptr;
  prepare_managed(context, *found->second->module);
  context.code().load(*found->second);
  return found->second.get();
}

void prepare_managed(ProcessContext& context, CodeModule& module) {
  const bool loaded = module.module != nullptr;
  context.code().load(module);
  if (loaded || !module.managed) return;
  context.mover().pages().add(module.image_at, module.image_at, module.image->bytes());
  for (auto& [shadow, variable] : context.registered().variables) {
    if (variable.module != &module || variable.managed == nullptr) continue;
    *variable.managed = pointer_to(context.code().address_of(variable));
  }
}

cudaError_t shape_of(ProcessContext& context, const LaunchRequest& request, CodeFunction& function,
                     arch::KernelShape& shape) {
  const gpu::GpuParams& params = context.device().params();
  const ptx::Function& entry = *function.entry;
  if (!is_grid(request.grid) || !is_block(request.block, params.sm.limits.max_threads_per_cta)) {
    return cudaErrorInvalidConfiguration;
  }
  if (request.shared > function.most_dynamic_shared) return cudaErrorInvalidValue;
  shape.grid = extents_of(request.grid);
  shape.block = extents_of(request.block);
  const arch::Dim3 exact = directive(entry, "reqntid");
  if (exact.count() > 0 && shape.block != exact) return cudaErrorInvalidConfiguration;
  const arch::Dim3 most = directive(entry, "maxntid");
  if (most.count() > 0 && shape.block.count() > most.count()) return cudaErrorLaunchOutOfResources;
  arch::Dim3 cluster = extents_of(request.cluster);
  const arch::Dim3 compiled = directive(entry, "reqnctapercluster");
  if (cluster.count() == 0) {
    cluster = compiled;
  } else if (compiled.count() > 0 && cluster != compiled) {
    return cudaErrorInvalidClusterSize;
  }
  if (cluster.count() > 1) {
    const bool divides =
        shape.grid.x % cluster.x == 0 && shape.grid.y % cluster.y == 0 && shape.grid.z % cluster.z == 0;
    if (!divides || cluster.count() > (function.any_cluster_size ? 16U : 8U)) return cudaErrorInvalidClusterSize;
    shape.cluster.of(arch::CgaLevel::gpc) = cluster;
    if (function.multicasts) shape.cluster.mode = arch::CgaMode::multicast;
  }
  shape.registers_per_thread = function.registers;
  shape.shared_bytes = function.static_shared + static_cast<std::uint32_t>(request.shared);
  shape.local_bytes = function.local_bytes;
  shape.cooperative = request.cooperative;
  if (!gpu::why_never_fits(params, shape).empty()) {
    return request.cooperative ? cudaErrorCooperativeLaunchTooLarge : cudaErrorLaunchOutOfResources;
  }
  return cudaSuccess;
}

cudaError_t kernel_work(ProcessContext& context, const LaunchRequest& request, void** arguments, HostWork& work) {
  work.kind = HostWork::Kind::kernel;
  work.function = function_of(context, request.stub);
  if (work.function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (const cudaError_t error = shape_of(context, request, *work.function, work.shape); error != cudaSuccess) {
    return error;
  }
  work.programmatic = request.programmatic;
  work.arguments.assign(ptx::argument_bytes(work.function->parameters), 0);
  for (std::size_t i = 0; i < work.function->parameters.size(); ++i) {
    const ptx::EntryParameter& parameter = work.function->parameters[i];
    if (arguments == nullptr || arguments[i] == nullptr) return cudaErrorInvalidValue;
    std::memcpy(work.arguments.data() + parameter.offset, arguments[i], parameter.bytes);
  }
  return cudaSuccess;
}

}  // namespace heddle::cuda

using namespace heddle;
using namespace heddle::cuda;

HEDDLE_CUDART cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                           std::size_t shared, cudaStream_t stream) {
  LaunchRequest request;
  request.stub = stub;
  request.grid = grid;
  request.block = block;
  request.shared = shared;
  return launch(request, arguments, stream);
}

HEDDLE_CUDART cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                                      std::size_t shared, cudaStream_t stream) {
  LaunchRequest request;
  request.stub = stub;
  request.grid = grid;
  request.block = block;
  request.shared = shared;
  request.cooperative = true;
  return launch(request, arguments, stream);
}

HEDDLE_CUDART cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
  if (config == nullptr) return remember(cudaErrorInvalidValue);
  LaunchRequest request;
  request.stub = stub;
  request.grid = config->gridDim;
  request.block = config->blockDim;
  request.shared = config->dynamicSmemBytes;
  const cudaError_t error =
      without_device([&](ProcessContext& context) { return read_attributes(context, *config, request); });
  return error != cudaSuccess ? error : launch(request, arguments, config->stream);
}

HEDDLE_CUDART cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute attribute, int value) {
  return with_device([&](ProcessContext& context) {
    CodeFunction* function = function_of(context, stub);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    switch (attribute) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize: {
        const std::uint32_t most = context.device().params().sm.limits.max_shared_per_cta;
        if (value < 0 || static_cast<std::uint32_t>(value) + function->static_shared > most) {
          return cudaErrorInvalidValue;
        }
        function->most_dynamic_shared = static_cast<std::uint32_t>(value);
        return cudaSuccess;
      }
      case cudaFuncAttributePreferredSharedMemoryCarveout:
        function->carveout = value;
        return cudaSuccess;
      case cudaFuncAttributeNonPortableClusterSizeAllowed:
        function->any_cluster_size = value != 0;
        return cudaSuccess;
      default:
        return context.missing(fmt::format("cudaFuncSetAttribute of attribute {}", static_cast<int>(attribute)));
    }
  });
}

HEDDLE_CUDART cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  return with_device([&](ProcessContext& context) {
    CodeFunction* function = function_of(context, stub);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attributes == nullptr) return cudaErrorInvalidValue;
    const arch::SmLimits& limits = context.device().params().sm.limits;
    const ptx::Module& module = *function->module->module;
    *attributes = {};
    attributes->sharedSizeBytes = function->static_shared;
    attributes->constSizeBytes = function->module->image->bytes() - function->module->image->constants_at();
    attributes->localSizeBytes = function->local_bytes;
    const std::uint64_t compiled = directive(*function->entry, "maxntid").count();
    const std::uint64_t held =
        function->registers == 0 ? limits.max_threads_per_cta : limits.registers / function->registers / 32 * 32;
    attributes->maxThreadsPerBlock =
        static_cast<int>(std::min({std::uint64_t{limits.max_threads_per_cta}, held, compiled == 0 ? held : compiled}));
    attributes->numRegs = static_cast<int>(function->registers);
    attributes->ptxVersion = static_cast<int>(module.major * 10 + module.minor);
    attributes->binaryVersion = static_cast<int>(LoadedCode::architecture(context.device().params()));
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(function->most_dynamic_shared);
    attributes->preferredShmemCarveout = function->carveout;
    const arch::Dim3 cluster = directive(*function->entry, "reqnctapercluster");
    attributes->requiredClusterWidth = static_cast<int>(cluster.x);
    attributes->requiredClusterHeight = static_cast<int>(cluster.y);
    attributes->requiredClusterDepth = static_cast<int>(cluster.z);
    attributes->nonPortableClusterSizeAllowed = function->any_cluster_size ? 1 : 0;
    return cudaSuccess;
  });
}

// Hints that change nothing here: shared memory and L1 are what the preset says.
HEDDLE_CUDART cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }

HEDDLE_CUDART cudaError_t cudaFuncGetName(const char** name, const void* stub) {
  return without_device([&](ProcessContext& context) {
    const auto found = context.registered().functions.find(stub);
    if (name == nullptr) return cudaErrorInvalidValue;
    if (found == context.registered().functions.end()) return cudaErrorInvalidDeviceFunction;
    *name = found->second->name.c_str();
    return cudaSuccess;
  });
}

namespace {

// The shape of a CTA alone.
cudaError_t cta_shape(ProcessContext& context, const void* stub, int threads, std::size_t shared,
                      arch::KernelShape& shape) {
  CodeFunction* function = function_of(context, stub);
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (threads <= 0) return cudaErrorInvalidValue;
  shape.grid = {1, 1, 1};
  shape.block = {static_cast<std::uint32_t>(threads), 1, 1};
  shape.registers_per_thread = function->registers;
  shape.shared_bytes = function->static_shared + static_cast<std::uint32_t>(shared);
  return cudaSuccess;
}

std::uint32_t ctas_per_sm(const arch::SmLimits& limits, const arch::KernelShape& shape) {
  if (!arch::why_impossible(limits, shape).empty()) return 0;
  return arch::free_slots(arch::capacity_of(limits), {}, arch::need_of(limits, shape));
}

}  // namespace

HEDDLE_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub,
                                                                                 int threads, std::size_t shared,
                                                                                 unsigned) {
  return with_device([&](ProcessContext& context) {
    arch::KernelShape shape;
    if (blocks == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = cta_shape(context, stub, threads, shared, shape); error != cudaSuccess) return error;
    *blocks = static_cast<int>(ctas_per_sm(context.device().params().sm.limits, shape));
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int threads,
                                                                        std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads, shared, 0);
}

// The most that so many CTAs of an SM can have each.
HEDDLE_CUDART cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* stub, int blocks,
                                                                    int threads) {
  return with_device([&](ProcessContext& context) {
    const arch::SmLimits& limits = context.device().params().sm.limits;
    arch::KernelShape shape;
    if (bytes == nullptr || blocks <= 0) return cudaErrorInvalidValue;
    if (const cudaError_t error = cta_shape(context, stub, threads, 0, shape); error != cudaSuccess) return error;
    if (ctas_per_sm(limits, shape) < static_cast<std::uint32_t>(blocks)) return cudaErrorInvalidValue;
    const std::uint32_t fixed = shape.shared_bytes;
    const std::uint32_t step = limits.shared_granularity;
    std::uint32_t dynamic = (limits.max_shared_per_cta - fixed) / step * step;
    for (; dynamic > 0; dynamic -= step) {
      shape.shared_bytes = fixed + dynamic;
      if (ctas_per_sm(limits, shape) >= static_cast<std::uint32_t>(blocks)) break;
    }
    *bytes = dynamic;
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* stub,
                                                         const cudaLaunchConfig_t* config) {
  return with_device([&](ProcessContext& context) {
    if (clusters == nullptr || config == nullptr) return cudaErrorInvalidValue;
    LaunchRequest request;
    request.stub = stub;
    request.grid = config->gridDim;
    request.block = config->blockDim;
    request.shared = config->dynamicSmemBytes;
    if (const cudaError_t error = read_attributes(context, *config, request); error != cudaSuccess) return error;
    CodeFunction* function = function_of(context, stub);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    arch::KernelShape shape;
    if (const cudaError_t error = shape_of(context, request, *function, shape); error != cudaSuccess) return error;
    *clusters = static_cast<int>(gpu::residency(context.device().params(), shape).cgas);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* stub,
                                                               const cudaLaunchConfig_t* config) {
  return with_device([&](ProcessContext& context) {
    if (size == nullptr || config == nullptr) return cudaErrorInvalidValue;
    CodeFunction* function = function_of(context, stub);
    if (function == nullptr) return cudaErrorInvalidDeviceFunction;
    for (std::uint32_t ctas = function->any_cluster_size ? 16 : 8; ctas > 0; ctas /= 2) {
      LaunchRequest request;
      request.stub = stub;
      request.grid = dim3(ctas, 1, 1);
      request.block = config->blockDim;
      request.cluster = dim3(ctas, 1, 1);
      request.shared = config->dynamicSmemBytes;
      arch::KernelShape shape;
      if (shape_of(context, request, *function, shape) != cudaSuccess) continue;
      *size = static_cast<int>(ctas);
      return cudaSuccess;
    }
    return cudaErrorInvalidConfiguration;
  });
}

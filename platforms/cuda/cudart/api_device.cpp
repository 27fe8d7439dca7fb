// The device and what it tells of itself; errors; limits.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "cuda/cudart/api_call.h"
#include "cuda/cudart/error_names.h"
#include "gpu/gpu_params.h"

namespace heddle::cuda {
namespace {

constexpr int kVersion = CUDART_VERSION;

int to_int(double value) { return static_cast<int>(std::min(value, 2147483647.0)); }

// What the parameters of the machine say; what they do not have, as the CUDA programming guide has it for compute
// capability 9.0.
cudaDeviceProp properties(ProcessContext& context) {
  const gpu::GpuParams& params = context.device().params();
  const arch::SmLimits& limits = params.sm.limits;
  cudaDeviceProp prop{};
  std::snprintf(prop.name, sizeof prop.name, "Heddle %s", params.machine.device.c_str());
  std::memcpy(prop.uuid.bytes, "heddle simulated", 16);
  const auto architecture = static_cast<int>(LoadedCode::architecture(params));
  prop.major = architecture / 10;
  prop.minor = architecture % 10;
  prop.totalGlobalMem = params.machine.memory;
  prop.sharedMemPerBlock = 48 * 1024;
  prop.sharedMemPerBlockOptin = limits.max_shared_per_cta;
  prop.sharedMemPerMultiprocessor = limits.shared_bytes;
  prop.reservedSharedMemPerBlock = limits.shared_reserve;
  prop.regsPerBlock = static_cast<int>(limits.registers);
  prop.regsPerMultiprocessor = static_cast<int>(limits.registers);
  prop.warpSize = static_cast<int>(limits.warp_size);
  prop.memPitch = 2147483647;
  prop.maxThreadsPerBlock = static_cast<int>(limits.max_threads_per_cta);
  prop.maxThreadsPerMultiProcessor = static_cast<int>(limits.threads);
  prop.maxBlocksPerMultiProcessor = static_cast<int>(limits.ctas);
  prop.maxThreadsDim[0] = prop.maxThreadsDim[1] = 1024;
  prop.maxThreadsDim[2] = 64;
  prop.maxGridSize[0] = static_cast<int>(arch::kMaxGridX);
  prop.maxGridSize[1] = static_cast<int>(arch::kMaxGridY);
  prop.maxGridSize[2] = static_cast<int>(arch::kMaxGridZ);
  prop.totalConstMem = 64 * 1024;
  prop.textureAlignment = 512;
  prop.texturePitchAlignment = 32;
  prop.multiProcessorCount = static_cast<int>(context.device().gpu().topology().sms());
  prop.canMapHostMemory = 1;
  prop.concurrentKernels = 1;
  prop.asyncEngineCount = static_cast<int>(params.copy.engines);
  prop.unifiedAddressing = 1;
  prop.l2CacheSize = to_int(static_cast<double>(params.l2.bytes));
  prop.streamPrioritiesSupported = 1;
  prop.globalL1CacheSupported = 1;
  prop.localL1CacheSupported = 1;
  prop.managedMemory = 1;
  prop.cooperativeLaunch = 1;
  prop.hostRegisterSupported = 1;
  prop.memoryPoolsSupported = 0;
  prop.clusterLaunch = 1;
  prop.pciBusID = 1;
  return prop;
}

std::map<cudaLimit, std::size_t>& device_limits() {
  static std::map<cudaLimit, std::size_t> values = {
      {cudaLimitStackSize, 1024}, {cudaLimitPrintfFifoSize, 1 << 20}, {cudaLimitMallocHeapSize, 8 << 20}};
  return values;
}

// "cudaErrorInvalidValue": "invalid value".
std::string words_of(const char* name) {
  const std::string prefix = "cudaError";
  std::string text;
  for (const char* at = name + prefix.size(); *at != '\0'; ++at) {
    const bool upper = std::isupper(static_cast<unsigned char>(*at)) != 0;
    const bool next_lower = std::islower(static_cast<unsigned char>(at[1])) != 0;
    const bool before_lower = !text.empty() && std::islower(static_cast<unsigned char>(at[-1])) != 0;
    if (upper && !text.empty() && (before_lower || next_lower)) text += ' ';
    text +=
        static_cast<char>(upper && (next_lower || before_lower) ? std::tolower(static_cast<unsigned char>(*at)) : *at);
  }
  return text;
}

const char* name_of(cudaError_t error) {
  for (const ErrorName& one : kErrorNames) {
    if (one.error == error) return one.name;
  }
  return "unrecognized error code";
}

}  // namespace
}  // namespace heddle::cuda

using namespace heddle;
using namespace heddle::cuda;

HEDDLE_CUDART cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return remember(cudaErrorInvalidValue);
  *count = 1;
  return cudaSuccess;
}
HEDDLE_CUDART cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return remember(cudaErrorInvalidValue);
  *device = 0;
  return cudaSuccess;
}
HEDDLE_CUDART cudaError_t cudaSetDevice(int device) {
  if (device != 0) return remember(cudaErrorInvalidDevice);
  return with_device([](ProcessContext&) { return cudaSuccess; });
}
HEDDLE_CUDART cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
HEDDLE_CUDART cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return cudaGetDevice(device); }
HEDDLE_CUDART cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
HEDDLE_CUDART cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceMapHost;
  return cudaSuccess;
}
HEDDLE_CUDART cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
HEDDLE_CUDART cudaError_t cudaDeviceGetPCIBusId(char* text, int room, int device) {
  if (device != 0) return remember(cudaErrorInvalidDevice);
  if (text == nullptr || room < 13) return remember(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(room), "0000:01:00.0");
  return cudaSuccess;
}

HEDDLE_CUDART cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return with_device([&](ProcessContext& context) {
    if (prop == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    *prop = properties(context);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return with_device([&](ProcessContext& context) {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    const cudaDeviceProp prop = properties(context);
    const std::map<cudaDeviceAttr, double> values = {
        {cudaDevAttrMaxThreadsPerBlock, prop.maxThreadsPerBlock},
        {cudaDevAttrMaxBlockDimX, prop.maxThreadsDim[0]},
        {cudaDevAttrMaxBlockDimY, prop.maxThreadsDim[1]},
        {cudaDevAttrMaxBlockDimZ, prop.maxThreadsDim[2]},
        {cudaDevAttrMaxGridDimX, prop.maxGridSize[0]},
        {cudaDevAttrMaxGridDimY, prop.maxGridSize[1]},
        {cudaDevAttrMaxGridDimZ, prop.maxGridSize[2]},
        {cudaDevAttrMaxSharedMemoryPerBlock, static_cast<double>(prop.sharedMemPerBlock)},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, static_cast<double>(prop.sharedMemPerBlockOptin)},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, static_cast<double>(prop.sharedMemPerMultiprocessor)},
        {cudaDevAttrReservedSharedMemoryPerBlock, static_cast<double>(prop.reservedSharedMemPerBlock)},
        {cudaDevAttrTotalConstantMemory, static_cast<double>(prop.totalConstMem)},
        {cudaDevAttrWarpSize, prop.warpSize},
        {cudaDevAttrMaxPitch, static_cast<double>(prop.memPitch)},
        {cudaDevAttrMaxRegistersPerBlock, prop.regsPerBlock},
        {cudaDevAttrMaxRegistersPerMultiprocessor, prop.regsPerMultiprocessor},
        {cudaDevAttrMaxThreadsPerMultiProcessor, prop.maxThreadsPerMultiProcessor},
        {cudaDevAttrMaxBlocksPerMultiprocessor, prop.maxBlocksPerMultiProcessor},
        {cudaDevAttrMultiProcessorCount, prop.multiProcessorCount},
        {cudaDevAttrClockRate, context.device().params().machine.clock * 1e6},
        {cudaDevAttrComputeCapabilityMajor, prop.major},
        {cudaDevAttrComputeCapabilityMinor, prop.minor},
        {cudaDevAttrL2CacheSize, prop.l2CacheSize},
        {cudaDevAttrAsyncEngineCount, prop.asyncEngineCount},
        {cudaDevAttrUnifiedAddressing, 1},
        {cudaDevAttrConcurrentKernels, 1},
        {cudaDevAttrCanMapHostMemory, 1},
        {cudaDevAttrManagedMemory, 1},
        {cudaDevAttrConcurrentManagedAccess, 0},
        {cudaDevAttrPageableMemoryAccess, 0},
        {cudaDevAttrStreamPrioritiesSupported, 1},
        {cudaDevAttrCooperativeLaunch, 1},
        {cudaDevAttrClusterLaunch, 1},
        {cudaDevAttrHostRegisterSupported, 1},
        {cudaDevAttrMemoryPoolsSupported, 0},
        {cudaDevAttrComputePreemptionSupported, 0},
        {cudaDevAttrGlobalL1CacheSupported, 1},
        {cudaDevAttrLocalL1CacheSupported, 1},
        {cudaDevAttrComputeMode, cudaComputeModeDefault},
        {cudaDevAttrIntegrated, 0},
        {cudaDevAttrEccEnabled, 0},
        {cudaDevAttrKernelExecTimeout, 0},
        {cudaDevAttrTccDriver, 0},
        {cudaDevAttrIsMultiGpuBoard, 0},
        {cudaDevAttrHostNativeAtomicSupported, 0},
        {cudaDevAttrCanUseHostPointerForRegisteredMem, 0},
        {cudaDevAttrDirectManagedMemAccessFromHost, 0},
        {cudaDevAttrTextureAlignment, static_cast<double>(prop.textureAlignment)},
        {cudaDevAttrPciBusId, prop.pciBusID},
        {cudaDevAttrPciDeviceId, prop.pciDeviceID},
        {cudaDevAttrPciDomainId, prop.pciDomainID},
    };
    const auto found = values.find(attribute);
    if (found == values.end()) {
      return context.missing("cudaDeviceGetAttribute of attribute " + std::to_string(static_cast<int>(attribute)));
    }
    *value = to_int(found->second);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaDeviceSynchronize() {
  return with_device([](ProcessContext& context) { return context.wait_for_all(); });
}

// Waits; the device and what lies in its memory stay.
HEDDLE_CUDART cudaError_t cudaDeviceReset() { return cudaDeviceSynchronize(); }

HEDDLE_CUDART cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return without_device([&](ProcessContext& context) {
    if (device_limits().count(limit) == 0)
      return context.missing("cudaDeviceSetLimit of limit " + std::to_string(limit));
    device_limits()[limit] = value;
    return cudaSuccess;
  });
}
HEDDLE_CUDART cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return without_device([&](ProcessContext& context) {
    if (device_limits().count(limit) == 0)
      return context.missing("cudaDeviceGetLimit of limit " + std::to_string(limit));
    *value = device_limits()[limit];
    return cudaSuccess;
  });
}
// A hint that changes nothing here.
HEDDLE_CUDART cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
HEDDLE_CUDART cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}

HEDDLE_CUDART cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
HEDDLE_CUDART cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

// An error of the device stays.
HEDDLE_CUDART cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error();
  const cudaError_t lasting = ProcessContext::get().lasting();
  last_error() = cudaSuccess;
  return lasting != cudaSuccess ? lasting : error;
}
HEDDLE_CUDART cudaError_t cudaPeekAtLastError() {
  const cudaError_t lasting = ProcessContext::get().lasting();
  return lasting != cudaSuccess ? lasting : last_error();
}

HEDDLE_CUDART const char* cudaGetErrorName(cudaError_t error) { return name_of(error); }
HEDDLE_CUDART const char* cudaGetErrorString(cudaError_t error) {
  static auto* texts = new std::map<cudaError_t, std::string>;
  if (error == cudaSuccess) return "no error";
  const std::lock_guard<std::recursive_mutex> alone(ProcessContext::get().mutex());
  const auto [text, added] = texts->emplace(error, std::string());
  if (added) {
    const std::string name = name_of(error);
    text->second = name.rfind("cudaError", 0) == 0 ? words_of(name.c_str()) : name;
  }
  return text->second.c_str();
}

namespace heddle::cuda {

// Of entry points that the header has and this library has not.
HEDDLE_CUDART int heddle_cudart_missing(const char* name) {
  return without_device([name](ProcessContext& context) { return context.missing(name); });
}

}  // namespace heddle::cuda

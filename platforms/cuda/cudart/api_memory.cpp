// Memory: allocation, copies, fills, variables, pointers.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "cuda/cudart/api_call.h"

namespace heddle::cuda {
namespace {

constexpr std::size_t kPitch = 512;

cudaError_t allocate(void** to, std::size_t bytes, MemoryKind kind) {
  return with_device([&](ProcessContext& context) {
    if (to == nullptr) return cudaErrorInvalidValue;
    *to = nullptr;
    if (bytes == 0) return cudaSuccess;
    const std::optional<std::uint64_t> address = context.heap().allocate(bytes, kind);
    if (!address) return cudaErrorMemoryAllocation;
    if (kind == MemoryKind::managed) context.mover().pages().add(*address, *address, bytes);
    *to = pointer_to(*address);
    return cudaSuccess;
  });
}

// What the device still does with it comes first.
cudaError_t release(void* pointer, bool pinned) {
  return with_device([&](ProcessContext& context) {
    if (pointer == nullptr) return cudaSuccess;
    const DeviceHeap::Block* block = context.heap().at(number_of(pointer));
    if (block == nullptr || (block->kind == MemoryKind::pinned) != pinned) return cudaErrorInvalidValue;
    const cudaError_t error = context.wait_for_all();
    context.mover().pages().remove(number_of(pointer));
    context.heap().free(number_of(pointer));
    return error;
  });
}

// Memory of the program that is known to the device at an address of the device's.
std::map<std::uint64_t, std::uint64_t>& mirrors() {
  static std::map<std::uint64_t, std::uint64_t> by_host;
  return by_host;
}

HostWork copy_of(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                 std::size_t rows) {
  HostWork work;
  work.kind = HostWork::Kind::copy;
  work.to = number_of(to);
  work.from = number_of(from);
  work.row_bytes = width;
  work.rows = rows;
  work.to_pitch = to_pitch;
  work.from_pitch = from_pitch;
  return work;
}

bool is_kind(cudaMemcpyKind kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

// Where a direction says device, device memory has to be.
bool goes_with(ProcessContext& context, const HostWork& work, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return (!to_device || context.heap().find(work.to) != nullptr) &&
         (!from_device || context.heap().find(work.from) != nullptr);
}

// A host without pinned memory at the end of a copy gets its bytes before the call returns, as one that waits does.
cudaError_t move_rows(HostWork work, cudaMemcpyKind kind, cudaStream_t handle, bool waits) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    if (!is_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    if (work.row_bytes == 0 || work.rows == 0) return cudaSuccess;
    if (work.to == 0 || work.from == 0 || !goes_with(context, work, kind)) return cudaErrorInvalidValue;
    if (work.rows > 1 && (work.to_pitch < work.row_bytes || work.from_pitch < work.row_bytes)) {
      return cudaErrorInvalidPitchValue;
    }
    const bool now = waits || context.heap().find(work.to) == nullptr;
    if (waits && stream.capture != 0) return cudaErrorStreamCaptureUnsupported;
    const bool captured = stream.capture != 0;
    const cudaError_t error = context.issue(stream, std::move(work));
    if (error != cudaSuccess || captured || !now) return error;
    return context.wait_for(context.streams().open(stream));
  });
}

cudaError_t fill(void* to, std::size_t pitch, int value, std::size_t width, std::size_t rows, cudaStream_t handle) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    if (width == 0 || rows == 0) return cudaSuccess;
    HostWork work;
    work.kind = HostWork::Kind::fill;
    work.to = number_of(to);
    work.row_bytes = width;
    work.rows = rows;
    work.to_pitch = pitch;
    work.value = static_cast<std::uint8_t>(value);
    return context.issue(stream, std::move(work));
  });
}

// The part of a variable; 0: there is no such variable, or it is shorter.
std::uint64_t part_of(ProcessContext& context, const void* symbol, std::size_t bytes, std::size_t offset) {
  const auto found = context.registered().variables.find(symbol);
  if (found == context.registered().variables.end()) return 0;
  const CodeVariable& variable = found->second;
  if (offset > variable.bytes || bytes > variable.bytes - offset) return 0;
  prepare_managed(context, *variable.module);
  return context.code().address_of(variable) + offset;
}

cudaError_t copy_symbol(const void* symbol, const void* other, std::size_t bytes, std::size_t offset, bool to_symbol,
                        cudaStream_t handle, bool waits) {
  std::uint64_t address = 0;
  const cudaError_t error = with_device([&](ProcessContext& context) {
    if (context.registered().variables.count(symbol) == 0) return cudaErrorInvalidSymbol;
    address = part_of(context, symbol, bytes, offset);
    return address == 0 ? cudaErrorInvalidValue : cudaSuccess;
  });
  if (error != cudaSuccess) return error;
  void* writable =
      const_cast<void*>(other);  // NOLINT(cppcoreguidelines-pro-type-const-cast): the caller's, in the other direction
  void* to = to_symbol ? pointer_to(address) : writable;
  const void* from = to_symbol ? other : pointer_to(address);
  return move_rows(copy_of(to, bytes, from, bytes, bytes, 1), cudaMemcpyDefault, handle, waits);
}

}  // namespace
}  // namespace heddle::cuda

using namespace heddle;
using namespace heddle::cuda;

HEDDLE_CUDART cudaError_t cudaMalloc(void** to, std::size_t bytes) { return allocate(to, bytes, MemoryKind::device); }
HEDDLE_CUDART cudaError_t cudaFree(void* pointer) { return release(pointer, false); }

HEDDLE_CUDART cudaError_t cudaMallocAsync(void** to, std::size_t bytes, cudaStream_t) {
  return allocate(to, bytes, MemoryKind::device);
}
HEDDLE_CUDART cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return release(pointer, false); }

HEDDLE_CUDART cudaError_t cudaMallocManaged(void** to, std::size_t bytes, unsigned) {
  if (bytes == 0) return remember(cudaErrorInvalidValue);
  return allocate(to, bytes, MemoryKind::managed);
}

HEDDLE_CUDART cudaError_t cudaMallocPitch(void** to, std::size_t* pitch, std::size_t width, std::size_t height) {
  if (pitch == nullptr) return remember(cudaErrorInvalidValue);
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  return allocate(to, *pitch * height, MemoryKind::device);
}

HEDDLE_CUDART cudaError_t cudaMallocHost(void** to, std::size_t bytes) {
  return allocate(to, bytes, MemoryKind::pinned);
}
HEDDLE_CUDART cudaError_t cudaFreeHost(void* pointer) { return release(pointer, true); }

HEDDLE_CUDART cudaError_t cudaHostAlloc(void** to, std::size_t bytes, unsigned flags) {
  const cudaError_t error = allocate(to, bytes, MemoryKind::pinned);
  if (error != cudaSuccess || (flags & cudaHostAllocMapped) == 0) return error;
  return with_device([&](ProcessContext& context) {
    context.mover().share_pinned(number_of(*to));
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  return with_device([&](ProcessContext& context) {
    if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
    if (mirrors().count(number_of(pointer)) > 0) return cudaErrorHostMemoryAlreadyRegistered;
    const std::optional<std::uint64_t> device = context.heap().allocate(bytes, MemoryKind::device);
    if (!device) return cudaErrorMemoryAllocation;
    mirrors()[number_of(pointer)] = *device;
    context.mover().pages().add(number_of(pointer), *device, bytes);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaHostUnregister(void* pointer) {
  return with_device([&](ProcessContext& context) {
    const auto found = mirrors().find(number_of(pointer));
    if (found == mirrors().end()) return cudaErrorHostMemoryNotRegistered;
    const cudaError_t error = context.wait_for_all();
    context.mover().pages().remove(found->first);
    context.heap().free(found->second);
    mirrors().erase(found);
    return error;
  });
}

HEDDLE_CUDART cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return with_device([&](ProcessContext& context) {
    if (device == nullptr) return cudaErrorInvalidValue;
    const auto mirror = mirrors().find(number_of(host));
    const DeviceHeap::Block* block = context.heap().find(number_of(host));
    if (mirror != mirrors().end()) {
      *device = pointer_to(mirror->second);
    } else if (block != nullptr && block->kind != MemoryKind::device) {
      context.mover().share_pinned(number_of(host));
      *device = host;
    } else {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return with_device([&](ProcessContext& context) {
    if (free != nullptr) *free = context.heap().free_bytes();
    if (total != nullptr) *total = context.device().params().machine.memory;
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return move_rows(copy_of(to, bytes, from, bytes, bytes, 1), kind, nullptr, true);
}
HEDDLE_CUDART cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  return move_rows(copy_of(to, bytes, from, bytes, bytes, 1), kind, stream, false);
}
HEDDLE_CUDART cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                       std::size_t width, std::size_t rows, cudaMemcpyKind kind) {
  return move_rows(copy_of(to, to_pitch, from, from_pitch, width, rows), kind, nullptr, true);
}
HEDDLE_CUDART cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                            std::size_t width, std::size_t rows, cudaMemcpyKind kind,
                                            cudaStream_t stream) {
  return move_rows(copy_of(to, to_pitch, from, from_pitch, width, rows), kind, stream, false);
}

HEDDLE_CUDART cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                                             std::size_t offset, cudaMemcpyKind) {
  return copy_symbol(symbol, from, bytes, offset, true, nullptr, true);
}
HEDDLE_CUDART cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                                  std::size_t offset, cudaMemcpyKind, cudaStream_t stream) {
  return copy_symbol(symbol, from, bytes, offset, true, stream, false);
}
HEDDLE_CUDART cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                               cudaMemcpyKind) {
  return copy_symbol(symbol, to, bytes, offset, false, nullptr, true);
}
HEDDLE_CUDART cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                                    cudaMemcpyKind, cudaStream_t stream) {
  return copy_symbol(symbol, to, bytes, offset, false, stream, false);
}

HEDDLE_CUDART cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  return with_device([&](ProcessContext& context) {
    const std::uint64_t at = part_of(context, symbol, 0, 0);
    if (at == 0) return cudaErrorInvalidSymbol;
    *address = pointer_to(at);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  return without_device([&](ProcessContext& context) {
    const auto found = context.registered().variables.find(symbol);
    if (found == context.registered().variables.end()) return cudaErrorInvalidSymbol;
    *bytes = found->second.bytes;
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(to, bytes, value, bytes, 1, nullptr);
}
HEDDLE_CUDART cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill(to, bytes, value, bytes, 1, stream);
}
HEDDLE_CUDART cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t rows) {
  return fill(to, pitch, value, width, rows, nullptr);
}
HEDDLE_CUDART cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t rows,
                                            cudaStream_t stream) {
  return fill(to, pitch, value, width, rows, stream);
}

HEDDLE_CUDART cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return with_device([&](ProcessContext& context) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = {};
    const DeviceHeap::Block* block = context.heap().find(number_of(pointer));
    const auto mirror = mirrors().find(number_of(pointer));
    void* same = const_cast<void*>(pointer);  // NOLINT(cppcoreguidelines-pro-type-const-cast): the caller's
    attributes->device = 0;
    if (block == nullptr) {
      attributes->type = mirror == mirrors().end() ? cudaMemoryTypeUnregistered : cudaMemoryTypeHost;
      attributes->device = mirror == mirrors().end() ? -2 : 0;
      attributes->devicePointer = mirror == mirrors().end() ? nullptr : pointer_to(mirror->second);
      attributes->hostPointer = same;
    } else if (block->kind == MemoryKind::device) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = same;
    } else {
      attributes->type = block->kind == MemoryKind::managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
      attributes->devicePointer = attributes->hostPointer = same;
    }
    return cudaSuccess;
  });
}

// Pages move at launches and when the host waits, whatever was advised.
HEDDLE_CUDART cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t, cudaMemLocation, unsigned,
                                               cudaStream_t stream) {
  return with_stream(stream, [&](ProcessContext& context, HostStream&) {
    const DeviceHeap::Block* block = context.heap().find(number_of(pointer));
    return block == nullptr || block->kind != MemoryKind::managed ? cudaErrorInvalidValue : cudaSuccess;
  });
}
HEDDLE_CUDART cudaError_t cudaMemAdvise(const void* pointer, std::size_t, cudaMemoryAdvise, cudaMemLocation) {
  return with_device([&](ProcessContext& context) {
    const DeviceHeap::Block* block = context.heap().find(number_of(pointer));
    return block == nullptr || block->kind != MemoryKind::managed ? cudaErrorInvalidValue : cudaSuccess;
  });
}
HEDDLE_CUDART cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void*, std::size_t, unsigned) {
  return with_stream(stream, [](ProcessContext&, HostStream&) { return cudaSuccess; });
}

// What all entry points have in common: one at a time, errors that stay, the last error of the thread.
#pragma once

#include <cuda_runtime_api.h>
#include <exception>
#include <utility>

#include "common/error.h"
#include "cuda/cudart/process_context.h"

// An entry point of the library: its name is what the public header has.
#define HEDDLE_CUDART extern "C" __attribute__((visibility("default")))

namespace heddle::cuda {

// Of this thread.
cudaError_t& last_error();

// The stream that a handle means; null: there is no such stream.
HostStream* stream_of(cudaStream_t handle);

inline cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error() = error;
  return error;
}

// `body` with the context, alone. What it throws has been said, and is an error.
template <class Body>
cudaError_t without_device(Body&& body) {
  ProcessContext& context = ProcessContext::get();
  const std::lock_guard<std::recursive_mutex> alone(context.mutex());
  try {
    return remember(body(context));
  } catch (const InputError& error) {
    context.say(error.what());
    return remember(cudaErrorNoKernelImageForDevice);
  } catch (const std::exception& error) {
    context.say(std::string("internal error, please report it: ") + error.what());
    return remember(cudaErrorUnknown);
  }
}

// The same, with a device. An error of it stays.
template <class Body>
cudaError_t with_device(Body&& body) {
  return without_device([&](ProcessContext& context) {
    if (!context.start()) return cudaErrorInitializationError;
    if (context.lasting() != cudaSuccess) return context.lasting();
    return body(context);
  });
}

// The same, with a stream of it.
template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body&& body) {
  return with_device([&](ProcessContext& context) {
    HostStream* stream = stream_of(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(context, *stream);
  });
}

struct LaunchRequest {
  const void* stub = nullptr;
  dim3 grid;
  dim3 block;
  dim3 cluster{0, 0, 0};
  std::size_t shared = 0;  // dynamic, bytes
  bool cooperative = false;
  bool programmatic = false;
};

// The function that a stub or a handle stands for, loaded; null: none. Throws InputError.
CodeFunction* function_of(ProcessContext& context, const void* stub);
// The machine's view of such a launch. Throws InputError.
cudaError_t shape_of(ProcessContext& context, const LaunchRequest& request, CodeFunction& function,
                     arch::KernelShape& shape);
// The work, with a copy of the arguments. Throws InputError.
cudaError_t kernel_work(ProcessContext& context, const LaunchRequest& request, void** arguments, HostWork& work);
// Loads the module; its managed variables are where the program looks for them.
void prepare_managed(ProcessContext& context, CodeModule& module);

}  // namespace heddle::cuda

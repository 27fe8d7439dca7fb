// Streams, events and captures.
#include <algorithm>

#include "cuda/cudart/api_call.h"

namespace heddle::cuda {
namespace {

constexpr int kGreatest = -5;  // priority of streams, 0 to this: smaller is more urgent

HostEvent* event_of(cudaEvent_t handle) { return reinterpret_cast<HostEvent*>(handle); }

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
  return with_device([&](ProcessContext& context) {
    if (stream == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) return cudaErrorInvalidValue;
    const int urgency = -std::clamp(priority, kGreatest, 0);  // larger is more urgent for the device
    *stream = reinterpret_cast<cudaStream_t>(&context.streams().add(urgency, (flags & cudaStreamNonBlocking) == 0));
    return cudaSuccess;
  });
}

cudaError_t record(cudaEvent_t handle, cudaStream_t stream_handle) {
  return with_stream(stream_handle, [&](ProcessContext& context, HostStream& stream) {
    HostEvent* event = event_of(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream.capture == 0) {
      context.streams().record(*event, stream);
    } else {
      event->capture = stream.capture;
      event->nodes = stream.nodes;
    }
    return cudaSuccess;
  });
}

std::uint64_t& captures_begun() {
  static std::uint64_t count = 0;
  return count;
}

}  // namespace

cudaError_t& last_error() {
  static thread_local cudaError_t error = cudaSuccess;
  return error;
}

HostStream* stream_of(cudaStream_t handle) {
  HostStreams& streams = ProcessContext::get().streams();
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
    return &streams.default_stream();
  auto* stream = reinterpret_cast<HostStream*>(handle);
  return streams.has(stream) ? stream : nullptr;
}

}  // namespace heddle::cuda

using namespace heddle;
using namespace heddle::cuda;

HEDDLE_CUDART cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create(stream, 0, 0); }
HEDDLE_CUDART cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create(stream, flags, 0);
}
HEDDLE_CUDART cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create(stream, flags, priority);
}
HEDDLE_CUDART cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatest;
  return cudaSuccess;
}

HEDDLE_CUDART cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    if (&stream == &context.streams().default_stream()) return cudaErrorInvalidResourceHandle;
    context.streams().remove(stream);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream(handle, [](ProcessContext& context, HostStream& stream) {
    if (stream.capture != 0) return cudaErrorStreamCaptureUnsupported;
    return context.wait_for(context.streams().open(stream));
  });
}

HEDDLE_CUDART cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream(handle, [](ProcessContext& context, HostStream& stream) {
    if (stream.capture != 0) return cudaErrorStreamCaptureUnsupported;
    if (!context.streams().open(stream).empty()) context.device().look();
    return context.streams().open(stream).empty() ? context.wait_for({}) : cudaErrorNotReady;
  });
}

HEDDLE_CUDART cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    const HostEvent* event = event_of(event_handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->capture == 0) {
      if (stream.capture != 0) return cudaErrorStreamCaptureIsolation;
      context.streams().wait(stream, event->operations);
      return cudaSuccess;
    }
    if (context.captures().count(event->capture) == 0) return cudaErrorCapturedEvent;
    if (stream.capture != 0 && stream.capture != event->capture) return cudaErrorStreamCaptureMerge;
    if (stream.capture == 0) stream.nodes.clear();
    stream.capture = event->capture;  // it is part of the capture from here on
    for (WorkNode* node : event->nodes) {
      if (std::find(stream.nodes.begin(), stream.nodes.end(), node) == stream.nodes.end()) stream.nodes.push_back(node);
    }
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream(handle, [&](ProcessContext&, HostStream& stream) {
    *priority = -stream.priority;
    return cudaSuccess;
  });
}
HEDDLE_CUDART cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return with_stream(handle, [&](ProcessContext&, HostStream& stream) {
    *flags = stream.blocking ? cudaStreamDefault : cudaStreamNonBlocking;
    return cudaSuccess;
  });
}
HEDDLE_CUDART cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return with_stream(handle, [&](ProcessContext&, HostStream& stream) {
    *id = stream.number;
    return cudaSuccess;
  });
}

// The host's function is called once all before it has ended, before the call returns.
HEDDLE_CUDART cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    if (function == nullptr) return cudaErrorInvalidValue;
    HostWork work;
    work.kind = HostWork::Kind::call;
    work.call = [function, data] { function(data); };
    return context.issue(stream, std::move(work));
  });
}
HEDDLE_CUDART cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                                unsigned) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    if (callback == nullptr) return cudaErrorInvalidValue;
    if (stream.capture != 0) return cudaErrorStreamCaptureUnsupported;
    HostWork work;
    work.kind = HostWork::Kind::call;
    work.call = [handle, callback, data] { callback(handle, cudaSuccess, data); };
    return context.issue(stream, std::move(work));
  });
}

HEDDLE_CUDART cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  return with_stream(handle, [](ProcessContext& context, HostStream& stream) {
    if (&stream == &context.streams().default_stream()) return cudaErrorStreamCaptureUnsupported;
    if (stream.capture != 0) return cudaErrorIllegalState;
    stream.capture = ++captures_begun();
    stream.nodes.clear();
    context.captures()[stream.capture] = {std::make_unique<WorkGraph>(), &stream};
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    const auto capture = context.captures().find(stream.capture);
    if (capture == context.captures().end()) return cudaErrorIllegalState;
    if (capture->second.origin != &stream) return cudaErrorStreamCaptureUnmatched;
    // All that other streams have captured has to be behind what this one waits for.
    const bool joined = capture->second.graph->joined_by(stream.nodes);
    context.streams().leave_capture(stream.capture);
    std::unique_ptr<WorkGraph> made = std::move(capture->second.graph);
    context.captures().erase(capture);
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = reinterpret_cast<cudaGraph_t>(made.release());
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return with_stream(handle, [&](ProcessContext&, HostStream& stream) {
    *status = stream.capture == 0 ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  if (mode == nullptr) return remember(cudaErrorInvalidValue);
  std::swap(*mode, current);
  return cudaSuccess;
}

HEDDLE_CUDART cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return with_device([&](ProcessContext&) {
    if (event == nullptr) return cudaErrorInvalidValue;
    auto made = std::make_unique<HostEvent>();
    made->timing = (flags & cudaEventDisableTiming) == 0;
    *event = reinterpret_cast<cudaEvent_t>(made.release());
    return cudaSuccess;
  });
}
HEDDLE_CUDART cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

HEDDLE_CUDART cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return with_device([&](ProcessContext&) {
    const std::unique_ptr<HostEvent> gone(event_of(handle));
    return gone == nullptr ? cudaErrorInvalidResourceHandle : cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return record(event, stream); }
HEDDLE_CUDART cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return record(event, stream);
}

HEDDLE_CUDART cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return with_device([&](ProcessContext& context) {
    const HostEvent* event = event_of(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->capture != 0) return cudaErrorCapturedEvent;
    if (!context.streams().complete(*event)) context.device().look();
    return context.streams().complete(*event) ? context.wait_for(event->operations) : cudaErrorNotReady;
  });
}

HEDDLE_CUDART cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return with_device([&](ProcessContext& context) {
    const HostEvent* event = event_of(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->capture != 0) return cudaErrorCapturedEvent;
    return context.wait_for(event->operations);
  });
}

// Of simulated time.
HEDDLE_CUDART cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return with_device([&](ProcessContext& context) {
    const HostEvent* first = event_of(from);
    const HostEvent* second = event_of(to);
    if (first == nullptr || second == nullptr || !first->timing || !second->timing) {
      return cudaErrorInvalidResourceHandle;
    }
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    if (!first->recorded || !second->recorded) return cudaErrorInvalidResourceHandle;
    HostStreams& streams = context.streams();
    if (!streams.complete(*first) || !streams.complete(*second)) return cudaErrorNotReady;
    *milliseconds = static_cast<float>((streams.time_of(*second) - streams.time_of(*first)) / 1e6);
    return cudaSuccess;
  });
}

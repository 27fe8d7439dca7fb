// Graphs, as programs build them.
#include <algorithm>
#include <memory>

#include "cuda/cudart/api_call.h"

namespace heddle::cuda {

namespace {

WorkGraph* graph_of(cudaGraph_t handle) { return reinterpret_cast<WorkGraph*>(handle); }
WorkGraph* executable(cudaGraphExec_t handle) { return reinterpret_cast<WorkGraph*>(handle); }
WorkNode* node_of(cudaGraphNode_t handle) { return reinterpret_cast<WorkNode*>(handle); }

cudaError_t add(cudaGraphNode_t* node, cudaGraph_t handle, const cudaGraphNode_t* after, std::size_t count,
                HostWork work) {
  WorkGraph* graph = graph_of(handle);
  if (graph == nullptr || node == nullptr || (count > 0 && after == nullptr)) return cudaErrorInvalidValue;
  std::vector<WorkNode*> nodes;
  for (std::size_t i = 0; i < count; ++i) {
    if (!graph->has(node_of(after[i]))) return cudaErrorInvalidValue;
    nodes.push_back(node_of(after[i]));
  }
  *node = reinterpret_cast<cudaGraphNode_t>(&graph->add(std::move(work), std::move(nodes)));
  return cudaSuccess;
}

cudaError_t work_of(ProcessContext& context, const cudaKernelNodeParams& params, HostWork& work) {
  if (params.extra != nullptr) return context.missing("cudaKernelNodeParams::extra");
  LaunchRequest request;
  request.stub = params.func;
  request.grid = params.gridDim;
  request.block = params.blockDim;
  request.shared = params.sharedMemBytes;
  return kernel_work(context, request, params.kernelParams, work);
}

// Copies the handles that there is room for, and says how many there are.
void give(const std::vector<WorkNode*>& nodes, cudaGraphNode_t* to, std::size_t* count) {
  if (to != nullptr) {
    for (std::size_t i = 0; i < std::min(*count, nodes.size()); ++i) {
      to[i] = reinterpret_cast<cudaGraphNode_t>(nodes[i]);
    }
  }
  *count = to == nullptr ? nodes.size() : std::min(*count, nodes.size());
}

}  // namespace
}  // namespace heddle::cuda

using namespace heddle;
using namespace heddle::cuda;

HEDDLE_CUDART cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  return with_device([&](ProcessContext&) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = reinterpret_cast<cudaGraph_t>(std::make_unique<WorkGraph>().release());
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_device([&](ProcessContext&) {
    const std::unique_ptr<WorkGraph> gone(graph_of(graph));
    return gone == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  return with_device([&](ProcessContext&) {
    if (clone == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    *clone = reinterpret_cast<cudaGraph_t>(std::make_unique<WorkGraph>(*graph_of(graph)).release());
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                 std::size_t count, const cudaKernelNodeParams* params) {
  return with_device([&](ProcessContext& context) {
    if (params == nullptr) return cudaErrorInvalidValue;
    HostWork work;
    const cudaError_t error = work_of(context, *params, work);
    return error != cudaSuccess ? error : add(node, graph, after, count, std::move(work));
  });
}

HEDDLE_CUDART cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* after, std::size_t count, void* to,
                                                   const void* from, std::size_t bytes, cudaMemcpyKind) {
  return with_device([&](ProcessContext&) {
    HostWork work;
    work.kind = HostWork::Kind::copy;
    work.to = reinterpret_cast<std::uintptr_t>(to);
    work.from = reinterpret_cast<std::uintptr_t>(from);
    work.row_bytes = work.to_pitch = work.from_pitch = bytes;
    return add(node, graph, after, count, std::move(work));
  });
}

// Linear memory, in one plane.
HEDDLE_CUDART cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                 std::size_t count, const cudaMemcpy3DParms* params) {
  return with_device([&](ProcessContext& context) {
    if (params == nullptr) return cudaErrorInvalidValue;
    if (params->srcArray != nullptr || params->dstArray != nullptr || params->extent.depth > 1) {
      return context.missing("cudaGraphAddMemcpyNode of arrays and volumes");
    }
    const auto start = [](const cudaPitchedPtr& memory, const cudaPos& at) {
      return reinterpret_cast<std::uintptr_t>(memory.ptr) + at.x + at.y * memory.pitch +
             at.z * memory.pitch * memory.ysize;
    };
    HostWork work;
    work.kind = HostWork::Kind::copy;
    work.to = start(params->dstPtr, params->dstPos);
    work.from = start(params->srcPtr, params->srcPos);
    work.row_bytes = params->extent.width;
    work.rows = std::max<std::size_t>(params->extent.height, 1);
    work.to_pitch = params->dstPtr.pitch;
    work.from_pitch = params->srcPtr.pitch;
    return add(node, graph, after, count, std::move(work));
  });
}

HEDDLE_CUDART cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                 std::size_t count, const cudaMemsetParams* params) {
  return with_device([&](ProcessContext&) {
    if (params == nullptr) return cudaErrorInvalidValue;
    if (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4) return cudaErrorInvalidValue;
    HostWork work;
    work.kind = HostWork::Kind::fill;
    work.to = reinterpret_cast<std::uintptr_t>(params->dst);
    work.row_bytes = params->width * params->elementSize;
    work.rows = std::max<std::size_t>(params->height, 1);
    work.to_pitch = params->pitch;
    work.value = params->value;
    work.value_bytes = params->elementSize;
    return add(node, graph, after, count, std::move(work));
  });
}

HEDDLE_CUDART cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                                std::size_t count) {
  return with_device([&](ProcessContext&) { return add(node, graph, after, count, {}); });
}

HEDDLE_CUDART cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* after,
                                               std::size_t count, const cudaHostNodeParams* params) {
  return with_device([&](ProcessContext&) {
    if (params == nullptr || params->fn == nullptr) return cudaErrorInvalidValue;
    HostWork work;
    work.kind = HostWork::Kind::call;
    work.call = [function = params->fn, data = params->userData] { function(data); };
    return add(node, graph, after, count, std::move(work));
  });
}

HEDDLE_CUDART cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                   const cudaGraphNode_t* to, const cudaGraphEdgeData*,
                                                   std::size_t count) {
  return with_device([&](ProcessContext&) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      if (!graph_of(graph)->has(node_of(from[i])) || !graph_of(graph)->has(node_of(to[i])))
        return cudaErrorInvalidValue;
      node_of(to[i])->after.push_back(node_of(from[i]));
    }
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return with_device([&](ProcessContext&) {
    if (made == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    if (graph_of(graph)->order().size() != graph_of(graph)->size()) return cudaErrorInvalidValue;  // a cycle
    *made = reinterpret_cast<cudaGraphExec_t>(std::make_unique<WorkGraph>(*graph_of(graph)).release());
    return cudaSuccess;
  });
}
HEDDLE_CUDART cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* made, cudaGraph_t graph,
                                                        unsigned long long flags) {
  return cudaGraphInstantiate(made, graph, flags);
}

HEDDLE_CUDART cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return with_device([&](ProcessContext&) {
    const std::unique_ptr<WorkGraph> gone(executable(graph));
    return gone == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t handle) {
  return with_stream(handle, [&](ProcessContext& context, HostStream& stream) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    if (stream.capture != 0) return context.missing("cudaGraphLaunch into a stream that is captured");
    return context.launch(stream, *executable(graph));
  });
}
HEDDLE_CUDART cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t handle) {
  return with_stream(
      handle, [&](ProcessContext&, HostStream&) { return graph == nullptr ? cudaErrorInvalidValue : cudaSuccess; });
}

HEDDLE_CUDART cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* params) {
  return with_device([&](ProcessContext& context) {
    if (node == nullptr || params == nullptr || node_of(node)->work.kind != HostWork::Kind::kernel) {
      return cudaErrorInvalidValue;
    }
    HostWork work;
    const cudaError_t error = work_of(context, *params, work);
    if (error == cudaSuccess) node_of(node)->work = std::move(work);
    return error;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return with_device([&](ProcessContext&) {
    if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
    std::vector<WorkNode*> all;
    for (std::size_t i = 0; i < graph_of(graph)->size(); ++i) all.push_back(&graph_of(graph)->node(i));
    give(all, nodes, count);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return with_device([&](ProcessContext&) {
    if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
    std::vector<WorkNode*> roots;
    for (std::size_t i = 0; i < graph_of(graph)->size(); ++i) {
      if (graph_of(graph)->node(i).after.empty()) roots.push_back(&graph_of(graph)->node(i));
    }
    give(roots, nodes, count);
    return cudaSuccess;
  });
}

HEDDLE_CUDART cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return with_device([&](ProcessContext&) {
    if (node == nullptr || type == nullptr) return cudaErrorInvalidValue;
    switch (node_of(node)->work.kind) {
      case HostWork::Kind::kernel:
        *type = cudaGraphNodeTypeKernel;
        break;
      case HostWork::Kind::copy:
        *type = cudaGraphNodeTypeMemcpy;
        break;
      case HostWork::Kind::fill:
        *type = cudaGraphNodeTypeMemset;
        break;
      case HostWork::Kind::call:
        *type = cudaGraphNodeTypeHost;
        break;
      case HostWork::Kind::empty:
        *type = cudaGraphNodeTypeEmpty;
        break;
    }
    return cudaSuccess;
  });
}

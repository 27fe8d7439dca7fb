// Entry points of the driver that programs ask the runtime for by name: those that encode tensor maps.
#include <cstring>
#include <cuda.h>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "arch/tensor_descriptor.h"
#include "cuda/cudart/api_call.h"

namespace heddle::cuda {
namespace {

std::optional<arch::TensorType> type_of(CUtensorMapDataType type) {
  using arch::TensorType;
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return TensorType::u8;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
      return TensorType::u16;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
      return TensorType::u32;
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
      return TensorType::s32;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return TensorType::u64;
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return TensorType::s64;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return TensorType::f16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return TensorType::f32;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return TensorType::f64;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return TensorType::bf16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
      return TensorType::f32_flush;
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
      return TensorType::tf32;
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return TensorType::tf32_flush;
    default:
      return std::nullopt;
  }
}

std::optional<arch::Swizzle> swizzle_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE:
      return arch::Swizzle::none;
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return arch::Swizzle::bytes32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return arch::Swizzle::bytes64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return arch::Swizzle::bytes128;
    default:
      return std::nullopt;
  }
}

CUresult not_there(const char* what) {
  (void)without_device([what](ProcessContext& context) {
    (void)context.missing(what);
    return cudaSuccess;
  });
  return CUDA_ERROR_NOT_SUPPORTED;
}

// What both kinds of maps have.
struct Common {
  CUtensorMapDataType type;
  cuuint32_t rank;
  void* address;
  const cuuint64_t* size;
  const cuuint64_t* strides;
  const cuuint32_t* steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

CUresult fill_in(const Common& given, arch::TensorDescriptor& tensor) {
  if (given.rank == 0 || given.rank > arch::kTensorRank || given.size == nullptr || given.steps == nullptr ||
      (given.rank > 1 && given.strides == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::optional<arch::TensorType> type = type_of(given.type);
  const std::optional<arch::Swizzle> swizzle = swizzle_of(given.swizzle);
  if (!type) return not_there("a tensor map of packed elements");
  if (!swizzle) return not_there("a tensor map with a swizzle in atoms");
  if (given.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return not_there("a tensor map that is interleaved");
  tensor.type = *type;
  tensor.swizzle = *swizzle;
  tensor.rank = given.rank;
  tensor.address = reinterpret_cast<std::uintptr_t>(given.address);
  tensor.promotion = static_cast<arch::Promotion>(given.promotion);
  tensor.fill = given.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ? arch::Fill::zero : arch::Fill::nan;
  for (std::uint32_t i = 0; i < given.rank; ++i) {
    tensor.size[i] = given.size[i];
    tensor.traversal[i] = i == 0 ? 1 : given.steps[i];
    if (i > 0) tensor.stride[i] = given.strides[i - 1];
  }
  return CUDA_SUCCESS;
}

CUresult finish(const arch::TensorDescriptor& tensor, CUtensorMap* map) {
  const arch::TensorRule rule = arch::check(tensor);
  if (rule != arch::TensorRule::none) {
    ProcessContext::get().say(fmt::format("cuTensorMapEncode: {}", arch::rule_text(rule)));
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto bytes = arch::encode(tensor);
  static_assert(sizeof(CUtensorMap) == arch::kDescriptorBytes);
  std::memcpy(map, bytes.data(), bytes.size());
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace heddle::cuda

using namespace heddle;
using namespace heddle::cuda;

HEDDLE_CUDART CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                              void* address, const cuuint64_t* size, const cuuint64_t* strides,
                                              const cuuint32_t* box, const cuuint32_t* steps,
                                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  heddle::arch::TensorDescriptor tensor;
  if (map == nullptr || box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Common given{type, rank, address, size, strides, steps, interleave, swizzle, promotion, fill};
  if (const CUresult result = fill_in(given, tensor); result != CUDA_SUCCESS) return result;
  for (cuuint32_t i = 0; i < rank; ++i) tensor.box[i] = box[i];
  return finish(tensor, map);
}

HEDDLE_CUDART CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                               void* address, const cuuint64_t* size, const cuuint64_t* strides,
                                               const int* lower, const int* upper, cuuint32_t channels,
                                               cuuint32_t pixels, const cuuint32_t* steps,
                                               CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                               CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  heddle::arch::TensorDescriptor tensor;
  if (map == nullptr || lower == nullptr || upper == nullptr || rank < 3) return CUDA_ERROR_INVALID_VALUE;
  const Common given{type, rank, address, size, strides, steps, interleave, swizzle, promotion, fill};
  if (const CUresult result = fill_in(given, tensor); result != CUDA_SUCCESS) return result;
  tensor.mode = heddle::arch::TensorMode::im2col;
  for (cuuint32_t i = 0; i + 2 < rank; ++i) {
    tensor.base_corner[i] = lower[i];
    tensor.far_corner[i] = upper[i];
  }
  tensor.channels = channels;
  tensor.pixels = pixels;
  return finish(tensor, map);
}

namespace {

cudaError_t entry_point(const char* symbol, void** function, cudaDriverEntryPointQueryResult* result) {
  return without_device([&](ProcessContext& context) {
    if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
    const std::string name = symbol;
    *function = nullptr;
    if (name == "cuTensorMapEncodeTiled") *function = reinterpret_cast<void*>(&cuTensorMapEncodeTiled);
    if (name == "cuTensorMapEncodeIm2col") *function = reinterpret_cast<void*>(&cuTensorMapEncodeIm2col);
    if (result != nullptr) {
      *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
    }
    if (*function == nullptr) (void)context.missing("the driver's " + name);
    return cudaSuccess;
  });
}

}  // namespace

HEDDLE_CUDART cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                                  cudaDriverEntryPointQueryResult* result) {
  return entry_point(symbol, function, result);
}

HEDDLE_CUDART cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                           unsigned long long,
                                                           cudaDriverEntryPointQueryResult* result) {
  return entry_point(symbol, function, result);
}

// SystemC's library wants one; nobody calls it.
HEDDLE_CUDART int sc_main(int, char**) { return 0; }

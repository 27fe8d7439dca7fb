#include "demand/name_work.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <regex>
#include <string>
#include <utility>

#include "demand/kernel_name.h"

namespace heddle::demand {
namespace {

using arch::DemandUnit;

constexpr double kElementsPerThread = 4;  // PyTorch: thread_work_size of kernels for CUDA

bool has(std::string_view kernel, std::string_view part) { return kernel.find(part) != std::string_view::npos; }

// Bytes of the elements that a name speaks of; 0: it does not.
std::uint32_t named_element(std::string_view kernel) {
  constexpr std::array<std::pair<std::string_view, std::uint32_t>, 9> kTypes = {{{"BFloat16", 2},
                                                                                 {"bfloat16", 2},
                                                                                 {"Half", 2},
                                                                                 {"double", 8},
                                                                                 {"long", 8},
                                                                                 {"float", 4},
                                                                                 {"int>", 4},
                                                                                 {"<int", 4},
                                                                                 {"bool", 1}}};
  for (const auto& [type, bytes] : kTypes) {
    if (has(kernel, type)) return bytes;
  }
  return 0;
}

std::optional<NamedWork> elementwise(std::string_view kernel, double ctas, double threads) {
  static const std::regex kTensors(R"((?:vectorized|unrolled)_elementwise_kernel<.*[aA]rray<char\*, (\d)(?:ul)?>)");
  kernel = looked_at(kernel);
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(kernel.begin(), kernel.end(), match, kTensors)) return std::nullopt;
  const std::uint32_t tensors = static_cast<std::uint32_t>(*match[1].first - '0');
  const std::uint32_t bytes = named_element(kernel);
  if (tensors == 0 || bytes == 0) return std::nullopt;
  const double elements = ctas * threads * kElementsPerThread;
  // Tensors of a size and type are taken for the same, as those of operators are.
  const Operand tensor{elements * bytes, elements * bytes, false, static_cast<std::uint64_t>(elements) << 4 | bytes};
  NamedWork named;
  named.work.fp32 = elements;
  named.work.writes = {tensor};
  named.work.reads.assign(tensors - 1, tensor);
  return named;
}

std::optional<NamedWork> product(std::string_view kernel, double ctas) {
  const std::optional<Tile> tile = matmul_tile(kernel);
  if (!tile) return std::nullopt;
  const bool half = has(kernel, "bf16") || has(kernel, "f16") || has(kernel, "fp16") || has(kernel, "half") ||
                    has(kernel, "_BBS_") || has(kernel, "_HHS_") || has(kernel, "_B_BS_") || has(kernel, "nvjet_tst");
  const bool vector = has(kernel, "sgemm") || has(kernel, "scudnn") || has(kernel, "simt");
  MatmulShape shape;
  shape.m = shape.n = std::sqrt(ctas * tile->m * tile->n);
  shape.k = 1;
  shape.element_bytes = half ? 2 : 4;
  NamedWork named;
  named.proportions = true;
  Work& work = named.work;
  work.kind = Kind::matmul;
  work.unit = half ? DemandUnit::tensor_f16 : vector ? DemandUnit::fp32 : DemandUnit::tensor_tf32;
  work.flops = 2 * shape.m * shape.n;
  const double strip = shape.m * shape.element_bytes;
  work.reads = {{strip, strip, true, 0}, {strip, strip, true, 0}};
  work.matmul = shape;
  return named;
}

}  // namespace

std::optional<NamedWork> work_of_name(std::string_view kernel, double ctas, double threads) {
  if (std::optional<NamedWork> named = elementwise(kernel, ctas, threads)) return named;
  return product(kernel, ctas);
}

}  // namespace heddle::demand

#include "demand/operator_work.h"

#include <algorithm>
#include <map>
#include <utility>

#include "demand/kernel_name.h"
#include "demand/operator_arguments.h"

namespace heddle::demand {
namespace {

using arch::DemandUnit;

// The unit that multiplies matrices of such elements. Of f32 the kernel's name tells whether it uses tensor cores.
DemandUnit matmul_unit(double element, std::string_view type, std::string_view kernel) {
  if (element == 8) return DemandUnit::tensor_f64;
  if (element == 1) return DemandUnit::tensor_f8;
  if (element == 2) return DemandUnit::tensor_f16;
  const auto named = [kernel](std::string_view part) { return kernel.find(part) != std::string_view::npos; };
  const bool tensor = type == "float" && (named("tf32") || named("tensorop") || named("s1688"));
  return tensor ? DemandUnit::tensor_tf32 : DemandUnit::fp32;
}

using Reader = std::optional<Work> (*)(const Arguments&, const workload::Operator&, std::string_view kernel);

// C (m x n) = A (m x k) x B (k x n), each perhaps once for each of a batch.
std::optional<Work> product(const Arguments& arguments, const workload::Operator& op, std::string_view kernel,
                            std::size_t first, bool weight, bool transposed) {
  if (!arguments.tensor(first) || !arguments.tensor(first + 1)) return std::nullopt;
  const Extents& a = arguments.extents(first);
  const Extents& b = arguments.extents(first + 1);
  if (a.size() < 2 || b.size() < 2) return std::nullopt;
  MatmulShape shape;
  shape.k = static_cast<double>(a.back());
  shape.n = static_cast<double>(transposed ? b[b.size() - 2] : b.back());
  shape.batch = b.size() > 2 ? static_cast<double>(b.front()) : 1;
  shape.m = count(a) / shape.k / shape.batch;
  if (shape.k <= 0 || shape.n <= 0 || shape.m <= 0) return std::nullopt;
  const double inner = static_cast<double>(transposed ? b.back() : b[b.size() - 2]);
  if (inner != shape.k) return std::nullopt;
  shape.element_bytes = arguments.element(first);
  Work work;
  work.kind = Kind::matmul;
  work.unit = matmul_unit(shape.element_bytes, op.arguments[first].type, kernel);
  work.flops = 2 * shape.batch * shape.m * shape.n * shape.k;
  work.reads = {arguments.read(first), arguments.read(first + 1)};
  work.reads.back().weight = weight;
  Extents result(a.begin(), a.end() - 1);
  result.push_back(static_cast<std::int64_t>(shape.n));
  work.writes = {result_of(result, arguments.element(first))};
  work.matmul = shape;
  return work;
}

std::optional<Work> mm(const Arguments& arguments, const workload::Operator& op, std::string_view kernel) {
  return product(arguments, op, kernel, 0, true, false);
}
std::optional<Work> bmm(const Arguments& arguments, const workload::Operator& op, std::string_view kernel) {
  return product(arguments, op, kernel, 0, false, false);
}
std::optional<Work> linear(const Arguments& arguments, const workload::Operator& op, std::string_view kernel) {
  return product(arguments, op, kernel, 0, true, true);
}
// What is added comes first.
std::optional<Work> added(const Arguments& arguments, const workload::Operator& op, std::string_view kernel,
                          bool weight) {
  std::optional<Work> work = product(arguments, op, kernel, 1, weight, false);
  if (work && arguments.tensor(0) && count(arguments.extents(0)) > 0) {
    work->reads.push_back(arguments.read(0));
    work->reads.back().weight = weight;
  }
  return work;
}
std::optional<Work> addmm(const Arguments& arguments, const workload::Operator& op, std::string_view kernel) {
  return added(arguments, op, kernel, true);
}
std::optional<Work> baddbmm(const Arguments& arguments, const workload::Operator& op, std::string_view kernel) {
  return added(arguments, op, kernel, false);
}

// The whole of a tensor is written in another order.
std::optional<Work> reordered(const Arguments& arguments, std::size_t which) {
  Work work;
  work.kind = Kind::copy;
  work.reads = {arguments.read(which)};
  work.writes = {result_of(arguments.extents(which), arguments.element(which))};
  return work;
}

// A convolution as the product of a matrix of patches (one row for each place of the result) and of the filters.
std::optional<Work> convolved(const Arguments& arguments, const workload::Operator& op, std::string_view kernel,
                              std::size_t input, std::size_t strides, std::size_t padding, std::size_t dilations) {
  const std::size_t filter = input + 1;
  if (!arguments.tensor(input) || !arguments.tensor(filter)) return std::nullopt;
  const Extents& in = arguments.extents(input);
  const Extents& filters = arguments.extents(filter);
  if (in.size() < 3 || filters.size() != in.size() || filters[0] <= 0) return std::nullopt;
  if (changes_layout(kernel)) return reordered(arguments, input);
  const auto along = [](const Extents& all, std::size_t i, std::int64_t otherwise) {
    return all.empty() ? otherwise : i < all.size() ? all[i] : all.back();
  };
  const Extents stride = arguments.numbers(strides);
  const Extents pad = arguments.numbers(padding);
  const Extents dilation = arguments.numbers(dilations);
  if (stride.empty()) return std::nullopt;
  Extents result = {in[0], filters[0]};
  double places = static_cast<double>(in[0]);
  for (std::size_t i = 2; i < in.size(); ++i) {
    const std::int64_t step = std::max<std::int64_t>(1, along(stride, i - 2, 1));
    const std::int64_t reach = along(dilation, i - 2, 1) * (filters[i] - 1) + 1;
    const std::int64_t extent = (in[i] + 2 * along(pad, i - 2, 0) - reach) / step + 1;
    if (extent <= 0) return std::nullopt;
    result.push_back(extent);
    places *= static_cast<double>(extent);
  }
  MatmulShape shape;
  shape.m = places;
  shape.n = static_cast<double>(filters[0]);
  shape.k = count(filters) / shape.n;
  shape.element_bytes = arguments.element(input);
  Work work;
  work.kind = Kind::convolution;
  work.unit = matmul_unit(shape.element_bytes, op.arguments[input].type, kernel);
  work.flops = 2 * shape.m * shape.n * shape.k;
  work.reads = {arguments.read(input), arguments.read(filter)};
  work.reads.back().weight = true;
  work.writes = {result_of(result, arguments.element(input))};
  work.matmul = shape;
  return work;
}
// (input, weight, bias, stride, padding, dilation, …)
std::optional<Work> convolution(const Arguments& arguments, const workload::Operator& op, std::string_view kernel) {
  if (arguments.is_true(6)) return std::nullopt;  // a transposed one is another product
  return convolved(arguments, op, kernel, 0, 3, 4, 5);
}
// (self, weight, padding, stride, dilation, …)
std::optional<Work> cudnn_convolution(const Arguments& arguments, const workload::Operator& op,
                                      std::string_view kernel) {
  return convolved(arguments, op, kernel, 0, 3, 2, 4);
}
// (self, weight, bias, padding, stride, dilation, …)
std::optional<Work> miopen_convolution(const Arguments& arguments, const workload::Operator& op,
                                       std::string_view kernel) {
  return convolved(arguments, op, kernel, 0, 4, 3, 5);
}
// (grad_output, input, weight, bias_sizes, stride, padding, dilation, …): each of its kernels is one product.
std::optional<Work> convolution_backward(const Arguments& arguments, const workload::Operator& op,
                                         std::string_view kernel) {
  return convolved(arguments, op, kernel, 1, 4, 5, 6);
}

// Q x K', a softmax of its rows, and that x V, piece by piece.
std::optional<Work> attended(const Arguments& arguments, std::size_t first, bool heads_first, bool causal,
                             double products) {
  for (std::size_t at = first; at < first + 3; ++at) {
    if (!arguments.tensor(at) || arguments.extents(at).size() != 4) return std::nullopt;
  }
  const Extents& q = arguments.extents(first);
  const Extents& k = arguments.extents(first + 1);
  const std::size_t rows = heads_first ? 2 : 1;
  const std::size_t heads = heads_first ? 1 : 2;
  AttentionShape shape;
  shape.heads = static_cast<double>(q[0]) * static_cast<double>(q[heads]);
  shape.queries = static_cast<double>(q[rows]);
  shape.keys = static_cast<double>(k[rows]);
  shape.head = static_cast<double>(q[3]);
  shape.element_bytes = arguments.element(first);
  if (count(q) <= 0 || count(k) <= 0) return std::nullopt;
  // Of a causal one, what lies behind a query's own place is left out.
  const double scores = shape.heads * shape.queries * shape.keys * (causal ? 0.5 : 1.0);
  Work work;
  work.kind = Kind::attention;
  work.unit = shape.element_bytes == 4 ? DemandUnit::tensor_tf32 : DemandUnit::tensor_f16;
  work.flops = products * 2 * scores * shape.head;
  work.fp32 = 4 * scores;  // maximum, difference, sum, scale
  work.sfu = scores;       // exponentials
  work.reads = {arguments.read(first), arguments.read(first + 1), arguments.read(first + 2)};
  work.writes = {result_of(q, arguments.element(first))};
  work.attention = shape;
  return work;
}
std::optional<Work> flash(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return attended(arguments, 0, false, arguments.is_true(8), 2);
}
std::optional<Work> efficient(const Arguments& arguments, const workload::Operator&, std::string_view) {
  const Extents mask = arguments.numbers(9);
  return attended(arguments, 0, false, !mask.empty() && mask[0] > 0, 2);
}
std::optional<Work> scaled_flash(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return attended(arguments, 0, true, arguments.is_true(4), 2);
}
std::optional<Work> scaled_efficient(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return attended(arguments, 0, true, arguments.is_true(6), 2);
}
// (grad_out, query, key, value, …): scores anew, and four products for three gradients.
std::optional<Work> flash_backward(const Arguments& arguments, const workload::Operator&, std::string_view) {
  std::optional<Work> work = attended(arguments, 1, false, arguments.is_true(12), 5);
  if (!work) return work;
  const std::vector<Operand> read = work->reads;
  work->reads.push_back(arguments.read(0));
  work->writes = read;  // a gradient for each
  return work;
}

// Tensors of equal, or broadcast, extents give one, element by element.
Extents broadcast(const Arguments& arguments, const std::vector<std::size_t>& tensors) {
  Extents result;
  for (const std::size_t at : tensors) {
    const Extents& own = arguments.extents(at);
    if (own.size() > result.size()) result.insert(result.begin(), own.size() - result.size(), 1);
    for (std::size_t back = 1; back <= own.size(); ++back) {
      std::int64_t& wanted = result[result.size() - back];
      wanted = std::max(wanted, own[own.size() - back]);
    }
  }
  return result;
}

// Its type is that of its widest tensor; numbers beside them do not widen it.
std::uint32_t widest(const Arguments& arguments, const std::vector<std::size_t>& tensors) {
  std::uint32_t most = 0;
  for (const std::size_t at : tensors) {
    if (!arguments.extents(at).empty()) most = std::max(most, arguments.element(at));
  }
  return most > 0 ? most : arguments.element(tensors.front());
}

std::optional<Work> mapped(const Arguments& arguments, double fp32, double sfu, std::uint32_t element) {
  const std::vector<std::size_t> tensors = arguments.tensors();
  if (tensors.empty()) return std::nullopt;
  const Extents result = broadcast(arguments, tensors);
  Work work;
  for (const std::size_t at : tensors) work.reads.push_back(arguments.read(at, result));
  work.writes = {result_of(result, element > 0 ? element : widest(arguments, tensors))};
  work.fp32 = fp32 * count(result);
  work.sfu = sfu * count(result);
  return work;
}
std::optional<Work> arithmetic(const Arguments& arguments, const workload::Operator& op, std::string_view) {
  const bool in_place = !op.name.empty() && op.name.back() == '_' && arguments.tensor(0);
  return mapped(arguments, 1, 0, in_place ? arguments.element(0) : 0);
}
std::optional<Work> transcendental(const Arguments& arguments, const workload::Operator& op, std::string_view) {
  const bool in_place = !op.name.empty() && op.name.back() == '_' && arguments.tensor(0);
  return mapped(arguments, 3, 1, in_place ? arguments.element(0) : 0);
}
std::optional<Work> compared(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return mapped(arguments, 1, 0, 1);
}
std::optional<Work> filled(const Arguments& arguments, const workload::Operator&, std::string_view) {
  if (!arguments.tensor(0)) return std::nullopt;
  Work work;
  work.writes = {result_of(arguments.extents(0), arguments.element(0))};
  return work;
}

// (self, source, …)
std::optional<Work> copied(const Arguments& arguments, const workload::Operator&, std::string_view) {
  if (!arguments.tensor(0) || !arguments.tensor(1)) return std::nullopt;
  Work work;
  work.kind = Kind::copy;
  work.reads = {arguments.read(1, arguments.extents(0))};
  work.writes = {result_of(arguments.extents(0), arguments.element(0))};
  return work;
}
// Tensors of a list one behind the other, or one that is copied as it is.
std::optional<Work> joined(const Arguments& all, const workload::Operator&, std::string_view) {
  const Arguments arguments = all.list(0) ? all.elements(0) : all;
  Work work;
  work.kind = Kind::copy;
  double elements = 0;
  std::uint32_t element = 0;
  for (const std::size_t at : arguments.tensors()) {
    work.reads.push_back(arguments.read(at));
    elements += count(arguments.extents(at));
    element = std::max(element, arguments.element(at));
  }
  if (work.reads.empty()) return std::nullopt;
  work.writes = {result_of({static_cast<std::int64_t>(elements)}, element)};
  return work;
}

// (self, extents that are left out, …); no list: all of them.
std::optional<Work> reduced(const Arguments& arguments, const workload::Operator&, std::string_view) {
  if (!arguments.tensor(0) || count(arguments.extents(0)) <= 0) return std::nullopt;
  Extents left = arguments.extents(0);
  Extents over = arguments.numbers(1);
  const auto rank = static_cast<std::int64_t>(left.size());
  if (over.empty()) {
    left = {1};
  } else {
    for (const std::int64_t extent : over) {
      const std::int64_t at = extent < 0 ? extent + rank : extent;
      if (at >= 0 && at < rank) left[static_cast<std::size_t>(at)] = 1;
    }
  }
  Work work;
  work.kind = Kind::reduction;
  work.fp32 = count(arguments.extents(0));
  work.reads = {arguments.read(0)};
  work.writes = {result_of(left, arguments.element(0))};
  return work;
}

// As many results as elements of the first tensor, each from a row or a channel of it.
std::optional<Work> normalised(const Arguments& arguments, double sfu, std::size_t like) {
  if (!arguments.tensor(0)) return std::nullopt;
  const double elements = count(arguments.extents(0));
  if (elements <= 0) return std::nullopt;
  Work work;
  work.kind = Kind::normalisation;
  work.fp32 = 6 * elements;  // sums of elements and squares, difference, scale, weight, bias
  work.sfu = sfu * elements;
  for (std::size_t at = 0; at < like && at < arguments.size(); ++at) {
    if (arguments.tensor(at) && count(arguments.extents(at)) > 0) work.reads.push_back(arguments.read(at));
  }
  work.writes = {result_of(arguments.extents(0), arguments.element(0))};
  return work;
}
std::optional<Work> normalisation(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return normalised(arguments, 0, 4);
}
std::optional<Work> softmax(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return normalised(arguments, 1, 1);
}
// (grad, output or input, …)
std::optional<Work> normalisation_backward(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return normalised(arguments, 0, 2);
}

// Rows of a table: (table, …, places, …)
std::optional<Work> looked_up(const Arguments& arguments, std::size_t places) {
  if (!arguments.tensor(0) || !arguments.tensor(places) || arguments.extents(0).empty()) return std::nullopt;
  Extents result = arguments.extents(places);
  result.push_back(arguments.extents(0).size() > 1 ? arguments.extents(0).back() : 1);
  Work work;
  work.kind = Kind::embedding;
  Operand rows = result_of(result, arguments.element(0));
  rows.weight = true;
  work.writes = {result_of(result, arguments.element(0))};
  work.reads = {rows, arguments.read(places)};
  return work;
}
std::optional<Work> embedding(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return looked_up(arguments, 1);
}
std::optional<Work> index_select(const Arguments& arguments, const workload::Operator&, std::string_view) {
  return looked_up(arguments, 2);
}

const std::map<std::string_view, Reader>& readers() {
  static const std::map<std::string_view, Reader> kReaders = {
      {"mm", mm},
      {"bmm", bmm},
      {"addmm", addmm},
      {"_addmm_activation", addmm},
      {"addmm_", addmm},
      {"baddbmm", baddbmm},
      {"linear", linear},
      {"convolution", convolution},
      {"_convolution", convolution},
      {"convolution_overrideable", convolution},
      {"cudnn_convolution", cudnn_convolution},
      {"miopen_convolution", miopen_convolution},
      {"convolution_backward", convolution_backward},
      {"_flash_attention_forward", flash},
      {"_efficient_attention_forward", efficient},
      {"_scaled_dot_product_flash_attention", scaled_flash},
      {"_scaled_dot_product_efficient_attention", scaled_efficient},
      {"_flash_attention_backward", flash_backward},
      {"copy_", copied},
      {"cat", joined},
      {"clone", joined},
      {"contiguous", joined},
      {"stack", joined},
      {"fill_", filled},
      {"zero_", filled},
      {"sum", reduced},
      {"mean", reduced},
      {"all", reduced},
      {"any", reduced},
      {"max", reduced},
      {"min", reduced},
      {"amax", reduced},
      {"amin", reduced},
      {"argmax", reduced},
      {"argmin", reduced},
      {"prod", reduced},
      {"var", reduced},
      {"std", reduced},
      {"native_layer_norm", normalisation},
      {"native_group_norm", normalisation},
      {"native_batch_norm", normalisation},
      {"cudnn_batch_norm", normalisation},
      {"miopen_batch_norm", normalisation},
      {"_softmax", softmax},
      {"_log_softmax", softmax},
      {"native_layer_norm_backward", normalisation_backward},
      {"native_group_norm_backward", normalisation_backward},
      {"native_batch_norm_backward", normalisation_backward},
      {"cudnn_batch_norm_backward", normalisation_backward},
      {"miopen_batch_norm_backward", normalisation_backward},
      {"_softmax_backward_data", normalisation_backward},
      {"_log_softmax_backward_data", normalisation_backward},
      {"embedding", embedding},
      {"index_select", index_select},
      {"eq", compared},
      {"ne", compared},
      {"lt", compared},
      {"le", compared},
      {"gt", compared},
      {"ge", compared},
      {"add", arithmetic},
      {"sub", arithmetic},
      {"rsub", arithmetic},
      {"mul", arithmetic},
      {"div", arithmetic},
      {"neg", arithmetic},
      {"abs", arithmetic},
      {"pow", arithmetic},
      {"square", arithmetic},
      {"clamp", arithmetic},
      {"clamp_min", arithmetic},
      {"clamp_max", arithmetic},
      {"where", arithmetic},
      {"masked_fill", arithmetic},
      {"relu", arithmetic},
      {"threshold_backward", arithmetic},
      {"maximum", arithmetic},
      {"minimum", arithmetic},
      {"addcmul", arithmetic},
      {"addcdiv", arithmetic},
      {"lerp", arithmetic},
      {"bitwise_and", arithmetic},
      {"bitwise_or", arithmetic},
      {"bitwise_not", arithmetic},
      {"logical_and", arithmetic},
      {"logical_or", arithmetic},
      {"logical_not", arithmetic},
      {"floor", arithmetic},
      {"ceil", arithmetic},
      {"round", arithmetic},
      {"tril", arithmetic},
      {"triu", arithmetic},
      {"cumsum", arithmetic},
      {"exp", transcendental},
      {"log", transcendental},
      {"sin", transcendental},
      {"cos", transcendental},
      {"tanh", transcendental},
      {"sigmoid", transcendental},
      {"silu", transcendental},
      {"gelu", transcendental},
      {"rsqrt", transcendental},
      {"sqrt", transcendental},
      {"reciprocal", transcendental},
  };
  return kReaders;
}

// Of other operators a kernel that PyTorch calls so says that it works element by element.
bool elementwise(std::string_view kernel) { return kernel.find("elementwise_kernel") != std::string_view::npos; }

}  // namespace

const char* kind_name(Kind kind) {
  static constexpr const char* kNames[kKinds] = {"matrix multiply", "convolution",   "attention", "element-wise",
                                                 "reduction",       "normalisation", "embedding", "copy"};
  return kNames[static_cast<std::size_t>(kind)];
}

double Work::bytes() const {
  double all = 0;
  for (const Operand& operand : reads) all += operand.bytes;
  for (const Operand& operand : writes) all += operand.bytes;
  return all;
}

std::optional<Work> work_of(const workload::Operator& op, std::string_view kernel) {
  constexpr std::string_view kLibrary = "aten::";
  std::string_view name = op.name;
  if (name.substr(0, kLibrary.size()) != kLibrary) return std::nullopt;
  name.remove_prefix(kLibrary.size());
  const Arguments arguments(op.arguments);
  const auto found = readers().find(name);
  if (found != readers().end()) return found->second(arguments, op, kernel);
  // One that works in place is called as the other one, and an underscore.
  if (!name.empty() && name.back() == '_') {
    const auto in_place = readers().find(name.substr(0, name.size() - 1));
    if (in_place != readers().end()) return in_place->second(arguments, op, kernel);
  }
  return elementwise(kernel) ? arithmetic(arguments, op, kernel) : std::nullopt;
}

}  // namespace heddle::demand

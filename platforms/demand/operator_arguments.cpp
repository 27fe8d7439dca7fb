#include "demand/operator_arguments.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

namespace heddle::demand {
namespace {

constexpr double kSectorBytes = 32;  // that an access to memory moves at least

// Recordings that are damaged tell shapes which nothing can compute with.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 40;
constexpr double kMostElements = 1e15;
constexpr long long kMostNumber = 1 << 20;  // of paddings, strides, places of an extent

std::uint64_t shape_of(const Extents& extents, std::uint32_t element) {
  // FNV-1a over what tells tensors apart; extents of 1 do not, as views add and drop them.
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;
  const auto mix = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100'0000'01B3; };
  mix(element);
  double all = 1;
  for (const std::int64_t extent : extents) all *= static_cast<double>(extent);
  mix(static_cast<std::uint64_t>(all));
  return hash;
}

// An extent with stride 0 is expanded: the same elements again.
double distinct_elements(const workload::OperatorArgument& tensor) {
  double all = 1;
  for (std::size_t i = 0; i < tensor.extents.size(); ++i) {
    const bool expanded = i < tensor.strides.size() && tensor.strides[i] == 0;
    if (!expanded) all *= static_cast<double>(std::max<std::int64_t>(0, tensor.extents[i]));
  }
  return all;
}

// Elements that lie one behind the other.
double run_of(const workload::OperatorArgument& tensor) {
  if (tensor.strides.size() != tensor.extents.size()) return distinct_elements(tensor);
  std::vector<std::pair<std::int64_t, std::int64_t>> order;  // stride, extent
  for (std::size_t i = 0; i < tensor.extents.size(); ++i) {
    if (tensor.strides[i] > 0 && tensor.extents[i] > 1) order.emplace_back(tensor.strides[i], tensor.extents[i]);
  }
  std::sort(order.begin(), order.end());
  std::int64_t run = 1;
  for (const auto& [stride, extent] : order) {
    if (stride != run) break;
    run *= extent;
  }
  return static_cast<double>(run);
}

}  // namespace

double count(const Extents& extents) {
  double all = 1;
  for (const std::int64_t extent : extents) all *= static_cast<double>(std::max<std::int64_t>(0, extent));
  return all;
}

std::uint32_t element_bytes(std::string_view type) {
  static const std::map<std::string_view, std::uint32_t> kTypes = {
      {"c10::BFloat16", 2},
      {"c10::Half", 2},
      {"float", 4},
      {"double", 8},
      {"long int", 8},
      {"long", 8},
      {"int", 4},
      {"short int", 2},
      {"short", 2},
      {"signed char", 1},
      {"unsigned char", 1},
      {"char", 1},
      {"bool", 1},
      {"c10::Float8_e4m3fn", 1},
      {"c10::Float8_e5m2", 1},
      {"c10::complex<float>", 8},
  };
  const auto found = kTypes.find(type);
  return found == kTypes.end() ? 0 : found->second;
}

bool Arguments::tensor(std::size_t at) const {
  if (at >= size() || element(at) == 0) return false;
  const Extents& its = extents(at);
  const bool sane = std::all_of(its.begin(), its.end(), [](std::int64_t extent) { return extent <= kMostExtent; });
  return sane && count(its) <= kMostElements;
}

Extents Arguments::numbers(std::size_t at) const {
  Extents read;
  if (at >= size()) return read;
  const char* text = arguments_[at].value.c_str();
  while (*text != '\0') {
    char* end = nullptr;
    const long long number = std::strtoll(text, &end, 10);
    if (end == text) {
      ++text;
      continue;
    }
    if (number < -kMostNumber || number > kMostNumber) return {};
    read.push_back(number);
    text = end;
  }
  return read;
}

std::vector<std::size_t> Arguments::tensors() const {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < size(); ++at) {
    if (tensor(at) && count(extents(at)) > 0) found.push_back(at);
  }
  return found;
}

Operand Arguments::read(std::size_t at, const Extents& result) const {
  const workload::OperatorArgument& tensor = arguments_[at];
  const double element = element_bytes(tensor.type);
  Operand read;
  const double distinct = distinct_elements(tensor);
  // Pieces that are shorter than a sector bring what lies beside them along.
  const double run = run_of(tensor) * element;
  const double waste = run < kSectorBytes && run < distinct * element ? kSectorBytes / run : 1;
  read.bytes = distinct * element * waste;
  // Along trailing extents of 1 a thread block keeps what it has read; along the others each result reads anew.
  double repeated = 1;
  bool trailing = true;
  for (std::size_t back = 1; back <= result.size(); ++back) {
    const std::int64_t own = back <= tensor.extents.size() ? tensor.extents[tensor.extents.size() - back] : 1;
    const std::size_t place = tensor.strides.size() - back;
    const bool expanded = back <= tensor.strides.size() && tensor.strides[place] == 0;
    const std::int64_t wanted = result[result.size() - back];
    if ((own == 1 || expanded) && wanted > 1) {
      if (!trailing) repeated *= static_cast<double>(wanted);
    } else if (own > 1) {
      trailing = false;
    }
  }
  read.fetched = read.bytes * repeated;
  read.shape = shape_of(tensor.extents, static_cast<std::uint32_t>(element));
  return read;
}

Operand result_of(const Extents& extents, std::uint32_t element_bytes) {
  const double bytes = count(extents) * element_bytes;
  return {bytes, bytes, false, shape_of(extents, element_bytes)};
}

}  // namespace heddle::demand

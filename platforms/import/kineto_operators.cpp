#include "import/kineto_operators.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace heddle::import {

using namespace workload;
namespace {

using Json = nlohmann::json;

constexpr char kBetween = '\0';

std::vector<std::int64_t> integers(const Json& list) {
  std::vector<std::int64_t> result;
  for (const Json& number : list) result.push_back(number.get<std::int64_t>());
  return result;
}

// Dims, types, strides and values are lists of the same length; entry i of each is about argument i. Of a list of
// tensors, those of dims and strides are lists once more.
struct Lists {
  Json dims, types, strides, values;
};

const Json& entry(const Json& list, std::size_t i) {
  static const Json kNothing;
  return list.is_array() && i < list.size() ? list[i] : kNothing;
}

bool is_list_of_lists(const Json& json) { return json.is_array() && !json.empty() && json[0].is_array(); }

OperatorArgument argument(const Lists& lists, std::size_t i) {
  OperatorArgument result;
  const Json& type = entry(lists.types, i);
  const Json& dims = entry(lists.dims, i);
  const Json& strides = entry(lists.strides, i);
  const Json& value = entry(lists.values, i);
  if (type.is_string()) result.type = type.get<std::string>();
  if (value.is_string()) result.value = value.get<std::string>();
  if (!is_list_of_lists(dims)) {
    if (dims.is_array()) result.extents = integers(dims);
    if (strides.is_array()) result.strides = integers(strides);
    return result;
  }
  for (std::size_t k = 0; k < dims.size(); ++k) {
    OperatorArgument element;
    element.extents = integers(dims[k]);
    if (entry(strides, k).is_array()) element.strides = integers(strides[k]);
    if (entry(type, k).is_string()) element.type = type[k].get<std::string>();
    result.elements.push_back(std::move(element));
  }
  return result;
}

}  // namespace

std::uint32_t KinetoOperators::thread(const JsonValue& pid, const JsonValue& tid) {
  text_.clear();
  for (const JsonValue* value : {&pid, &tid}) {
    text_ += value->kind == JsonValue::Kind::integer ? std::to_string(value->integer) : value->text;
    text_ += '/';
  }
  return threads_.emplace(text_, static_cast<std::uint32_t>(threads_.size())).first->second;
}

void KinetoOperators::add(const KinetoEvent& event, std::uint32_t thread, std::uint64_t external, Nanoseconds begin,
                          Nanoseconds duration) {
  text_ = event.name.text;
  for (const std::string& list : event.arguments.lists) (text_ += kBetween) += list;
  const auto [at, added] = what_ids_.emplace(text_, static_cast<std::uint32_t>(whats_.size()));
  if (added) whats_.push_back({&at->first, event.position, event.index});
  operators_.push_back({external, begin, begin + duration, thread, at->second, kNone});
}

// Those that begin and end at the same time are in the order of their numbers: the outer one was begun first.
void KinetoOperators::finish() {
  std::sort(operators_.begin(), operators_.end(), [](const Recorded& a, const Recorded& b) {
    return std::tie(a.thread, a.begin, b.end, a.external) < std::tie(b.thread, b.begin, a.end, b.external);
  });
  std::vector<Index> open;
  for (Index i = 0; i < operators_.size(); ++i) {
    Recorded& op = operators_[i];
    const auto is_over = [&](Index other) {
      return operators_[other].thread != op.thread || operators_[other].end < op.end;
    };
    while (!open.empty() && is_over(open.back())) open.pop_back();
    if (!open.empty()) op.caller = open.back();
    open.push_back(i);
    if (op.external != 0) by_external_.emplace_back(op.external, i);
  }
  std::sort(by_external_.begin(), by_external_.end());
}

std::optional<KinetoOperators::Index> KinetoOperators::numbered(std::uint64_t external) const {
  const auto found = std::lower_bound(by_external_.begin(), by_external_.end(), std::make_pair(external, Index{0}));
  return found != by_external_.end() && found->first == external ? std::optional(found->second) : std::nullopt;
}

std::optional<KinetoOperators::Index> KinetoOperators::running(std::uint32_t thread, Nanoseconds when) const {
  const auto behind = std::upper_bound(operators_.begin(), operators_.end(), std::make_pair(thread, when),
                                       [](const std::pair<std::uint32_t, Nanoseconds>& wanted, const Recorded& op) {
                                         return wanted < std::make_pair(op.thread, op.begin);
                                       });
  if (behind == operators_.begin()) return std::nullopt;
  Index at = static_cast<Index>(behind - operators_.begin()) - 1;
  if (operators_[at].thread != thread) return std::nullopt;
  while (at != kNone && operators_[at].end < when) at = operators_[at].caller;
  return at == kNone ? std::nullopt : std::optional(at);
}

Operator KinetoOperators::described(const What& what, const ByteSource& source) const {
  std::array<std::string_view, 5> parts;  // the name, and the four lists
  std::string_view rest = *what.text;
  for (std::string_view& part : parts) {
    part = rest.substr(0, rest.find(kBetween));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  }
  Operator result;
  result.name = parts[0];
  try {
    const auto list = [&parts](std::size_t i) { return parts[i].empty() ? Json() : Json::parse(parts[i]); };
    const Lists lists{list(1), list(2), list(3), list(4)};
    const std::size_t count =
        std::max({lists.dims.size(), lists.types.size(), lists.strides.size(), lists.values.size()});
    for (std::size_t i = 0; i < count; ++i) result.arguments.push_back(argument(lists, i));
  } catch (const Json::exception&) {
    throw InputError(
        {source.name()},
        fmt::format("{}: event {} (\"{}\"): \"Input Dims\" and \"Input Strides\" are not lists of integers",
                    source.position_text(what.position), what.event, printable(result.name, 60)),
        "Record the trace again, or remove the arguments of the event from the file.");
  }
  return result;
}

void KinetoOperators::infer(Workload& workload, std::vector<std::optional<Index>>& launched_by) const {
  const auto dims = [](const arch::Dim3& dim) { return std::array<std::uint32_t, 3>{dim.x, dim.y, dim.z}; };
  using Signature = std::tuple<std::string_view, std::array<std::uint32_t, 3>, std::array<std::uint32_t, 3>>;
  const auto named = [](const Op& op) { return Signature{op.kernel.name, {}, {}}; };
  const auto shaped = [&dims](const Op& op) {
    return Signature{op.kernel.name, dims(op.kernel.grid), dims(op.kernel.block)};
  };
  std::map<Signature, std::optional<Index>> known;  // without: its launches disagree
  const auto learn = [&](const Signature& signature, Index op) {
    const auto [at, added] = known.emplace(signature, op);
    if (!added && at->second && operators_[*at->second].what != operators_[op].what) at->second.reset();
  };
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.kind != OpKind::kernel || !launched_by[i]) continue;
    learn(named(op), *launched_by[i]);
    if (!op.grid_assumed) learn(shaped(op), *launched_by[i]);
  }
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    Op& op = workload.ops[i];
    if (op.kind != OpKind::kernel || launched_by[i] || op.enqueue) continue;
    const auto found = known.find(op.grid_assumed ? named(op) : shaped(op));
    if (found == known.end() || !found->second) continue;
    launched_by[i] = found->second;
    op.op_inferred = true;
  }
}

void KinetoOperators::fill(Workload& workload, const std::vector<std::optional<Index>>& launched_by,
                           const ByteSource& source) const {
  if (operators_.empty()) return;
  std::vector<std::optional<Index>> all = launched_by;
  infer(workload, all);
  std::vector<Index> kept;
  for (const std::optional<Index>& op : all) {
    for (Index i = op.value_or(kNone); i != kNone; i = operators_[i].caller) kept.push_back(i);
  }
  // In the order in which they began; a caller before what it calls, as it lies before it already.
  std::sort(kept.begin(), kept.end(), [this](Index a, Index b) {
    return std::make_tuple(operators_[a].begin, a) < std::make_tuple(operators_[b].begin, b);
  });
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  std::unordered_map<Index, std::size_t> place;  // looked up only
  workload.operators.reserve(kept.size());
  for (const Index i : kept) {
    Operator op = described(whats_[operators_[i].what], source);
    if (operators_[i].caller != kNone) op.caller = place.at(operators_[i].caller);
    place.emplace(i, workload.operators.size());
    workload.operators.push_back(std::move(op));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]) workload.ops[i].op_of = place.at(*all[i]);
  }
}

}  // namespace heddle::import

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"
#include "program/step_table.h"
#include "scenario/scenario.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

using arch::Interleave;
using arch::kTensorRank;
using arch::TensorDescriptor;
using arch::TensorMode;
using arch::TensorRule;

constexpr std::size_t kMostExtents = 15;  // more than a tensor can have, so that a broken one can say so

// For a file that breaks the rule: the key that is to blame, if the file has it, and what to do.
struct Advice {
  const char* key;
  const char* remedy;
};
Advice advice_on(TensorRule rule) {
  switch (rule) {
    case TensorRule::rank:
    case TensorRule::rank_layout:
      return {"size", "give `size` as many entries as the tensor has dimensions"};
    case TensorRule::address:
      return {"offset", "choose another `offset`, or give the region an `align`"};
    case TensorRule::extent:
      return {"size", "every dimension has at least one element"};
    case TensorRule::stride_alignment:
    case TensorRule::stride_range:
      return {"stride", "give `stride`, in bytes: rows may be followed by gaps"};
    case TensorRule::packed:
      return {"type", "choose another `type`, `size` or `box`"};
    case TensorRule::wide:
      return {"swizzle", "choose 64, 128 or 128_atom_32"};
    case TensorRule::box:
    case TensorRule::inner_bytes:
      return {"box", "choose another `box`; im2col: other `channels` and `pixels`"};
    case TensorRule::inner_swizzle:
      return {"swizzle", "choose a wider `swizzle`, or a narrower box"};
    case TensorRule::traversal:
      return {"traversal", "distances are 1 to 8"};
    case TensorRule::nan_fill:
      return {"fill", "use zero"};
    case TensorRule::interleave_swizzle:
      return {"interleave", "`interleave: 32` has `swizzle: 32`, and none has 96"};
    case TensorRule::corner:
      return {"im2col", "corners have 16, 8, 5 bits in tensors of 3, 4, 5 dimensions"};
    default:
      return {"size", "make it smaller, or the region larger"};
  }
}

const MemoryRegion& region_of(const MapReader& map, const std::vector<MemoryRegion>& regions, std::size_t count) {
  const std::string name = map.name("memory");
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    if (regions[i].name == name) return regions[i];
    names.push_back(regions[i].name);
  }
  throw InputError(map.where("memory"), fmt::format("{}: there is no memory {}", map.thing(), name),
                   names.empty() ? "describe it in the list `memory`" : suggestion(name, names));
}

template <class T>
T read_word(const MapReader& map, const char* key, const std::vector<std::pair<const char*, T>>& words) {
  if (!map.has(key)) return words.front().second;
  using Word = std::pair<const char*, T>;
  return choose(map, key, words, [](const Word& word) { return word.first; }).second;
}

// Entries of a list, one for each dimension from `first` on, into the array; without the key it stays as it is.
template <class T>
void read_list(const MapReader& map, const char* key, std::size_t count, T* to) {
  if (!map.has(key)) return;
  const std::vector<YAML::Node> items = map.items(key);
  if (items.size() != count) {
    map.fail(key,
             fmt::format("{} {} expected, found {}", count, count == 1 ? "number is" : "numbers are", items.size()));
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(count, kTensorRank); ++i) to[i] = map.number<T>(key, items[i], {});
}

void read_size(const MapReader& map, TensorDescriptor& tensor) {
  const std::vector<YAML::Node> items = map.items("size");
  if (items.size() > kMostExtents) map.fail("size", fmt::format("more than {} numbers", kMostExtents));
  tensor.rank = static_cast<std::uint32_t>(items.size());
  read_list(map, "size", items.size(), tensor.size.data());
}

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t result = 0;
  // Beyond what any stride may be.
  return __builtin_mul_overflow(a, b, &result) ? std::uint64_t{1} << 63 : result;
}

// Without gaps: interleaved, W, H and D lie inside the channel slices (TMA-14).
void pack(TensorDescriptor& tensor) {
  const std::uint32_t rank = std::min(tensor.rank, kTensorRank);
  std::uint64_t bytes = tensor.step_bytes();
  const auto next = [&](std::uint32_t dimension) {
    tensor.stride[dimension] = bytes;
    bytes = product(bytes, tensor.size[dimension]);
  };
  const bool sliced = tensor.interleave != Interleave::none && rank >= 2;
  if (!sliced) bytes = tensor.stride[0] = tensor.row_bytes(tensor.size[0]);
  for (std::uint32_t i = 1; i + (sliced ? 1 : 0) < rank; ++i) next(i);
  if (sliced) {
    next(0);
    next(rank - 1);
  }
  if (tensor.interleave == Interleave::none) tensor.stride[0] = 0;
}

void read_strides(const MapReader& map, TensorDescriptor& tensor) {
  const std::size_t first = tensor.interleave == Interleave::none ? 1 : 0;
  pack(tensor);
  if (tensor.rank >= first) read_list(map, "stride", tensor.rank - first, tensor.stride.data() + first);
}

void read_im2col(const MapReader& entry, const std::string& file, TensorDescriptor& tensor) {
  const MapReader map(entry.node("im2col"), im2col_spec(), entry.thing() + ", im2col", file);
  if (entry.has("box")) entry.fail("box", "im2col has `channels` and `pixels` in its place");
  tensor.mode = read_word<TensorMode>(
      map, "along_w", {{"no", TensorMode::im2col}, {"pixels", TensorMode::im2col_w}, {"128", TensorMode::im2col_w128}});
  const std::size_t corners = tensor.rank < 3 ? 0 : arch::is_wide(tensor.mode) ? 1 : tensor.rank - 2;
  std::array<std::int32_t, kTensorRank> base{};
  std::array<std::int32_t, kTensorRank> far{};
  if (corners != 0) {
    read_list(map, "base_corner", corners, base.data());
    read_list(map, "far_corner", corners, far.data());
  }
  std::copy_n(base.begin(), tensor.base_corner.size(), tensor.base_corner.begin());
  std::copy_n(far.begin(), tensor.far_corner.size(), tensor.far_corner.begin());
  tensor.channels = map.number<std::uint32_t>("channels", {Unit::count});
  tensor.pixels = map.number<std::uint32_t>("pixels", {Unit::count});
}

void read_box(const MapReader& map, const std::string& file, TensorDescriptor& tensor) {
  if (map.has("im2col")) {
    read_im2col(map, file, tensor);
  } else if (map.has("box")) {
    read_list(map, "box", tensor.rank, tensor.box.data());
  } else {
    throw InputError(map.where(), fmt::format("{}: neither `box` nor `im2col` says what a request moves", map.thing()),
                     "as in: box: [64, 128]");
  }
  read_list(map, "traversal", tensor.rank, tensor.traversal.data());
}

arch::TensorType read_type(const MapReader& map) {
  std::vector<arch::TensorType> types;
  for (std::size_t i = 0; i < arch::kTensorTypes; ++i) types.push_back(static_cast<arch::TensorType>(i));
  return choose(map, "type", types, arch::type_name);
}

[[noreturn]] void refuse(const MapReader& map, TensorRule rule, const std::string& what) {
  const Advice advice = advice_on(rule);
  throw InputError(map.has(advice.key) ? map.where(advice.key) : map.where(),
                   fmt::format("{}: {} (rule {})", map.thing(), what, arch::rule_key(rule)),
                   fmt::format("{}; `broken: true` lets it pass, to test what the machine says", advice.remedy));
}

void check_rules(const MapReader& map, const TensorDescriptor& tensor) {
  const TensorRule rule = arch::check(tensor);
  if (!map.has("broken") || !map.flag("broken")) {
    if (rule != TensorRule::none) refuse(map, rule, arch::rule_text(rule));
    return;
  }
  if (rule == TensorRule::none) {
    throw InputError(map.where("broken"), fmt::format("{}, broken: it breaks no rule", map.thing()), "leave it out");
  }
  TensorDescriptor stored;
  if (arch::decode(arch::encode(tensor).data(), stored) == TensorRule::none && arch::check(stored) != rule) {
    throw InputError(map.where("broken"),
                     fmt::format("{}, broken: the rule {} cannot be broken so: 128 bytes do not hold such numbers",
                                 map.thing(), arch::rule_key(rule)),
                     "use numbers that are just out of range");
  }
}

}  // namespace

MemoryRegion tensor_region(const MapReader& map, const std::vector<MemoryRegion>& regions, std::size_t count) {
  MemoryRegion region;
  region.name = map.name("name");
  region.gpu = region_of(map, regions, count).gpu;
  region.subcontext = region_of(map, regions, count).subcontext;
  region.instance = region_of(map, regions, count).instance;
  region.bytes = arch::kDescriptorBytes;
  region.contents.kind = RegionContents::Kind::tensor;
  region.contents.where = map.where();
  region.where = map.where();
  return region;
}

arch::TensorDescriptor read_tensor(const MapReader& map, const std::string& file,
                                   const std::vector<MemoryRegion>& regions, std::size_t count) {
  const MemoryRegion& region = region_of(map, regions, count);
  const std::uint64_t offset =
      map.has("offset") ? map.number<std::uint64_t>("offset", {Unit::bytes, 0, region.bytes - 1}) : 0;
  TensorDescriptor tensor;
  tensor.address = region.address + offset;
  tensor.type = read_type(map);
  tensor.interleave = read_word<Interleave>(
      map, "interleave", {{"none", Interleave::none}, {"16", Interleave::bytes16}, {"32", Interleave::bytes32}});
  tensor.swizzle = read_swizzle(map, "swizzle");
  using arch::Promotion;
  tensor.promotion = read_word<Promotion>(map, "promotion",
                                          {{"none", Promotion::none},
                                           {"64", Promotion::bytes64},
                                           {"128", Promotion::bytes128},
                                           {"256", Promotion::bytes256}});
  tensor.fill = read_word<arch::Fill>(map, "fill", {{"zero", arch::Fill::zero}, {"nan", arch::Fill::nan}});
  read_size(map, tensor);
  read_strides(map, tensor);
  read_box(map, file, tensor);
  check_rules(map, tensor);
  return tensor;
}

}  // namespace heddle::scenario

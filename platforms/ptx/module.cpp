// What a module's records say of themselves.
#include "ptx/module.h"

#include <algorithm>
#include <iterator>

namespace heddle::ptx {

namespace {

struct TypeRow {
  const char* name;
  std::uint32_t bytes;
  Type type;
};

constexpr TypeRow kTypes[] = {
    {"none", 0, Type::none},     {"pred", 1, Type::pred},       {"b8", 1, Type::b8},
    {"b16", 2, Type::b16},       {"b32", 4, Type::b32},         {"b64", 8, Type::b64},
    {"b128", 16, Type::b128},    {"u8", 1, Type::u8},           {"u16", 2, Type::u16},
    {"u32", 4, Type::u32},       {"u64", 8, Type::u64},         {"s8", 1, Type::s8},
    {"s16", 2, Type::s16},       {"s32", 4, Type::s32},         {"s64", 8, Type::s64},
    {"f16", 2, Type::f16},       {"f16x2", 4, Type::f16x2},     {"bf16", 2, Type::bf16},
    {"bf16x2", 4, Type::bf16x2}, {"tf32", 4, Type::tf32},       {"f32", 4, Type::f32},
    {"f32x2", 8, Type::f32x2},   {"f64", 8, Type::f64},         {"u16x2", 4, Type::u16x2},
    {"s16x2", 4, Type::s16x2},   {"u8x4", 4, Type::u8x4},       {"s8x4", 4, Type::s8x4},
    {"e4m3", 1, Type::e4m3},     {"e5m2", 1, Type::e5m2},       {"e4m3x2", 2, Type::e4m3x2},
    {"e5m2x2", 2, Type::e5m2x2}, {"e2m1x2", 1, Type::e2m1x2},   {"e2m3x2", 2, Type::e2m3x2},
    {"e3m2x2", 2, Type::e3m2x2}, {"ue8m0x2", 2, Type::ue8m0x2}, {"s4", 1, Type::s4},
    {"u4", 1, Type::u4},         {"b1", 1, Type::b1},
};

const TypeRow& type_row(Type type) {
  // In the order of the enumeration: a row per type.
  return kTypes[static_cast<std::size_t>(type)];
}

}  // namespace

const char* type_name(Type type) { return type_row(type).name; }

std::uint32_t bytes_of(Type type) { return type_row(type).bytes; }

std::optional<Type> find_type(const std::string& name) {
  const auto* found = std::find_if(std::next(std::begin(kTypes)), std::end(kTypes),
                                   [&name](const TypeRow& row) { return name == row.name; });
  if (found == std::end(kTypes)) return std::nullopt;
  return found->type;
}

std::uint64_t Variable::bytes() const {
  std::uint64_t total = std::uint64_t{bytes_of(type)} * vector;
  for (const std::uint64_t extent : extents) total *= extent;  // the reader has refused what does not fit
  return total;
}

std::uint32_t Variable::alignment() const { return align != 0 ? align : std::max(1U, bytes_of(type) * vector); }

const Function* Module::find_function(const std::string& wanted) const {
  for (const Function& candidate : functions) {
    if (candidate.name == wanted) return &candidate;
  }
  return nullptr;
}

const Variable* Module::find_variable(const std::string& wanted) const {
  for (const Variable& candidate : variables) {
    if (candidate.name == wanted) return &candidate;
  }
  return nullptr;
}

}  // namespace heddle::ptx

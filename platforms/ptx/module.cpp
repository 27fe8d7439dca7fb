// What a module's records say of themselves.
#include "ptx/module.h"

#include <algorithm>
#include <iterator>

namespace heddle::ptx {

namespace {

struct TypeRow {
  Type type;
  const char* name;
  std::uint32_t bytes;
};

constexpr TypeRow kTypes[] = {
    {Type::none, "none", 0},     {Type::pred, "pred", 1},       {Type::b8, "b8", 1},
    {Type::b16, "b16", 2},       {Type::b32, "b32", 4},         {Type::b64, "b64", 8},
    {Type::b128, "b128", 16},    {Type::u8, "u8", 1},           {Type::u16, "u16", 2},
    {Type::u32, "u32", 4},       {Type::u64, "u64", 8},         {Type::s8, "s8", 1},
    {Type::s16, "s16", 2},       {Type::s32, "s32", 4},         {Type::s64, "s64", 8},
    {Type::f16, "f16", 2},       {Type::f16x2, "f16x2", 4},     {Type::bf16, "bf16", 2},
    {Type::bf16x2, "bf16x2", 4}, {Type::tf32, "tf32", 4},       {Type::f32, "f32", 4},
    {Type::f32x2, "f32x2", 8},   {Type::f64, "f64", 8},         {Type::u16x2, "u16x2", 4},
    {Type::s16x2, "s16x2", 4},   {Type::u8x4, "u8x4", 4},       {Type::s8x4, "s8x4", 4},
    {Type::e4m3, "e4m3", 1},     {Type::e5m2, "e5m2", 1},       {Type::e4m3x2, "e4m3x2", 2},
    {Type::e5m2x2, "e5m2x2", 2}, {Type::e2m1x2, "e2m1x2", 1},   {Type::e2m3x2, "e2m3x2", 2},
    {Type::e3m2x2, "e3m2x2", 2}, {Type::ue8m0x2, "ue8m0x2", 2}, {Type::s4, "s4", 1},
    {Type::u4, "u4", 1},         {Type::b1, "b1", 1},
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

const Function* Module::find_function(const std::string& function) const {
  for (const Function& candidate : functions) {
    if (candidate.name == function) return &candidate;
  }
  return nullptr;
}

const Variable* Module::find_variable(const std::string& variable) const {
  for (const Variable& candidate : variables) {
    if (candidate.name == variable) return &candidate;
  }
  return nullptr;
}

}  // namespace heddle::ptx

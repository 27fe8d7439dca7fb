#include "ptx/operand_resolver.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace heddle::ptx {
namespace {

bool is_float(Type type) {
  switch (type) {
    case Type::f16:
    case Type::bf16:
    case Type::f16x2:
    case Type::bf16x2:
    case Type::tf32:
    case Type::f32:
    case Type::f32x2:
    case Type::f64:
      return true;
    default:
      return false;
  }
}

std::uint64_t cut(std::uint64_t bits, Type type) {
  const std::uint32_t width = 8 * bytes_of(type);
  return width >= 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

std::size_t element_of(const std::string& selector) {
  if (selector == "y" || selector == "g") return 1;
  if (selector == "z" || selector == "b") return 2;
  if (selector == "w" || selector == "a") return 3;
  return 0;
}

}  // namespace

bool Modifiers::has(const std::string& word) const {
  return std::find(words_.begin(), words_.end(), word) != words_.end();
}

bool Modifiers::take(const std::string& word) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (taken_[i] != 0 || words_[i] != word) continue;
    taken_[i] = 1;
    return true;
  }
  return false;
}

int Modifiers::take_of(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (take(words[i])) return static_cast<int>(i);
  }
  return -1;
}

std::optional<Type> Modifiers::take_type() {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (taken_[i] != 0) continue;
    const std::optional<Type> type = find_type(words_[i]);
    if (!type) continue;
    taken_[i] = 1;
    return type;
  }
  return std::nullopt;
}

std::string Modifiers::take_prefix(const std::string& prefix) {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (taken_[i] != 0 || words_[i].compare(0, prefix.size(), prefix) != 0) continue;
    taken_[i] = 1;
    return words_[i];
  }
  return {};
}

std::string Modifiers::left() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (taken_[i] == 0) return words_[i];
  }
  return {};
}

bool constant_bits(const Operand& operand, Type type, std::uint64_t& bits) {
  if (const auto* integer = std::get_if<IntegerOperand>(&operand.what)) {
    if (type == Type::f32 || type == Type::f64) return false;
    bits = cut(integer->bits, type);
    return true;
  }
  const auto* real = std::get_if<FloatOperand>(&operand.what);
  if (real == nullptr) return false;
  if (type == Type::f32 && real->type == Type::f64) {
    double wide = 0;
    std::memcpy(&wide, &real->bits, sizeof wide);
    const auto narrow = static_cast<float>(wide);
    std::uint32_t word = 0;
    std::memcpy(&word, &narrow, sizeof word);
    bits = word;
    return true;
  }
  if (type == Type::f64 && real->type == Type::f32) {
    const auto word = static_cast<std::uint32_t>(real->bits);
    float narrow = 0;
    std::memcpy(&narrow, &word, sizeof narrow);
    const auto wide = static_cast<double>(narrow);
    std::memcpy(&bits, &wide, sizeof bits);
    return true;
  }
  if (is_float(type) && bytes_of(type) < 4) return false;
  if (bytes_of(type) < bytes_of(real->type)) return false;
  bits = real->bits;
  return true;
}

std::string OperandResolver::text() const {
  std::string text = instruction.opcode;
  for (const std::string& word : instruction.modifiers) text += "." + word;
  return text;
}

void OperandResolver::fail(const std::string& message, const std::string& remedy) const {
  builder.fail(instruction.place, fmt::format("{}: {}", text(), message), remedy);
}

void OperandResolver::fail(const Operand& operand, const std::string& message, const std::string& remedy) const {
  builder.fail(operand.place.line != 0 ? operand.place : instruction.place, fmt::format("{}: {}", text(), message),
               remedy);
}

const Operand& OperandResolver::operand(std::size_t index) const {
  if (index >= count()) {
    fail(fmt::format("operand {} is missing", index + 1), "write it as the PTX manual has it");
  }
  return instruction.operands[index];
}

const std::string* OperandResolver::name(const Operand& operand) const {
  const auto* named = std::get_if<NameOperand>(&operand.what);
  return named == nullptr ? nullptr : &named->name;
}

const Symbol* OperandResolver::symbol(const Operand& operand) const {
  const std::string* its = name(operand);
  if (its == nullptr || *its == "_") return nullptr;
  const Symbol* found = scope.find(*its);
  if (found == nullptr) {
    fail(operand, fmt::format("there is no {}", *its), "declare it before it is used");
  }
  return found;
}

std::optional<std::uint64_t> OperandResolver::constant(const Operand& operand) const {
  const auto* integer = std::get_if<IntegerOperand>(&operand.what);
  if (integer == nullptr) return std::nullopt;
  return integer->bits;
}

PlaneRef OperandResolver::register_of(const Operand& operand, const Symbol& symbol, const std::string& selector) const {
  if (video_part(selector)) {
    if (!parts_ || symbol.elements.size() != 1) {
      fail(operand, "a part of a register is no operand here", "take it out with bfe or prmt");
    }
    return symbol.elements.front();
  }
  const std::size_t element = element_of(selector);
  if (element >= symbol.elements.size()) {
    fail(operand, "the register has no such element", "name one that it has: .x, .y, .z or .w of a vector");
  }
  return symbol.elements[element];
}

PlaneRef OperandResolver::symbol_address(const Symbol& symbol, std::int64_t offset, std::uint32_t planes) {
  const std::uint64_t value = symbol.offset + static_cast<std::uint64_t>(offset);
  if (symbol.dynamic) return builder.dynamic_constant(value, planes);
  if (symbol.kind != Symbol::Kind::parameter) return builder.constant(value, planes);
  const PlaneRef made = builder.make_register(planes);
  ResolvedInstruction& place = builder.add_free(Action::place);
  place.kind = static_cast<std::uint8_t>(PlaceNumber::arguments);
  place.number = value;
  place.r[0] = made;
  place.planes = static_cast<std::uint8_t>(planes);
  return made;
}

PlaneRef OperandResolver::any_source(const Operand& operand, Type type) {
  const std::uint32_t planes = planes_of(type);
  std::uint64_t bits = 0;
  if (constant_bits(operand, type, bits)) return builder.constant(bits, planes);
  if (const auto* address = std::get_if<AddressOperand>(&operand.what)) {
    const AddressValue value = this->address(operand);
    if (value.symbol != nullptr) return symbol_address(*value.symbol, value.offset, planes);
    static_cast<void>(address);
  }
  const auto* named = std::get_if<NameOperand>(&operand.what);
  if (named == nullptr) {
    fail(operand, fmt::format("a value of type .{} is expected", type_name(type)),
         "write a register or a constant of that type");
  }
  if (named->name == "WARP_SZ") return builder.constant(arch::kWarpLanes, planes);
  const Symbol* found = symbol(operand);
  if (found == nullptr) fail(operand, "a value is expected, not _", "name a register");
  switch (found->kind) {
    case Symbol::Kind::value:
      return register_of(operand, *found, named->selector);
    case Symbol::Kind::address:
    case Symbol::Kind::parameter:
      return symbol_address(*found, named->offset, planes);
    case Symbol::Kind::function:
      return builder.constant(found->offset, planes);
    default:
      fail(operand, fmt::format("{} is no value", named->name), "name a register, a constant or a variable");
  }
}

PlaneRef OperandResolver::source(const Operand& operand, Type type) {
  const auto* named = std::get_if<NameOperand>(&operand.what);
  if (named != nullptr && named->name != "_" && named->name != "WARP_SZ") {
    const Symbol* found = symbol(operand);
    if (found->kind == Symbol::Kind::value && planes_of(found->type) != planes_of(type)) {
      fail(operand,
           fmt::format("{} is a register of .{}, and .{} is expected", named->name, type_name(found->type),
                       type_name(type)),
           "convert it with cvt, or use a register of the type's width");
    }
  }
  return any_source(operand, type);
}

PredicateRef OperandResolver::predicate(const Operand& operand, bool* constant) {
  const auto* named = std::get_if<NameOperand>(&operand.what);
  if (named == nullptr) {
    const std::optional<std::uint64_t> value = this->constant(operand);
    if (!value || constant == nullptr) fail(operand, "a predicate is expected", "name a register of type .pred");
    *constant = *value != 0;
    return {};
  }
  const Symbol* found = symbol(operand);
  if (found == nullptr || found->kind != Symbol::Kind::predicate) {
    fail(operand, fmt::format("{} is no predicate", named->name), "name a register of type .pred");
  }
  PredicateRef ref = found->predicate;
  ref.negated = named->negated;
  return ref;
}

PlaneRef OperandResolver::destination(const Operand& operand, Type type) {
  const auto* named = std::get_if<NameOperand>(&operand.what);
  if (named == nullptr) fail(operand, "a register is expected", "name one to write to");
  if (named->name == "_") return kNoPlane;
  const Symbol* found = symbol(operand);
  if (found->kind != Symbol::Kind::value) {
    fail(operand, fmt::format("{} is no register", named->name), "name a register to write to");
  }
  if (planes_of(found->type) != planes_of(type)) {
    fail(operand,
         fmt::format("{} is a register of .{}, and .{} is expected", named->name, type_name(found->type),
                     type_name(type)),
         "use a register of the type's width");
  }
  return register_of(operand, *found, named->selector);
}

PredicateRef OperandResolver::predicate_destination(const Operand& operand) {
  const auto* named = std::get_if<NameOperand>(&operand.what);
  if (named != nullptr && named->name == "_") return {};
  return predicate(operand);
}

void OperandResolver::pair(const Operand& operand, const Operand*& first, const Operand*& second) const {
  first = &operand;
  second = nullptr;
  if (const auto* both = std::get_if<PairOperand>(&operand.what)) {
    first = &both->elements[0];
    second = &both->elements[1];
  }
}

std::vector<const Operand*> OperandResolver::elements(const Operand& operand) const {
  std::vector<const Operand*> result;
  if (const auto* vector = std::get_if<VectorOperand>(&operand.what)) {
    for (const Operand& element : vector->elements) result.push_back(&element);
  } else {
    result.push_back(&operand);
  }
  return result;
}

AddressValue OperandResolver::address(const Operand& operand) {
  AddressValue value;
  const auto* written = std::get_if<AddressOperand>(&operand.what);
  const Operand* base = &operand;
  if (written != nullptr) {
    value.offset = written->offset;
    if (written->base.empty()) {
      value.base = builder.constant(0, 2);
      return value;
    }
    base = &written->base.front();
  }
  const auto* named = std::get_if<NameOperand>(&base->what);
  if (named == nullptr) {
    std::uint64_t bits = 0;
    if (!constant_bits(*base, Type::b64, bits)) {
      fail(operand, "an address is expected", "write [register + offset], [variable + offset] or [number]");
    }
    value.base = builder.constant(bits, 2);
    return value;
  }
  const Symbol* found = symbol(*base);
  if (found == nullptr) fail(operand, "an address is expected, not _", "write [register + offset]");
  switch (found->kind) {
    case Symbol::Kind::value:
      value.base = register_of(operand, *found, named->selector);
      value.wide = planes_of(found->type) == 2;
      return value;
    case Symbol::Kind::address:
    case Symbol::Kind::parameter:
    case Symbol::Kind::bytes:
      value.symbol = found;
      value.offset += named->offset;
      if (found->kind == Symbol::Kind::bytes) return value;
      value.base = symbol_address(*found, 0, 2);
      return value;
    default:
      fail(operand, fmt::format("{} is no address", named->name), "write [register + offset] or [variable + offset]");
  }
}

void OperandResolver::copy(PlaneRef to, PlaneRef from, std::uint32_t planes) {
  ResolvedInstruction& made = builder.add_free(Action::copy);
  made.r[0] = to;
  made.r[2] = from;
  made.planes = static_cast<std::uint8_t>(planes);
}

}  // namespace heddle::ptx

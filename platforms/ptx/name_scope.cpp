#include "ptx/name_scope.h"

#include <algorithm>
#include <cctype>

namespace heddle::ptx {

std::uint32_t planes_of(Type type) { return std::max(1U, bytes_of(type) / 4); }

Symbol NameScope::make(Type type, std::uint32_t vector) const {
  Symbol symbol;
  symbol.type = type;
  if (type == Type::pred) {
    symbol.kind = Symbol::Kind::predicate;
    symbol.predicate = builder_.make_predicate();
    return symbol;
  }
  for (std::uint32_t i = 0; i < vector; ++i) symbol.elements.push_back(builder_.make_register(planes_of(type)));
  return symbol;
}

void NameScope::declare_registers(const Variable& variable) {
  if (variable.parametrized) {
    ranges_[variable.name] = variable;
  } else {
    symbols_[variable.name] = make(variable.type, variable.vector);
  }
}

// A register of a range is made when it is named first.
const Symbol* NameScope::find(const std::string& name) const {
  const auto known = symbols_.find(name);
  if (known != symbols_.end()) return &known->second;
  std::size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
  if (digits < name.size() && name.size() - digits <= 9) {
    const auto range = ranges_.find(name.substr(0, digits));
    const bool plain = name[digits] != '0' || digits + 1 == name.size();
    if (range != ranges_.end() && plain && std::stoul(name.substr(digits)) < range->second.count) {
      return &symbols_.emplace(name, make(range->second.type, range->second.vector)).first->second;
    }
  }
  return outer_ == nullptr ? nullptr : outer_->find(name);
}

}  // namespace heddle::ptx

// The names that PTX text has declared, by block: what a name means where it stands, and what was meant if it means
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/module.h"

namespace heddle::ptx {

enum class NameKind : std::uint8_t { reg, memory, function, label, target_list, prototype };

struct NameEntry {
  NameKind kind = NameKind::reg;
  TextPlace place;
  std::uint32_t count = 0;          // of a name with a number: %r<7>; 0: a name as it is
  std::uint64_t element_bytes = 0;  // of what stands in memory: of an element of the outermost dimension
  StateSpace space = StateSpace::generic;
  Type type = Type::none;
};

class NameTable {
 public:
  NameTable() { open(); }  // the module's own

  void open();
  void close();
  // How many blocks are open, without the module.
  std::size_t depth() const { return scopes_.size() - 1; }

  // In the innermost block. nullptr, or the entry there that has the name already: then nothing changes.
  const NameEntry* declare(const std::string& name, const NameEntry& entry);
  // As declare(), in the module, whatever is open.
  const NameEntry* declare_in_module(const std::string& name, const NameEntry& entry);
  // The innermost one that is visible; nullptr: none.
  const NameEntry* find(std::string_view name) const;
  // Of the innermost block alone.
  const NameEntry* find_here(std::string_view name) const;

  // A sentence on a name that nobody has declared: the nearest ones.
  std::string suggest(std::string_view name) const;

 private:
  struct Scope {
    std::map<std::string, NameEntry, std::less<>> plain;
    std::map<std::string, NameEntry, std::less<>> numbered;  // by what stands before the number
  };
  static const NameEntry* add(Scope& scope, const std::string& name, const NameEntry& entry);
  static const NameEntry* find_in(const Scope& scope, std::string_view name);
  static const NameEntry* find_overlap(const Scope& scope, const std::string& prefix, std::uint32_t count);

  std::vector<Scope> scopes_;
};

// Registers that every thread has: %tid, %laneid … Vectors of them are to be had whole or by a selector.
bool is_special_register(std::string_view name);

}  // namespace heddle::ptx

// Several modules as one.
#include <algorithm>
#include <set>
#include <utility>

#include "common/error.h"
#include "ptx/lexer.h"
#include "ptx/module.h"
#include "ptx/name_table.h"

namespace heddle::ptx {

namespace {

std::string place_of(const std::string& module, TextPlace place) { return position_of(module, place).text(); }

// Gives names of a module others, wherever it says them, apart from where a block has the name for something of its
// own; and moves its source files.
class Renamer {
 public:
  Renamer(const std::map<std::string, std::string>& names, std::uint32_t file_base)
      : new_names_(names), file_base_(file_base) {}

  void run(Module& module) {
    for (SourceFile& file : module.files) file.index += file_base_;
    std::map<std::string, std::string> aliases;
    for (const auto& [alias, target] : module.aliases) aliases.emplace(renamed(alias), renamed(target));
    module.aliases = std::move(aliases);
    for (Variable& variable : module.variables) {
      variable.name = renamed(variable.name);
      run(variable);
    }
    for (Function& function : module.functions) {
      function.name = renamed(function.name);
      if (!function.body.has_value()) continue;
      locals_.open();
      for (const auto* parameters : {&function.results, &function.parameters}) {
        for (const Variable& parameter : *parameters) declare(parameter.name, NameKind::memory, 0);
      }
      run(*function.body);
      locals_.close();
    }
  }

 private:
  std::string renamed(const std::string& name) const {
    const auto at = new_names_.find(name);
    return at == new_names_.end() ? name : at->second;
  }

  void rename(std::string& name) const {
    if (locals_.find(name) == nullptr) name = renamed(name);
  }

  void declare(const std::string& name, NameKind kind, std::uint32_t count) {
    NameEntry entry;
    entry.kind = kind;
    entry.count = count;
    locals_.declare(name, entry);
  }

  void run(Variable& variable) {
    if (!variable.initial.has_value()) return;
    for (Initializer::Address& address : variable.initial->addresses) rename(address.name);
  }

  void run(Block& block) {
    locals_.open();
    for (const auto& statement : block.statements) {
      if (const auto* label = std::get_if<Label>(&statement)) declare(label->name, NameKind::label, 0);
    }
    for (auto& statement : block.statements) {
      if (auto* instruction = std::get_if<Instruction>(&statement)) {
        if (instruction->source.file != 0) instruction->source.file += file_base_;
        for (Operand& operand : instruction->operands) run(operand);
      } else if (auto* variable = std::get_if<Variable>(&statement)) {
        declare(variable->name, NameKind::memory, variable->parametrized ? variable->count : 0);
        run(*variable);
      } else if (auto* list = std::get_if<TargetList>(&statement)) {
        declare(list->name, NameKind::target_list, 0);
        for (std::string& target : list->targets) rename(target);
      } else if (auto* prototype = std::get_if<Prototype>(&statement)) {
        declare(prototype->name, NameKind::prototype, 0);
      } else if (auto* inner = std::get_if<Block>(&statement)) {
        run(*inner);
      }
    }
    locals_.close();
  }

  void run(std::vector<Operand>& operands) {
    for (Operand& operand : operands) run(operand);
  }

  void run(Operand& operand) {
    if (auto* name = std::get_if<NameOperand>(&operand.what)) {
      rename(name->name);
    } else if (auto* address = std::get_if<AddressOperand>(&operand.what)) {
      run(address->base);
      run(address->parts);
    } else if (auto* vector = std::get_if<VectorOperand>(&operand.what)) {
      run(vector->elements);
    } else if (auto* pair = std::get_if<PairOperand>(&operand.what)) {
      run(pair->elements);
    } else if (auto* list = std::get_if<ListOperand>(&operand.what)) {
      run(list->elements);
    }
  }

  const std::map<std::string, std::string>& new_names_;
  std::uint32_t file_base_;
  NameTable locals_;
};

bool same_layout(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Variable& x, const Variable& y) { return x.bytes() == y.bytes() && x.space == y.space; });
}

// Another module may name it.
bool is_shared_name(const Function& function) {
  return function.is_visible || function.is_extern || function.is_weak || !function.body.has_value();
}

bool is_shared_name(const Variable& variable) {
  return variable.is_visible || variable.is_extern || variable.is_weak || variable.is_common;
}

bool is_defined(const Function& function) { return function.body.has_value(); }

class Linker {
 public:
  explicit Linker(std::vector<Module> modules) : modules_(std::move(modules)) {}

  Module run() {
    if (modules_.empty()) throw InputError("there is no module to link", "give one at least");
    tell_apart();
    for (Module& module : modules_) take_head(module);
    for (Module& module : modules_) {
      for (Variable& variable : module.variables) add(std::move(variable));
      for (Function& function : module.functions) add(std::move(function));
      result_.aliases.insert(module.aliases.begin(), module.aliases.end());
    }
    check_names();
    check_variables();
    return std::move(result_);
  }

 private:
  void tell_apart() {
    std::map<std::string, std::size_t> modules_of;
    for (const Module& module : modules_) {
      std::set<std::string> names;
      for (const Variable& variable : module.variables) names.insert(variable.name);
      for (const Function& function : module.functions) names.insert(function.name);
      for (const std::string& name : names) ++modules_of[name];
    }
    std::uint32_t file_base = 0;
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      Module& module = modules_[i];
      std::map<std::string, std::string> renamed;
      const auto rename = [&](const auto& item) {
        if (!is_shared_name(item) && modules_of[item.name] > 1 && module.aliases.count(item.name) == 0) {
          renamed.emplace(item.name, item.name + "@" + std::to_string(i + 1));
        }
      };
      std::for_each(module.variables.begin(), module.variables.end(), rename);
      std::for_each(module.functions.begin(), module.functions.end(), rename);
      Renamer(renamed, file_base).run(module);
      for (const SourceFile& file : module.files) file_base = std::max(file_base, file.index);
    }
  }

  void take_head(Module& module) {
    if (result_.target.empty()) {
      result_.name = module.name;
      result_.major = module.major;
      result_.minor = module.minor;
      result_.target = module.target;
      result_.address_size = module.address_size;
    }
    if (std::pair(module.major, module.minor) > std::pair(result_.major, result_.minor)) {
      result_.major = module.major;
      result_.minor = module.minor;
    }
    if (module.target.back() == 'a') result_.target = module.target;
    for (std::string& option : module.target_options) {
      auto& options = result_.target_options;
      if (std::find(options.begin(), options.end(), option) == options.end()) options.push_back(std::move(option));
    }
    for (SourceFile& file : module.files) result_.files.push_back(std::move(file));
  }

  void add(Function function) {
    const auto [at, added] = functions_.emplace(function.name, result_.functions.size());
    if (added) {
      result_.functions.push_back(std::move(function));
      return;
    }
    Function& there = result_.functions[at->second];
    if (is_defined(function) && is_defined(there) && !function.is_weak && !there.is_weak) {
      refuse_second("function", function, there);
    }
    if (function.entry != there.entry || !same_layout(function.results, there.results) ||
        !same_layout(function.parameters, there.parameters)) {
      throw InputError(position_of(function.module, function.place),
                       "'" + function.name + "' has other parameters than in " + place_of(there.module, there.place),
                       "compile both from one declaration");
    }
    const bool stronger = is_defined(function) && (!is_defined(there) || (there.is_weak && !function.is_weak));
    if (stronger) there = std::move(function);
  }

  void add(Variable variable) {
    const auto [at, added] = variables_.emplace(variable.name, result_.variables.size());
    if (added) {
      result_.variables.push_back(std::move(variable));
      return;
    }
    Variable& there = result_.variables[at->second];
    if (there.space != variable.space) {
      throw InputError(
          position_of(variable.module, variable.place),
          "'" + variable.name + "' is in another state space than in " + place_of(there.module, there.place),
          "declare both alike");
    }
    if (variable.is_extern || there.is_extern) {
      check_reference(variable.is_extern ? variable : there, variable.is_extern ? there : variable);
    } else if (variable.is_common && there.is_common) {
      merge_common(there, variable);
      return;
    } else if (strength_of(variable) == 2 && strength_of(there) == 2) {
      refuse_second("variable", variable, there);
    }
    const std::uint32_t align = std::max(there.alignment(), variable.alignment());
    if (strength_of(variable) > strength_of(there)) there = std::move(variable);
    if (there.is_extern) there.align = align;
  }

  // .extern, .common or .weak, and what is there once.
  static int strength_of(const Variable& variable) {
    if (variable.is_extern) return 0;
    return variable.is_common || variable.is_weak ? 1 : 2;
  }

  void check_reference(const Variable& reference, const Variable& defined) const {
    const bool unknown = reference.array && reference.extents[0] == 0;
    if (unknown || reference.bytes() == defined.bytes() || (defined.is_extern && defined.array)) return;
    throw InputError(position_of(reference.module, reference.place),
                     "'" + reference.name + "' has " + std::to_string(reference.bytes()) + " bytes, and " +
                         std::to_string(defined.bytes()) + " in " + place_of(defined.module, defined.place),
                     "compile both from one declaration");
  }

  // The largest stays; only that one may have an initial value.
  void merge_common(Variable& there, Variable& variable) const {
    if (there.initial.has_value() && variable.initial.has_value()) refuse_second("variable", variable, there);
    const std::uint32_t align = std::max(there.alignment(), variable.alignment());
    const bool larger = variable.bytes() > there.bytes() || (variable.bytes() == there.bytes() && variable.initial);
    const Variable& smaller = larger ? there : variable;
    if (smaller.initial.has_value()) {
      throw InputError(position_of(smaller.module, smaller.place),
                       "'" + smaller.name + "' has an initial value, and is larger elsewhere",
                       "give the value where the largest .common is");
    }
    if (larger) there = std::move(variable);
    there.align = align;
  }

  template <typename Item>
  [[noreturn]] void refuse_second(const char* what, const Item& second, const Item& first) const {
    throw InputError(position_of(second.module, second.place),
                     std::string("a second ") + what + " '" + second.name + "', beside that of " +
                         place_of(first.module, first.place),
                     "make one of them .weak or static, or leave one module out");
  }

  // A function and a variable of one name.
  void check_names() const {
    for (const Function& function : result_.functions) {
      const auto at = variables_.find(function.name);
      if (at == variables_.end()) continue;
      const Variable& variable = result_.variables[at->second];
      throw InputError(
          position_of(function.module, function.place),
          "'" + function.name + "' is a function, and a variable in " + place_of(variable.module, variable.place),
          "give one of them another name");
    }
  }

  // Shared arrays of unknown size are the launch's.
  void check_variables() const {
    for (const Variable& variable : result_.variables) {
      const bool of_launch = variable.space == StateSpace::shared && variable.array;
      if (!variable.is_extern || of_launch) continue;
      throw InputError(position_of(variable.module, variable.place),
                       "no module defines the variable '" + variable.name + "'", "link the one that does");
    }
  }

  std::vector<Module> modules_;
  Module result_;
  std::map<std::string, std::size_t> functions_;
  std::map<std::string, std::size_t> variables_;
};

}  // namespace

Module link(std::vector<Module> modules) { return Linker(std::move(modules)).run(); }

}  // namespace heddle::ptx

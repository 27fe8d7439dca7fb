#include "ptx/resolver.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "ptx/operand_resolver.h"

namespace heddle::ptx {
namespace {

constexpr std::size_t kMostInstructions = 500'000;    // of an entry with all that it calls
constexpr std::uint64_t kMostStatements = 1'000'000;  // of an entry with all that it calls, declarations and labels too
constexpr std::uint32_t kDynamicAlignment = 16;       // bytes
// Bytes that a CTA can name of its shared memory (ptx_code.h), and local memory of a thread: CUDA C++ Programming
// Guide, "Technical Specifications per Compute Capability".
constexpr std::uint64_t kMostShared = arch::kDsmemOffsets;
constexpr std::uint64_t kMostLocal = std::uint64_t{512} << 10;

std::uint64_t statements_of(const Block& block) {
  std::uint64_t count = block.statements.size();
  for (const auto& statement : block.statements) {
    if (const auto* inner = std::get_if<Block>(&statement)) count += statements_of(*inner);
  }
  return count;
}

void collect_names(const Operand& operand, std::set<std::string>& names) {
  const auto each = [&](const std::vector<Operand>& operands) {
    for (const Operand& part : operands) collect_names(part, names);
  };
  if (const auto* name = std::get_if<NameOperand>(&operand.what)) names.insert(name->name);
  if (const auto* vector = std::get_if<VectorOperand>(&operand.what)) each(vector->elements);
  if (const auto* pair = std::get_if<PairOperand>(&operand.what)) each(pair->elements);
  if (const auto* list = std::get_if<ListOperand>(&operand.what)) each(list->elements);
  if (const auto* address = std::get_if<AddressOperand>(&operand.what)) {
    each(address->base);
    each(address->parts);
  }
}

void collect_names(const Block& block, std::set<std::string>& names) {
  for (const auto& statement : block.statements) {
    if (const auto* instruction = std::get_if<Instruction>(&statement)) {
      for (const Operand& operand : instruction->operands) collect_names(operand, names);
    } else if (const auto* inner = std::get_if<Block>(&statement)) {
      collect_names(*inner, names);
    }
  }
}

// The entry, and one function in another: where its returns lead.
struct Frame {
  const Function& function;
  std::optional<LabelId> end;  // none: a return ends the thread
};

class Resolver {
 public:
  Resolver(const Module& module, const EntryPlace& place)
      : module_(module), place_(place), builder_(module.name), image_(module), names_(builder_, nullptr) {}

  ResolvedEntry resolve(const Function& entry) {
    declare_module(entry);
    ResolvedEntry result;
    result.parameters = parameters_of(entry);
    builder_.code().entry = entry.name;
    builder_.code().arguments = place_.arguments;
    builder_.code().workspace = place_.workspace;
    builder_.code().argument_bytes = static_cast<std::uint32_t>(argument_bytes(result.parameters));
    builder_.code().constant_begin = place_.image + image_.constants_at();
    builder_.code().constant_end = place_.image + image_.bytes();
    NameScope scope(builder_, &names_);
    for (const EntryParameter& parameter : result.parameters) {
      Symbol symbol;
      symbol.kind = Symbol::Kind::parameter;
      symbol.type = parameter.type;
      symbol.space = StateSpace::param;
      symbol.offset = parameter.offset;
      symbol.size = parameter.bytes;
      scope.add(parameter.name, std::move(symbol));
    }
    const Frame frame{entry, std::nullopt};
    calls_.push_back(entry.name);
    block(*entry.body, scope, frame);
    builder_.set_guard({});
    builder_.add(Action::exit);
    const auto hidden = static_cast<std::uint32_t>(aligned_up(shared_, 4));
    if (builder_.hidden_bytes() > 0) shared_ = hidden + builder_.hidden_bytes();
    const auto dynamic = static_cast<std::uint32_t>(aligned_up(shared_, kDynamicAlignment));
    result.shared_bytes = has_dynamic_ ? dynamic : static_cast<std::uint32_t>(shared_);
    result.local_bytes = static_cast<std::uint32_t>(aligned_up(most_local_, 16));
    result.code = builder_.finish(hidden, dynamic);
    return result;
  }

 private:
  // Names that all functions see. Shared memory that nobody names takes no place.
  void declare_module(const Function& entry) {
    std::set<std::string> used;
    std::set<std::string> seen{entry.name};
    std::vector<const Function*> open{&entry};
    while (!open.empty()) {
      const Function* function = open.back();
      open.pop_back();
      std::set<std::string> names;
      if (function->body) collect_names(*function->body, names);
      for (const std::string& name : names) {
        used.insert(name);
        const Function* callee = module_.find_function(name);
        if (callee != nullptr && seen.insert(name).second) open.push_back(callee);
      }
    }
    for (const Variable& variable : module_.variables) {
      if (variable.space == StateSpace::shared) {
        if (used.count(variable.name) != 0) declare_shared(variable, names_);
        continue;
      }
      const auto found = image_.offsets().find(variable.name);
      if (found == image_.offsets().end()) continue;
      Symbol symbol;
      symbol.kind = Symbol::Kind::address;
      symbol.space = variable.space;
      symbol.offset = place_.image + found->second;
      symbol.size = variable.bytes();
      names_.add(variable.name, std::move(symbol));
    }
    for (const Function& function : module_.functions) {
      Symbol symbol;
      symbol.kind = Symbol::Kind::function;
      symbol.offset = function_address(module_, function.name);
      names_.add(function.name, std::move(symbol));
    }
  }

  // Where the variable lies behind `used` bytes, of which it takes its own.
  std::uint64_t lay(const Variable& variable, const char* memory, std::uint64_t most, std::uint64_t& used) const {
    const std::uint64_t at = aligned_up(used, std::max(1U, variable.alignment()));
    if (at > most || variable.bytes() > most - at) {
      builder_.fail(variable.place,
                    fmt::format("{}: {} bytes behind {} others, and {} has {}", variable.name, variable.bytes(), at,
                                memory, most),
                    "make it smaller, or keep it in global memory");
    }
    used = at + variable.bytes();
    return at;
  }

  void declare_shared(const Variable& variable, NameScope& scope) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::address;
    symbol.space = StateSpace::shared;
    symbol.dynamic = variable.is_extern || variable.bytes() == 0;
    has_dynamic_ = has_dynamic_ || symbol.dynamic;
    if (!symbol.dynamic) {
      // A function that is called several times has its variables once.
      const auto [found, made] = shared_places_.try_emplace(&variable, 0);
      if (made) {
        found->second = lay(variable, "shared memory", kMostShared, shared_);
      }
      symbol.offset = found->second;
      symbol.size = variable.bytes();
    }
    scope.add(variable.name, std::move(symbol));
  }

  void declare(const Variable& variable, NameScope& scope) {
    switch (variable.space) {
      case StateSpace::reg:
        return scope.declare_registers(variable);
      case StateSpace::shared:
        return declare_shared(variable, scope);
      case StateSpace::param: {
        Symbol symbol;
        symbol.kind = Symbol::Kind::bytes;
        symbol.space = StateSpace::param;
        symbol.content = std::make_shared<ParameterBytes>();
        symbol.size = variable.bytes();
        return scope.add(variable.name, std::move(symbol));
      }
      case StateSpace::local: {
        Symbol symbol;
        symbol.kind = Symbol::Kind::address;
        symbol.space = StateSpace::local;
        symbol.offset = lay(variable, "local memory", kMostLocal, local_);
        symbol.size = variable.bytes();
        most_local_ = std::max(most_local_, local_);
        return scope.add(variable.name, std::move(symbol));
      }
      default:
        builder_.fail(variable.place,
                      fmt::format("{}: a variable of this state space inside of a function", variable.name),
                      "declare it outside of all functions");
    }
  }

  void block(const Block& block, NameScope& scope, const Frame& frame) {
    for (const auto& statement : block.statements) {
      if (const auto* label = std::get_if<Label>(&statement)) {
        Symbol symbol;
        symbol.kind = Symbol::Kind::label;
        symbol.offset = builder_.make_label();
        scope.add(label->name, std::move(symbol));
      } else if (const auto* targets = std::get_if<TargetList>(&statement)) {
        Symbol symbol;
        symbol.kind = Symbol::Kind::targets;
        symbol.names = targets->targets;
        scope.add(targets->name, std::move(symbol));
      } else if (const auto* prototype = std::get_if<Prototype>(&statement)) {
        Symbol symbol;
        symbol.kind = Symbol::Kind::prototype;
        scope.add(prototype->name, std::move(symbol));
      }
    }
    for (const auto& statement : block.statements) {
      if (const auto* variable = std::get_if<Variable>(&statement)) {
        declare(*variable, scope);
      } else if (const auto* label = std::get_if<Label>(&statement)) {
        builder_.place_label(static_cast<LabelId>(scope.find(label->name)->offset));
      } else if (const auto* inner = std::get_if<Block>(&statement)) {
        NameScope nested(builder_, &scope);
        this->block(*inner, nested, frame);
      } else if (const auto* instruction = std::get_if<Instruction>(&statement)) {
        this->instruction(*instruction, scope, frame);
      }
    }
  }

  // Of the source that the module was made of, as .file and .loc have it; "": they do not say.
  std::string source_of(const SourcePlace& source) const {
    for (const SourceFile& file : module_.files) {
      if (source.file == 0 || file.index != source.file) continue;
      return fmt::format("; {}, line {}", file.name.substr(file.name.find_last_of('/') + 1), source.line);
    }
    return "";
  }

  void instruction(const Instruction& instruction, const NameScope& scope, const Frame& frame) {
    OperandResolver in(builder_, scope, instruction);
    builder_.at(instruction, fmt::format("{} ({}, line {}{})", in.text(), module_.name, instruction.place.line,
                                         source_of(instruction.source)));
    if (builder_.size() > kMostInstructions) {
      in.fail(fmt::format("{} has more than {} instructions with all that it calls", calls_.front(), kMostInstructions),
              "call fewer functions, or unroll less");
    }
    builder_.set_guard({});
    if (instruction.guard) {
      const Symbol* guard = scope.find(instruction.guard->name);
      if (guard == nullptr || guard->kind != Symbol::Kind::predicate) {
        in.fail(fmt::format("{} is no predicate", instruction.guard->name), "guard it by a register of type .pred");
      }
      PredicateRef ref = guard->predicate;
      ref.negated = instruction.guard->negated;
      builder_.set_guard(ref);
    }
    const std::string& opcode = instruction.opcode;
    if (opcode == "bra") {
      builder_.branch(label_of(in, in.operand(0)));
    } else if (opcode == "brx") {
      table(in);
    } else if (opcode == "ret" || opcode == "exit") {
      if (opcode == "ret" && frame.end) {
        builder_.branch(*frame.end);
      } else {
        builder_.add(Action::exit);
      }
    } else if (opcode == "call") {
      call(in);
    } else if (!resolve_registers(in) && !resolve_accesses(in) && !resolve_warp(in) && !resolve_synchronisation(in) &&
               !resolve_bulk(in) && !resolve_matrices(in)) {
      in.fail("the model has no such instruction", "docs/ptx.md lists those that it has");
    }
  }

  LabelId label_of(const OperandResolver& in, const Operand& operand) const {
    const Symbol* symbol = in.symbol(operand);
    if (symbol == nullptr || symbol->kind != Symbol::Kind::label) {
      in.fail(operand, "a label is expected", "name one of the same function");
    }
    return static_cast<LabelId>(symbol->offset);
  }

  void table(OperandResolver& in) {
    const PlaneRef index = in.source(0, Type::b32);
    const Symbol* targets = in.symbol(in.operand(1));
    if (targets == nullptr || targets->kind != Symbol::Kind::targets) {
      in.fail("a list of labels is expected", "name: .branchtargets a, b;");
    }
    std::vector<LabelId> labels;
    for (const std::string& name : targets->names) {
      const Symbol* label = in.scope.find(name);
      if (label == nullptr || label->kind != Symbol::Kind::label)
        in.fail(fmt::format("{} is no label", name), "name one");
      labels.push_back(static_cast<LabelId>(label->offset));
    }
    ResolvedInstruction& made = builder_.add(Action::table);
    made.r[2] = index;
    made.target = builder_.add_table(std::move(labels));
  }

  void call(OperandResolver& in) {
    std::size_t at = 0;
    const ListOperand* results = nullptr;
    const ListOperand* arguments = nullptr;
    if (in.count() > 1) results = std::get_if<ListOperand>(&in.operand(0).what);
    if (results != nullptr) ++at;
    const Operand& callee = in.operand(at++);
    if (in.has(at)) arguments = std::get_if<ListOperand>(&in.operand(at).what);
    if (arguments != nullptr) ++at;
    std::optional<LabelId> around;
    if (builder_.guard().any()) {
      PredicateRef other = builder_.guard();
      other.negated = !other.negated;
      builder_.set_guard(other);
      around = builder_.make_label();
      builder_.branch(*around);
      builder_.set_guard({});
    }
    const Symbol* symbol = in.symbol(callee);
    if (symbol != nullptr && symbol->kind == Symbol::Kind::function) {
      call_function(in, *in.name(callee), results, arguments);
    } else {
      call_one_of(in, callee, at, results, arguments);
    }
    builder_.set_guard({});
    if (around) builder_.place_label(*around);
  }

  // Through a register: whichever of the functions that it can be.
  void call_one_of(OperandResolver& in, const Operand& callee, std::size_t at, const ListOperand* results,
                   const ListOperand* arguments) {
    const PlaneRef address = in.source(callee, Type::b64);
    std::vector<std::string> targets;
    const Symbol* list = in.has(at) ? in.symbol(in.operand(at)) : nullptr;
    if (list != nullptr && list->kind == Symbol::Kind::targets) {
      targets = list->names;
    } else {
      const std::size_t inputs = arguments == nullptr ? 0 : arguments->elements.size();
      const std::size_t outputs = results == nullptr ? 0 : results->elements.size();
      for (const Function& function : module_.functions) {
        const bool fits = function.parameters.size() == inputs && function.results.size() == outputs;
        if (!function.entry && function.body && fits && !is_open(function.name)) targets.push_back(function.name);
      }
    }
    std::string why;
    const AluForm* equal = find_alu_form("setp", {"eq", "u64"}, why);
    if (equal == nullptr) in.fail(why, "call the function by its name");
    const LabelId end = builder_.make_label();
    for (const std::string& name : targets) {
      const PredicateRef other = builder_.make_predicate();
      ResolvedInstruction& compare = builder_.add(Action::alu);
      compare.function = equal->function;
      compare.r[2] = address;
      compare.p_out[0] = other;
      compare.unit = arch::Unit::int32;
      compare.r[3] = builder_.constant(function_address(module_, name), 2);
      const LabelId next = builder_.make_label();
      builder_.set_guard({other.scalar, true});
      builder_.branch(next);
      builder_.set_guard({});
      call_function(in, name, results, arguments);
      builder_.set_guard({});
      builder_.branch(end);
      builder_.place_label(next);
    }
    builder_.add(Action::trap).unit = arch::Unit::memory;
    builder_.place_label(end);
  }

  bool is_open(const std::string& name) const { return std::find(calls_.begin(), calls_.end(), name) != calls_.end(); }

  void call_function(OperandResolver& in, const std::string& called, const ListOperand* results,
                     const ListOperand* arguments) {
    const auto alias = module_.aliases.find(called);
    const std::string& name = alias == module_.aliases.end() ? called : alias->second;
    const Function* function = module_.find_function(name);
    if (name == "__assertfail") {
      builder_.add(Action::trap).unit = arch::Unit::memory;
      return;
    }
    if (function == nullptr || !function->body) {
      in.fail(fmt::format("the module has no body of {}", name),
              name == "vprintf" ? "leave out printf: write what it would print to memory"
                                : "link it into the module (nvcc -rdc=false)");
    }
    if (is_open(name)) {
      in.fail(fmt::format("{} calls itself: {}", name, fmt::join(calls_, " -> ")),
              "write it as a loop: functions become part of their callers");
    }
    NameScope scope(builder_, &names_);
    bind(in, function->results, results, scope);
    bind(in, function->parameters, arguments, scope);
    const Frame frame{*function, builder_.make_label()};
    const auto [size, first] = statements_.try_emplace(function, 0);
    if (first) size->second = 1 + statements_of(*function->body);
    all_statements_ += size->second;
    if (all_statements_ > kMostStatements) {
      in.fail(fmt::format("{} has more than {} statements with all that it calls, the last of {}", calls_.front(),
                          kMostStatements, fmt::join(calls_, " -> ")),
              "call fewer functions: they become part of their callers, once for each call");
    }
    // What it has of local memory, the next one can have when it has returned.
    const std::uint64_t local = local_;
    calls_.push_back(name);
    block(*function->body, scope, frame);
    calls_.pop_back();
    local_ = local;
    builder_.set_guard({});
    builder_.place_label(*frame.end);
  }

  // What the callee calls its parameters is what the caller has laid beside the call.
  void bind(OperandResolver& in, const std::vector<Variable>& formal, const ListOperand* actual, NameScope& scope) {
    const std::size_t given = actual == nullptr ? 0 : actual->elements.size();
    if (given != formal.size()) {
      in.fail(fmt::format("{} parameters or results, and the function has {}", given, formal.size()),
              "give as many as it has");
    }
    for (std::size_t i = 0; i < formal.size(); ++i) {
      const Symbol* symbol = in.symbol(actual->elements[i]);
      if (symbol == nullptr) in.fail(actual->elements[i], "a parameter is expected", "name a .param variable");
      scope.add(formal[i].name, *symbol);
    }
  }

  const Module& module_;
  const EntryPlace& place_;
  CodeBuilder builder_;
  ModuleImage image_;
  NameScope names_;
  std::vector<std::string> calls_;  // that are open
  std::map<const Variable*, std::uint64_t> shared_places_;
  std::uint64_t shared_ = 0;
  std::uint64_t local_ = 0;  // of the functions that are open
  std::uint64_t most_local_ = 0;
  std::map<const Function*, std::uint64_t> statements_;  // of their bodies
  std::uint64_t all_statements_ = 0;                     // of all calls so far
  bool has_dynamic_ = false;
};

}  // namespace

ResolvedEntry resolve_entry(const Module& module, const std::string& entry, const EntryPlace& place) {
  const Function* function = module.find_function(entry);
  if (function == nullptr || !function->entry || !function->body) {
    std::vector<std::string> known;
    for (const Function& candidate : module.functions) {
      if (candidate.entry && candidate.body) known.push_back(candidate.name);
    }
    throw InputError(SourcePos{module.name, 0, 0}, fmt::format("the module has no entry {}", entry),
                     known.empty() ? std::string("it has none at all") : suggestion(entry, known));
  }
  return Resolver(module, place).resolve(*function);
}

std::uint32_t registers_per_thread(const Function& entry, const PtxCode& code) {
  // Registers that an assembler takes beside those that are alive: for addresses and values under way. Assumption.
  constexpr std::uint32_t kFurtherRegisters = 8;
  constexpr std::uint32_t kRegisterStep = 8;
  constexpr std::uint32_t kFewestRegisters = 16;
  constexpr std::uint32_t kMostRegisters = 255;
  const std::uint32_t wanted = code.live_registers + kFurtherRegisters;
  std::uint32_t most = kMostRegisters;
  const auto limit = entry.directives.find("maxnreg");
  if (limit != entry.directives.end() && !limit->second.empty()) {
    most = std::min(most, static_cast<std::uint32_t>(limit->second.front()));
  }
  return std::min(most, std::max(kFewestRegisters, (wanted + kRegisterStep - 1) / kRegisterStep * kRegisterStep));
}

}  // namespace heddle::ptx

// What the names in a program mean while it is read, and which registers they take.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "arch/task_record.h"
#include "common/error.h"
#include "program/expression.h"
#include "program/program_parts.h"
#include "workload/workload.h"

namespace heddle::program {

// The accumulators of a matrix multiply: n / 2 registers.
struct Accumulators {
  std::uint16_t first = 0;
  std::uint32_t n = 0;

  arch::RegisterRange range() const { return {first, static_cast<std::uint16_t>(n / 2)}; }
};

// The registers of a program: which are in use, and how many there were at most.
class RegisterAllocator {
 public:
  // `own`: what the kernel says that it needs; 0: nothing.
  explicit RegisterAllocator(std::uint32_t own) : own_(own), used_(arch::kMaxProgramRegisters, false) {}

  // The first of `count` registers side by side. Throws InputError at `where` if there are none left.
  std::uint16_t take(std::uint32_t count, bool accumulators, const SourcePos& where);
  // Registers of variables, which others may take now.
  void give_back(const arch::RegisterRange& range);
  std::uint32_t most() const { return most_; }

 private:
  std::uint32_t own_;
  std::vector<bool> used_;
  std::uint32_t variables_ = 0;  // registers of variables in use
  std::uint32_t most_ = 0;
};

// Names live to the end of the list of steps in which they are made; their registers are free again then. Accumulators
// live to the end of the program.
class ProgramNames : public ExpressionNames {
 public:
  ProgramNames(const arch::KernelRecord& kernel, const std::vector<workload::MemoryRegion>& regions,
               ProgramParts& parts);

  std::optional<NamedValue> find(const std::string& name) override;
  std::vector<std::string> known() const override;

  void open() { scopes_.emplace_back(); }
  void close();

  // All of these throw InputError at `where` for names that cannot be used, or have a meaning already.
  void let(const std::string& name, const SourcePos& where, NamedValue value);
  // Returns the first of its two scalars.
  std::uint32_t loop(const std::string& name, const SourcePos& where);
  // Made before, or now.
  ProgramVariable one(const std::string& name, arch::ValueType type, const SourcePos& where);
  // Variables side by side, as an access to several values needs them: all of them new, or made together before.
  std::vector<ProgramVariable> together(const std::vector<std::string>& names, arch::ValueType type,
                                        const SourcePos& where);
  // Declared before, or now if `n` is not 0.
  Accumulators accumulators(const std::string& name, std::uint32_t n, const SourcePos& where);

  // Null if the name is no variable.
  const ProgramVariable* variable(const std::string& name) const;
  // The queue, whose region is in use then; null if the name is none's.
  const workload::MemoryRegion* queue(const std::string& name);
  // Of memory; null if the name is none's.
  const workload::MemoryRegion* region(const std::string& name) const;

  std::uint32_t scalars(std::uint32_t count);
  // Most registers that were in use at a time.
  std::uint32_t registers() const { return registers_.most(); }
  const std::set<std::string>& regions_used() const { return regions_used_; }

 private:
  struct Register {  // of a variable
    ProgramVariable variable;
    std::uint32_t slot = 0;
  };
  using Meaning = std::variant<NamedValue, Register, Accumulators>;
  struct Scope {
    std::map<std::string, Meaning> names;
    std::vector<arch::RegisterRange> registers;
  };

  const Meaning* meaning(const std::string& name) const;
  std::optional<NamedValue> built_in(const std::string& name);
  std::uint32_t slot(SlotSource source, std::uint32_t index, const ProgramVariable& variable);
  const ProgramVariable* typed(const std::string& name, arch::ValueType type, const SourcePos& where) const;
  void check_new(const std::string& name, const SourcePos& where) const;
  std::vector<ProgramVariable> make(const std::vector<std::string>& names, arch::ValueType type,
                                    const SourcePos& where);

  const std::vector<workload::MemoryRegion>& regions_;
  ProgramParts& parts_;
  std::vector<Scope> scopes_{1};
  std::map<std::string, std::uint32_t> slots_;  // of built-in names that are in use
  RegisterAllocator registers_;
  std::set<std::string> regions_used_;
};

// Names that a program may use without making them: "cta.x". Regions cannot be called so.
const std::vector<std::string>& built_in_names();

}  // namespace heddle::program

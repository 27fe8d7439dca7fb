// Collects the instructions of an entry in registers without number, and makes the code of them that runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptx/code_finisher.h"
#include "ptx/ptx_code.h"

namespace heddle::ptx {

// A place that branches lead to.
using LabelId = std::uint32_t;

class CodeBuilder {
 public:
  explicit CodeBuilder(std::string module) { code_.module = std::move(module); }

  [[noreturn]] void fail(const TextPlace& place, const std::string& message, const std::string& remedy) const;

  PlaneRef make_register(std::uint32_t planes);
  PredicateRef make_predicate();
  // A value of 32 bits, of 64, or of 128 with zeros above.
  PlaneRef constant(std::uint64_t value, std::uint32_t planes);
  // One whose value is known at the end: `offset` behind the dynamic shared memory.
  PlaneRef dynamic_constant(std::uint64_t offset, std::uint32_t planes);

  // The address of a word of shared memory that the module does not see: zero when a CTA begins, and behind what it
  // has.
  PlaneRef hidden_constant(std::uint32_t offset);
  std::uint32_t hidden_bytes() const { return hidden_bytes_; }

  // What follows comes from there.
  void at(const Instruction& instruction, std::string text);
  void set_guard(const PredicateRef& guard) { guard_ = guard; }
  const PredicateRef& guard() const { return guard_; }
  // With the guard. Valid until the next one.
  ResolvedInstruction& add(Action action);
  // One that costs nothing; it is carried out where its result is needed.
  ResolvedInstruction& add_free(Action action);
  std::uint32_t add(const AccessForm& form);
  std::uint32_t add(BulkForm form);
  std::uint32_t add(MatrixWork work);
  // Its registers, of one plane each, come to lie side by side: false if some do so in another order already.
  bool add(WarpgroupWork work, std::uint32_t& index);
  std::uint32_t add_table(std::vector<LabelId> labels);

  LabelId make_label();
  void place_label(LabelId label);
  // `target` is a label.
  void branch(LabelId label);

  PtxCode& code() { return code_; }
  std::size_t size() const { return drafts_.size(); }

  // To code that runs; `hidden`, `dynamic`: where the hidden words and the dynamic shared memory begin. Throws
  // InputError if it needs more registers than a warp has.
  PtxCode finish(std::uint32_t hidden, std::uint32_t dynamic);

 private:
  void resolve_labels();

  PtxCode code_;
  std::vector<ResolvedInstruction> drafts_;
  std::vector<std::string> texts_;
  std::vector<VirtualRegister> registers_;
  std::vector<std::uint32_t> owner_;   // of each virtual plane: a register
  std::vector<std::uint32_t> labels_;  // index of an instruction
  std::map<std::pair<std::uint64_t, std::uint32_t>, PlaneRef> constants_;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> dynamic_;  // constant planes, offset
  std::vector<std::vector<std::uint32_t>> bundles_;               // registers that lie side by side
  std::vector<std::pair<std::uint32_t, std::uint64_t>> hidden_;   // the same
  std::uint32_t hidden_bytes_ = 0;
  PredicateRef guard_;
  Instruction current_;
  std::string current_text_;
};

}  // namespace heddle::ptx

// From instructions in virtual registers to code that runs: their order, their registers, and what each needs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ptx/ptx_code.h"

namespace heddle::ptx {

// A register as instructions name it before it has its place: `planes` behind each other from the virtual plane
// `first` on. A predicate has one as well: nothing is in it, but the time from which the predicate may be read.
struct VirtualRegister {
  std::uint32_t first = 0;
  std::uint32_t planes = 1;
  bool predicate = false;
};

// Instructions whose branches have their targets. Predicates are known by their registers.
struct DraftCode {
  std::vector<ResolvedInstruction> instructions;
  std::vector<std::string> texts;
  std::vector<VirtualRegister> registers;
  std::vector<std::uint32_t> owner;                 // of each virtual plane: a register
  std::vector<std::vector<std::uint32_t>> bundles;  // registers of one plane each that come to lie side by side
};

class CodeFinisher {
 public:
  CodeFinisher(PtxCode code, DraftCode drafts) : code_(std::move(code)), of_(std::move(drafts)) {}

  // Throws InputError for code that needs more registers than a warp has.
  PtxCode run();

 private:
  void reorder();
  void sink_free_instructions();
  void choose_waits();
  bool tries_again(std::uint32_t first) const;
  void charge_ends_of_blocks();
  void allocate();
  void note_needs();

  PtxCode code_;
  DraftCode of_;
};

}  // namespace heddle::ptx

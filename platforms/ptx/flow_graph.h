// The flow of control of an entry's instructions: blocks, the order in which paths go through them, and which registers
// are alive.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ptx/ptx_code.h"

namespace heddle::ptx {

// What an instruction does to registers, by number.
struct RegisterUse {
  std::vector<std::uint32_t> reads;
  std::vector<std::uint32_t> writes;
  bool whole = true;  // what was in the registers that it writes does not matter any more
};

struct FlowBlock {
  std::uint32_t begin = 0;  // instructions
  std::uint32_t end = 0;
  std::vector<std::uint32_t> next;  // blocks
  std::vector<std::uint32_t> previous;
  std::uint32_t rank = 0;   // before all that is behind it but for branches back
  std::uint32_t depth = 0;  // loops around it
  bool reached = false;
};

class FlowGraph {
 public:
  // Targets are indices of instructions; the last one ends all lanes.
  FlowGraph(const std::vector<ResolvedInstruction>& code, const std::vector<std::vector<std::uint32_t>>& tables);

  const std::vector<FlowBlock>& blocks() const { return blocks_; }
  std::uint32_t block_of(std::uint32_t instruction) const { return block_of_[instruction]; }
  // The branch from one block to another leads back to the head of a loop; `body` becomes its blocks.
  bool is_back(std::uint32_t from, std::uint32_t to) const { return blocks_[to].rank <= blocks_[from].rank; }
  std::vector<std::uint32_t> loop_of(std::uint32_t from, std::uint32_t head) const;

  // Of each block, by register: 1 for those whose value is needed behind it.
  std::vector<std::vector<std::uint8_t>> alive_behind(std::uint32_t registers,
                                                      const std::vector<RegisterUse>& uses) const;

 private:
  void find_dominators();
  void find_loops();
  void order();
  bool dominates(std::uint32_t a, std::uint32_t b) const;
  std::vector<std::uint32_t> postorder(bool by_depth) const;

  std::vector<FlowBlock> blocks_;
  std::vector<std::uint32_t> block_of_;
  std::vector<std::uint32_t> dominator_;  // immediate, by block
  std::vector<std::uint32_t> number_;     // in postorder
};

// In which order an assembler would put the instructions of a block: those first on which most depends.
struct OrderedInstruction {
  enum class Memory : std::uint8_t {
    none,
    reads,    // in any order with other reads, in order with writes
    writes,   // in order with all accesses
    gathers,  // lanes exchange something: in order with its like
    all,      // nothing passes it
  };
  RegisterUse use;
  std::uint32_t latency = 0;  // cycles until what depends on it can follow
  Memory memory = Memory::none;
};

// The order of instructions [begin, end), as indices, so that each comes behind all that it depends on. `planes`: of
// each register. No order needs many more planes at a time than the given one.
std::vector<std::uint32_t> order_of(const std::vector<OrderedInstruction>& instructions, std::uint32_t begin,
                                    std::uint32_t end, const std::vector<std::uint32_t>& planes);

}  // namespace heddle::ptx

// What instructions of registers cost: which unit of an SM they take, and how often.
//
// A unit's pace and latency are the SM's parameters (gpu.sm.issue); here is how many of its instructions an instruction
// of PTX becomes. They work on 32 bits, so that one of 64 bits takes several.
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/alu.h"
#include "ptx/ptx_code.h"

namespace heddle::ptx {

struct AluCost {
  arch::Unit unit = arch::Unit::none;
  std::uint16_t count = 1;  // instructions of the machine
  bool free = false;        // an assembler folds it into others
};

AluCost cost_of(const AluForm& form);

// Of exchanges between lanes, in instructions of the pipe of integers, which has 64 lanes per SM: as the CUDA
// programming guide's rates of compute capability 9.0 say, 32 results of a shuffle per cycle and SM, 64 of a vote, 16
// of a reduction.
constexpr std::uint16_t kShuffleCost = 2;
constexpr std::uint16_t kVoteCost = 1;
constexpr std::uint16_t kReduceCost = 4;

// What an assembler takes instructions to need until their result is there, in cycles. Assumptions, near to the
// defaults of gpu.sm: they decide on an order only.
std::uint32_t expected_latency(const ResolvedInstruction& instruction, const std::vector<AccessForm>& accesses);

}  // namespace heddle::ptx

// What instructions of registers cost: which unit of an SM they take, and how often.
//
// A unit's pace and latency are the SM's parameters (gpu.sm.issue); here is how many of its instructions an instruction
// of PTX becomes. They work on 32 bits, so that one of 64 bits takes several.
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/lane_alu.h"
#include "ptx/ptx_code.h"

namespace heddle::ptx {

struct AluCost {
  arch::Unit unit = arch::Unit::none;
  std::uint16_t count = 1;  // instructions of the machine
  bool free = false;        // an assembler folds it into others
};

AluCost cost_of(const AluForm& form);

// Instructions of sequences that an assembler writes for what no unit has. Assumptions: what Newton's method, or long
// division in steps, takes from the estimate of the sfu to a correctly rounded result.
constexpr std::uint16_t kDivideF32 = 8;
constexpr std::uint16_t kDivideF64 = 12;
constexpr std::uint16_t kDivide32 = 16;
constexpr std::uint16_t kDivide64 = 64;

// Of exchanges between lanes, in instructions of the pipe of integers, which has 64 lanes per SM: as the CUDA
// programming guide's rates of compute capability 9.0 say, 32 results of a shuffle per cycle and SM, 64 of a vote, 16
// of a reduction.
constexpr std::uint16_t kShuffleCost = 2;
constexpr std::uint16_t kVoteCost = 1;
constexpr std::uint16_t kReduceCost = 4;

// Cycles of a tensor core for a product of matrices.
std::uint16_t matrix_cost(const MmaForm& form);

// What an assembler takes instructions to need until their result is there, in cycles. Assumptions, near to the
// defaults of gpu.sm: they decide on an order only.
constexpr std::uint32_t kExpectedAccess = 32;
constexpr std::uint32_t kExpectedSpecial = 10;
std::uint32_t expected_latency(const ResolvedInstruction& instruction, const std::vector<AccessForm>& accesses);

}  // namespace heddle::ptx

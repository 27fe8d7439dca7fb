// What a step of a program asks the tensor memory access unit for: a request with expressions in place of numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/bulk.h"

namespace heddle::workload {

// Where the value of an expression goes.
enum class BulkField : std::uint8_t {
  descriptor,
  coordinate,  // of dimension `index`
  offset,      // im2col, of dimension `index` + 1
  global,
  to,
  bytes,
  shared,
  destination,
  barrier,
  multicast,
  data_cta,     // and barrier_cta
  barrier_cta,  // alone
};

struct BulkOperand {
  BulkField field = BulkField::descriptor;
  std::uint32_t index = 0;
  std::uint32_t expression = 0;
};

struct BulkStep {
  arch::BulkRequest request;  // what is the same for all
  std::uint32_t rank = 1;     // of the tensor
  std::vector<BulkOperand> operands;
};

// No cluster has a CTA with that number: what is no number of a CTA becomes it.
constexpr std::uint32_t kNoCta = 254;
// No memory has so many blocks: what is no number of blocks becomes it.
constexpr std::uint64_t kTooManyBlocks = std::uint64_t{1} << 50;

// The operand's value into the request. A value that nothing can have stays one: it must never become another address.
void set_operand(const BulkStep& step, const BulkOperand& operand, double value, arch::BulkRequest& request);

}  // namespace heddle::workload

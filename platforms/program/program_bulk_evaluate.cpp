// Values of the requests to the tensor memory access unit, for each lane.
#include <algorithm>
#include <cmath>
#include <limits>

#include "program/program_bulk.h"
#include "scenario/scenario_program.h"

namespace heddle::workload {
namespace {

using arch::BulkRequest;

std::uint64_t address_of(double value) {
  return value > -1 && value < 0x1p63 ? static_cast<std::uint64_t>(value) : kNowhere;
}

// Beyond every shared memory, and a multiple of 16.
std::uint32_t offset_of(double value) {
  constexpr std::uint32_t kBeyond = 0xFFFF'FFF0;
  return value > -1 && value < kBeyond ? static_cast<std::uint32_t>(value) : kBeyond;
}

// Coordinates may lie outside the tensor: what 32 bits do not hold is as far outside as can be.
std::int32_t coordinate_of(double value) {
  using Range = std::numeric_limits<std::int32_t>;
  if (!(value > Range::min())) return Range::min();
  return value < Range::max() ? static_cast<std::int32_t>(value) : Range::max();
}

std::uint64_t blocks_of(double bytes) {
  if (!(bytes >= 0) || bytes >= 0x1p54 || std::fmod(bytes, arch::kBulkBlock) != 0) return kTooManyBlocks;
  return static_cast<std::uint64_t>(bytes) / arch::kBulkBlock;
}

std::uint32_t cta_of(double value) { return value > -1 && value < kNoCta ? static_cast<std::uint32_t>(value) : kNoCta; }

void set_mask(double value, BulkRequest& request) {
  if (value > -1 && value < 0x1p16) {
    request.multicast = static_cast<std::uint16_t>(value);
  } else {
    request.data_cta = kNoCta;
  }
}

}  // namespace

void set_operand(const BulkStep& step, const BulkOperand& operand, double value, BulkRequest& request) {
  switch (operand.field) {
    case BulkField::descriptor:
      request.descriptor = address_of(value);
      return;
    case BulkField::coordinate:
      request.coordinates[operand.index] = coordinate_of(value);
      return;
    case BulkField::offset: {
      // The instruction has no more bits than these.
      const std::uint32_t bits = arch::offset_bits(step.rank);
      const std::uint64_t offset = whole_bits(value) & ((1U << bits) - 1);
      request.offsets = static_cast<std::uint16_t>(request.offsets | offset << (bits * operand.index));
      return;
    }
    case BulkField::global:
      request.global = address_of(value);
      return;
    case BulkField::to:
      request.to = address_of(value);
      return;
    case BulkField::bytes:
      request.blocks = blocks_of(value);
      return;
    case BulkField::shared:
      request.shared = offset_of(value);
      return;
    case BulkField::destination:
      request.destination = offset_of(value);
      return;
    case BulkField::barrier:
      request.barrier = offset_of(value);
      return;
    case BulkField::multicast:
      return set_mask(value, request);
    case BulkField::data_cta:
      request.data_cta = request.barrier_cta = cta_of(value);
      return;
    case BulkField::barrier_cta:
      request.barrier_cta = cta_of(value);
      return;
  }
}

void ScenarioProgram::bulk(const arch::WarpPlace& place, const arch::WarpState& state, const ProgramStep& now,
                           arch::Operation& operation) const {
  const BulkStep& step = parts_.bulk[now.bulk];
  const auto count = static_cast<std::size_t>(__builtin_popcount(operation.lanes));
  operation.bulk.assign(count, step.request);
  Lanes values{};
  for (const BulkOperand& operand : step.operands) {
    if (parts_.expressions[operand.expression].uniform()) {
      const double value = shared_value(place, state, operand.expression);
      for (BulkRequest& request : operation.bulk) set_operand(step, operand, value, request);
      continue;
    }
    lane_values(place, state, operand.expression, operation.lanes, values);
    auto request = operation.bulk.begin();
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      if ((operation.lanes >> lane & 1U) != 0) set_operand(step, operand, values[lane], *request++);
    }
  }
}

}  // namespace heddle::workload

#include "program/program_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "arch/address_map.h"
#include "arch/tensor_data.h"
#include "program/expression.h"

namespace heddle::program {

using arch::kWarpLanes;
using arch::LaneMask;
using arch::PerLane;
using arch::ValueType;
using arch::WarpPlace;
using arch::WarpState;

namespace {

std::int64_t sign_extended(std::uint64_t bits, unsigned width) {
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  return static_cast<std::int64_t>((bits ^ sign) - sign);
}

std::uint64_t low_bits(std::uint64_t bits, unsigned width) {
  return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

// Rounded to odd, so that a second rounding, to 16 bits, gives what one rounding of the double would.
float odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  if (!std::isfinite(nearest) || static_cast<double>(nearest) == value) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const float cut = away ? std::nextafter(nearest, 0.0F) : nearest;
  return arch::float_of(arch::bits_of(cut) | 1U);
}

std::uint64_t bits_of_double(double value) {
  if (std::isnan(value)) return arch::kNanF64;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint64_t raw_bits(const WarpState& state, const ProgramVariable& variable, std::uint32_t lane) {
  std::uint64_t bits = state.of(variable.first)[lane];
  if (variable.registers() == 2) {
    bits |= std::uint64_t{state.of(static_cast<std::uint16_t>(variable.first + 1))[lane]} << 32;
  }
  const unsigned width = 8 * arch::bytes_of(variable.type);
  bits >>= variable.shift;
  return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

double shared_slot(const ProgramSlot& slot, const WarpPlace& place, const WarpState& state) {
  switch (slot.source) {
    case SlotSource::cta_x:
      return place.cta_x;
    case SlotSource::cta_y:
      return place.cta_y;
    case SlotSource::cta_z:
      return place.cta_z;
    case SlotSource::cta:
      return static_cast<double>(place.cta);
    case SlotSource::cluster:
      return static_cast<double>(place.cluster);
    case SlotSource::rank:
      return place.rank;
    case SlotSource::cluster_size:
      return place.cluster_size;
    case SlotSource::cluster_x:
      return place.cluster_shape.x;
    case SlotSource::cluster_y:
      return place.cluster_shape.y;
    case SlotSource::cluster_z:
      return place.cluster_shape.z;
    case SlotSource::grid:
      return static_cast<double>(place.grid.count());
    case SlotSource::grid_x:
      return place.grid.x;
    case SlotSource::grid_y:
      return place.grid.y;
    case SlotSource::grid_z:
      return place.grid.z;
    case SlotSource::block:
      return static_cast<double>(place.block.count());
    case SlotSource::block_x:
      return place.block.x;
    case SlotSource::block_y:
      return place.block.y;
    case SlotSource::block_z:
      return place.block.z;
    case SlotSource::workgroup:
      return static_cast<double>(place.workgroup.count());
    case SlotSource::workgroup_x:
      return place.workgroup.x;
    case SlotSource::workgroup_y:
      return place.workgroup.y;
    case SlotSource::workgroup_z:
      return place.workgroup.z;
    case SlotSource::warps:
      return place.warps;
    case SlotSource::kernarg:
      return static_cast<double>(place.kernarg);
    case SlotSource::warp:
      return place.warp;
    default:
      return static_cast<double>(state.scalars[slot.index]);
  }
}

double item(std::uint32_t cta, std::uint32_t workgroup, std::uint32_t thread) {
  return static_cast<double>(std::uint64_t{cta} * workgroup + thread);
}

bool in_rows(const arch::Dim3& block) { return block.x % kWarpLanes == 0 || block.count() == block.x; }

double lane_slot(const ProgramSlot& slot, const WarpPlace& place, const WarpState& state, std::uint32_t lane) {
  const std::uint32_t thread = place.warp * kWarpLanes + lane;
  switch (slot.source) {
    case SlotSource::lane:
      return lane;
    case SlotSource::thread:
      return thread;
    case SlotSource::thread_x:
      return thread % place.block.x;
    case SlotSource::thread_y:
      return thread / place.block.x % place.block.y;
    case SlotSource::thread_z:
      return thread / place.block.x / place.block.y;
    case SlotSource::item_x:
      return item(place.cta_x, place.workgroup.x, thread % place.block.x);
    case SlotSource::item_y:
      return item(place.cta_y, place.workgroup.y, thread / place.block.x % place.block.y);
    case SlotSource::item_z:
      return item(place.cta_z, place.workgroup.z, thread / place.block.x / place.block.y);
    default:
      return number_of(slot.variable.type, raw_bits(state, slot.variable, lane));
  }
}

// All values from three of them. False where doubles may have lost bits on the way.
bool affine_values(double first, double second, double last, PerLane<double>& results) {
  const double step = second - first;
  constexpr double kExact = 0x1p52;
  if (!(std::fabs(first) < kExact && std::fabs(last) < kExact) || last != first + (kWarpLanes - 1) * step) return false;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) results[lane] = first + lane * step;
  return true;
}

// The whole part, or what is given instead where that is not from 0 to `limit` - 1.
std::uint32_t whole_below(double value, double limit, std::uint32_t otherwise) {
  return value > -1 && value < limit ? static_cast<std::uint32_t>(value) : otherwise;
}

// What no CGA and no shared memory has stays so: it must never become another address.
std::uint64_t cluster_address(double rank, double offset, std::uint32_t width) {
  constexpr std::uint32_t kRanks = 1U << (32 - arch::kDsmemOffsetBits);
  return arch::dsmem_address(whole_below(rank, kRanks, kRanks - 1),
                             whole_below(offset, arch::kDsmemOffsets, arch::kDsmemOffsets - width));
}

std::uint64_t address_of(double value) { return std::isfinite(value) ? whole_bits(value) : kNowhere; }

}  // namespace

const std::vector<ValueType>& scalar_types() {
  static const std::vector<ValueType> kTypes{ValueType::u8,  ValueType::s8,   ValueType::u16, ValueType::s16,
                                             ValueType::f16, ValueType::bf16, ValueType::u32, ValueType::s32,
                                             ValueType::f32, ValueType::u64,  ValueType::s64, ValueType::f64};
  return kTypes;
}

std::optional<ValueType> scalar_type(const std::string& name) {
  for (const ValueType type : scalar_types()) {
    if (name == arch::type_name(type)) return type;
  }
  return std::nullopt;
}

bool is_float(ValueType type) {
  switch (type) {
    case ValueType::f16:
    case ValueType::bf16:
    case ValueType::f32:
    case ValueType::f64:
    case ValueType::f16x2:
    case ValueType::bf16x2:
      return true;
    default:
      return false;
  }
}

double number_of(ValueType type, std::uint64_t bits) {
  const unsigned width = 8 * arch::bytes_of(type);
  switch (type) {
    case ValueType::s8:
    case ValueType::s16:
    case ValueType::s32:
    case ValueType::s64:
      return static_cast<double>(sign_extended(low_bits(bits, width), width));
    case ValueType::f16:
      return static_cast<double>(arch::float_of_f16(static_cast<std::uint16_t>(bits)));
    case ValueType::bf16:
      return static_cast<double>(arch::float_of_bf16(static_cast<std::uint16_t>(bits)));
    case ValueType::f32:
      return static_cast<double>(arch::float_of(static_cast<std::uint32_t>(bits)));
    case ValueType::f64: {
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default:
      return static_cast<double>(low_bits(bits, width));
  }
}

std::uint64_t bits_of(ValueType type, double value) {
  switch (type) {
    case ValueType::f16:
      return arch::f16_of(odd_float(value));
    case ValueType::bf16:
      return arch::bf16_of(odd_float(value));
    case ValueType::f32:
      return std::isnan(value) ? arch::kNanF32 : arch::bits_of(static_cast<float>(value));
    case ValueType::f64:
      return bits_of_double(value);
    default:
      return low_bits(whole_bits(value), 8 * arch::bytes_of(type));
  }
}

double WarpValues::uniform(std::uint32_t expression) const {
  const ProgramExpression& code = parts_.expressions[expression];
  for (const BoundSlot& slot : code.shared) *slot.value = shared_slot(slot.source, place_, state_);
  return code.expression.value();
}

void WarpValues::of_lanes(std::uint32_t expression, LaneMask lanes, Lanes& results) const {
  const ProgramExpression& code = parts_.expressions[expression];
  if (code.uniform()) {
    results.fill(uniform(expression));
    return;
  }
  for (const BoundSlot& slot : code.shared) *slot.value = shared_slot(slot.source, place_, state_);
  const auto value = [&](std::uint32_t lane) {
    for (const BoundSlot& slot : code.per_lane) *slot.value = lane_slot(slot.source, place_, state_, lane);
    return code.expression.value();
  };
  const bool affine = code.affine || (code.affine_in_rows && in_rows(place_.block));
  if (affine && affine_values(value(0), value(1), value(kWarpLanes - 1), results)) return;
  // Not in muParser's bulk mode: it may start threads, which cost more than 32 evaluations do.
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1U) != 0) results[lane] = value(lane);
  }
}

LaneMask WarpValues::condition(std::uint32_t expression, LaneMask lanes) const {
  if (parts_.expressions[expression].uniform()) return uniform(expression) != 0 ? lanes : 0;
  Lanes values{};
  of_lanes(expression, lanes, values);
  LaneMask result = 0;
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if (values[lane] != 0) result |= LaneMask{1} << lane;
  }
  return result & lanes;
}

void WarpValues::addresses(std::uint32_t expression, LaneMask lanes, PerLane<std::uint64_t>& results) const {
  if (parts_.expressions[expression].uniform()) {
    results.fill(address_of(uniform(expression)));
    return;
  }
  Lanes values{};
  of_lanes(expression, lanes, values);
  std::transform(values.begin(), values.end(), results.begin(), address_of);
}

void WarpValues::cluster_addresses(const ProgramStep& step, LaneMask lanes, PerLane<std::uint64_t>& results) const {
  Lanes ranks{};
  Lanes offsets{};
  of_lanes(step.rank, lanes, ranks);
  of_lanes(step.at, lanes, offsets);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    results[lane] = cluster_address(ranks[lane], offsets[lane], step.width);
  }
}

void WarpValues::bits(const ProgramValue& value, ValueType type, LaneMask lanes,
                      PerLane<std::uint64_t>& results) const {
  if (!value.expression) {
    const bool same = value.variable.type == type;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const std::uint64_t raw = raw_bits(state_, value.variable, lane);
      results[lane] = same ? raw : bits_of(type, number_of(value.variable.type, raw));
    }
    return;
  }
  Lanes values{};
  of_lanes(*value.expression, lanes, values);
  for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if ((lanes >> lane & 1U) != 0) results[lane] = bits_of(type, values[lane]);
  }
}

}  // namespace heddle::program

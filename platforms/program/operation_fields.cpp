// Fields of operations, from what expressions give.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/bits.h"
#include "program/program_values.h"

namespace heddle::program {
namespace {

using arch::BulkRequest;
using arch::Operation;

// No cluster has a CTA with that number: what is no number of a CTA becomes it.
constexpr std::uint32_t kBeyondWord = ~std::uint32_t{0};
// No memory has so many blocks: what is no number of blocks becomes it.
constexpr std::uint64_t kTooManyBlocks = std::uint64_t{1} << 50;

// Offsets in shared memory have 32 bits; what does not fit is beyond every allocation.
std::uint32_t offset_of(std::uint64_t address) {
  constexpr std::uint32_t kBeyond = 0xFFFF'FFF0;
  return address > kBeyond ? kBeyond : static_cast<std::uint32_t>(address);
}
std::uint32_t offset_of(double value) {
  return offset_of(std::isfinite(value) ? whole_bits(value) : ~std::uint64_t{0});
}

// Where lane l's registers 2 i and 2 i + 1 lie in the tile: as MatmulTile says.
std::uint64_t tile_offset(const ProgramStep& step, std::uint32_t lane) {
  return std::uint64_t{lane / 4 + step.tile_row} * step.pitch +
         std::uint64_t{2 * (lane % 4) + step.tile_column} * arch::bytes_of(step.element);
}

std::uint64_t global_address(double value) {
  return value > -1 && value < 0x1p63 ? static_cast<std::uint64_t>(value) : kNowhere;
}

// Beyond every shared memory, and a multiple of 16.
std::uint32_t block_offset(double value) {
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

std::uint32_t cta_of(double value) {
  return value > -1 && value < 0x1p32 ? static_cast<std::uint32_t>(value) : kBeyondWord;
}

// The operand's value into the request. A value that nothing can have stays one: it must never become another address.
void set_operand(const BulkStep& step, const BulkOperand& operand, double value, BulkRequest& request) {
  switch (operand.field) {
    case BulkField::descriptor:
      request.descriptor = global_address(value);
      return;
    case BulkField::coordinate:
      request.coordinates[operand.index] = coordinate_of(value);
      return;
    case BulkField::offset: {
      const std::uint32_t bits = step.wide ? (operand.index == 0 ? 5 : 9) : arch::offset_bits(step.rank);
      const std::uint32_t shift = (step.wide ? 5 : bits) * operand.index;
      const std::uint64_t offset = whole_bits(value);
      request.offsets_cut |= offset >> bits != 0;
      request.offsets = static_cast<std::uint16_t>(request.offsets | (offset & ((1U << bits) - 1)) << shift);
      return;
    }
    case BulkField::global:
      request.global = global_address(value);
      return;
    case BulkField::to:
      request.to = global_address(value);
      return;
    case BulkField::bytes:
      request.blocks = blocks_of(value);
      return;
    case BulkField::shared:
      request.shared = block_offset(value);
      return;
    case BulkField::destination:
      request.destination = block_offset(value);
      return;
    case BulkField::barrier:
      request.barrier = block_offset(value);
      return;
    case BulkField::multicast:
      request.multicast = cta_of(value);
      return;
    case BulkField::data_cta:
      request.data_cta = request.barrier_cta = cta_of(value);
      return;
    case BulkField::barrier_cta:
      request.barrier_cta = cta_of(value);
      return;
  }
}

// `bulk`, for requests to the tensor memory access unit.
void fill_bulk(const WarpValues& values, const ProgramStep& now, Operation& operation) {
  const BulkStep& step = values.parts().bulk[*now.bulk];
  const auto count = std::size_t{bits::count(operation.lanes)};
  operation.bulk.assign(count, step.request);
  WarpValues::Lanes lanes{};
  for (const BulkOperand& operand : step.operands) {
    if (values.is_uniform(operand.expression)) {
      const double value = values.uniform(operand.expression);
      for (BulkRequest& request : operation.bulk) set_operand(step, operand, value, request);
      continue;
    }
    values.of_lanes(operand.expression, operation.lanes, lanes);
    auto request = operation.bulk.begin();
    bits::for_each(operation.lanes, [&](std::uint32_t lane) { set_operand(step, operand, lanes[lane], *request++); });
  }
}

// `children`, or `entries`.
void fill_children(const WarpValues& values, const ProgramStep& now, Operation& operation) {
  const ChildStep& step = values.parts().children[*now.child];
  const auto count = std::size_t{bits::count(operation.lanes)};
  const bool append = now.code != arch::OpCode::launch_child;
  arch::QueueAppend entry;
  entry.queue = step.queue;
  operation.children.assign(append ? 0 : count, step.launch);
  operation.entries.assign(append ? count : 0, entry);
  // `use` gets the place in the list of each lane that takes part, and the lane.
  const auto each = [&](auto use) {
    std::size_t next = 0;
    bits::for_each(operation.lanes, [&](std::uint32_t lane) { use(next++, lane); });
  };
  WarpValues::Lanes numbers{};
  std::uint32_t arch::ChildLaunch::*const extents[] = {&arch::ChildLaunch::grid_x, &arch::ChildLaunch::grid_y,
                                                       &arch::ChildLaunch::grid_z};
  for (std::size_t axis = 0; axis < step.grid.size(); ++axis) {
    if (!step.grid[axis]) continue;
    values.of_lanes(*step.grid[axis], operation.lanes, numbers);
    each([&](std::size_t i, std::uint32_t lane) {
      operation.children[i].*extents[axis] = whole_below(numbers[lane], 0x1p32, 0);
    });
  }
  if (step.stream) {
    values.of_lanes(*step.stream, operation.lanes, numbers);
    each([&](std::size_t i, std::uint32_t lane) {
      operation.children[i].stream = whole_below(numbers[lane], 0x1p32, ~0U);
    });
  }
  arch::PerLane<std::uint64_t> words{};
  for (std::size_t word = 0; word < step.values.size(); ++word) {
    values.bits(step.values[word], arch::ValueType::u64, operation.lanes, words);
    each([&](std::size_t i, std::uint32_t lane) {
      (append ? operation.entries[i].data[word] : operation.children[i].args[word]) = words[lane];
    });
  }
}

// A number that 32 bits do not hold is too large for every mbarrier.
void fill_numbers(const WarpValues& values, const ProgramStep& step, Operation& operation) {
  WarpValues::Lanes numbers{};
  for (auto& words : operation.data) words = {};
  for (std::size_t i = 0; i < step.values.size(); ++i) {
    values.of_lanes(*step.values[i].expression, operation.lanes, numbers);
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      operation.data[lane][i] = whole_below(numbers[lane], 0x1p32, 0xFFFF'FFFF);
    }
  }
}

// Values side by side, as they will lie in memory.
void fill_stored(const WarpValues& values, const ProgramStep& step, Operation& operation) {
  const std::uint32_t bytes = step.width / static_cast<std::uint32_t>(step.values.size());
  const arch::LaneMask lanes = operation.lanes;
  for (auto& words : operation.data) words = {};
  arch::PerLane<std::uint64_t> stored{};
  std::uint32_t offset = 0;
  for (const ProgramValue& value : step.values) {
    values.bits(value, step.element, lanes, stored);
    bits::for_each(lanes, [&](std::uint32_t lane) {
      std::array<std::uint32_t, 4>& words = operation.data[lane];
      words[offset / 4] |= static_cast<std::uint32_t>(stored[lane] << 8 * (offset % 4));
      if (bytes == 8) words[offset / 4 + 1] = static_cast<std::uint32_t>(stored[lane] >> 32);
    });
    offset += bytes;
  }
}

void fill_address(const WarpValues& values, const ProgramStep& step, Operation& operation) {
  if (step.space == arch::Space::cluster) {
    values.cluster_addresses(step, operation.lanes, operation.address);
  } else {
    values.addresses(step.at, operation.lanes, operation.address);
  }
  if (step.pitch == 0) return;
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if (operation.address[lane] != kNowhere) operation.address[lane] += tile_offset(step, lane);
  }
}

void fill_copied(const WarpValues& values, const ProgramStep& step, Operation& operation) {
  arch::PerLane<std::uint64_t> to{};
  values.addresses(step.to, operation.lanes, to);
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) operation.shared_address[lane] = offset_of(to[lane]);
  values.addresses(step.at, operation.lanes, operation.address);
}

void fill_tile(const WarpValues& values, const ProgramStep& step, Operation& operation) {
  operation.tile = step.tile;
  operation.tile.a = offset_of(values.uniform(step.at));
  operation.tile.b = offset_of(values.uniform(step.to));
}

}  // namespace

void fill_fields(const WarpValues& values, const ProgramStep& step, Operation& operation) {
  if (step.bulk) return fill_bulk(values, step, operation);
  if (step.child) return fill_children(values, step, operation);
  const unsigned fields = step.fields;
  if ((fields & kStored) != 0) fill_stored(values, step, operation);
  if ((fields & kNumbers) != 0) fill_numbers(values, step, operation);
  if ((fields & kCompared) != 0) values.bits(step.compare, step.element, operation.lanes, operation.compare);
  if ((fields & kAddress) != 0) fill_address(values, step, operation);
  if ((fields & kCopied) != 0) fill_copied(values, step, operation);
  if ((fields & kTile) != 0) fill_tile(values, step, operation);
  if ((fields & kBarrier) != 0) operation.barrier = offset_of(values.uniform(step.to));
}

}  // namespace heddle::program

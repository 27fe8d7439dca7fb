#include "sm/alu.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "arch/tensor_data.h"
#include "common/bits.h"
#include "common/error.h"
#include "sm/cta_table.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

using arch::kMaxTileColumns;
using arch::kSwizzleUnit;
using arch::kTileRows;
using arch::kWarpLanes;
using arch::MatmulTile;
using arch::Swizzle;
using arch::SwizzleTable;

namespace {

std::size_t index_of(arch::Unit unit) { return static_cast<std::size_t>(unit); }

// Elements of A and B are converted in steps of this many k.
constexpr std::uint32_t kStep = 16;

using Row = std::array<float, kMaxTileColumns>;

struct Operands {
  std::array<std::array<float, kStep>, kTileRows> a;  // [row][k]
  std::array<Row, kStep> b;                           // [k][column]
};

struct F16 {
  static float value(std::uint16_t bits) { return arch::float_of_f16(bits); }
};
struct Bf16 {
  static float value(std::uint16_t bits) { return arch::float_of_bf16(bits); }
};

template <class Type>
void convert(const std::uint8_t* bytes, std::uint32_t count, float* to) {
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + std::size_t{2} * i, 2);
    to[i] = Type::value(bits);
  }
}

// `count` elements from that offset on, which lie side by side but for the swizzle. Swizzled, offsets are multiples of
// 16 bytes.
template <class Type>
void take(const SwizzleTable& swizzles, Swizzle swizzle, const std::uint8_t* shared, std::uint32_t at,
          std::uint32_t count, float* to) {
  if (swizzle == Swizzle::none) return convert<Type>(shared + at, count, to);
  const std::uint32_t elements = arch::swizzle_grain(swizzle) / 2;
  for (std::uint32_t i = 0; i < count; i += elements) {
    convert<Type>(shared + swizzles(swizzle, at + 2 * i), elements, to + i);
  }
}

template <class Type>
void fetch(const MatmulTile& tile, const SwizzleTable& swizzles, const std::uint8_t* shared, std::uint32_t k,
           Operands& operands) {
  const arch::TileRows a = arch::rows_of_a(tile);
  const arch::TileRows b = arch::rows_of_b(tile);
  const auto offset = [](std::uint64_t at) { return static_cast<std::uint32_t>(at); };
  for (std::uint32_t row = 0; row < kTileRows; ++row) {
    take<Type>(swizzles, tile.a_swizzle, shared, offset(a.at(row) + 2 * k), kStep, operands.a[row].data());
  }
  if (!tile.b_transposed) {
    for (std::uint32_t i = 0; i < kStep; ++i) {
      take<Type>(swizzles, tile.b_swizzle, shared, offset(b.at(k + i)), tile.n, operands.b[i].data());
    }
    return;
  }
  for (std::uint32_t column = 0; column < tile.n; ++column) {
    std::array<float, kStep> values;
    take<Type>(swizzles, tile.b_swizzle, shared, offset(b.at(column) + 2 * k), kStep, values.data());
    for (std::uint32_t i = 0; i < kStep; ++i) operands.b[i][column] = values[i];
  }
}

// sum += a[i] * b[i], one i after the other. Columns are independent of each other.
void multiply(const std::array<float, kStep>& a, const std::array<Row, kStep>& b, std::uint32_t n, float* sum) {
  for (std::uint32_t i = 0; i < kStep; i += 4) {
    const float a0 = a[i];
    const float a1 = a[i + 1];
    const float a2 = a[i + 2];
    const float a3 = a[i + 3];
    const float* b0 = b[i].data();
    const float* b1 = b[i + 1].data();
    const float* b2 = b[i + 2].data();
    const float* b3 = b[i + 3].data();
    for (std::uint32_t j = 0; j < n; ++j) {
      sum[j] = (((sum[j] + a0 * b0[j]) + a1 * b1[j]) + a2 * b2[j]) + a3 * b3[j];
    }
  }
}

// Where register i of a lane lies in D (arch::MatmulTile).
std::uint32_t row_of(std::uint32_t i, std::uint32_t lane) { return lane / 4 + 8 * (i / 2 % 2); }
std::uint32_t column_of(std::uint32_t i, std::uint32_t lane) { return 8 * (i / 4) + 2 * (lane % 4) + i % 2; }

template <class Type>
void run(const MatmulTile& tile, const SwizzleTable& swizzles, const std::uint8_t* shared,
         std::uint32_t* accumulators) {
  std::array<Row, kTileRows> sums;
  for (std::uint32_t i = 0; i < tile.n / 2; ++i) {
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      sums[row_of(i, lane)][column_of(i, lane)] = arch::float_of(accumulators[i * kWarpLanes + lane]);
    }
  }
  Operands operands;
  for (std::uint32_t k = 0; k < tile.k; k += kStep) {
    fetch<Type>(tile, swizzles, shared, k, operands);
    for (std::uint32_t row = 0; row < kTileRows; ++row) {
      multiply(operands.a[row], operands.b, tile.n, sums[row].data());
    }
  }
  for (std::uint32_t i = 0; i < tile.n / 2; ++i) {
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const float sum = sums[row_of(i, lane)][column_of(i, lane)];
      accumulators[i * kWarpLanes + lane] = std::isnan(sum) ? arch::kNanF32 : arch::bits_of(sum);
    }
  }
}

// Cycles of the core matrices of one operand: `rows` and `bytes` of each are multiples of 8 and 16.
std::uint64_t core_cycles(const SwizzleTable& swizzles, Swizzle swizzle, const arch::TileRows& its, std::uint32_t rows,
                          std::uint32_t bytes) {
  constexpr std::uint32_t kRows = 8;
  std::array<std::uint32_t, std::size_t{2} * kRows> units{};
  std::uint64_t cycles = 0;
  for (std::uint32_t row = 0; row < rows; row += kRows) {
    for (std::uint32_t byte = 0; byte < bytes; byte += kSwizzleUnit) {
      std::uint32_t count = 0;
      for (std::uint32_t i = 0; i < kRows; ++i) {
        const auto at = static_cast<std::uint32_t>(its.at(row + i) + byte);
        const std::uint32_t within = at % kSwizzleUnit;
        // Halves that are flipped stay in their unit.
        units[count++] = swizzles(swizzle, at - within) & ~(kSwizzleUnit - 1);
        if (within != 0) units[count++] = at - within + kSwizzleUnit;  // not aligned: it lies in two
      }
      cycles += arch::unit_cycles(units.data(), count);
    }
  }
  return cycles;
}

// One past the last byte of rows that each reach from a multiple of 16 to another one. Units stay in their row of 128
// bytes, so that the end lies in the last of these.
std::uint64_t rows_end(const SwizzleTable& swizzles, Swizzle swizzle, const arch::TileRows& its, std::uint32_t rows,
                       std::uint32_t bytes) {
  std::uint64_t end = 0;
  for (std::uint32_t row = 0; row < rows; ++row) end = std::max(end, its.at(row) + bytes);
  if (swizzle == Swizzle::none || end > ~std::uint32_t{0}) return end;
  const auto line = static_cast<std::uint32_t>(arch::line_of(end - 1));
  std::uint32_t highest = 0;
  for (std::uint32_t row = 0; row < rows; ++row) {
    const auto begin = static_cast<std::uint32_t>(its.at(row));
    for (std::uint32_t at = std::max(line, begin); at < begin + bytes; at += kSwizzleUnit) {
      highest = std::max(highest, (swizzles(swizzle, at) & ~(kSwizzleUnit - 1)) + kSwizzleUnit);
    }
  }
  return highest;
}

// A register of one level of CGAs.
std::uint64_t cga_register(const Cta& cta, arch::SpecialRegister which) {
  const std::size_t number =
      static_cast<std::size_t>(which) - static_cast<std::size_t>(arch::SpecialRegister::cpc_cga_id);
  const auto level = static_cast<arch::CgaLevel>(number / arch::kCgaRegisters);
  const arch::CgaPlace place =
      arch::cga_place(cta.code->grid, cta.code->cluster, cta.start.id.size, level, cta.start.id.cta);
  switch (number % arch::kCgaRegisters) {
    case 0:
      return place.id;
    case 1:
      return place.rank;
    case 2:
      return place.extents.count();
    case 3:
      return place.extents.x;
    case 4:
      return place.extents.y;
    default:
      return place.extents.z;
  }
}

}  // namespace

Alu::Alu(const UnitContext& context, WarpScheduler& scheduler) : SmUnit(context), scheduler_(scheduler) {
  interval_.fill(1);
  latency_.fill(1);
  const auto set = [this](arch::Unit unit, const UnitParams& its) {
    interval_[index_of(unit)] = (arch::kWarpLanes + its.lanes - 1) / its.lanes;
    latency_[index_of(unit)] = its.latency;
  };
  const IssueParams& issue = params_.issue;
  set(arch::Unit::fp32, issue.fp32);
  set(arch::Unit::int32, issue.int32);
  set(arch::Unit::fp64, issue.fp64);
  set(arch::Unit::sfu, issue.sfu);
  latency_[index_of(arch::Unit::tensor)] = std::max(1U, issue.tensor_latency);
}

IssueResult Alu::issue(std::uint32_t slot, const arch::Operation& operation) {
  if (operation.code == arch::OpCode::elect) return elect(slot, operation);
  if (operation.code == arch::OpCode::special) return read_special(slot, operation);
  Warp& warp = warps_[slot];
  warp.next = WarpNext::compute;
  warp.compute_left = std::max(1U, operation.count);
  warp.compute_latency = operation.latency + latency_[index_of(warp.unit)];
  return go_on(slot);
}

IssueResult Alu::go_on(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const Cycle cycle = now();
  const Cycle interval = interval_[index_of(warp.unit)];
  const bool turns = params_.issue.policy == WarpPolicy::round_robin;
  const bool company = turns && scheduler_.others_before(slot, cycle + warp.compute_left);
  const auto count = std::min<std::uint64_t>(warp.compute_left, company ? 1 : params_.issue.burst);
  scheduler_.occupy(slot, count, interval);
  stats_.instructions[index_of(warp.unit)]->add(count);
  stats_.charge(warp.kernel, KernelCount::instructions, count);
  warp.compute_left -= count;
  if (warp.compute_left > 0) {
    scheduler_.interrupt(slot, cycle + count * interval);
    return IssueResult::blocks();
  }
  warp.next = WarpNext::fetch;
  const Cycle last = cycle + (count - 1) * interval;
  return IssueResult::done(last + warp.compute_latency, last + 1);
}

// CGA-10.
std::uint64_t Alu::special(std::uint32_t slot, arch::SpecialRegister which) const {
  using arch::SpecialRegister;
  const Warp& warp = warps_[slot];
  const arch::WarpPlace& place = warp.place;
  const Cta& cta = ctas_[warp.cta];
  switch (which) {
    case SpecialRegister::clock:
      return now();
    case SpecialRegister::sm:
      return place_.id;
    case SpecialRegister::sms:
      return place_.sms;
    case SpecialRegister::warp_slot:
      return slot;
    case SpecialRegister::cta_slot:
      return warp.cta;
    case SpecialRegister::cta_id_x:
      return place.cta_x;
    case SpecialRegister::cta_id_y:
      return place.cta_y;
    case SpecialRegister::cta_id_z:
      return place.cta_z;
    case SpecialRegister::grid_x:
      return place.grid.x;
    case SpecialRegister::grid_y:
      return place.grid.y;
    case SpecialRegister::grid_z:
      return place.grid.z;
    case SpecialRegister::block_x:
      return place.block.x;
    case SpecialRegister::block_y:
      return place.block.y;
    case SpecialRegister::block_z:
      return place.block.z;
    case SpecialRegister::cga_id:
      return place.cluster;
    case SpecialRegister::cga_cta_id:
      return place.rank;
    case SpecialRegister::cga_size:
      return place.cluster_size;
    case SpecialRegister::cga_x:
      return place.cluster_shape.x;
    case SpecialRegister::cga_y:
      return place.cluster_shape.y;
    case SpecialRegister::cga_z:
      return place.cluster_shape.z;
    case SpecialRegister::gpc_local_cga_id:
      return cta.start.tag.cga_id ? std::uint32_t{*cta.start.tag.cga_id} : arch::kNoLocalCgaId;
    case SpecialRegister::task_id:
      return cta.operation;
    case SpecialRegister::queue_position:
      return cta.queue ? place.cta : 0;
    case SpecialRegister::cga_memory:
      return cta.start.cga_memory.value_or(arch::kNoCgaMemory);
    case SpecialRegister::tpc:
      return place_.tpc;
    case SpecialRegister::cpc:
      return place_.cpc;
    case SpecialRegister::gpc:
      return place_.gpc;
    case SpecialRegister::ugpu:
      return place_.ugpu;
    case SpecialRegister::virtual_sm:
      return registers_.part.sm;
    case SpecialRegister::virtual_tpc:
      return registers_.part.tpc;
    case SpecialRegister::virtual_cpc:
      return registers_.part.cpc;
    case SpecialRegister::virtual_gpc:
      return registers_.part.gpc;
    case SpecialRegister::virtual_ugpu:
      return registers_.part.ugpu;
    case SpecialRegister::local_memory_block:
      return registers_.local[cta.start.subcontext].number;
    case SpecialRegister::trap_gpc_local_cga_id:
      return registers_.trap_cga_id;
    case SpecialRegister::trap_cga_cta_id:
      return registers_.trap_cta_id;
    default:
      return cga_register(cta, which);
  }
}

// TMA-41: requests are made by one thread, which this chooses: the lowest of those that take part.
IssueResult Alu::elect(std::uint32_t slot, const arch::Operation& operation) {
  Warp& warp = warps_[slot];
  std::uint32_t* result = warp.state.of(operation.destination);
  bits::for_each(operation.lanes,
                 [&](std::uint32_t lane) { result[lane] = lane == bits::lowest(operation.lanes) ? 1 : 0; });
  const std::size_t unit = index_of(warp.unit);
  scheduler_.occupy(slot, 1, interval_[unit]);
  return IssueResult::done(now() + latency_[unit], now() + 1);
}

IssueResult Alu::read_special(std::uint32_t slot, const arch::Operation& operation) {
  Warp& warp = warps_[slot];
  const std::uint64_t value = special(slot, operation.special);
  const bool wide = operation.width == 8 || (!warp.writes.empty() && warp.writes.front().count == 2);
  std::uint32_t* registers = warp.state.of(operation.destination);
  bits::for_each(operation.lanes, [&](std::uint32_t lane) {
    registers[lane] = static_cast<std::uint32_t>(value);
    if (wide) registers[arch::kWarpLanes + lane] = static_cast<std::uint32_t>(value >> 32);
  });
  return IssueResult::done(now() + params_.issue.special_latency, now() + 1);
}

bool tile_exists(const MatmulTile& tile) {
  const auto lies = [](Swizzle swizzle, std::uint32_t offset, std::uint32_t pitch) {
    const std::uint32_t unit = swizzle == Swizzle::none ? 2 : kSwizzleUnit;
    return offset % unit == 0 && pitch % unit == 0;
  };
  const bool type = tile.type == arch::ValueType::f16 || tile.type == arch::ValueType::bf16;
  return lies(tile.a_swizzle, tile.a, tile.a_pitch) && lies(tile.b_swizzle, tile.b, tile.b_pitch) && type &&
         lies(tile.a_swizzle, 0, tile.a_group.value_or(0)) && lies(tile.b_swizzle, 0, tile.b_group.value_or(0)) &&
         tile.n >= 8 && tile.n <= kMaxTileColumns && tile.n % 8 == 0 && tile.k >= kStep && tile.k % kStep == 0;
}

std::uint64_t tile_end(const MatmulTile& tile, const SwizzleTable& swizzles) {
  const std::uint32_t b_rows = tile.b_transposed ? tile.n : tile.k;
  const std::uint32_t b_columns = tile.b_transposed ? tile.k : tile.n;
  return std::max(rows_end(swizzles, tile.a_swizzle, arch::rows_of_a(tile), kTileRows, 2 * tile.k),
                  rows_end(swizzles, tile.b_swizzle, arch::rows_of_b(tile), b_rows, 2 * b_columns));
}

std::uint64_t tile_bytes(const MatmulTile& tile) {
  return std::uint64_t{2} * tile.k * kTileRows + std::uint64_t{2} * tile.k * tile.n / 4;
}

std::uint64_t TileCosts::cycles(const MatmulTile& tile) {
  constexpr std::uint32_t kPeriod = 1024;
  Key key;
  key.a = tile.a % kPeriod;
  key.b = tile.b % kPeriod;
  key.a_pitch = tile.a_pitch;
  key.b_pitch = tile.b_pitch;
  key.a_group = arch::rows_of_a(tile).group;
  key.b_group = arch::rows_of_b(tile).group;
  key.n = tile.n;
  key.k = tile.k;
  key.layout = static_cast<std::uint32_t>(tile.a_swizzle) << 8 | static_cast<std::uint32_t>(tile.b_swizzle) << 1 |
               static_cast<std::uint32_t>(tile.b_transposed);
  // Mostly tiles differ by where they begin.
  Known& known = known_[(key.a / kSwizzleUnit * 7 + key.b / kSwizzleUnit) % kKnown];
  if (known.key == key) return known.cycles;
  const std::uint64_t a = core_cycles(swizzles_, tile.a_swizzle, arch::rows_of_a(tile), kTileRows, 2 * tile.k);
  const std::uint64_t b = core_cycles(swizzles_, tile.b_swizzle, arch::rows_of_b(tile),
                                      tile.b_transposed ? tile.n : tile.k, 2 * (tile.b_transposed ? tile.k : tile.n));
  known = {key, a + (b + 3) / 4};
  return known.cycles;
}

void matmul(const MatmulTile& tile, const SwizzleTable& swizzles, const std::uint8_t* shared,
            std::uint32_t* accumulators) {
  HEDDLE_CHECK(tile_exists(tile), "no such matrix multiply");
  if (tile.type == arch::ValueType::f16) {
    run<F16>(tile, swizzles, shared, accumulators);
  } else {
    run<Bf16>(tile, swizzles, shared, accumulators);
  }
}

}  // namespace heddle::sm

// Executes a kernel's program without an SM: warps take turns, an operation each, on flat global and shared memory.
// Results of operations come late: a register gets its value when the demand of a later operation names it, not before.
// So a demand that leaves out a register shows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "arch/half.h"
#include "arch/kernel_record.h"
#include "arch/warp_program.h"

namespace heddle::test {

class ProgramRun {
 public:
  ProgramRun(const arch::KernelRecord& kernel, std::vector<std::uint8_t>& global)
      : kernel_(kernel), program_(*kernel.program), global_(global) {}

  // Saves and restores every warp before every operation.
  bool checkpoints = false;
  std::uint64_t operations = 0;
  std::uint64_t instructions = 0;                 // of compute
  std::map<arch::OpCode, std::uint64_t> of_code;  // how many were issued
  std::vector<std::string> names;                 // of the operations of warp 0 of CTA 0
  std::uint64_t limit = 50'000'000;

  void run() {
    const arch::Dim3& grid = kernel_.grid;
    for (std::uint32_t z = 0; z < grid.z; ++z) {
      for (std::uint32_t y = 0; y < grid.y; ++y) {
        for (std::uint32_t x = 0; x < grid.x; ++x) run_cta(x, y, z);
      }
    }
  }

 private:
  struct Late {
    arch::RegisterRange range;
    arch::LaneMask lanes = 0;
    std::array<arch::PerLane<std::uint32_t>, 4> values{};
  };
  struct Warp {
    arch::WarpPlace place;
    arch::WarpState state;
    std::vector<Late> late;
    bool waits = false;
    std::uint32_t barrier = 0;
    std::uint32_t threads = 0;
  };

  void run_cta(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    const arch::Dim3& grid = kernel_.grid;
    const auto threads = static_cast<std::uint32_t>(kernel_.block.count());
    std::vector<Warp> warps((threads + 31) / 32);
    shared_.assign(kernel_.shared_bytes, 0);
    for (std::uint32_t w = 0; w < warps.size(); ++w) {
      arch::WarpPlace& p = warps[w].place;
      p.grid = grid;
      p.block = kernel_.block;
      p.cta_x = x;
      p.cta_y = y;
      p.cta_z = z;
      p.cta = x + std::uint64_t{grid.x} * (y + std::uint64_t{grid.y} * z);
      p.cluster = p.cta / 2;  // CGAs of two CTAs, as far as names tell
      p.rank = static_cast<std::uint32_t>(p.cta % 2);
      p.cluster_size = 2;
      p.warp = w;
      p.warps = static_cast<std::uint32_t>(warps.size());
      const std::uint32_t left = threads - 32 * w;
      p.lanes = left >= 32 ? ~arch::LaneMask{0} : (arch::LaneMask{1} << left) - 1;
      program_.start(p, warps[w].state);
    }
    while (true) {
      bool moved = false;
      for (Warp& warp : warps) {
        if (warp.state.exited || warp.waits) continue;
        step(warp);
        moved = true;
      }
      if (moved) continue;
      bool all_out = true;
      for (const Warp& warp : warps) all_out = all_out && warp.state.exited;
      if (all_out) return;
      open_barriers(warps);
    }
  }

  static void open_barriers(std::vector<Warp>& warps) {
    bool opened = false;
    for (const Warp& first : std::vector<Warp>(warps)) {
      if (!first.waits) continue;
      std::uint32_t arrived = 0;
      std::uint32_t all = 0;
      for (const Warp& warp : warps) {
        all += warp.state.exited ? 0 : 32;
        arrived += warp.waits && warp.barrier == first.barrier ? 32 : 0;
      }
      if (arrived != (first.threads == 0 ? all : first.threads)) continue;
      for (Warp& warp : warps) {
        if (warp.waits && warp.barrier == first.barrier) warp.waits = false;
      }
      opened = true;
      break;
    }
    if (!opened) throw std::runtime_error("the warps wait for ever");
  }

  static bool overlap(const arch::RegisterRange& a, const arch::RegisterRange& b) {
    return a.first < b.first + b.count && b.first < a.first + a.count;
  }

  static void arrive(Warp& warp, const arch::Demand& demand) {
    for (auto late = warp.late.begin(); late != warp.late.end();) {
      bool named = overlap(late->range, demand.accumulators);
      for (const arch::RegisterRange& range : demand.reads) named = named || overlap(late->range, range);
      for (const arch::RegisterRange& range : demand.writes) named = named || overlap(late->range, range);
      if (!named) {
        ++late;
        continue;
      }
      for (std::uint16_t i = 0; i < late->range.count; ++i) {
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          if ((late->lanes >> lane & 1U) != 0) {
            warp.state.of(static_cast<std::uint16_t>(late->range.first + i))[lane] = late->values[i][lane];
          }
        }
      }
      late = warp.late.erase(late);
    }
  }

  void step(Warp& warp) {
    if (checkpoints) warp.state = arch::restore(arch::save(warp.state));
    const arch::Demand demand = program_.demand(warp.state);
    if (warp.place.warp == 0 && warp.place.cta == 0) names.push_back(program_.describe(warp.state));
    arrive(warp, demand);
    operation_.lanes = 0;
    program_.issue(warp.place, warp.state, operation_);
    if (operation_.code != demand.code) throw std::runtime_error("the operation is not the one demanded");
    if (operation_.unit != demand.unit) throw std::runtime_error("the unit is not the one demanded");
    if ((operation_.lanes & ~warp.place.lanes) != 0) throw std::runtime_error("lanes that are no threads");
    if (++operations > limit) throw std::runtime_error("the program does not end");
    ++of_code[operation_.code];
    execute(warp, demand);
  }

  std::uint8_t* memory(std::uint64_t address, std::uint32_t width) {
    std::vector<std::uint8_t>& bytes = operation_.space == arch::Space::shared ? shared_ : global_;
    if (address % width != 0) throw std::runtime_error("misaligned");
    if (address > bytes.size() || width > bytes.size() - address) throw std::runtime_error("outside memory");
    return bytes.data() + address;
  }

  static std::uint64_t get(const std::uint8_t* bytes, std::uint32_t width) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, width);
    return value;
  }

  void execute(Warp& warp, const arch::Demand& demand) {
    using arch::OpCode;
    Late late;
    late.lanes = operation_.lanes;
    late.range = {operation_.destination, static_cast<std::uint16_t>(std::max(1, operation_.width / 4))};
    const bool returns = operation_.destination != arch::kNoRegister;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if ((operation_.lanes >> lane & 1U) == 0) continue;
      const std::uint32_t width = operation_.width;
      if (operation_.code == OpCode::load) {
        std::array<std::uint32_t, 4> words{};
        std::memcpy(words.data(), memory(operation_.address[lane], width), width);
        for (std::size_t i = 0; i < 4; ++i) late.values[i][lane] = words[i];
      } else if (operation_.code == OpCode::store) {
        std::memcpy(memory(operation_.address[lane], width), operation_.data[lane].data(), width);
      } else if (operation_.code == OpCode::atomic) {
        std::uint8_t* at = memory(operation_.address[lane], width);
        const std::uint64_t old = get(at, width);
        std::uint64_t operand = operation_.data[lane][0];
        if (width == 8) operand |= std::uint64_t{operation_.data[lane][1]} << 32;
        const std::uint64_t result =
            arch::atomic_result(operation_.atomic, operation_.type, old, operand, operation_.compare[lane]);
        std::memcpy(at, &result, width);
        late.values[0][lane] = static_cast<std::uint32_t>(old);
        late.values[1][lane] = static_cast<std::uint32_t>(old >> 32);
      } else if (operation_.code == OpCode::async_copy) {
        operation_.space = arch::Space::global;
        const std::uint8_t* from = memory(operation_.address[lane], width);
        operation_.space = arch::Space::shared;
        std::memcpy(memory(operation_.shared_address[lane], width), from, width);
      } else if (operation_.code == OpCode::special) {
        late.values[0][lane] = 1000 + static_cast<std::uint32_t>(operation_.special);
      }
    }
    if (operation_.code == OpCode::compute) instructions += operation_.count;
    if (operation_.code == OpCode::matmul) multiply(warp, demand);
    if (operation_.code == OpCode::barrier) {
      warp.waits = true;
      warp.barrier = operation_.barrier;
      warp.threads = operation_.count;
    }
    const bool late_result =
        operation_.code == OpCode::load || operation_.code == OpCode::atomic || operation_.code == OpCode::special;
    if (late_result && returns) {
      if (demand.writes.size() != 1 || demand.writes[0].first != late.range.first ||
          demand.writes[0].count != late.range.count) {
        throw std::runtime_error("the demand does not name the registers that are written");
      }
      warp.late.push_back(late);
    }
  }

  float half(std::uint32_t offset) {
    operation_.space = arch::Space::shared;
    const auto bits = static_cast<std::uint16_t>(get(memory(offset, 2), 2));
    return operation_.tile.type == arch::ValueType::bf16 ? arch::float_of_bf16(bits) : arch::float_of_f16(bits);
  }

  void multiply(Warp& warp, const arch::Demand& demand) {
    const arch::MatmulTile& t = operation_.tile;
    if (demand.accumulators.first != operation_.destination || demand.accumulators.count != t.n / 2) {
      throw std::runtime_error("the demand does not name the accumulators");
    }
    for (std::uint32_t i = 0; i < t.n / 2; ++i) {
      std::uint32_t* registers = warp.state.of(static_cast<std::uint16_t>(operation_.destination + i));
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::uint32_t row = lane / 4 + 8 * (i / 2 % 2);
        const std::uint32_t column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        float sum = arch::float_of(registers[lane]);
        for (std::uint32_t k = 0; k < t.k; ++k) {
          const std::uint32_t b = t.b_transposed ? t.b + column * t.b_pitch + 2 * k : t.b + k * t.b_pitch + 2 * column;
          sum += half(t.a + row * t.a_pitch + 2 * k) * half(b);
        }
        registers[lane] = arch::bits_of(sum);
      }
    }
  }

  const arch::KernelRecord& kernel_;
  const arch::WarpProgram& program_;
  std::vector<std::uint8_t>& global_;
  std::vector<std::uint8_t> shared_;
  arch::Operation operation_;
};

}  // namespace heddle::test

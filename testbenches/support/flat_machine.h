// The oracle for programs without races: warps one after another on a flat memory, each operation at once. It knows
// nothing of caches, lines or time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "arch/task_record.h"
#include "arch/warp_program.h"
#include "common/error.h"

namespace heddle::test {

class FlatMachine {
 public:
  explicit FlatMachine(std::uint64_t bytes) : memory(bytes, 0) {}

  // One-dimensional grids of one-dimensional CTAs; no barriers.
  void run(const arch::WarpProgram& program, const arch::Dim3& grid, const arch::Dim3& block, std::uint32_t shared) {
    for (std::uint64_t cta = 0; cta < grid.count(); ++cta) {
      shared_.assign(shared, 0);
      arch::WarpPlace place;
      place.grid = grid;
      place.block = place.workgroup = block;
      place.cta = cta;
      place.cta_x = static_cast<std::uint32_t>(cta);
      place.warps = static_cast<std::uint32_t>((block.count() + arch::kWarpLanes - 1) / arch::kWarpLanes);
      for (place.warp = 0; place.warp < place.warps; ++place.warp) {
        const std::uint64_t left = block.count() - std::uint64_t{place.warp} * arch::kWarpLanes;
        place.lanes = left >= arch::kWarpLanes ? ~arch::LaneMask{0} : (arch::LaneMask{1} << left) - 1;
        run_warp(program, place);
      }
    }
  }

  std::vector<std::uint8_t> memory;

 private:
  void run_warp(const arch::WarpProgram& program, const arch::WarpPlace& place) {
    arch::WarpState state;
    program.start(place, state);
    arch::Operation operation;
    while (!state.exited) {
      program.issue(place, state, operation);
      for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
        if ((operation.lanes >> lane & 1U) != 0) carry_out(operation, lane, state);
      }
    }
  }

  void carry_out(const arch::Operation& operation, std::uint32_t lane, arch::WarpState& state) {
    std::vector<std::uint8_t>& space = operation.space == arch::Space::global ? memory : shared_;
    const std::uint64_t address = operation.address[lane];
    const auto bytes = [&](std::uint64_t length) -> std::uint8_t* {
      HEDDLE_CHECK(address + length <= space.size(), "the oracle's program leaves its memory");
      return space.data() + address;
    };
    switch (operation.code) {
      case arch::OpCode::load: {
        std::array<std::uint32_t, 4> value{};
        std::memcpy(value.data(), bytes(operation.width), operation.width);
        for (std::uint32_t word = 0; word < std::max(1U, operation.width / 4U); ++word) {
          state.of(static_cast<std::uint16_t>(operation.destination + word))[lane] = value[word];
        }
        break;
      }
      case arch::OpCode::store:
        std::memcpy(bytes(operation.width), operation.data[lane].data(), operation.width);
        break;
      case arch::OpCode::atomic: {
        const std::uint32_t width = arch::bytes_of(operation.type);
        std::uint64_t old = 0;
        std::memcpy(&old, bytes(width), width);
        std::uint64_t operand = operation.data[lane][0] | std::uint64_t{operation.data[lane][1]} << 32;
        if (width < 8) operand &= (std::uint64_t{1} << 8 * width) - 1;
        const std::uint64_t result =
            arch::atomic_result(operation.atomic, operation.type, old, operand, operation.compare[lane]);
        std::memcpy(bytes(width), &result, width);
        if (operation.destination == arch::kNoRegister) break;
        state.of(operation.destination)[lane] = static_cast<std::uint32_t>(old);
        if (width == 8) {
          state.of(static_cast<std::uint16_t>(operation.destination + 1))[lane] = static_cast<std::uint32_t>(old >> 32);
        }
        break;
      }
      default:
        break;
    }
  }

  std::vector<std::uint8_t> shared_;
};

}  // namespace heddle::test

// Small programs that measure the memory system from within, as microbenchmarks of real GPUs do.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/gpu_lab.h"

namespace heddle::probes {

using arch::OpCode;
using arch::Unit;
using test::GpuLab;
using test::ListProgram;
using test::Warp;

constexpr std::uint64_t kOut = 1 << 20;    // where programs leave what they measured
constexpr std::uint64_t kData = 16 << 20;  // and what they read

inline void read_clock(ListProgram& program, std::uint16_t to, ListProgram::Reads after) {
  program.step({OpCode::special, Unit::none, std::move(after), {{to, 1}}, {}},
               [to](const arch::WarpPlace&, arch::WarpState&, arch::Operation& operation) {
                 operation.special = arch::SpecialRegister::clock;
                 operation.destination = to;
               });
}

inline void store_clocks(ListProgram& program, std::uint16_t begin, std::uint16_t end) {
  ListProgram::Access first;
  first.lanes = ListProgram::only(0);
  program.store(first, ListProgram::of_register(begin), ListProgram::linear(kOut, 0), {{begin, 1}});
  program.store(first, ListProgram::of_register(end), ListProgram::linear(kOut + 4, 0), {{end, 1}});
}

// Cycles that the program on the lab's GPU has noted.
inline double noted(GpuLab& lab) {
  return static_cast<double>(lab.read<std::uint32_t>(kOut + 4) - lab.read<std::uint32_t>(kOut));
}

// One lane follows a ring of pointers: `warm` loads, then `count` that are timed, each waiting for the one before.
inline std::shared_ptr<ListProgram> chase(std::uint64_t start, std::uint64_t warm, std::uint64_t count,
                                          ListProgram::Access access) {
  access.width = 8;
  access.lanes = ListProgram::only(0);
  auto program = std::make_shared<ListProgram>(4);
  program->step({OpCode::compute, Unit::int32, {}, {{0, 2}}, {}},
                [start](const arch::WarpPlace&, arch::WarpState& state, arch::Operation& operation) {
                  operation.destination = 0;
                  state.of(0)[0] = static_cast<std::uint32_t>(start);
                  state.of(1)[0] = static_cast<std::uint32_t>(start >> 32);
                });
  const auto pointer = [](const Warp& warp, std::uint32_t lane) {
    return warp.reg(0, lane) | std::uint64_t{warp.reg(1, lane)} << 32;
  };
  if (warm > 0) {
    program->loop(warm);
    program->load(access, 0, pointer, {{0, 2}});
    program->end_loop();
  }
  read_clock(*program, 2, {{0, 2}});
  program->loop(count);
  program->load(access, 0, pointer, {{0, 2}});
  program->end_loop();
  read_clock(*program, 3, {{0, 2}});
  store_clocks(*program, 2, 3);
  program->exit();
  return program;
}

// Makes the lines a ring in the order given, and returns its start.
inline std::uint64_t make_ring(GpuLab& lab, const std::vector<std::uint64_t>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i) lab.write<std::uint64_t>(lines[i], lines[(i + 1) % lines.size()]);
  return lines.front();
}

// Every line of a working set, in an order without a pattern of its own.
inline std::vector<std::uint64_t> scattered(std::uint64_t bytes) {
  const std::uint64_t count = bytes / arch::kLineBytes;
  std::uint64_t step = count * 5 / 8 + 1;
  const auto common = [](std::uint64_t a, std::uint64_t b) {
    while (b != 0) {
      a %= b;
      std::swap(a, b);
    }
    return a;
  };
  while (common(step, count) != 1) ++step;
  std::vector<std::uint64_t> lines(count);
  for (std::uint64_t i = 0, at = 0; i < count; ++i, at = (at + step) % count) {
    lines[i] = kData + at * arch::kLineBytes;
  }
  return lines;
}

// `loads` warp-wide loads of 16 bytes per lane, of which `in_flight` are open at a time. Warps of the grid take
// consecutive pieces of 512 bytes; after `pieces` of them they begin again.
inline std::shared_ptr<ListProgram> stream(std::uint64_t loads, std::uint32_t in_flight, std::uint64_t warps,
                                           std::uint64_t pieces, ListProgram::Access access = {},
                                           std::uint64_t from = kData) {
  access.width = 16;
  auto program = std::make_shared<ListProgram>(4 * in_flight);
  const std::size_t loop = program->loop(std::max<std::uint64_t>(1, loads / in_flight));
  for (std::uint32_t i = 0; i < in_flight; ++i) {
    program->load(access, static_cast<std::uint16_t>(4 * i), [=](const Warp& warp, std::uint32_t lane) {
      const std::uint64_t me = warp.place.cta * warp.place.warps + warp.place.warp;
      const std::uint64_t piece = (warp.count(loop) * in_flight + i) * warps + me;
      return from + piece % pieces * 512 + 16 * lane;
    });
  }
  program->end_loop();
  program->exit();
  return program;
}

}  // namespace heddle::probes

// Pieces of programs whose CTAs of a cluster do different things.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "arch/address_map.h"
#include "support/gpu_lab.h"

namespace heddle::test {

inline ListProgram::Access access_to(arch::Space space, arch::Order order = arch::Order::weak) {
  ListProgram::Access access;
  access.space = space;
  access.order = order;
  return access;
}
// By lane 0 alone.
inline ListProgram::Access one_lane(arch::Space space, arch::Order order = arch::Order::weak) {
  ListProgram::Access access = access_to(space, order);
  access.lanes = ListProgram::only(0);
  return access;
}

// A number without a pattern of its own.
inline std::uint32_t mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E37'79B9'7F4A'7C15U + b * 0xC2B2'AE3D'27D4'EB4FU + 1;
  x ^= x >> 29;
  x *= 0xBF58'476D'1CE4'E5B9U;
  return static_cast<std::uint32_t>(x >> 32);
}

inline void cluster_barrier(ListProgram& program) {
  program.cluster_arrive(arch::Order::release);
  program.cluster_wait(arch::Order::acquire);
}

// The steps that `body` adds are those of warps for which the condition holds.
inline void only_if(ListProgram& program, const std::function<bool(const Warp&)>& condition,
                    const std::function<void(ListProgram&)>& body) {
  ListProgram count(1);
  body(count);
  const std::uint32_t steps = count.here();
  program.branch(program.here() + 1 + steps, [condition](const Warp& warp) { return !condition(warp); }, {});
  body(program);
}
inline void only_rank(ListProgram& program, std::uint32_t rank, const std::function<void(ListProgram&)>& body) {
  only_if(
      program, [rank](const Warp& warp) { return warp.place.rank == rank; }, body);
}

}  // namespace heddle::test

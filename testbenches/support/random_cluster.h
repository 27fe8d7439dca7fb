// Random grids of every kind (CWD-10), and the parameters that matter for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "arch/cluster.h"
#include "cwd/cwd_params.h"
#include "support/random.h"

namespace heddle::test {

struct Grouping {
  arch::Dim3 grid;
  arch::ClusterShape cluster;
};

inline arch::Dim3 times(const arch::Dim3& inner, std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) {
  return {inner.x * x, inner.y * y, inner.z * z};
}

// A size from 1 to `most`, in one of its forms.
inline arch::Dim3 random_extents(Random& random, std::uint32_t most) {
  const std::uint32_t count = random.between(1, most);
  std::vector<arch::Dim3> forms;
  for (std::uint32_t x = 1; x <= count; ++x) {
    for (std::uint32_t y = 1; x * y <= count; ++y) {
      if (count % (x * y) == 0) forms.push_back({x, y, count / (x * y)});
    }
  }
  return forms[random.below(forms.size())];
}

// The outermost CGA becomes a multiple of `inner`; it may accept smaller multiples in its place.
inline arch::Dim3 random_outermost(Random& random, arch::ClusterShape& cluster, arch::CgaLevel level,
                                   const arch::Dim3& inner, std::uint32_t most) {
  const std::uint32_t factor = random.between(1, most);
  std::vector<std::uint32_t> smaller;
  for (std::uint32_t divisor = 1; divisor < factor; ++divisor) {
    if (factor % divisor == 0) smaller.push_back(divisor);
  }
  random.shuffle(smaller);
  if (random.chance(60)) smaller.clear();
  smaller.resize(std::min<std::size_t>(smaller.size(), arch::kMaxFallbacks));
  for (std::size_t i = 0; i < smaller.size(); ++i) cluster.fallback[i] = times(inner, smaller[i]);
  return cluster.of(level) = times(inner, factor);
}

// `max_grid`: outermost CGAs, or CTAs of a plain grid, per dimension.
inline Grouping random_grouping(Random& random, std::uint32_t max_grid = 4) {
  using arch::CgaLevel;
  Grouping result;
  arch::ClusterShape& cluster = result.cluster;
  const arch::Dim3 one{1, 1, 1};
  const auto outermost = [&](CgaLevel level, const arch::Dim3& inner, std::uint32_t most) {
    return random_outermost(random, cluster, level, inner, most);
  };
  const auto gpc_cga = [&] {
    arch::Dim3 inner = one;
    if (random.chance(30)) {
      inner = cluster.of(CgaLevel::cpc) = random_extents(random, 3);
      return cluster.of(CgaLevel::gpc) = times(inner, random.between(1, 3));
    }
    return cluster.of(CgaLevel::gpc) = random_extents(random, random.chance(20) ? 12 : 5);
  };
  arch::Dim3 outer = one;
  switch (random.below(9)) {
    case 0:  // a grid of CTAs
      break;
    case 1:
      outer = outermost(CgaLevel::gpc, random_extents(random, 2), 8);
      break;
    case 2:
      outer = outermost(CgaLevel::gpc, one, 16);
      break;
    case 3:
      outer = outermost(CgaLevel::gpc, cluster.of(CgaLevel::cpc) = random_extents(random, 4), 4);
      break;
    case 4:
      outer = outermost(CgaLevel::gpu, random_extents(random, 3), 12);
      break;
    case 5:
      outer = outermost(CgaLevel::ugpu, random_extents(random, 2), 8);
      break;
    case 6:
      outer = outermost(CgaLevel::gpu, gpc_cga(), 4);
      break;
    case 7:
      outer = outermost(CgaLevel::ugpu, gpc_cga(), 3);
      break;
    default:
      outer = outermost(CgaLevel::gpu, cluster.of(CgaLevel::ugpu) = times(gpc_cga(), random.between(1, 2)), 2);
      break;
  }
  if (cluster.any()) {
    cluster.mode = random.chance(50) ? arch::CgaMode::multicast : arch::CgaMode::load_balancing;
    cluster.linear_memory = random.chance(25);
  }
  result.grid =
      times(outer, random.between(1, max_grid), random.between(1, std::max(max_grid / 2, 1U)), random.between(1, 2));
  return result;
}

// On top of random_cwd_params().
inline void random_cluster_params(Random& random, cwd::CwdParams& params, std::uint32_t gpcs) {
  if (random.chance(50)) params.gpc_priority = {cwd::UnitOrder::Order::listed, random.permutation(gpcs)};
  params.query_distance = random.below(5);
  params.mask_cycles = random.below(4);
  params.masks_per_packet = random.between(1, 1 + protocol::kFurtherMasks);
  params.age_limit = random.chance(30) ? 0 : random.below(3000);
  params.gpu_cga_barriers = random.between(1, 4);
  params.memory_slots = random.between(1, 4);
  params.one_at_a_time = random.chance(15);
  params.central_raster = random.chance(15);
  params.raster_cycles = random.below(4);
  params.broadcast_width = random.between(1, 8);
  params.broadcast = random.chance(50) ? cwd::Broadcast::all : cwd::Broadcast::usable;
  params.local_memory_broadcast = random.chance(50);
  static const char* const kDomainPolicies[] = {"fastest", "fastest", "first_fit", "tightest"};
  params.domain_policy = kDomainPolicies[random.below(4)];
  static const char* const kSmPolicies[] = {"lake", "lake", "packed", "tpc_pairs"};
  params.load_balancing = kSmPolicies[random.below(4)];
}

// uGPUs for that many GPCs: none said, or two or more parts.
inline std::vector<std::uint32_t> random_ugpus(Random& random, std::uint32_t gpcs) {
  if (gpcs < 2 || random.chance(40)) return {};
  std::vector<std::uint32_t> result;
  for (std::uint32_t left = gpcs; left > 0; left -= result.back()) result.push_back(random.between(1, left));
  return result;
}

}  // namespace heddle::test

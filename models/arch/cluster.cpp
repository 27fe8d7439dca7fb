#include "arch/cluster.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::arch {
namespace {

constexpr std::array<CgaLevel, kCgaLevels> kOutermostFirst{CgaLevel::gpu, CgaLevel::ugpu, CgaLevel::gpc, CgaLevel::cpc};
constexpr std::array<const char*, 3> kDimensions{"x", "y", "z"};

// Extents with the words that messages have for them: "the GPC_CGA", "the grid".
struct Box {
  std::string name;
  std::array<std::uint32_t, 3> extents;

  Box(std::string text, const Dim3& dim) : name(std::move(text)), extents{dim.x, dim.y, dim.z} {}
};

Box box_of(CgaLevel level, const Dim3& extents) { return {fmt::format("the {}", cga_name(level)), extents}; }

// Some extents are given and others are 0. Dim3::count() cannot tell: it is for extents that have been checked.
std::string zero_extent(const Box& box) {
  for (std::size_t i = 0; i < kDimensions.size(); ++i) {
    if (box.extents[i] == 0) return fmt::format("{}'s {} is 0", box.name, kDimensions[i]);
  }
  return {};
}

std::string does_not_divide(const Box& inner, const Box& outer) {
  for (std::size_t i = 0; i < kDimensions.size(); ++i) {
    if (outer.extents[i] % inner.extents[i] == 0) continue;
    return fmt::format("{}'s {} of {} does not divide {}'s {} of {}", inner.name, kDimensions[i], inner.extents[i],
                       outer.name, kDimensions[i], outer.extents[i]);
  }
  return {};
}

// The product of all extents; the largest number of 64 bits if it is larger.
std::uint64_t volume(const Dim3& extents) {
  const std::uint64_t plane = std::uint64_t{extents.x} * extents.y;
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  return extents.z != 0 && plane > most / extents.z ? most : plane * extents.z;
}

std::string unsupported_levels(const std::array<bool, kCgaLevels>& given) {
  const auto has = [&given](CgaLevel level) { return given[static_cast<std::size_t>(level)]; };
  if (has(CgaLevel::cpc) && !has(CgaLevel::gpc)) return "a CPC_CGA without a GPC_CGA around it";
  if (has(CgaLevel::gpu) && has(CgaLevel::ugpu) && !has(CgaLevel::gpc)) {
    return "a GPU_CGA of uGPU_CGAs of CTAs: between uGPU_CGA and CTAs there must be a GPC_CGA";
  }
  return {};
}

std::string wrong_fallbacks(const Box& full, const Box* inner, const ClusterShape& cluster) {
  bool ended = false;
  for (std::size_t i = 0; i < kMaxFallbacks; ++i) {
    if (cluster.fallback[i] == kNoExtents) {
      ended = true;
      continue;
    }
    const Box box(fmt::format("fallback {} of {}", i + 1, full.name), cluster.fallback[i]);
    if (ended) return fmt::format("{} is given, but fallback {} is not", box.name, i);
    if (std::string wrong = zero_extent(box); !wrong.empty()) return wrong;
    if (std::string wrong = does_not_divide(box, full); !wrong.empty()) return wrong;
    if (box.extents == full.extents) return fmt::format("{} is not smaller than {}", box.name, full.name);
    if (inner == nullptr) continue;
    if (std::string wrong = does_not_divide(*inner, box); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

const char* cga_name(CgaLevel level) {
  constexpr std::array<const char*, kCgaLevels> kNames{"CPC_CGA", "GPC_CGA", "uGPU_CGA", "GPU_CGA"};
  return kNames[static_cast<std::size_t>(level)];
}

const char* domain_name(CgaLevel level) {
  constexpr std::array<const char*, kCgaLevels> kNames{"CPC", "GPC", "uGPU", "GPU"};
  return kNames[static_cast<std::size_t>(level)];
}

std::string why_malformed(const Dim3& grid, const ClusterShape& cluster, std::uint32_t max_gpc_cga) {
  std::vector<Box> boxes{{"the grid", grid}};  // outermost first
  std::array<bool, kCgaLevels> given{};
  for (const CgaLevel level : kOutermostFirst) {
    if (cluster.of(level) == kNoExtents) continue;
    given[static_cast<std::size_t>(level)] = true;
    boxes.push_back(box_of(level, cluster.of(level)));
  }
  for (const Box& box : boxes) {
    if (std::string wrong = zero_extent(box); !wrong.empty()) return wrong;
  }
  if (boxes.size() == 1) {
    for (const Dim3& extents : cluster.fallback) {
      if (extents != kNoExtents) return "fallback sizes of a grid without CGAs";
    }
    return cluster.linear_memory ? "CGA linear memory of a grid without CGAs" : "";
  }
  if (std::string wrong = unsupported_levels(given); !wrong.empty()) return wrong;
  const std::uint64_t gpc_ctas = volume(cluster.of(CgaLevel::gpc));
  if (gpc_ctas > max_gpc_cga) return fmt::format("GPC_CGA of {} CTAs, at most {}", gpc_ctas, max_gpc_cga);
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    if (std::string wrong = does_not_divide(boxes[i], boxes[i - 1]); !wrong.empty()) return wrong;
  }
  return wrong_fallbacks(boxes[1], boxes.size() > 2 ? &boxes[2] : nullptr, cluster);
}

}  // namespace heddle::arch

// Which groupings of a grid are possible at all (CWD-10), and what is said of the others.
#include "arch/cluster.h"

#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace arch_cluster_test {

using Catch::Contains;
using namespace heddle::arch;
using heddle::test::Random;

namespace {

constexpr std::uint32_t kMax = 16;

ClusterShape levels(const std::vector<std::pair<CgaLevel, Dim3>>& given, const std::vector<Dim3>& fallbacks = {}) {
  ClusterShape shape;
  for (const auto& [level, extents] : given) shape.of(level) = extents;
  for (std::size_t i = 0; i < fallbacks.size(); ++i) shape.fallback[i] = fallbacks[i];
  return shape;
}

constexpr CgaLevel kCpc = CgaLevel::cpc;
constexpr CgaLevel kGpc = CgaLevel::gpc;
constexpr CgaLevel kUgpu = CgaLevel::ugpu;
constexpr CgaLevel kGpu = CgaLevel::gpu;

// The same question, from the specification: is it possible? Only for extents that are small.
bool possible(const Dim3& grid, const ClusterShape& shape) {
  const auto divides = [](const Dim3& inner, const Dim3& outer) {
    return outer.x % inner.x == 0 && outer.y % inner.y == 0 && outer.z % inner.z == 0;
  };
  const bool cpc = shape.of(kCpc).x > 0, gpc = shape.of(kGpc).x > 0;
  const bool ugpu = shape.of(kUgpu).x > 0, gpu = shape.of(kGpu).x > 0;
  if (cpc && !gpc) return false;
  if (gpu && ugpu && !gpc) return false;
  if (gpc && shape.of(kGpc).x * shape.of(kGpc).y * shape.of(kGpc).z > kMax) return false;
  std::vector<Dim3> nest{grid};
  if (gpu) nest.push_back(shape.of(kGpu));
  if (ugpu) nest.push_back(shape.of(kUgpu));
  if (gpc) nest.push_back(shape.of(kGpc));
  if (cpc) nest.push_back(shape.of(kCpc));
  for (std::size_t i = 1; i < nest.size(); ++i) {
    if (!divides(nest[i], nest[i - 1])) return false;
  }
  for (const Dim3& fallback : shape.fallback) {
    if (fallback.x == 0) continue;
    if (nest.size() == 1 || fallback == nest[1] || !divides(fallback, nest[1])) return false;
    if (nest.size() > 2 && !divides(nest[2], fallback)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the names of CGAs and of the domains that hold them", "[arch]") {
  CHECK(cga_name(kCpc) == std::string("CPC_CGA"));
  CHECK(cga_name(kGpc) == std::string("GPC_CGA"));
  CHECK(cga_name(kUgpu) == std::string("uGPU_CGA"));
  CHECK(cga_name(kGpu) == std::string("GPU_CGA"));
  CHECK(domain_name(kCpc) == std::string("CPC"));
  CHECK(domain_name(kGpc) == std::string("GPC"));
  CHECK(domain_name(kUgpu) == std::string("uGPU"));
  CHECK(domain_name(kGpu) == std::string("GPU"));
}

TEST_CASE("every grid kind of the specification is possible", "[arch][CWD-10]") {
  const Dim3 grid{24, 12, 8};
  const Dim3 big{12, 6, 4}, mid{4, 6, 2}, small{4, 2, 2}, tiny{2, 1, 1};
  const std::vector<ClusterShape> kinds{
      levels({}),
      levels({{kGpc, small}}),
      levels({{kGpc, small}, {kCpc, tiny}}),
      levels({{kGpu, big}}),
      levels({{kUgpu, big}}),
      levels({{kGpu, big}, {kGpc, small}}),
      levels({{kUgpu, big}, {kGpc, small}}),
      levels({{kGpu, big}, {kGpc, small}, {kCpc, tiny}}),
      levels({{kUgpu, big}, {kGpc, small}, {kCpc, tiny}}),
      levels({{kGpu, big}, {kUgpu, mid}, {kGpc, small}}),
      levels({{kGpu, big}, {kUgpu, mid}, {kGpc, small}, {kCpc, tiny}}),
  };
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    CAPTURE(i);
    CHECK(why_malformed(grid, kinds[i], kMax).empty());
  }
  // The GPU_CGA may be the whole grid, and a CGA a single CTA.
  CHECK(why_malformed(grid, levels({{kGpu, grid}, {kGpc, {1, 1, 1}}}), kMax).empty());
  // GPC_CGAs need not be powers of two.
  for (std::uint32_t ctas = 1; ctas <= kMax; ++ctas) {
    CHECK(why_malformed({ctas * 3, 1, 1}, levels({{kGpc, {ctas, 1, 1}}}), kMax).empty());
  }
}

TEST_CASE("a grouping that cannot be is refused with the extents that are wrong", "[arch][CWD-10]") {
  const auto why = [](const Dim3& grid, const ClusterShape& shape) { return why_malformed(grid, shape, kMax); };
  CHECK(why({8, 4, 1}, levels({{kGpc, {3, 2, 1}}})) == "the GPC_CGA's x of 3 does not divide the grid's x of 8");
  CHECK(why({8, 5, 1}, levels({{kGpc, {4, 2, 1}}})) == "the GPC_CGA's y of 2 does not divide the grid's y of 5");
  CHECK(why({8, 4, 3}, levels({{kGpu, {8, 4, 2}}})) == "the GPU_CGA's z of 2 does not divide the grid's z of 3");
  CHECK(why({8, 4, 1}, levels({{kGpc, {16, 1, 1}}})) == "the GPC_CGA's x of 16 does not divide the grid's x of 8");
  CHECK(why({12, 4, 1}, levels({{kGpu, {6, 4, 1}}, {kGpc, {4, 1, 1}}})) ==
        "the GPC_CGA's x of 4 does not divide the GPU_CGA's x of 6");
  CHECK(why({8, 8, 1}, levels({{kGpc, {4, 2, 1}}, {kCpc, {3, 1, 1}}})) ==
        "the CPC_CGA's x of 3 does not divide the GPC_CGA's x of 4");
  CHECK(why({40, 8, 1}, levels({{kGpc, {20, 1, 1}}})) == "GPC_CGA of 20 CTAs, at most 16");
  CHECK(why({8, 4, 1}, levels({{kGpc, {0, 2, 1}}})) == "the GPC_CGA's x is 0");
  CHECK(why({8, 4, 1}, levels({{kGpu, {8, 0, 0}}})) == "the GPU_CGA's y is 0");
  CHECK(why({8, 4, 0}, levels({{kGpc, {1, 1, 1}}})) == "the grid's z is 0");
  CHECK(why({8, 4, 1}, levels({{kCpc, {2, 1, 1}}})) == "a CPC_CGA without a GPC_CGA around it");
  CHECK_THAT(why({8, 4, 1}, levels({{kGpu, {8, 4, 1}}, {kCpc, {2, 1, 1}}})), Contains("without a GPC_CGA"));
  CHECK_THAT(why({8, 4, 1}, levels({{kGpu, {8, 4, 1}}, {kUgpu, {4, 4, 1}}})), Contains("GPU_CGA of uGPU_CGAs of CTAs"));
  ClusterShape memory = levels({});
  memory.linear_memory = true;
  CHECK_THAT(why({8, 4, 1}, memory), Contains("linear memory of a grid without CGAs"));
}

TEST_CASE("fallback sizes are smaller, divide the full size, and hold whole inner CGAs", "[arch][CWD-10]") {
  const Dim3 grid{16, 8, 4};
  const Dim3 full{8, 2, 1};
  const auto why = [&grid](const ClusterShape& shape) { return why_malformed(grid, shape, kMax); };
  const auto gpc = [&full](const std::vector<Dim3>& fallbacks) { return levels({{kGpc, full}}, fallbacks); };
  CHECK(why(gpc({{4, 2, 1}, {2, 2, 1}, {8, 1, 1}, {1, 1, 1}})).empty());
  CHECK(why(gpc({full})) == "fallback 1 of the GPC_CGA is not smaller than the GPC_CGA");
  CHECK(why(gpc({{4, 2, 1}, {3, 2, 1}})) == "fallback 2 of the GPC_CGA's x of 3 does not divide the GPC_CGA's x of 8");
  CHECK(why(gpc({{16, 1, 1}})) == "fallback 1 of the GPC_CGA's x of 16 does not divide the GPC_CGA's x of 8");
  CHECK(why(gpc({{4, 0, 1}})) == "fallback 1 of the GPC_CGA's y is 0");
  CHECK(why(gpc({kNoExtents, {4, 2, 1}})) == "fallback 2 of the GPC_CGA is given, but fallback 1 is not");
  CHECK(why(levels({}, {{4, 2, 1}})) == "fallback sizes of a grid without CGAs");
  const auto nested = [](const Dim3& fallback) { return levels({{kGpu, {8, 4, 2}}, {kGpc, {4, 2, 1}}}, {fallback}); };
  CHECK(why(nested({4, 2, 1})).empty());  // a GPU_CGA of one GPC_CGA
  CHECK(why(nested({4, 4, 1})).empty());
  CHECK(why(nested({2, 4, 2})) == "the GPC_CGA's x of 4 does not divide fallback 1 of the GPU_CGA's x of 2");
}

TEST_CASE("extents whose product leaves 64 bits are judged as others are", "[arch][CWD-10]") {
  const Dim3 grid{2'147'483'647, 65'535, 65'535};
  CHECK(why_malformed(grid, levels({{kGpc, {1, 15, 1}}}), kMax).empty());
  CHECK(why_malformed(grid, levels({{kGpu, grid}}), kMax).empty());
  CHECK_THAT(why_malformed(grid, levels({{kGpc, grid}}), kMax), Contains("at most 16"));
  // Products of 2^64 and 3 x 2^64, which 64 bits show as 0.
  const Dim3 zero_product{1U << 31, 1U << 31, 4};
  CHECK_THAT(why_malformed(grid, levels({{kGpc, zero_product}}), kMax), Contains("GPC_CGA of"));
  CHECK_THAT(why_malformed(grid, levels({{kGpu, {1U << 31, 1U << 31, 12}}}), kMax), Contains("does not divide"));
  CHECK_THAT(why_malformed({8, 8, 8}, levels({{kGpu, {8, 8, 8}}}, {zero_product}), kMax), Contains("fallback 1"));
}

TEST_CASE("random groupings are judged as the specification says", "[arch][CWD-10]") {
  std::uint32_t good = 0;
  std::uint32_t bad = 0;
  for (const std::uint64_t seed : heddle::test::seeds(20'000)) {
    CAPTURE(seed);
    Random random(seed);
    const auto extents = [&random](const Dim3& outer) {  // divides it more often than not
      const auto part = [&random](std::uint32_t whole) {
        const std::uint32_t by = random.between(1, 3);
        return whole % by == 0 || random.chance(10) ? std::max(1U, whole / by) : whole;
      };
      return Dim3{part(outer.x), part(outer.y), part(outer.z)};
    };
    const Dim3 grid{random.between(1, 24), random.between(1, 12), random.between(1, 6)};
    ClusterShape shape;
    Dim3 outer = grid;
    for (const CgaLevel level : {kGpu, kUgpu, kGpc, kCpc}) {
      if (random.chance(50)) shape.of(level) = outer = extents(outer);
    }
    const std::uint32_t fallbacks = shape.any() ? random.below(3) : 0;
    for (std::uint32_t i = 0; i < fallbacks; ++i) shape.fallback[i] = extents(shape.of(shape.outermost()));
    const bool expected = possible(grid, shape);
    ++(expected ? good : bad);
    REQUIRE(why_malformed(grid, shape, kMax).empty() == expected);
  }
  CHECK(good > 2000);
  CHECK(bad > 2000);
}

}  // namespace arch_cluster_test

// What CTAs demand: every tile of a product counted one by one, and what an L2 keeps against a list.
#include "demand/estimate.h"

#include <algorithm>
#include <list>
#include <random>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "support/random.h"

namespace heddle::estimate_test {

using namespace heddle::demand;
using arch::DemandUnit;

namespace {

Operand operand(double bytes, std::uint64_t shape, bool weight = false) { return {bytes, bytes, weight, shape}; }

Work product(double batch, double m, double n, double k) {
  Work work;
  work.kind = Kind::matmul;
  work.unit = DemandUnit::tensor_f16;
  work.flops = 2 * batch * m * n * k;
  work.matmul = MatmulShape{batch, m, n, k, 2};
  work.reads = {operand(2 * batch * m * k, 1), operand(2 * batch * k * n, 2)};
  work.writes = {operand(2 * batch * m * n, 3)};
  return work;
}

}  // namespace

TEST_CASE("random products, tile by tile", "[demand]") {
  std::mt19937_64 random(test::seed());
  const auto any = [&random](std::uint32_t most) { return 1 + static_cast<std::uint32_t>(random() % most); };
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t batch = any(3), m = any(700), n = any(700), k = any(300);
    const std::uint32_t tile_m = 16 * any(16), tile_n = 16 * any(16);
    // The library's m is the framework's n.
    const std::string name = fmt::format("x_gemm_{}x{}_32x3_tn", tile_n, tile_m);
    CAPTURE(batch, m, n, k, name);
    double tiles = 0, flops = 0, bytes = 0;
    for (std::uint32_t b = 0; b < batch; ++b) {
      for (std::uint32_t row = 0; row < m; row += tile_m) {
        for (std::uint32_t column = 0; column < n; column += tile_n) {
          ++tiles;
          flops += 2.0 * tile_m * tile_n * k;
          bytes += 2.0 * k * (std::min(tile_m, m - row) + std::min(tile_n, n - column));
        }
      }
    }
    const Estimate made = estimate(product(batch, m, n, k), {}, name, std::nullopt, 1);
    CHECK(made.ctas == tiles);
    CHECK(made.cta.of(DemandUnit::tensor_f16) == Approx(flops / tiles));
    CHECK(made.cta.of(DemandUnit::l2_read) == Approx(bytes / tiles));
    CHECK(made.cta.of(DemandUnit::shared) == Approx(2 * bytes / tiles));
    CHECK(made.cta.of(DemandUnit::l2_write) == Approx(2.0 * batch * m * n / tiles));
    // Of a recorded grid, which may be smaller than the tiles: each CTA takes its part.
    const Estimate few = estimate(product(batch, m, n, k), {}, name, 7, 1);
    CHECK(few.ctas == 7);
    CHECK(few.cta.of(DemandUnit::tensor_f16) == Approx(flops / 7));
  }
}

TEST_CASE("a product without a name has tiles as large as its CTAs share it", "[demand]") {
  const Estimate made = estimate(product(1, 1024, 1024, 64), {}, "gemm", 16, 1);
  CHECK(made.cta.of(DemandUnit::tensor_f16) == 2.0 * 256 * 256 * 64);
  CHECK(made.cta.of(DemandUnit::l2_read) == 2.0 * 64 * (256 + 256));
}

TEST_CASE("attention reads keys and values for each block of queries", "[demand]") {
  Work work;
  work.kind = Kind::attention;
  work.unit = DemandUnit::tensor_f16;
  work.attention = AttentionShape{12, 300, 400, 64, 2};
  work.flops = 4.0 * 12 * 300 * 400 * 64;
  const Estimate made = estimate(work, {}, "attn_fwd", std::nullopt, 1);  // 3 blocks of 128
  CHECK(made.ctas == 36);
  CHECK(made.cta.of(DemandUnit::l2_read) == Approx(2.0 * 64 * (100 + 2 * 400)));
  CHECK(made.cta.of(DemandUnit::tensor_f16) == Approx(4.0 * 128 * 400 * 64));
  const Estimate named = estimate(work, {}, "flash_fwd_kernel<Flash_fwd_kernel_traits<64, 64, 128, 4>", {}, 1);
  CHECK(named.ctas == 60);
}

TEST_CASE("others share what their operands say", "[demand]") {
  Work work;
  work.reads = {operand(1000, 1)};
  work.writes = {operand(500, 2)};
  work.fp32 = 250;
  const Estimate made = estimate(work, {800, 100}, "k", 10, 1);
  CHECK(made.cta.of(DemandUnit::l2_read) == 100);
  CHECK(made.cta.of(DemandUnit::l2_write) == 50);
  CHECK(made.cta.of(DemandUnit::dram_read) == 80);
  CHECK(made.cta.of(DemandUnit::dram_write) == 10);
  CHECK(made.cta.of(DemandUnit::fp32) == 50);  // two flops for each operation of a lane
  CHECK(estimate(work, {}, "k", std::nullopt, 132).ctas == 132);
}

TEST_CASE("the L2 holds what was used within its size", "[demand]") {
  L2Reuse cache(100);
  Work work;
  work.reads = {operand(40, 1)};
  work.writes = {operand(30, 2)};
  CHECK(cache.use(work).read == 40);
  CHECK(cache.use(work).read == 0);
  CHECK(cache.use(work).written == 0);
  Work other;
  other.reads = {operand(61, 3)};
  CHECK(cache.use(other).read == 61);
  CHECK(cache.use(work).read == 40);  // 61 have passed since, and its own 40 no longer fit
  Work weights;
  weights.reads = {operand(1, 4, true)};
  CHECK(cache.use(weights).read == 1);
  CHECK(cache.use(weights).read == 1);
}

TEST_CASE("random sequences against a list of what was used", "[demand]") {
  std::mt19937_64 random(test::seed());
  for (int round = 0; round < 200; ++round) {
    const auto size = static_cast<double>(100 + random() % 900);
    L2Reuse cache(size);
    std::list<std::pair<std::uint64_t, double>> uses;  // of kernels, newest first: shape, bytes after it
    for (int i = 0; i < 60; ++i) {
      Work work;
      const std::uint64_t from = random() % 8, to = 8 + random() % 8;
      work.reads = {operand(static_cast<double>(10 + from * 17), from)};
      work.writes = {operand(static_cast<double>(10 + to * 9), to)};
      const auto held = [&uses, size](const Operand& its) {
        double since = 0;
        for (const auto& [shape, bytes] : uses) {
          if (shape == its.shape) return since + its.bytes <= size;
          since += bytes;
        }
        return false;
      };
      const bool read = held(work.reads[0]), written = held(work.writes[0]);
      const MemoryTraffic traffic = cache.use(work);
      CHECK((traffic.read == 0) == read);
      CHECK((traffic.written == 0) == written);
      // Both tensors of a kernel count as used at its end.
      uses.emplace_front(work.reads[0].shape, work.bytes());
      uses.emplace_front(work.writes[0].shape, 0);
    }
  }
}

}  // namespace heddle::estimate_test

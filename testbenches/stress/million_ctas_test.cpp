// Very many, very short CTAs on a machine of full size.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/params.h"
#include "support/gpu_bench.h"

namespace stress_million_ctas_test {

using heddle::Origin;
using heddle::ParamBinder;
using heddle::ParamLayers;
using heddle::gpu::GpuParams;
using namespace heddle::test;

namespace {

GpuParams h100() {
  GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, heddle::gpu::preset("h100-sxm"), {Origin::Kind::preset, "preset h100-sxm"});
  layers.resolve(binder, 0);
  return params;
}

void run(const std::vector<heddle::protocol::SubmitPacket>& packets, double ctas) {
  const GpuParams params = h100();
  SimFixture sim;
  GpuBench bench(params);
  bench.checker.record = false;
  for (const auto& packet : packets) {
    bench.checker.expect(packet);
    bench.host.submit(0, packet);
  }
  run_until_idle();
  CHECK(bench.host.results.size() == packets.size());
  CHECK(bench.checker.verdict() == std::vector<std::string>{});
  CHECK(bench.stat("cwd.ctas_launched") == ctas);
  CHECK(bench.stat("cwd.ctas_completed") == ctas);
  bench.gpu.check_quiescent();
  // The tables of the distributor are the bottleneck: the rate that they are given is the rate that comes out, within 1
  // % (CWD-34).
  heddle::Picoseconds begin = bench.host.results.begin()->second.start;
  heddle::Picoseconds end = 0;
  for (const auto& [operation, done] : bench.host.results) {
    begin = std::min(begin, done.start);
    end = std::max(end, done.end);
  }
  const double cycles = static_cast<double>(end - begin) * 1e-3 * params.machine.clock;
  CHECK(ctas / cycles <= params.cwd.cta_commits * 1.01);
  CHECK(ctas / cycles >= params.cwd.cta_commits * 0.9);
}

}  // namespace

TEST_CASE("a million CTAs of one cycle", "[stress][CWD-06][CWD-07]") {
  run({kernel_packet(0, 0, {1000, 1000, 1}, {32, 1, 1}, {1, 1})}, 1e6);
}

TEST_CASE("a million CTAs of a hundred kernels in a hundred streams", "[stress][CWD-06][CWD-07]") {
  std::vector<heddle::protocol::SubmitPacket> packets;
  for (std::uint32_t i = 0; i < 100; ++i) {
    packets.push_back(kernel_packet(i, i, {10'000, 1, 1}, {32 + 32 * (i % 8), 1, 1}, {1, 1 + i}));
    packets.back().priority = static_cast<std::int32_t>(i % 3);
  }
  run(packets, 1e6);
}

}  // namespace stress_million_ctas_test

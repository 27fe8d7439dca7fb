// A whole GPU: presets, deadlocks, and one kernel followed cycle by cycle.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "common/params.h"
#include "support/gpu_bench.h"

namespace gpu_test {

using Catch::Contains;
using heddle::Cycle;
using heddle::InputError;
using heddle::Origin;
using heddle::ParamBinder;
using heddle::ParamLayers;
using heddle::arch::Shape;
using heddle::gpu::Gpu;
using heddle::gpu::GpuParams;
using heddle::protocol::DoneStatus;
using namespace heddle::test;

namespace {

GpuParams params_of(const std::string& preset, const std::vector<std::string>& assignments = {}) {
  GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, heddle::gpu::preset(preset), {Origin::Kind::preset, "preset " + preset});
  for (const std::string& text : assignments) layers.assign(text);
  layers.resolve(binder, 0);
  return params;
}

}  // namespace

TEST_CASE("every preset elaborates and runs", "[gpu][HST-04]") {
  const std::vector<std::string> names = heddle::gpu::preset_names();
  REQUIRE(names.size() >= 4);
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK_FALSE(heddle::gpu::preset_description(name).empty());
    const GpuParams params = params_of(name);
    REQUIRE_NOTHROW(params.check());
    SimFixture sim;
    GpuBench bench(params);
    REQUIRE(bench.gpu.topology().sms() == params.machine.shape.sms());
    bench.gpu.check_quiescent();
    Random random(3);
    const Program program = random_program(random, {});
    bench.feed(program, 1, 100);
    run_until_idle();
    CHECK(bench.checker.verdict() == std::vector<std::string>{});
    CHECK(bench.host.results.size() == program.work.size());
    bench.gpu.check_quiescent();
  }
  CHECK(params_of("h100-sxm").machine.shape.sms() == 132);
  CHECK(params_of("h200").machine.shape.sms() == 132);
  CHECK(params_of("a100").machine.shape.sms() == 108);
}

TEST_CASE("presets of different GPUs share a simulation", "[gpu][HST-04]") {
  const std::vector<std::string> names = heddle::gpu::preset_names();
  Random random(4);
  const Program program = random_program(random, {});
  std::vector<Outcome> alone;
  for (const std::string& name : names) {
    SimFixture sim;
    GpuBench bench(params_of(name));
    bench.feed(program, 1, 100);
    run_until_idle();
    alone.push_back(outcome_of(bench));
  }
  SimFixture sim;
  std::vector<std::unique_ptr<GpuBench>> benches;
  for (std::size_t i = 0; i < names.size(); ++i) {
    benches.push_back(std::make_unique<GpuBench>(params_of(names[i]), 1, fmt::format("gpu{}", i)));
    benches.back()->feed(program, 1, 100);
  }
  run_until_idle();
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    const Outcome together = outcome_of(*benches[i]);
    CHECK(together.stats == alone[i].stats);
    CHECK(together.edges == alone[i].edges);
    CHECK(together.results == alone[i].results);
  }
}

TEST_CASE("one kernel on an idle machine takes the sum of its way", "[gpu][CWD-33]") {
  const GpuParams params = params_of("small", {"gpu.sm.limits.ctas=32"});
  SimFixture sim;
  GpuBench bench(params);
  const auto packet = kernel_packet(0, 0, {1, 1, 1}, {32, 1, 1}, {1000, 1000});
  bench.checker.expect(packet);
  bench.host.submit(9, packet);
  run_until_idle();
  const auto& done = bench.host.results.at(0);
  const auto at = [](Cycle ns) { return ns * 1000; };
  // To the CWD 5; session 4, 6 steps of the bisection, and a mask in 2; the level is not full, which takes a count of
  // the prefixes of 16 SMs, up 4 levels of a tree and down again, four in a cycle.
  CHECK(params.start_path() == 17);
  CHECK(done.submitted == at(10));
  CHECK(done.start == at(29));
  // GPC 10, MPC 2, SM 1; then the CTA, 5 to start and 1,000 to run; it asks its MPC and waits, 1 and 1 (CGA-11); its
  // completion leaves the MPC when it has gone, and goes back: 2, 10.
  REQUIRE(bench.checker.edges.size() == 2);
  CHECK(bench.checker.edges[0].cycle == 29 + 13);
  CHECK(bench.checker.edges[1].cycle == 29 + 13 + 1005 + 2);
  CHECK(done.end == at(29 + 13 + 1005 + 2 + 12));
}

TEST_CASE("the gap between kernels of a stream is what was asked for", "[gpu]") {
  for (const std::string search : {"scan", "bisection"}) {
    for (const std::string gap : {"0 ns", "10 ns", "100 ns", "1300 ns"}) {
      CAPTURE(search, gap);
      const GpuParams params = params_of("small", {"gpu.cwd.level_search=" + search, "gpu.task.stream_gap=" + gap});
      SimFixture sim;
      GpuBench bench(params);
      for (std::uint32_t i = 0; i < 3; ++i) {
        const auto packet = kernel_packet(i, 0, {10, 1, 1}, {32, 1, 1});  // a CTA for each SM
        bench.checker.expect(packet);
        bench.host.submit(0, packet);
      }
      run_until_idle();
      // At least the way there and back within the front end.
      const double path = static_cast<double>(params.cwd.done_distance + params.start_path());
      const double wanted = std::max(params.task.stream_gap, path);
      for (std::uint32_t i = 1; i < 3; ++i) {
        const heddle::Picoseconds pause = bench.host.results.at(i).start - bench.host.results.at(i - 1).end;
        CHECK(static_cast<double>(pause) == wanted * 1e3);
      }
    }
  }
}

TEST_CASE("streams that wait for each other end in a chain of waits", "[gpu]") {
  SimFixture sim;
  GpuBench bench(params_of("small"));
  bench.observation.labels.set(0, "gemm of stream a");
  bench.observation.labels.set(1, "reduce of stream b");
  for (std::uint32_t i = 0; i < 2; ++i) {
    bench.host.submit(i, wait_packet(i, i, 1 - i));
    bench.host.submit(i, kernel_packet(i, i, {4, 1, 1}, {32, 1, 1}));
  }
  const auto innocent = kernel_packet(2, 2, {4, 1, 1}, {32, 1, 1});
  bench.checker.expect(innocent);
  bench.host.submit(0, innocent);
  run_until_idle();
  CHECK(bench.host.order == std::vector<std::uint32_t>{2});
  CHECK(bench.gpu.open_operations() == 2);
  CHECK(bench.gpu.domain().idle());
  CHECK_THROWS_AS(bench.gpu.check_quiescent(), heddle::CheckFailed);
  heddle::WaitGraph waits;
  bench.gpu.domain().collect_waits(waits);
  const std::vector<std::string> chain = waits.chain();
  REQUIRE(chain.size() == 3);
  CHECK_THAT(chain[0], Contains("gemm of stream a waits") && Contains("reduce of stream b"));
  CHECK_THAT(chain[1], Contains("reduce of stream b waits") && Contains("gemm of stream a"));
  CHECK_THAT(chain[2], Contains("circle"));

  bench.gpu.reset();
  bench.gpu.check_quiescent();
}

TEST_CASE("a busy machine is not quiescent", "[gpu][CWD-07]") {
  GpuParams params = params_of("small", {"gpu.run_ahead=0"});
  SimFixture sim;
  GpuBench bench(params);
  const auto packet = kernel_packet(0, 0, {4, 1, 1}, {32, 1, 1}, {100'000, 100'000});
  bench.checker.expect(packet);
  bench.host.submit(0, packet);
  run_until(sc_core::sc_time(50, sc_core::SC_US));
  CHECK(bench.gpu.open_operations() == 1);
  CHECK_THROWS_AS(bench.gpu.check_quiescent(), heddle::CheckFailed);
  run_until_idle();
  bench.gpu.check_quiescent();
}

TEST_CASE("a kernel that no SM can hold is reported, and the machine stays clean", "[gpu]") {
  SimFixture sim;
  GpuBench bench(params_of("small"));
  auto packet = kernel_packet(0, 0, {4, 1, 1}, {1025, 1, 1});
  bench.host.submit(0, packet);
  run_until_idle();
  CHECK(bench.host.results.at(0).status == DoneStatus::rejected);
  CHECK(bench.stat("task.rejected") == 1);
  CHECK(bench.stat("cwd.tasks") == 0);
  bench.gpu.check_quiescent();
}

TEST_CASE("grids of one session each fill a machine to its limits, not beyond", "[gpu][CWD-01][CWD-03]") {
  // 10 SMs; 512 threads a CTA: 4 on an SM, 40 in all.
  SimFixture sim;
  GpuBench bench(params_of("small"));
  const auto packet = kernel_packet(0, 0, {100, 1, 1}, {512, 1, 1}, {10'000, 10'000});
  bench.checker.expect(packet);
  bench.host.submit(0, packet);
  run_until_idle();
  CHECK(bench.checker.verdict() == std::vector<std::string>{});
  std::vector<int> resident(10), most(10);
  for (const CtaChecker::Edge& edge : bench.checker.edges) {
    resident[edge.sm] += edge.start ? 1 : -1;
    most[edge.sm] = std::max(most[edge.sm], resident[edge.sm]);
  }
  CHECK(most == std::vector<int>(10, 4));
  // The first CTA of every SM starts before the second of any: level by level.
  for (std::size_t i = 0; i < 40; ++i) CHECK(bench.checker.edges[i].index / 10 == i / 10);
}

TEST_CASE("contradictory parameters are refused with a remedy", "[gpu][CWD-46]") {
  const auto refuses = [](GpuParams params, const std::string& text) {
    SimFixture sim;
    heddle::GpuObservation observation("gpu0");
    CHECK_THROWS_WITH(Gpu("gpu0", params, 1, observation), Contains(text));
    CHECK_THROWS_AS(params.check(), InputError);
  };
  GpuParams params;
  params.sm.limits.max_threads_per_cta = 4096;
  refuses(params, "a CTA cannot be larger than an SM");
  params = {};
  params.sm.limits.max_shared_per_cta = 300'000;
  refuses(params, "lower max_shared_per_cta");
  params = {};
  params.cwd.sm_priority = {heddle::cwd::UnitOrder::Order::listed, {0, 1, 2}};
  refuses(params, "permutation of 0 to 131");
  params = {};
  params.machine.ugpus = {2, 2, 4};
  refuses(params, "gpu.ugpus has 3 uGPUs, but gpu.l2.partitions is 2");
  params.machine.ugpus = {8};
  refuses(params, "name as many uGPUs as there are partitions");
  params.machine.ugpus = {1, 7};
  CHECK_NOTHROW(params.check());
  CHECK_THROWS_WITH(heddle::gpu::preset("h100-sxn"), Contains("did you mean h100-sxm"));
  CHECK(heddle::gpu::preset_for_device("NVIDIA H100 80GB HBM3") == "h100-sxm");
  CHECK(heddle::gpu::preset_for_device("abacus").empty());
}

}  // namespace gpu_test

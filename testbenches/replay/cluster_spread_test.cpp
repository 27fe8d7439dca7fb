// What placement is worth to a kernel that computes: clusters in multicast mode end when those in load-balancing mode
// do.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/params.h"
#include "replay/simulation.h"
#include "scenario/scenario.h"

namespace replay_cluster_spread_test {

using namespace heddle;

namespace {

struct Seen final : CtaListener {
  void cta_started(const Cta& cta) override { sms.insert(cta.sm); }
  void cta_ended(const Cta& cta) override { last_end = std::max(last_end, cta.cycle); }
  std::set<std::uint32_t> sms;
  std::uint64_t last_end = 0;
};

// Clusters of `size`, each warp with so many fp32 instructions.
Seen run(std::uint32_t ctas, std::uint32_t size, const std::string& mode) {
  const scenario::Scenario read = scenario::parse_scenario(
      fmt::format("heddle: 1\nkernels:\n  - {{name: k, grid: {}, block: 256, cluster: {{gpc: {}, mode: {}}}, program: "
                  "[{{compute: {{unit: fp32, count: 2000}}}}]}}\nsubmit: [{{kernel: k, stream: a}}]\n",
                  ctas, size, mode),
      "test");
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset("h100-sxm"), {Origin::Kind::preset, "preset h100-sxm"});
  layers.resolve(binder, 0);
  Seen seen;
  replay::Job job;
  job.instance = "gpu0";
  job.params = params;
  job.workload = &read.workloads.front();
  job.ctas = &seen;
  REQUIRE(replay::simulate({job}, {}).progress);
  return seen;
}

}  // namespace

TEST_CASE("a kernel that computes ends in multicast mode when it ends in the other", "[replay][CWD-15][CWD-16]") {
  const Seen multicast = run(132, 2, "multicast");
  const Seen balanced = run(132, 2, "load_balancing");
  CHECK(multicast.sms.size() == 132);
  CHECK(balanced.sms.size() == 132);
  CHECK(static_cast<double>(multicast.last_end) < 1.1 * static_cast<double>(balanced.last_end));
}

}  // namespace replay_cluster_spread_test

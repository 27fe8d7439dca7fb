// Clusters as users meet them: shipped scenarios, traps, and a cluster that hangs.
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_cluster_command_test {

using namespace heddle::test;

namespace {

std::string hung(const std::string& steps) {
  return R"(heddle: 1
gpu: small
kernels:
  - name: gather
    grid: 4
    block: 64
    shared: 256 B
    cluster: {gpc: 4}
    program:
)" + steps +
         R"(      - cluster_barrier
submit:
  - {kernel: gather, stream: a}
)";
}

}  // namespace

TEST_CASE("the scenarios with clusters meet what they expect", "[cli][CGA-06][CGA-13][CGA-14]") {
  const TempDir dir;
  for (const char* name : {"cluster_histogram.yaml", "cluster_exchange.yaml", "cluster_pipeline.yaml"}) {
    for (const char* timing : {"at", "fast", "lt"}) {
      CAPTURE(name, timing);
      const Results results = run_well(dir, {scenario(name), "--timing", timing});
      CHECK(results.stat("gpu0.faults") == 0);
    }
  }
}

TEST_CASE("a scenario can expect the trap of a CGA", "[cli][CGA-08]") {
  const TempDir dir;
  const Results results = run_well(dir, {scenario("cluster_fault.yaml"), "--set", "gpu.sm.memory.pc_fifo=0"});
  REQUIRE(results.document().at("faults").size() >= 1);
  const nlohmann::json fault = results.document().at("faults").front();
  CAPTURE(fault.dump());
  CHECK(fault.at("kind") == "cta_not_present");
  CHECK(fault.at("expected") == true);
  CHECK(fault.at("trap").at("gpc_local_cga_id") == 0);
  CHECK(fault.at("trap").at("cta_id_in_cga") == 0);
  CHECK(fault.at("trap").at("target") == 1);
}

TEST_CASE("a hung cluster names the barrier and the CTAs that it waits for", "[cli][CGA-13][CGA-14]") {
  const TempDir dir;
  SECTION("a CTA that waits for data which never come") {
    dir.write("s.yaml", hung(R"(      - if:
          cond: rank == 2 && warp == 1
          then:
            - mbarrier_init: {at: 64, count: 3}
            - mbarrier_arrive: {at: 64, expect: 128}
            - mbarrier_wait: {at: 64, parity: 0}
)"));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    INFO(finished.out);
    INFO(finished.err);
    CHECK(finished.status == 3);
    const std::string said = finished.out + finished.err;
    CHECK(contains(said, "the cluster barrier of gather"));
    CHECK(contains(said, "3 of 4 CTAs have arrived"));
    CHECK(contains(said, "CTA 2 of CGA 0"));
    CHECK(contains(said, "mbarrier at 0x40"));
    CHECK(contains(said, "128 bytes"));
  }
  SECTION("a warp of a CTA at another barrier") {
    dir.write("s.yaml", hung(R"(      - if:
          cond: rank == 1 && warp == 0
          then: [barrier]
)"));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    INFO(finished.out);
    INFO(finished.err);
    CHECK(finished.status == 3);
    const std::string said = finished.out + finished.err;
    CHECK(contains(said, "3 of 4 CTAs have arrived"));
    CHECK(contains(said, "CTA 1 of CGA 0"));
    CHECK(contains(said, "at barrier 0, where 1 of 2 warps have arrived"));
  }
}

}  // namespace cli_cluster_command_test

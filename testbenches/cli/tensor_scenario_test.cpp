// The shipped scenarios with bulk requests, as users run them.
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_tensor_scenario_test {

using namespace heddle::test;

TEST_CASE("the scenarios with tensors meet what they expect", "[cli][TMA-11][TMA-22][TMA-30][TMA-44]") {
  const TempDir dir;
  for (const char* name : {"tma_gemm_2x1.yaml", "tma_gemm_2x2.yaml", "tma_conv.yaml", "tma_split_k.yaml",
                           "tma_halo_conv.yaml", "tensor_interface.yaml"}) {
    for (const char* timing : {"at", "lt"}) {
      CAPTURE(name, timing);
      const Results results = run_well(dir, {scenario(name), "--timing", timing});
      CHECK(results.stat("gpu0.faults") == 0);
    }
  }
}

TEST_CASE("a missing proxy fence stores old bytes and is on record", "[cli][TMA-41]") {
  const TempDir dir;
  for (const char* timing : {"at", "lt"}) {
    CAPTURE(timing);
    const Results results = run_well(dir, {scenario("missing_fence.yaml"), "--timing", timing});
    REQUIRE(results.document().at("faults").size() == 1);
    CHECK(results.document().at("faults").at(0).at("kind") == "missing_fence");
    CHECK(results.document().at("faults").at(0).at("fatal") == false);
  }
}

TEST_CASE("the comparison of copies and tensor loads meets what it expects", "[cli][TMA-00]") {
  const TempDir dir;
  const Results results = run_well(dir, {scenario("tma_copy_compare.yaml")});
  CHECK(results.stat("gpu0.faults") == 0);
  CHECK(results.stat("gpu1.faults") == 0);
}

}  // namespace cli_tensor_scenario_test

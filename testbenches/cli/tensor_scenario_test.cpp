// The shipped scenarios with bulk requests, as users run them.
#include "cli/program.h"

namespace cli_tensor_scenario_test {

using namespace heddle::test;

TEST_CASE("the scenarios with tensors meet what they expect", "[cli][TMA-11][TMA-22][TMA-30]") {
  const TempDir dir;
  for (const char* name : {"tma_gemm_2x1.yaml", "tma_gemm_2x2.yaml", "tma_conv.yaml", "tma_split_k.yaml"}) {
    for (const char* timing : {"at", "lt"}) {
      CAPTURE(name, timing);
      const Results results = run_well(dir, {scenario(name), "--timing", timing});
      CHECK(results.stat("gpu0.faults") == 0);
    }
  }
}

TEST_CASE("the comparison of copies and tensor loads meets what it expects", "[cli][TMA-00]") {
  const TempDir dir;
  const Results results = run_well(dir, {scenario("tma_copy_compare.yaml")});
  CHECK(results.stat("gpu0.faults") == 0);
  CHECK(results.stat("gpu1.faults") == 0);
}

}  // namespace cli_tensor_scenario_test

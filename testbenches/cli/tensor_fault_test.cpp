// What a run says of requests to the tensor memory access unit that break a rule.
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_tensor_fault_test {

using namespace heddle::test;

namespace {

// CTA 1 asks for a box of a tensor whose stride is wrong.
std::string torn_tensor(const std::string& expect) {
  return R"(heddle: 1
gpu: small
memory:
  - {name: x, bytes: 4 KiB}
tensors:
  - {name: torn, memory: x, type: f32, size: [64, 4], stride: 264, box: [32, 4], broken: true}
kernels:
  - name: k
    grid: 4
    block: 32
    shared: 1 KiB
    program:
      - mbarrier_init: {at: 512, count: 1}
      - if: {cond: cta == 1 && lane == 7, then: [{tensor_load: {tensor: torn, at: [0, 0], to: 0, barrier: 512}}]}
submit:
  - {kernel: k, stream: a}
)" + (expect.empty() ? expect : "expect:\n" + expect);
}

}  // namespace

TEST_CASE("a request that breaks a rule is a fault that names it", "[cli][TMA-06]") {
  const TempDir dir;
  const struct {
    const char* expect;
    bool met;
  } cases[] = {{"", false},
               {"  - {fault: tensor, kernel: k}\n", true},
               {"  - {fault: tensor, kernel: k, rule: stride_alignment}\n", true},
               {"  - {fault: tensor, kernel: k, rule: box}\n", false}};
  for (const auto& one : cases) {
    for (const bool trap : {true, false}) {
      CAPTURE(one.expect, trap);
      dir.write("s.yaml", torn_tensor(one.expect));
      const std::string errors = std::string("gpu.sm.tensor_errors=") + (trap ? "trap" : "report");
      const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--set", errors});
      INFO(finished.out);
      INFO(finished.err);
      CHECK(finished.status == (one.met ? 0 : 1));
      CHECK(contains(finished.out, "CTA 1 (1, 0, 0), warp 0, lane 7: tensor_load torn (line 14)"));
      CHECK(contains(finished.out, "(stride_alignment: a stride is not a multiple of 16"));
      const Results results(dir.file("out"));
      CHECK(results.document().at("completed") == true);
      CHECK(results.stat("gpu0.faults") == 1);
      CHECK(results.stat("gpu0.task.faulted") == (trap ? 1 : 0));
      CHECK(results.stat("gpu0.task.kernels") == (trap ? 0 : 1));
      REQUIRE(results.document().at("faults").size() == 1);
      const nlohmann::json& fault = results.document().at("faults").at(0);
      CHECK(fault.at("kind") == "tensor");
      CHECK(fault.at("rule") == "stride_alignment");
      CHECK(fault.at("fatal") == trap);
      CHECK(fault.at("step") == "tensor_load");
      CHECK(fault.at("expected") == one.met);
      REQUIRE(results.page().at("gpus").at(0).at("faults").size() == 1);
      const nlohmann::json& row = results.page().at("gpus").at(0).at("faults").at(0);
      CHECK(contains(row.at("what").get<std::string>(), "a stride is not a multiple of 16"));
    }
  }
}

}  // namespace cli_tensor_fault_test

// What a run says of device-side launches: of records that a program has overwritten, and of warps that wait.
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "support/gpu_lab.h"

namespace cli_nested_command_test {

using namespace heddle::test;

// The fault has no kernel: nobody knows any more whose CTA lies there.
TEST_CASE("a program that overwrites a saved CTA leaves a fault and a chain of waits", "[cli][TSK-12]") {
  const TempDir dir;
  const std::uint64_t area = preset_params("small").nested_memory().chunks.record(0);
  dir.write("s.yaml", fmt::format(R"(heddle: 1
gpu: small
config:
  gpu:
    sm: {{nested: {{launch_instructions: 12, save: true, save_delay: 200}}}}
kernels:
  - name: child
    grid: 1
    block: 32
    program:
      - compute: {{unit: fp32, count: 20000}}
  - name: parent
    grid: 1
    block: 32
    program:
      - if: {{cond: lane == 0, then: [{{launch: {{kernel: child}}}}]}}
      - wait_children
  - name: vandal
    grid: 1
    block: 32
    program:
      - compute: {{unit: fp32, count: 10000}}
      - if: {{cond: lane == 0, then: [{{store: {{value: 4711, type: u32, at: 0x{:x}}}}}]}}
submit:
  - {{kernel: parent, stream: a}}
  - {{kernel: vandal, stream: b}}
)",
                                  area));
  for (const char* submit : {"streams", "aql", "tmdq"}) {
    CAPTURE(submit);
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--submit", submit});
    INFO(finished.out);
    INFO(finished.err);
    CHECK((finished.status == 1 || finished.status == 3));
    CHECK(contains(finished.out, "FAULT:   gpu0"));
    CHECK(contains(finished.out, "the area of a saved CTA does not name its task"));
    CHECK(contains(finished.out + finished.err, "waits: for its descendants"));
  }
}

TEST_CASE("warps that launch, and wait for what they launched, have lines of their own on the page", "[cli][TSK-12]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
config:
  gpu: {sm: {nested: {save: false}}}
kernels:
  - {name: child, grid: 1, block: 32, program: [{compute: {unit: fp32, count: 9000}}]}
  - name: parent
    grid: 1
    block: 32
    program:
      - if: {cond: lane == 0, then: [{launch: {kernel: child}}]}
      - wait_children
submit:
  - {kernel: parent, stream: a}
)");
  const Results results = run_well(dir, {"s.yaml"});
  std::map<std::string, double> shares;
  for (const nlohmann::json& row : results.page().at("gpus").at(0).at("memory").at("warp_time")) {
    shares[row.at("label")] = row.at("share_percent").get<double>();
  }
  CHECK(shares.at("waiting for kernels that they launched") > 20);
  CHECK(shares.at("launching kernels, or appending to queues") > 5);
  CHECK(shares.at("issuing, starting or ending") < 70);
}

}  // namespace cli_nested_command_test

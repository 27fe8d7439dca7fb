// A recording of one rank on several GPUs, and what runs that communicate need.
#include <string>
#include <vector>

#include "cli/program.h"

namespace cli_ranks_command_test {

using namespace heddle::test;

namespace {

// A kernel, an all-reduce of 1 MiB behind it in another stream, and one whose size is not recorded.
std::string recording() {
  return R"~({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
 "traceEvents": [
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 0.0, "dur": 4.0,
   "args": {"correlation": 1}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5.0, "dur": 1.0,
   "args": {"correlation": 2}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 7.0, "dur": 1.0,
   "args": {"correlation": 3}},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 8.0, "dur": 60.0,
   "args": {"device": 0, "stream": 7, "correlation": 1, "grid": [132, 1, 1], "block": [256, 1, 1]}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": 0, "tid": 9, "ts": 70.0,
   "dur": 900.0,
   "args": {"device": 0, "stream": 9, "correlation": 2, "grid": [8, 1, 1], "block": [512, 1, 1],
            "Collective name": "allreduce", "In msg nelems": 262144, "Out msg nelems": 262144, "dtype": "Float",
            "Group size": 8, "Process Group Name": "0"}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": 0, "tid": 9, "ts": 972.0,
   "dur": 30.0,
   "args": {"device": 0, "stream": 9, "correlation": 3, "grid": [8, 1, 1], "block": [512, 1, 1]}}]})~";
}

}  // namespace

TEST_CASE("a recording of one rank runs on several, its collectives over links", "[cli][LNK-12][LNK-13]") {
  const TempDir dir;
  dir.write("t.json", recording());
  const Finished run = heddle_in(
      dir, {"run", "t.json", "--ranks", "2", "--timing", "fast", "--set", "links.topology=switch", "--out", "two"});
  CAPTURE(run.out, run.err);
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, "1 collective over the links of 2 GPUs, predicted"));
  CHECK(contains(run.out, "2 kernels of communication with recorded durations, fitted (2: size not recorded)"));
  CHECK(contains(run.out, "--ranks 2: every GPU does what the recorded one did"));
  // What was fitted is judged by itself: the recorded machine at the recorded pace.
  CHECK(contains(run.out, "the lines below judge the model on the recorded machine"));
  CHECK(contains(run.out, "collectives over links"));
  const Results results(dir.file("two"));
  for (const std::size_t gpu : {0U, 1U}) {
    const auto& kernels = results.page().at("gpus").at(gpu).at("kernels");
    CHECK(kernels.at(1).at("us").get<double>() < 100);  // 900 us recorded; 1 MiB at the links' limit takes 3 us
    CHECK(kernels.at(1).at("us").get<double>() > 3);
    CHECK(kernels.at(1).at("baseline_us").get<double>() == Approx(900).epsilon(0.01));
    CHECK(kernels.at(2).at("us").get<double>() == Approx(30).epsilon(0.05));
  }

  const Finished alone = heddle_in(
      dir, {"run", "t.json", "--ranks", "2", "--timing", "fast", "--set", "links.topology=switch", "--no-baseline"});
  REQUIRE(alone.status == 0);
  CHECK_FALSE(contains(alone.out, "span error"));  // of a mixture
}

TEST_CASE("without links nothing communicates: words, and no fault", "[cli][LNK-13]") {
  const TempDir dir;
  dir.write("t.json", recording());
  const Finished ranks = heddle_in(dir, {"run", "t.json", "--ranks", "2"});
  CHECK(ranks.status == 2);
  CHECK(contains(ranks.err, "run over links between its GPUs, and there are none"));
  CHECK(contains(ranks.err, "links.topology=switch"));
  dir.write("s.yaml", R"yaml(
heddle: 1
name: s
gpus: [small, small]
memory: [{name: x, bytes: 4 KiB, gpu: 0, shared: true}, {name: y, bytes: 4 KiB, gpu: 1, shared: true}]
streams: [{name: a, gpu: 0}, {name: b, gpu: 1}]
submit: [{all_reduce: 4 KiB, streams: [a, b], buffers: [x, y]}]
)yaml");
  const Finished scenario = heddle_in(dir, {"run", "s.yaml"});
  CHECK(scenario.status == 2);
  CHECK(contains(scenario.err, "run over links between its GPUs, and there are none"));
  CHECK(heddle_in(dir, {"run", "s.yaml", "--set", "links.topology=direct", "--quiet"}).status == 0);
}

TEST_CASE("ranks are copies of one GPU's recording", "[cli][LNK-13]") {
  const TempDir dir;
  dir.write("t.json", recording());
  const Finished two = heddle_in(dir, {"run", "t.json", "t.json", "--ranks", "2"});
  CHECK(two.status == 2);
  CHECK(contains(two.err, "--ranks copies what one GPU did, and 2 are recorded"));
  CHECK(heddle_in(dir, {"run", "--ranks", "2"}).status == 2);  // a scenario
  CHECK(heddle_in(dir, {"run", "t.json", "--ranks", "0"}).status == 2);
}

}  // namespace cli_ranks_command_test

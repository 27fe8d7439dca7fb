// A recording of one rank on several GPUs, and what runs that communicate need.
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/machines.h"
#include "cli/program.h"
#include "cli/run_options.h"

namespace cli_ranks_command_test {

using namespace heddle;
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

// All-reduces of 16 KiB, one behind the other, with these numbers; and who is in their group.
std::string numbered(const std::vector<int>& numbers, const std::string& members = R"("[0, 1]")") {
  std::string events;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    events += fmt::format(
        R"~({}{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {}, "dur": 0.5,
   "args": {{"correlation": {}}}}},
  {{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "pid": 0, "tid": 9, "ts": {},
   "dur": 20.0, "args": {{"device": 0, "stream": 9, "correlation": {}, "grid": [8, 1, 1], "block": [512, 1, 1],
   "Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096, "dtype": "Float", "Group size": 2,
   "Process Group Name": "0", "Process Group Ranks": {}, "Seq": {}}}}})~",
        i > 0 ? ",\n" : "", i, i + 1, 100 + 30 * i, i + 1, members, numbers[i]);
  }
  return fmt::format(
      R"({{"deviceProperties": [{{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}}], "traceEvents": [{}]}})",
      events);
}

Finished run_two(const TempDir& dir, const std::string& first, const std::string& second) {
  dir.write("first.json", first);
  dir.write("second.json", second);
  return heddle_in(
      dir, {"run", "first.json", "second.json", "--timing", "fast", "--no-baseline", "--set", "links.topology=switch"});
}

}  // namespace

TEST_CASE("files that begin at different places match by number, one of which may be doubled",
          "[cli][LNK-12][LNK-14]") {
  const TempDir dir;
  const Finished run = run_two(dir, numbered({1, 2, 3, 4, 5, 6}), numbered({3, 4, 5, 6, 7, 8}));
  CAPTURE(run.out, run.err);
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, "4 collectives over the links of 2 GPUs, predicted; matched by number: 4, by order: 0"));
  CHECK(contains(run.out, "gpu1: its recorded times are moved by 60.0 us"));
  CHECK(contains(run.out, "4: not on all GPUs of the run"));
  const Finished doubled = run_two(dir, numbered({1, 2, 3, 4, 5, 5}), numbered({3, 4, 5, 6, 7, 8}));
  REQUIRE(doubled.status == 0);
  CHECK(contains(doubled.out, "2 collectives over the links of 2 GPUs, predicted; matched by number: 2, by order: 0"));
  CHECK(contains(doubled.out, "3: of a number that a GPU has twice in one group"));
}

TEST_CASE("members of a group are the same as a list and as a text", "[cli][LNK-12]") {
  const TempDir dir;
  const Finished same = run_two(dir, numbered({1}, "[0,  1]"), numbered({1}, R"("[0, 1]")"));
  CAPTURE(same.out, same.err);
  REQUIRE(same.status == 0);
  CHECK(contains(same.out, "1 collective over the links of 2 GPUs"));
  const Finished others = run_two(dir, numbered({1}, "[0, 1]"), numbered({1}, "[2, 3]"));
  REQUIRE(others.status == 0);
  CHECK(contains(others.out, "2: their groups of one name have other members"));
}

TEST_CASE("names of a collective's streams are names", "[cli][LNK-10]") {
  const TempDir dir;
  for (const bool streams : {true, false}) {
    dir.write("s.yaml", fmt::format(R"yaml(
heddle: 1
name: s
gpus: [small, small]
links: switch
memory: [{{name: x, bytes: 4 KiB, gpu: 0, shared: true}}, {{name: y, bytes: 4 KiB, gpu: 1, shared: true}}]
streams: [{{name: a, gpu: 0}}, {{name: b, gpu: 1}}]
submit: {{operations: [{{all_reduce: 64, streams: [{}, b], buffers: [{}, y]}}]}}
)yaml",
                                    streams ? "{x: 1}" : "a", streams ? "x" : "{x: 1}"));
    const Finished run = heddle_in(dir, {"run", "s.yaml"});
    CAPTURE(run.err);
    CHECK(run.status == 2);
    CHECK(contains(run.err, "a name is expected"));
  }
}

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

TEST_CASE("collectives of recordings run over links whatever submits them", "[cli][LNK-13]") {
  const TempDir dir;
  dir.write("t.json", recording());
  for (const std::string by : {"streams", "aql", "tmdq"}) {
    CAPTURE(by);
    const Finished run = heddle_in(dir, {"run", "t.json", "--ranks", "3", "--timing", "fast", "--set",
                                         "links.topology=switch", "--no-baseline", "--submit", by, "--out", by});
    CAPTURE(run.out, run.err);
    REQUIRE(run.status == 0);
    CHECK(contains(run.out, "1 collective over the links of 3 GPUs, predicted"));
    const Results results(dir.file(by));
    const auto& kernels = results.page().at("gpus").at(2).at("kernels");
    CHECK(kernels.at(1).at("us").get<double>() < 100);  // 900 us recorded
    CHECK(kernels.at(2).at("us").get<double>() == Approx(30).epsilon(0.05));
  }
}

TEST_CASE("collectives that do not fit into memory are refused in words of the recording", "[cli][LNK-13]") {
  const TempDir dir;
  std::string text = recording();
  for (std::size_t at = text.find("262144"); at != std::string::npos; at = text.find("262144")) {
    text.replace(at, 6, "40000000000");  // 160 GB
  }
  dir.write("t.json", text);
  const Finished run = heddle_in(dir, {"run", "t.json", "--ranks", "2", "--set", "links.topology=switch"});
  CHECK(run.status == 2);
  CHECK(contains(run.err, "collectives of the recording need"));
  CHECK(contains(run.err, "of memory on gpu0, which has 85899345920"));
}

TEST_CASE("statistics do not judge a mixture of what was fitted and what was predicted", "[cli][LNK-13]") {
  const TempDir dir;
  dir.write("t.json", recording());
  for (const bool mixed : {true, false}) {
    std::vector<std::string> line = {"run",      "t.json",
                                     "--ranks",  "2",
                                     "--timing", "fast",
                                     "--set",    "links.topology=switch",
                                     "--out",    mixed ? "mixed" : "apart"};
    if (mixed) line.emplace_back("--no-baseline");
    REQUIRE(heddle_in(dir, line).status == 0);
    const Results results(dir.file(mixed ? "mixed" : "apart"));
    CHECK(results.has("replay.span.modelled"));
    CHECK(results.has("replay.span.error") != mixed);
    CHECK(results.has("gpu1.replay.kernels_within_5_percent") != mixed);
    CHECK(results.has("replay.recorded_machine.span.error") != mixed);
  }
}

TEST_CASE("what runs over links is what the notes are about", "[cli][LNK-13]") {
  const TempDir dir;
  // On a machine with warps of 64, collectives become programs with warps of 32; no grid is recorded of the first.
  std::string text = recording();
  const auto replace = [&text](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  };
  replace(R"("correlation": 2, "grid": [8, 1, 1], "block": [512, 1, 1],)", R"("correlation": 2,)");
  dir.write("t.json", text);
  const std::vector<std::string> line = {
      "run", "t.json", "--ranks", "2", "--timing", "fast", "--no-baseline", "--set", "links.topology=switch", "--gpu"};
  const auto on = [&](std::vector<std::string> more) {
    more.insert(more.begin(), line.begin(), line.end());
    return heddle_in(dir, more);
  };
  const Finished amd = on({"mi300x"});
  CAPTURE(amd.out, amd.err);
  REQUIRE(amd.status == 0);
  CHECK(contains(amd.out, "programs run in warps of 32 threads"));
  CHECK(contains(amd.out, "of 1 the recording has no grid, and one CTA per SM is assumed"));
  CHECK(contains(amd.out, "(recorded with 8 ranks)"));
  CHECK_FALSE(contains(on({"h100-sxm"}).out, "programs run in warps of 32 threads"));

  // A kernel of the library that asks for too much does not run where its collective does.
  text = recording();
  replace(R"("block": [512, 1, 1],
            "Collective name")",
          R"("block": [512, 1, 1], "shared memory": 231424,
            "Collective name")");
  dir.write("t.json", text);
  const Finished clamped = on({"a100", "--misfits", "clamp"});
  CAPTURE(clamped.out, clamped.err);
  REQUIRE(clamped.status == 0);
  CHECK_FALSE(contains(clamped.out, "--misfits clamp"));
}

TEST_CASE("copies of one rank are fitted once, where they were recorded on one machine", "[cli][LNK-13]") {
  const TempDir dir;
  dir.write("t.json", recording());
  cli::RunOptions options;
  options.files = {dir.file("t.json")};
  options.ranks = 2;
  options.fit = cli::Fit::demand;
  cli::Inputs inputs = cli::load_inputs(options);
  const std::vector<cli::Fitted> fitted = cli::fit_workloads(inputs, cli::resolve_machines(inputs, options), options);
  REQUIRE(fitted.size() == 2);
  REQUIRE(fitted[0].demands != nullptr);
  CHECK(fitted[0].demands == fitted[1].demands);
  CHECK(fitted[1].workload.ops[0].kernel.duration.min == fitted[0].workload.ops[0].kernel.duration.min);
  // A device that nobody knows is fitted to the machines that are chosen, which may differ.
  for (workload::Workload& workload : inputs.workloads) workload.device = {};
  options.gpus = {"h100-sxm", "a100"};
  const std::vector<cli::Fitted> apart = cli::fit_workloads(inputs, cli::resolve_machines(inputs, options), options);
  CHECK(apart[0].demands != apart[1].demands);
}

TEST_CASE("recordings of several files begin where their first collective ends at one time", "[cli][LNK-14]") {
  const TempDir dir;
  dir.write("a.json", recording());
  std::string later = recording();
  const std::size_t at = later.find(R"("ts": 70.0)");
  REQUIRE(at != std::string::npos);
  later.replace(at, 10, R"("ts": 90.0)");
  later.replace(later.find(R"("ts": 972.0)"), 11, R"("ts": 992.0)");
  dir.write("b.json", later);
  const Finished run =
      heddle_in(dir, {"run", "a.json", "b.json", "--timing", "fast", "--set", "links.topology=switch"});
  CAPTURE(run.out, run.err);
  REQUIRE(run.status == 0);
  CHECK(contains(run.out, "gpu0: its recorded times are moved by 20.0 us"));
  CHECK(contains(run.out, "1 collective over the links of 2 GPUs"));
  CHECK_FALSE(contains(heddle_in(dir, {"run", "a.json", "b.json", "--timing", "fast"}).out, "are moved by"));
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

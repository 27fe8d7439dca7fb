// Recordings whose kernels demand what their operators say, or what a profiler counted.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/program.h"

namespace cli_fit_demand_test {

using namespace heddle::test;

namespace {

// A copy of 64 MiB, read and written, by as many CTAs as an H100 holds twice; and a kernel of which nothing is known.
std::string recording() {
  return R"~({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
 "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::neg", "pid": 1, "tid": 1, "ts": 0.0, "dur": 9.0,
   "args": {"External id": 5, "Input Dims": [[33554432]], "Input type": ["c10::Half"], "Input Strides": [[1]]}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1.0, "dur": 4.0,
   "args": {"correlation": 1, "External id": 5}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 16.0, "dur": 1.0,
   "args": {"correlation": 2}},
  {"ph": "X", "cat": "kernel", "name": "negate", "pid": 0, "tid": 7, "ts": 8.0, "dur": 60.0,
   "args": {"device": 0, "stream": 7, "correlation": 1, "grid": [4096, 1, 1], "block": [256, 1, 1],
            "registers per thread": 32, "shared memory": 0}},
  {"ph": "X", "cat": "kernel", "name": "other", "pid": 0, "tid": 7, "ts": 70.0, "dur": 10.0,
   "args": {"device": 0, "stream": 7, "correlation": 2, "grid": [132, 1, 1], "block": [128, 1, 1],
            "registers per thread": 32, "shared memory": 0}}]})~";
}

double kernel_us(const Results& results, std::size_t kernel) {
  return results.page().at("gpus").at(0).at("kernels").at(kernel).at("us").get<double>();
}

}  // namespace

TEST_CASE("kernels of a recording demand what their operators say", "[cli]") {
  const TempDir dir;
  dir.write("t.json", recording());
  const Results same = run_well(dir, {"t.json", "--fit", "demand"}, "same");
  CHECK(same.stat("replay.demands.by_operators") == 1);
  CHECK(same.stat("replay.demands.by_names") == 0);
  CHECK(same.stat("replay.demands.time") == Approx(100 * 60.0 / 70));
  CHECK(same.stat("replay.kernels_within_5_percent") == 2);
  const std::string table = read_file(same.file("demands.csv"));
  CHECK(contains(table, "gpu0,0,negate,operators,element-wise,4096,"));
  CHECK_FALSE(contains(table, "other"));

  // Half of memory's bandwidth: what demands it takes twice as long, the rest as long as before.
  const Results slow = run_well(dir, {"t.json", "--fit", "demand", "--set", "gpu.hbm.pin_rate=2.617"}, "slow");
  CHECK(kernel_us(slow, 0) / kernel_us(same, 0) == Approx(2).epsilon(0.05));
  CHECK(kernel_us(slow, 1) == Approx(kernel_us(same, 1)));
}

TEST_CASE("a what-if says what it leans on, and what cannot matter", "[cli]") {
  const TempDir dir;
  dir.write("t.json", recording());
  const Finished with = heddle_in(dir, {"run", "t.json", "--fit", "demand", "--set", "gpu.hbm.pin_rate=3", "--set",
                                        "gpu.sm.issue.tensor_flops=512", "--set", "gpu.cwd.gpc_distance=100"});
  INFO(with.out << with.err);
  REQUIRE(with.status == 0);
  CHECK(contains(with.out, "1 of 2 kernels, 1 by operators: 85.7 % of their time; fitted"));
  CHECK(contains(with.out, "memory 1, L2 1, crossbar 1"));
  CHECK(contains(with.out, "gpu.sm.issue.tensor_flops: it changes nothing that demands of this recording read"));
  CHECK_FALSE(contains(with.out, "pin_rate: no kernel"));
  CHECK(contains(with.out, "held back"));
  const Finished without = heddle_in(dir, {"run", "t.json", "--set", "gpu.hbm.pin_rate=3"});
  REQUIRE(without.status == 0);
  CHECK(contains(without.out, "gpu.hbm.pin_rate: CTAs run for fitted durations (--fit demand lets them share"));
}

TEST_CASE("a parameter that nothing of a replay reads is named, and changes nothing", "[cli][FLU-10]") {
  const TempDir dir;
  dir.write("t.json", recording());
  const auto named = [](const Finished& run) {
    std::string all;
    for (std::size_t at = run.out.find("cannot matter"); at != std::string::npos;
         at = run.out.find("cannot matter", at + 1)) {
      all += run.out.substr(at, run.out.find('\n', at) - at) + "\n";
    }
    return all;
  };
  const std::vector<std::string> base = {"run", "t.json", "--fit", "demand"};
  const auto times = [&](const std::string& out) {
    const Results results(dir.file(out));
    return std::make_pair(kernel_us(results, 0), kernel_us(results, 1));
  };
  const auto run = [&](std::vector<std::string> more, const std::string& out) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), {"--out", out});
    const Finished done = heddle_in(dir, all);
    INFO(done.out << done.err);
    REQUIRE(done.status == 0);
    return done;
  };
  run({}, "as_recorded");
  // Of the SMs' memory some parameters are for programs alone, and one is on the way of each demand: the beginnings of
  // their paths are the same.
  for (const char* idle : {"gpu.sm.memory.pc_fifo=4", "gpu.sm.memory.l1_ways=4", "gpu.sm.issue.tensor_queue=3",
                           "gpu.sm.issue.fp32.latency=9"}) {
    INFO(idle);
    const std::string set = idle;
    CHECK(contains(named(run({"--set", set}, "idle")), set.substr(0, set.find('='))));
    CHECK(times("idle") == times("as_recorded"));
  }
  for (const char* read : {"gpu.sm.memory.requests=16", "gpu.sm.memory.l1_latency=400", "gpu.hbm.pin_rate=1",
                           "gpu.xbar.l1_read_bandwidth=2", "gpu.sm.start_cycles=4000"}) {
    INFO(read);
    const std::string set = read;
    CHECK_FALSE(contains(named(run({"--set", set}, "read")), set.substr(0, set.find('='))));
    CHECK(times("read") != times("as_recorded"));
  }
  // What was set to what it is, or to more than any demand sees, is no change of the machine that is read.
  CHECK(named(run({"--set", "gpu.sm.memory.pc_fifo=8"}, "same")).empty());
  // Another machine: what its preset changes and no kernel asks for.
  const std::string h20 = named(run({"--gpu", "h20"}, "h20"));
  INFO(h20);
  CHECK(contains(h20, "gpu.sm.issue.tensor_flops"));
  CHECK_FALSE(contains(h20, "gpu.shape"));
}

TEST_CASE("what a profiler counted comes before what operators say", "[cli]") {
  const TempDir dir;
  dir.write("t.json", recording());
  dir.write("ncu.csv",
            R"~("ID","Kernel Name","Block Size","Grid Size","dram__bytes_read.sum","dram__bytes_write.sum"
"","","","","Mbyte","Mbyte"
"0","negate(half *)","(256, 1, 1)","(4096, 1, 1)","80","80"
"1","other(int)","(128, 1, 1)","(132, 1, 1)","1","1"
)~");
  const Results results = run_well(dir, {"t.json", "--fit", "demand", "--counters", "ncu.csv"}, "counted");
  CHECK(results.stat("replay.demands.by_counters") == 2);
  CHECK(results.stat("replay.demands.by_operators") == 0);
  CHECK(contains(read_file(results.file("demands.csv")), ",other,counters,"));
  const Finished alone = heddle_in(dir, {"run", "t.json", "--counters", "ncu.csv"});
  CHECK(alone.status == 2);
  CHECK(contains(alone.err, "--fit demand"));
  const Finished none = heddle_in(dir, {"run", "t.json", "--fit", "demand", "--counters", "t.json"});
  CHECK(none.status == 2);
  CHECK(contains(none.err, "t.json:1"));
}

TEST_CASE("what comes from memory follows from the size of another machine's L2", "[cli]") {
  const TempDir dir;
  std::string text =
      R"~({"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}], "traceEvents": [)~";
  // The second reads what the first has written: 8 MiB each.
  for (const int i : {0, 1}) {
    text += R"~({"ph": "X", "cat": "cpu_op", "name": "aten::neg", "pid": 1, "tid": 1, "ts": )~" +
            std::to_string(10 * i) + R"~(, "dur": 9.0, "args": {"External id": )~" + std::to_string(5 + i) +
            R"~(, "Input Dims": [[4194304]], "Input type": ["c10::Half"], "Input Strides": [[1]]}},)~" +
            R"~({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": )~" +
            std::to_string(10 * i + 1) + R"~(, "dur": 4.0, "args": {"correlation": )~" + std::to_string(i + 1) +
            R"~(, "External id": )~" + std::to_string(5 + i) + R"~(}},)~" +
            R"~({"ph": "X", "cat": "kernel", "name": "negate", "pid": 0, "tid": 7, "ts": )~" +
            std::to_string(20 * i + 8) + R"~(, "dur": )~" + std::to_string(i == 0 ? 8 : 4) +
            R"~(, "args": {"device": 0, "stream": 7, "correlation": )~" + std::to_string(i + 1) +
            R"~(, "grid": [2112, 1, 1], "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0}})~" +
            (i == 0 ? "," : "]}");
  }
  dir.write("t.json", text);
  const Results same = run_well(dir, {"t.json", "--fit", "demand"}, "same");
  const Results small = run_well(dir, {"t.json", "--fit", "demand", "--set", "gpu.l2.bytes=5 MiB"}, "small");
  CHECK(same.stat("gpu0.demand.amount.dram_read") ==
        Approx(0.5 * small.stat("gpu0.demand.amount.dram_read")).epsilon(0.7));
  CHECK(same.stat("gpu0.demand.amount.dram_read") < small.stat("gpu0.demand.amount.dram_read"));
  CHECK(kernel_us(small, 0) == Approx(kernel_us(same, 0)).epsilon(0.1));
  CHECK(kernel_us(small, 1) > 1.5 * kernel_us(same, 1));
}

TEST_CASE("baselines are kept, and taken only for what they are of", "[cli]") {
  namespace fs = std::filesystem;
  const TempDir dir;
  dir.write("t.json", recording());
  const std::vector<std::string> what_if = {"t.json", "--set", "gpu.cwd.gpc_distance=100"};
  const auto kept = [&](std::vector<std::string> more, const std::string& out) {
    more.insert(more.begin(), what_if.begin(), what_if.end());
    more.insert(more.end(), {"--keep-baselines", "kept"});
    return read_file(run_well(dir, more, out).file("stats.json"));
  };
  const auto files = [&dir] {
    std::vector<std::string> all;
    for (const fs::directory_entry& its : fs::directory_iterator(dir.file("kept"))) all.push_back(its.path().string());
    return all;
  };
  const std::string without = read_file(run_well(dir, what_if, "without").file("stats.json"));
  CHECK(kept({}, "first") == without);
  REQUIRE(files().size() == 1);
  CHECK(kept({}, "second") == without);
  const std::string file = files()[0];
  const std::string text = read_file(file);

  // It is what was kept that the comparison stands on.
  const std::size_t last = text.rfind("0x");
  const auto write = [&file](const std::string& what) { std::ofstream(file, std::ios::binary) << what; };
  write(text.substr(0, last) + "0x1.8p+20\nend\n");
  CHECK(kept({}, "changed") != without);
  // What is cut short, or of another key, is simulated again.
  for (const std::string& wrong : {text.substr(0, text.size() - 3), "X" + text, text + "more", std::string()}) {
    write(wrong);
    CHECK(kept({}, "again") == without);
    CHECK(read_file(file) == text);
  }
  // Other machines, options and seeds have their own; the machine of the what-if makes no difference.
  kept({"--seed", "7"}, "seed");
  CHECK(files().size() == 2);
  kept({"--fit", "signature"}, "fit");
  CHECK(files().size() == 3);
  kept({"--set", "gpu.cwd.gpc_distance=50"}, "other");
  CHECK(files().size() == 3);
  kept({"--pace", "asap"}, "asap");
  CHECK(files().size() == 4);
  dir.write("t.json", recording() + " ");
  kept({}, "bytes");
  CHECK(files().size() == 5);
  const Finished both = heddle_in(dir, {"run", "t.json", "--keep-baselines", "kept", "--no-baseline"});
  CHECK(both.status == 2);
  CHECK(contains(both.err, "--no-baseline"));
}

}  // namespace cli_fit_demand_test

// What the program says, and how it ends, when it is given something that is wrong.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_error_command_test {

using namespace heddle::test;

namespace {

// Exit status 2; a message of the program's own on standard error, with these parts; nothing on standard output.
void refused(const TempDir& folder, const std::vector<std::string>& arguments, const std::vector<std::string>& parts) {
  std::string command = "heddle";
  for (const std::string& argument : arguments) command += " " + argument;
  const Finished finished = heddle_in(folder, arguments);
  INFO(command);
  INFO(finished.err);
  CHECK(finished.status == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err.rfind("heddle: ", 0) == 0);
  CHECK_FALSE(contains(finished.err, "internal error"));
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(finished.err, part));
  }
}

const char* kSmallScenario = R"(heddle: 1
gpu: small
kernels:
  - {name: work, grid: 8, block: 128, cycles: 1000}
submit:
  - {kernel: work, stream: a}
)";

}  // namespace

TEST_CASE("misspelt presets, parameters and options are refused with the nearest name", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kSmallScenario);
  refused(dir, {"run", "s.yaml", "--gpu", "h100-smx"}, {"h100-smx", "did you mean h100-sxm"});
  refused(dir, {"run", "s.yaml", "--gpu", "elephant"}, {"elephant", "heddle show presets"});
  dir.write("gpu.yaml", "gpu:\n  cwd:\n    sesion_step: 2\n");
  refused(dir, {"run", "s.yaml", "--gpu", "gpu.yaml"}, {"gpu.yaml:3", "sesion_step", "session_step"});
  dir.write("gpu.yaml", "gpux:\n  cwd: {session_step: 2}\n");
  refused(dir, {"run", "s.yaml", "--gpu", "gpu.yaml"}, {"gpu.yaml:1", "gpux"});
  dir.write("gpu.yaml", "gpu4:\n  cwd: {session_step: 2}\n");
  refused(dir, {"run", "s.yaml", "--gpu", "gpu.yaml"}, {"gpu.yaml:1", "gpu4"});
  dir.write("gpu.yaml", "preset: smal\ngpu: {cwd: {session_step: 2}}\n");
  refused(dir, {"run", "s.yaml", "--gpu", "gpu.yaml"}, {"smal", "did you mean small"});
  dir.write("gpu.yaml", "- 1\n- 2\n");
  refused(dir, {"run", "s.yaml", "--gpu", "gpu.yaml"}, {"gpu.yaml", "--dump-config"});
  dir.write("gpu.yaml", "gpu: [1, 2\n");
  refused(dir, {"run", "s.yaml", "--gpu", "gpu.yaml"}, {"gpu.yaml"});
  refused(dir, {"run", "s.yaml", "--gpu", "not/there.yaml"}, {"not/there.yaml"});
  refused(dir, {"run", "s.yaml", "--set", "gpu.cwd.sesion_step=2"}, {"sesion_step", "session_step"});
  refused(dir, {"run", "s.yaml", "--set", "gpu.cwd.session_step"}, {"gpu.cwd.session_step"});
  refused(dir, {"run", "s.yaml", "--set", "gpu.cwd.session_step=-1"}, {"session_step", "-1"});
  refused(dir, {"run", "s.yaml", "--set", "gpu.clock=3 us"}, {"clock", "us"});
  refused(dir, {"run", "s.yaml", "--set", "gpu.shape=[70]"}, {"shape", "70"});
  refused(dir, {"run", "s.yaml", "--set", "gpu.gpc.cga_memory=200"},
          {"gpu.gpc.cga_memory is 200 bytes", "make it a multiple of 128 bytes"});
  refused(dir, {"run", "s.yaml", "--sede", "3"}, {"--sede", "did you mean --seed"});
  refused(dir, {"run", "s.yaml", "--frobnicate"}, {"--frobnicate", "heddle run --help"});
  refused(dir, {"run", "s.yaml", "--seed", "many"}, {"seed", "many"});
  refused(dir, {"run", "s.yaml", "--seed"}, {"seed"});
  refused(dir, {"run", "s.yaml", "--timing", "slow"}, {"--timing slow", "at or fast or lt"});
  refused(dir, {"run", "s.yaml", "--pace", "slow"}, {"--pace slow", "recorded or host or asap"});
  refused(dir, {"run", "s.yaml", "--fit", "well"}, {"--fit well", "launch or signature"});
  refused(dir, {"run", "s.yaml", "--trace", "vcr"}, {"--trace vcr", "perfetto", "json"});
  for (const char* option : {"--trace-time", "--trace-units", "--trace-kernels"}) {
    refused(dir, {"run", "s.yaml", option, "1us..2us"}, {option, "--trace perfetto"});
  }
  for (const char* span : {"1us", "2us..1us", "1..2", "1us..x", "1 cycles..2us"}) {
    refused(dir, {"run", "s.yaml", "--trace", "perfetto", "--trace-time", span}, {"--trace-time", span});
  }
  refused(dir, {"run", "s.yaml", "--gpu", "small", "--gpu", "small"}, {"--gpu", "2 times", "1 GPU"});
  refused(dir, {"rum"}, {"rum", "heddle run"});
  refused(dir, {"show", "parms"}, {"parms", "heddle show params"});
  refused(dir, {"show", "params", "gpu.cwd.sesion_step"}, {"gpu.cwd.sesion_step", "did you mean gpu.cwd.session_step"});
  refused(dir, {"show", "tree", "--gpu", "smal"}, {"smal", "small"});
}

TEST_CASE("files that are no input are refused, and told from each other", "[cli][INP-07]") {
  const TempDir dir;
  const std::string bytes = gzipped(hand_made_trace());
  dir.write("cut.json.gz", bytes.substr(0, bytes.size() * 2 / 3));
  dir.write("cut.json", hand_made_trace().substr(0, 3000));
  dir.write("other.json", R"({"menu": {"id": "file", "items": [1, 2, 3]}})");
  dir.write("list.json", "[1, 2, 3]");
  dir.write("no_kernels.json", R"({"traceEvents": []})");
  dir.write("empty.json", "");
  dir.write("text.txt", "We apologise for the inconvenience.\n");
  dir.write("noise.gz", "\x1f\x8b gzip, but not really");
  dir.write("s.yaml", kSmallScenario);
  dir.write("t.json", hand_made_trace());
  refused(dir, {"run", "cut.json.gz"}, {"cut.json.gz", "truncated"});
  refused(dir, {"run", "cut.json"}, {"cut.json", "byte"});
  refused(dir, {"run", "other.json"}, {"other.json", "traceEvents"});
  refused(dir, {"run", "list.json"}, {"list.json", "neither"});
  refused(dir, {"run", "no_kernels.json"}, {"no_kernels.json", "kernel"});
  refused(dir, {"run", "empty.json"}, {"empty.json", "empty"});
  refused(dir, {"run", "text.txt"}, {"text.txt", "neither a scenario nor a recorded trace"});
  refused(dir, {"run", "noise.gz"}, {"noise.gz"});
  refused(dir, {"run", "absent.json"}, {"absent.json"});
  refused(dir, {"run", "."}, {"."});
  refused(dir, {"run", "s.yaml", "t.json"}, {"s.yaml", "alone"});
  refused(dir, {"run", "t.json", "s.yaml"}, {"s.yaml", "alone"});
  refused(dir, {"run", "s.yaml", "--device", "0"}, {"--device"});
  refused(dir, {"run", "t.json", "--device", "3"}, {"t.json", "device 3", "its devices: 0"});
  refused(dir, {"import", "kineto", "s.yaml"}, {"s.yaml", "not a Kineto trace"});
  refused(dir, {"import", "nvprof", "t.json"}, {"heddle import kineto"});
  refused(dir, {"import", "kineto"}, {"heddle import kineto"});
  refused(dir, {"import", "kineto", "t.json", "-o", "no/such/folder/s.yaml"},
          {"no/such/folder/s.yaml", "cannot be written"});
  // Nothing of all this has left results behind.
  CHECK_FALSE(std::filesystem::exists(dir.file("heddle-out")));
}

TEST_CASE("mistakes in a scenario are refused with file and line", "[cli]") {
  const TempDir dir;
  const std::string text = kSmallScenario;
  dir.write("key.yaml", text + "sed: 3\n");
  refused(dir, {"run", "key.yaml"}, {"key.yaml:7", "sed", "seed"});
  dir.write("gpu.yaml", std::string(text).replace(text.find("small"), 5, "smalll"));
  refused(dir, {"run", "gpu.yaml"}, {"smalll", "did you mean small"});
  dir.write("config.yaml", text + "config:\n  gpu: {cwd: {sesion_step: 1}}\n");
  refused(dir, {"run", "config.yaml"}, {"config.yaml:8", "sesion_step", "session_step"});
  dir.write("stat.yaml", text + "expect:\n  - {stat: gpu0.cwd.ctas_lunched, equals: 8}\n");
  // Known before the run.
  const Finished unknown = heddle_in(dir, {"run", "stat.yaml", "--out", "o"});
  CHECK(unknown.status == 2);
  for (const char* part : {"stat.yaml:8", "gpu0.cwd.ctas_lunched", "did you mean gpu0.cwd.ctas_launched"}) {
    CHECK(contains(unknown.err, part));
  }
  CHECK_FALSE(std::filesystem::exists(dir.file("o/stats.json")));
}

TEST_CASE("a table with more entries than a diff can name is refused", "[cli][PKT-13]") {
  const TempDir dir;
  dir.write("s.yaml", kSmallScenario);
  refused(dir, {"run", "s.yaml", "--set", "gpu.packet.entries=16"},
          {"gpu.packet.entries is 16", "gpu.packet.reference_bits is 3", "a diff can name 8"});
  const Finished more = heddle_in(
      dir, {"run", "s.yaml", "--set", "gpu.packet.entries=16", "--set", "gpu.packet.reference_bits=4", "--out", "o"});
  CHECK(more.status == 0);
}

TEST_CASE("reference state tables that device memory has no room for are refused", "[cli][PKT-11]") {
  const TempDir dir;
  dir.write("s.yaml", kSmallScenario);
  // 32 tables of 8 entries of 256 bytes, beside linear memories of CGAs that take all of it.
  refused(dir, {"run", "s.yaml", "--set", "gpu.memory=1 MiB", "--set", "gpu.packet.table=memory"},
          {"gpu.memory is 1048576 bytes", "reference state tables take 65536", "gpu.packet.queues"});
}

TEST_CASE("a kernel larger than an SM is refused by name", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
kernels:
  - {name: whale, grid: 8, block: 128, shared: 300 KiB, cycles: 1000}
submit:
  - {kernel: whale, stream: a}
)");
  refused(dir, {"run", "s.yaml", "--out", "o"}, {"whale", "shared memory", "307200", "gpu.sm.limits"});
  // It was possible on the machine of the recording, and is not on the one that is asked for.
  dir.write("t.json", hand_made_trace());
  refused(dir, {"run", "t.json", "--out", "o", "--set", "gpu.sm.limits.max_threads_per_cta=128"},
          {"kernel_0", "256", "128"});
}

TEST_CASE("graphs and programmatic kernels are refused where there are no streams", "[cli]") {
  const TempDir dir;
  dir.write("ahead.yaml", std::string(kSmallScenario) + "  - {kernel: work, stream: a, programmatic: true}\n");
  dir.write("graph.yaml",
            std::string(kSmallScenario) + "  - {graph: two, stream: a}\n" +
                "graphs:\n  - {name: two, nodes: [{name: x, kernel: work}, {name: y, kernel: work, after: x}]}\n");
  for (const char* file : {"ahead.yaml", "graph.yaml"}) {
    for (const char* by : {"aql", "tmdq"}) {
      refused(dir, {"run", file, "--submit", by}, {file, "programmatic kernels are of streams", "--submit streams"});
    }
    CHECK(heddle_in(dir, {"run", file, "--out", "out", "--quiet"}).status == 0);
  }
}

TEST_CASE("results that cannot be written end the run", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kSmallScenario);
  dir.write("file", "here first");
  refused(dir, {"run", "s.yaml", "--out", "file"}, {"file", "--out"});
  refused(dir, {"run", "s.yaml", "--out", "file/below"}, {"file/below", "--out"});
  refused(dir, {"run", "s.yaml", "--dump-config", "no/such/config.yaml"}, {"no/such/config.yaml", "cannot be written"});
  CHECK(read_file(dir.file("file")) == "here first");
  // A file of the results that cannot be replaced.
  std::filesystem::create_directories(dir.file("out/stats.json"));
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  CHECK(finished.status == 2);
  CHECK(contains(finished.err, "stats.json"));
}

TEST_CASE("a failed expectation is status 1 and says what it is instead", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", std::string(kSmallScenario) + R"(expect:
  - {stat: gpu0.cwd.ctas_launched, equals: 9}
  - {stat: gpu0.task.kernels, equals: 1}
)");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  INFO(finished.out);
  CHECK(finished.status == 1);
  CHECK(contains(finished.out, "FAILED: "));
  CHECK(contains(finished.out, "gpu0.cwd.ctas_launched = 9, but is 8 CTAs"));
  CHECK(contains(finished.out, "gpu0.task.kernels = 1\n"));
  const Results results(dir.file("out"));
  const nlohmann::json& expectations = results.document().at("expectations");
  REQUIRE(expectations.size() == 2);
  CHECK(expectations[0].at("ok") == false);
  CHECK(expectations[1].at("ok") == true);
  CHECK(results.page().at("expectations").size() == 2);
  // Quiet, one hears of nothing else.
  const Finished quiet = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet"});
  CHECK(quiet.status == 1);
  CHECK(quiet.out.empty());
  CHECK(contains(quiet.err, "gpu0.cwd.ctas_launched = 9, but is 8 CTAs"));
  CHECK_FALSE(contains(quiet.err, "gpu0.task.kernels"));
}

TEST_CASE("a scenario that can make no progress is status 3 with the chain of waits", "[cli]") {
  const TempDir dir;
  const Finished finished = heddle_in(dir, {"run", scenario("no_progress.yaml"), "--out", "out"});
  INFO(finished.err);
  CHECK(finished.status == 3);
  CHECK(contains(finished.err, "no progress"));
  CHECK(contains(finished.err, "chain of waits"));
  for (const char* operation :
       {"operation 0, stream a", "operation 1, stream a", "operation 2, stream b", "operation 3, stream b"}) {
    CHECK(contains(finished.err, operation));
  }
  CHECK(contains(finished.err, "the cause: SM 0, CTA 0, warp 0 waits: in mbarrier_wait (line 15)"));
  CHECK_FALSE(contains(finished.err, "operation 4"));  // the bystander waits for nobody
  const Results results(dir.file("out"));
  CHECK(results.document().at("completed") == false);
  CHECK(results.stat("gpu0.task.kernels") == 1);
  CHECK(results.page().at("stopped").at("what") == "No progress");
  const Finished quiet = heddle_in(dir, {"run", scenario("no_progress.yaml"), "--out", "out", "--quiet"});
  CHECK(quiet.status == 3);
  CHECK(quiet.out.empty());
  CHECK(quiet.err == finished.err);
}

TEST_CASE("of a long circle the first and the last few steps are told", "[cli]") {
  const TempDir dir;
  std::string text = "heddle: 1\ngpu: small\nkernels: [{name: k, grid: 1, block: 32, cycles: 10}]\nsubmit:\n";
  for (int i = 0; i < 50; ++i) {
    text += fmt::format("  - {{kernel: k, stream: s{0}, id: o{0}, after: o{1}}}\n", i, (i + 1) % 50);
  }
  dir.write("s.yaml", text);
  const Finished finished = heddle_in(dir, {"run", "s.yaml"});
  CHECK(finished.status == 2);
  CHECK(contains(finished.err, "42 more such steps"));
  CHECK(finished.err.size() < 1000);
}

TEST_CASE("operations that wait in a circle are refused before the run", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nkernels: [{name: k, grid: 1, block: 32, cycles: 100}]\nsubmit:\n"
            "  - {id: x, kernel: k, stream: a, after: y}\n  - {id: y, kernel: k, stream: a}\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  CHECK(finished.status == 2);
  CHECK(contains(finished.err, "s.yaml:5:42: operations wait in a circle"));
  CHECK_FALSE(std::filesystem::exists(dir.file("out/stats.json")));
}

TEST_CASE("a program without a command explains itself", "[cli]") {
  const TempDir dir;
  const Finished bare = heddle_in(dir, {});
  CHECK(bare.status == 2);
  CHECK(contains(bare.out, "heddle run"));
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"help"},
                                                    {"run", "--help"},
                                                    {"import", "--help"},
                                                    {"show", "--help"},
                                                    {"version"}}) {
    const Finished finished = heddle_in(dir, arguments);
    CAPTURE(arguments);
    CHECK(finished.status == 0);
    CHECK(contains(finished.out, "heddle"));
    CHECK(finished.err.empty());
  }
}

}  // namespace cli_error_command_test

// `heddle run --checkpoint`, `--resume`, `--from` and `--to` as processes.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_checkpoint_command_test {

using namespace heddle::test;
namespace fs = std::filesystem;

namespace {

// Each adds what the one before has left: the order and the number of all of them can be read in memory.
constexpr const char* kChain = R"(heddle: 1
gpu: small
memory:
  - {name: x, bytes: 1 KiB, init: {pattern: i, type: u32}}
kernels:
  - name: double
    grid: 1
    block: 256
    program:
      - load: {to: v, type: u32, at: x + 4 * thread}
      - store: {value: 2 * v, type: u32, at: x + 4 * thread}
  - name: add
    grid: 1
    block: 256
    program:
      - load: {to: v, type: u32, at: x + 4 * thread}
      - store: {value: v + 1, type: u32, at: x + 4 * thread}
submit:
  - {kernel: double, stream: a}
  - {kernel: add, stream: a, id: first}
  - {kernel: double, stream: b, after: first, id: other}
  - {kernel: add, stream: a, after: other}
  - {kernel: double, stream: a}
figures:
  - {name: t, unit: ns, value: t, of: {t: {kernel: add}}}
expect:
  - {stat: gpu0.task.kernels, equals: 5}
  - {memory: x, pattern: 8 * i + 6, type: u32}
)";

nlohmann::json checkpoint_in(const std::string& results) {
  std::ifstream file(results + "/checkpoint/state.json");
  return nlohmann::json::parse(file, nullptr, false);
}

std::size_t done_in(const std::string& results) {
  const nlohmann::json checkpoint = checkpoint_in(results);
  std::size_t done = 0;
  if (!checkpoint.is_object()) return done;
  for (const auto& gpu : checkpoint.at("gpus")) {
    for (const auto& range : gpu.at("done")) done += range[1].get<std::size_t>() - range[0].get<std::size_t>() + 1;
  }
  return done;
}

// What the devices hold, of all GPUs.
std::string states_in(const std::string& results) {
  std::string states;
  for (const auto& gpu : checkpoint_in(results).at("gpus")) {
    states += read_file(results + "/checkpoint/" + gpu.at("state").get<std::string>());
  }
  return states;
}

std::string half_time(const std::string& results) {
  return fmt::format("time={}us", 0.5 * Results(results).stat("sim.time"));
}

}  // namespace

TEST_CASE("shipped scenarios that are interrupted and resumed leave the memory of whole ones", "[cli][RUN-01]") {
  const TempDir dir;
  std::size_t resumed = 0;
  for (const char* name : {"cluster_spread", "first_light", "matmul_groups", "peer_copy", "raster_orders",
                           "two_address_spaces", "dependent_launch"}) {
    CAPTURE(name);
    const auto run = [&](const std::string& out, std::vector<std::string> more) {
      std::vector<std::string> arguments{
          "run", scenario(std::string(name) + ".yaml"), "--timing", "fast", "--quiet", "--out", dir.file(out)};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return heddle_in(dir, arguments);
    };
    fs::remove_all(dir.file("cut"));
    REQUIRE(run("whole", {"--checkpoint", "1000000"}).status == 0);
    REQUIRE(run("each", {"--checkpoint", "1"}).status == 0);
    const Finished cut = run("cut", {"--checkpoint", "1", "--limit", half_time(dir.file("each"))});
    INFO(cut.err);
    CHECK(cut.status == 5);
    const std::size_t done = done_in(dir.file("cut"));
    REQUIRE(done > 0);
    REQUIRE(done < done_in(dir.file("whole")));
    CHECK(contains(cut.err, fmt::format("checkpoint behind {} of {} operations", done, done_in(dir.file("whole")))));
    const Finished rest = run("rest", {"--resume", dir.file("cut"), "--checkpoint", "1000000"});
    INFO(rest.err);
    CHECK(rest.status == 0);  // what memory must hold at the end stands in the scenario
    CHECK(done_in(dir.file("rest")) == done_in(dir.file("whole")));
    // Its programs write down what time it is.
    if (std::string(name) != "dependent_launch") {
      CHECK(states_in(dir.file("rest")) == states_in(dir.file("whole")));
      CHECK(states_in(dir.file("each")) == states_in(dir.file("whole")));
    }
    ++resumed;
  }
  CHECK(resumed == 7);
}

TEST_CASE("a checkpoint behind every operation leads to the same end", "[cli][RUN-01]") {
  const TempDir dir;
  dir.write("s.yaml", kChain);
  REQUIRE(heddle_in(dir, {"run", "s.yaml", "--quiet", "--out", "whole", "--checkpoint", "100"}).status == 0);
  std::string from;
  for (std::size_t done = 1; done <= 5; ++done) {
    // Stopped as soon as it has one more: the next operation takes longer than the limit that is left.
    const std::string out = fmt::format("part{}", done);
    std::vector<std::string> arguments{"run", "s.yaml", "--quiet", "--out", out, "--checkpoint", "1"};
    if (!from.empty()) arguments.insert(arguments.end(), {"--resume", from});
    double limit = 100;
    while (done < 5 && (!fs::exists(dir.file(out + "/checkpoint/state.json")) || done_in(dir.file(out)) < done)) {
      std::vector<std::string> limited = arguments;
      limited.insert(limited.end(), {"--limit", fmt::format("time={}ns", limit)});
      CHECK(heddle_in(dir, limited).status == 5);
      limit += 100;
      REQUIRE(limit < 20'000);
    }
    if (done == 5) CHECK(heddle_in(dir, arguments).status == 0);
    REQUIRE(done_in(dir.file(out)) == done);
    from = out;
  }
  CHECK(states_in(dir.file("part5")) == states_in(dir.file("whole")));
  const Finished over = heddle_in(dir, {"run", "s.yaml", "--resume", "part5"});
  CHECK(over.status == 2);
  CHECK(contains(over.err, "nothing is left to do"));
}

TEST_CASE("a region is simulated alone, and memory is that of the whole", "[cli][RUN-02]") {
  const TempDir dir;
  dir.write("s.yaml", kChain);
  const auto kernels = [&](std::vector<std::string> region) {
    std::vector<std::string> arguments{"run", "s.yaml", "--out", "out", "--trace", "json"};
    arguments.insert(arguments.end(), region.begin(), region.end());
    const Finished finished = heddle_in(dir, arguments);
    INFO(finished.out << finished.err);
    CHECK(finished.status == 0);
    CHECK(contains(finished.out, "met:     memory x = 8 * i + 6"));
    CHECK(contains(finished.out, "of 5 operations: statistics, times and the page are about these"));
    CHECK(contains(finished.out, "2 expectations and figures are about the whole run"));
    return Results(dir.file("out")).stat("gpu0.task.kernels");
  };
  CHECK(kernels({"--from", "add#1", "--to", "double#2"}) == 2);
  CHECK(kernels({"--from", "add#2"}) == 2);
  CHECK(kernels({"--to", "double#1"}) == 1);
  CHECK(kernels({"--from", "double#3", "--to", "double"}) == 1);
  CHECK(kernels({"--from", "ad*", "--to", "add"}) == 3);
  // What the region would do wrong is seen in memory.
  std::string wrong = kChain;
  wrong.replace(wrong.find("8 * i + 6"), 9, "8 * i + 7");
  dir.write("s.yaml", wrong);
  CHECK(heddle_in(dir, {"run", "s.yaml", "--from", "add#2", "--quiet"}).status == 1);
}

TEST_CASE("a region by time begins with what the host submits then", "[cli][RUN-02]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
kernels: [{name: k, grid: 8, block: 64, cycles: 1000}]
submit:
  - {kernel: k, stream: a}
  - {kernel: k, stream: a, at: 50 us}
  - {kernel: k, stream: a, at: 100 us}
)");
  REQUIRE(heddle_in(dir, {"run", "s.yaml", "--out", "out", "--from", "20us", "--to", "100us"}).status == 0);
  const Results results(dir.file("out"));
  CHECK(results.stat("gpu0.task.kernels") == 1);
  CHECK(results.stat("sim.time") < 20);  // us: from 50 us on
  dir.write("t.json", hand_made_trace(4));
  const Finished recorded = heddle_in(dir, {"run", "t.json", "--out", "out"});
  REQUIRE(recorded.status == 0);
  const double all = Results(dir.file("out")).stat("gpu0.task.kernels");
  const std::string second = "1";
  const std::vector<std::string> part{"run",          "t.json", "--out",   "part",
                                      "--checkpoint", second,   "--limit", half_time(dir.file("out"))};
  CHECK(heddle_in(dir, part).status == 5);
  const std::size_t done = done_in(dir.file("part"));
  REQUIRE(done > 0);
  const Finished rest = heddle_in(dir, {"run", "t.json", "--out", "rest", "--resume", "part"});
  INFO(rest.out << rest.err);
  CHECK(rest.status == 0);
  CHECK(Results(dir.file("rest")).stat("gpu0.task.kernels") == all - static_cast<double>(done));
}

TEST_CASE("places that there are not, and what cannot be divided, are refused", "[cli][RUN-01][RUN-02]") {
  const TempDir dir;
  dir.write("s.yaml", kChain);
  const auto refused = [&](std::vector<std::string> arguments, const std::string& what) {
    arguments.insert(arguments.begin(), "run");
    const Finished finished = heddle_in(dir, arguments);
    CAPTURE(arguments, finished.err);
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, what));
  };
  refused({"s.yaml", "--from", "ad"}, "--from ad: no operation is called ad");
  refused({"s.yaml", "--to", "add#3"}, "--to add#3: there are 2 of add");
  refused({"s.yaml", "--from", "add#0"}, "the first one is add#1");
  refused({"s.yaml", "--from", "3"}, "--from 3:");
  refused({"s.yaml", "--from", "double#3", "--to", "double#1"}, "no operation lies between");
  refused({"s.yaml", "--from", "1us"}, "no operation lies between");
  refused({"s.yaml", "--from", "add", "--checkpoint", "1"}, "a region of interest");
  refused({"s.yaml", "--checkpoint", "0"}, "--checkpoint 0");
  refused({"s.yaml", "--resume", "none"}, "none: has no checkpoint");
  refused({"s.yaml", "--from", "add", "--submit", "aql"}, "submits in another way");
  refused({scenario("all_reduce.yaml"), "--checkpoint", "1"}, "cannot divide collectives");
  REQUIRE(heddle_in(dir, {"run", "s.yaml", "--quiet", "--out", "out", "--checkpoint", "2"}).status == 0);
  refused({scenario("saxpy.yaml"), "--resume", "out"}, "of another scenario or recording");
  dir.write("out/checkpoint/state.json", "{\"schema\": 1}");
  refused({"s.yaml", "--resume", "out"}, "is no checkpoint of this version, or damaged");
}

}  // namespace cli_checkpoint_command_test

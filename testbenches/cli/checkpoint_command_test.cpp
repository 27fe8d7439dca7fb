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
  refused({scenario("saxpy.yaml"), "--resume", "out"}, "of another scenario, recording");
  refused({"s.yaml", "--from", ""}, "--from names nothing");
}

TEST_CASE("a region takes along what it needs and no more, and begins where it is told to", "[cli][RUN-02]") {
  const TempDir dir;
  dir.write("s.yaml", R"(heddle: 1
gpu: small
kernels:
  - {name: first, grid: 1, block: 32, cycles: 1000}
  - {name: 2d_conv, grid: 1, block: 32, cycles: 1000}
  - {name: late, grid: 1, block: 32, cycles: 1000}
  - {name: rest, grid: 1, block: 32, cycles: 1000}
submit:
  - {kernel: first, stream: a, after: l}
  - {kernel: 2d_conv, stream: b}
  - {kernel: late, stream: c, id: l}
  - {kernel: rest, stream: b}
)");
  const auto run = [&](const std::string& from) {
    return heddle_in(dir, {"run", "s.yaml", "--out", "out", "--quiet", "--from", from});
  };
  // `first` waits for `late`, which is carried out before the region: `2d_conv` and `rest` are left, of stream b.
  for (const char* from : {"2d_conv", "2d_conv#1"}) {
    const Finished finished = run(from);
    INFO(finished.err);
    CHECK(finished.status == 0);
    CHECK(Results(dir.file("out")).stat("gpu0.task.kernels") == 2);
  }
  const Finished pulled = run("late");
  CHECK(pulled.status == 2);
  CHECK(contains(pulled.err, "--from late: first#1, which is submitted before late#1, needs it to end"));
  CHECK(contains(pulled.err, "begin the region with first#1"));
}

namespace {

// `bad` comes to a fault; `ok` begins after that.
std::string faulty(const std::string& expect) {
  return R"(heddle: 1
gpu: small
memory: [{name: x, bytes: 1 KiB}]
kernels:
  - {name: bad, grid: 1, block: 32, program: [{store: {value: 1, type: u32, at: x + 1048576 * 4096 + 4 * thread}}]}
  - {name: ok, grid: 1, block: 32, cycles: 1000}
submit:
  - {kernel: bad, stream: a}
  - {kernel: ok, stream: b, at: 20 us}
  - {kernel: ok, stream: b}
)" + expect;
}

}  // namespace

TEST_CASE("faults from before a checkpoint decide over the run that goes on from it", "[cli][RUN-01]") {
  const TempDir dir;
  const auto cut = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "s.yaml", "--quiet", "--checkpoint", "1"});
    return heddle_in(dir, more).status;
  };
  for (const char* expect : {"", "expect: [{fault: address, kernel: bad}]\n"}) {
    CAPTURE(expect);
    const int whole = std::string(expect).empty() ? 1 : 0;
    dir.write("s.yaml", faulty(expect));
    REQUIRE(heddle_in(dir, {"run", "s.yaml", "--quiet"}).status == whole);
    REQUIRE(cut({"--limit", "time=21.2us", "--out", "cut"}) == 5);
    REQUIRE(done_in(dir.file("cut")) == 2);
    const Finished rest = heddle_in(dir, {"run", "s.yaml", "--out", "rest", "--resume", "cut"});
    INFO(rest.out << rest.err);
    CHECK(rest.status == whole);
    CHECK(contains(rest.out, "kernel bad"));
    CHECK(!contains(rest.out + rest.err, "heddle/reset"));
    // And through one more checkpoint.
    CHECK(cut({"--out", "cut", "--resume", "cut"}) == whole);
    CHECK(checkpoint_in(dir.file("cut")).at("gpus")[0].at("faults").size() == 1);
  }
}

TEST_CASE("expectations of faults of a region are judged against all of the run", "[cli][RUN-02]") {
  const TempDir dir;
  const auto status = [&](const std::string& expect, std::vector<std::string> more) {
    dir.write("s.yaml", faulty(expect));
    more.insert(more.begin(), {"run", "s.yaml", "--quiet", "--out", "out"});
    const Finished finished = heddle_in(dir, more);
    CAPTURE(finished.out, finished.err);
    return finished.status;
  };
  const std::string met = "expect: [{fault: address, kernel: bad}]\n";
  const std::string never = "expect: [{fault: address, kernel: bad}, {fault: barrier, kernel: bad}]\n";
  const std::string other = "expect: [{fault: address, kernel: ok}]\n";
  for (const std::vector<std::string>& region :
       {std::vector<std::string>{"--from", "ok"}, {"--from", "ok#2"}, {"--to", "bad"}, {"--from", "bad"}}) {
    CAPTURE(region);
    CHECK(status(met, region) == 0);
    CHECK(status("", region) == 1);
    CHECK(status(never, region) == 1);
    CHECK(status(other, region) == 1);
  }
}

TEST_CASE("a checkpoint goes on only as what it was", "[cli][RUN-01]") {
  const TempDir dir;
  const std::string scenario_text = R"(heddle: 1
gpu: small
parameters: {n: 3}
memory:
  - {name: x, bytes: 1 KiB, init: {pattern: i, type: u32}}
kernels:
  - name: p
    grid: 1
    block: 32
    program:
      - store: {value: "${n}", type: u32, at: x + 4 * thread}
  - {name: k, grid: 1, block: 32, cycles: 1000}
submit:
  - {kernel: p, stream: a}
  - {kernel: k, stream: a, at: 9 us}
expect:
  - {memory: x, pattern: 1, type: u32}
)";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = scenario_text;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  dir.write("s.yaml", scenario_text);
  REQUIRE(
      heddle_in(dir, {"run", "s.yaml", "--quiet", "--out", "cut", "--checkpoint", "1", "--limit", "time=9us"}).status ==
      5);
  REQUIRE(done_in(dir.file("cut")) == 1);
  const auto resumed = [&](const std::string& text, std::vector<std::string> more = {}) {
    dir.write("s.yaml", text);
    more.insert(more.begin(), {"run", "s.yaml", "--quiet", "--out", "rest", "--resume", "cut"});
    const Finished finished = heddle_in(dir, more);
    CAPTURE(text, finished.err);
    if (finished.status == 2) CHECK(contains(finished.err, "of another scenario, recording, seed or machine"));
    return finished.status;
  };
  CHECK(resumed(changed("cycles: 1000", "cycles: 1001")) == 2);
  CHECK(resumed(changed("at: 9 us", "at: 10 us")) == 2);
  CHECK(resumed(changed("value: \"${n}\"", "value: 4")) == 2);
  CHECK(resumed(changed("pattern: i", "pattern: i + 1")) == 2);
  CHECK(resumed(scenario_text, {"--let", "n=4"}) == 2);
  CHECK(resumed(scenario_text, {"--seed", "5"}) == 2);
  CHECK(resumed(scenario_text) == 1);  // x does not hold 1 everywhere
  CHECK(resumed(changed("pattern: 1,", "pattern: \"i < 32 ? 3 : i\","), {"--timing", "fast"}) == 0);

  dir.write("t.json", hand_made_trace(4));
  REQUIRE(heddle_in(dir, {"run", "t.json", "--quiet", "--out", "whole"}).status == 0);
  REQUIRE(heddle_in(dir, {"run", "t.json", "--quiet", "--out", "cut", "--checkpoint", "1", "--limit",
                          half_time(dir.file("whole"))})
              .status == 5);
  const auto of_recording = [&](const std::string& option, const std::string& value) {
    return heddle_in(dir, {"run", "t.json", "--quiet", "--out", "rest", "--resume", "cut", option, value}).status;
  };
  CHECK(of_recording("--set", "gpu.l2.slices=64") == 2);
  CHECK(of_recording("--fit", "signature") == 2);
  CHECK(of_recording("--timing", "fast") == 0);
}

TEST_CASE("a damaged checkpoint is told as one", "[cli][RUN-01]") {
  const TempDir dir;
  dir.write("s.yaml", kChain);
  REQUIRE(heddle_in(dir, {"run", "s.yaml", "--quiet", "--out", "cut", "--checkpoint", "2"}).status == 0);
  const nlohmann::json whole = checkpoint_in(dir.file("cut"));
  const auto refused = [&](const nlohmann::json& document,
                           const char* what = "is no checkpoint of this version, or damaged") {
    dir.write("cut/checkpoint/state.json", document.dump());
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--quiet", "--out", "rest", "--resume", "cut"});
    CAPTURE(document.dump(), finished.err);
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, what));
  };
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json document = whole;
    document["gpus"][0][key] = value;
    return document;
  };
  refused({{"schema", 2}});
  nlohmann::json text = whole;
  text["schema"] = "x";
  refused(text);
  text = whole;
  text["gpus"] = nlohmann::json::array();
  refused(text);
  text["gpus"] = 3;
  refused(text);
  refused(nlohmann::json::array());
  for (const nlohmann::json& number :
       {nlohmann::json(-1), nlohmann::json(4), nlohmann::json(1'000'000'000'000'000'000), nlohmann::json("5")}) {
    refused(with("operations", number));
  }
  refused(with("ns", -1'000'000'000'000'000'000));
  refused(with("ns", 1.5));
  refused(with("done", {{0, 5}}));
  refused(with("done", {{2, 1}}));
  refused(with("done", {{-1, 1}}));
  refused(with("faults", 1));
  refused(with("faults", {{{"kind", 1}}}));
  refused(with("state", "../other"));
  refused(with("state", "7.gpu0.state"), "cannot be read, and the checkpoint needs it");
  nlohmann::json none = whole;
  none["gpus"][0].erase("state");
  refused(none);
  const std::string state = "cut/checkpoint/" + whole["gpus"][0]["state"].get<std::string>();
  std::string bytes = read_file(dir.file(state));
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] + 1);
  dir.write(state, bytes);
  refused(whole);
}

TEST_CASE("results hold the checkpoint of their own run, and none before that is lost too early", "[cli][RUN-01]") {
  const TempDir dir;
  dir.write("s.yaml", faulty("expect: [{fault: address, kernel: bad}]\n"));
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "s.yaml", "--quiet", "--out", "out"});
    return heddle_in(dir, more);
  };
  const auto state = [&] { return checkpoint_in(dir.file("out")).at("gpus")[0].at("state").get<std::string>(); };
  REQUIRE(run({"--checkpoint", "1", "--limit", "time=21.2us"}).status == 5);
  const std::string first = state();
  // Stopped before it comes to a checkpoint of its own: that of before still is one.
  REQUIRE(run({"--checkpoint", "1", "--resume", "out", "--limit", "time=10ns"}).status == 5);
  CHECK(state() == first);
  CHECK(run({"--resume", "out", "--limit", "time=10ns"}).status == 5);
  CHECK(done_in(dir.file("out")) == 2);
  // Its own takes the place of that; the file of another name is whole before the first one goes.
  CHECK(run({"--checkpoint", "1", "--resume", "out"}).status == 0);
  CHECK(state() != first);
  CHECK(done_in(dir.file("out")) == 3);
  CHECK(std::distance(fs::directory_iterator(dir.file("out/checkpoint")), fs::directory_iterator()) == 2);
  // A later run without checkpoints leaves none; what is no file of a checkpoint stays.
  dir.write("out/checkpoint/mine.txt", "mine");
  REQUIRE(run({}).status == 0);
  CHECK(std::distance(fs::directory_iterator(dir.file("out/checkpoint")), fs::directory_iterator()) == 1);
  fs::remove(dir.file("out/checkpoint/mine.txt"));
  REQUIRE(run({"--checkpoint", "1", "--limit", "time=21.2us"}).status == 5);
  REQUIRE(run({"--resume", "out"}).status == 0);
  CHECK(!fs::exists(dir.file("out/checkpoint")));
}

TEST_CASE("checkpoints alone do not make what shipped scenarios expect fail", "[cli][RUN-01]") {
  const TempDir dir;
  for (const char* name : {"priorities", "look_ahead", "failed_launch", "partition_dynamic"}) {
    const Finished finished = heddle_in(
        dir, {"run", scenario(std::string(name) + ".yaml"), "--timing", "fast", "--out", "out", "--checkpoint", "1"});
    CAPTURE(name, finished.out, finished.err);
    CHECK(finished.status == 0);
    CHECK(contains(finished.out, "are about the whole run without checkpoints, and were left out"));
  }
}

}  // namespace cli_checkpoint_command_test

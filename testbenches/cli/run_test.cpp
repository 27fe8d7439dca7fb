// What a run leaves behind, for scenarios and a recorded trace made by hand.
#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "support/random.h"

namespace cli_run_test {

using namespace heddle::test;

namespace {

void all_keys(const nlohmann::json& node, std::set<std::string>& keys) {
  for (const auto& [key, value] : node.items()) {
    if (node.is_object()) keys.insert(key);
    if (value.is_structured()) all_keys(value, keys);
  }
}

}  // namespace

TEST_CASE("a run without a file is the shipped scenario, and its results are complete", "[cli]") {
  const TempDir dir;
  const Finished finished = heddle_in(dir, {"run"});
  INFO(finished.out);
  CHECK(finished.status == 0);
  // No progress bar where nobody looks.
  CHECK(finished.err.empty());
  CHECK_FALSE(contains(finished.out, "\r"));
  CHECK_FALSE(contains(finished.out, "\033"));
  CHECK(contains(finished.out, "page: heddle-out/first_light/report.html"));
  CHECK_FALSE(contains(finished.out, "FAILED"));
  const Results results(dir.file("heddle-out/first_light"));
  CHECK(results.stat("gpu0.cwd.ctas_launched") == 198'681);
  CHECK(results.stat("sim.time") > 0);
  CHECK(results.stat("gpu0.cwd.launch_packets") > 0);
  CHECK(results.document().at("schema") == 1);
  CHECK(results.document().at("completed") == true);
  CHECK(results.document().at("seed") == 1);
  for (const auto& [path, entry] : results.document().at("stats").items()) {
    CAPTURE(path);
    CHECK(entry.at("value").is_number());
    CHECK_FALSE(entry.at("unit").get<std::string>().empty());
    CHECK_FALSE(entry.at("description").get<std::string>().empty());
  }
  CHECK(read_file(results.file("report.html")).size() > 100'000);
  CHECK_FALSE(read_file(results.file("config.yaml")).empty());
  CHECK_FALSE(std::filesystem::exists(results.file("timeline.pftrace")));  // only on request
  // The same, named.
  run_well(dir, {scenario("first_light.yaml")});
  CHECK(read_file(dir.file("out/stats.json")) == read_file(results.file("stats.json")));
}

TEST_CASE("every shipped scenario meets its expectations", "[cli]") {
  const TempDir dir;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scenario(""))) {
    if (entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    if (name == "no_progress.yaml") continue;  // ends with status 3, as it should: error_test.cpp
    // A minute by itself: heddle_tensor_figures runs it, and smaller ones are the same program.
    if (name == "tma_gemm_4096.yaml" && !heddle::test::long_tests()) continue;
    CAPTURE(name);
    ++count;
    const Results results = run_well(dir, {entry.path().string(), "--quiet"});
    CHECK_FALSE(results.document().at("expectations").empty());
    for (const nlohmann::json& e : results.document().at("expectations")) CHECK(e.at("ok") == true);
  }
  CHECK(count >= 3);
}

TEST_CASE("small versions of the shipped workloads compute what they should, and measure it", "[cli]") {
  const TempDir dir;
  using Lets = std::vector<std::string>;
  const auto [name, lets] = GENERATE(table<std::string, Lets>({{"attention", {"heads=1", "seq=256"}},
                                                               {"gemm", {"n=512"}},
                                                               {"reduction", {"mib=16"}},
                                                               {"stencil", {"n=256"}},
                                                               {"transpose", {"n=256"}}}));
  CAPTURE(name);
  std::vector<std::string> arguments{scenario("workloads/" + name + ".yaml"), "--quiet"};
  for (const std::string& let : lets) arguments.insert(arguments.end(), {"--let", let});
  const Results results = run_well(dir, arguments);
  CHECK_FALSE(results.document().at("expectations").empty());
  for (const nlohmann::json& e : results.document().at("expectations")) CHECK(e.at("ok") == true);
  CHECK_FALSE(results.document().at("figures").empty());
  for (const nlohmann::json& figure : results.document().at("figures")) CHECK(figure.at("value") > 0);
}

TEST_CASE("the microbenchmarks measure something", "[cli]") {
  const TempDir dir;
  using Lets = std::vector<std::string>;
  const auto [name, lets] = GENERATE(table<std::string, Lets>({{"bandwidth", {"before=1", "turns=2"}},
                                                               {"barriers", {}},
                                                               {"bulk", {"kib=4"}},
                                                               {"cluster_latency", {}},
                                                               {"dsmem_bandwidth", {"turns=2"}},
                                                               {"fences", {}},
                                                               {"l2_chase", {"mib=1"}},
                                                               {"l2_near_far", {}},
                                                               {"launches", {"ctas=2000"}},
                                                               {"matmul", {}},
                                                               {"networks", {"turns=4"}},
                                                               {"shared_bandwidth", {}},
                                                               {"sm_latency", {}}}));
  CAPTURE(name);
  std::vector<std::string> arguments{scenario("silicon/" + name + ".yaml"), "--quiet"};
  for (const std::string& let : lets) arguments.insert(arguments.end(), {"--let", let});
  const nlohmann::json figures = run_well(dir, arguments).document().at("figures");
  CHECK_FALSE(figures.empty());
  for (const nlohmann::json& figure : figures) CHECK(figure.at("value") > 0);
}

TEST_CASE("two runs of one input and seed are identical to the byte, and another seed is another run", "[cli]") {
  const TempDir dir;
  const std::string first_light = scenario("first_light.yaml");
  run_well(dir, {first_light, "--trace", "json"}, "a");
  run_well(dir, {first_light, "--trace", "json"}, "b");
  run_well(dir, {first_light, "--trace", "json", "--seed", "2"}, "c");
  for (const char* file : {"stats.json", "timeline.json.gz", "config.yaml"}) {
    CAPTURE(file);
    CHECK((read_file(dir.file("a/") + file) == read_file(dir.file("b/") + file)));
  }
  CHECK((read_file(dir.file("a/timeline.json.gz")) != read_file(dir.file("c/timeline.json.gz"))));
  CHECK(read_json(dir.file("a/stats.json")).at("stats") != read_json(dir.file("c/stats.json")).at("stats"));
  CHECK(Results(dir.file("c")).document().at("seed") == 2);
  // Watching changes nothing.
  run_well(dir, {first_light}, "d");
  CHECK(read_file(dir.file("a/stats.json")) == read_file(dir.file("d/stats.json")));
}

TEST_CASE("the wall clock is in host.json and nowhere else", "[cli]") {
  const TempDir dir;
  const Results results = run_well(dir, {scenario("two_gpus.yaml")});
  std::set<std::string> keys;
  all_keys(results.document(), keys);
  CHECK(keys.count("gpu1.cwd.ctas_launched") == 1);
  for (const std::string& key : keys) {
    CAPTURE(key);
    std::string words = "." + key + ".";  // "raster_updates" is no date
    std::replace(words.begin(), words.end(), '_', '.');
    for (const char* word : {"wall", "second", "seconds", "host", "date", "version", "command", "wakeups"}) {
      if (std::string(word) == "host" && key.rfind("gpu", 0) == 0) continue;  // the modelled host's side of a GPU
      CHECK_FALSE(contains(words, fmt::format(".{}.", word)));
    }
  }
  const nlohmann::json host = read_json(results.file("host.json"));
  for (const char* key :
       {"seconds_total", "seconds_simulation", "seconds_elaboration", "events_per_second", "ctas_per_second"}) {
    CAPTURE(key);
    CHECK(host.at(key).get<double>() >= 0);
  }
  CHECK(contains(host.at("command").get<std::string>(), "heddle run "));
}

TEST_CASE("a timeline is valid JSON with streams, sessions and a reason for every wait", "[cli]") {
  const TempDir dir;
  const Results results = run_well(dir, {scenario("two_gpus.yaml"), "--trace", "json"});
  const nlohmann::json timeline = nlohmann::json::parse(gunzipped(results.file("timeline.json.gz")));
  std::set<std::string> phases, names;
  for (const nlohmann::json& event : timeline.at("traceEvents")) {
    phases.insert(event.at("ph").get<std::string>());
    names.insert(event.at("name").get<std::string>());
    if (event.at("ph") == "X") {
      CHECK(event.at("ts").get<double>() >= 0);
      CHECK(event.at("dur").get<double>() >= 0);
    }
  }
  CHECK(phases.count("X") == 1);
  CHECK(phases.count("M") == 1);
  CHECK(names.count("waits for another stream") == 1);
  CHECK(std::any_of(names.begin(), names.end(),
                    [](const std::string& name) { return contains(name, "too few free slots"); }));
  // It can have fewer details, and says so.
  const Finished cut = heddle_in(
      dir, {"run", scenario("two_gpus.yaml"), "--trace", "json", "--set", "run.timeline_events=5", "--out", "cut"});
  CHECK(cut.status == 0);
  CHECK(contains(cut.out, "run.timeline_events"));
  CHECK_NOTHROW(nlohmann::json::parse(gunzipped(dir.file("cut/timeline.json.gz"))));
}

TEST_CASE("a machine file that is given for one GPU of several concerns that GPU alone", "[cli]") {
  const TempDir dir;
  dir.write("a.yaml", "preset: small\ngpu: {cwd: {gpc_distance: 11}}\n");
  dir.write("b.yaml", "preset: a100\ngpu0: {cwd: {gpc_distance: 22}}\n");  // its own number does not matter
  const std::string input = scenario("two_gpus.yaml");
  const Finished both = heddle_in(dir, {"run", input, "--gpu", "a.yaml", "--gpu", "b.yaml", "--dump-config", "-"});
  REQUIRE(both.status == 0);
  const std::size_t second = both.out.find("gpu1:");
  REQUIRE(second != std::string::npos);
  CHECK(contains(both.out.substr(0, second), "gpc_distance: 11"));
  CHECK(contains(both.out.substr(second), "gpc_distance: 22"));
  const Finished mixed = heddle_in(dir, {"run", input, "--gpu", "h100-sxm", "--gpu", "a.yaml", "--dump-config", "-"});
  REQUIRE(mixed.status == 0);
  CHECK(contains(mixed.out.substr(0, mixed.out.find("gpu1:")), "gpc_distance: 60"));
  CHECK(contains(mixed.out.substr(mixed.out.find("gpu1:")), "gpc_distance: 11"));
  dir.write("two.yaml", "gpu0: {clock: 1}\ngpu1: {clock: 2}\n");
  const Finished two = heddle_in(dir, {"run", input, "--gpu", "two.yaml", "--gpu", "a.yaml"});
  CHECK(two.status == 2);
  CHECK(contains(two.err, "two.yaml:2"));
}

TEST_CASE("a dumped configuration is an input that gives the same run", "[cli]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace());
  const std::string set = "gpu.cwd.session_step=3";
  for (const std::string& input : {scenario("two_gpus.yaml"), scenario("first_light.yaml"), std::string("t.json")}) {
    CAPTURE(input);
    const Finished dump = heddle_in(dir, {"run", input, "--set", set, "--dump-config", "-", "--out", "none"});
    REQUIRE(dump.status == 0);
    CHECK(dump.err.empty());
    CHECK(contains(dump.out, "session_step: 3"));
    CHECK_FALSE(std::filesystem::exists(dir.file("none")));
    dir.write("dumped.yaml", dump.out);
    const Results direct = run_well(dir, {input, "--set", set}, "direct");
    const Results dumped = run_well(dir, {input, "--gpu", "dumped.yaml"}, "dumped");
    CHECK(read_file(direct.file("stats.json")) == read_file(dumped.file("stats.json")));
    // The copy among the results is the same, and so is one that is dumped to a file.
    CHECK(read_file(direct.file("config.yaml")) == dump.out);
    CHECK(heddle_in(dir, {"run", input, "--set", set, "--dump-config", "file.yaml"}).status == 0);
    CHECK(read_file(dir.file("file.yaml")) == dump.out);
  }
}

TEST_CASE("the loosely timed mode runs the same work in less time", "[cli]") {
  const TempDir dir;
  const Results at = run_well(dir, {scenario("two_gpus.yaml"), "--timing", "at"}, "at");
  const Results lt = run_well(dir, {scenario("two_gpus.yaml"), "--timing", "lt"}, "lt");
  for (const char* stat :
       {"gpu0.cwd.ctas_launched", "gpu0.task.kernels", "gpu1.cwd.ctas_completed", "gpu1.task.kernels"}) {
    CAPTURE(stat);
    CHECK(at.stat(stat) == lt.stat(stat));
  }
  CHECK(lt.stat("sim.time") < at.stat("sim.time"));
}

TEST_CASE("what can be configured, chosen and built is shown", "[cli]") {
  const TempDir dir;
  const Finished presets = heddle_in(dir, {"show", "presets"});
  CHECK(presets.status == 0);
  for (const char* name : {"h100-sxm", "h100-pcie", "h800", "h200", "gh200", "h20", "a100", "b200", "l40s", "rtx5090",
                           "mi300x", "mi350x", "text", "small"}) {
    CHECK(contains(presets.out, name));
  }
  CHECK(contains(presets.out, "checked against"));
  const Finished ada = heddle_in(dir, {"show", "params", "gpu.xbar", "--gpu", "l40s"});
  CHECK(contains(ada.out, "unknown of this device"));
  CHECK_FALSE(contains(heddle_in(dir, {"show", "params", "gpu.xbar"}).out, "unknown of this device"));
  const Finished tree = heddle_in(dir, {"show", "tree", "--gpu", "small", "--set", "gpu.shape=[[4,2],3]"});
  CHECK(tree.status == 0);
  CHECK(contains(tree.out, "9 SMs in 2 GPCs"));
  CHECK(contains(tree.out, "cpc1"));
  const Finished params = heddle_in(dir, {"show", "params", "--set", "gpu.cwd.gpc_distance=77"});
  CHECK(params.status == 0);
  CHECK(contains(params.out, "gpu.cwd.gpc_distance = 77 cycles"));
  CHECK(contains(params.out, "set by --set"));
  CHECK(contains(params.out, "run.no_progress_events = 2000000"));
  const Finished some = heddle_in(dir, {"show", "params", "gpu.sm.limits"});
  CHECK(some.status == 0);
  CHECK(contains(some.out, "gpu.sm.limits.registers"));
  CHECK_FALSE(contains(some.out, "gpu.cwd"));
}

// SystemC would say that it has found nothing to do.
TEST_CASE("what is due long after the last operation is not waited for, and nobody is told of it", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml",
            "heddle: 1\ngpu: small\nconfig: {gpu: {cwd: {partition: dynamic}}}\nsubcontexts: [{id: 1, credits: 2}]\n"
            "share: [{at: 5 ms, subcontext: 1, credits: 1}]\n"
            "kernels: [{name: k, grid: 4, block: 32, cycles: 1000, subcontext: 1}]\n"
            "submit: [{kernel: k, stream: a}]\n");
  for (const char* mode : {"at", "fast", "lt"}) {
    CAPTURE(mode);
    const Results results = run_well(dir, {"s.yaml", "--timing", mode});
    CHECK(results.stat("sim.time") < 100);  // us
  }
}

}  // namespace cli_run_test

// Where results go, what lies there afterwards, and runs that are stopped before their end.
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/program.h"

namespace cli_run_folder_test {

using namespace heddle::test;

namespace {

namespace fs = std::filesystem;

std::string scenario_of(const std::string& more = "", const std::string& kernel = "cycles: 100") {
  return "heddle: 1\ngpu: small\n" + more + "kernels:\n  - {name: k, grid: 12, block: 64, " + kernel +
         "}\nsubmit: [{kernel: k, stream: a}]\n";
}

// Runs for ever, and each turn of its loop is another one.
const std::string kEndless =
    "heddle: 1\ngpu: small\nkernels:\n  - name: k\n    grid: 1\n    block: 32\n    program:\n"
    "      - set: {n: 1, type: u64}\n      - while: {cond: n > 0, do: [{set: {n: n + 2}}]}\n"
    "submit: [{kernel: k, stream: a}]\nexpect:\n  - {stat: gpu0.task.kernels, equals: 1}\n";

void run(const TempDir& dir, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  const Finished finished = heddle_in(dir, arguments);
  INFO(finished.err);
  REQUIRE(finished.status == 0);
}

std::string command_in(const TempDir& dir, const std::string& folder) {
  return read_json(dir.file(folder + "/host.json")).at("command").get<std::string>();
}

}  // namespace

TEST_CASE("results of another command are kept beside those of this one", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", scenario_of());
  run(dir, {"s.yaml"});
  run(dir, {"s.yaml"});
  CHECK_FALSE(fs::exists(dir.file("heddle-out/s.1")));
  const Finished other = heddle_in(dir, {"run", "s.yaml", "--seed", "2"});
  CHECK(contains(other.out, "results of an earlier command: heddle-out/s.1"));
  CHECK(command_in(dir, "heddle-out/s") == "heddle run s.yaml --seed 2");
  CHECK(command_in(dir, "heddle-out/s.1") == "heddle run s.yaml");
  run(dir, {"s.yaml", "--seed", "3"});
  CHECK(command_in(dir, "heddle-out/s.2") == "heddle run s.yaml --seed 2");
}

TEST_CASE("a folder holds the results of one run, and what others have put there", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", scenario_of());
  dir.write("w.yaml", scenario_of("memory: [{name: x, bytes: 4 KiB, write: x.bin}]\n"));
  run(dir, {"w.yaml", "--submit", "aql", "--dump", "ctas", "--bits", "--trace", "perfetto", "--out", "out"});
  for (const char* file : {"packets.csv", "ctas.csv", "bits.json", "timeline.pftrace", "x.bin"}) {
    CHECK(fs::exists(dir.file(std::string("out/") + file)));
  }
  dir.write("out/notes.txt", "mine");
  run(dir, {"s.yaml", "--out", "out"});
  for (const char* file : {"packets.csv", "ctas.csv", "bits.json", "timeline.pftrace", "x.bin"}) {
    CHECK_FALSE(fs::exists(dir.file(std::string("out/") + file)));
  }
  CHECK(read_file(dir.file("out/notes.txt")) == "mine");
  // A run that is refused leaves them alone.
  dir.write("bad.yaml", scenario_of("memory: [{name: x, bytes: 4 KiB, write: no/such.bin}]\n"));
  CHECK(heddle_in(dir, {"run", "bad.yaml", "--out", "out"}).status == 2);
  CHECK(command_in(dir, "out") == "heddle run s.yaml --out out");
}

TEST_CASE("two runs do not write into one folder at a time", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", scenario_of());
  run(dir, {"s.yaml", "--out", "out"});
  const int folder = open(dir.file("out").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(folder, LOCK_EX) == 0);
  const Finished second = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  close(folder);
  CHECK(second.status == 2);
  CHECK(contains(second.err, "out: cannot be used as results folder: a run that has not ended writes into it"));
  CHECK(contains(second.err, "--out DIR"));
}

TEST_CASE("a scenario writes into the folder of its results and nowhere else", "[cli]") {
  const TempDir dir;
  for (const std::string& name : {std::string("../x.bin"), std::string("a/../../x.bin"), dir.file("x.bin")}) {
    CAPTURE(name);
    dir.write("s.yaml", scenario_of("memory: [{name: x, bytes: 4 KiB, write: " + name + "}]\n"));
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, "s.yaml:3"));
    CHECK(contains(finished.err, "lies outside of the results folder"));
    CHECK_FALSE(fs::exists(dir.file("x.bin")));
  }
}

TEST_CASE("a run ends at the limit that it is given", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kEndless);
  struct Case {
    std::string limit;
    std::string text;
  };
  for (const Case& its : {Case{"time=20us", "after 20 us of simulated time (run.time_limit)"},
                          Case{"wall=0.05 s", "after 0.05 s of this computer's time (run.wall_limit)"},
                          Case{"events=30000", "events (run.event_limit = 30000)"}}) {
    CAPTURE(its.limit);
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out", "--limit", its.limit});
    CHECK(finished.status == 5);
    CHECK(contains(finished.err, "heddle: partial: stopped after "));
    CHECK(contains(finished.err, its.text));
    const Results results(dir.file("out"));
    CHECK(results.document().at("partial") == true);
    CHECK(results.page().at("stopped").at("what") == "Partial");
    if (its.limit[0] == 't') CHECK(results.stat("sim.time") == Approx(20).epsilon(0.05));
    if (its.limit[0] == 'e') CHECK(results.stat("sim.events") < 300'000);
  }
  // A run that ends before is none of its business.
  dir.write("short.yaml", scenario_of());
  run(dir, {"short.yaml", "--limit", "time=1s", "--limit", "events=1000000000"});
  for (const char* wrong : {"2ms", "tyme=2ms", "time=", "events=-1"}) {
    CAPTURE(wrong);
    CHECK(heddle_in(dir, {"run", "s.yaml", "--limit", wrong}).status == 2);
  }
}

TEST_CASE("Ctrl-C leaves partial results that say so", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kEndless);
  for (const auto& [signal, status] : {std::pair(std::string("INT"), 130), std::pair(std::string("TERM"), 143)}) {
    CAPTURE(signal);
    const std::string command = "cd '" + dir.file("") + "' && timeout --preserve-status -s " + signal + " 1 " +
                                HEDDLE_PROGRAM + " run s.yaml --out " + signal + " > out.txt 2> err.txt";
    const int ended = std::system(command.c_str());
    REQUIRE(WIFEXITED(ended));
    CHECK(WEXITSTATUS(ended) == status);
    CHECK(contains(read_file(dir.file("err.txt")), "heddle: partial: stopped by "));
    const Results results(dir.file(signal));
    CHECK(results.document().at("partial") == true);
    CHECK(contains(results.document().at("stopped").get<std::string>(), "SIG" + signal));
    CHECK(read_json(results.file("host.json")).at("state") == "ended");
  }
}

TEST_CASE("a quiet run tells why it failed", "[cli]") {
  const TempDir dir;
  const std::string expect = "expect: [{stat: gpu0.cwd.ctas_launched, equals: 3}, {stat: gpu0.faults, equals: 0}]\n";
  dir.write("s.yaml", scenario_of(expect));
  const Finished failed = heddle_in(dir, {"run", "s.yaml", "--quiet"});
  CHECK(failed.status == 1);
  CHECK(failed.out.empty());
  CHECK(contains(failed.err, "FAILED:  gpu0.cwd.ctas_launched = 3, but is 12 CTAs"));
  CHECK_FALSE(contains(failed.err, "gpu0.faults"));
  dir.write(
      "f.yaml",
      "heddle: 1\ngpu: small\nmemory: [{name: x, bytes: 4 KiB}]\nkernels:\n  - name: k\n    grid: 1\n    block: 32\n"
      "    program: [{store: {value: 1, type: u32, at: x + 2}}]\nsubmit: [{kernel: k, stream: a}]\n");
  const Finished faulted = heddle_in(dir, {"run", "f.yaml", "--quiet"});
  CHECK(faulted.status == 1);
  CHECK(contains(faulted.err, "FAULT:"));
  dir.write("good.yaml", scenario_of());
  const Finished good = heddle_in(dir, {"run", "good.yaml", "--quiet"});
  CHECK(good.status == 0);
  CHECK(good.err.empty());
}

TEST_CASE("a statistic that no run can have is found before the run", "[cli]") {
  const TempDir dir;
  const auto expecting = [&dir](const std::string& path) {
    dir.write("s.yaml", scenario_of("subcontexts: [{id: 0}]\nexpect: [{stat: " + path + ", min: 0}]\n"));
    return heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  };
  for (const char* wrong :
       {"gpu0.cwd.ctas_launchd", "gpu1.cwd.ctas_launched", "gpu0.l2.slice999.hits", "gpu0.mmu.walks"}) {
    CAPTURE(wrong);
    const Finished finished = expecting(wrong);
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, "s.yaml:4"));
    CHECK(contains(finished.err, "this run has no statistic"));
    CHECK_FALSE(fs::exists(dir.file("out/stats.json")));
  }
  for (const char* late : {"sim.time", "gpu0.occupancy", "gpu0.task.launch_latency.p99", "gpu0.task.depth"}) {
    CAPTURE(late);
    const Finished finished = expecting(late);
    INFO(finished.err);
    CHECK(finished.status == 0);
  }
}

TEST_CASE("a scenario is shown with its own name and description", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", scenario_of("name: Twelve CTAs\ndescription: What a dozen does.\n"));
  const Finished finished = heddle_in(dir, {"run", "s.yaml", "--out", "out"});
  REQUIRE(finished.status == 0);
  CHECK(contains(finished.out, "Twelve CTAs\nWhat a dozen does.\n"));
  const Results results(dir.file("out"));
  CHECK(results.page().at("title") == "Twelve CTAs on small");
  CHECK(results.page().at("description") == "What a dozen does.");
  CHECK(results.document().at("name") == "Twelve CTAs");
}

TEST_CASE("options that mean nothing to a scenario are refused", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", scenario_of());
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--pace", "asap"},
                                                 {"--fit", "signature"},
                                                 {"--no-baseline"},
                                                 {"--misfits", "clamp"}}) {
    CAPTURE(option.front());
    std::vector<std::string> arguments = {"run", "s.yaml"};
    arguments.insert(arguments.end(), option.begin(), option.end());
    const Finished finished = heddle_in(dir, arguments);
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, option.front() + " is for recordings, and s is a scenario"));
  }
  for (const char* seed : {"abc", "-1", "1e3", ""}) {
    const Finished finished = heddle_in(dir, {"run", "s.yaml", "--seed", seed});
    CHECK(finished.status == 2);
    CHECK(contains(finished.err, std::string("--seed ") + seed + ": expected a whole number of at least 0"));
  }
}

TEST_CASE("JSON is a scenario too", "[cli]") {
  const TempDir dir;
  dir.write("s.json", R"({"gpu": "small", "heddle": 1, "kernels": [{"name": "k", "grid": 1, "block": 32, "cycles": 9}],
 "submit": [{"kernel": "k", "stream": "a"}]})");
  const Finished finished = heddle_in(dir, {"run", "s.json"});
  INFO(finished.err);
  CHECK(finished.status == 0);
}

}  // namespace cli_run_folder_test

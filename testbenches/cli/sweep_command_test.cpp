// `heddle sweep`, `compare` and `test` as processes.
#include <algorithm>
#include <csignal>
#include <sstream>
#include <thread>

#include <catch2/catch.hpp>

#include "cli/program.h"

namespace cli_sweep_command_test {

using namespace heddle::test;

namespace {

// Its CTAs take `cycles`; more than four of them on each of the eight SMs of this machine cannot run at once.
constexpr const char* kScenario = R"(heddle: 1
gpu: small
parameters: {ctas: 8, cycles: 1000, wanted: 0}
kernels: [{name: k, grid: "${ctas}", block: 1024, cycles: "${cycles}"}]
submit: [{kernel: k, stream: s}]
expect: [{stat: gpu0.cwd.ctas_launched, min: "${wanted}"}]
)";

constexpr const char* kSweep = R"(sweep: 1
run: s.yaml
axes:
  - {let: ctas, values: [8, 16, 0]}
  - {let: cycles, from: 1000, to: 4000, steps: 2}
figures:
  - {name: time, stat: sim.time, better: less}
  - {name: launched, stat: gpu0.cwd.ctas_launched}
  - {name: per cta, value: t / ctas, of: {t: {stat: sim.time}}}
)";

std::vector<std::vector<std::string>> rows_of(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream fields(line + ",");
    for (std::string field; std::getline(fields, field, ',');) rows.back().push_back(field);
  }
  return rows;
}

// Points of which the sweep says that they have ended: "3/6 ctas=8: done, 0.1 s".
std::size_t runs_in(const Finished& finished) {
  std::istringstream lines(finished.err);
  std::size_t told = 0;
  for (std::string line; std::getline(lines, line);) told += line.find('/') < line.find(' ') ? 1U : 0U;
  return told;
}

}  // namespace

TEST_CASE("a sweep runs its points, keeps their reasons, and runs nothing twice", "[cli][SWP-04][SWP-05]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  dir.write("w.yaml", kSweep);
  const Finished first = heddle_in(dir, {"sweep", "w.yaml", "--jobs", "2"});
  INFO(first.out << first.err);
  CHECK(first.status == 1);  // a grid of no CTAs is bad input
  CHECK(runs_in(first) == 6);
  const auto rows = rows_of(read_file(dir.file("heddle-out/w.sweep/table.csv")));
  REQUIRE(rows.size() == 7);
  CHECK(rows[0] == std::vector<std::string>{"point", "ctas", "cycles", "time", "launched", "per cta", "status", "exit",
                                            "reason", "folder"});
  CHECK(rows[1][6] == "done");
  CHECK(rows[1][4] == "8");
  CHECK(rows[4][4] == "16");
  // Four times the cycles: 3000 cycles more, in us; and a sixteenth or an eighth of the time for each CTA.
  CHECK(std::stod(rows[2][3]) > std::stod(rows[1][3]) + 1);
  CHECK(std::stod(rows[3][5]) == Approx(std::stod(rows[3][3]) / 16));
  CHECK(rows[5][6] == "bad input");
  CHECK(rows[5][3].empty());
  CHECK(contains(first.out, "s.yaml:4"));
  CHECK(contains(first.out, "6 points, 4 done, 2 not well"));
  CHECK(contains(read_file(dir.file("heddle-out/w.sweep/sweep.html")), "\"status\":\"bad input\""));

  const std::string table = read_file(dir.file("heddle-out/w.sweep/table.csv"));
  const Finished second = heddle_in(dir, {"sweep", "w.yaml"});
  CHECK(runs_in(second) == 0);
  CHECK(second.status == 1);
  CHECK(read_file(dir.file("heddle-out/w.sweep/table.csv")) == table);
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml", "--again", "failed"})) == 2);
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml", "--again", "all"})) == 6);
  CHECK(read_file(dir.file("heddle-out/w.sweep/table.csv")) == table);
  CHECK(heddle_in(dir, {"sweep", "w.yaml", "--again", "some"}).status == 2);
  CHECK(runs_in(heddle_in(dir, {"sweep", "point", "w.yaml", "2", "--again", "all"})) == 1);
  CHECK(runs_in(heddle_in(dir, {"sweep", "point", "w.yaml", "2"})) == 0);

  // Another figure needs no other run; another scenario does.
  dir.write("w.yaml", std::string(kSweep) + "  - {name: kernels, stat: gpu0.task.kernels}\n");
  const Finished figures = heddle_in(dir, {"sweep", "w.yaml"});
  CHECK(runs_in(figures) == 0);
  CHECK(rows_of(read_file(dir.file("heddle-out/w.sweep/table.csv")))[1][6] == "1");
  dir.write("s.yaml", std::string(kScenario) + "# changed\n");
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml"})) == 6);
}

TEST_CASE("points can be run one by one, in any order, for the same table", "[cli][SWP-09]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  dir.write("w.yaml", kSweep);
  CHECK(heddle_in(dir, {"sweep", "w.yaml", "--out", "local", "--quiet"}).status == 1);
  const Finished plan = heddle_in(dir, {"sweep", "plan", "w.yaml"});
  CHECK(plan.out ==
        "1\tctas=8 cycles=1000\n2\tctas=8 cycles=4000\n3\tctas=16 cycles=1000\n4\tctas=16 cycles=4000\n"
        "5\tctas=0 cycles=1000\n6\tctas=0 cycles=4000\n");
  for (const int point : {6, 2, 4, 1, 5}) {
    const Finished one = heddle_in(dir, {"sweep", "point", "w.yaml", std::to_string(point), "--out", "parts"});
    CHECK(one.status == (point > 4 ? 2 : 0));
  }
  CHECK(heddle_in(dir, {"sweep", "collect", "w.yaml", "--out", "parts"}).status == 1);
  CHECK(rows_of(read_file(dir.file("parts/table.csv")))[3][6] == "not run");
  CHECK(heddle_in(dir, {"sweep", "point", "w.yaml", "3", "--out", "parts"}).status == 0);
  heddle_in(dir, {"sweep", "collect", "w.yaml", "--out", "parts"});
  const std::string local = read_file(dir.file("local/table.csv"));
  CHECK(read_file(dir.file("parts/table.csv")) == local);
  CHECK(heddle_in(dir, {"sweep", "point", "w.yaml", "7"}).status == 2);
  CHECK(contains(heddle_in(dir, {"sweep", "point", "w.yaml", "0"}).err, "the plan has the points 1 to 6"));
}

TEST_CASE("a failed expectation has figures, a run that takes too long has none", "[cli][SWP-04][SWP-07]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  dir.write("w.yaml", R"(sweep: 1
run: s.yaml
axes: [{zip: [{let: wanted, values: [8, 9]}]}]
figures: [{name: launched, stat: gpu0.cwd.ctas_launched}]
)");
  CHECK(heddle_in(dir, {"sweep", "w.yaml", "--quiet"}).status == 1);
  auto rows = rows_of(read_file(dir.file("heddle-out/w.sweep/table.csv")));
  CHECK(rows[1][3] == "done");
  CHECK(rows[2][3] == "failed");
  CHECK(rows[2][2] == "8");
  CHECK(contains(rows[2][5], "FAILED: gpu0.cwd.ctas_launched"));
  dir.write("long.yaml", R"(sweep: 1
run: s.yaml
let: {cycles: 30000000}
axes: [{let: ctas, values: [2000000]}]
limit: 0.3 s
)");
  const Finished slow = heddle_in(dir, {"sweep", "long.yaml"});
  CHECK(slow.status == 1);
  rows = rows_of(read_file(dir.file("heddle-out/long.sweep/table.csv")));
  CHECK(contains(slow.out, "limit: stopped after 0.3 s of wall time (limit)"));
}

TEST_CASE("a figure that runs do not have ends the sweep at its first point", "[cli][SWP-07]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  dir.write("w.yaml", R"(sweep: 1
run: s.yaml
axes: [{let: ctas, values: [1, 2, 3, 4, 5, 6, 7, 8]}]
figures: [{name: f, stat: gpu0.cwd.cta_launched}]
)");
  const Finished finished = heddle_in(dir, {"sweep", "w.yaml", "--jobs", "1"});
  CHECK(finished.status == 2);
  CHECK(contains(finished.err, "w.yaml:4:11: figure f: the run has no statistic gpu0.cwd.cta_launched"));
  CHECK(contains(finished.err, "did you mean gpu0.cwd.ctas_launched?"));
  CHECK(runs_in(finished) == 0);
  // So does one that is added later, to points that have run.
  dir.write("w.yaml", "sweep: 1\nrun: s.yaml\naxes: [{let: ctas, values: [1, 2]}]\n");
  REQUIRE(heddle_in(dir, {"sweep", "w.yaml"}).status == 0);
  dir.write("w.yaml",
            "sweep: 1\nrun: s.yaml\naxes: [{let: ctas, values: [1, 2]}]\n"
            "figures: [{name: f, stat: gpu0.cwd.cta_launched}]\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"sweep", "w.yaml"}, {"sweep", "collect", "w.yaml"}}) {
    const Finished again = heddle_in(dir, arguments);
    CHECK(again.status == 2);
    CHECK(contains(again.err, "did you mean gpu0.cwd.ctas_launched?"));
  }
}

TEST_CASE("the shipped sweeps have the points that they promise, and their scenarios run", "[cli][SWP-01]") {
  const TempDir dir;
  const std::string folder = scenario("sweeps/");
  const auto points = [&](const char* name) {
    const Finished plan = heddle_in(dir, {"sweep", "plan", folder + name});
    CAPTURE(name, plan.err);
    CHECK(plan.status == 0);
    return std::count(plan.out.begin(), plan.out.end(), '\n');
  };
  CHECK(points("placement.yaml") == 5 * 5 * 4 * 2);
  CHECK(points("recording.yaml") == 5 * 4 * 10);
  CHECK(points("mixed_placement.yaml") == 5 * 5 * 2 * 2 * 2);
  CHECK(points("l2_bandwidth.yaml") == 6 * 3 * 2);
  CHECK(points("sms_per_gpc.yaml") == 5 * 2 * 4 - 6);  // no clusters of 4 or 8 in GPCs of 2, none of 8 in GPCs of 6
  for (const std::vector<std::string>& run :
       {std::vector<std::string>{"cluster_gemm.yaml", "--let", "n=512", "--let", "k=128", "--timing", "fast"},
        {"cluster_gemm.yaml", "--let", "n=512", "--let", "k=128", "--let", "cluster=1", "--timing", "fast"},
        {"mixed_grids.yaml"}}) {
    std::vector<std::string> arguments{"run", folder + run.front(), "--quiet", "--out", dir.file("out")};
    arguments.insert(arguments.end(), run.begin() + 1, run.end());
    const Finished finished = heddle_in(dir, arguments);
    CAPTURE(run.front(), finished.err);
    CHECK(finished.status == 0);
  }
}

TEST_CASE("a figure without a name of its own does not take an axis's", "[cli][SWP-07]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  dir.write("w.yaml", R"(sweep: 1
run: s.yaml
axes: [{name: Time, let: ctas, values: [8, 16]}, {name: occupancy, let: cycles, values: [1000]}]
)");
  const Finished finished = heddle_in(dir, {"sweep", "w.yaml"});
  INFO(finished.out << finished.err);
  CHECK(finished.status == 0);
  const auto rows = rows_of(read_file(dir.file("heddle-out/w.sweep/table.csv")));
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == std::vector<std::string>{"point", "Time", "occupancy", "time of the run", "occupancy of the run",
                                            "status", "exit", "reason", "folder"});
  CHECK(rows[1][1] == "8");
  CHECK(std::stod(rows[1][3]) > 0.5);  // us: 1000 cycles
  CHECK(contains(read_file(dir.file("heddle-out/w.sweep/sweep.html")), "\"better\":\"less\""));
}

TEST_CASE("where baselines are kept is nothing of a point", "[cli][SWP-05]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace(4));
  const auto sweep = [](const std::string& options) {
    return "sweep: 1\nrun: t.json\noptions: {pace: asap" + options + "}\naxes: [{option: gpu, values: [a100]}]\n";
  };
  dir.write("w.yaml", sweep(", keep-baselines: kept"));
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml"})) == 1);
  CHECK_FALSE(std::filesystem::is_empty(dir.file("kept")));
  for (const char* options : {", keep-baselines: elsewhere", ""}) {
    dir.write("w.yaml", sweep(options));
    CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml"})) == 0);
  }
  dir.write("w.yaml", sweep(", no-baseline: true"));
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml"})) == 1);
}

TEST_CASE("an interrupted sweep goes on from there", "[cli][SWP-06]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  std::string values;
  for (int i = 1; i <= 60; ++i) values += (i == 1 ? "" : ", ") + std::to_string(i);
  dir.write("w.yaml", "sweep: 1\nrun: s.yaml\naxes: [{let: ctas, values: [" + values + "]}]\n");
  const std::string table = dir.file("out/table.csv");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int log = open(dir.file("log").c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (chdir(dir.file("").c_str()) != 0) _exit(127);
    execl(HEDDLE_PROGRAM, HEDDLE_PROGRAM, "sweep", "w.yaml", "--out", "out", "--jobs", "1", nullptr);
    _exit(127);
  }
  const auto done = [&] {
    std::size_t count = 0;
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator at(dir.file("out/points"), error), end; at != end && !error;
         at.increment(error)) {
      count += at->path().filename() == "point.json" ? 1U : 0U;
    }
    return count;
  };
  while (done() < 3) std::this_thread::yield();
  kill(child, SIGINT);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  INFO(read_file(dir.file("log")));
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 5);
  CHECK(contains(read_file(dir.file("log")), "of 60 points are done; the same command goes on from there"));
  const std::size_t before = done();
  CHECK(before >= 3);
  CHECK(before < 60);
  const auto count_of_state = [&](const std::string& state) {
    std::size_t count = 0;
    for (const auto& row : rows_of(read_file(table))) {
      count += std::count(row.begin(), row.end(), state) > 0 ? 1U : 0U;
    }
    return count;
  };
  CHECK(count_of_state("done") == before);
  CHECK(count_of_state("not run") == 60 - before);
  const Finished rest = heddle_in(dir, {"sweep", "w.yaml", "--out", "out"});
  CHECK(rest.status == 0);
  CHECK(runs_in(rest) == 60 - before);
  CHECK(count_of_state("done") == 60);
  // Byte for byte what comes of a sweep that nobody has interrupted.
  CHECK(heddle_in(dir, {"sweep", "w.yaml", "--out", "whole", "--quiet"}).status == 0);
  CHECK(read_file(dir.file("whole/table.csv")) == read_file(table));
}

TEST_CASE("figures alone can be kept of points", "[cli][SWP-05]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const std::string text = "sweep: 1\nrun: s.yaml\naxes: [{let: ctas, values: [8]}]\nkeep: figures\n";
  dir.write("w.yaml", text);
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml", "--out", "out"})) == 1);
  std::size_t stats = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.file("out/points"))) {
    stats += entry.path().filename() == "stats.json" ? 1U : 0U;
  }
  CHECK(stats == 0);
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml", "--out", "out"})) == 0);
  dir.write("w.yaml", text + "figures: [{name: kernels, stat: gpu0.task.kernels}]\n");
  CHECK(runs_in(heddle_in(dir, {"sweep", "w.yaml", "--out", "out"})) == 1);
  CHECK(rows_of(read_file(dir.file("out/table.csv")))[1][2] == "1");
}

TEST_CASE("a recording is swept over machines and paces", "[cli][SWP-01]") {
  const TempDir dir;
  dir.write("t.json", hand_made_trace(4));
  dir.write("w.yaml", R"(sweep: 1
run: t.json
axes:
  - {option: pace, values: [recorded, asap]}
  - {option: gpu, values: [a100, h100-sxm]}
figures:
  - {name: span, stat: replay.span.modelled, better: less}
)");
  const Finished finished = heddle_in(dir, {"sweep", "w.yaml"});
  INFO(finished.out << finished.err);
  CHECK(finished.status == 0);
  const auto rows = rows_of(read_file(dir.file("heddle-out/w.sweep/table.csv")));
  REQUIRE(rows.size() == 5);
  CHECK(std::stod(rows[3][3]) < 0.8 * std::stod(rows[1][3]));  // asap leaves out the pauses between kernels
}

TEST_CASE("two sweeps do not share a folder, and files that are no sweeps are refused", "[cli][SWP-06]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  CHECK(contains(heddle_in(dir, {"sweep", "s.yaml"}).err, "is a scenario, not a sweep"));
  CHECK(contains(heddle_in(dir, {"sweep"}).err, "the file of a sweep is expected"));
  CHECK(contains(heddle_in(dir, {"sweep", "none.yaml"}).err, "there is no such file"));
  CHECK(contains(heddle_in(dir, {"sweep", "s.yaml", "--jobs", "0"}).err, "is a scenario"));
  dir.write("w.yaml", "sweep: 1\nrun: s.yaml\naxes: [{let: ctas, values: [8]}]\n");
  CHECK(contains(heddle_in(dir, {"sweep", "w.yaml", "--jobs", "0"}).err,
                 "--jobs 0: expected a whole number from 1 to 1024"));
  CHECK(contains(heddle_in(dir, {"sweep", "plam", "w.yaml"}).err, "'plam' is neither plan, point nor collect"));
}

TEST_CASE("results are compared, with limits for a regression", "[cli][CMP-01][CMP-02]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  for (const std::string cycles : {"1000", "1100"}) {
    const std::string distance = "gpu.cwd.gpc_distance=1" + cycles.substr(1, 1);
    CHECK(heddle_in(dir, {"run", "s.yaml", "--let", "cycles=" + cycles, "--set", distance, "--out", cycles}).status ==
          0);
  }
  const Finished equal = heddle_in(dir, {"compare", "1000", "1000", "--fail-if", "**>0"});
  INFO(equal.out << equal.err);
  CHECK(equal.status == 0);
  CHECK(contains(equal.out, "Configuration: the same"));
  const Finished longer = heddle_in(dir, {"compare", "1000", "1100", "--fail-if", "sim.time>+1%", "--fail-if",
                                          "gpu0.cwd.ctas_launched>0", "--page", "c.html"});
  INFO(longer.out << longer.err);
  CHECK(longer.status == 1);
  CHECK(contains(longer.out, "FAILED: sim.time>+1%: sim.time is "));
  CHECK_FALSE(contains(longer.out, "FAILED: gpu0.cwd"));
  CHECK(contains(longer.out, "cwd.gpc_distance  10  11"));
  CHECK(contains(read_file(dir.file("c.html")), "\"name\":\"sim.time\""));
  dir.write("limits", "sim.time>-1%\nkernel k>50%\n");
  CHECK(heddle_in(dir, {"compare", "1000", "1100", "--thresholds", "limits"}).status == 0);
  CHECK(heddle_in(dir, {"compare", "1100", "1000", "--thresholds", "limits", "--quiet"}).status == 1);
  CHECK(heddle_in(dir, {"compare", "1000"}).status == 2);
  CHECK(contains(heddle_in(dir, {"compare", "1000", "none"}).err, "has no stats.json"));
  CHECK(contains(heddle_in(dir, {"compare", "1000", "1100", "--fail-if", "sim.tim>0"}).err, "did you mean sim.time?"));
}

TEST_CASE("a folder of scenarios is a regression", "[cli][RGR-01][RGR-02][RGR-03]") {
  const TempDir dir;
  std::filesystem::create_directory(dir.file("set"));
  dir.write("set/good.yaml", kScenario);
  std::string bad = kScenario;
  bad.replace(bad.find("wanted: 0"), 9, "wanted: 9");
  dir.write("set/bad.yaml", bad);
  dir.write("set/other.yaml", "not: a scenario\n");
  const Finished plain = heddle_in(dir, {"test", "set", "--junit", "j.xml"});
  INFO(plain.out << plain.err);
  CHECK(plain.status == 1);
  CHECK(contains(plain.out, "FAILED:   bad.yaml"));
  CHECK(contains(plain.out, "1 of 2 scenarios are as expected"));
  CHECK(contains(read_file(dir.file("j.xml")), "tests=\"2\" failures=\"1\" errors=\"0\""));

  CHECK(heddle_in(dir, {"test", "set", "--update"}).status == 0);
  CHECK(heddle_in(dir, {"test", "set"}).status == 0);  // bad.yaml is expected to fail now
  const std::string expected = read_file(dir.file("set/expected.yaml"));
  CHECK(heddle_in(dir, {"test", "set", "--update"}).status == 0);
  CHECK(read_file(dir.file("set/expected.yaml")) == expected);

  std::string longer = kScenario;
  longer.replace(longer.find("cycles: 1000"), 12, "cycles: 1010");
  dir.write("set/good.yaml", longer);
  const Finished slower = heddle_in(dir, {"test", "set"});
  CHECK(slower.status == 1);
  CHECK(contains(slower.out, "sim.time is "));
  CHECK(contains(slower.out, " was expected (+"));
  std::string tolerant = expected;
  tolerant.insert(tolerant.find("scenarios:"), "tolerances:\n  sim.time: 2 %\n");
  dir.write("set/expected.yaml", tolerant);
  CHECK(heddle_in(dir, {"test", "set"}).status == 0);

  dir.write("set/new.yaml", kScenario);
  std::filesystem::remove(dir.file("set/bad.yaml"));
  const Finished changed = heddle_in(dir, {"test", "set"});
  CHECK(changed.status == 1);
  CHECK(contains(changed.out, "nothing is expected of it"));
  CHECK(contains(changed.out, "there is no such scenario"));
  CHECK(contains(heddle_in(dir, {"test", "none"}).err, "is no folder"));
  CHECK(contains(heddle_in(dir, {"test", "set", "--expected", "none"}).err, "--update writes it"));
}

}  // namespace cli_sweep_command_test

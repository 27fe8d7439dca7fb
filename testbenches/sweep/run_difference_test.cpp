// What differs between runs, and limits for it.
#include "sweep/run_difference.h"

#include "sweep/sweep_lab.h"

namespace run_difference_test {

using namespace heddle;
using namespace heddle::test;
using sweep::RunDifference;
using sweep::RunResults;
using sweep::Threshold;

namespace {

struct Lab {
  Lab() {
    runs.emplace_back(results_in(folder, "a",
                                 {{"sim.time", 100},
                                  {"gpu0.l2.slice0.hits", 50},
                                  {"gpu0.l2.slice1.hits", 50},
                                  {"gpu0.cwd.ctas_launched", 512},
                                  {"gpu0.faults", 0},
                                  {"only.a", 1}},
                                 {{"latency", 300}}, {{"gemm", 40}, {"gemm", 40}, {"copy", 5}}));
    runs.emplace_back(results_in(folder, "b",
                                 {{"sim.time", 103},
                                  {"gpu0.l2.slice0.hits", 50},
                                  {"gpu0.l2.slice1.hits", 40},
                                  {"gpu0.cwd.ctas_launched", 512},
                                  {"gpu0.faults", 2}},
                                 {{"latency", 290}}, {{"gemm", 41}, {"gemm", 43}, {"new", 1}},
                                 "gpu0:\n  cwd: {gpc_distance: 120}\n  shape: [18, 18]\n"));
  }
  RunDifference check(const std::vector<std::string>& limits) const {
    std::vector<Threshold> thresholds;
    for (const std::string& limit : limits) thresholds.push_back(sweep::read_threshold(limit));
    return difference_of(runs, thresholds);
  }
  bool holds(const std::string& limit) const { return check({limit}).ok(); }

  TempDir folder;
  std::vector<RunResults> runs;
};

}  // namespace

TEST_CASE("limits say what, how much and in which direction", "[sweep][CMP-01]") {
  const Threshold any = sweep::read_threshold("gpu0.cwd.ctas_launched>1%");
  CHECK(any.what == "gpu0.cwd.ctas_launched");
  CHECK(any.limit == 1);
  CHECK(any.percent);
  CHECK(any.direction == Threshold::Direction::any);
  const Threshold up = sweep::read_threshold(" kernel a<b>(c)> + 2.5 ");
  CHECK(up.what == "kernel a<b>(c)");
  CHECK_FALSE(up.percent);
  CHECK(up.direction == Threshold::Direction::up);
  for (const char* wrong : {"a", "a>", ">1", "a>x", "a>1 us", "a>--1", "a>%"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(sweep::read_threshold(wrong), Catch::Contains("threshold"));
  }
  const TempDir folder;
  const std::string file = folder.write("limits", "# all\n\nsim.time>1%  # of it\na>\n");
  CHECK_THROWS_WITH(sweep::read_thresholds(file), Catch::Contains("limits:4: "));
}

TEST_CASE("what kernels used is compared in columns that all runs have", "[sweep][CMP-01]") {
  const TempDir folder;
  std::vector<RunResults> runs;
  const auto add = [&](const std::string& name, const std::string& heads, const std::string& values) {
    const std::string path = results_in(folder, name, {{"sim.time", 100}});
    folder.write(name + "/kernels.csv",
                 "gpu,kind,name,duration_ns" + heads + "\ngpu0,kernel,gemm,1000" + values + "\n");
    runs.emplace_back(path);
  };
  add("new", ",instructions,l2_bytes,sfu_cycles", ",10,64,5");
  add("old", ",instructions,l2_bytes", ",12,64");
  const RunDifference difference = sweep::difference_of(runs, {});
  REQUIRE(difference.used.size() == 1);
  CHECK(difference.used[0].name == "gemm: instructions");
}

TEST_CASE("what is beyond its limit is found, and nothing else", "[sweep][CMP-01]") {
  const Lab lab;
  CHECK(lab.holds("sim.time>3%"));
  CHECK_FALSE(lab.holds("sim.time>2.9%"));
  CHECK_FALSE(lab.holds("sim.time>+2.9%"));
  CHECK(lab.holds("sim.time>-0%"));  // it has grown
  CHECK(lab.holds("sim.time>3"));
  CHECK_FALSE(lab.holds("sim.time>2"));
  CHECK(lab.holds("gpu0.cwd.ctas_launched>0"));
  CHECK_FALSE(lab.holds("gpu0.l2.slice*.hits>19%"));
  CHECK(lab.holds("gpu0.l2.slice*.hits>20%"));
  CHECK_FALSE(lab.holds("gpu0.faults>50%"));  // of 0
  CHECK(lab.holds("figure latency>+0"));
  CHECK_FALSE(lab.holds("figure latency>-3%"));
  CHECK_FALSE(lab.holds("kernel gemm>+4%"));
  CHECK(lab.holds("kernel gemm>+5%"));
  CHECK_FALSE(lab.holds("kernel copy>99%"));  // one of the two has none
  CHECK_FALSE(lab.holds("only.a>99%"));
  const RunDifference slices = lab.check({"gpu0.l2.slice*.hits>0"});
  REQUIRE(slices.thresholds.size() == 2);
  CHECK(slices.thresholds[0].ok);
  CHECK_FALSE(slices.thresholds[1].ok);
  CHECK_THROWS_WITH(lab.check({"gpu0.cwd.cta_launched>0"}), Catch::Contains("did you mean gpu0.cwd.ctas_launched?"));
  CHECK_THROWS_WITH(lab.check({"kernel gem>0"}), Catch::Contains("did you mean kernel gemm?"));
}

TEST_CASE("configuration, statistics, figures and kernels are set side by side", "[sweep][CMP-02]") {
  const Lab lab;
  const RunDifference difference = lab.check({});
  REQUIRE(difference.settings.size() == 2);
  CHECK(difference.settings[0].path == "gpu0.cwd.gpc_distance");
  CHECK(*difference.settings[0].values[1] == "120");
  CHECK(difference.settings[1].path == "gpu0.shape");
  CHECK_FALSE(difference.settings[1].values[0]);
  CHECK(*difference.settings[1].values[1] == "[18, 18]");
  std::vector<std::string> names;
  for (const sweep::DifferenceRow& row : difference.stats) names.push_back(row.name);
  // What has no ratio first, then by size: 20 %, 3 %.
  CHECK(names == std::vector<std::string>{"gpu0.faults", "only.a", "gpu0.l2.slice1.hits", "sim.time"});
  CHECK(difference.equal_stats == 2);
  REQUIRE(difference.kernels.size() == 3);
  CHECK(difference.kernels[0].name == "gemm");
  CHECK(*difference.kernels[0].values[0] == 80);
  CHECK(*difference.kernels[0].values[1] == 84);
  CHECK(*difference.kernels[0].change(1) == Approx(0.05));
  CHECK(*difference.launches[0].values[0] == 2);
  CHECK(difference.kernels[1].name == "copy");
  CHECK_FALSE(difference.kernels[1].values[1]);
  const std::string text = difference_text(difference, 20);
  CHECK(holds(text, "gpu0.cwd.gpc_distance  100  120"));
  CHECK(holds(text, "103 (+3.00 %)"));
  const nlohmann::json page = compare_page_data(difference);
  CHECK(page.at("kernels")[0].at("launches") == nlohmann::json({2, 2}));
  CHECK(page.at("settings")[1].at("values") == nlohmann::json({nullptr, "[18, 18]"}));
}

TEST_CASE("a run is equal to itself", "[sweep][CMP-02]") {
  const TempDir folder;
  const std::string a = results_in(folder, "a", {{"sim.time", 100}}, {{"latency", 300}}, {{"gemm", 40}});
  const std::vector<RunResults> runs{RunResults(a), RunResults(a)};
  const RunDifference difference =
      difference_of(runs, {sweep::read_threshold("**>0"), sweep::read_threshold("kernel **>0")});
  CHECK(difference.ok());
  CHECK(difference.thresholds.size() == 2);
  CHECK(difference.settings.empty());
  CHECK(difference.stats.empty());
  CHECK(holds(difference_text(difference, 20), "Configuration: the same"));
}

}  // namespace run_difference_test

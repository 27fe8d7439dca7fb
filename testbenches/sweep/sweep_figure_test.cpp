// What is collected of a point.
#include "sweep/sweep_figure.h"

#include "sweep/sweep_lab.h"

namespace sweep_figure_test {

using namespace heddle;
using namespace heddle::test;
using sweep::matches_pattern;

namespace {

const std::map<std::string, double> kStats = {{"sim.time", 12.5},           {"gpu0.occupancy", 50},
                                              {"gpu0.l2.slice0.hits", 1},   {"gpu0.l2.slice1.hits", 2},
                                              {"gpu0.l2.slice12.hits", 30}, {"gpu0.l2.slice0.bank.hits", 400},
                                              {"gpu0.l2.slice0.misses", 7}};

sweep::Measured measured(const TempDir& folder, const std::string& figure,
                         const std::map<std::string, double>& axes = {}) {
  const sweep::RunResults results(
      results_in(folder, "r", kStats, {{"latency", 321}}, {{"gemm", 3}, {"gemm", 5}, {"copy", 1}}));
  std::vector<std::string> names;
  for (const auto& [name, value] : axes) names.push_back(name);
  return measure(sweep::read_sweep_figure(load_yaml(figure, "f.yaml"), "f.yaml", names), results, axes);
}

}  // namespace

TEST_CASE("a star is anything but a dot, two are anything", "[sweep][SWP-07]") {
  CHECK(matches_pattern("gpu0.l2.slice*.hits", "gpu0.l2.slice12.hits"));
  CHECK_FALSE(matches_pattern("gpu0.l2.slice*.hits", "gpu0.l2.slice0.bank.hits"));
  CHECK(matches_pattern("gpu0.**.hits", "gpu0.l2.slice0.bank.hits"));
  CHECK(matches_pattern("*", "abc"));
  CHECK(matches_pattern("a*", "a"));
  CHECK_FALSE(matches_pattern("a*", "b"));
  CHECK_FALSE(matches_pattern("*", "a.b"));
  CHECK(matches_pattern("**", "a.b"));
  CHECK(matches_pattern("*.*.c", "a.b.c"));
  CHECK_FALSE(matches_pattern("a.b", "a.bc"));
  CHECK(matches_pattern("", ""));
  CHECK_FALSE(matches_pattern("", "a"));
}

TEST_CASE("figures come from statistics, kernels, the scenario and the axes", "[sweep][SWP-07]") {
  const TempDir folder;
  CHECK(*measured(folder, "{name: f, stat: sim.time}").value == 12.5);
  CHECK(measured(folder, "{name: f, stat: sim.time}").unit == "things");
  CHECK(*measured(folder, "{name: f, stat: gpu0.l2.slice*.hits}").value == 33);
  CHECK(*measured(folder, "{name: f, stat: gpu0.l2.slice*.hits, take: mean}").value == 11);
  CHECK(*measured(folder, "{name: f, stat: gpu0.l2.slice*.hits, take: min}").value == 1);
  CHECK(*measured(folder, "{name: f, stat: gpu0.l2.slice*.hits, take: max}").value == 30);
  CHECK(*measured(folder, "{name: f, stat: gpu0.l2.**.hits}").value == 433);
  CHECK(*measured(folder, "{name: f, kernel: gemm}").value == 8);
  CHECK(*measured(folder, "{name: f, kernel: '*', take: max}").value == 5);
  CHECK(measured(folder, "{name: f, kernel: gemm}").unit == "us");
  CHECK(*measured(folder, "{name: f, figure: latency}").value == 321);
  CHECK(measured(folder, "{name: f, figure: latency}").unit == "ns");
  const std::string rate =
      "{name: f, value: 100 * h / (h + m), unit: '%', of: {h: {stat: gpu0.l2.slice*.hits}, m: {stat: "
      "gpu0.l2.slice*.misses}}}";
  CHECK(*measured(folder, rate).value == 82.5);
  CHECK(measured(folder, rate).unit == "%");
  CHECK(*measured(folder, "{name: cost, value: slices * width}", {{"slices", 80}, {"width", 64}}).value == 5120);
}

TEST_CASE("a figure that a run does not have says why", "[sweep][SWP-07]") {
  const TempDir folder;
  const sweep::Measured none = measured(folder, "{name: f, stat: gpu0.l2.slice*.hit}");
  CHECK_FALSE(none.value);
  CHECK(none.why == "the run has no statistic gpu0.l2.slice*.hit");
  CHECK(*measured(folder, "{name: f, stat: gpu1.x, otherwise: 4}").value == 4);
  CHECK(measured(folder, "{name: f, value: 1 / (x - x), of: {x: {stat: sim.time}}}").why ==
        "the expression has no finite value");
  const sweep::RunResults results(results_in(folder, "r", kStats));
  const auto figure = sweep::read_sweep_figure(load_yaml("{name: f, stat: gpu0.occupency}", "f.yaml"), "f.yaml", {});
  const auto error = unknown_source({figure}, results);
  REQUIRE(error);
  CHECK(holds(error->what(), "f.yaml:1:1: figure f: the run has no statistic gpu0.occupency"));
  CHECK(holds(error->what(), "did you mean gpu0.occupancy?"));
  CHECK_FALSE(unknown_source(default_figures(results), results));
}

TEST_CASE("without a list, a run's own figures are collected, or its time", "[sweep][SWP-07]") {
  const TempDir folder;
  const auto names = [&](const std::map<std::string, double>& stats, const std::map<std::string, double>& figures) {
    std::vector<std::string> result;
    for (const auto& figure : default_figures(sweep::RunResults(results_in(folder, "r", stats, figures)))) {
      result.push_back(figure.name);
    }
    return result;
  };
  using Texts = std::vector<std::string>;
  CHECK(names(kStats, {}) == Texts{"time", "occupancy"});
  CHECK(names(kStats, {{"latency", 3}}) == Texts{"latency", "occupancy"});
  CHECK(names({{"sim.time", 1}, {"replay.span.modelled", 2}, {"gpu0.occupancy", 3}}, {}) == Texts{"span", "occupancy"});
}

TEST_CASE("figures that make no sense are refused", "[sweep][SWP-07]") {
  const auto wrong = [](const std::string& text, const std::string& message) {
    INFO(text);
    CHECK_THROWS_WITH(sweep::read_sweep_figure(load_yaml(text, "f.yaml"), "f.yaml", {"width"}),
                      Catch::Contains(message));
  };
  wrong("{name: f}", "one of stat, kernel, figure is expected");
  wrong("{name: f, stat: a, kernel: b}", "one of stat, kernel, figure is expected");
  wrong("{name: f, value: x}", "there is no x");
  wrong("{name: f, value: x, of: {x: {stat: a}}, stat: b}", "what is in it stands in `of`");
  wrong("{name: f, stat: a, of: {x: {stat: a}}}", "there is none (value)");
  wrong("{name: f, value: width, of: {width: {stat: a}}}", "the name of an axis already");
  wrong("{name: f, figure: a, take: sum}", "is one number");
  wrong("{name: f, stat: a, better: faster}", "is not possible here");
  wrong("{stat: a}", "the key \"name\" is missing");
}

TEST_CASE("a folder without results is no folder of results", "[sweep]") {
  const TempDir folder;
  CHECK_THROWS_WITH(sweep::RunResults(folder.file("none")), Catch::Contains("has no stats.json"));
  std::filesystem::create_directories(folder.file("torn"));
  folder.write("torn/stats.json", "{\"stats\": ");
  CHECK_THROWS_WITH(sweep::RunResults(folder.file("torn")), Catch::Contains("is not whole"));
}

}  // namespace sweep_figure_test

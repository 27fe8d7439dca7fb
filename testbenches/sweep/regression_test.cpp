// What is expected of a folder of scenarios, and how it is judged.
#include "sweep/regression.h"

#include "sweep/sweep_lab.h"

namespace regression_test {

using namespace heddle;
using namespace heddle::test;
using sweep::Expected;
using sweep::ExpectedRun;
using sweep::Verdict;

TEST_CASE("figures are judged within their tolerances", "[sweep][RGR-01]") {
  const ExpectedRun expected{0, {{"sim.time", 100}, {"gpu0.faults", 0}, {"figure latency", 300}}};
  const std::vector<sweep::Tolerance> tolerances = {{"sim.*", 1, true}, {"figure latency", 5, false}};
  const auto problems = [&](ExpectedRun actual) {
    return sweep::judge("x", actual, expected, tolerances, "").problems;
  };
  using Figures = std::map<std::string, double>;
  CHECK(problems({0, expected.figures}).empty());
  CHECK(problems({0, Figures{{"sim.time", 101}, {"gpu0.faults", 0}, {"figure latency", 295}}}).empty());
  CHECK(problems({0, Figures{{"sim.time", 101.1}, {"gpu0.faults", 0}, {"figure latency", 300}}}) ==
        std::vector<std::string>{"sim.time is 101.1, and 100 was expected (+1.1 %)"});
  CHECK(problems({0, Figures{{"sim.time", 100}, {"gpu0.faults", 1}, {"figure latency", 306}}}).size() == 2);
  CHECK(problems({0, Figures{{"sim.time", 100}, {"gpu0.faults", 0}}}) ==
        std::vector<std::string>{"figure latency is expected to be 300, and there is none"});
}

TEST_CASE("a status is expected as it is, and a run without figures is an error", "[sweep][RGR-01]") {
  const Verdict stuck = sweep::judge("x", {3, {}}, ExpectedRun{3, {}}, {}, "no progress");
  CHECK(stuck.ok);
  const Verdict wrong = sweep::judge("x", {2, {}}, std::nullopt, {}, "x.yaml:3: wrong");
  CHECK_FALSE(wrong.ok);
  CHECK(wrong.error);
  CHECK(wrong.problems[0] == "it ended with status 2, and 0 was expected: x.yaml:3: wrong");
  const Verdict failed = sweep::judge("x", {1, {}}, std::nullopt, {}, "FAILED: a = 1");
  CHECK_FALSE(failed.ok);
  CHECK_FALSE(failed.error);
  CHECK(sweep::judge("x", {0, {{"sim.time", 5}}}, std::nullopt, {}, "").ok);
}

TEST_CASE("what is expected is read as it was written", "[sweep][RGR-02]") {
  const TempDir folder;
  Expected expected = sweep::default_expected();
  expected.tolerances = {{"sim.time", 0.5, true}, {"**", 2, false}};
  expected.runs["a: b.yaml"] = {0, {{"sim.time", 0.1 + 0.2}, {"figure x # y", -1e-300}}};
  expected.runs["null"] = {3, {}};
  sweep::write_expected(expected, folder.file("e.yaml"));
  const std::string first = read_file(folder.file("e.yaml"));
  const Expected back = sweep::read_expected(folder.file("e.yaml"));
  CHECK(back.collect == expected.collect);
  REQUIRE(back.tolerances.size() == 2);
  CHECK(back.tolerances[0].pattern == "sim.time");
  CHECK(back.tolerances[0].limit == 0.5);
  CHECK(back.tolerances[0].percent);
  CHECK_FALSE(back.tolerances[1].percent);
  REQUIRE(back.runs.size() == 2);
  CHECK(back.runs.at("a: b.yaml").figures == expected.runs.at("a: b.yaml").figures);
  CHECK(back.runs.at("null").status == 3);
  sweep::write_expected(back, folder.file("e.yaml"));
  CHECK(read_file(folder.file("e.yaml")) == first);
  const auto wrong = [&](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH(sweep::read_expected(folder.write("w.yaml", text)), Catch::Contains(message));
  };
  wrong("heddle_test: 1\n", "the key \"scenarios\" is missing");
  wrong("heddle_test: 2\nscenarios: {}\n", "w.yaml:1");
  wrong("heddle_test: 1\nscenarios: {a: {status: 9}}\n", "status");
  wrong("heddle_test: 1\nscenarios: {a: {status: 0, figures: {x: y}}}\n", "w.yaml:2");
  wrong("heddle_test: 1\ntolerances: {x: much}\nscenarios: {}\n", "a number or a percentage is expected");
}

TEST_CASE("only what is asked for is collected", "[sweep][RGR-02]") {
  const TempDir folder;
  const sweep::RunResults results(
      results_in(folder, "r", {{"sim.time", 1}, {"gpu0.l2.hits", 2}, {"gpu1.l2.hits", 3}}, {{"latency", 4}}));
  const ExpectedRun actual = sweep::actual_of(0, results, {"gpu*.l2.hits"});
  CHECK(actual.figures ==
        std::map<std::string, double>{{"gpu0.l2.hits", 2}, {"gpu1.l2.hits", 3}, {"figure latency", 4}});
}

TEST_CASE("JUnit's XML has a case per scenario", "[sweep][RGR-03]") {
  Verdict good;
  good.name = "good.yaml";
  good.seconds = 1.5;
  Verdict bad;
  bad.name = "a<b>&\"c\".yaml";
  bad.ok = false;
  bad.problems = {"x < y\x01", "and more"};
  Verdict broken;
  broken.name = "broken.yaml";
  broken.ok = false;
  broken.error = true;
  broken.problems = {"it ended"};
  CHECK(sweep::junit_of("set & suite", {good, bad, broken}) ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
        "<testsuite name=\"set &amp; suite\" tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\" time=\"1.500\">\n"
        "<testcase classname=\"set &amp; suite\" name=\"good.yaml\" time=\"1.500\"/>\n"
        "<testcase classname=\"set &amp; suite\" name=\"a&lt;b&gt;&amp;&quot;c&quot;.yaml\" time=\"0.000\">\n"
        "<failure message=\"x &lt; y \">x &lt; y \nand more</failure>\n</testcase>\n"
        "<testcase classname=\"set &amp; suite\" name=\"broken.yaml\" time=\"0.000\">\n"
        "<error message=\"it ended\">it ended</error>\n</testcase>\n"
        "</testsuite>\n</testsuites>\n");
}

}  // namespace regression_test

// Parameters of scenarios, and what scenarios measure.
#include "scenario/parameters.h"

#include <cmath>
#include <cstring>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/error.h"
#include "common/yaml_util.h"
#include "scenario/figure.h"
#include "scenario/scenario.h"
#include "support/random.h"

namespace scenario_parameters_test {

using namespace heddle;
using namespace heddle::scenario;
using Catch::Contains;

namespace {

YAML::Node applied(const std::string& text, const std::vector<std::string>& settings = {}) {
  YAML::Node root = load_yaml(text, "p.yaml");
  apply_parameters(root, settings, "p.yaml");
  return root;
}

std::string error(const std::string& text, const std::vector<std::string>& settings = {}) {
  try {
    applied(text, settings);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

const std::string kRest = "submit: [{copy: 1, for: 0, stream: a}]\nmemory: [{name: out, bytes: 32}]\n";

Figure figure_of(const std::string& entry) {
  return parse_scenario("heddle: 1\n" + kRest + "figures: [" + entry + "]\n", "f.yaml").figures.at(0);
}

std::string figure_error(const std::string& entry) {
  try {
    figure_of(entry);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::vector<std::uint8_t> bytes_of(const std::vector<std::uint64_t>& values) {
  std::vector<std::uint8_t> bytes(8 * values.size());
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("parameters stand in any value, alone or within text", "[scenario]") {
  const YAML::Node root = applied(R"(
parameters: {n: 4, twice: 2 * n, below: -3}
a: ${n}
b: {c: ["${twice} KiB", "x + ${below}", 7], d: "${n + 1}${n}"}
e: ${below}
)");
  CHECK_FALSE(root["parameters"].IsDefined());
  CHECK(root["a"].as<int>() == 4);
  CHECK(root["b"]["c"][0].Scalar() == "8 KiB");
  CHECK(root["b"]["c"][1].Scalar() == "x + (-3)");
  CHECK(root["b"]["c"][2].Scalar() == "7");
  CHECK(root["b"]["d"].Scalar() == "54");
  CHECK(root["e"].as<int>() == -3);
}

TEST_CASE("parameters that are set change those that are computed from them", "[scenario]") {
  const std::string text = "parameters: {n: 4, twice: 2 * n}\na: ${twice}\n";
  CHECK(applied(text, {"n=10"})["a"].as<int>() == 20);
  CHECK(applied(text, {"twice=3"})["a"].as<int>() == 3);
  CHECK(applied(text, {"n=5", "n=6"})["a"].as<int>() == 12);
  CHECK(applied(text, {"n=3 + 4"})["a"].as<int>() == 14);
  // Without parameters nothing is replaced: text stays text.
  CHECK(applied("a: ${n}\n")["a"].Scalar() == "${n}");
}

TEST_CASE("parts of a file that are used twice are replaced once", "[scenario]") {
  const YAML::Node root = applied("parameters: {n: 2}\na: &part [\"${n}\", \"${n * n}\"]\nb: *part\n");
  CHECK(root["b"][0].as<int>() == 2);
  CHECK(root["b"][1].as<int>() == 4);
}

TEST_CASE("large numbers stay whole", "[scenario]") {
  test::Random random(11);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t value = random.next() >> (11 + random.below(42));
    const YAML::Node root = applied(fmt::format("parameters: {{n: {}}}\na: ${{n}}\n", value));
    REQUIRE(root["a"].Scalar() == fmt::format("{}", value));
  }
}

TEST_CASE("what is wrong with parameters is said with its line", "[scenario]") {
  CHECK_THAT(error("parameters: [1]\na: 1\n"), Contains("p.yaml:1") && Contains("a map is expected"));
  CHECK_THAT(error("parameters: {n: [1]}\n"), Contains("parameter n: a number is expected"));
  CHECK_THAT(error("parameters: {2n: 1}\n"), Contains("cannot be a name"));
  CHECK_THAT(error("parameters: {n: 1 / 0}\n"), Contains("not a finite number"));
  CHECK_THAT(error("parameters: {n: m}\n"), Contains("m"));
  CHECK_THAT(error("parameters: {n: 1}\n\na: ${m}\n"), Contains("p.yaml:3") && Contains("m"));
  CHECK_THAT(error("parameters: {n: 1}\na: 4 ${n\n"), Contains("p.yaml:2") && Contains("the } is missing"));
  CHECK_THAT(error("parameters: {lines: 1}\n", {"line=2"}), Contains("no such parameter") && Contains("lines"));
  CHECK_THAT(error("a: 1\n", {"n=2"}), Contains("--let n") && Contains("no such parameter"));
  CHECK_THAT(error("parameters: {n: 1}\n", {"n"}), Contains("expected NAME=NUMBER"));
  CHECK_THAT(error("parameters: {n: 1}\n", {"=1"}), Contains("expected NAME=NUMBER"));
  CHECK_THAT(error("parameters: {n: 1}\n", {"n="}), Contains("expected NAME=NUMBER"));
}

TEST_CASE("a scenario is read with its parameters", "[scenario]") {
  const std::string text =
      "heddle: 1\nparameters: {n: 3}\nkernels: [{name: k, grid: \"${n}\", block: \"${32 * n}\", cycles: 5}]\n"
      "submit: [{kernel: k, stream: s, repeat: \"${n}\"}]\n";
  CHECK(parse_scenario(text, "s.yaml").workloads[0].ops.size() == 3);
  const Scenario five = parse_scenario(text, "s.yaml", {"n=5"});
  CHECK(five.workloads[0].ops.size() == 5);
  CHECK(five.workloads[0].ops[0].kernel.grid.x == 5);
  CHECK(five.workloads[0].ops[0].kernel.block.x == 160);
  CHECK_THROWS_WITH(parse_scenario(text, "s.yaml", {"n=0"}), Contains("grid"));
}

TEST_CASE("a figure takes elements, sums, extremes and means of memory", "[scenario]") {
  const std::vector<std::uint8_t> bytes = bytes_of({7, 1, 9, 3});
  const auto value = [&](const std::string& how) {
    const Figure figure = figure_of("{name: f, value: 2 * x, of: {x: {memory: out, type: u64, " + how + "}}}");
    return value_of(figure, [&](const FigureInput& input) { return taken(input, bytes); });
  };
  CHECK(value("element: 2") == 18);
  CHECK(value("take: min") == 2);
  CHECK(value("take: max") == 18);
  CHECK(value("take: sum") == 40);
  CHECK(value("take: mean") == 10);
}

TEST_CASE("a figure names statistics and clocks, and what was measured", "[scenario]") {
  const Figure figure = figure_of(
      "{name: rate, unit: TB/s, value: bytes / 1000 * ghz, measured: 3.5, source: somebody, "
      "of: {bytes: {stat: gpu0.x}, ghz: {clock: 0}}}");
  CHECK(figure.unit == "TB/s");
  CHECK(figure.measured == 3.5);
  CHECK(figure.source == "somebody");
  CHECK(figure.inputs.size() == 2);
  const double value = value_of(figure, [](const FigureInput& input) { return input.clock ? 2.0 : 5000.0; });
  CHECK(value == 10);
  CHECK(std::isinf(
      value_of(figure_of("{name: f, value: 1 / x, of: {x: {stat: a}}}"), [](const FigureInput&) { return 0.0; })));
}

TEST_CASE("what is wrong with figures is said", "[scenario]") {
  CHECK_THAT(figure_error("{name: f, value: y, of: {x: {stat: a}}}"), Contains("y"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {memory: ou, element: 0}}}"),
             Contains("there is no memory ou") && Contains("out"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {memory: out, type: u64, element: 4}}}"), Contains("element"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {memory: out, type: u64}}}"), Contains("one of element, take"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {memory: out, element: 0, take: max}}}"),
             Contains("one of element, take"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {stat: a, clock: 0}}}"),
             Contains("one of stat, memory, clock, kernel"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {stat: a, take: max}}}"), Contains("only memory has elements"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {clock: 1}}}"), Contains("clock"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {2x: {clock: 0}}}"), Contains("cannot be a name"));
  CHECK_THAT(figure_error("{name: f, value: x, of: {x: {kernel: k}}}"), Contains("kernel"));
  CHECK_THAT(figure_error("{name: f, value: 1, of: 3}"), Contains("of"));
}

}  // namespace scenario_parameters_test

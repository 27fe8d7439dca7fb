// What scenarios measure, as a run prints it and leaves it behind.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace cli_figures_test {

using namespace heddle::test;

namespace {

constexpr const char* kScenario = R"(heddle: 1
gpu: small
parameters: {ctas: 6}
memory: [{name: out, bytes: "${8 * ctas}"}]
kernels:
  - name: k
    grid: ${ctas}
    block: 32
    program:
      - if: {cond: lane == 0, then: [store: {value: 10 + cta, type: u64, at: out + 8 * cta}]}
submit: [{kernel: k, stream: s}]
figures:
  - {name: last, unit: things, value: x, of: {x: {memory: out, type: u64, take: max}}, measured: 20, source: nobody}
  - {name: time, unit: ns, value: t, of: {t: {kernel: k}}}
  - {name: ctas per GHz, value: n / ghz, of: {n: {stat: gpu0.cwd.ctas_launched}, ghz: {clock: 0}}}
)";

}  // namespace

TEST_CASE("figures are printed beside what was measured, and kept", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const Finished finished = heddle_in(dir, {"run", "s.yaml"});
  INFO(finished.out << finished.err);
  CHECK(finished.status == 0);
  CHECK(contains(finished.out, "15 things; measured on silicon: 20 (-25.0 %)"));
  const nlohmann::json figures = Results(dir.file("heddle-out/s")).document().at("figures");
  REQUIRE(figures.size() == 3);
  CHECK(figures[1].at("value") > 1);
  CHECK(figures[1].at("value") < 5000);
  CHECK(figures[0].at("name") == "last");
  CHECK(figures[0].at("value") == 15);
  CHECK(figures[0].at("measured") == 20);
  CHECK(figures[0].at("source") == "nobody");
  CHECK(figures[2].at("value") == Approx(6));
  CHECK_FALSE(figures[2].contains("measured"));
}

TEST_CASE("a parameter of the scenario is set on the command line", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  CHECK(heddle_in(dir, {"run", "s.yaml", "--let", "ctas=9", "--out", "nine"}).status == 0);
  const Results results(dir.file("nine"));
  CHECK(results.stat("gpu0.cwd.ctas_launched") == 9);
  CHECK(results.document().at("figures")[0].at("value") == 18);
  const Finished unknown = heddle_in(dir, {"run", "s.yaml", "--let", "cta=9"});
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "the scenario has no such parameter"));
}

TEST_CASE("a figure over a statistic that there is not is an error at the end", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", std::string(kScenario) + "  - {name: wrong, value: x, of: {x: {stat: gpu0.cwd.ctas}}}\n");
  const Finished finished = heddle_in(dir, {"run", "s.yaml"});
  CHECK(finished.status == 2);
  CHECK(contains(finished.err, "this run has no statistic 'gpu0.cwd.ctas'"));
}

}  // namespace cli_figures_test

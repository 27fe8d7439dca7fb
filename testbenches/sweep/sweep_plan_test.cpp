// Which points a sweep file means.
#include <algorithm>
#include <cmath>
#include <set>

#include "support/random.h"
#include "sweep/sweep_lab.h"

namespace sweep_plan_test {

using namespace heddle;
using namespace heddle::test;

TEST_CASE("the grid is the product of its axes, the last one fastest", "[sweep][SWP-01]") {
  const TempDir folder;
  const sweep::Sweep sweep = sweep_of(folder, R"(sweep: 1
run: x.yaml
set: {gpu.l2.slices: 80}
options: {timing: fast, seed: 7, no-baseline: true}
axes:
  - {set: gpu.l2.bandwidth, values: [32, 64]}
  - {let: ctas, values: [1, 2, 3]}
)");
  CHECK(texts_of(sweep) == std::vector<std::string>{"bandwidth=32 ctas=1", "bandwidth=32 ctas=2", "bandwidth=32 ctas=3",
                                                    "bandwidth=64 ctas=1", "bandwidth=64 ctas=2",
                                                    "bandwidth=64 ctas=3"});
  const std::vector<sweep::Point> points = plan_of(sweep);
  CHECK(points[4].number == 5);
  CHECK(points[4].arguments == std::vector<std::string>{folder.file("x.yaml"), "--set", "gpu.l2.slices=80", "--timing",
                                                        "fast", "--seed", "7", "--no-baseline", "--set",
                                                        "gpu.l2.bandwidth=64", "--let", "ctas=2"});
  std::set<std::string> folders;
  for (const sweep::Point& point : points) folders.insert(point.folder);
  CHECK(folders.size() == 6);
}

TEST_CASE("a point keeps its folder when an axis gets more values", "[sweep][SWP-05]") {
  const TempDir folder;
  const std::string begin = "sweep: 1\nrun: x.yaml\naxes:\n  - {set: gpu.l2.bandwidth, values: ";
  const std::vector<sweep::Point> before = plan_of(sweep_of(folder, begin + "[32, 64]}\n"));
  const std::vector<sweep::Point> after = plan_of(sweep_of(folder, begin + "[16, 32, 64]}\n"));
  CHECK(before[0].folder == after[1].folder);
  CHECK(before[1].folder == after[2].folder);
  CHECK(after[0].folder != before[0].folder);
}

TEST_CASE("points are left out by an expression over the axes", "[sweep][SWP-01]") {
  const TempDir folder;
  const std::string axes = "sweep: 1\naxes:\n  - {set: a.x, values: [1, 2, 3]}\n  - {set: a.y, values: [1, 2, 3]}\n";
  CHECK(texts_of(sweep_of(folder, axes + "where: x * y <= 3 && x != y\n")) ==
        std::vector<std::string>{"x=1 y=2", "x=1 y=3", "x=2 y=1", "x=3 y=1"});
  CHECK(holds(message_of(folder, axes + "where: x > 5\n"), "s.yaml:5:8: where: it leaves no point"));
  CHECK(holds(message_of(folder, axes + "where: z > 5\n"), "there is no z"));
}

TEST_CASE("ranges have both ends, and as many steps as they say", "[sweep][SWP-02]") {
  const TempDir folder;
  const auto labels = [&](const std::string& axis) {
    std::vector<std::string> result;
    const sweep::Sweep sweep = sweep_of(folder, "sweep: 1\naxes: [{set: a.x, " + axis + "}]\n");
    for (const sweep::AxisValue& value : sweep.axes[0].values) result.push_back(value.label);
    return result;
  };
  using Texts = std::vector<std::string>;
  CHECK(labels("from: 0, to: 1, steps: 5") == Texts{"0", "0.25", "0.5", "0.75", "1"});
  CHECK(labels("from: 8, to: 128, steps: 5, scale: log") == Texts{"8", "16", "32", "64", "128"});
  CHECK(labels("from: 10, to: 0, steps: 3") == Texts{"10", "5", "0"});
  CHECK(labels("from: 0.1, to: 0.3, steps: 3") == Texts{"0.1", "0.2", "0.3"});
  CHECK(labels("from: 1, to: 4, steps: 3, whole: true") == Texts{"1", "3", "4"});  // 2.5 goes up
  CHECK(labels("from: 1, to: 2, steps: 5, whole: true") == Texts{"1", "2"});       // each once
  CHECK(labels("from: 3, to: 3, steps: 1") == Texts{"3"});
}

TEST_CASE("units, lists and labels of values", "[sweep][SWP-02]") {
  const TempDir folder;
  const sweep::Sweep sweep = sweep_of(folder, R"(sweep: 1
axes:
  - {set: [a.bytes, b.bytes], values: [128, 256], unit: KiB}
  - {set: gpu.shape, values: [[18, 18], [16, 16, 16]], labels: [two, three]}
  - {option: no-baseline, values: [true, false]}
)");
  const std::vector<sweep::Point> points = plan_of(sweep);
  CHECK(points[0].arguments == std::vector<std::string>{"--set", "a.bytes=128 KiB", "--set", "b.bytes=128 KiB", "--set",
                                                        "gpu.shape=[18, 18]", "--no-baseline"});
  CHECK(points[7].arguments == std::vector<std::string>{"--set", "a.bytes=256 KiB", "--set", "b.bytes=256 KiB", "--set",
                                                        "gpu.shape=[16, 16, 16]"});
  CHECK(points[7].text(sweep) == "bytes=256 shape=three no-baseline=false");
  CHECK(sweep.numeric_axes() == std::vector<std::string>{"bytes"});
}

TEST_CASE("zipped lists change together, and settings follow from axes", "[sweep][SWP-02]") {
  const TempDir folder;
  const sweep::Sweep sweep = sweep_of(folder, R"(sweep: 1
axes:
  - name: sms
    zip:
      - {set: gpu.shape, values: [[2, 2], [4, 4]]}
      - {let: ctas, values: [4, 8]}
    labels: [4, 8]
derived:
  - {set: gpu.xbar.gpc_bandwidth, value: 64 * sms / 2}
  - {let: third, value: sms / 3, whole: true}
)");
  const std::vector<sweep::Point> points = plan_of(sweep);
  REQUIRE(points.size() == 2);
  CHECK(points[1].arguments == std::vector<std::string>{"--set", "gpu.shape=[4, 4]", "--let", "ctas=8", "--set",
                                                        "gpu.xbar.gpc_bandwidth=256", "--let", "third=3"});
  CHECK(holds(message_of(folder, R"(sweep: 1
axes: [{zip: [{set: a.x, values: [1, 2]}, {set: a.y, values: [1, 2, 3]}]}]
)"),
              "s.yaml:2:62: axis, zip, values: 3 values, and the first list of the axis has 2"));
}

TEST_CASE("samples are different, obey `where`, and follow from their seed", "[sweep][SWP-03]") {
  const TempDir folder;
  const auto text = [](std::uint64_t seed) {
    return fmt::format(R"(sweep: 1
axes:
  - {{set: a.x, from: 1, to: 1000, scale: log}}
  - {{set: a.n, from: 1, to: 64, whole: true}}
  - {{set: a.k, values: [one, two]}}
where: x * n < 5000
samples: {{points: 200, seed: {}}}
)",
                       seed);
  };
  HEDDLE_RANDOM(random);
  const std::uint64_t seed = random.next() % 1000;
  const sweep::Sweep sweep = sweep_of(folder, text(seed));
  const std::vector<sweep::Point> points = plan_of(sweep);
  REQUIRE(points.size() == 200);
  std::set<std::string> keys;
  std::size_t low = 0;
  std::size_t one = 0;
  for (const sweep::Point& point : points) {
    keys.insert(point.key);
    const double x = *point.values[0].number;
    const double n = *point.values[1].number;
    CHECK((x >= 1 && x <= 1000 && n >= 1 && n <= 64 && n == std::round(n) && x * n < 5000));
    low += x < 31.6 ? 1U : 0U;
    one += point.values[2].label == "one" ? 1U : 0U;
  }
  CHECK(keys.size() == 200);
  // Evenly over the logarithm, before `where` takes more of the large ones.
  CHECK(low > 100);
  CHECK((one > 60 && one < 140));
  CHECK(texts_of(sweep) == texts_of(sweep_of(folder, text(seed))));
  CHECK(texts_of(sweep) != texts_of(sweep_of(folder, text(seed + 1))));
}

TEST_CASE("there cannot be more samples than points", "[sweep][SWP-03]") {
  const TempDir folder;
  const std::string text = "sweep: 1\naxes: [{set: a.x, values: [1, 2, 3]}]\nsamples: {points: ";
  CHECK(texts_of(sweep_of(folder, text + "3}\n")).size() == 3);
  CHECK(holds(message_of(folder, text + "4}\n"), "3 different points were found, not 4"));
}

TEST_CASE("what is wrong with a sweep file is told with its place", "[sweep][SWP-01]") {
  const TempDir folder;
  const auto wrong = [&](const std::string& text, const std::string& message) {
    INFO(text);
    const std::string told = message_of(folder, "sweep: 1\n" + text);
    INFO(told);
    CHECK(holds(told, message));
    CHECK(holds(told, "s.yaml:"));
  };
  wrong("axes: []\n", "axes: the list is empty");
  wrong("run: x.yaml\n", "the key \"axes\" is missing");
  wrong("axes: [{set: a.x}]\n", "values are expected, or from and to");
  wrong("axes: [{values: [1]}]\n", "one of set, let, option is expected");
  wrong("axes: [{set: a.x, let: y, values: [1]}]\n", "one of set, let, option is expected");
  wrong("axes: [{set: a.x, values: []}]\n", "values: the list is empty");
  wrong("axes: [{set: a.x, values: [1, 1]}]\n", "the value 1 stands twice");
  wrong("axes: [{set: a.x, values: [a], unit: KiB}]\n", "a number is expected");
  wrong("axes: [{set: a.x, values: [1], labels: [a, b]}]\n", "2 labels for 1 values");
  wrong("axes: [{set: a.x, from: 1, to: 2}]\n", "a range of a grid has steps");
  wrong("axes: [{set: a.x, from: 1}]\n", "a range ends somewhere");
  wrong("axes: [{set: a.x, from: 0, to: 2, steps: 2, scale: log}]\n", "above 0");
  wrong("axes: [{option: pase, values: [asap]}]\n", "did you mean pace");
  wrong("axes: [{option: quiet, values: [true]}]\n", "no option that can be swept");
  wrong("axes: [{option: no-baseline, values: [yes]}]\n", "no-baseline: true or false is expected, not yes");
  wrong("axes: [{option: no-baseline, from: 0, to: 1, steps: 2}]\n", "true and false are no range");
  wrong("axes: [{set: a.x, values: [1]}]\nderived: [{option: no-baseline, value: x}]\n",
        "is true or false, and no number");
  wrong("axes: [{set: a.x, values: [1]}]\noptions: {no-baseline: 1}\n", "true or false is expected, not 1");
  wrong("axes: [{set: a.x, values: [1]}, {set: b.x, values: [1]}]\n", "the table has a column of that name already");
  wrong("axes: [{set: a.status, values: [1]}]\n", "the table has a column of that name already");
  wrong("axes: [{set: a.x, values: [1]}, {set: a.x, name: y, values: [1]}]\n", "swept by another axis too");
  wrong("axes: [{set: a.x, values: [1], lables: [2]}]\n", "did you mean labels");
  wrong("axes: [{name: a b, set: a.x, values: [1]}]\n", "expressions could not name it");
  wrong("run: x.yaml\naxes: [{option: file, values: [y.yaml]}]\n", "an axis names the file of every point");
  wrong("axes: [{set: a.x, values: [1]}]\noptions: {out: x}\n", "no option that points may have");
  wrong("axes: [{set: a.x, values: [1]}]\nlimit: 10\n", "limit");
  wrong("axes: [{set: a.x, values: [1]}]\npage: {x: y}\n", "page: there is no axis \"y\"");
  wrong("axes: [{set: a.x, values: [1]}]\nderived: [{set: a.y, value: 1 / (x - 1)}]\n", "it is not finite at x=1");
  wrong("axes: [{zip: [{set: a.x, values: [1, 1]}], labels: [a, b]}]\n", "run the same");
  wrong("axes: [{set: a.x, from: 1, to: 400, steps: 400}, {set: a.y, from: 1, to: 400, steps: 400}]\n",
        "more than 100000 points");
  CHECK(holds(message_of(folder, "heddle: 1\nsubmit: []\n"), "is a scenario, not a sweep"));
  CHECK(holds(message_of(folder, "sweep: 2\naxes: [{set: a.x, values: [1]}]\n"), "sweep"));
}

}  // namespace sweep_plan_test

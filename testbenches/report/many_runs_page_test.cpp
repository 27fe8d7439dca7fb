// The pages about many runs, of sweeps and of comparisons, as a browser draws them.
#include <nlohmann/json.hpp>

#include "report/page_bench.h"

namespace many_runs_page_test {

using namespace heddle::test;
using Catch::Contains;

namespace {

// 3 x 2 x 2 points; time = 100 / width + 10 rows (+ 1 of the kind "b"), cost = width * rows. Point 3 is bad input,
// point 5 has failed, point 12 has not been run.
json sweep_data() {
  json points = json::array();
  int number = 0;
  for (const int width : {1, 10, 100}) {
    for (const int rows : {1, 2}) {
      for (const char* const kind : {"a", kNasty}) {
        ++number;
        const double time = 100.0 / width + 10.0 * rows + (kind == std::string("a") ? 0 : 1);
        json point = {{"point", number},
                      {"at", {width, rows, kind}},
                      {"values", {time, width * rows, nullptr}},
                      {"status", "done"},
                      {"reason", ""},
                      {"seconds", 1.25},
                      {"folder", "points/0"}};
        if (number == 3)
          point.update({{"status", "bad input"}, {"reason", kNasty}, {"values", {nullptr, nullptr, nullptr}}});
        if (number == 5) point.update({{"status", "failed"}, {"reason", "FAILED: x"}});
        if (number == 7) point["without"] = {{{"figure", "hits"}, {"why", "the run has no statistic hits"}}};
        if (number == 12) {
          point = {{"point", number},
                   {"at", {width, rows, kind}},
                   {"values", {nullptr, nullptr, nullptr}},
                   {"status", "not run"},
                   {"folder", "points/0"}};
        }
        points.push_back(point);
      }
    }
  }
  const json effects = {
      {{"axis", 0},
       {"low", 16.5},
       {"high", 115.5},
       {"share_percent", 87.25},
       {"groups",
        {{{"label", "1"}, {"mean", 115.5}, {"points", 4}}, {{"label", "10"}, {"mean", 25.5}, {"points", 4}}}}}};
  const auto axis = [](const char* name, bool numeric, const json& values) {
    return json{{"name", name},
                {"sets", std::string("--set gpu.") + name},
                {"unit", numeric ? "B" : ""},
                {"numeric", numeric},
                {"log", false},
                {"values", values}};
  };
  return {{"schema", 1},
          {"title", kNasty},
          {"command", "heddle sweep x.yaml"},
          {"description", "What is it for?"},
          {"samples", false},
          {"axes", {axis("width", true, {1, 10, 100}), axis("rows", true, {1, 2}), axis("kind", false, {"a", kNasty})}},
          {"figures",
           {{{"name", "time"}, {"unit", "us"}, {"better", "less"}, {"effects", effects}},
            {{"name", "cost"}, {"unit", ""}, {"better", "less"}, {"effects", json::array()}},
            {{"name", "hits"}, {"unit", ""}, {"better", ""}, {"effects", json::array()}}}},
          {"points", points},
          {"choice", {{"x", "width"}, {"lines", "rows"}, {"figure", "time"}, {"pareto", {"cost", "time"}}}}};
}

std::string plain(std::string text) {
  for (std::size_t at; (at = text.find("&nbsp;")) != std::string::npos;) text.replace(at, 6, " ");
  for (std::size_t at; (at = text.find("\u00a0")) != std::string::npos;) text.replace(at, 2, " ");
  return text;
}

}  // namespace

TEST_CASE("a browser draws the page of a sweep", "[report][browser][SWP-08]") {
  const std::string dom = plain(dom_of(sweep_data(), {}, "sweep.html"));
  if (dom.empty()) return;
  CHECK_THAT(body_tag(dom), Contains("data-ready=\"1\"") && Contains("data-errors=\"0\"") && !Contains("pwned"));
  for (const char* const heading :
       {"Figures over swept values", "Two axes at once", "Two figures against each other", "What moves the figures",
        "Points that did not go well", "Points without a figure", "All points"}) {
    INFO(heading);
    CHECK(count_of(dom, std::string("<h3>") + heading + "</h3>") == 1);
  }
  CHECK_THAT(dom, Contains("What is it for?") && Contains("87.3 %") && Contains("115.5 \u00b5s"));
  // Least time of all that are known: point 9 = 1 + 10.
  CHECK_THAT(dom, Contains("11 \u00b5s</dd>") && Contains("point 9: width 100, rows 1, kind a"));
  CHECK_THAT(dom, Contains("1 not run") && Contains("FAILED: x") && Contains("hits: the run has no statistic hits"));
  CHECK(count_of(dom, "verdict bad\">bad input<") == 2);  // in the failures and in the table of all
  CHECK(count_of(dom, "verdict bad\">failed<") == 3);     // and on the front: it has come to its end
}

TEST_CASE("the heat map has a cell for two values, and says what a hole is", "[report][browser][SWP-08]") {
  const std::string dom = dom_of(sweep_data(), R"(<script>
    const cells = () => [...document.querySelectorAll(".heat-table tbody tr")].map((row) => [...row.querySelectorAll("td")].map((cell) =>
      cell.textContent + (cell.className === "best" ? "*" : "")).join(",")).join(";");
    const pick = (label, text, within = document) => {
      const select = [...within.querySelectorAll("#heat .choice")].find((one) => one.textContent.startsWith(label)).querySelector("select");
      select.selectedIndex = [...select.options].findIndex((option) => option.textContent.startsWith(text));
      select.dispatchEvent(new Event("change"));
    };
    const seen = { held: cells() };
    pick("kind", "mean of all");
    seen.mean = cells();
    pick("Figure", "cost");
    seen.cost = cells();
    document.body.dataset.errors = String(heddle.errors.length);
    document.body.dataset.seen = Object.entries(seen).map(([key, value]) => key + "=" + value).join(" ");
  </script>)",
                                 "sweep.html");
  if (dom.empty()) return;
  const std::string body = body_tag(dom);
  INFO(body);
  CHECK_THAT(body, Contains("data-errors=\"0\""));
  // Rows are the axis `rows`, columns `width`; with the kind "a" held, then over both.
  CHECK_THAT(body, Contains("held=110,20,11*;bad input,30,21 "));
  CHECK_THAT(body, Contains("mean=110.5,20.5,11.5*;121,30.5,21 "));
  CHECK_THAT(body, Contains("cost=1*,10,100;2,20,200"));
}

TEST_CASE("the Pareto front has what nothing beats, in every direction", "[report][browser][SWP-10]") {
  const std::string dom = dom_of(sweep_data(), R"(<script>
    let state = 12345;
    const random = (n) => { state = (state * 1103515245 + 12345) % 2147483648; return Math.floor(state / 65536) % n; };
    let wrong = 0;
    for (let round = 0; round < 400; ++round) {
      const points = Array.from({ length: 1 + random(30) }, () => [random(8), random(8)]);
      const [firstLess, secondLess] = [random(2) === 0, random(2) === 0];
      const better = (a, b, less) => (less ? a < b : a > b);
      const beaten = (p) => points.some((q) => !better(p[0], q[0], firstLess) && !better(p[1], q[1], secondLess)
        && (better(q[0], p[0], firstLess) || better(q[1], p[1], secondLess)));
      const expected = points.filter((p) => !beaten(p)).map(String).sort().join(" ");
      const front = heddle.paretoFront(points, (p) => p[0], (p) => p[1], firstLess, secondLess).map(String).sort().join(" ");
      if (front !== expected) ++wrong;
    }
    const listed = [...document.querySelectorAll("#pareto tbody tr")].map((row) => row.firstChild.textContent).join();
    document.body.dataset.errors = String(heddle.errors.length);
    document.body.dataset.seen = "wrong=" + wrong + " listed=" + listed + ";";
  </script>)",
                                 "sweep.html");
  if (dom.empty()) return;
  INFO(body_tag(dom));
  // Cost and time of rows 1 and kind "a": (1, 110), (10, 20), (100, 11); all others are dearer or slower.
  CHECK_THAT(body_tag(dom), Contains("data-errors=\"0\"") && Contains("wrong=0 listed=1,5,9;"));
}

TEST_CASE("tables of many runs are sorted, and shortened until asked", "[report][browser][SWP-08]") {
  json data = sweep_data();
  for (int i = 13; i <= 300; ++i) {
    json point = data["points"][0];
    point["point"] = i;
    data["points"].push_back(point);
  }
  const std::string dom = dom_of(data, R"(<script>
    const rows = () => [...document.querySelectorAll("#points tbody tr")];
    const seen = { first: rows().length };
    document.querySelector("#points .all-rows button").click();
    seen.all = rows().length;
    const head = (text) => [...document.querySelectorAll("#points thead button")].find((one) => one.textContent.startsWith(text));
    head("time").click();
    seen.longest = rows()[0].firstChild.textContent;
    seen.last = rows()[rows().length - 1].children[4].textContent;
    head("time").click();
    seen.shortest = rows()[0].firstChild.textContent;
    document.body.dataset.errors = String(heddle.errors.length);
    document.body.dataset.seen = Object.entries(seen).map(([key, value]) => key + "=" + value).join(" ") + ";";
  </script>)",
                                 "sweep.html");
  if (dom.empty()) return;
  INFO(body_tag(dom));
  CHECK_THAT(body_tag(dom),
             Contains("data-errors=\"0\"") && Contains("first=200 all=300 longest=4 last=\u2013 shortest=9;"));
}

TEST_CASE("a sweep without points, figures or a grid is drawn as far as it goes", "[report][browser]") {
  for (const char* const part : {"points", "figures", "axes", "choice"}) {
    INFO(part);
    json data = sweep_data();
    data[part] = json::array();
    if (part == std::string("axes")) {
      for (json& point : data["points"]) point["at"] = json::array();
      for (json& figure : data["figures"]) figure["effects"] = json::array();
    }
    const std::string dom = dom_of(data, {}, "sweep.html");
    if (dom.empty()) return;
    CHECK_THAT(body_tag(dom), Contains("data-ready=\"1\"") && Contains("data-errors=\"0\""));
  }
  json samples = sweep_data();
  samples["samples"] = true;
  const std::string dom = dom_of(samples, {}, "sweep.html");
  CHECK_THAT(body_tag(dom), Contains("data-errors=\"0\""));
  CHECK_THAT(dom, Contains("One mark per point.") && !Contains("<h3>Two axes at once"));
}

TEST_CASE("a browser draws runs side by side", "[report][browser][CMP-02]") {
  const json data = {
      {"title", "Comparison of runs"},
      {"equal_stats", 11000},
      {"stats_left_out", 0},
      {"runs",
       {{{"name", kNasty}, {"command", "heddle run x"}, {"complete", true}},
        {{"name", "b"}, {"command", ""}, {"complete", false}}}},
      {"settings", {{{"path", "gpu0.l2.bandwidth"}, {"values", {"64", nullptr}}}}},
      {"figures", {{{"name", "latency"}, {"unit", "ns"}, {"values", {300, 330}}}}},
      {"headline", {{{"name", "sim.time"}, {"unit", "us"}, {"values", {12.5, 12.5}}}}},
      {"stats", {{{"name", "only.b"}, {"unit", ""}, {"values", {nullptr, 4}}}}},
      {"kernels", {{{"name", kNasty}, {"unit", "us"}, {"values", {10, 5}}, {"launches", {3, 2}}}}},
      {"thresholds",
       {{{"text", "sim.time>1%"}, {"name", "sim.time"}, {"run", 1}, {"ok", false}, {"first", 12.5}, {"value", 13}},
        {{"text", "x>1"}, {"name", "x"}, {"run", 1}, {"ok", true}, {"first", 1}, {"value", 1}}}}};
  const std::string dom = plain(dom_of(data, {}, "compare.html"));
  if (dom.empty()) return;
  CHECK_THAT(body_tag(dom), Contains("data-ready=\"1\"") && Contains("data-errors=\"0\"") && !Contains("pwned"));
  CHECK_THAT(dom, Contains("1 figure beyond a limit"));
  CHECK_THAT(dom, Contains("sim.time&gt;1%: sim.time is 13 in run 2, and 12.5 in run 1"));
  CHECK_THAT(dom, Contains("11,000 are equal") && Contains("has not come to its end") && Contains("+10.0 %") &&
                      Contains("\u221250.0 %") && Contains("no ratio") && Contains(">3 / 2<"));
  const std::string empty = dom_of(json::object(), {}, "compare.html");
  CHECK_THAT(body_tag(empty), Contains("data-errors=\"0\""));
}

}  // namespace many_runs_page_test

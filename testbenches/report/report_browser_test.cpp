// The report page as a browser draws it.
#include <nlohmann/json.hpp>

#include "report/page_bench.h"

namespace report_browser_test {

using namespace heddle::test;
using Catch::Contains;

TEST_CASE("a browser draws every section", "[report][browser]") {
  const std::string dom = dom_of(full_data());
  if (dom.empty()) return;
  CHECK_THAT(body_tag(dom), Contains("data-ready=\"1\"") && Contains("data-errors=\"0\"") && !Contains("pwned"));
  for (const char* const heading : {"How to read this page",
                                    "End to end",
                                    "Not reproduced",
                                    "Faults",
                                    "Occupancy over time",
                                    "Why SMs were idle",
                                    "What limits each kernel",
                                    "Roofline",
                                    "Where warps waited",
                                    "Memory",
                                    "How warps spent their time",
                                    "Instructions by unit",
                                    "Tensor memory access",
                                    "Clusters",
                                    "Where the CGAs ran",
                                    "Launch skew",
                                    "Wait at the cluster barrier",
                                    "Traffic between SMs",
                                    "Load of the SMs over time",
                                    "Kernels by stream",
                                    "Processes",
                                    "Where the time of a kernel goes",
                                    "Kernels by time",
                                    "Recorded against modelled duration",
                                    "Launch latency",
                                    "Streams",
                                    "Kernels launched by programs",
                                    "All kernels",
                                    "Summary",
                                    "Expectations",
                                    "Parameters that differ from their defaults"}) {
    INFO(heading);
    CHECK((count_of(dom, std::string("<h3>") + heading) == 1 || count_of(dom, std::string("<h2>") + heading) == 1));
  }
  CHECK_THAT(dom, Contains("2 warnings") && Contains("1 of 2 expectations failed"));
  CHECK_THAT(dom,
             Contains(">elementwise_kernel</span><span>&lt;AddFunctor&gt;<") && Contains("<span>&lt;MulFunctor&gt;<"));
  CHECK_THAT(dom, Contains("Page 1 of 3"));
  CHECK_THAT(dom, Contains("<strong>No progress: </strong>no event is left") &&
                      Contains("<li>the cause: b waits: for c</li><li>a waits: for b</li>"));
  CHECK_THAT(dom, Contains(">2,048<") && Contains("3 faulted, 5 not ended") && Contains(">777<") && Contains(">613<"));
  CHECK_THAT(dom,
             Contains("15.5&nbsp;\xC2\xB5s") && Contains("31.5&nbsp;\xC2\xB5s") && Contains("47.5&nbsp;\xC2\xB5s"));
  CHECK_THAT(dom, Contains("2 faults that the scenario does not expect") && Contains("<code>0x1000</code>"));
  CHECK(count_of(dom, ">not expected<") == 2);
  CHECK(count_of(dom, ">expected<") == 1);
  CHECK_THAT(dom, Contains(">3\u00a0MiB<") || Contains(">3&nbsp;MiB<"));
  CHECK_THAT(dom, Contains("12.6&nbsp;TB/s") && Contains("87.5&nbsp;%") && Contains(">524,288<"));
  CHECK_THAT(dom, Contains("61.3&nbsp;%") && Contains("3.08&nbsp;ms") && Contains("4 more are in stats.json"));
  CHECK_THAT(dom, Contains("partition 62.5&nbsp;%, launch overhead 37.5&nbsp;%"));
  CHECK_THAT(dom, Contains("400 warp instructions"));
  CHECK_THAT(dom, Contains(">4,096<") && Contains("64&nbsp;KiB") && Contains("3 in error"));
  CHECK_THAT(dom, Contains("96&nbsp;KiB") && Contains("50.5&nbsp;%") && Contains(">9.25<"));
  CHECK_THAT(dom, Contains("83.3&nbsp;%") && Contains("41.5&nbsp;%") && Contains("7 more rows are in stats.json"));
  CHECK_THAT(dom, Contains("Fairness 0.877") && Contains("71.3&nbsp;%") && Contains(" 2 not ended"));
  CHECK_THAT(dom, Contains(">no TPC credit<") && Contains("33.5&nbsp;\xC2\xB5s") &&
                      Contains("1 task still waiting at the end"));
  CHECK_THAT(dom, Contains(">3&nbsp;KiB<") && Contains("87.5&nbsp;%") &&
                      Contains(">\xE2\x88\x92"
                               "1<"));
  CHECK(count_of(dom, ">subcontext 0<") == 1);  // of bytes alone
  // Of 3.515 us per launch, one scale for all rows; eight parts each, and once for all kernels.
  CHECK_THAT(dom, Contains("60 launches in 20 packets") && Contains("9 launches in 3 packets"));
  CHECK_THAT(dom, Contains("8.79&nbsp;\xC2\xB5s<small> per launch") && Contains("56.9&nbsp;%"));
  CHECK(count_of(dom, "class=\"stack\"") == 4);
  CHECK_THAT(dom, Contains("what clean_up is") && Contains(">clean-up<"));
  CHECK_THAT(dom, Contains("1 more CGA, not all of whose CTAs ended") && Contains("All 3 CGAs: one row per SM"));
  CHECK_THAT(dom, Contains("22.5&nbsp;cycles") && Contains(">2.00&nbsp;\xC2\xB5s<") && Contains(">1.50<"));
  CHECK_THAT(dom, Contains("3.09&nbsp;KiB in all") && Contains("3&nbsp;KiB from one SM to another"));
  CHECK(count_of(dom, "<figure") == 1);  // gpc1 has no traffic
  CHECK(count_of(dom, ">gpc1</button>") == 1);
  CHECK_THAT(dom,
             Contains("tensor cores (64.5&nbsp;%)") && Contains("crossbar (33.5&nbsp;%), issue slots (22.5&nbsp;%)"));
  CHECK_THAT(dom, Contains("5 more kernels by name") && Contains("5&nbsp;KiB written to it"));
  CHECK_THAT(dom, Contains("990&nbsp;TFLOP/s") && Contains("3.35&nbsp;TB/s of device memory"));
  CHECK_THAT(dom,
             Contains("1 kernel without tensor operations as of f16 or without bytes of device memory has no mark"));
  CHECK_THAT(dom, Contains("<code>load x (line 12)</code>") && Contains("memory 75.0&nbsp;%, bulk queue 25.0&nbsp;%") &&
                      Contains("6 more steps in stalls.csv"));
  CHECK_THAT(dom, Contains(">gpc3.tmau1<") && Contains("76&nbsp;KiB") && Contains("2 more units with fewer bytes"));
  // Five plots and their scale of colours; a roofline; three of clusters, a matrix and its scale.
  CHECK(count_of(dom, "<canvas") == 12);
}

TEST_CASE("a browser leaves out what has no data", "[report][browser]") {
  const std::string empty = dom_of(json::object());
  if (empty.empty()) return;
  CHECK_THAT(body_tag(empty), Contains("data-ready=\"1\"") && Contains("data-errors=\"0\""));
  CHECK_THAT(empty, Contains("There is nothing to plot") && !Contains("<canvas"));

  const std::string sparse = dom_of(sparse_data());
  CHECK_THAT(body_tag(sparse), Contains("data-ready=\"1\"") && Contains("data-errors=\"0\""));
  CHECK_THAT(sparse, !Contains("could not be drawn") && !Contains("<h3>Recorded against") && !Contains("<h3>Summary"));
  CHECK(count_of(sparse, "<h3>Launch latency") == 2);
  CHECK(count_of(sparse, "<h3>Memory") == 2);
  CHECK(count_of(sparse, "<h3>Clusters") == 1);
  CHECK(count_of(sparse, "<h3>Where the CGAs ran") == 1);
  CHECK_THAT(sparse, !Contains("<h3>Launch skew") && !Contains("<h3>Wait at the cluster") && !Contains("<h3>Traffic"));
  CHECK(count_of(sparse, "None of their kernels has ended") == 2);
  CHECK(count_of(sparse, "<h3>Faults") == 1);
  CHECK_THAT(sparse, !Contains("that the scenario does not expect") && !Contains("<h3>Instructions by unit"));
  CHECK(count_of(sparse, "<h3>All kernels") == 1);
  CHECK(count_of(sparse, "<h3>Where the time of a kernel goes") == 1);
}

TEST_CASE("a part that cannot be drawn says so and leaves the others be", "[report][browser]") {
  json data = full_data();
  data["parameters"] = {nullptr};
  const std::string dom = dom_of(data);
  if (dom.empty()) return;
  CHECK_THAT(body_tag(dom), Contains("data-ready=\"1\"") && Contains("data-errors=\"1\""));
  CHECK_THAT(dom, Contains("This part could not be drawn") && Contains("Page 1 of 3"));
}

TEST_CASE("sorting, filtering, zooming and printing work in a browser", "[report][browser]") {
  const std::string dom = dom_of(full_data(), R"(<script>
    const press = (selector, n = 0) => document.querySelectorAll(selector)[n].click();
    const firstRow = () => [...document.querySelector(".kernel-table tbody tr").children].map((cell) => cell.textContent);
    const seen = {};
    const titles = [...document.querySelectorAll(".kernel-table thead button")].map((button) => button.firstChild.textContent);
    press(".kernel-table thead button", titles.indexOf("Recorded"));
    seen.longest = firstRow()[titles.indexOf("Recorded")];
    press(".kernel-table thead button", titles.indexOf("Recorded"));
    seen.shortest = firstRow()[titles.indexOf("Recorded")];
    press(".pager button", 1);
    seen.page = document.querySelector(".pager span").textContent;
    const search = document.querySelector(".tools input");
    search.value = "mulfunctor";
    search.dispatchEvent(new Event("input"));
    seen.filtered = document.querySelector(".counted").textContent;
    search.value = "nothing has this name";
    search.dispatchEvent(new Event("input"));
    seen.none = document.querySelector(".none").textContent;
    press(".toolbar button", 2);
    const timeline = document.querySelector(".plot.timeline");
    const place = timeline.getBoundingClientRect();
    for (const type of ["pointermove", "pointerdown", "pointerup"])
      timeline.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: place.left + 200, clientY: place.top + 20 }));
    timeline.dispatchEvent(new WheelEvent("wheel", { ctrlKey: true, deltaY: -100, clientX: place.left + 200, bubbles: true, cancelable: true }));
    setTimeout(() => {
      seen.shown = document.querySelector(".shown").textContent.startsWith("Showing all") ? "all" : "part";
      window.dispatchEvent(new Event("beforeprint"));
      window.dispatchEvent(new Event("afterprint"));
      document.body.dataset.errors = String(heddle.errors.length);
      document.body.dataset.seen = Object.entries(seen).map(([key, value]) => key + "=" + value).join(";");
    }, 300);
  </script>)");
  if (dom.empty()) return;
  const std::string body = body_tag(dom);
  CHECK_THAT(body, Contains("data-errors=\"0\""));
  CHECK_THAT(body, Contains("longest=17.00") && Contains("shortest=1.00") && Contains("page=Page 2 of 3"));
  CHECK_THAT(body, Contains("filtered=40 of 120 kernels") && Contains("none=No kernel matches"));
  CHECK_THAT(body, Contains("shown=part"));
}

TEST_CASE("the bars of packets say more under the pointer", "[report][browser][PKT-08]") {
  const std::string dom = dom_of(full_data(), R"(<script>
    const bars = [...document.querySelectorAll(".stack")];
    const widths = bars.map((bar) => [...bar.children].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0)
      / bar.getBoundingClientRect().width);
    const place = bars[1].getBoundingClientRect();
    bars[1].dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: place.left + 5, clientY: place.top + 5 }));
    const seen = { widths: widths.map((width) => width.toFixed(2)).join(), text: document.getElementById("tooltip").textContent };
    document.body.dataset.errors = String(heddle.errors.length);
    document.body.dataset.seen = Object.entries(seen).map(([key, value]) => key + "=" + value + ";").join("");
  </script>)");
  if (dom.empty()) return;
  const std::string body = body_tag(dom);
  CHECK_THAT(body, Contains("data-errors=\"0\""));
  CHECK_THAT(body, Contains("widths=0.40,1.00,0.20,1.00;"));
  CHECK_THAT(body, Contains("Sweep, mean of a launch") && Contains("execution5.00") && Contains("(56.9"));
}

TEST_CASE("clusters say more under the pointer, GPC by GPC", "[report][browser]") {
  const std::string dom = dom_of(full_data(), R"(<script>
    const plot = document.querySelector(".plot.places");
    const seen = {};
    const text = () => (document.getElementById("tooltip").hidden ? "none" : document.getElementById("tooltip").textContent);
    const over = (element, x, y) => {
      const place = element.getBoundingClientRect();
      element.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: place.left + x, clientY: place.top + y }));
      return text();
    };
    const middle = plot.clientWidth / 2;
    seen.first = over(plot, middle, 14);   // the row of SM 0
    seen.shared = over(plot, middle, 34);  // the first lane of SM 2
    seen.beside = over(plot, plot.clientWidth - 20, 34);
    const tall = plot.clientHeight;
    [...document.querySelectorAll(".chooser button")].find((button) => button.textContent === "gpc1").click();
    seen.shorter = String(plot.clientHeight < tall);
    seen.other = over(plot, plot.clientWidth - 20, 14);
    seen.pressed = [...document.querySelectorAll(".chooser [aria-pressed=true]")].map((button) => button.textContent).join();
    const map = document.querySelector(".heat canvas");
    seen.cell = over(map, 34 + 30, 30 + 10);
    seen.corner = over(map, 3, 3);
    document.body.dataset.errors = String(heddle.errors.length);
    document.body.dataset.seen = Object.entries(seen).map(([key, value]) => key + "=" + value + ";").join("");
  </script>)");
  if (dom.empty()) return;
  std::string body = body_tag(dom);
  for (std::size_t at; (at = body.find("&nbsp;")) != std::string::npos;) body.replace(at, 6, " ");
  INFO(body);
  CHECK_THAT(body, Contains("data-errors=\"0\""));
  const auto part = [&body](const std::string& key) {
    const std::size_t begin = body.find(key + "=");
    REQUIRE(begin != std::string::npos);
    return body.substr(begin, body.find(';', begin) - begin);
  };
  CHECK_THAT(part("first"), Contains("CGA 0") && Contains("rank 0 of 2") && Contains("0 (gpc0.cpc0.tpc0.sm0)") &&
                                Contains("Cycles4,000") && Contains("20 cycles") && Contains("351 cycles"));
  CHECK_THAT(part("shared"), Contains("CGA 0") && Contains("rank 1 of 2"));
  CHECK(part("beside") == "beside=none");
  CHECK(part("shorter") == "shorter=true");
  CHECK_THAT(part("other"), Contains("CGA 2") && Contains("the run's end") && Contains("1 of 2"));
  CHECK(part("pressed") == "pressed=gpc1");
  CHECK_THAT(part("cell"), Contains("SM 0 to SM 2") && Contains("3,072 B"));
  CHECK(part("corner") == "corner=none");
}

}  // namespace report_browser_test

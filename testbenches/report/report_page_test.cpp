// report.html: what is written, and that a browser draws it without an error.
#include "report/report_page.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <unistd.h>  // getpid
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"

namespace fs = std::filesystem;
using Catch::Contains;
using heddle::InputError;
using heddle::report::report_html;
using heddle::report::write_report;
using nlohmann::json;

namespace {

class TempDir {
 public:
  TempDir() {
    const std::string stem = "heddle-report-" + std::to_string(getpid()) + "-";
    for (int n = 0; path_.empty(); ++n) {
      const fs::path candidate = fs::temp_directory_path() / (stem + std::to_string(n));
      if (fs::create_directory(candidate)) path_ = candidate;
    }
  }
  ~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

// The text of the data element, found the way a browser finds it: up to the first "</script".
std::string embedded_json(const std::string& page) {
  const std::string_view open = R"(id="heddle-data">)";
  const std::size_t begin = page.find(open);
  REQUIRE(begin != std::string::npos);
  const std::size_t end = page.find("</script", begin);
  REQUIRE(end != std::string::npos);
  return page.substr(begin + open.size(), end - begin - open.size());
}

constexpr const char* kNasty =
    "void evil<\"quotes\", 'single', a&b>(</script><script>document.body.dataset.pwned=1</script><!-- <script> ]]> "
    "@@data@@ @@file page.css@@ \\u003c \xE2\x80\xA8 \xE2\x80\xA9 \xC3\xA9\xE6\xBC\xA2\xF0\x9F\xA7\xB5)";

json kernel(const std::string& name, int index, double recorded) {
  return {{"name", name},
          {"stream", std::to_string(7 + index % 3)},
          {"grid", {132, 2, 1}},
          {"block", {128, 1, 1}},
          {"ctas", 264},
          {"start_us", 12.0 * index},
          {"us", 1.02 * recorded},
          {"wait_us", 0.5},
          {"recorded_start_us", 12.0 * index},
          {"recorded_us", recorded},
          {"baseline_us", 1.1 * recorded},
          {"occupancy_percent", 43.5},
          {"overlaps", false},
          {"match", index % 5 == 0 ? "launch bound" : "ok"}};
}

json level(const std::string& name, double bytes, const json& hit) {
  return {{"name", name},
          {"what", "reads of all SMs"},
          {"bytes", bytes},
          {"gb_per_s", bytes / 1e3},
          {"peak_gb_per_s", bytes / 250},
          {"share_percent", 25.0},
          {"hit_percent", hit}};
}

json memory() {
  return {{"us", 12.5},
          {"levels", {level("L1", 3.0 * (1 << 20), 87.5), level("Device memory", 2048, nullptr)}},
          {"counts", {{{"label", "Requests to the L2"}, {"count", 524288}, {"note", "of 128 bytes"}}}},
          {"instructions", {{{"label", "fp32"}, {"count", 300}}, {{"label", "memory"}, {"count", 100}}}},
          {"warp_time",
           {{{"label", "at a barrier"}, {"cycles", 750}, {"share_percent", 75.0}},
            {{"label", "issuing"}, {"cycles", 250}, {"share_percent", 25.0}}}}};
}

json cga(int gpc, int number, const json& ctas) {
  return {{"row", 0},    {"operation", 4},     {"cga", number}, {"gpc", gpc}, {"skew", 20 + 5 * number},
          {"phases", 2}, {"mean_wait", 350.5}, {"ctas", ctas}};
}

// Two CGAs on gpc0, of which the second shares SMs with the first, and one on gpc1 that did not come to its end.
json clusters() {
  const json totals = {{"kernel", kNasty},    {"size", 2},       {"warps", 4},        {"cgas", 2},
                       {"unfinished", 1},     {"mean_sms", 1.5}, {"mean_skew", 22.5}, {"max_skew", 25},
                       {"mean_cycles", 4000}, {"phases", 4},     {"mean_wait", 350.5}};
  const json first = {cga(0, 0, {{0, 0, 1000, 5000}, {1, 2, 1020, 5100}}),
                      cga(0, 1, {{1, 2, 2000, 6000}, {0, 2, 2025, 6000}}), cga(1, 2, {{0, 1, 3000, nullptr}})};
  return {{"cycle_us", 0.0005},
          {"totals", {totals}},
          {"first", first},
          {"gpcs",
           {{{"sms", {0, 2}}, {"paths", {"gpc0.cpc0.tpc0.sm0", "gpc0.cpc0.tpc0.sm1"}}, {"bytes", {{0, 3072}, {96, 0}}}},
            {{"sms", {1, 3}}, {"paths", {"gpc1.cpc0.tpc0.sm0", "gpc1.cpc0.tpc0.sm1"}}}}}};
}

json fault(bool expected) {
  return {{"kernel", expected ? "careful" : kNasty},
          {"sm", 3},
          {"cta", 17},
          {"warp", 2},
          {"lane", 5},
          {"step", "store (line 12)"},
          {"address", expected ? json() : json("0x1000")},
          {"what", "address outside memory"},
          {"us", 1.25},
          {"expected", expected}};
}

// Every section has data; 120 kernels make three pages of the table.
json full_data() {
  json gpu = {
      {"name", "gpu0"},
      {"preset", "h100-sxm"},
      {"device", "NVIDIA H100 80GB HBM3"},
      {"sms", 4},
      {"gpcs", {2, 2}},
      {"clock_ghz", 1.755},
      {"pace", "recorded"},
      {"occupancy", {{"bin_us", 500.0}, {"warps_percent", {10, 50.5, 100}}, {"sms_busy_percent", {25, 75, 100}}}},
      {"load_map",
       {{"bin_us", 500.0},
        {"sms", {"gpc0.cpc0.tpc0.sm0", "gpc0.cpc0.tpc0.sm1", "gpc1.cpc0.tpc0.sm0", "gpc1.cpc0.tpc0.sm1"}},
        {"percent", {{0, 50, 100}, {1, 51, 99}, {2, 52, 98}, {3, 53, 97}}}}},
      {"launch_latency",
       {{"unit", "us"},
        {"edges", {0.5, 1.0, 2.0, 4.0}},
        {"counts", {3, 90, 27}},
        {"p50", 1.4},
        {"p95", 3.1},
        {"max", 3.9},
        {"what", "from a task's submission to its first CTA on an SM"}}},
      {"memory", memory()},
      {"clusters", clusters()},
      {"faults", {fault(true), fault(false), fault(false)}},
      {"copies", {{{"name", "Memcpy HtoD"}, {"stream", "13"}, {"start_us", 3.0}, {"us", 8.0}}}},
      {"unmatched",
       {{{"reason", "overlaps other kernels"}, {"kernels", 24}, {"time_us", 240.0}, {"share_percent", 20.0}}}},
      {"spans", {{{"label", "recorded"}, {"us", 1450.0}}, {{"label", "modelled, this machine"}, {"us", 1400.0}}}}};
  for (int i = 0; i < 120; ++i) {
    std::string name = kNasty;
    if (i % 3 == 1) name = "void at::native::elementwise_kernel<128, 4, at::native::AddFunctor<float> >(int)";
    if (i % 3 == 2) name = "void at::native::elementwise_kernel<128, 4, at::native::MulFunctor<float> >(int)";
    gpu["kernels"].push_back(kernel(name, i, 1.0 + i % 17));
  }
  return {{"schema", 1},
          {"title", "a <b>bold</b> & \"quoted\" title"},
          {"command", "heddle run 'x.json.gz' --set gpu.a=<1>"},
          {"gpus", {gpu}},
          {"summary", {{{"label", "Kernels"}, {"value", "120"}, {"note", "all of them"}}}},
          {"highlights", {{{"label", "End-to-end"}, {"value", "1.4 ms"}, {"note", "recorded 1.45 ms"}}}},
          {"parameters",
           {{{"path", "gpu0.cwd.session_cycles"},
             {"value", "12"},
             {"unit", "cycles"},
             {"origin", "--set"},
             {"source", "assumption"}}}},
          {"warnings", {"first warning", "second warning"}},
          {"expectations",
           {{{"text", "gpu0.cwd.ctas_launched equals 512"}, {"ok", true}, {"actual", "512"}},
            {{"text", "gpu0.cwd.stalls is below 3"}, {"ok", false}, {"actual", "4"}}}}};
}

// Much is null, empty or missing.
json sparse_data() {
  json latency = {{"unit", "us"}, {"edges", {1, 2}}, {"counts", {1, 2}}, {"p50", nullptr}};
  json kernels = {{{"name", "k"}, {"start_us", 0.0}, {"us", 5.0}, {"recorded_us", nullptr}, {"baseline_us", nullptr}},
                  {{"name", ""}},
                  {{"name", "k"}, {"us", nullptr}, {"start_us", nullptr}}};
  return {
      {"title", "sparse"},
      {"gpus",
       {{{"name", "gpu0"}, {"pace", nullptr}},
        {{"name", "gpu1"},
         {"occupancy", {{"bin_us", 1.0}, {"warps_percent", {1, nullptr, 3}}}},
         {"load_map", {{"bin_us", 1.0}, {"sms", json::array()}, {"percent", {{0, nullptr}, json::array()}}}},
         {"launch_latency", latency},
         {"kernels", kernels}},
        {{"memory",
          {{"us", nullptr},
           {"levels", {{{"name", "L1"}, {"bytes", 0}, {"gb_per_s", nullptr}, {"share_percent", nullptr}}}},
           {"counts", {{{"label", "x"}, {"count", nullptr}}}}}},
         {"faults", {{{"kernel", "k"}, {"expected", true}}}}},
        {{"memory", {{"us", 0}}}, {"faults", json::array()}, {"clusters", json::object()}},
        {{"clusters",
          {{"cycle_us", 0.001},
           {"totals", {{{"kernel", nullptr}, {"cgas", 0}, {"mean_skew", nullptr}, {"mean_wait", nullptr}}}},
           {"first", {{{"row", 0}, {"gpc", 0}, {"skew", 0}, {"mean_wait", nullptr}, {"ctas", {{0, 0, 10, nullptr}}}}}},
           {"gpcs", {{{"sms", {0}}, {"paths", {"gpc0.cpc0.tpc0.sm0"}}}}}}}},
        {{"launch_latency", {{"unit", "ns"}, {"edges", {1, 2}}, {"counts", {1, 0, 4}}, {"max", 9}}},
         {"occupancy", {{"bin_us", 0}}},
         {"kernels", json::array()},
         {"spans", {{{"label", "x"}, {"us", nullptr}}}}}}},
      {"warnings", json::array()},
      {"summary", nullptr}};
}

std::string find_browser() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* const name : {"chromium", "chromium-browser", "google-chrome"}) {
      std::error_code ignored;
      if (fs::is_regular_file(fs::path(folder) / name, ignored)) return (fs::path(folder) / name).string();
    }
  }
  return {};
}

// The document as a browser has it after its scripts have run; empty without a browser. `scripts` is put at the page's
// end.
std::string dom_of(const json& data, const std::string& scripts = {}) {
  const std::string browser = find_browser();
  if (browser.empty()) {
    std::cout << "SKIPPED: no Chromium on this machine, the page is not drawn\n";
    return {};
  }
  const TempDir folder;
  const fs::path page = folder.path() / "report.html";
  write_report(page, data);
  std::ofstream(page, std::ios::app | std::ios::binary) << scripts;
  const fs::path dom = folder.path() / "dom.txt";
  const fs::path log = folder.path() / "log.txt";
  const std::string command =
      "timeout 100 '" + browser +
      "' --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage"
      " --disable-background-networking --disable-component-update --disable-sync"
      " --window-size=1280,2000 --virtual-time-budget=5000 --user-data-dir='" +
      (folder.path() / "profile").string() + "' --dump-dom 'file://" + page.string() + "' >'" + dom.string() + "' 2>'" +
      log.string() + "'";
  const int status = std::system(command.c_str());
  INFO(content_of(log));
  REQUIRE(status == 0);
  // The scripts' own text would answer for what they draw.
  std::string text = content_of(dom);
  for (std::size_t begin = 0; (begin = text.find("<script", begin)) != std::string::npos;) {
    const std::size_t end = text.find("</script>", begin);
    REQUIRE(end != std::string::npos);
    text.erase(begin, end - begin);
  }
  return text;
}

std::string body_tag(const std::string& dom) {
  const std::size_t begin = dom.find("<body");
  REQUIRE(begin != std::string::npos);
  return dom.substr(begin, dom.find('>', begin) - begin + 1);
}

}  // namespace

TEST_CASE("the page fetches nothing", "[report]") {
  const std::string page = report_html(full_data());
  const std::regex fetch(R"((src|href|action|srcset)\s*=\s*["']?\s*(https?:)?//)", std::regex::icase);
  CHECK_FALSE(std::regex_search(page, fetch));
  CHECK_THAT(page, !Contains("<link") && !Contains("<script src") && !Contains("@import") && !Contains("url(http"));
  CHECK_THAT(page, Contains("default-src 'none'"));
}

TEST_CASE("Chart.js is in the page with its notice and its licence", "[report]") {
  const std::string page = report_html(json::object());
  CHECK_THAT(page, Contains("Chart.js v3") && Contains("Released under the MIT License"));
  CHECK_THAT(page, Contains("The above copyright notice and this permission notice shall be included"));
}

TEST_CASE("the data in the page are the data given", "[report]") {
  for (const json& data : {full_data(), sparse_data(), json::object(), json{{"title", "x"}}})
    CHECK(json::parse(embedded_json(report_html(data))) == data);
}

TEST_CASE("no text of the data can end its element or become markup", "[report]") {
  const std::string page = report_html(full_data());
  // The data, Chart.js, our own script; an embedded file that contained one would show here as well.
  CHECK(count_of(page, "</script") == 3);
  const std::string data = embedded_json(page);
  CHECK(data.find('<') == std::string::npos);
  CHECK_THAT(data, !Contains("\xE2\x80\xA8") && !Contains("\xE2\x80\xA9"));
  CHECK_THAT(data, Contains("\\u003c/script>") && Contains("\\u2028"));
  CHECK_THAT(page, Contains("<title>a &lt;b&gt;bold&lt;/b&gt; &amp; &quot;quoted&quot; title"));
}

TEST_CASE("markers in the data are left alone, those of the template are all replaced", "[report]") {
  CHECK(count_of(report_html(json::object()), "@@") == 0);
  const std::string page = report_html({{"title", "@@data@@"}, {"command", "@@file page.css@@"}});
  CHECK_THAT(page, Contains("<h1>@@data@@</h1>"));
  CHECK_THAT(embedded_json(page), Contains("@@file page.css@@"));
}

TEST_CASE("text that is not UTF-8 becomes a replacement character", "[report]") {
  const std::string page = report_html({{"title", "a\xFF z"}, {"command", "\xC3"}});
  CHECK_THAT(page, Contains("<h1>a\xEF\xBF\xBD z</h1>"));
  CHECK(json::parse(embedded_json(page)).at("command") == "\xEF\xBF\xBD");
}

TEST_CASE("data that are not an object are refused", "[report]") {
  CHECK_THROWS_AS(report_html(json::array()), InputError);
  CHECK_THROWS_AS(report_html(json()), InputError);
}

TEST_CASE("a report is written whole, replaces the one before, and is the same every time", "[report]") {
  const TempDir folder;
  const fs::path file = folder.path() / "report.html";
  write_report(file, full_data());
  CHECK(content_of(file) == report_html(full_data()));
  write_report(file, json::object());
  CHECK(content_of(file) == report_html(json::object()));
}

TEST_CASE("a path that cannot be written is the user's error and names the path", "[report]") {
  const TempDir folder;
  CHECK_THROWS_AS(write_report(folder.path() / "absent" / "report.html", json::object()), InputError);
  CHECK_THROWS_WITH(write_report(folder.path() / "absent" / "report.html", json::object()),
                    Contains("absent") && Contains("cannot write the report"));
  CHECK_THROWS_AS(write_report(folder.path(), json::object()), InputError);
}

TEST_CASE("a full disk is the user's error", "[report]") {
  if (!fs::exists("/dev/full")) {
    std::cout << "SKIPPED: no /dev/full on this machine\n";
    return;
  }
  CHECK_THROWS_AS(write_report("/dev/full", json::object()), InputError);
}

TEST_CASE("a browser draws every section", "[report][browser]") {
  const std::string dom = dom_of(full_data());
  if (dom.empty()) return;
  CHECK_THAT(body_tag(dom), Contains("data-ready=\"1\"") && Contains("data-errors=\"0\"") && !Contains("pwned"));
  for (const char* const heading : {"How to read this page",
                                    "End to end",
                                    "Not reproduced",
                                    "Faults",
                                    "Occupancy over time",
                                    "Memory",
                                    "How warps spent their time",
                                    "Instructions by unit",
                                    "Clusters",
                                    "Where the CGAs ran",
                                    "Launch skew",
                                    "Wait at the cluster barrier",
                                    "Traffic between SMs",
                                    "Load of the SMs over time",
                                    "Kernels by stream",
                                    "Kernels by time",
                                    "Recorded against modelled duration",
                                    "Launch latency",
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
  CHECK_THAT(dom, Contains("2 faults that the scenario does not expect") && Contains("<code>0x1000</code>"));
  CHECK(count_of(dom, ">not expected<") == 2);
  CHECK(count_of(dom, ">expected<") == 1);
  CHECK_THAT(dom, Contains(">3\u00a0MiB<") || Contains(">3&nbsp;MiB<"));
  CHECK_THAT(dom, Contains("12.6&nbsp;TB/s") && Contains("87.5&nbsp;%") && Contains(">524,288<"));
  CHECK_THAT(dom, Contains("400 warp instructions"));
  CHECK_THAT(dom, Contains("1 more CGA, not all of whose CTAs ended") && Contains("All 3 CGAs: one row per SM"));
  CHECK_THAT(dom, Contains("22.5&nbsp;cycles") && Contains(">2.00&nbsp;\xC2\xB5s<") && Contains(">1.50<"));
  CHECK_THAT(dom, Contains("3.09&nbsp;KiB in all") && Contains("3&nbsp;KiB from one SM to another"));
  CHECK(count_of(dom, "<figure") == 1);  // gpc1 has no traffic
  CHECK(count_of(dom, ">gpc1</button>") == 1);
  // Five plots and their scale of colours; three of clusters, a matrix and its scale.
  CHECK(count_of(dom, "<canvas") == 11);
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

// What the report page is made of, and what goes wrong when it is written.
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "report/page_bench.h"

namespace report_page_test {

using namespace heddle::test;
using Catch::Contains;
using heddle::InputError;

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

}  // namespace report_page_test

// heddle show statistics, and the page that is made of it
#include <map>
#include <regex>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace heddle::test::cli_statistics_test {
namespace {

struct Row {
  std::string unit;
  std::string what;
};

// The tables of the page, by path.
std::map<std::string, Row> rows_of(const std::string& markdown) {
  std::map<std::string, Row> rows;
  const std::regex row("\\| `([^`]+)` \\| (?:counter|gauge|histogram) \\| ([^|]*) \\| (.*) \\|");
  for (auto match = std::sregex_iterator(markdown.begin(), markdown.end(), row); match != std::sregex_iterator();
       ++match) {
    rows[(*match)[1]] = {(*match)[2], (*match)[3]};
  }
  return rows;
}

// The row of a statistic in stats.json: numbers of instances are placeholders there, and what a gauge or a histogram
// comes with, such as a maximum, is no row of its own.
const Row* find(const std::map<std::string, Row>& rows, std::string path) {
  path = std::regex_replace(path, std::regex("^gpu[0-9]+"), "gpu0");
  const std::pair<const char*, const char*> placeholders[] = {{"gpc2sm[0-9]+", "gpc2sm<g>"},
                                                              {"crossing[0-9]+to[0-9]+", "crossing<p>to<q>"},
                                                              {"faults_of_[0-9]+", "faults_of_<n>"},
                                                              {"\\.gpc[0-9]+(?=\\.)", ".gpc<g>"},
                                                              {"\\.cpc[0-9]+(?=\\.)", ".cpc<c>"},
                                                              {"\\.tpc[0-9]+(?=\\.)", ".tpc<t>"},
                                                              {"\\.mpc[0-9]+(?=\\.)", ".mpc<m>"},
                                                              {"\\.sm[0-9]+(?=\\.)", ".sm<s>"},
                                                              {"\\.tmau[0-9]+(?=\\.)", ".tmau<u>"},
                                                              {"\\.slice[0-9]+(?=\\.)", ".slice<s>"},
                                                              {"\\.engine[0-9]+(?=\\.)", ".engine<e>"},
                                                              {"\\.subcontext[0-9]+(?=\\.)", ".subcontext<n>"}};
  for (const auto& [number, placeholder] : placeholders) {
    path = std::regex_replace(path, std::regex(number), placeholder);
  }
  for (const std::string& tried : {path, path.substr(0, path.rfind('.'))}) {
    const auto found = rows.find(tried);
    if (found != rows.end()) return &found->second;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("the page of statistics is what the machine declares", "[cli]") {
  const TempDir folder;
  const Finished markdown = heddle_in(folder, {"show", "statistics", "--format", "markdown"});
  CHECK(markdown.status == 0);
  const std::string page = read_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/statistics.md");
  const std::string begin = "<!-- from here on: heddle show statistics --format markdown -->\n";
  const std::size_t at = page.find(begin);
  REQUIRE(at != std::string::npos);
  const std::size_t end = page.find("<!-- to here -->", at);
  REQUIRE(end != std::string::npos);
  CHECK(page.substr(at + begin.size(), end - at - begin.size()) == markdown.out);
  const std::map<std::string, Row> rows = rows_of(markdown.out);
  CHECK(rows.size() > 300);
  const Finished text = heddle_in(folder, {"show", "statistics"});
  CHECK(text.status == 0);
  for (const auto& [path, row] : rows) CHECK(contains(text.out, path + " ("));
}

TEST_CASE("every statistic of a run is in the list, with its unit and description", "[cli]") {
  const TempDir folder;
  const std::map<std::string, Row> rows =
      rows_of(heddle_in(folder, {"show", "statistics", "--format", "markdown"}).out);
  const std::string recording = folder.file("recording.json");
  folder.write("recording.json", hand_made_trace());
  for (const std::string& input :
       {scenario("first_light.yaml"), scenario("partition_static.yaml"), recording, scenario("two_address_spaces.yaml"),
        scenario("nested_streams.yaml"), scenario("aql_two_queues.yaml")}) {
    INFO(input);
    REQUIRE(heddle_in(folder, {"run", input, "--out", "out"}).status == 0);
    const nlohmann::json document = read_json(folder.file("out/stats.json"));
    for (const auto& [path, entry] : document.at("stats").items()) {
      INFO(path);
      const Row* row = find(rows, path);
      REQUIRE(row != nullptr);
      const bool same =
          row->what.find('<') != std::string::npos || contains(entry.at("description").get<std::string>(), row->what);
      CHECK(same);
      const bool of_samples = path.size() > 6 && path.compare(path.size() - 6, 6, ".count") == 0;
      CHECK(entry.at("unit") == (of_samples ? "samples" : row->unit));
    }
  }
}

TEST_CASE("show statistics refuses forms that do not exist", "[cli]") {
  const TempDir folder;
  const Finished unknown = heddle_in(folder, {"show", "statistics", "--format", "c"});
  CHECK(unknown.status == 2);
  CHECK(contains(unknown.err, "text or markdown"));
}

}  // namespace heddle::test::cli_statistics_test

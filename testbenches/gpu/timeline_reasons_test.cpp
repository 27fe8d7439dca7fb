// docs/timeline.md lists the reasons of waits that there are, and no others.
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/task_table.h"
#include "task/task_rows.h"

namespace gpu_timeline_reasons_test {

using namespace heddle;

namespace {

using Table = std::vector<std::pair<std::string, std::string>>;

// The table that follows the line: its first column, without the backquotes around it, and its second.
Table table_behind(const std::string& line) {
  std::ifstream page(HEDDLE_SOURCE_DIR "/docs/timeline.md");
  REQUIRE(page.good());
  Table rows;
  std::string text;
  while (std::getline(page, text) && text != line) {
  }
  INFO(line);
  REQUIRE(page.good());
  std::getline(page, text);
  std::getline(page, text);  // the heading
  std::getline(page, text);
  while (std::getline(page, text) && !text.empty()) {
    const std::size_t bar = text.find(" | ", 2);
    REQUIRE(text.substr(0, 3) == "| `");
    REQUIRE(text.substr(bar - 1, 1) == "`");
    rows.emplace_back(text.substr(3, bar - 4), text.substr(bar + 3, text.size() - bar - 5));
  }
  return rows;
}

}  // namespace

TEST_CASE("the page of the timeline lists the reasons that task management gives", "[timeline]") {
  for (const bool host : {true, false}) {
    Table expected;
    for (const task::TaskWaitRow& row : task::kTaskWaits) {
      if (host ? row.host : row.nested) expected.emplace_back(row.text, row.what);
    }
    CHECK(table_behind(host ? "Reasons on the `waits` line of a stream:" : "On the `waits` lines of `gpu0 nested`:") ==
          expected);
  }
  // A row for each, in its place.
  for (std::size_t i = 0; i < std::size(task::kTaskWaits); ++i) {
    CHECK(static_cast<std::size_t>(task::kTaskWaits[i].wait) == i);
  }
}

TEST_CASE("the page of the timeline lists the reasons that the distributor gives", "[timeline]") {
  std::vector<std::string> expected;
  for (std::size_t i = 1; i < cwd::kWaitReasons; ++i) {
    const auto reason = static_cast<cwd::WaitReason>(i);
    expected.emplace_back(cwd::wait_text(reason));
    if (expected.back() != cwd::wait_text(reason, true)) expected.emplace_back(cwd::wait_text(reason, true));
  }
  std::vector<std::string> listed;
  for (const auto& [reason, what] : table_behind("On both, and on the lines `waits in slot`, what the distributor says "
                                                 "of a task of which CTAs are left to launch:")) {
    listed.push_back(reason);
    CHECK_FALSE(what.empty());
  }
  CHECK(listed == expected);
}

}  // namespace gpu_timeline_reasons_test

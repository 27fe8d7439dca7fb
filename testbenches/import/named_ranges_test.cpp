// Named ranges of recordings (INP-17): against a search through all ranges, and as recorders write them.
#include "import/named_ranges.h"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>

#include "import/kineto_text.h"
#include "import/nsys_export.h"
#include "support/random.h"

namespace heddle::test::import_named_ranges_test {
namespace {

using import::NamedRanges;
using workload::NamedRange;
using workload::Workload;

struct Given {
  std::int64_t scope = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

std::vector<std::string> names_of(const Workload& workload) {
  std::vector<std::string> names;
  for (const NamedRange& range : workload.ranges) names.push_back(range.name);
  return names;
}

std::string range_event(const std::string& name, const std::string& ts, const std::string& dur, int thread = 4711) {
  return fmt::format(R"({{"ph":"X","cat":"user_annotation","name":"{}","pid":4711,"tid":{},"ts":{},"dur":{}}})", name,
                     thread, ts, dur);
}

constexpr const char* kNvtx =
    "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, "
    "category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, "
    "domainId INTEGER)";

std::string nvtx(std::int64_t start, const std::string& end, int type, const std::string& text, std::int64_t thread,
                 const std::string& id = "NULL") {
  return fmt::format("INSERT INTO NVTX_EVENTS VALUES ({}, {}, {}, NULL, NULL, NULL, {}, {}, NULL, {}, 0)", start, end,
                     type, text, thread, id);
}

}  // namespace

TEST_CASE("a launch is in every range of its scope that holds its time", "[workload][INP-17]") {
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    Random random(seed);
    NamedRanges ranges;
    std::vector<Given> given(random.below(12));
    for (std::size_t i = 0; i < given.size(); ++i) {
      Given& one = given[i];
      one.scope = static_cast<std::int64_t>(random.below(3));
      one.begin = static_cast<std::int64_t>(random.below(20));
      one.end = one.begin + static_cast<std::int64_t>(random.below(12));
      ranges.add(one.scope, std::to_string(i), one.begin, one.end);
    }
    std::vector<NamedRanges::Launch> launches(random.below(15));
    for (std::size_t i = 0; i < launches.size(); ++i) {
      launches[i] = {i, static_cast<std::int64_t>(random.below(3)), static_cast<std::int64_t>(random.below(32))};
    }
    Workload workload;
    ranges.fill(workload, launches);

    const auto members = [&](const Given& one) {
      std::vector<std::size_t> ops;
      for (const NamedRanges::Launch& launch : launches) {
        if (launch.scope == one.scope && launch.when >= one.begin && launch.when <= one.end) ops.push_back(launch.op);
      }
      return ops;
    };
    std::set<std::string> expected;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!members(given[i]).empty()) expected.insert(std::to_string(i));
    }
    const std::vector<std::string> names = names_of(workload);
    CAPTURE(seed);
    REQUIRE(std::set<std::string>(names.begin(), names.end()) == expected);
    REQUIRE(names.size() == expected.size());
    std::int64_t before = 0;
    for (std::size_t i = 0; i < workload.ranges.size(); ++i) {
      const NamedRange& range = workload.ranges[i];
      const Given& one = given[std::stoul(range.name)];
      REQUIRE(range.ops == members(one));
      REQUIRE(one.begin >= before);
      before = one.begin;
      // What holds it: of those of its scope, one that begins no earlier than any other that does.
      std::int64_t latest = -1;
      for (std::size_t k = 0; k < given.size(); ++k) {
        const Given& other = given[k];
        const bool same = other.begin == one.begin && other.end == one.end;
        if (&other == &one || same || other.scope != one.scope) continue;
        if (other.begin <= one.begin && other.end >= one.end) latest = std::max(latest, other.begin);
      }
      if (latest >= 0) {
        REQUIRE(range.within);
        REQUIRE(*range.within < i);
        const Given& outer = given[std::stoul(workload.ranges[*range.within].name)];
        REQUIRE(outer.scope == one.scope);
        REQUIRE(outer.begin >= latest);
        REQUIRE(outer.end >= one.end);
      }
    }
  }
}

TEST_CASE("ranges that hold too much are left out, and a warning says so", "[workload][INP-17]") {
  NamedRanges ranges;
  ranges.add(0, "outer", 0, 10);
  ranges.add(0, "inner", 2, 8);
  Workload workload;
  ranges.fill(workload, {{0, 0, 3}, {1, 0, 4}}, 4);
  CHECK(names_of(workload) == std::vector<std::string>{"outer", "inner"});
  CHECK(workload.warnings.empty());
  Workload fewer;
  ranges.fill(fewer, {{0, 0, 3}, {1, 0, 4}}, 3);
  CHECK(fewer.ranges.empty());
  REQUIRE(fewer.warnings.size() == 1);
  CHECK(fewer.warnings.front() == "Its named ranges hold more than 3 launches together; they are left out.");
}

TEST_CASE("record_function names what its thread launches", "[workload][INP-17]") {
  const std::vector<Workload> workloads = import_text(trace(
      {range_event("step", "100", "100"), range_event("forward", "105", "20"),
       range_event("elsewhere", "100", "100", 7), range_event("empty", "150", "2"), call("cudaLaunchKernel", "110", 1),
       call("cudaLaunchKernel", "140", 2), call("cudaLaunchKernel", "300", 3), kernel("a", 7, "120", "5", 1),
       kernel("b", 7, "145", "5", 2), kernel("c", 7, "310", "5", 3), kernel("d", 7, "110", "5", 9)}));
  REQUIRE(workloads.size() == 1);
  const Workload& workload = workloads.front();
  REQUIRE(names_of(workload) == std::vector<std::string>{"step", "forward"});
  const auto names = [&workload](const NamedRange& range) {
    std::string text;
    for (const std::size_t op : range.ops) text += workload.ops[op].kernel.name;
    return text;
  };
  CHECK(names(workload.ranges[0]) == "ab");
  CHECK(names(workload.ranges[1]) == "a");
  CHECK_FALSE(workload.ranges[0].within);
  CHECK(workload.ranges[1].within == std::optional<std::size_t>(0));
}

TEST_CASE("a range that is no range is left out, and counted", "[workload][INP-17][INP-07]") {
  const std::vector<Workload> workloads = import_text(
      trace({range_event("x", "5", "-1"), range_event("y", "null", "5"), range_event("z", "5", "\"a\""),
             R"({"ph":"X","cat":"user_annotation","pid":4711,"tid":4711,"ts":80,"dur":50})",
             R"({"ph":"X","cat":"user_annotation","name":"w","pid":4711,"tid":4711,"ts":80})",
             range_event("good", "80", "50"), call("cudaLaunchKernel", "110", 1), kernel("a", 7, "120", "5", 1)}));
  REQUIRE(workloads.size() == 1);
  CHECK(names_of(workloads.front()) == std::vector<std::string>{"good"});
  const std::vector<std::string>& warnings = workloads.front().warnings;
  CHECK(std::count(warnings.begin(), warnings.end(),
                   "5 named ranges have no begin, end, thread or name that can be read; they are left out.") == 1);
}

TEST_CASE("a hundred thousand ranges that are open together take no time of their own", "[workload][INP-17]") {
  NamedRanges ranges;
  for (std::int64_t i = 0; i < 100'000; ++i) ranges.add(0, "r", i, 1'000'000 + i % 7);
  Workload workload;
  ranges.fill(workload, {{0, 0, 500'000}});
  CHECK(workload.ranges.size() == 100'000);
  CHECK(workload.ranges.back().within);
}

TEST_CASE("NVTX ranges of a thread and of the process", "[workload][INP-17]") {
  const std::int64_t thread = global_id(kProcess, 145);
  const std::int64_t other = global_id(kProcess, 146);
  const std::int64_t stranger = global_id(kProcess + 1, 145);
  NsysExport file;
  file.sql(kNvtx)
      .call(1'000, 1)
      .call(2'000, 2)
      .kernel(5'000, 6'000, 1)
      .kernel(7'000, 8'000, 2)
      .kernel(9'000, 9'500, 3)  // without a call
      .sql(nvtx(500, "2500", 59, "'both'", thread))
      .sql(nvtx(900, "1100", 59, "NULL", thread, "12"))
      .sql(nvtx(900, "1100", 59, "'of another thread'", other))
      .sql(nvtx(1'500, "2500", 60, "'of the process'", other))
      .sql(nvtx(500, "2500", 60, "'of another process'", stranger))
      .sql(nvtx(1'000, "NULL", 34, "'a mark'", thread))
      .sql(nvtx(100, "NULL", 59, "'never popped'", thread));
  const std::vector<Workload> workloads = import_bytes(file.bytes());
  REQUIRE(workloads.size() == 1);
  const Workload& workload = workloads.front();
  REQUIRE(workload.ranges.size() == 3);
  CHECK(workload.ranges[0].name == "both");
  CHECK(workload.ranges[0].ops == std::vector<std::size_t>{0, 1});
  CHECK_FALSE(workload.ranges[1].name.empty());
  CHECK(workload.ranges[1].name != "of another thread");
  CHECK(workload.ranges[1].ops == std::vector<std::size_t>{0});
  CHECK(workload.ranges[1].within == std::optional<std::size_t>(0));
  CHECK(workload.ranges[2].name == "of the process");
  CHECK(workload.ranges[2].ops == std::vector<std::size_t>{1});
}

TEST_CASE("NVTX ranges that end before they begin are left out, and counted", "[workload][INP-17][INP-07]") {
  NsysExport file;
  file.sql(kNvtx)
      .kernel(5'000, 6'000)
      .sql(nvtx(500, "400", 59, "'x'", global_id(kProcess, 145)))
      .sql(nvtx(500, "600", 59, "'x'", -5));
  const std::vector<Workload> workloads = import_bytes(file.bytes());
  REQUIRE(workloads.size() == 1);
  CHECK(workloads.front().ranges.empty());
  const std::vector<std::string>& warnings = workloads.front().warnings;
  CHECK(std::count(warnings.begin(), warnings.end(),
                   "2 named ranges have no begin, end, thread or name that can be read; they are left out.") == 1);
}

}  // namespace heddle::test::import_named_ranges_test

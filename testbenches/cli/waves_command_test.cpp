// `heddle run --trace vcd`: the dump is read back as its standard describes it, and compared with the table of CTAs.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "cli/csv.h"
#include "cli/program.h"

namespace cli_waves_command_test {

using namespace heddle::test;

namespace {

// IEEE 1364, chapter 18: declarations, then times and the values that change then.
struct Dump {
  // By name with its scopes ("gpu0.gpc0.sm0.ctas"): values from each time on, in ps.
  std::map<std::string, std::map<std::uint64_t, std::uint64_t>> signals;
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  explicit Dump(const std::string& text) {
    std::istringstream words(text);
    std::map<std::string, std::string> names;  // by code
    std::vector<std::string> scopes;
    std::uint64_t now = 0;
    bool timed = false;
    for (std::string word; words >> word;) {
      if (word == "$scope") {
        std::string kind, name, end;
        words >> kind >> name >> end;
        REQUIRE(kind == "module");
        REQUIRE(end == "$end");
        scopes.push_back(name);
      } else if (word == "$upscope") {
        REQUIRE_FALSE(scopes.empty());
        scopes.pop_back();
        words >> word;
      } else if (word == "$var") {
        std::string kind, bits, code, name, end;
        words >> kind >> bits >> code >> name >> end;
        REQUIRE(end == "$end");
        std::string path;
        for (const std::string& scope : scopes) path += scope + ".";
        REQUIRE(names.emplace(code, path + name).second);
        REQUIRE(signals.emplace(path + name, std::map<std::uint64_t, std::uint64_t>()).second);
      } else if (word == "$comment" || word == "$version" || word == "$timescale") {
        std::string inside;
        std::string all;
        while (words >> inside && inside != "$end") all += inside;
        if (word == "$timescale") CHECK(all == "1ps");
      } else if (word == "$enddefinitions") {
        CHECK(scopes.empty());
        words >> word;
      } else if (word[0] == '#') {
        const std::uint64_t time = std::stoull(word.substr(1));
        if (timed) REQUIRE(time > now);
        if (!timed) first = time;
        timed = true;
        now = last = time;
      } else if (word[0] == 'b') {
        std::string code;
        words >> code;
        REQUIRE(names.count(code) == 1);
        const std::uint64_t value = std::stoull(word.substr(1), nullptr, 2);
        std::map<std::uint64_t, std::uint64_t>& its = signals.at(names.at(code));
        if (!its.empty()) REQUIRE(its.rbegin()->second != value);  // a change
        its[now] = value;
      } else {
        REQUIRE((word == "$dumpvars" || word == "$end"));
      }
    }
    for (const auto& [name, values] : signals) {
      CAPTURE(name);
      REQUIRE(values.size() >= 1);
    }
  }

  std::uint64_t at(const std::string& name, std::uint64_t time) const {
    const auto& values = signals.at(name);
    return std::prev(values.upper_bound(time))->second;
  }
};

// The rows of a table, by the names of its head.
std::vector<Row> csv_rows(const std::string& csv) {
  std::istringstream in(csv);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> names = fields_of(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = fields_of(line);
    REQUIRE(fields.size() == names.size());
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < names.size(); ++i) row[names[i]] = fields[i];
  }
  return rows;
}

}  // namespace

TEST_CASE("a value change dump has the CTAs of every SM, and the operations of every stream", "[cli][RUN-03]") {
  const TempDir dir;
  const std::vector<std::string> run{"run", scenario("priorities.yaml"), "--out", "out", "--trace", "vcd", "--dump",
                                     "ctas"};
  REQUIRE(heddle_in(dir, run).status == 0);
  const std::string text = read_file(dir.file("out/waves.vcd"));
  const Dump dump(text);
  const Results results(dir.file("out"));
  CHECK(dump.last == static_cast<std::uint64_t>(results.stat("sim.time") * 1e6 + 0.5));
  const double cycle_ps = 1e3;  // preset small: 1 GHz
  struct Stay {
    std::uint64_t begin, end;
    std::string sm;
  };
  std::vector<Stay> stays;
  std::set<std::uint64_t> times;
  for (const auto& row : csv_rows(read_file(dir.file("out/ctas.csv")))) {
    const auto ps = [&](const std::string& cycles) {
      return static_cast<std::uint64_t>(std::stod(cycles) * cycle_ps + 0.5);
    };
    stays.push_back({ps(row.at("launch")), ps(row.at("end")), row.at("sm")});
    times.insert({stays.back().begin, stays.back().end});
  }
  REQUIRE(stays.size() > 20);
  std::map<std::string, std::string> names;  // of SMs, by number
  std::size_t sms = 0;
  for (const auto& [name, values] : dump.signals) sms += name.find(".sm") != std::string::npos ? 1 : 0;
  CHECK(sms == 10);
  for (const std::uint64_t time : times) {
    std::uint64_t all = 0;
    std::set<std::string> occupied;
    std::map<std::string, std::uint64_t> on;
    for (const Stay& stay : stays) {
      if (stay.begin > time || stay.end <= time) continue;
      ++all;
      occupied.insert(stay.sm);
      ++on[stay.sm];
    }
    CAPTURE(time);
    CHECK(dump.at("gpu0.ctas", time) == all);
    CHECK(dump.at("gpu0.occupied_sms", time) == occupied.size());
    std::multiset<std::uint64_t> wanted;
    for (const auto& [sm, ctas] : on) wanted.insert(ctas);
    std::multiset<std::uint64_t> found;
    for (const auto& [name, values] : dump.signals) {
      if (name.find(".sm") == std::string::npos) continue;
      if (const std::uint64_t ctas = dump.at(name, time); ctas > 0) found.insert(ctas);
    }
    CHECK(found == wanted);
  }
  // Kernels that run and wait, from kernels.csv.
  std::uint64_t most_waiting = 0;
  std::vector<std::array<double, 3>> kernels;
  for (const auto& row : csv_rows(read_file(dir.file("out/kernels.csv")))) {
    kernels.push_back({std::stod(row.at("submitted_ns")), std::stod(row.at("start_ns")), std::stod(row.at("end_ns"))});
  }
  REQUIRE(kernels.size() == 4);
  // kernels.csv counts from the workload's time 0, which comes a nanosecond into the simulation: on the host's link.
  const double lead = 1;
  for (const auto& kernel : kernels) {
    for (const double edge : kernel) {
      const auto time = static_cast<std::uint64_t>((edge + lead) * 1e3 + 0.5) + 500;
      std::uint64_t waiting = 0, running = 0, waits = 0, runs = 0;
      for (const auto& [name, values] : dump.signals) {
        if (name.find(".waiting") != std::string::npos) waiting += dump.at(name, time);
        if (name.find(".running") != std::string::npos) running += dump.at(name, time);
      }
      for (const auto& [submitted, start, end] : kernels) {
        const double ns = static_cast<double>(time) / 1e3 - lead;
        waits += submitted <= ns && ns < start ? 1 : 0;
        runs += start <= ns && ns < end ? 1 : 0;
      }
      CHECK(waiting == waits);
      CHECK(running == runs);
      most_waiting = std::max(most_waiting, waiting);
    }
  }
  CHECK(most_waiting > 0);
  // The same bytes again, beside a timeline.
  REQUIRE(heddle_in(dir, {"run", scenario("priorities.yaml"), "--out", "two", "--trace", "json,vcd"}).status == 0);
  CHECK(read_file(dir.file("two/waves.vcd")) == text);
  CHECK(std::filesystem::exists(dir.file("two/timeline.json.gz")));
  // A part of the signals, and of the time.
  REQUIRE(heddle_in(dir, {"run", scenario("priorities.yaml"), "--out", "part", "--trace", "vcd", "--trace-units",
                          "occupied", "--trace-time", "1us..3us"})
              .status == 0);
  const Dump part(read_file(dir.file("part/waves.vcd")));
  REQUIRE(part.signals.size() == 1);
  CHECK(part.first == 1'000'000);
  CHECK(part.last == 3'000'000);
  for (const std::uint64_t time : times) {
    if (time < 1'000'000 || time > 3'000'000) continue;
    CHECK(part.at("gpu0.occupied_sms", time) == dump.at("gpu0.occupied_sms", time));
  }
  CHECK(results.stat("gpu0.task.kernels") == 4);
}

TEST_CASE("a value change dump without signals says so, with those that there are", "[cli][RUN-03]") {
  const TempDir dir;
  const Finished none = heddle_in(
      dir, {"run", scenario("priorities.yaml"), "--out", "out", "--trace", "vcd", "--trace-units", "no_such_unit"});
  CHECK(none.status == 0);
  CHECK(contains(none.out,
                 "waves.vcd has no signal: --trace-units no_such_unit fits none; groups of signals are gpu0, "));
  CHECK(contains(none.out, "gpu0 streams"));
}

TEST_CASE("formats of a trace that there are not, and options without one, are refused", "[cli][RUN-03]") {
  const TempDir dir;
  for (const char* formats : {"vcr", "perfetto,json", "vcd,vcd", ""}) {
    CAPTURE(formats);
    CHECK(heddle_in(dir, {"run", scenario("priorities.yaml"), "--trace", formats}).status == 2);
  }
  const Finished kernels =
      heddle_in(dir, {"run", scenario("priorities.yaml"), "--trace", "vcd", "--trace-kernels", "x"});
  CHECK(kernels.status == 2);
  CHECK(contains(kernels.err, "give --trace perfetto as well"));
}

}  // namespace cli_waves_command_test

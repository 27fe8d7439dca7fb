// The timeline file: valid JSON whatever the names, complete or reported as not.
#include "common/perfetto.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "common/domain.h"
#include "common/error.h"
#include "support/sim_fixture.h"
#include "support/temp_dir.h"

namespace common_perfetto_test {

using namespace heddle;
using Catch::Contains;
using sc_core::sc_time;
using test::SimFixture;
using test::TempDir;

namespace {

namespace fs = std::filesystem;

std::string read_raw(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string read_gz(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text;
  char buffer[65536];
  for (int n = gzread(file, buffer, sizeof buffer); n > 0; n = gzread(file, buffer, sizeof buffer)) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  gzclose(file);
  return text;
}

std::vector<nlohmann::json> events(const nlohmann::json& file, const std::string& phase) {
  std::vector<nlohmann::json> result;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    if (event.at("ph") == phase) result.push_back(event);
  }
  return result;
}

Picoseconds ns(double value) { return picoseconds(sc_time(value, sc_core::SC_NS)); }

constexpr std::uint64_t kPlenty = 1'000'000;

}  // namespace

TEST_CASE("an empty timeline is a valid file", "[perfetto]") {
  SimFixture sim;
  const TempDir dir;
  { PerfettoSink sink(dir.file("t.json"), kPlenty); }
  const nlohmann::json file = nlohmann::json::parse(read_raw(dir.file("t.json")));
  CHECK(file.at("traceEvents").empty());
  CHECK(file.at("displayTimeUnit") == "ns");
  CHECK(file.at("otherData").at("events_left_out") == "0");
}

TEST_CASE("slices and counters carry track, time in microseconds, name and arguments", "[perfetto]") {
  SimFixture sim;
  const TempDir dir;
  PerfettoSink sink(dir.file("t.json"), kPlenty);
  const TrackId sm = sink.track("gpu0 gpc2", "sm 17");
  const TrackId other = sink.track("gpu0 gpc2", "sm 18");
  const TrackId queue = sink.track("gpu0", "sm 17");
  CHECK(sm.group == other.group);
  CHECK(sm.line != other.line);
  CHECK(queue.group != sm.group);
  const TrackId again = sink.track("gpu0 gpc2", "sm 17");
  CHECK((again.group == sm.group && again.line == sm.line));
  sink.slice(sm, ns(1234.567), ns(3000), "cta 5", {{"task", 7}, {"index", -3}});
  sink.slice(sm, ns(5), ns(5), "nothing long", {});
  sink.counter(queue, picoseconds(sc_time(2, sc_core::SC_MS)), "entries", 2.5);
  sink.close();
  const nlohmann::json file = nlohmann::json::parse(read_raw(dir.file("t.json")));
  const auto slices = events(file, "X");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].at("pid") == sm.group);
  CHECK(slices[0].at("tid") == sm.line);
  CHECK(slices[0].at("ts").get<double>() == Approx(1.234567).epsilon(1e-12));
  CHECK(slices[0].at("dur").get<double>() == Approx(1.765433).epsilon(1e-12));
  CHECK(slices[0].at("name") == "cta 5");
  CHECK(slices[0].at("args") == nlohmann::json({{"task", 7}, {"index", -3}}));
  CHECK(slices[1].at("dur") == 0.0);
  CHECK_FALSE(slices[1].contains("args"));
  const auto counters = events(file, "C");
  REQUIRE(counters.size() == 1);
  CHECK(counters[0].at("ts") == 2000.0);
  CHECK(counters[0].at("args").at("value") == 2.5);
  CHECK(counters[0].at("pid") == queue.group);
  // Two groups with a name and a place, three lines with a name: each once.
  std::map<std::string, int> meta;
  for (const auto& event : events(file, "M")) ++meta[event.at("name").get<std::string>()];
  CHECK(meta == std::map<std::string, int>{{"process_name", 2}, {"process_sort_index", 2}, {"thread_name", 3}});
}

TEST_CASE("picoseconds are kept however late it is", "[perfetto]") {
  const auto text_of = [](Picoseconds begin, Picoseconds end) {
    const TempDir dir;
    PerfettoSink sink(dir.file("t.json"), kPlenty);
    sink.slice({1, 1}, begin, end, "x", {});
    sink.close();
    return read_raw(dir.file("t.json"));
  };
  SECTION("at 1 ps") {
    SimFixture sim;
    // Beyond the 53 bits of a double.
    const std::string text = text_of(picoseconds(sc_time::from_value(12'345'678'901'234'567'891U)),
                                     picoseconds(sc_time::from_value(12'345'678'901'234'567'894U)));
    CHECK_THAT(text, Contains("\"ts\":12345678901234.567891,"));
    CHECK_THAT(text, Contains("\"dur\":0.000003,"));
  }
  SECTION("at 100 ps") {
    SimFixture sim;
    sc_core::sc_set_time_resolution(100, sc_core::SC_PS);
    const std::string text = text_of(ns(1.2), ns(3));
    CHECK_THAT(text, Contains("\"ts\":0.001200,"));
    CHECK_THAT(text, Contains("\"dur\":0.001800,"));
  }
  SECTION("at 1 fs") {
    SimFixture sim;
    sc_core::sc_set_time_resolution(1, sc_core::SC_FS);
    const std::string text = text_of(picoseconds(sc_time(2'345'678, sc_core::SC_FS)), ns(3));
    CHECK_THAT(text, Contains("\"ts\":0.002345,"));
  }
}

TEST_CASE("names of any kind leave the file valid", "[perfetto]") {
  SimFixture sim;
  const TempDir dir;
  const std::vector<std::string> names = {
      "say \"hello\"",          "back\\slash", "new\nline", "tab\tbell\a", "", "{}%s", "\xC3\xA4\xE2\x82\xAC",
      std::string("nul\0in", 6)};
  PerfettoSink sink(dir.file("t.json"), kPlenty);
  for (const std::string& name : names) {
    const TrackId track = sink.track("group " + name, name);
    sink.slice(track, ns(1), ns(2), name, {});
    sink.counter(track, ns(1), name, 1);
  }
  sink.slice({1, 1}, ns(1), ns(2), "not \xFF UTF-8", {});
  sink.close();
  const nlohmann::json file = nlohmann::json::parse(read_raw(dir.file("t.json")));
  const auto slices = events(file, "X");
  REQUIRE(slices.size() == names.size() + 1);
  for (std::size_t i = 0; i < names.size(); ++i) CHECK(slices[i].at("name") == names[i]);
}

TEST_CASE("a path that ends in .gz is compressed", "[perfetto]") {
  SimFixture sim;
  const TempDir dir;
  for (const char* name : {"t.json.gz", "t.json"}) {
    PerfettoSink sink(dir.file(name), kPlenty);
    const TrackId track = sink.track("g", "l");
    for (int i = 0; i < 30'000; ++i) sink.slice(track, ns(i), ns(i + 1), "slice", {{"i", i}});  // several buffers
  }
  const std::string packed = read_raw(dir.file("t.json.gz"));
  CHECK(static_cast<unsigned char>(packed.at(0)) == 0x1F);
  CHECK(static_cast<unsigned char>(packed.at(1)) == 0x8B);
  const std::string text = read_raw(dir.file("t.json"));
  CHECK(text.front() == '{');
  CHECK(packed.size() < text.size() / 5);
  const bool same = read_gz(dir.file("t.json.gz")) == text;
  CHECK(same);
  const nlohmann::json file = nlohmann::json::parse(text);
  REQUIRE(events(file, "X").size() == 30'000);
  CHECK(file.at("traceEvents").back().at("args").at("i") == 29'999);
}

TEST_CASE("beyond the greatest number of events the rest is left out and counted", "[perfetto]") {
  SimFixture sim;
  const TempDir dir;
  PerfettoSink sink(dir.file("t.json"), 10);
  const TrackId track = sink.track("g", "l");
  for (int i = 0; i < 8; ++i) sink.slice(track, ns(i), ns(i + 1), "x", {});
  for (int i = 0; i < 8; ++i) sink.counter(track, ns(i), "y", i);
  sink.track("late group", "late line");  // names are no events
  CHECK(sink.left_out() == 6);
  sink.close();
  const nlohmann::json file = nlohmann::json::parse(read_raw(dir.file("t.json")));
  CHECK(events(file, "X").size() == 8);
  CHECK(events(file, "C").size() == 2);
  CHECK(file.at("otherData").at("events_left_out") == "6");
}

TEST_CASE("what a viewer could not read is refused", "[perfetto]") {
  SimFixture sim;
  const TempDir dir;
  PerfettoSink sink(dir.file("t.json"), kPlenty);
  const TrackId track = sink.track("g", "l");
  CHECK_THROWS_AS(sink.slice(track, ns(2), ns(1), "backwards", {}), CheckFailed);
  CHECK_THROWS_AS(sink.counter(track, ns(2), "x", std::nan("")), CheckFailed);
  CHECK_THROWS_AS(sink.counter(track, ns(2), "x", INFINITY), CheckFailed);
  sink.close();
  CHECK(events(nlohmann::json::parse(read_raw(dir.file("t.json"))), "X").empty());
}

TEST_CASE("a file that cannot be written is the user's to know", "[perfetto]") {
  SimFixture sim;
  const TempDir dir;
  SECTION("no such directory") {
    const std::string path = dir.file("missing/t.json");
    const std::string message = test::failure_of([&] { PerfettoSink sink(path, kPlenty); });
    CHECK_THAT(message, Contains(path));
    CHECK_THAT(message, Contains("--out"));
    CHECK_THROWS_AS(PerfettoSink(path, kPlenty), InputError);
  }
  if (!fs::exists("/dev/full")) return;
  for (const char* name : {"full.json", "full.json.gz"}) {
    DYNAMIC_SECTION("disk full: " << name) {
      fs::create_symlink("/dev/full", dir.file(name));
      PerfettoSink sink(dir.file(name), kPlenty);
      sink.slice(sink.track("g", "l"), ns(1), ns(2), "x", {});
      CHECK_THROWS_AS(sink.close(), InputError);
      CHECK_NOTHROW(sink.close());  // it is closed now, and the destructor has nothing left to do
    }
    DYNAMIC_SECTION("disk full while the run goes on: " << name) {
      fs::create_symlink("/dev/full", dir.file(name));
      PerfettoSink sink(dir.file(name), kPlenty);
      const TrackId track = sink.track("g", "l");
      const auto fill = [&] {
        std::uint64_t noise = 1;
        for (int i = 0; i < 200'000; ++i) {
          noise = noise * 6364136223846793005U + 1442695040888963407U;  // so that compression does not hide it
          sink.slice(track, ns(i), ns(i + 1), "x", {{"noise", static_cast<std::int64_t>(noise)}});
        }
      };
      CHECK_THROWS_AS(fill(), InputError);
      CHECK_THROWS_AS(sink.close(), InputError);
    }
    DYNAMIC_SECTION("a destructor keeps quiet: " << name) {
      fs::create_symlink("/dev/full", dir.file(name));
      const auto make_and_drop = [&] { PerfettoSink sink(dir.file(name), kPlenty); };
      CHECK_NOTHROW(make_and_drop());
    }
  }
}

}  // namespace common_perfetto_test

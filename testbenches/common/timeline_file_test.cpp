// Timelines as files: what is in them, whatever the names and however slices lie in each other, read back from the
// definitions of both formats.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "common/error.h"
#include "common/timeline.h"
#include "support/perfetto_trace.h"
#include "support/random.h"
#include "support/sim_fixture.h"
#include "support/temp_dir.h"

namespace common_timeline_file_test {

using namespace heddle;
using Catch::Contains;
using test::PerfettoTrace;
using test::Random;
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

constexpr Picoseconds ns(Picoseconds value) { return 1000 * value; }

constexpr std::uint64_t kPlenty = 1'000'000;

nlohmann::json as_json(Timeline& timeline) {
  const TempDir dir;
  timeline.finish();
  write_timeline(timeline, TimelineFormat::json, dir.file("t.json"));
  return nlohmann::json::parse(read_raw(dir.file("t.json")));
}

PerfettoTrace as_perfetto(Timeline& timeline) {
  const TempDir dir;
  timeline.finish();
  write_timeline(timeline, TimelineFormat::perfetto, dir.file("t.pftrace"));
  return PerfettoTrace(read_gz(dir.file("t.pftrace")));
}

struct Drawn {
  Picoseconds begin = 0;
  Picoseconds end = 0;
  std::size_t depth = 0;
  std::string name;
};

// Slices within each other, which touch and are empty now and then, in the order of their beginnings.
void grow(Random& random, Picoseconds begin, Picoseconds end, std::size_t depth, std::vector<Drawn>& all) {
  for (Picoseconds at = begin; all.size() < 400;) {
    const Picoseconds from = at + (random.chance(50) ? 0 : random.below(3000));
    const Picoseconds to = random.chance(10) ? from : from + random.below(end - begin + 1);
    if (from >= end || to > end) return;
    all.push_back({from, to, depth, "n" + std::to_string(random.below(20))});
    if (depth < 5 && to > from && random.chance(60)) grow(random, from, to, depth + 1, all);
    at = std::max(to, from + 1);
  }
}

}  // namespace

TEST_CASE("an empty timeline is a valid file", "[timeline]") {
  Timeline timeline(kPlenty);
  const nlohmann::json file = as_json(timeline);
  CHECK(file.at("traceEvents").empty());
  CHECK(file.at("displayTimeUnit") == "ns");
  CHECK(file.at("otherData").at("merged") == "0");
  CHECK(as_perfetto(timeline).groups.empty());
}

TEST_CASE("slices and values carry line, time, name and arguments", "[timeline]") {
  Timeline timeline(kPlenty);
  const TrackId sm = timeline.track("gpu0 gpc2", "sm 17");
  const TrackId other = timeline.track("gpu0 gpc2", "sm 18");
  const TrackId queue = timeline.track("gpu0", "sm 17");
  CHECK(sm.group == other.group);
  CHECK(sm.line != other.line);
  CHECK(queue.group != sm.group);
  const TrackId again = timeline.track("gpu0 gpc2", "sm 17");
  CHECK((again.group == sm.group && again.line == sm.line));
  timeline.slice(sm, 1'234'567, 3'000'000, "cta 5", {{"task", 7}, {"index", -3}});
  timeline.slice(sm, 5000, 5000, "nothing long", {});
  timeline.counter(queue, 2'000'000'000, "entries", 2.5);
  SECTION("JSON") {
    const nlohmann::json file = as_json(timeline);
    const auto slices = events(file, "X");
    REQUIRE(slices.size() == 2);
    CHECK(slices[0].at("name") == "nothing long");
    CHECK(slices[0].at("dur") == 0.0);
    CHECK_FALSE(slices[0].contains("args"));
    CHECK(slices[1].at("ts").get<double>() == Approx(1.234567).epsilon(1e-12));
    CHECK(slices[1].at("dur").get<double>() == Approx(1.765433).epsilon(1e-12));
    CHECK(slices[1].at("name") == "cta 5");
    CHECK(slices[1].at("args") == nlohmann::json({{"task", 7}, {"index", -3}}));
    const auto values = events(file, "C");
    REQUIRE(values.size() == 1);
    CHECK(values[0].at("ts") == 2000.0);
    CHECK(values[0].at("name") == "sm 17: entries");
    CHECK(values[0].at("args").at("value") == 2.5);
    // Two groups with a name and a place, one line with slices: each once.
    std::map<std::string, int> meta;
    for (const auto& event : events(file, "M")) ++meta[event.at("name").get<std::string>()];
    CHECK(meta == std::map<std::string, int>{{"process_name", 2}, {"process_sort_index", 2}, {"thread_name", 1}});
  }
  SECTION("Perfetto") {
    const PerfettoTrace trace = as_perfetto(timeline);
    REQUIRE(trace.groups.size() == 2);
    const auto& slices = trace.groups.at("gpu0 gpc2").at("sm 17").slices;
    REQUIRE(slices.size() == 2);
    CHECK((slices[0].name == "nothing long" && slices[0].begin == 5 && slices[0].end == 5 && slices[0].args.empty()));
    CHECK((slices[1].name == "cta 5" && slices[1].begin == 1234 && slices[1].end == 3000));
    CHECK(slices[1].args == std::map<std::string, std::int64_t>{{"task", 7}, {"index", -3}});
    const auto& line = trace.groups.at("gpu0").at("sm 17: entries");
    CHECK(line.values);
    CHECK(line.samples == std::vector<std::pair<std::uint64_t, double>>{{2'000'000, 2.5}});
  }
}

TEST_CASE("picoseconds are kept in JSON however late it is", "[timeline]") {
  const TempDir dir;
  Timeline timeline(kPlenty);
  // Beyond the 53 bits of a double.
  timeline.slice(timeline.track("g", "l"), 12'345'678'901'234'567'891U, 12'345'678'901'234'567'894U, "x", {});
  timeline.finish();
  write_timeline(timeline, TimelineFormat::json, dir.file("t.json"));
  const std::string text = read_raw(dir.file("t.json"));
  CHECK_THAT(text, Contains("\"ts\":12345678901234.567891,"));
  CHECK_THAT(text, Contains("\"dur\":0.000003,"));
}

TEST_CASE("slices of equal times lie in each other as they were drawn, whatever the order of their telling",
          "[timeline]") {
  for (const std::uint64_t seed : test::seeds(30)) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<Drawn> drawn;
    grow(random, 0, 40'000, 0, drawn);
    std::vector<std::size_t> order(drawn.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    // Equal slices have no other order than that of their telling.
    random.shuffle(order);
    std::set<std::pair<Picoseconds, Picoseconds>> seen;
    Timeline timeline(kPlenty);
    const TrackId line = timeline.track("g", "l");
    std::multiset<std::tuple<std::uint64_t, std::uint64_t, std::string>> expected;
    for (const std::size_t i : order) {
      if (!seen.insert({drawn[i].begin, drawn[i].end}).second) continue;
      timeline.slice(line, drawn[i].begin, drawn[i].end, drawn[i].name, {{"i", static_cast<std::int64_t>(i)}});
      expected.emplace(drawn[i].begin / 1000, drawn[i].end / 1000, drawn[i].name);
    }
    const PerfettoTrace trace = as_perfetto(timeline);
    REQUIRE(trace.groups.at("g").size() == 1);
    std::multiset<std::tuple<std::uint64_t, std::uint64_t, std::string>> got;
    for (const PerfettoTrace::Slice& slice : trace.groups.at("g").at("l").slices) {
      got.emplace(slice.begin, slice.end, slice.name);
      const Drawn& its = drawn[static_cast<std::size_t>(slice.args.at("i"))];
      CHECK(slice.name == its.name);
      CHECK(slice.begin == its.begin / 1000);
      CHECK(slice.end == its.end / 1000);
      CHECK(slice.depth <= its.depth);  // less where what encloses it was equal to another and was left out
    }
    CHECK(got == expected);
  }
}

TEST_CASE("slices of a line that overlap in part are shown on several", "[timeline]") {
  Timeline timeline(kPlenty);
  const TrackId line = timeline.track("g", "l");
  timeline.slice(line, ns(0), ns(10), "a", {});
  timeline.slice(line, ns(5), ns(15), "b", {});
  timeline.slice(line, ns(10), ns(20), "c", {});
  const PerfettoTrace trace = as_perfetto(timeline);
  const auto& lines = trace.groups.at("g");
  REQUIRE(lines.size() == 2);
  CHECK((lines.at("l").slices.size() == 2 && lines.at("l").slices[1].name == "c"));
  CHECK((lines.at("l (2)").slices.size() == 1 && lines.at("l (2)").slices[0].name == "b"));
}

TEST_CASE("names of any kind leave the file valid", "[timeline]") {
  const std::vector<std::string> names = {
      "say \"hello\"",          "back\\slash", "new\nline", "tab\tbell\a", "", "{}%s", "\xC3\xA4\xE2\x82\xAC",
      std::string("nul\0in", 6)};
  Timeline timeline(kPlenty);
  for (const std::string& name : names) {
    const TrackId track = timeline.track("group " + name, name);
    timeline.slice(track, ns(1), ns(2), name, {});
    timeline.counter(track, ns(1), "of " + name, 1);
  }
  timeline.slice(timeline.track("odd", "odd"), ns(1), ns(2), "not \xFF UTF-8", {});
  const auto slices = events(as_json(timeline), "X");
  REQUIRE(slices.size() == names.size() + 1);
  const PerfettoTrace trace = as_perfetto(timeline);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(slices[i].at("name") == names[i]);
    CHECK(trace.groups.at("group " + names[i]).at(names[i]).slices.at(0).name == names[i]);
  }
  CHECK(trace.groups.at("odd").at("odd").slices.at(0).name == "not \xEF\xBF\xBD UTF-8");
}

TEST_CASE("files are compressed, save for a path that ends in .json", "[timeline]") {
  const TempDir dir;
  Timeline timeline(kPlenty);
  const TrackId track = timeline.track("g", "l");
  for (int i = 0; i < 30'000; ++i) timeline.slice(track, ns(i), ns(i + 1), "slice", {{"i", i}});  // several buffers
  timeline.finish();
  for (const char* name : {"t.json.gz", "t.json"}) write_timeline(timeline, TimelineFormat::json, dir.file(name));
  write_timeline(timeline, TimelineFormat::perfetto, dir.file("t.pftrace"));
  for (const char* name : {"t.json.gz", "t.pftrace"}) {
    const std::string packed = read_raw(dir.file(name));
    CHECK(static_cast<unsigned char>(packed.at(0)) == 0x1F);
    CHECK(static_cast<unsigned char>(packed.at(1)) == 0x8B);
  }
  const std::string text = read_raw(dir.file("t.json"));
  CHECK(text.front() == '{');
  CHECK(read_raw(dir.file("t.json.gz")).size() < text.size() / 5);
  const bool same = read_gz(dir.file("t.json.gz")) == text;
  CHECK(same);
  REQUIRE(events(nlohmann::json::parse(text), "X").size() == 30'000);
  const PerfettoTrace trace{read_gz(dir.file("t.pftrace"))};
  CHECK(trace.groups.at("g").at("l").slices.size() == 30'000);
}

TEST_CASE("arrows join the slices that they were drawn between", "[timeline]") {
  Timeline timeline(kPlenty);
  const TrackId a = timeline.track("g", "a");
  const TrackId b = timeline.track("h", "b");
  for (int i = 0; i < 3; ++i) {
    timeline.slice(a, ns(10 * i), ns(10 * i + 5), "cause", {});
    timeline.slice(b, ns(10 * i + 5), ns(10 * i + 9), "effect", {});
    timeline.flow({a, ns(10 * i), ns(10 * i + 5)}, {b, ns(10 * i + 5), ns(10 * i + 9)});
  }
  const PerfettoTrace trace = as_perfetto(timeline);
  for (std::size_t i = 0; i < 3; ++i) {
    const PerfettoTrace::Slice& cause = trace.groups.at("g").at("a").slices.at(i);
    const PerfettoTrace::Slice& effect = trace.groups.at("h").at("b").slices.at(i);
    REQUIRE((cause.flows.size() == 1 && cause.ended.empty()));
    CHECK((effect.ended == cause.flows && effect.flows.empty()));
  }
  const nlohmann::json file = as_json(timeline);
  const auto from = events(file, "s");
  const auto to = events(file, "f");
  REQUIRE((from.size() == 3 && to.size() == 3));
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(from[i].at("id") == to[i].at("id"));
    CHECK(from[i].at("ts").get<double>() == Approx(0.01 * static_cast<double>(i)));
    CHECK(to[i].at("ts").get<double>() == Approx(0.01 * static_cast<double>(i) + 0.005));
  }
}

TEST_CASE("what a viewer could not read is refused", "[timeline]") {
  Timeline timeline(kPlenty);
  const TrackId track = timeline.track("g", "l");
  CHECK_THROWS_AS(timeline.slice(track, ns(2), ns(1), "backwards", {}), CheckFailed);
  CHECK_THROWS_AS(timeline.counter(track, ns(2), "x", std::nan("")), CheckFailed);
  CHECK_THROWS_AS(timeline.counter(track, ns(2), "x", INFINITY), CheckFailed);
  CHECK(events(as_json(timeline), "X").empty());
}

TEST_CASE("a file that cannot be written is the user's to know", "[timeline]") {
  const TempDir dir;
  SECTION("no such directory") {
    const std::string path = dir.file("missing/t.json");
    const std::string message = test::failure_of([&] { check_writable(path); });
    CHECK_THAT(message, Contains(path));
    CHECK_THAT(message, Contains("--out"));
    CHECK_THROWS_AS(check_writable(path), InputError);
    CHECK_THROWS_AS(write_timeline(Timeline(kPlenty), TimelineFormat::json, path), InputError);
    CHECK_NOTHROW(check_writable(dir.file("t.json")));
  }
  if (!fs::exists("/dev/full")) return;
  for (const char* name : {"full.json", "full.pftrace"}) {
    DYNAMIC_SECTION("disk full: " << name) {
      fs::create_symlink("/dev/full", dir.file(name));
      Timeline timeline(kPlenty);
      const TrackId track = timeline.track("g", "l");
      Random random(1);  // so that compression does not hide it
      for (int i = 0; i < 200'000; ++i) {
        timeline.slice(track, ns(i), ns(i + 1), "x", {{"noise", static_cast<std::int64_t>(random.next())}});
      }
      timeline.finish();
      for (const TimelineFormat format : {TimelineFormat::json, TimelineFormat::perfetto}) {
        CHECK_THROWS_AS(write_timeline(timeline, format, dir.file(name)), InputError);
      }
    }
  }
}

}  // namespace common_timeline_file_test

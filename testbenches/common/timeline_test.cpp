// What a timeline keeps: filters, and levels of detail.
#include "common/timeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace common_timeline_test {

using namespace heddle;
using test::Random;

namespace {

constexpr Picoseconds us(Picoseconds value) { return 1'000'000 * value; }

const Timeline::Line* line_of(const std::vector<Timeline::Line>& lines, const std::string& name) {
  const auto found = std::find_if(lines.begin(), lines.end(), [&name](const auto& line) { return line.name == name; });
  return found == lines.end() ? nullptr : &*found;
}

std::vector<Timeline::Line> lines_of(const Timeline& timeline, const std::string& group) {
  const auto& groups = timeline.groups();
  const auto found = std::find(groups.begin(), groups.end(), group);
  return found == groups.end() ? std::vector<Timeline::Line>()
                               : timeline.lines(static_cast<std::size_t>(found - groups.begin()));
}

std::int64_t argument(const Timeline& timeline, const TimelineSlice& slice, const std::string& key) {
  for (const auto& [number, value] : slice.args) {
    if (timeline.text(number) == key) return value;
  }
  FAIL("no argument " << key);
  return 0;
}

// Names of the slices of a line.
std::vector<std::string> names_of(const Timeline& timeline, const std::string& group, const std::string& name) {
  const std::vector<Timeline::Line> lines = lines_of(timeline, group);
  const Timeline::Line* line = line_of(lines, name);
  std::vector<std::string> names;
  if (line == nullptr) return names;
  for (const TimelineSlice& slice : line->slices) names.push_back(timeline.text(slice.name));
  return names;
}

// CTAs of kernels that follow each other on SMs of so many slots, told as they end.
struct Cta {
  std::uint32_t sm, slot;
  Picoseconds begin, end;
  std::string kernel;
};

std::vector<Cta> ctas_of(Random& random, std::uint32_t sms, std::uint32_t slots, std::size_t kernels) {
  std::vector<Cta> ctas;
  Picoseconds at = 0;
  for (std::size_t k = 0; k < kernels; ++k) {
    Picoseconds last = at;
    for (std::uint32_t sm = 0; sm < sms; ++sm) {
      for (std::uint32_t slot = 0; slot < slots; ++slot) {
        Picoseconds begin = at + random.below(us(1));
        for (std::uint32_t i = 0; i < 20; ++i) {
          const Picoseconds end = begin + 1 + random.below(us(2));
          ctas.push_back({sm, slot, begin, end, "kernel " + std::to_string(k)});
          last = std::max(last, end);
          begin = end + random.below(1000);
        }
      }
    }
    at = last + us(20);
  }
  std::sort(ctas.begin(), ctas.end(), [](const Cta& a, const Cta& b) { return a.end < b.end; });
  return ctas;
}

void draw(Timeline& timeline, const std::vector<Cta>& ctas) {
  for (const Cta& cta : ctas) {
    const TrackId line =
        timeline.detail_track("sm" + std::to_string(cta.sm), "slot " + std::to_string(cta.slot), {"CTAs", true});
    timeline.slice(line, cta.begin, cta.end, cta.kernel, {{"cta", 1}});
  }
}

}  // namespace

TEST_CASE("as long as there is room, every detail is kept", "[timeline]") {
  Random random(test::seed());
  const std::vector<Cta> ctas = ctas_of(random, 3, 2, 4);
  Timeline timeline(ctas.size());
  draw(timeline, ctas);
  timeline.finish();
  CHECK(timeline.merged() == 0);
  CHECK(timeline.lost().empty());
  std::size_t count = 0;
  for (std::size_t group = 0; group < timeline.groups().size(); ++group) {
    for (const Timeline::Line& line : timeline.lines(group)) count += line.slices.size();
  }
  CHECK(count == ctas.size());
}

TEST_CASE("too many CTAs are merged by SM and kernel, and nothing of them is lost from the sums", "[timeline]") {
  for (const std::uint64_t seed : test::seeds(5)) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<Cta> ctas = ctas_of(random, 4, 3, 12);
    Timeline timeline(1000);
    const TrackId stream = timeline.track("streams", "a");
    for (int i = 0; i < 5000; ++i) timeline.slice(stream, us(i), us(i + 1), "kernel", {});
    draw(timeline, ctas);
    timeline.finish();
    CHECK(timeline.merged() == ctas.size());
    CHECK_FALSE(timeline.lost().empty());
    CHECK(names_of(timeline, "timeline", "notes") == std::vector<std::string>{timeline.lost()});
    // Lines without details are whole, however many slices they have.
    CHECK(names_of(timeline, "streams", "a").size() == 5000);
    std::size_t shown = 0;
    for (std::uint32_t sm = 0; sm < 4; ++sm) {
      struct Sum {
        std::int64_t count = 0;
        Picoseconds busy = 0;
        Picoseconds begin = ~Picoseconds{0};
        Picoseconds end = 0;
      };
      std::map<std::string, Sum> expected;
      Picoseconds all_busy = 0;
      for (const Cta& cta : ctas) {
        if (cta.sm != sm) continue;
        Sum& sum = expected[cta.kernel];
        ++sum.count;
        sum.busy += cta.end - cta.begin;
        sum.begin = std::min(sum.begin, cta.begin);
        sum.end = std::max(sum.end, cta.end);
        all_busy += cta.end - cta.begin;
      }
      const std::vector<Timeline::Line> lines = lines_of(timeline, "sm" + std::to_string(sm));
      CHECK(line_of(lines, "slot 0") == nullptr);
      const Timeline::Line* merged = line_of(lines, "CTAs");
      REQUIRE(merged != nullptr);
      // Kernels are further apart than what is merged across: one slice for each.
      REQUIRE(merged->slices.size() == expected.size());
      shown += merged->slices.size();
      for (const TimelineSlice& slice : merged->slices) {
        const Sum& sum = expected.at(timeline.text(slice.name));
        CHECK(slice.begin == sum.begin);
        CHECK(slice.end == sum.end);
        CHECK(argument(timeline, slice, "count") == sum.count);
        CHECK(argument(timeline, slice, "busy_ns") == static_cast<std::int64_t>(sum.busy / 1000));
      }
      // How many were there at once, over time: its integral is what they took together.
      const Timeline::Line* at_once = line_of(lines, "CTAs at once");
      REQUIRE(at_once != nullptr);
      double integral = 0;
      for (std::size_t i = 0; i + 1 < at_once->samples.size(); ++i) {
        const auto& [when, value] = at_once->samples[i];
        integral += value * static_cast<double>(at_once->samples[i + 1].first - when);
        CHECK((value >= 0 && value <= 3.0001));
      }
      CHECK(at_once->samples.back().second == 0);
      CHECK(integral == Approx(static_cast<double>(all_busy)).epsilon(1e-9));
    }
    CHECK(shown <= 1000);
  }
}

TEST_CASE("more kernels than slices may be are merged with each other", "[timeline]") {
  constexpr std::size_t kMost = 200;
  Timeline timeline(kMost);
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const TrackId line = timeline.detail_track("sm" + std::to_string(i % 4), "slot", {"CTAs", true});
    timeline.slice(line, us(i), us(i + 1), "kernel " + std::to_string(i), {});
  }
  timeline.finish();
  std::int64_t count = 0;
  std::size_t shown = 0;
  for (std::uint32_t sm = 0; sm < 4; ++sm) {
    const std::vector<Timeline::Line> lines = lines_of(timeline, "sm" + std::to_string(sm));
    for (const Timeline::Line& line : lines) {
      shown += line.slices.size();
      for (const TimelineSlice& slice : line.slices) count += argument(timeline, slice, "count");
    }
    CHECK(names_of(timeline, "sm" + std::to_string(sm), "CTAs").front() == "several");
  }
  CHECK(count == 20'000);
  CHECK(shown <= kMost);
  CHECK(shown > 4);  // no coarser than need be
}

TEST_CASE("values are thinned out, and the last of an interval stays", "[timeline]") {
  Timeline timeline(100);
  const TrackId line = timeline.track("g", "load");
  for (int i = 0; i < 10'000; ++i) timeline.counter(line, us(i), "GB/s", i);
  timeline.finish();
  const std::vector<Timeline::Line> lines = lines_of(timeline, "g");
  const Timeline::Line* values = line_of(lines, "load: GB/s");
  REQUIRE(values != nullptr);
  CHECK(values->samples.size() + timeline.thinned() == 10'000);
  CHECK(values->samples.size() <= 100);
  CHECK(values->samples.size() > 10);
  for (const auto& [when, value] : values->samples) CHECK(when == us(static_cast<Picoseconds>(value)));
  CHECK(values->samples.back().second == 9999);
  CHECK(timeline.lost().find("thinned out") != std::string::npos);
}

TEST_CASE("without room there are no details at all, and this is said", "[timeline]") {
  Timeline timeline(0);
  const TrackId stream = timeline.track("streams", "a");
  timeline.slice(stream, 0, us(1), "kernel", {});
  const TrackId slot = timeline.detail_track("sm0", "slot 0", {"CTAs", true});
  timeline.slice(slot, 0, us(1), "kernel", {});
  timeline.counter(stream, 0, "x", 1);
  timeline.finish();
  CHECK(names_of(timeline, "streams", "a").size() == 1);
  CHECK(lines_of(timeline, "sm0").empty());
  CHECK(timeline.lost().find("2 slices and values are left out") != std::string::npos);
}

TEST_CASE("what lies within a detail goes with it", "[timeline]") {
  const auto fill = [](Timeline& timeline) {
    const TrackId line = timeline.detail_track("tmau", "request 0", {"requests", false});
    for (Picoseconds i = 0; i < 100; ++i) {
      timeline.slice(line, us(10 * i), us(10 * i + 8), "load", {});
      timeline.slice(line, us(10 * i), us(10 * i + 3), "queue", {});
      timeline.slice(line, us(10 * i + 3), us(10 * i + 8), "lines", {});
    }
    timeline.finish();
  };
  Timeline whole(1000);
  fill(whole);
  CHECK(names_of(whole, "tmau", "request 0").size() == 300);
  Timeline merged(100);
  fill(merged);
  std::int64_t loads = 0;
  for (const Timeline::Line& line : lines_of(merged, "tmau")) {
    for (const TimelineSlice& slice : line.slices) {
      CHECK(merged.text(slice.name) == "load");
      loads += argument(merged, slice, "count");
    }
  }
  CHECK(loads == 100);
}

TEST_CASE("a timeline can be that of a part of the time, of some lines, of some kernels", "[timeline]") {
  const auto fill = [](Timeline& timeline) {
    const TrackId stream = timeline.track("gpu0 streams", "stream a");
    const TrackId other = timeline.track("gpu0 streams", "stream b");
    const TrackId slot = timeline.detail_track("gpu0 gpc0.sm1", "CTA slot 0", {"CTAs", true});
    for (Picoseconds i = 0; i < 10; ++i) {
      const std::string kernel = i % 2 == 0 ? "gemm<int>" : "softmax";
      timeline.slice(stream, us(i), us(i + 1), kernel, {});
      timeline.slice(other, us(i), us(i + 1), kernel, {});
      timeline.slice(slot, us(i), us(i + 1), kernel, {});
      timeline.counter(stream, us(i), "load", static_cast<double>(i));
      if (i > 0) timeline.flow({stream, us(i - 1), us(i)}, {other, us(i), us(i + 1)});
    }
    timeline.finish();
  };
  SECTION("time") {
    TimelineFilter filter;
    filter.from = us(3) + 1;
    filter.to = us(6) - 1;
    Timeline timeline(1000, filter);
    fill(timeline);
    CHECK(names_of(timeline, "gpu0 streams", "stream a").size() == 3);
    CHECK(names_of(timeline, "gpu0 gpc0.sm1", "CTA slot 0").size() == 3);
    CHECK(timeline.arrows().size() == 2);
    const std::vector<Timeline::Line> lines = lines_of(timeline, "gpu0 streams");
    CHECK(line_of(lines, "stream a: load")->samples.size() == 2);
    CHECK(timeline.lost().empty());
  }
  SECTION("lines") {
    TimelineFilter filter;
    filter.lines = {"stream a", "*sm1 CTA slot ?"};
    Timeline timeline(1000, filter);
    fill(timeline);
    CHECK(names_of(timeline, "gpu0 streams", "stream a").size() == 10);
    CHECK(names_of(timeline, "gpu0 streams", "stream b").empty());
    CHECK(names_of(timeline, "gpu0 gpc0.sm1", "CTA slot 0").size() == 10);
    CHECK(timeline.arrows().empty());
  }
  SECTION("kernels: of details") {
    TimelineFilter filter;
    filter.kernels = {"gemm"};
    Timeline timeline(1000, filter);
    fill(timeline);
    CHECK(names_of(timeline, "gpu0 streams", "stream a").size() == 10);
    CHECK(names_of(timeline, "gpu0 gpc0.sm1", "CTA slot 0") == std::vector<std::string>(5, "gemm<int>"));
  }
}

TEST_CASE("a pattern without wildcards fits a part, one with them the whole", "[timeline]") {
  CHECK(fits({}, "anything"));
  CHECK(fits({"sm1"}, "gpu0 gpc0.sm1 CTA slot 3"));
  CHECK_FALSE(fits({"sm2"}, "gpu0 gpc0.sm1 CTA slot 3"));
  CHECK(fits({"*sm?*"}, "gpu0 gpc0.sm1 CTA slot 3"));
  CHECK_FALSE(fits({"sm?"}, "gpu0 gpc0.sm1 CTA slot 3"));
  CHECK(fits({"no", "slot"}, "gpu0 gpc0.sm1 CTA slot 3"));
}

}  // namespace common_timeline_test

// Statistics: what they count, how they are named in stats.json, and how good quantiles are.
#include "common/stats.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/observation.h"
#include "support/random.h"

namespace common_stats_test {

using namespace heddle;
using Catch::Contains;

namespace {

// The value at the rank that the share says, from the sorted values themselves.
double exact_quantile(const std::vector<std::uint64_t>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[rank == 0 ? 0 : rank - 1]);
}

}  // namespace

TEST_CASE("counters go up, gauges remember their maximum", "[stats]") {
  Counter counter;
  counter.add();
  counter.add(41);
  CHECK(counter.value() == 42);
  counter.clear();
  CHECK(counter.value() == 0);
  Gauge gauge;
  gauge.set(3);
  gauge.set(7.5);
  gauge.set(2);
  CHECK(gauge.value() == 2);
  CHECK(gauge.max() == 7.5);
  gauge.clear();
  CHECK(gauge.max() == 0);
}

TEST_CASE("an empty histogram has no values, one value is exact", "[stats]") {
  Histogram h;
  CHECK(h.count() == 0);
  CHECK(h.mean() == 0);
  CHECK(h.min() == 0);
  CHECK(h.max() == 0);
  CHECK(h.quantile(0.5) == 0);
  CHECK(h.bins().empty());
  h.add(123'456'789);
  for (const double share : {0.0, 0.5, 0.99, 1.0}) CHECK(h.quantile(share) == 123'456'789.0);
  CHECK(h.mean() == 123'456'789.0);
}

TEST_CASE("small values are exact", "[stats]") {
  Histogram h;
  for (std::uint64_t value = 0; value < 16; ++value) h.add(value);
  for (std::uint64_t value = 0; value < 16; ++value) {
    CHECK(h.quantile((static_cast<double>(value) + 1) / 16) == static_cast<double>(value));
  }
  CHECK(h.bins().size() == 16);
}

TEST_CASE("a count of equal values is as good as as many single ones", "[stats]") {
  Histogram one, many;
  one.add(1000, 50);
  one.add(3, 7);
  for (int i = 0; i < 50; ++i) many.add(1000);
  for (int i = 0; i < 7; ++i) many.add(3);
  CHECK(one.count() == many.count());
  CHECK(one.mean() == Approx(many.mean()));
  CHECK(one.quantile(0.1) == many.quantile(0.1));
  CHECK(one.quantile(0.5) == many.quantile(0.5));
}

TEST_CASE("quantiles are within 6 % of the exact ones", "[stats]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 200; ++round) {
    Histogram h;
    std::vector<std::uint64_t> values;
    const std::uint64_t count = dice.between64(1, 500);
    const std::uint64_t shape = dice.between64(0, 3);
    const std::uint64_t base = dice.next() >> dice.between64(2, 62);
    long double sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t value = 0;
      switch (shape) {
        case 0:
          value = dice.between64(0, 10'000);
          break;
        case 1:
          value = dice.next() >> dice.between64(1, 63);
          break;  // every magnitude
        case 2:
          value = base + dice.between64(0, 1 + base / 50);
          break;  // close together
        default:
          value = std::uint64_t{1} << dice.between64(0, 62);
          break;  // beginnings of buckets
      }
      values.push_back(value);
      sum += static_cast<long double>(value);
      h.add(value);
    }
    std::sort(values.begin(), values.end());
    CAPTURE(round, shape, count, base);
    REQUIRE(h.count() == count);
    REQUIRE(h.min() == values.front());
    REQUIRE(h.max() == values.back());
    REQUIRE(h.mean() == Approx(static_cast<double>(sum / static_cast<long double>(count))));
    for (const double share : {0.0, 0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0}) {
      CAPTURE(share);
      const double exact = exact_quantile(values, share);
      REQUIRE(std::abs(h.quantile(share) - exact) <= 0.06 * exact);
    }
    std::uint64_t in_bins = 0;
    const std::vector<Histogram::Bin> bins = h.bins();
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const auto inside = static_cast<std::uint64_t>(std::count_if(
          values.begin(), values.end(), [&](std::uint64_t v) { return v >= bins[i].begin && v < bins[i].end; }));
      if (bins[i].count != inside) REQUIRE(bins[i].count == inside);
      if (i > 0 && bins[i].begin != bins[i - 1].end) REQUIRE(bins[i].begin == bins[i - 1].end);
      in_bins += bins[i].count;
    }
    REQUIRE(in_bins == count);
    REQUIRE(bins.front().count > 0);
    REQUIRE(bins.back().count > 0);
  }
}

TEST_CASE("no value is farther than 6 % from the quantile of its bucket", "[stats]") {
  // The worst cases are the ends of a bucket that holds values far apart.
  for (unsigned power = 4; power < 62; ++power) {
    const std::uint64_t eighth = std::uint64_t{1} << (power - 3);
    for (std::uint64_t part = 8; part < 16; ++part) {
      for (const std::uint64_t value : {part * eighth, part * eighth + eighth - 1}) {
        Histogram h;
        h.add(value, 9);
        h.add(0, 5);                                          // so that minimum and maximum
        h.add(std::numeric_limits<std::uint64_t>::max(), 5);  // do not help
        const auto exact = static_cast<double>(value);
        CAPTURE(power, part, value);
        REQUIRE(std::abs(h.quantile(0.5) - exact) <= 0.06 * exact);
      }
    }
  }
}

TEST_CASE("the registry refuses a second statistic of one path", "[stats]") {
  Stats stats;
  stats.counter("gpu0.cwd.ctas", "CTAs", "CTAs launched");
  CHECK_THROWS_AS(stats.counter("gpu0.cwd.ctas", "CTAs", "again"), CheckFailed);
  CHECK_THROWS_AS(stats.gauge("gpu0.cwd.ctas", "CTAs", "again"), CheckFailed);
  CHECK_THROWS_AS(stats.histogram("gpu0.cwd.ctas", "CTAs", "again"), CheckFailed);
  CHECK(stats.to_json().size() == 1);
}

TEST_CASE("references to statistics stay valid while others are added", "[stats]") {
  Stats stats;
  Counter& first = stats.counter("a", "x", "");
  for (int i = 0; i < 1000; ++i) stats.counter("b" + std::to_string(i), "x", "").add();
  first.add(5);
  CHECK(stats.to_json().at("a").at("value") == 5);
}

TEST_CASE("stats.json has value, unit and description by path", "[stats]") {
  Stats stats;
  stats.counter("gpu0.n", "CTAs", "CTAs launched").add(7);
  Gauge& level = stats.gauge("gpu0.level", "entries", "entries in the queue");
  level.set(9);
  stats.gauge("gpu0.steady", "entries", "never lower").set(4);
  Histogram& wait = stats.histogram("gpu0.wait", "cycles", "waiting time");
  stats.histogram("gpu0.unused", "cycles", "nothing");
  for (std::uint64_t v = 1; v <= 10; ++v) wait.add(v);
  level.set(2);

  const nlohmann::json json = stats.to_json();
  for (const auto& [path, item] : json.items()) {
    CAPTURE(path);
    CHECK(item.size() == 3);
    CHECK(item.at("value").is_number());
    CHECK(item.at("unit").is_string());
    CHECK(item.at("description").is_string());
  }
  CHECK(json.at("gpu0.n") == nlohmann::json({{"value", 7}, {"unit", "CTAs"}, {"description", "CTAs launched"}}));
  CHECK(json.at("gpu0.level").at("value") == 2);
  CHECK(json.at("gpu0.level.max").at("value") == 9);
  CHECK_THAT(json.at("gpu0.level.max").at("description").get<std::string>(),
             Contains("maximum of: entries in the queue"));
  CHECK(json.at("gpu0.steady").at("value") == 4);
  CHECK_FALSE(json.contains("gpu0.steady.max"));
  CHECK(json.at("gpu0.wait.count").at("value") == 10);
  CHECK(json.at("gpu0.wait.count").at("unit") == "samples");
  CHECK(json.at("gpu0.wait.mean").at("value") == 5.5);
  CHECK(json.at("gpu0.wait.min").at("value") == 1);
  CHECK(json.at("gpu0.wait.max").at("value") == 10);
  CHECK(json.at("gpu0.wait.p50").at("value") == 5);
  CHECK(json.at("gpu0.wait.p95").at("value") == 10);
  CHECK(json.at("gpu0.wait.p99").at("value") == 10);
  CHECK(json.at("gpu0.wait.p99").at("unit") == "cycles");
  CHECK_FALSE(json.contains("gpu0.wait"));
  CHECK(json.at("gpu0.unused.count").at("value") == 0);
  CHECK_FALSE(json.contains("gpu0.unused.mean"));
  CHECK(json.size() == 4 + 7 + 1);

  const nlohmann::json histograms = stats.histograms_json();
  REQUIRE(histograms.size() == 1);
  const nlohmann::json& item = histograms.at("gpu0.wait");
  CHECK(item.at("unit") == "cycles");
  CHECK(item.at("description") == "waiting time");
  CHECK(item.at("begin") == nlohmann::json({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  CHECK(item.at("end") == nlohmann::json({2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  CHECK(item.at("count") == nlohmann::json({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST_CASE("clear() returns every statistic to nothing and keeps the paths", "[stats]") {
  Stats stats;
  Counter& counter = stats.counter("c", "x", "");
  Gauge& gauge = stats.gauge("g", "x", "");
  Histogram& histogram = stats.histogram("h", "x", "");
  counter.add(3);
  gauge.set(3);
  histogram.add(3);
  stats.clear();
  CHECK(stats.to_json() == [] {
    Stats fresh;
    fresh.counter("c", "x", "");
    fresh.gauge("g", "x", "");
    fresh.histogram("h", "x", "");
    return fresh.to_json();
  }());
  histogram.add(9);
  CHECK(histogram.min() == 9);
  CHECK(stats.to_json().at("h.count").at("value") == 1);
}

}  // namespace common_stats_test

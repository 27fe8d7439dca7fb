#include "common/stats.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "common/error.h"

namespace heddle {

std::uint64_t Histogram::begin_of(std::uint32_t bucket) {
  if (bucket < 16) return bucket;
  const std::uint32_t power = (bucket - 16) / 8 + 4;
  const std::uint64_t eighth = (bucket - 16) % 8;
  return (std::uint64_t{8} + eighth) << (power - 3);
}

double Histogram::quantile(double share) const {
  if (count_ == 0) return 0.0;
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += buckets_[bucket];
    if (seen < rank || buckets_[bucket] == 0) continue;
    const auto first = static_cast<double>(begin_of(bucket));
    if (bucket < 16) return first;
    // The harmonic middle is off by the same share at both ends of the bucket: at most 1/17.
    const auto last = static_cast<double>(begin_of(bucket + 1) - 1);
    const double middle = 2 * first * last / (first + last);
    return std::min(std::max(middle, static_cast<double>(min_)), static_cast<double>(max_));
  }
  return static_cast<double>(max_);
}

std::vector<Histogram::Bin> Histogram::bins() const {
  std::vector<Bin> result;
  if (count_ == 0) return result;
  for (std::uint32_t bucket = bucket_of(min_); bucket <= bucket_of(max_); ++bucket) {
    result.push_back({begin_of(bucket), begin_of(bucket + 1), buckets_[bucket]});
  }
  return result;
}

Stats::Entry& Stats::add(const std::string& path, const std::string& unit, const std::string& description) {
  const auto [at, inserted] = entries_.try_emplace(path);
  HEDDLE_CHECK(inserted, "two statistics have the path " + path);
  at->second.unit = unit;
  at->second.description = description;
  return at->second;
}

Counter& Stats::counter(const std::string& path, const std::string& unit, const std::string& description) {
  Entry& entry = add(path, unit, description);
  entry.counter = &counters_.emplace_back();
  return *entry.counter;
}

Gauge& Stats::gauge(const std::string& path, const std::string& unit, const std::string& description) {
  Entry& entry = add(path, unit, description);
  entry.gauge = std::make_unique<Gauge>();
  return *entry.gauge;
}

Histogram& Stats::histogram(const std::string& path, const std::string& unit, const std::string& description) {
  Entry& entry = add(path, unit, description);
  entry.histogram = std::make_unique<Histogram>();
  return *entry.histogram;
}

std::vector<Stats::Description> Stats::descriptions() const {
  std::vector<Description> result;
  for (const auto& [path, entry] : entries_) {
    const Kind kind = entry.counter ? Kind::counter : entry.gauge ? Kind::gauge : Kind::histogram;
    result.push_back({path, entry.unit, entry.description, kind});
  }
  return result;
}

void Stats::clear() {
  for (auto& [path, entry] : entries_) {
    if (entry.counter) entry.counter->clear();
    if (entry.gauge) entry.gauge->clear();
    if (entry.histogram) entry.histogram->clear();
  }
}

nlohmann::json Stats::to_json() const {
  nlohmann::json result = nlohmann::json::object();
  for (const auto& [path, entry] : entries_) {
    const std::string& description = entry.description;
    const auto put = [&result, &description](const std::string& name, const nlohmann::json& value,
                                             const std::string& what, const std::string& unit) {
      result[name] = {{"value", value}, {"unit", unit}, {"description", what + description}};
    };
    if (entry.counter) put(path, entry.counter->value(), "", entry.unit);
    if (entry.gauge) {
      put(path, entry.gauge->value(), "", entry.unit);
      if (entry.gauge->max() > entry.gauge->value()) put(path + ".max", entry.gauge->max(), "maximum of: ", entry.unit);
    }
    if (entry.histogram) {
      const Histogram& h = *entry.histogram;
      put(path + ".count", h.count(), "number of samples: ", "samples");
      if (h.count() == 0) continue;
      put(path + ".mean", h.mean(), "mean: ", entry.unit);
      put(path + ".min", h.min(), "minimum: ", entry.unit);
      put(path + ".max", h.max(), "maximum: ", entry.unit);
      put(path + ".p50", h.quantile(0.50), "median: ", entry.unit);
      put(path + ".p95", h.quantile(0.95), "95th percentile: ", entry.unit);
      put(path + ".p99", h.quantile(0.99), "99th percentile: ", entry.unit);
    }
  }
  return result;
}

double Stats::value(const std::string& path) const {
  if (const auto found = entries_.find(path); found != entries_.end()) {
    if (found->second.counter) return static_cast<double>(found->second.counter->value());
    if (found->second.gauge) return found->second.gauge->value();
  }
  const std::size_t dot = std::min(path.rfind('.'), path.size());
  const auto found = entries_.find(path.substr(0, dot));
  const std::string derived = path.substr(dot);
  if (found != entries_.end() && found->second.gauge && derived == ".max") return found->second.gauge->max();
  HEDDLE_CHECK(found != entries_.end() && found->second.histogram, "there is no statistic " + path);
  const Histogram& h = *found->second.histogram;
  if (derived == ".count") return static_cast<double>(h.count());
  if (derived == ".mean") return h.mean();
  if (derived == ".min") return static_cast<double>(h.min());
  if (derived == ".max") return static_cast<double>(h.max());
  if (derived == ".p50") return h.quantile(0.50);
  if (derived == ".p95") return h.quantile(0.95);
  if (derived == ".p99") return h.quantile(0.99);
  throw CheckFailed("there is no statistic " + path);
}

nlohmann::json Stats::histograms_json() const {
  nlohmann::json result = nlohmann::json::object();
  for (const auto& [path, entry] : entries_) {
    if (!entry.histogram || entry.histogram->count() == 0) continue;
    nlohmann::json& item = result[path];
    item = {{"unit", entry.unit}, {"description", entry.description}};
    for (const Histogram::Bin& bin : entry.histogram->bins()) {
      item["begin"].push_back(bin.begin);
      item["end"].push_back(bin.end);
      item["count"].push_back(bin.count);
    }
  }
  return result;
}

}  // namespace heddle

#include "common/stats.h"

#include <algorithm>
#include <cmath>
#include <functional>

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
  for (std::uint32_t bucket = 0; bucket < buckets_.size(); ++bucket) {
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

namespace {

std::uint32_t hash_of(const std::string& path) { return static_cast<std::uint32_t>(std::hash<std::string>()(path)); }

}  // namespace

// Where an entry is named in places_, or where it would be. Null: the path is none of those that are there.
std::size_t Stats::place_of(std::uint32_t hash, const std::string* path) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t place = hash & mask;
  for (; places_[place] != 0; place = (place + 1) & mask) {
    if (path == nullptr) continue;
    const Entry& entry = entries_[places_[place] - 1];
    if (entry.hash == hash && entry.path == *path) break;
  }
  return place;
}

// They are a power of two, and never more than half full.
void Stats::grow_places() {
  places_.assign(std::max<std::size_t>(64, 2 * places_.size()), 0);
  for (std::uint32_t i = 0; i < entries_.size(); ++i) places_[place_of(entries_[i].hash, nullptr)] = i + 1;
}

const Stats::Entry* Stats::find(const std::string& path) const {
  if (places_.empty()) return nullptr;
  const std::uint32_t number = places_[place_of(hash_of(path), &path)];
  return number == 0 ? nullptr : &entries_[number - 1];
}

const std::vector<const Stats::Entry*>& Stats::by_path() const {
  if (sorted_.size() != entries_.size()) {
    sorted_.clear();
    for (const Entry& entry : entries_) sorted_.push_back(&entry);
    std::sort(sorted_.begin(), sorted_.end(), [](const Entry* a, const Entry* b) { return a->path < b->path; });
  }
  return sorted_;
}

Stats::Entry& Stats::add(const std::string& path, const std::string& unit, const std::string& description, Kind kind) {
  if (2 * entries_.size() >= places_.size()) grow_places();
  const std::uint32_t hash = hash_of(path);
  std::uint32_t& place = places_[place_of(hash, &path)];
  HEDDLE_CHECK(place == 0, "two statistics have the path " + path);
  entries_.push_back({path, &*texts_.insert(unit).first, &*texts_.insert(description).first, nullptr, hash, kind});
  place = static_cast<std::uint32_t>(entries_.size());
  return entries_.back();
}

Counter& Stats::counter(const std::string& path, const std::string& unit, const std::string& description) {
  Entry& entry = add(path, unit, description, Kind::counter);
  entry.value = &counters_.emplace_back();
  return entry.counter();
}

Gauge& Stats::gauge(const std::string& path, const std::string& unit, const std::string& description) {
  Entry& entry = add(path, unit, description, Kind::gauge);
  entry.value = &gauges_.emplace_back();
  return entry.gauge();
}

Histogram& Stats::histogram(const std::string& path, const std::string& unit, const std::string& description) {
  Entry& entry = add(path, unit, description, Kind::histogram);
  entry.value = &histograms_.emplace_back();
  return entry.histogram();
}

std::vector<Stats::Description> Stats::descriptions() const {
  std::vector<Description> result;
  for (const Entry* entry : by_path()) result.push_back({entry->path, *entry->unit, *entry->description, entry->kind});
  return result;
}

void Stats::clear() {
  for (Counter& counter : counters_) counter.clear();
  for (Gauge& gauge : gauges_) gauge.clear();
  for (Histogram& histogram : histograms_) histogram.clear();
}

nlohmann::json Stats::to_json() const {
  nlohmann::json result = nlohmann::json::object();
  for (const Entry* entry : by_path()) {
    const std::string& path = entry->path;
    const auto put = [&result, entry](const std::string& name, const nlohmann::json& value, const std::string& what,
                                      const std::string& unit) {
      result[name] = {{"value", value}, {"unit", unit}, {"description", what + *entry->description}};
    };
    if (entry->kind == Kind::counter) {
      put(path, entry->counter().value(), "", *entry->unit);
    } else if (entry->kind == Kind::gauge) {
      const Gauge& gauge = entry->gauge();
      put(path, gauge.value(), "", *entry->unit);
      if (gauge.max() > gauge.value()) put(path + ".max", gauge.max(), "maximum of: ", *entry->unit);
    } else {
      const Histogram& h = entry->histogram();
      put(path + ".count", h.count(), "number of samples: ", "samples");
      if (h.count() == 0) continue;
      put(path + ".mean", h.mean(), "mean: ", *entry->unit);
      put(path + ".min", h.min(), "minimum: ", *entry->unit);
      put(path + ".max", h.max(), "maximum: ", *entry->unit);
      put(path + ".p50", h.quantile(0.50), "median: ", *entry->unit);
      put(path + ".p95", h.quantile(0.95), "95th percentile: ", *entry->unit);
      put(path + ".p99", h.quantile(0.99), "99th percentile: ", *entry->unit);
    }
  }
  return result;
}

double Stats::value(const std::string& path) const {
  if (const Entry* entry = find(path); entry != nullptr && entry->kind != Kind::histogram) {
    return entry->kind == Kind::counter ? static_cast<double>(entry->counter().value()) : entry->gauge().value();
  }
  const std::size_t dot = std::min(path.rfind('.'), path.size());
  const Entry* entry = find(path.substr(0, dot));
  const std::string derived = path.substr(dot);
  if (entry != nullptr && entry->kind == Kind::gauge && derived == ".max") return entry->gauge().max();
  HEDDLE_CHECK(entry != nullptr && entry->kind == Kind::histogram, "there is no statistic " + path);
  const Histogram& h = entry->histogram();
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
  for (const Entry* entry : by_path()) {
    if (entry->kind != Kind::histogram || entry->histogram().count() == 0) continue;
    nlohmann::json& item = result[entry->path];
    item = {{"unit", *entry->unit}, {"description", *entry->description}};
    for (const Histogram::Bin& bin : entry->histogram().bins()) {
      item["begin"].push_back(bin.begin);
      item["end"].push_back(bin.end);
      item["count"].push_back(bin.count);
    }
  }
  return result;
}

}  // namespace heddle

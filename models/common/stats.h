// Statistics: every one has a path, a unit and a description, and ends up in stats.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/bits.h"

namespace heddle {

// Counts events; only ever goes up.
class Counter {
 public:
  void add(std::uint64_t amount = 1) { value_ += amount; }
  std::uint64_t value() const { return value_; }
  void clear() { value_ = 0; }

 private:
  std::uint64_t value_ = 0;
};

// A value that goes up and down. Remembers its maximum.
class Gauge {
 public:
  void set(double value) {
    value_ = value;
    if (!set_ || value > max_) max_ = value;
    set_ = true;
  }
  double value() const { return value_; }
  double max() const { return max_; }  // 0 before the first value
  void clear() { *this = Gauge(); }

 private:
  double value_ = 0;
  double max_ = 0;
  bool set_ = false;
};

// A distribution of non-negative integers: exact below 16, then 8 buckets per power of two (quantiles within 6 %).
class Histogram {
 public:
  static constexpr std::uint32_t kBuckets = 16 + 60 * 8;

  void add(std::uint64_t value, std::uint64_t count = 1) {
    const std::uint32_t bucket = bucket_of(value);
    if (bucket >= buckets_.size()) buckets_.resize(bucket / 64 * 64 + 64);
    buckets_[bucket] += count;
    count_ += count;
    sum_ += static_cast<double>(value) * static_cast<double>(count);
    if (value < min_) min_ = value;
    if (value > max_) max_ = value;
  }
  std::uint64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  // The value below which the given share (0 … 1) of all values lies: the middle of its bucket.
  double quantile(double share) const;
  void clear() { *this = Histogram(); }

  struct Bin {
    std::uint64_t begin;  // first value of the bin
    std::uint64_t end;    // first value after it
    std::uint64_t count;
  };
  // The bins from the first to the last that is not empty.
  std::vector<Bin> bins() const;

 private:
  static std::uint32_t bucket_of(std::uint64_t value) {
    if (value < 16) return static_cast<std::uint32_t>(value);
    const std::uint32_t power = bits::highest(value);
    return 16 + (power - 4) * 8 + static_cast<std::uint32_t>(value >> (power - 3) & 7);
  }
  static std::uint64_t begin_of(std::uint32_t bucket);

  std::vector<std::uint64_t> buckets_;  // up to the last one that was needed: most histograms stay empty
  std::uint64_t count_ = 0;
  double sum_ = 0;
  std::uint64_t min_ = ~std::uint64_t{0};
  std::uint64_t max_ = 0;
};

// Owns the statistics of one device or run. References stay valid for the life of the registry.
class Stats {
 public:
  Counter& counter(const std::string& path, const std::string& unit, const std::string& description);
  Gauge& gauge(const std::string& path, const std::string& unit, const std::string& description);
  Histogram& histogram(const std::string& path, const std::string& unit, const std::string& description);

  enum class Kind : std::uint8_t { counter, gauge, histogram };
  struct Description {
    std::string path;
    std::string unit;
    std::string text;
    Kind kind;
  };
  // What there is, by path.
  std::vector<Description> descriptions() const;

  // How many there are; their number only grows.
  std::size_t size() const { return entries_.size(); }
  // Calls visit(path, counter) for each counter, by path.
  template <class Visit>
  void for_each_counter(Visit&& visit) const {
    for (const Entry* entry : by_path()) {
      if (entry->kind == Kind::counter) visit(entry->path, static_cast<const Counter&>(entry->counter()));
    }
  }

  void clear();
  // From path to {value, unit, description}. A histogram appears as path.count, .mean, .min, .max, .p50, .p95, .p99;
  // a gauge that was higher once also as path.max.
  nlohmann::json to_json() const;
  // One of the values of to_json(), by its path. Throws CheckFailed if there is none such.
  double value(const std::string& path) const;
  // From path to {unit, description, begin[], end[], count[]}.
  nlohmann::json histograms_json() const;

 private:
  // A large machine has a million of them.
  struct Entry {
    std::string path;
    const std::string* unit = nullptr;  // shared by all who say the same
    const std::string* description = nullptr;
    void* value = nullptr;   // of its kind
    std::uint32_t hash = 0;  // of the path
    Kind kind = Kind::counter;

    Counter& counter() const { return *static_cast<Counter*>(value); }
    Gauge& gauge() const { return *static_cast<Gauge*>(value); }
    Histogram& histogram() const { return *static_cast<Histogram*>(value); }
  };
  Entry& add(const std::string& path, const std::string& unit, const std::string& description, Kind kind);
  const Entry* find(const std::string& path) const;
  std::size_t place_of(std::uint32_t hash, const std::string* path) const;
  void grow_places();
  const std::vector<const Entry*>& by_path() const;

  std::deque<Entry> entries_;          // in the order of their declaration
  std::vector<std::uint32_t> places_;  // of entries, by a hash of their paths: number + 1; 0: free
  std::unordered_set<std::string> texts_;
  std::deque<Counter> counters_;
  std::deque<Gauge> gauges_;
  std::deque<Histogram> histograms_;
  mutable std::vector<const Entry*> sorted_;  // by path; made when it is asked for
};

// A block's statistics, each declared where it is a member:
//
//   struct L2Stats : StatGroup {
//     using StatGroup::StatGroup;
//     Counter& hits = counter("hits", "sectors", "sectors found in the cache");
//   };
//
// Paths are "<prefix>.<name>".
class StatGroup {
 public:
  StatGroup(Stats& stats, std::string prefix) : stats_(stats), prefix_(std::move(prefix)) {}

 protected:
  Counter& counter(const std::string& name, const std::string& unit, const std::string& description) {
    return stats_.counter(prefix_ + "." + name, unit, description);
  }
  Gauge& gauge(const std::string& name, const std::string& unit, const std::string& description) {
    return stats_.gauge(prefix_ + "." + name, unit, description);
  }
  Histogram& histogram(const std::string& name, const std::string& unit, const std::string& description) {
    return stats_.histogram(prefix_ + "." + name, unit, description);
  }

 private:
  Stats& stats_;
  std::string prefix_;
};

}  // namespace heddle

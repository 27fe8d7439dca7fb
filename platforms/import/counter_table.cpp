#include "import/counter_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "import/byte_source.h"
#include "import/counter_names.h"
#include "import/dependencies.h"
#include "import/kineto_json.h"

namespace heddle::import {
namespace {

using workload::KernelCounters;

constexpr std::string_view kRecordCounters =
    "Record with `ncu --csv --page raw --metrics …` or `rocprofv3 --pmc … --output-format csv`.";
constexpr double kMostCounted = 1e15;  // bytes, operations: more than the fastest machine does in a minute
constexpr std::string_view kRecordCountersAgain = "The file is damaged or of an unknown kind: record it again.";

// "1,234.5": with or without separators of thousands. None where it is no number that counts something.
std::optional<double> amount_in(std::string_view text) {
  std::string digits;
  for (const char letter : text) {
    if (letter != ',') digits.push_back(letter);
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || stop != digits.data() + digits.size() || !std::isfinite(value) || value < 0) {
    return std::nullopt;
  }
  return value;
}

// "(128, 4, 1)": the product.
std::optional<std::uint64_t> product_in(std::string_view text) {
  double product = 1;
  std::size_t numbers = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] < '0' || text[at] > '9') {
      if (std::string_view("(), ").find(text[at]) == std::string_view::npos) return std::nullopt;
      ++at;
      continue;
    }
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error != std::errc() || number == 0) return std::nullopt;
    at = static_cast<std::size_t>(stop - text.data());
    product *= static_cast<double>(number);
    ++numbers;
  }
  if (numbers == 0 || numbers > 3 || product > static_cast<double>(kMaxRecordedCtas)) return std::nullopt;
  return static_cast<std::uint64_t>(product);
}

// Lines that a profiler writes about itself ("==PROF== …") come before the table; how many.
std::size_t skip_remarks(ByteSource& source) {
  constexpr int kEnd = std::streambuf::traits_type::eof();
  std::size_t lines = 0;
  while (source.sgetc() == '=') {
    int letter = source.sbumpc();
    while (letter != '\n' && letter != kEnd) letter = source.sbumpc();
    ++lines;
  }
  return lines;
}

// The counters of one launch, as they come in.
class Launch {
 public:
  Launch(std::string kernel, std::uint64_t ctas, std::uint64_t threads) {
    counters_.kernel = std::move(kernel);
    counters_.ctas = ctas;
    counters_.threads = threads;
    ranks_.fill(std::numeric_limits<int>::max());
  }

  void add(const CounterName& counter, double amount) {
    const auto unit = static_cast<std::size_t>(counter.unit);
    if (counter.rank > ranks_[unit]) return;
    if (counter.rank < ranks_[unit]) counters_.all.amounts[unit] = 0;
    ranks_[unit] = counter.rank;
    counters_.known.set(unit);
    counters_.all.amounts[unit] += amount * counter.each;
  }

  const KernelCounters& counters() const { return counters_; }

 private:
  KernelCounters counters_;
  std::array<int, arch::kDemandUnits> ranks_{};  // of the counters that an amount is made of so far
};

// A table whose columns have names.
class CounterReader {
 public:
  explicit CounterReader(ByteSource& source) : csv_(source, skip_remarks(source)) {}

  std::vector<KernelCounters> read() {
    find_header();
    if (has("Counter_Name")) {
      read_rocprof();
    } else if (has("Metric Name")) {
      read_details();
    } else {
      read_raw();
    }
    return finish();
  }

 private:
  bool has(std::string_view column) const { return columns_.find(column) != columns_.end(); }
  std::size_t column(std::string_view name) const {
    const auto found = columns_.find(name);
    if (found == columns_.end()) csv_.fail(fmt::format("there is no column {}", name), kRecordCounters);
    return found->second;
  }
  const std::string& text(std::string_view name) const { return csv_.fields()[column(name)]; }
  [[noreturn]] void wrong(std::string_view name, std::string_view value, std::string_view expected) const {
    csv_.fail(fmt::format("{} is \"{}\", expected {}", name, printable(value, 60), expected), kRecordCountersAgain);
  }

  void find_header() {
    if (csv_.next()) {
      for (std::size_t i = 0; i < csv_.fields().size(); ++i) columns_.emplace(csv_.fields()[i], i);
      if (has("Kernel Name") || has("Kernel_Name")) {
        width_ = csv_.fields().size();
        return;
      }
    }
    throw InputError({csv_.source_name(), 1, 0}, "the first line does not name the columns of a table of counters",
                     std::string(kRecordCounters));
  }

  bool next_row() {
    if (!csv_.next()) return false;
    if (csv_.fields().size() == width_) return true;
    csv_.fail(fmt::format("has {} fields, and the table has {} columns", csv_.fields().size(), width_),
              kRecordCountersAgain);
  }

  Launch& launch(const std::string& id, std::string_view name, std::string_view grid, std::string_view block) {
    const auto known = by_id_.find(id);
    if (known != by_id_.end()) return launches_[known->second];
    const std::optional<std::uint64_t> threads = product_in(text(block));
    if (!threads || *threads > kMaxRecordedBlock) wrong(block, text(block), "up to 1024 threads");
    std::optional<std::uint64_t> ctas = product_in(text(grid));
    if (!ctas) wrong(grid, text(grid), "a grid");
    if (grid == "Grid_Size") *ctas = (*ctas - 1) / *threads + 1;  // work-items (INP-04)
    if (text(name).empty()) wrong(name, "", "the name of a kernel");
    by_id_.emplace(id, launches_.size());
    launches_.emplace_back(text(name), *ctas, *threads);
    return launches_.back();
  }

  double amount(std::string_view what, const std::string& value, std::string_view unit) const {
    const std::optional<double> number = amount_in(value);
    if (!number) wrong(what, value, "a number of at least 0");
    const double factor = unit_factor(unit);
    if (factor == 0) wrong(what, unit, "a unit of bytes or counts");
    if (*number * factor > kMostCounted) wrong(what, value, "at most 10^15");
    return *number * factor;
  }

  void read_details() {
    while (next_row()) {
      Launch& its = launch(text("ID"), "Kernel Name", "Grid Size", "Block Size");
      const std::string& metric = text("Metric Name");
      const CounterName* counter = ncu_counter(metric);
      if (counter != nullptr) its.add(*counter, amount(metric, text("Metric Value"), text("Metric Unit")));
    }
  }

  void read_raw() {
    if (!next_row()) return;
    const std::vector<std::string> units = csv_.fields();  // the row below the header
    while (next_row()) {
      Launch& its = launch(text("ID"), "Kernel Name", "Grid Size", "Block Size");
      for (const auto& [name, at] : columns_) {
        const CounterName* counter = ncu_counter(name);
        if (counter != nullptr) its.add(*counter, amount(name, csv_.fields()[at], units[at]));
      }
    }
  }

  void read_rocprof() {
    while (next_row()) {
      Launch& its = launch(text("Dispatch_Id"), "Kernel_Name", "Grid_Size", "Workgroup_Size");
      const std::string& name = text("Counter_Name");
      const CounterName* counter = rocprof_counter(name);
      if (counter != nullptr) its.add(*counter, amount(name, text("Counter_Value"), ""));
    }
  }

  std::vector<KernelCounters> finish() {
    if (launches_.empty()) {
      throw InputError({csv_.source_name(), 1, 0}, "the table has no kernel",
                       "Record around code that runs on the GPU.");
    }
    std::vector<KernelCounters> all;
    for (const Launch& its : launches_) {
      all.push_back(its.counters());
      for (const double amount : all.back().all.amounts) {
        if (amount <= kMostCounted) continue;
        throw InputError({csv_.source_name(), 1, 0},
                         fmt::format("kernel {} has {:g} of something that is counted, expected at most 10^15",
                                     printable(all.back().kernel, 60), amount),
                         std::string(kRecordCountersAgain));
      }
    }
    const auto useful = [](const KernelCounters& its) { return its.known.any(); };
    if (std::none_of(all.begin(), all.end(), useful)) {
      throw InputError({csv_.source_name(), 1, 0}, "no kernel has a counter that demands are made of",
                       "docs/replay.md lists those that are; record at least dram__bytes_read.sum, or FETCH_SIZE.");
    }
    return all;
  }

  CsvReader csv_;
  std::map<std::string, std::size_t, std::less<>> columns_;
  std::size_t width_ = 0;
  std::vector<Launch> launches_;
  std::map<std::string, std::size_t> by_id_;
};

}  // namespace

std::vector<KernelCounters> import_counters(const std::string& path) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  return CounterReader(*source).read();
}

std::vector<KernelCounters> import_counters(std::istream& stream, const std::string& name) {
  const std::unique_ptr<ByteSource> source = stream_bytes(stream, name);
  return CounterReader(*source).read();
}

}  // namespace heddle::import

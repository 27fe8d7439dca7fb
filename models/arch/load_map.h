// Load over time of many like units in a bounded amount of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle {

// A matrix of the loads of like units (resident warps per SM, say), units x time bins. The bin width doubles whenever
// the time axis is full, so the map of a run of any length has between kBins/2 and kBins columns.
class LoadMap {
 public:
  static constexpr std::uint32_t kBins = 256;

  // `unit_capacity`: the load of one unit that counts as 100 %.
  void configure(std::uint32_t units, double unit_capacity);
  void clear();

  // `weight` of load on `unit` during cycles [begin, end).
  void add(std::uint32_t unit, std::uint64_t begin, std::uint64_t end, std::uint32_t weight) {
    if (units_ == 0 || end <= begin) return;
    if (end > last_) last_ = end;
    while ((end - 1) >> shift_ >= kBins) halve();
    std::uint64_t bin = begin >> shift_;
    const std::uint64_t last_bin = (end - 1) >> shift_;
    std::uint64_t* row = &cells_[std::size_t{unit} * kBins];
    if (bin == last_bin) {
      row[bin] += (end - begin) * weight;
      return;
    }
    row[bin] += (((bin + 1) << shift_) - begin) * weight;
    for (++bin; bin < last_bin; ++bin) row[bin] += (std::uint64_t{1} << shift_) * weight;
    row[last_bin] += (end - (last_bin << shift_)) * weight;
  }

  std::uint32_t units() const { return units_; }
  // Columns in use, and cycles per column.
  std::uint32_t bins() const;
  std::uint64_t bin_cycles() const { return std::uint64_t{1} << shift_; }
  // Mean load of a unit in a bin, as a share of its capacity, 0 … 1. The last bin counts only the cycles it has seen.
  double load(std::uint32_t unit, std::uint32_t bin) const;
  // Mean load over all bins and units, 0 … 1.
  double mean() const;
  // End of the last interval that was added, in cycles.
  std::uint64_t last() const { return last_; }

 private:
  void halve();
  std::uint64_t cycles_in(std::uint32_t bin) const;

  std::uint32_t units_ = 0;
  double capacity_ = 1.0;
  std::uint32_t shift_ = 6;
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> cells_;
};

}  // namespace heddle

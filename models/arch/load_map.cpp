#include "arch/load_map.h"

#include <algorithm>

namespace heddle {

void LoadMap::configure(std::uint32_t units, double unit_capacity) {
  units_ = units;
  capacity_ = unit_capacity;
  clear();
}

void LoadMap::clear() {
  cells_.assign(std::size_t{units_} * kBins, 0);
  shift_ = 6;
  last_ = 0;
}

void LoadMap::halve() {
  for (std::uint32_t unit = 0; unit < units_; ++unit) {
    std::uint64_t* row = &cells_[std::size_t{unit} * kBins];
    for (std::uint32_t bin = 0; bin < kBins / 2; ++bin)
      row[bin] = row[std::size_t{2} * bin] + row[std::size_t{2} * bin + 1];
    std::fill(row + kBins / 2, row + kBins, 0);
  }
  ++shift_;
}

std::uint32_t LoadMap::bins() const { return last_ == 0 ? 0 : static_cast<std::uint32_t>((last_ - 1) >> shift_) + 1; }

std::uint64_t LoadMap::cycles_in(std::uint32_t bin) const {
  const std::uint64_t begin = std::uint64_t{bin} << shift_;
  return std::min(last_, begin + bin_cycles()) - begin;
}

double LoadMap::load(std::uint32_t unit, std::uint32_t bin) const {
  const std::uint64_t cycles = cycles_in(bin);
  return cycles == 0
             ? 0.0
             : static_cast<double>(cells_[std::size_t{unit} * kBins + bin]) / (static_cast<double>(cycles) * capacity_);
}

double LoadMap::mean() const {
  if (units_ == 0 || last_ == 0) return 0.0;
  double sum = 0.0;
  for (const std::uint64_t cell : cells_) sum += static_cast<double>(cell);
  return sum / (static_cast<double>(last_) * capacity_ * units_);
}

}  // namespace heddle

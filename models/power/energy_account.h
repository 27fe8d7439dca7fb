// Energy from what the blocks count anyway: a price for each of their statistics.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/stats.h"
#include "power/power_params.h"

namespace heddle::power {

// What energy is reported for.
enum class Part : std::uint8_t {
  issue,
  registers,
  alu,
  tensor,
  shared,
  l1,
  network,
  tmau,
  xbar,
  l2,
  hbm_activates,
  hbm_data,
  leakage,
  idle,
};
constexpr std::size_t kParts = 14;
const char* part_name(Part part);  // "hbm.data"
const char* part_text(Part part);  // what it stands for, in words
// Scaled with the square of the chip's voltage.
constexpr bool of_chip(Part part) {
  return part != Part::hbm_activates && part != Part::hbm_data && part != Part::idle;
}

using Joules = std::array<double, kParts>;

// Picojoules at the reference voltage for each count of the counters whose path, behind the device's prefix, begins and
// ends so.
struct Price {
  const char* begin;
  const char* end;
  Part part;
  double picojoules;
};
// `tensor_flops`: of a partition and cycle.
std::vector<Price> prices(const EnergyParams& params, std::uint32_t tensor_flops);

class EnergyAccount {
 public:
  // Of counters of `stats` below `prefix`, which must outlive it; those that are added later belong to it as well.
  EnergyAccount(const Stats& stats, std::string prefix, std::vector<Price> prices)
      : stats_(stats), prefix_(std::move(prefix)), prices_(std::move(prices)) {}

  // What has been counted since the last call, at the reference voltage; without what time costs.
  Joules take();
  // The counters begin anew.
  void reset();

 private:
  struct Source {
    const Counter* counter;
    Part part;
    double picojoules;
    std::uint64_t taken = 0;
  };
  void find();

  const Stats& stats_;
  std::string prefix_;
  std::vector<Price> prices_;
  std::vector<Source> sources_;
  std::size_t known_ = 0;  // statistics that were looked at
};

}  // namespace heddle::power

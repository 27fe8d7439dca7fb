// Which CTAs an SM has, as numbers of CTAs of each kernel: SMs with the same are one class. How fast these CTAs go on
// follows from the class, and from how long machine-wide resources make each of them wait.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "fluid/fluid_machine.h"

namespace heddle::fluid {

constexpr std::size_t kMostLanes = 64;  // kernels that an SM can run at a time

// How far CTAs are filled, as a part of the pace that each would have alone, and what stops them there: the number of a
// resource.
struct Level {
  double part = 1;
  std::uint8_t limit = 0;
};

class SmMixes {
 public:
  struct Lane {
    std::uint32_t kernel = 0;
    std::uint32_t ctas = 0;
  };
  using Lanes = std::vector<Lane>;  // by age: those with the oldest CTA first
  static constexpr std::uint32_t kEmpty = 0;

  SmMixes() { mixes_.emplace_back(); }

  const Lanes& lanes(std::uint32_t mix) const { return mixes_[mix]; }
  // The same with one CTA more or fewer. A kernel that comes is the youngest.
  std::uint32_t with(std::uint32_t mix, std::uint32_t kernel) { return next(mix, kernel, true); }
  std::uint32_t without(std::uint32_t mix, std::uint32_t kernel) { return next(mix, kernel, false); }
  // The mix of these lanes.
  std::uint32_t find(const Lanes& lanes);
  std::size_t size() const { return mixes_.size(); }

 private:
  std::uint32_t next(std::uint32_t mix, std::uint32_t kernel, bool more);

  std::vector<Lanes> mixes_;
  std::unordered_map<std::uint64_t, std::uint32_t> steps_;               // by mix, kernel and direction
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> known_;  // by a hash of the lanes
};

// Progressive filling of one SM: all of its CTAs are filled alike, each up to the first of its resources that is used
// up, or to its cap. `levels` holds the caps, at most 1, and then the result.
void fill(const SmMixes::Lanes& lanes, const std::vector<CtaWork>& works, std::vector<Level>& levels);

}  // namespace heddle::fluid

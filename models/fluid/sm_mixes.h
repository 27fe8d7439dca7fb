// Which CTAs an SM has, as numbers of CTAs of each kernel: SMs with the same are one class. How fast these CTAs go on
// follows from the class, and from how far machine-wide resources let each of them go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
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
  using Lanes = std::vector<Lane>;  // by kernel
  static constexpr std::uint32_t kEmpty = 0;

  SmMixes() { mixes_.emplace_back(); }

  const Lanes& lanes(std::uint32_t mix) const { return mixes_[mix].lanes; }
  // The same with one CTA more or fewer.
  std::uint32_t with(std::uint32_t mix, std::uint32_t kernel) { return next(mix, kernel, true); }
  std::uint32_t without(std::uint32_t mix, std::uint32_t kernel) { return next(mix, kernel, false); }
  std::size_t size() const { return mixes_.size(); }

 private:
  struct Step {
    std::uint32_t kernel;
    bool more;
    std::uint32_t mix;
  };
  struct Mix {
    Lanes lanes;
    std::vector<Step> steps;  // that were asked for
  };
  std::uint32_t next(std::uint32_t mix, std::uint32_t kernel, bool more);
  std::uint32_t find(Lanes lanes);

  std::vector<Mix> mixes_;
  std::map<std::vector<std::pair<std::uint32_t, std::uint32_t>>, std::uint32_t> known_;
};

// Progressive filling of one SM: all of its CTAs are filled alike, each up to the first of its resources that is used
// up, or to its cap. `levels` holds the caps, at most 1, and then the result.
void fill(const SmMixes::Lanes& lanes, const std::vector<CtaWork>& works, std::vector<Level>& levels);

}  // namespace heddle::fluid

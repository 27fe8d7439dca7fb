#include "fluid/sm_mixes.h"

#include <algorithm>
#include <limits>

#include "common/error.h"

namespace heddle::fluid {

std::uint32_t SmMixes::next(std::uint32_t mix, std::uint32_t kernel, bool more) {
  for (const Step& step : mixes_[mix].steps) {
    if (step.kernel == kernel && step.more == more) return step.mix;
  }
  Lanes lanes = mixes_[mix].lanes;
  auto lane = std::find_if(lanes.begin(), lanes.end(), [kernel](const Lane& its) { return its.kernel >= kernel; });
  if (lane == lanes.end() || lane->kernel != kernel) {
    HEDDLE_CHECK(more, "a CTA leaves a mix that has none of its kernel");
    lane = lanes.insert(lane, {kernel, 0});
  }
  lane->ctas += more ? 1 : -1;
  if (lane->ctas == 0) lanes.erase(lane);
  const std::uint32_t found = find(std::move(lanes));
  mixes_[mix].steps.push_back({kernel, more, found});
  return found;
}

std::uint32_t SmMixes::find(Lanes lanes) {
  if (lanes.empty()) return kEmpty;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> key;
  for (const Lane& lane : lanes) key.emplace_back(lane.kernel, lane.ctas);
  const auto [found, fresh] = known_.emplace(std::move(key), static_cast<std::uint32_t>(mixes_.size()));
  if (fresh) mixes_.push_back({std::move(lanes), {}});
  return found->second;
}

void fill(const SmMixes::Lanes& lanes, const std::vector<CtaWork>& works, std::vector<Level>& levels) {
  std::array<double, kLocals> used{};    // by lanes that are filled
  std::array<double, kLocals> slopes{};  // of the others together
  const std::size_t count = lanes.size();
  HEDDLE_CHECK(count <= kMostLanes, "more kernels on an SM than it can have CTAs");
  std::uint64_t open = count == kMostLanes ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;  // a bit per lane
  for (const SmMixes::Lane& lane : lanes) {
    const CtaWork& work = works[lane.kernel];
    for (std::size_t r = 0; r < kLocals; ++r) slopes[r] += lane.ctas * work.load[r];
  }
  while (open != 0) {
    double part = std::numeric_limits<double>::infinity();
    std::size_t full = kLocals;
    for (std::size_t r = 0; r < kLocals; ++r) {
      if (slopes[r] <= 1e-12) continue;
      const double at = std::max(0.0, 1 - used[r]) / slopes[r];
      if (at < part) {
        part = at;
        full = r;
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      if ((open >> i & 1) != 0 && levels[i].part <= part) {
        part = levels[i].part;
        full = kLocals;
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      if ((open >> i & 1) == 0) continue;
      const CtaWork& work = works[lanes[i].kernel];
      const bool capped = levels[i].part <= part;
      if (!capped && (full == kLocals || work.load[full] <= 0)) continue;
      if (!capped) levels[i] = {part, static_cast<std::uint8_t>(full)};
      for (std::size_t r = 0; r < kLocals; ++r) {
        const double its = lanes[i].ctas * work.load[r];
        used[r] += its * levels[i].part;
        slopes[r] -= its;
      }
      open &= ~(std::uint64_t{1} << i);
    }
  }
}

}  // namespace heddle::fluid

#include "fluid/sm_mixes.h"

#include <algorithm>
#include <limits>

#include "common/error.h"

namespace heddle::fluid {

namespace {

std::uint64_t hash_of(const SmMixes::Lanes& lanes) {
  std::uint64_t hash = lanes.size();
  for (const SmMixes::Lane& lane : lanes) {
    hash = (hash ^ (std::uint64_t{lane.kernel} << 32 | lane.ctas)) * 0x9E37'79B9'7F4A'7C15U;
    hash ^= hash >> 29;
  }
  return hash;
}

bool same(const SmMixes::Lanes& a, const SmMixes::Lanes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const SmMixes::Lane& x, const SmMixes::Lane& y) {
    return x.kernel == y.kernel && x.ctas == y.ctas;
  });
}

}  // namespace

std::uint32_t SmMixes::next(std::uint32_t mix, std::uint32_t kernel, bool more) {
  HEDDLE_CHECK(kernel < std::uint32_t{1} << 31, "more kernels than numbers");
  const std::uint64_t step = std::uint64_t{mix} << 32 | kernel << 1 | (more ? 1 : 0);
  const auto found = steps_.find(step);
  if (found != steps_.end()) return found->second;
  Lanes lanes = mixes_[mix];
  auto lane = std::find_if(lanes.begin(), lanes.end(), [kernel](const Lane& its) { return its.kernel == kernel; });
  if (lane == lanes.end()) {
    HEDDLE_CHECK(more, "a CTA leaves a mix that has none of its kernel");
    lane = lanes.insert(lane, {kernel, 0});
  }
  lane->ctas += more ? 1 : -1;
  if (lane->ctas == 0) lanes.erase(lane);
  const std::uint32_t result = find(lanes);
  steps_.emplace(step, result);
  return result;
}

std::uint32_t SmMixes::find(const Lanes& lanes) {
  if (lanes.empty()) return kEmpty;
  std::vector<std::uint32_t>& alike = known_[hash_of(lanes)];
  for (const std::uint32_t mix : alike) {
    if (same(mixes_[mix], lanes)) return mix;
  }
  alike.push_back(static_cast<std::uint32_t>(mixes_.size()));
  mixes_.push_back(lanes);
  return alike.back();
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

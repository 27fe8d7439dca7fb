#include "sm/async_view.h"

#include <algorithm>
#include <cstring>

namespace heddle::sm {

void AsyncView::will_write(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes,
                           std::optional<std::uint32_t> warp) {
  for (std::uint32_t granule = offset / kGranule; granule * kGranule < offset + bytes; ++granule) {
    Mark& mark = marks_[granule];
    if (!mark.stale) {
      const std::uint32_t begin = granule * kGranule;
      const auto count = std::min<std::size_t>(kGranule, old_.size() - begin);
      std::memcpy(old_.data() + begin, window + begin, count);
      stale_.push_back(granule);
      mark = {true, warp.has_value(), warp.value_or(0), epoch_};
      continue;
    }
    mark.one_warp = mark.one_warp && warp == mark.warp;
    mark.epoch = epoch_;
  }
}

void AsyncView::wrote(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes) {
  if (stale_.empty()) return;
  std::memcpy(old_.data() + offset, window + offset, bytes);
  for (std::uint32_t granule = offset / kGranule; granule * kGranule < offset + bytes; ++granule) {
    const std::uint32_t begin = granule * kGranule;
    if (begin >= offset && begin + kGranule <= offset + bytes) marks_[granule].stale = false;
  }
  const auto fresh = [this](std::uint32_t granule) { return !marks_[granule].stale; };
  stale_.erase(std::remove_if(stale_.begin(), stale_.end(), fresh), stale_.end());
}

void AsyncView::fence(std::uint32_t warp) {
  const auto published = [&](std::uint32_t granule) {
    Mark& mark = marks_[granule];
    const bool its_own = mark.one_warp && mark.warp == warp;
    if (its_own || mark.epoch < epoch_) mark.stale = false;
    return !mark.stale;
  };
  stale_.erase(std::remove_if(stale_.begin(), stale_.end(), published), stale_.end());
}

bool AsyncView::read(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes, std::uint8_t* to) const {
  bool old = false;
  for (std::uint32_t at = offset; at < offset + bytes;) {
    const std::uint32_t granule = at / kGranule;
    const std::uint32_t count = std::min((granule + 1) * kGranule, offset + bytes) - at;
    const bool stale = marks_[granule].stale;
    std::memcpy(to + (at - offset), (stale ? old_.data() : window) + at, count);
    old = old || stale;
    at += count;
  }
  return old;
}

}  // namespace heddle::sm

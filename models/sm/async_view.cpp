#include "sm/async_view.h"

#include <algorithm>
#include <cstring>

#include "common/bits.h"

namespace heddle::sm {

AsyncView::AsyncView(std::uint32_t bytes) : old_(bytes), granules_((bytes + kGranule - 1) / kGranule) {}

template <class Visit>
void AsyncView::each_granule(std::uint32_t offset, std::uint32_t bytes, Visit&& visit) {
  const std::uint32_t end = offset + bytes;
  for (std::uint32_t at = offset; at < end;) {
    const std::uint32_t first = at % kGranule;
    const std::uint32_t count = std::min(kGranule - first, end - at);
    visit(at / kGranule, static_cast<Mask>(((1U << count) - 1) << first));
    at += count;
  }
}

template <class Ends>
void AsyncView::drop_parts(Granule& granule, Ends&& ends) {
  for (std::uint32_t* link = &granule.parts; *link != kNone;) {
    const std::uint32_t index = *link;
    if (!ends(parts_[index])) {
      link = &parts_[index].next;
      continue;
    }
    *link = parts_[index].next;
    parts_.give_back(index);
  }
}

void AsyncView::take_away(Granule& granule, Mask bytes) {
  drop_parts(granule, [bytes](Part& part) {
    part.bytes = static_cast<Mask>(part.bytes & ~bytes);
    return part.bytes == 0;
  });
}

void AsyncView::will_write(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes,
                           std::optional<std::uint32_t> warp) {
  const std::uint32_t writer = warp.value_or(kNone);
  each_granule(offset, bytes, [&](std::uint32_t number, Mask mask) {
    Granule& granule = granules_[number];
    if (granule.old == 0) stale_.push_back(number);
    for (std::uint32_t fresh = mask & ~std::uint32_t{granule.old}; fresh != 0; fresh &= fresh - 1) {
      const std::uint32_t at = number * kGranule + bits::lowest(fresh);
      old_[at] = window[at];
    }
    granule.old = static_cast<Mask>(granule.old | mask);
    const std::uint32_t first = granule.parts;
    if (first == kNone || parts_[first].warp != writer || parts_[first].epoch != epoch_) {
      const std::uint32_t index = parts_.take();
      take_away(granule, mask);
      parts_[index] = {mask, writer, epoch_, granule.parts};
      granule.parts = index;
      return;
    }
    Part& part = parts_[first];
    if (part.next != kNone) {
      take_away(granule, mask);
      if (granule.parts != first) {  // all of it was written anew
        const std::uint32_t index = parts_.take();
        parts_[index] = {mask, writer, epoch_, granule.parts};
        granule.parts = index;
        return;
      }
    }
    parts_[first].bytes = static_cast<Mask>(parts_[first].bytes | mask);
  });
}

void AsyncView::forget_fresh() {
  const auto fresh = [this](std::uint32_t granule) { return granules_[granule].old == 0; };
  stale_.erase(std::remove_if(stale_.begin(), stale_.end(), fresh), stale_.end());
}

void AsyncView::wrote(std::uint32_t offset, std::uint32_t bytes) {
  if (stale_.empty()) return;
  each_granule(offset, bytes, [&](std::uint32_t number, Mask mask) {
    Granule& granule = granules_[number];
    take_away(granule, mask);
    granule.old = static_cast<Mask>(granule.old & ~mask);
  });
  forget_fresh();
}

void AsyncView::fence(std::uint32_t warp) {
  for (const std::uint32_t number : stale_) {
    Granule& granule = granules_[number];
    drop_parts(granule, [&](const Part& part) {
      const bool published = part.warp == warp || part.epoch < epoch_;
      if (published) granule.old = static_cast<Mask>(granule.old & ~part.bytes);
      return published;
    });
  }
  forget_fresh();
}

std::optional<std::uint32_t> AsyncView::read(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes,
                                             std::uint8_t* to) const {
  std::memcpy(to, window + offset, bytes);
  if (stale_.empty()) return std::nullopt;
  std::optional<std::uint32_t> first;
  each_granule(offset, bytes, [&](std::uint32_t number, Mask mask) {
    for (std::uint32_t old = mask & granules_[number].old; old != 0; old &= old - 1) {
      const std::uint32_t at = number * kGranule + bits::lowest(old);
      to[at - offset] = old_[at];
      if (!first) first = at;
    }
  });
  return first;
}

}  // namespace heddle::sm

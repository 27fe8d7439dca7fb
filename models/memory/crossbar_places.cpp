#include "memory/crossbar_places.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::memory {

using arch::BandwidthTable;

bool CrossbarPlaces::take(std::uint32_t number, std::uint32_t subcontext) {
  refresh();
  const std::uint32_t own = BandwidthTable::place(subcontext);
  Slice& slice = slices_[number];
  const bool is_kept = slice.taken[own] < kept_[own];
  if (!is_kept && slice.all + slice.unused >= queue_) return false;
  ++slice.taken[own];
  ++slice.all;
  if (is_kept) --slice.unused;
  return true;
}

void CrossbarPlaces::give_back(std::uint32_t number, std::uint32_t subcontext) {
  refresh();
  const std::uint32_t own = BandwidthTable::place(subcontext);
  Slice& slice = slices_[number];
  HEDDLE_CHECK(slice.taken[own] > 0, "a place at a slice came back that was not taken");
  --slice.taken[own];
  --slice.all;
  if (slice.taken[own] < kept_[own]) ++slice.unused;
}

void CrossbarPlaces::wait(std::uint32_t number, std::uint32_t subcontext, std::uint32_t who) {
  std::vector<Queue>& waiting = slices_[number].waiting;
  const auto own = [&](const Queue& queue) { return queue.subcontext == subcontext; };
  auto found = std::find_if(waiting.begin(), waiting.end(), own);
  if (found == waiting.end()) found = waiting.insert(found, Queue{subcontext, {}});
  found->who.push_back(who);
}

std::optional<std::uint32_t> CrossbarPlaces::next(std::uint32_t number) {
  Slice& slice = slices_[number];
  // Cross-wise, since neither weight is 0.
  const auto has_less = [&](const Queue& a, const Queue& b) {
    return std::uint64_t{taken(number, a.subcontext)} * table_.weight(b.subcontext) <
           std::uint64_t{taken(number, b.subcontext)} * table_.weight(a.subcontext);
  };
  std::sort(slice.waiting.begin(), slice.waiting.end(), has_less);
  for (auto queue = slice.waiting.begin(); queue != slice.waiting.end(); ++queue) {
    if (!take(number, queue->subcontext)) continue;
    const std::uint32_t who = queue->who.front();
    queue->who.pop_front();
    if (queue->who.empty()) slice.waiting.erase(queue);
    return who;
  }
  return std::nullopt;
}

void CrossbarPlaces::divide() {
  version_ = table_.version();
  std::uint64_t weights = 0;
  for (std::uint32_t i = 0; i < arch::kSubcontexts; ++i) weights += table_.used(i) ? table_.weight(i) : 0;
  for (std::uint32_t i = 0; i < arch::kSubcontexts; ++i) {
    const std::uint64_t part = weights == 0 ? 0 : std::uint64_t{queue_} / 2 * table_.weight(i) / weights;
    kept_[i] = static_cast<std::uint16_t>(table_.used(i) ? std::max<std::uint64_t>(part, 1) : 0);
  }
  for (Slice& slice : slices_) {
    slice.unused = 0;
    for (std::uint32_t i = 0; i < arch::kSubcontexts; ++i) {
      if (slice.taken[i] < kept_[i]) slice.unused += kept_[i] - slice.taken[i];
    }
  }
}

void CrossbarPlaces::reset() {
  version_ = ~std::uint64_t{0};
  slices_.assign(slices_.size(), Slice());
}

}  // namespace heddle::memory

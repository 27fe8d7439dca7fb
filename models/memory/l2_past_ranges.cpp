#include "memory/l2_past_ranges.h"

namespace heddle::memory {

L2PastRanges::L2PastRanges(MemoryOut& memory, const arch::AddressMap& map, const L2Params& params,
                           const L2Presence* presence, WriteWatch* watch, const Statistics& stats)
    : memory_(memory),
      map_(map),
      presence_(presence),
      watch_(watch),
      stats_(stats),
      held_(std::uint64_t{params.lines_per_slice()} * map.slices() * arch::kLineBytes),
      tags_(params.tag_latency),
      memory_way_(params.memory_latency),
      data_(params.data_latency) {}

// A write is answered as one that hits; memory has it later.
bool L2PastRanges::move(RangeMove& range, std::uint32_t) {
  if (range.behind < held_ || !map_.contains(range.address, range.bytes)) return false;
  if (presence_ == nullptr || !presence_->none(range.address, range.bytes)) return false;
  if (!asked_) behind_ = memory_.ranges();
  asked_ = true;
  const Cycle first = range.first;
  const Cycle last = range.last;
  range.delay(tags_ + memory_way_);
  if (!behind_.move(range)) {
    range.first = first;
    range.last = last;
    return false;
  }
  if (range.write) {
    if (watch_ != nullptr) {
      watch_->written(range.address / arch::kLineBytes, (range.address + range.bytes - 1) / arch::kLineBytes);
    }
    range.first = first + tags_;
    range.last = last + tags_;
  }
  range.delay(data_);
  const std::uint32_t lines = range.bytes / arch::kLineBytes;
  const std::uint32_t sectors = lines * arch::kSectorsPerLine;
  stats_.requests.add(lines);
  stats_.core.count_range(range.subcontext, lines, sectors, range.write);
  return true;
}

}  // namespace heddle::memory

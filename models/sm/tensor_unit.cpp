#include "sm/tensor_unit.h"

#include <algorithm>

#include "sm/cta_table.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

using arch::FaultKind;

namespace {

// Whether an element of A or B is corrupt.
bool reads_poison(const SharedMemory& shared, std::uint32_t window, const arch::MatmulTile& tile, std::uint64_t end,
                  const arch::SwizzleTable& swizzles) {
  if (!shared.poisoned(window, 0, end)) return false;
  bool found = false;
  each_part(tile, swizzles, [&](std::uint64_t offset, std::uint32_t bytes) {
    found = shared.poisoned(window, offset, bytes);
    return !found;
  });
  return found;
}

}  // namespace

IssueResult TensorUnit::issue(std::uint32_t slot, const arch::Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle cycle = now();
  const arch::MatmulTile& tile = operation.tile;
  if (!tile_exists(tile)) return IssueResult::fault(FaultKind::unsupported, 0, 0);
  const std::uint64_t end_byte = tile_end(tile, swizzles_);
  if (!shared_.contains(warp.cta, 0, end_byte)) return IssueResult::fault(FaultKind::shared_bounds, 0, end_byte);
  if (reads_poison(shared_, warp.cta, tile, end_byte, swizzles_)) {
    return IssueResult::fault(FaultKind::poison, 0, tile.a);
  }
  const arch::RegisterRange sums = warp.accumulators;
  HEDDLE_CHECK(sums.count == tile.n / 2, "a matrix multiply without its accumulators");
  if (ctas_[warp.cta].start.id.index % params_.issue.tensor_sample == 0) {
    matmul(tile, swizzles_, shared_.data(warp.cta), warp.state.of(sums.first));
  }

  // A product and a sum for each of 16 x n x k; the operands come over the port of shared memory.
  const std::uint64_t flops = std::uint64_t{2} * arch::kTileRows * tile.n * tile.k;
  const std::uint64_t cycles = (flops + params_.issue.tensor_flops - 1) / params_.issue.tensor_flops;
  const Cycle end = std::max(cycle + cycles, read_tile(tile));
  scheduler_.occupy(slot, 1, end - cycle);
  warp.scoreboard.accumulate(sums, end + params_.issue.tensor_latency);
  for (const arch::RegisterRange& range : warp.writes) {
    if (range.first != sums.first) warp.scoreboard.write(range, cycle + 1);
  }
  return IssueResult::goes_on(cycle + 1);
}

// The operands are read (TMA-21); gives the end.
Cycle TensorUnit::read_tile(const arch::MatmulTile& tile) {
  const std::uint64_t cycles = tile_costs_.cycles(tile);
  const std::uint64_t least = (tile_bytes(tile) + arch::kLineBytes - 1) / arch::kLineBytes;
  stats_.shared_wavefronts.add(cycles);
  if (cycles > least) stats_.shared_conflicts.add(cycles - least);
  return port_.take_past_queue(now(), cycles) + cycles;
}

}  // namespace heddle::sm

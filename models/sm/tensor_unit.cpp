#include "sm/tensor_unit.h"

#include <algorithm>

#include "sm/cta_table.h"
#include "sm/faults.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

using arch::FaultKind;
using arch::OpCode;

namespace {

enum Event : std::uint32_t { kBegins, kEnds };

bool overlap(const arch::RegisterRange& a, const arch::RegisterRange& b) {
  return a.first < b.first + b.count && b.first < a.first + a.count;
}

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
  if (operation.code == OpCode::matmul_commit) {
    warp.multiplies.commit(cycle);
    return waits_.begin(slot, arch::kMatmulGroups);
  }
  if (operation.code == OpCode::matmul_wait) return waits_.begin(slot, operation.count);

  const arch::MatmulTile& tile = operation.tile;
  if (!tile_exists(tile)) return IssueResult::fault(FaultKind::unsupported, 0, 0);
  const std::uint64_t end_byte = tile_end(tile, peers_.swizzles);
  if (!peers_.shared.contains(warp.cta, 0, end_byte)) {
    return IssueResult::fault(FaultKind::shared_bounds, 0, end_byte);
  }
  HEDDLE_CHECK(warp.accumulators.count == tile.n / 2, "a matrix multiply without its accumulators");
  for (const arch::RegisterRange& range : warp.writes) {
    if (range.first != warp.accumulators.first) warp.scoreboard.write(range, cycle + 1);
  }
  if (operation.code == OpCode::matmul_async) return enter(slot, operation);

  HEDDLE_CHECK(queued(slot) == 0, "a matrix multiply issues to a tensor core that others wait for");
  if (reads_poison(peers_.shared, warp.cta, tile, end_byte, peers_.swizzles)) {
    return IssueResult::fault(FaultKind::poison, 0, tile.a);
  }
  multiply({slot, warp.cta, warp.issued_pc, tile, warp.accumulators});
  const Cycle end = work(warp.kernel, tile);
  peers_.scheduler.occupy(slot, 1, end - cycle);
  warp.scoreboard.accumulate(warp.accumulators, end + params_.issue.tensor_latency);
  return IssueResult::goes_on(cycle + 1);
}

// It takes its place in the queue, and the warp goes on, unless the queue has no place for it.
IssueResult TensorUnit::enter(std::uint32_t slot, const arch::Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  const Cycle next = now() + 1;
  Core& core = cores_[slot % kSubPartitions];
  Multiply its{slot, warp.cta, warp.issued_pc, operation.tile, warp.accumulators};
  its.group = warp.multiplies.current();
  warp.multiplies.add();
  ++cta.open;
  warp.scoreboard.accumulate(warp.accumulators, kNever);
  its.stalls = core.queue.size() > params_.issue.tensor_queue;
  core.queue.push_back(its);
  if (core.queue.size() == 1) begin(slot % kSubPartitions);
  if (!its.stalls) return IssueResult::goes_on(next);
  warp.wait = WarpWait::tensor;
  warp.since = next;
  return IssueResult::blocks();
}

std::size_t TensorUnit::of_cta(std::uint32_t cta_slot) const {
  std::size_t count = 0;
  for (const Core& core : cores_) {
    count += static_cast<std::size_t>(std::count_if(core.queue.begin(), core.queue.end(),
                                                    [cta_slot](const Multiply& its) { return its.cta == cta_slot; }));
  }
  return count;
}

void TensorUnit::on_event(std::uint32_t kind, std::uint64_t partition) {
  const auto p = static_cast<std::uint32_t>(partition);
  if (kind == kBegins) return begin(p);
  end(p);
}

// The front begins, as soon as the tensor core has done what warps have issued to it directly.
void TensorUnit::begin(std::uint32_t partition) {
  Core& core = cores_[partition];
  drop_dead(core);
  if (core.queue.empty() || core.works) return;
  const Multiply& front = core.queue.front();
  const Cycle free = peers_.scheduler.sub_partition_of(front.slot).free_from(arch::Unit::tensor);
  const bool held = free == core.held;
  const Cycle begins = held ? free - 1 : free;
  if (begins > now()) {
    if (!held) hold(core, begins);
    if (!held) time_.schedule(begins, *this, kBegins, partition);
    return;
  }
  core.works = true;
  const Cycle end = work(warps_[front.slot].kernel, front.tile);
  hold(core, end);
  time_.schedule(end, *this, kEnds, partition);
  // Others have come up to a place in the queue.
  for (std::size_t i = 1; i < core.queue.size() && i <= params_.issue.tensor_queue; ++i) {
    Multiply& moved = core.queue[i];
    if (!moved.stalls || ctas_[moved.cta].killed()) continue;
    moved.stalls = false;
    peers_.scheduler.resume(moved.slot, now(), stats_.stall_tensor);
  }
}

// Instructions find the tensor core free a cycle later than the queue does: so the queue goes first, whichever event of
// that cycle comes first.
void TensorUnit::hold(Core& core, Cycle until) {
  core.held = until + 1;
  const std::uint32_t slot = core.queue.front().slot;
  peers_.scheduler.sub_partition_of(slot).use(slot / kSubPartitions, arch::Unit::tensor, now(), core.held - now());
}

void TensorUnit::end(std::uint32_t partition) {
  Core& core = cores_[partition];
  const Multiply its = core.queue.front();
  core.queue.pop_front();
  core.works = false;
  if (!ctas_[its.cta].killed() && check(its)) multiply(its);
  over(its);
  begin(partition);
}

// Multiplies of CTAs that have been stopped do not begin.
void TensorUnit::drop_dead(Core& core) {
  while (!core.works && !core.queue.empty() && ctas_[core.queue.front().cta].killed()) {
    const Multiply dead = core.queue.front();
    core.queue.pop_front();
    over(dead);
  }
}

void TensorUnit::over(const Multiply& multiply) {
  Cta& cta = ctas_[multiply.cta];
  --cta.open;
  const Cycle ready = now() + params_.issue.tensor_latency;
  if (!cta.killed()) {
    Warp& warp = warps_[multiply.slot];
    cta.last = std::max(cta.last, now());
    warp.multiplies.end(multiply.group, ready, true);
    sums_are_there(multiply, ready);
    if (warp.wait == WarpWait::registers) {
      peers_.scheduler.prepare(multiply.slot, warp.since, stats_.stall_tensor);
    } else {
      waits_.consider(multiply.slot);
    }
  }
  peers_.supervisor.check_end(cta, now());
}

// Of sums to which a later one adds, that one says when they are there.
void TensorUnit::sums_are_there(const Multiply& multiply, Cycle ready) {
  const Core& core = cores_[multiply.slot % kSubPartitions];
  const auto adds = [&multiply](const Multiply& other, const arch::RegisterRange& sums) {
    return other.slot == multiply.slot && overlap(other.sums, sums);
  };
  Scoreboard& scoreboard = warps_[multiply.slot].scoreboard;
  const auto is_last = [&](const arch::RegisterRange& sums) {
    return std::none_of(core.queue.begin(), core.queue.end(), [&](const Multiply& other) { return adds(other, sums); });
  };
  if (is_last(multiply.sums)) return scoreboard.accumulate(multiply.sums, ready);
  for (std::uint32_t i = 0; i < multiply.sums.count; ++i) {
    const arch::RegisterRange one{static_cast<std::uint16_t>(multiply.sums.first + i), 1};
    if (is_last(one)) scoreboard.accumulate(one, ready);
  }
}

// What it reads may have been given back, or have been corrupted, since it was issued.
bool TensorUnit::check(const Multiply& multiply) {
  const std::uint64_t end_byte = tile_end(multiply.tile, peers_.swizzles);
  const bool there = peers_.shared.contains(multiply.cta, 0, end_byte);
  if (there && !reads_poison(peers_.shared, multiply.cta, multiply.tile, end_byte, peers_.swizzles)) return true;
  arch::FaultRecord record =
      peers_.faults.record_of(warps_[multiply.slot], there ? FaultKind::poison : FaultKind::shared_bounds, multiply.pc);
  record.operation = OpCode::matmul_async;
  record.address = there ? multiply.tile.a : end_byte;
  record.cycle = now();
  peers_.faults.stop_later(record, multiply.cta);
  return false;
}

void TensorUnit::multiply(const Multiply& its) {
  if (ctas_[its.cta].start.id.index % params_.issue.tensor_sample != 0) return;
  matmul(its.tile, peers_.swizzles, peers_.shared.data(its.cta), warps_[its.slot].state.of(its.sums.first));
}

// The end of a multiply that begins now: a product and a sum for each of 16 x n x k; the operands come over the port of
// shared memory.
Cycle TensorUnit::work(std::uint32_t kernel, const arch::MatmulTile& tile) {
  const std::uint64_t flops = std::uint64_t{2} * arch::kTileRows * tile.n * tile.k;
  const std::uint64_t cycles = (flops + params_.issue.tensor_flops - 1) / params_.issue.tensor_flops;
  stats_.tensor_cycles.add(cycles);
  stats_.tensor_operations.add(flops);
  stats_.charge(kernel, KernelCount::tensor_cycles, cycles);
  stats_.charge(kernel, KernelCount::tensor_operations, flops);
  return std::max(now() + cycles, read_tile(kernel, tile));
}

// The operands are read (TMA-21); gives the end.
Cycle TensorUnit::read_tile(std::uint32_t kernel, const arch::MatmulTile& tile) {
  const std::uint64_t cycles = tile_costs_.cycles(tile);
  const std::uint64_t least = (tile_bytes(tile) + arch::kLineBytes - 1) / arch::kLineBytes;
  count_wavefronts(stats_, kernel, cycles);
  if (cycles > least) stats_.shared_conflicts.add(cycles - least);
  return peers_.port.take_past_queue(now(), cycles) + cycles;
}

void TensorUnit::reset() { cores_ = {}; }

}  // namespace heddle::sm

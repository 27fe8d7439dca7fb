// What the operations of a warp do, other than memory accesses.
#include <algorithm>

#include "sm/matmul.h"
#include "sm/warp_engine.h"

namespace heddle::sm {

using arch::FaultKind;
using arch::OpCode;
using arch::Operation;

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

void WarpEngine::run(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle now = domain_.now();
  if (operation.code == OpCode::compute) {
    warp.compute_left = std::max(1U, operation.count);
    warp.compute_latency = operation.latency + latency_[static_cast<std::size_t>(warp.unit)];
    run_compute(slot);
    return;
  }
  partition_of(slot).issued(slot / kPartitions, now, 1, 1);
  partition_of(slot).block(slot / kPartitions);
  stats_.instructions[static_cast<std::size_t>(warp.unit)]->add();
  switch (operation.code) {
    case OpCode::special:
      return run_special(slot, operation);
    case OpCode::load:
    case OpCode::store:
    case OpCode::atomic:
    case OpCode::async_copy:
      return run_memory(slot, operation);
    case OpCode::async_commit:
      warp.copies.commit(now);
      return finish(slot, now + 1, now + 1);
    case OpCode::async_wait:
      return run_copies_wait(slot, operation.count);
    case OpCode::matmul:
      return run_matmul(slot, operation);
    case OpCode::barrier:
      return run_barrier(slot, operation);
    case OpCode::fence:
      return run_fence(slot, operation);
    case OpCode::cluster_arrive:
      return run_cluster_arrive(slot, operation);
    case OpCode::cluster_wait:
      return run_cluster_wait(slot, operation);
    case OpCode::mbarrier_init:
    case OpCode::mbarrier_invalidate:
    case OpCode::mbarrier_arrive:
    case OpCode::mbarrier_expect:
    case OpCode::mbarrier_complete:
    case OpCode::mbarrier_wait:
    case OpCode::mbarrier_test:
      return run_mbarrier(slot, operation);
    case OpCode::release_shared:
      return run_release_shared(slot, operation);
    case OpCode::tensor_load:
    case OpCode::tensor_store:
    case OpCode::tensor_reduce:
    case OpCode::tensor_prefetch:
    case OpCode::bulk_load:
    case OpCode::bulk_store:
    case OpCode::bulk_reduce:
    case OpCode::bulk_prefetch:
    case OpCode::bulk_copy:
    case OpCode::bulk_send:
    case OpCode::bulk_drain:
    case OpCode::tensor_fence:
      return run_bulk(slot, operation);
    case OpCode::bulk_commit:
      warp.bulk.commit(now);
      warp.bulk_reads.commit(now);
      return finish(slot, now + 1, now + 1);
    case OpCode::bulk_wait:
      return run_bulk_wait(slot, operation);
    case OpCode::launch_child:
    case OpCode::wait_children:
    case OpCode::stream_create:
    case OpCode::stream_destroy:
    case OpCode::queue_append:
      return run_nested(slot, operation);
    case OpCode::exit:
      return run_exit(slot);
    case OpCode::compute:
      break;
  }
  HEDDLE_CHECK(false, "an operation that no unit of the SM has");
}

// Issues as many of the operation's instructions as may go without a break: never more than a burst, as other warps may
// come meanwhile.
void WarpEngine::run_compute(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  const Cycle now = domain_.now();
  Partition& partition = partition_of(slot);
  const Cycle interval = interval_[static_cast<std::size_t>(warp.unit)];
  const bool turns = params_.issue.policy == WarpPolicy::round_robin;
  const bool company = turns && partition.others_before(slot / kPartitions, now + warp.compute_left);
  const auto count = std::min<std::uint64_t>(warp.compute_left, company ? 1 : params_.issue.burst);
  partition.issued(slot / kPartitions, now, count, interval);
  stats_.instructions[static_cast<std::size_t>(warp.unit)]->add(count);
  warp.compute_left -= count;
  if (warp.compute_left > 0) {
    warp.since = now + count * interval;
    partition.ready(slot / kPartitions, warp.since, warp.unit);
    partition.end_burst();
    wake(slot);
    return;
  }
  const Cycle last = now + (count - 1) * interval;
  finish(slot, last + warp.compute_latency, last + 1);
}

// CGA-10.
std::uint64_t WarpEngine::special(std::uint32_t slot, arch::SpecialRegister which) const {
  using arch::SpecialRegister;
  const Warp& warp = warps_[slot];
  const arch::WarpPlace& place = warp.place;
  const protocol::CtaStartPacket& start = ctas_[warp.cta].start;
  switch (which) {
    case SpecialRegister::clock:
      return domain_.now();
    case SpecialRegister::sm:
      return place_.id;
    case SpecialRegister::sms:
      return place_.sms;
    case SpecialRegister::warp_slot:
      return slot;
    case SpecialRegister::cta_slot:
      return warp.cta;
    case SpecialRegister::cta_id_x:
      return place.cta_x;
    case SpecialRegister::cta_id_y:
      return place.cta_y;
    case SpecialRegister::cta_id_z:
      return place.cta_z;
    case SpecialRegister::grid_x:
      return place.grid.x;
    case SpecialRegister::grid_y:
      return place.grid.y;
    case SpecialRegister::grid_z:
      return place.grid.z;
    case SpecialRegister::block_x:
      return place.block.x;
    case SpecialRegister::block_y:
      return place.block.y;
    case SpecialRegister::block_z:
      return place.block.z;
    case SpecialRegister::cga_id:
      return place.cluster;
    case SpecialRegister::cga_cta_id:
      return place.rank;
    case SpecialRegister::cga_size:
      return place.cluster_size;
    case SpecialRegister::cga_x:
      return place.cluster_shape.x;
    case SpecialRegister::cga_y:
      return place.cluster_shape.y;
    case SpecialRegister::cga_z:
      return place.cluster_shape.z;
    case SpecialRegister::gpc_local_cga_id:
      return start.tag.cga_id;
    case SpecialRegister::task_id:
      return start.tag.operation;
    case SpecialRegister::queue_position:
      return start.queue ? place.cta : 0;
    case SpecialRegister::cga_memory:
      return start.cga_memory;
  }
  return 0;
}

void WarpEngine::run_special(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const std::uint64_t value = special(slot, operation.special);
  const bool wide = operation.width == 8 || (!warp.writes.empty() && warp.writes.front().count == 2);
  std::uint32_t* registers = warp.state.of(operation.destination);
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    if ((operation.lanes >> lane & 1) == 0) continue;
    registers[lane] = static_cast<std::uint32_t>(value);
    if (wide) registers[arch::kWarpLanes + lane] = static_cast<std::uint32_t>(value >> 32);
  }
  finish(slot, domain_.now() + params_.issue.special_latency, domain_.now() + 1);
}

void WarpEngine::run_matmul(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  const Cycle now = domain_.now();
  const arch::MatmulTile& tile = operation.tile;
  if (!tile_exists(tile)) return fault(slot, FaultKind::unsupported, 0, 0);
  const SharedMemory& shared = memory_.shared_memory();
  const std::uint64_t end_byte = tile_end(tile, memory_.swizzles());
  if (!shared.contains(warp.cta, 0, end_byte)) return fault(slot, FaultKind::shared_bounds, 0, end_byte);
  if (reads_poison(shared, warp.cta, tile, end_byte, memory_.swizzles())) {
    return fault(slot, FaultKind::poison, 0, tile.a);
  }
  const arch::RegisterRange sums = warp.accumulators;
  HEDDLE_CHECK(sums.count == tile.n / 2, "a matrix multiply without its accumulators");
  if (ctas_[warp.cta].start.id.index % params_.issue.tensor_sample == 0) {
    matmul(tile, memory_.swizzles(), shared.data(warp.cta), warp.state.of(sums.first));
  }

  // A product and a sum for each of 16 x n x k; the operands come over the port of shared memory.
  const std::uint64_t flops = std::uint64_t{2} * arch::kTileRows * tile.n * tile.k;
  const std::uint64_t cycles = (flops + params_.issue.tensor_flops - 1) / params_.issue.tensor_flops;
  const Cycle end = std::max(now + cycles, memory_.read_tile(tile, now));
  Partition& partition = partition_of(slot);
  partition.issued(slot / kPartitions, now, 1, end - now);
  warp.scoreboard.accumulate(sums, end + params_.issue.tensor_latency);
  for (const arch::RegisterRange& range : warp.writes) {
    if (range.first != sums.first) warp.scoreboard.write(range, now + 1);
  }
  prepare(slot, now + 1);
}

// Warps arrive one after another, whatever their CTA and their barrier.
void WarpEngine::run_barrier(std::uint32_t slot, const Operation& operation) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  barrier_free_ = std::max(barrier_free_, domain_.now()) + params_.issue.barrier_interval;
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, domain_.now() + 1);
  warp.wait = WarpWait::barrier;
  warp.since = domain_.now() + 1;
  warp.barrier = operation.barrier;
  const CtaBarriers::Outcome outcome = cta.barriers.arrive(operation.barrier, operation.count, warp.place.warp);
  if (outcome == CtaBarriers::Outcome::wrong) return fault(slot, FaultKind::barrier, 0, operation.barrier);
  if (outcome == CtaBarriers::Outcome::opens) return open_barriers(cta);
  consider_save(cta);
}

void WarpEngine::open_barriers(Cta& cta) {
  const Cycle when = std::max(barrier_free_, domain_.now()) + params_.issue.barrier_latency;
  for (const std::uint32_t warp : cta.barriers.opened()) {
    const std::uint32_t slot = cta.warps[warp];
    if (when > warps_[slot].since) stats_.stall_barrier.add(when - warps_[slot].since);
    prepare(slot, when);
  }
}

void WarpEngine::run_exit(std::uint32_t slot) {
  Warp& warp = warps_[slot];
  Cta& cta = ctas_[warp.cta];
  warp.wait = WarpWait::exited;
  ++domain_.observation().progress;
  --cta.live;
  cta.last = std::max(cta.last, domain_.now() + 1);
  const CtaBarriers::Outcome outcome = cta.barriers.leave();
  if (outcome == CtaBarriers::Outcome::wrong) return fault(slot, FaultKind::barrier, 0, 0);
  if (outcome == CtaBarriers::Outcome::opens) open_barriers(cta);
  warp_left(slot);
  consider_save(cta);
  check_end(cta, domain_.now());
}

void WarpEngine::run_copies_wait(std::uint32_t slot, std::uint32_t groups) {
  Warp& warp = warps_[slot];
  const Cycle next = domain_.now() + 1;
  const Cycle ready = warp.copies.ready(groups, domain_.now());
  if (ready <= next) return finish(slot, next, next);
  for (const arch::RegisterRange& range : warp.writes) warp.scoreboard.write(range, next);
  warp.wait = WarpWait::copies;
  warp.since = next;
  warp.groups_wanted = groups;
  if (ready != kNeverReady) resume(slot, ready);
}

}  // namespace heddle::sm

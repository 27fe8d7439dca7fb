// CTAs with programs: their start, their end, and what ends them early.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/error.h"
#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

// What of the unified memory can be shared memory; the rest is L1. As published for compute capability 9.0.
constexpr std::array<std::uint32_t, 10> kCarveOuts = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
constexpr std::uint32_t kKib = 1024;

// The extents of the CGA that a CTA belongs to: ranks are those in a GPC_CGA, if it has one, which may have been split
// into a smaller size (CWD-21).
arch::Dim3 cluster_shape(const arch::ClusterShape& cluster, std::uint32_t cga_size) {
  if (cga_size == 1 || !cluster.any()) return {};
  for (std::size_t level = static_cast<std::size_t>(arch::CgaLevel::gpc); level < arch::kCgaLevels; ++level) {
    if (cluster.extents[level].count() == cga_size) return cluster.extents[level];
  }
  for (std::uint32_t i = 0; i < cluster.sizes(); ++i) {
    if (cluster.size(i).count() == cga_size) return cluster.size(i);
  }
  return {cga_size, 1, 1};
}

}  // namespace

void WarpEngine::start(const protocol::CtaStartPacket& start, Cycle arrival, Cycle first) {
  if (warps_.empty()) warps_.resize(partitions_.size() * ((params_.limits.warps + kPartitions - 1) / kPartitions));
  Cta& cta = ctas_[start.cta_slot];
  const auto same = [&start](const Cta& other) {
    return other.running && other.start.tag.operation == start.tag.operation;
  };
  const bool begins = std::none_of(ctas_.begin(), ctas_.end(), same);
  cta.running = true;
  cta.ending = cta.killed = cta.faulted = false;
  cta.start = start;
  cta.begin = arrival;
  cta.last = first;
  cta.landed = 0;
  cta.code = &code_.at(start.code);
  cta.block = cta.code->block_of({start.id.cta.x, start.id.cta.y, start.id.cta.z});
  cta.open = cta.bulk = cta.live = 0;
  cta.exit = Exit::no;
  cta.arrived = cta.released = 0;
  cta.reported = false;
  cta.phases = 0;
  cta.mbarrier_waiters.clear();
  cta.context_state = Cta::Context::none;
  cta.context = cta.streams = 0;
  cta.home_here = cta.knows_depth = cta.gives_turn = false;
  cta.move = kNoMove;
  cta.save_due = 0;
  cta.saved = cta.woken = false;
  cta.has_warps = !aborted(start.tag.operation);
  cta.warps.clear();
  if (!cta.has_warps) {
    cta.faulted = true;
    cta.last = arrival;
    if (start.area == 0) return end_at(cta, arrival);
    cta.killed = true;  // but its context is to be left
    return begin_restore(cta, arrival);
  }
  if (begins || start.queue) memory_.l1().invalidate_all();  // MEM-06; an entry is as new as a kernel
  if (begins) descriptors_old_ = true;                       // TMA-04
  size_l1(start.need[arch::Resource::shared_bytes]);
  memory_.shared_memory().open(start.cta_slot, cta.code->shared_bytes);
  if (cta.in_cga()) tables_.open_window(start.tag.cga_id, start.id.rank, start.cta_slot);
  const std::uint64_t threads = cta.block.count();
  const auto warps = static_cast<std::uint32_t>((threads + arch::kWarpLanes - 1) / arch::kWarpLanes);
  cta.live = warps;
  cta.barriers.start(warps);
  ++resident_;
  for (std::uint32_t warp = 0; warp < warps; ++warp) enter_warp(cta, start.cta_slot, warp, first);
  if (start.area != 0) return begin_restore(cta, arrival);
  if (start.queue) find_entry(cta);
}

// The warps of a CTA go to the partitions in turn, beginning with the one that has fewest.
std::uint32_t WarpEngine::take_slot(std::uint32_t turn) {
  for (std::uint32_t i = 0; i < kPartitions; ++i) {
    const std::uint32_t p = (turn + i) % kPartitions;
    const std::uint32_t slot = partitions_[p].free_slot();
    if (slot != Partition::kNone) return slot * kPartitions + p;
  }
  HEDDLE_CHECK(false, "a CTA was started without warp slots for it");
  return 0;
}

void WarpEngine::enter_warp(Cta& cta, std::uint32_t cta_slot, std::uint32_t number, Cycle first) {
  std::uint32_t turn = number;
  if (number == 0) {
    const auto fewest =
        std::min_element(partitions_.begin(), partitions_.end(),
                         [](const Partition& a, const Partition& b) { return a.resident() < b.resident(); });
    turn = static_cast<std::uint32_t>(fewest - partitions_.begin());
  } else {
    turn = cta.warps[number - 1] % kPartitions + 1;
  }
  const std::uint32_t slot = take_slot(turn);
  cta.warps.push_back(slot);
  partition_of(slot).enter(slot / kPartitions, ++serial_);

  Warp& warp = warps_[slot];
  const arch::CtaId& id = cta.start.id;
  warp.resident = true;
  warp.cta = cta_slot;
  warp.subcontext = cta.start.subcontext;
  warp.program = cta.code->program.get();
  arch::WarpPlace& place = warp.place;
  place.grid = cta.code->grid;
  place.block = cta.block;
  place.workgroup = cta.code->block;
  place.kernarg = cta.code->kernarg_of(id.index);
  place.cta_x = id.cta.x;
  place.cta_y = id.cta.y;
  place.cta_z = id.cta.z;
  place.cta = id.index;
  place.cluster = id.cga;
  place.rank = id.rank;
  place.cluster_size = id.cga_size;
  place.cluster_shape = cluster_shape(cta.code->cluster, id.cga_size);
  place.warp = number;
  place.warps = cta.live;
  const std::uint64_t threads = place.block.count() - std::uint64_t{number} * arch::kWarpLanes;
  place.lanes = threads >= arch::kWarpLanes ? ~arch::LaneMask{0} : (arch::LaneMask{1} << threads) - 1;
  warp.state.pc = 0;
  warp.state.exited = false;
  warp.program->start(place, warp.state);
  warp.scoreboard.start(warp.program->registers());
  warp.compute_left = 0;
  warp.held = warp.wants_flush = warp.acquires = false;
  warp.cluster_arrived = warp.cluster_passed = warp.in_table = false;
  warp.issued_pc = warp.state.pc;
  warp.begin_groups();
  if (cta.start.area != 0) {
    warp.wait = WarpWait::restore;
  } else {
    prepare(slot, first);
  }
}

// The L1 is what CTAs leave of the unified memory. While some are here it can only shrink.
void WarpEngine::size_l1(std::uint32_t shared_bytes) {
  shared_held_ += shared_bytes;
  std::uint32_t carve_out = params_.limits.shared_bytes;
  for (const std::uint32_t option : kCarveOuts) {
    if (option * kKib < shared_held_) continue;
    carve_out = option * kKib;
    break;
  }
  const std::uint32_t unified = params_.memory.unified_bytes;
  const std::uint32_t bytes = unified > carve_out ? unified - carve_out : 0;
  if (resident_ == 0 || bytes < memory_.l1().capacity()) memory_.l1().resize(bytes);
}

void WarpEngine::check_end(Cta& cta, Cycle when) {
  if (cta.live > 0 || cta.open > 0 || cta.ending || cta.exit == Exit::asked) return;
  if (cta.gives_turn && !cta.saved) return give_turn(cta, when);
  if (cta.exit == Exit::permitted) return leave(cta.start.cta_slot);
  if (cta.killed && memory_.in_flight_of_cta(cta.start.cta_slot) > 0) return;
  end_at(cta, std::max(cta.killed ? cta.landed : cta.last, when));
}

void WarpEngine::end_at(Cta& cta, Cycle when) {
  cta.ending = true;
  domain_.schedule(std::max(when, domain_.now()), *this, kCtaEnds, cta.start.cta_slot);
}

void WarpEngine::end(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  if (cta.has_warps && (cta.open > 0 || in_flight(cta))) {
    cta.ending = false;
    if (cta.open > 0) return;  // an error that is on its way
    if (!cta.killed && cta.in_cga()) return ask_to_leave(cta);
    if (memory_.in_flight_of_cta(cta_slot) == 0) end_at(cta, cta.landed);
    return;
  }
  leave(cta_slot);
}

void WarpEngine::leave(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  if (cta.has_warps) {
    for (const std::uint32_t slot : cta.warps) {
      partition_of(slot).leave(slot / kPartitions);
      warps_[slot].resident = false;
      if (warps_[slot].in_table) tables_.set_warp(slot, protocol::kNoCgaId);
    }
    if (cta.in_cga()) tables_.invalidate(cta_slot);
    memory_.shared_memory().close(cta_slot);
    shared_held_ -= cta.start.need[arch::Resource::shared_bytes] - cta.released;
    --resident_;
  }
  if (cta.has_context() && !nested_.shared_contexts && !cta.saved) {
    host_.tell_tasks({protocol::ChildPacket::Kind::leave, cta.context, 0, 0});
  }
  cta.running = false;
  if (cta.saved) return host_.cta_saved(cta_slot);
  host_.cta_over(cta_slot, cta.faulted);
}

// Its warps stop, and what comes later for them is swallowed. It ends when its accesses have: no store of it may come
// after what its end lets go on.
void WarpEngine::kill(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  stop_move(cta);
  memory_.forget(cta_slot);
  for (const std::uint32_t slot : cta.warps) {
    Partition& partition = partition_of(slot);
    partition.block(slot / kPartitions);
    partition.cut(slot / kPartitions, domain_.now());
    const std::uint32_t p = slot % kPartitions;
    due_[p] = std::min(due_[p], partition.next(memory_.free()));
    warps_[slot].wait = WarpWait::exited;
    const auto found = std::find(order_waiters_.begin(), order_waiters_.end(), slot);
    if (found != order_waiters_.end()) order_waiters_.erase(found);
    bulk_waiters_.erase(std::remove(bulk_waiters_.begin(), bulk_waiters_.end(), slot), bulk_waiters_.end());
  }
  cta.killed = cta.faulted = true;
  cta.live = 0;
  for (const std::uint32_t slot : cta.warps) stop_nested(slot);
  cta.mbarrier_waiters.clear();
  if (!issuing_) arm();
  check_end(cta, cta.begin);
}

void WarpEngine::abort(std::uint32_t operation) {
  if (!aborted(operation)) aborted_.push_back(operation);
  for (std::uint32_t slot = 0; slot < ctas_.size(); ++slot) {
    const Cta& cta = ctas_[slot];
    const bool stays = cta.running && !cta.ending && !cta.killed && cta.exit == Exit::no;
    if (stays && cta.start.tag.operation == operation) kill(slot);
  }
}

bool WarpEngine::aborted(std::uint32_t operation) const {
  return std::find(aborted_.begin(), aborted_.end(), operation) != aborted_.end();
}

arch::FaultRecord WarpEngine::record_of(const Warp& warp, arch::FaultKind kind, std::uint32_t pc) const {
  const protocol::CtaStartPacket& start = ctas_[warp.cta].start;
  arch::FaultRecord record;
  record.kind = kind;
  record.task = start.tag.operation;
  record.sm = place_.id;
  record.subcontext = start.subcontext;
  record.gpc = place_.gpc;
  record.gpc_local_cga_id = start.tag.cga_id;
  record.cta_id_in_cga = start.id.rank;
  record.cga = start.id.cga;
  record.cta = start.id.index;
  record.cta_x = start.id.cta.x;
  record.cta_y = start.id.cta.y;
  record.cta_z = start.id.cta.z;
  record.warp = warp.place.warp;
  arch::WarpState then = warp.state;
  then.pc = pc;
  record.where = warp.program->describe(then);
  return record;
}

// The operation that issues now cannot be carried out.
void WarpEngine::fault(std::uint32_t slot, arch::FaultKind kind, std::uint32_t lane, std::uint64_t address) {
  const Warp& warp = warps_[slot];
  arch::FaultRecord record = record_of(warp, kind, warp.issued_pc);
  record.lane = lane;
  record.operation = issuing_code_;
  record.address = address;
  if (kind == arch::FaultKind::cluster_rank || kind == arch::FaultKind::cluster_absent ||
      kind == arch::FaultKind::cluster_offset || kind == arch::FaultKind::cluster_domain) {
    record.target = static_cast<std::uint32_t>(arch::dsmem_rank(address));
  }
  record.cycle = domain_.now();
  report(record, warp.cta);
}

void WarpEngine::report(const arch::FaultRecord& record, std::uint32_t cta_slot) {
  stats_.faults.add();
  kill(cta_slot);
  if (fault_sink_) fault_sink_(record);
}

// It stops its CTA when it arrives; until then, the CTA waits for it.
void WarpEngine::add_failure(Failure failure) {
  const Cycle when = std::max(static_cast<Cycle>(failure.record.cycle), domain_.now());
  if (failure.cta != kNoCta) ++ctas_[failure.cta].open;
  const std::uint32_t index = failures_.take();
  failures_[index] = std::move(failure);
  domain_.schedule(when, *this, kFails, index);
}

void WarpEngine::failed(std::uint32_t index) {
  const Failure failure = std::move(failures_[index]);
  failures_.give_back(index);
  if (failure.cta == kNoCta) return trap(failure);
  Cta& cta = ctas_[failure.cta];
  HEDDLE_CHECK(cta.running && cta.open > 0, "a CTA ended before its failure");
  --cta.open;
  if (cta.killed || aborted(cta.start.tag.operation)) return check_end(cta, domain_.now());
  report(failure.record, failure.cta);
}

bool WarpEngine::at_rest(std::uint32_t cta_slot, std::uint32_t number) const {
  const Cta& cta = ctas_[cta_slot];
  // What the TMAU does for the CTA must have ended as well (TMA-31).
  if (!cta.running || number >= cta.warps.size() || cta.bulk > 0) return false;
  const Warp& warp = warps_[cta.warps[number]];
  return warp.wait == WarpWait::barrier && warp.scoreboard.under_way() == 0 && !warp.copies.under_way();
}

std::vector<std::uint8_t> WarpEngine::save(std::uint32_t cta_slot, std::uint32_t warp) const {
  HEDDLE_CHECK(at_rest(cta_slot, warp), "a warp was saved that does not wait at a barrier");
  return arch::save(warps_[ctas_[cta_slot].warps[warp]].state);
}

void WarpEngine::restore(std::uint32_t cta_slot, std::uint32_t warp, const std::vector<std::uint8_t>& bytes) {
  HEDDLE_CHECK(at_rest(cta_slot, warp), "a warp was restored that does not wait at a barrier");
  arch::WarpState& state = warps_[ctas_[cta_slot].warps[warp]].state;
  arch::WarpState restored = arch::restore(bytes);
  if (restored.registers.size() != state.registers.size() || restored.scalars.size() != state.scalars.size()) {
    throw InputError(fmt::format("the saved warp has {} registers and {} scalars, its program {} and {}",
                                 restored.registers.size() / arch::kWarpLanes, restored.scalars.size(),
                                 state.registers.size() / arch::kWarpLanes, state.scalars.size()),
                     "restore it into the program that it was saved from");
  }
  state = std::move(restored);
}

}  // namespace heddle::sm

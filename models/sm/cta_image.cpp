#include "sm/cta_image.h"

#include <algorithm>

#include "common/error.h"
#include "sm/barrier_unit.h"
#include "sm/bulk_unit.h"
#include "sm/cta_control.h"
#include "sm/cta_table.h"
#include "sm/device_launch_unit.h"
#include "sm/faults.h"
#include "sm/sm_occupancy.h"
#include "sm/timed_ctas.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {
namespace {

SavedWarp::At at_of(WarpWait wait) {
  switch (wait) {
    case WarpWait::barrier:
      return SavedWarp::At::barrier;
    case WarpWait::cluster:
      return SavedWarp::At::cluster;
    case WarpWait::mbarrier:
      return SavedWarp::At::mbarrier;
    case WarpWait::frozen:
      return SavedWarp::At::running;
    default:
      return SavedWarp::At::children;
  }
}

}  // namespace

SavedHeader CtaImage::header_of(const Cta& cta, bool owed) const {
  SavedHeader header;
  header.operation = cta.operation;
  header.record = cta.record;
  header.context = cta.context.here() ? cta.context.address : 0;
  header.index = cta.start.id.index;
  header.cga = cta.start.id.cga;
  header.size = cta.start.id.size;
  header.owed = owed;
  header.cta = {cta.start.id.cta.x, cta.start.id.cta.y, cta.start.id.cta.z};
  for (const LocalPart& part : local_of(cta)) header.local += static_cast<std::uint32_t>(part.bytes);
  return header;
}

bool CtaImage::is_sound(const Cta& cta) const {
  return !cta.has_warps() || !peers_.shared.poisoned(cta.start.cta_slot, 0, peers_.shared.size(cta.start.cta_slot));
}

bool CtaImage::waits_for_tasks(const Cta& cta) const {
  return std::any_of(cta.warps.begin(), cta.warps.end(),
                     [this](std::uint32_t slot) { return warps_[slot].wait == WarpWait::children; });
}

std::vector<LocalPart> CtaImage::local_of(const Cta& cta) const {
  std::vector<LocalPart> local;
  const std::uint64_t words = (cta.start.local_bytes + arch::kLocalWord - 1) / arch::kLocalWord;
  if (words == 0) return local;
  const SmRegisters::LocalBlock& block = registers_.local[cta.start.subcontext];
  for (const std::uint32_t slot : cta.warps) {
    local.push_back(
        {local_base(block, place_, params_.warp_slots(), slot), words * arch::kLocalWord * arch::kWarpLanes});
  }
  return local;
}

SavedCta CtaImage::state_of(const Cta& cta) const {
  const std::uint32_t cta_slot = cta.start.cta_slot;
  SavedCta saved;
  saved.operation = cta.operation;
  saved.index = cta.start.id.index;
  saved.record = cta.record;
  saved.context = cta.context.here() ? cta.context.address : 0;
  saved.kernarg = cta.has_warps() ? warps_[cta.warps[0]].place.kernarg : 0;
  saved.waits = waits_for_tasks(cta);
  if (!cta.has_warps()) saved.remaining = peers_.timed.left(cta);
  saved.queue = cta.queue;
  saved.gives_turn = cta.turn.has_value();
  if (cta.turn) saved.turn_entry = cta.turn->entry;
  if (cta.turn) saved.turn = cta.turn->value;
  saved.barriers = cta.barriers.save();
  saved.cluster_arrived = cta.cluster[0].arrived;
  saved.cluster_phases = cta.cluster[0].phases;
  std::uint64_t named = 0;
  for (const std::uint32_t slot : cta.warps) {
    const Warp& warp = warps_[slot];
    SavedWarp its;
    its.issued_pc = warp.issued_pc;
    its.cluster_arrived = warp.cluster[0].arrival != ClusterArrival::none;
    its.cluster_passed = warp.cluster[0].arrival == ClusterArrival::passed;
    if (warp.wait != WarpWait::exited) {
      its.at = at_of(warp.wait);
      if (its.at == SavedWarp::At::children) its.targets = peers_.launches.targets_of(slot);
      if (its.at == SavedWarp::At::mbarrier) its.lanes = warp.operation->lanes;
      its.acquires = warp.acquires;
      if (its.at == SavedWarp::At::running && warp.next == WarpNext::compute) {
        its.unit = static_cast<std::uint8_t>(warp.unit);
        its.compute_left = warp.compute_left;
        its.compute_latency = warp.compute_latency;
      }
      its.barrier = its.at == SavedWarp::At::barrier ? warp.barrier : 0;
      its.state = warp.state;
      its.state.registers.resize(std::size_t{warp.program->registers()} * arch::kWarpLanes);  // without hidden ones
    }
    named += its.state.registers.size();
    saved.warps.push_back(std::move(its));
  }
  // Registers are allocated for groups of warps: those of warps that there are not hold nothing.
  if (!cta.has_warps()) {
    saved.further_bytes = std::uint64_t{cta.need[arch::Resource::registers]} * sizeof(std::uint32_t) +
                          cta.need[arch::Resource::shared_bytes];
    return saved;
  }
  const auto warps = static_cast<std::uint32_t>(cta.warps.size());
  const std::uint32_t group = params_.limits.warp_granularity;
  const std::uint64_t allocated =
      std::uint64_t{cta.need[arch::Resource::registers]} / ((warps + group - 1) / group * group) * warps;
  if (allocated > named) saved.further_bytes = (allocated - named) * sizeof(std::uint32_t);
  const std::uint8_t* bytes = peers_.shared.data(cta_slot);
  saved.shared.assign(bytes, bytes + peers_.shared.size(cta_slot));
  return saved;
}

void CtaImage::take_id(Cta& cta, const SavedHeader& header) const {
  arch::CtaId& id = cta.start.id;
  id.index = header.index;
  id.cga = header.cga;
  id.size = static_cast<std::uint8_t>(header.size);
  id.cta = {header.cta[0], header.cta[1], header.cta[2]};
  for (const std::uint32_t slot : cta.warps) peers_.control.place(cta, slot);
}

void CtaImage::put_back(Cta& cta, const std::vector<std::uint8_t>& bytes) const {
  const SavedCta saved = restore_cta(bytes);
  const bool same =
      saved.context == (cta.context.here() ? cta.context.address : 0) && saved.index == cta.start.id.index;
  if (!same || saved.warps.size() != cta.warps.size()) does_not_fit("its header says so");
  if (cta.code != nullptr && saved.shared.size() > cta.code->shared_bytes) does_not_fit("it has more shared memory");
  for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
    check_fits(saved.warps[warp], warps_[cta.warps[warp]].state, warp);
  }
  ++time_.observation().progress;
  if (!cta.has_warps()) return peers_.timed.resume(cta, saved.remaining);
  peers_.windows.give_back(cta, saved.shared.size());
  peers_.shared.fill(cta.start.cta_slot, saved.shared);
  peers_.l1.invalidate_all();  // what it wrote elsewhere is newer (MEM-06)
  peers_.bulk.begin_kernel(cta.start.tag.operation);
  cta.queue = saved.queue;
  cta.turn.reset();
  if (saved.gives_turn) cta.turn = Cta::QueueTurn{saved.turn_entry, saved.turn};
  cta.barriers.restore(saved.barriers);
  cta.cluster[0].arrived = saved.cluster_arrived;
  cta.cluster[0].phases = saved.cluster_phases;
  cta.live = saved.barriers.left;
  for (std::uint32_t warp = 0; warp < cta.warps.size(); ++warp) {
    warps_[cta.warps[warp]].place.kernarg = saved.kernarg;
    put_back_warp(cta, warp, saved.warps[warp]);
  }
  // Others of its CGA hear again that it has arrived; what it waits for may have come with a phase that is over.
  if (cta.in_cga()) peers_.barriers.restored(cta);
  peers_.mbarriers.look_at_waiters(cta, now());
}

void CtaImage::put_back_warp(const Cta& cta, std::uint32_t number, const SavedWarp& saved) const {
  const std::uint32_t slot = cta.warps[number];
  Warp& warp = warps_[slot];
  warp.issued_pc = saved.issued_pc;
  warp.cluster[0].arrival = !saved.cluster_arrived ? ClusterArrival::none
                            : saved.cluster_passed ? ClusterArrival::passed
                                                   : ClusterArrival::arrived;
  warp.cluster[0].passes = 0;
  warp.writes.clear();
  warp.accumulators = {};
  warp.since = now();
  switch (saved.at) {
    case SavedWarp::At::exited:
      warp.state.exited = true;
      warp.wait = WarpWait::exited;
      return;
    case SavedWarp::At::barrier:
      warp.state = saved.state;
      warp.code = arch::OpCode::barrier;
      warp.unit = arch::Unit::none;
      warp.wait = WarpWait::barrier;
      warp.barrier = saved.barrier;
      return;
    case SavedWarp::At::running:
      warp.state = saved.state;
      if (saved.compute_left == 0) return peers_.scheduler.prepare(slot, now());
      warp.code = arch::OpCode::compute;
      warp.unit = static_cast<arch::Unit>(saved.unit);
      warp.next = WarpNext::compute;
      warp.compute_left = saved.compute_left;
      warp.compute_latency = saved.compute_latency;
      return peers_.scheduler.give_turn(slot, now(), warp.unit);
    case SavedWarp::At::cluster:
      warp.state = saved.state;
      warp.code = arch::OpCode::cluster_wait;
      warp.unit = arch::Unit::none;
      warp.wait = WarpWait::cluster;
      warp.cluster_level = 0;
      warp.acquires = saved.acquires;
      return;
    case SavedWarp::At::mbarrier:
      warp.state = saved.state;
      return peers_.mbarriers.resume_wait(slot, saved.lanes, saved.acquires);
    case SavedWarp::At::children:
      warp.state = saved.state;
      warp.code = arch::OpCode::wait_children;
      return peers_.launches.resume_wait(slot, saved.targets);
  }
}

}  // namespace heddle::sm

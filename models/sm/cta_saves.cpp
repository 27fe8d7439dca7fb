#include "sm/cta_saves.h"

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

bool CtaRest::all_wait(const Cta& cta) const {
  if (cta.stage != CtaStage::running || !cta.has_warps() || cta.killed() || cta.saved) return false;
  if (cta.start.tag.barriers.any()) return false;
  if (cta.in_cga()) return can_go_with_cga(cta);
  if (!cta.context.here()) return false;
  bool waits = false;
  for (const std::uint32_t slot : cta.warps) {
    const WarpWait wait = warps_[slot].wait;
    if (wait != WarpWait::exited && wait != WarpWait::barrier && wait != WarpWait::children) return false;
    waits |= wait == WarpWait::children;
    // Who waits for some tasks of a context that it shares could not be found when they complete.
    if (memory_.shared_contexts && peers_.launches.waits_for_some(slot)) return false;
  }
  return waits;
}

// A CTA of a GPC_CGA is saved with all others of it, one of which waits for tasks: what it waits for can be one of
// them.
bool CtaRest::can_go_with_cga(const Cta& cta) const {
  if (cta.record == 0 || memory_.shared_contexts || cta.start.cga_memory || cta.live == 0) return false;
  if (cta.block != cta.code->block) return false;  // a part of a CTA, at the edge of its grid
  return std::all_of(cta.warps.begin(), cta.warps.end(), [this](std::uint32_t slot) {
    switch (warps_[slot].wait) {
      case WarpWait::exited:
      case WarpWait::barrier:
      case WarpWait::children:
      case WarpWait::cluster:
      case WarpWait::mbarrier:
        return true;
      default:
        return false;
    }
  });
}

bool CtaRest::has_stopped(const Cta& cta) const {
  return std::all_of(cta.warps.begin(), cta.warps.end(), [this](std::uint32_t slot) {
    switch (warps_[slot].wait) {
      case WarpWait::frozen:
      case WarpWait::exited:
      case WarpWait::barrier:
      case WarpWait::children:
      case WarpWait::mbarrier:
      case WarpWait::cluster:
        return true;
      default:
        return false;
    }
  });
}

bool CtaRest::is_settled(const Cta& cta, bool needs_home) const {
  const Cycle cycle = now();
  if ((needs_home && !cta.context.home_here) || cta.open > 0 || cta.bulk > 0 || peers_.control.in_flight(cta))
    return false;
  return std::all_of(cta.warps.begin(), cta.warps.end(), [this, cycle](std::uint32_t slot) {
    const Warp& warp = warps_[slot];
    return warp.scoreboard.settled(cycle) && warp.copies.settled(cycle) && warp.multiplies.settled(cycle) &&
           warp.bulk.settled(cycle) && warp.bulk_reads.settled(cycle) &&
           (warp.cluster[0].arrival != ClusterArrival::passed || warp.cluster[0].passes <= cycle);
  });
}

CtaSaves::CtaSaves(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix,
                   const SwapPeers& peers, EventHandler& handler)
    : SmUnit(context),
      memory_(memory),
      peers_(peers),
      handler_(handler),
      image_(context, peers),
      rest_(context, memory, peers),
      saves_(context.params.limits.ctas) {
  if (memory.chunks.count > 0) stats_.emplace(context.time.observation().stats, prefix);
}

void CtaSaves::freeze(const Cta& cta) {
  CtaSave& save = of(cta);
  save.makes_room = true;
  for (const std::uint32_t slot : cta.warps) peers_.scheduler.freeze(slot);
  peers_.scheduler.rearm();
  stopped(cta);
}

void CtaSaves::thaw(Cta& cta) {
  CtaSave& save = of(cta);
  save.makes_room = save.called = false;
  for (const std::uint32_t slot : cta.warps) {
    Warp& warp = warps_[slot];
    warp.frozen = false;
    if (warp.wait == WarpWait::frozen) peers_.scheduler.give_turn(slot, now(), warp.unit);
  }
  if (!cta.has_warps()) peers_.timed.go_on(cta);
}

void CtaSaves::stopped(const Cta& cta) {
  const CtaSave& save = of(cta);
  if (save.makes_room && save.is_here() && has_stopped(cta)) at(now(), kStopped, cta);
}

void CtaSaves::reset() {
  for (CtaSave& save : saves_) save = {};
  wanted_ = {};
}

bool CtaSaves::is_settled(const Cta& cta) const {
  const bool needs_home =
      !memory_.shared_contexts && image_.waits_for_tasks(cta) && !saves_[cta.start.cta_slot].makes_room;
  return rest_.is_settled(cta, needs_home);
}

void CtaSaves::consider(const Cta& cta) {
  if (!stats_ || params_.nested.save == SavePolicy::off || !all_wait(cta)) return;
  CtaSave& save = of(cta);
  save.due = now() + params_.nested.save_delay;
  at(save.due, kWaited, cta);
}

void CtaSaves::want(const protocol::Preemption& wanted) {
  if (params_.nested.save != SavePolicy::wanted) return;
  wanted_ = wanted;
  if (!stats_ || wanted.ctas == 0) return;
  std::vector<const Cta*> waiting;
  for (const Cta& cta : ctas_) {
    if (cta.here() && of(cta).due <= now() && all_wait(cta)) waiting.push_back(&cta);
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const Cta* a, const Cta* b) {
    return a->context.depth.value_or(0) < b->context.depth.value_or(0);
  });
  for (const Cta* cta : waiting) {
    of(*cta).due = now();
    at(now(), kWaited, *cta);
  }
}

// The others of its CGA do not know whether there is room here.
bool CtaSaves::is_wanted(const Cta& cta) const {
  if (params_.nested.save != SavePolicy::wanted) return true;
  if (wanted_.ctas == 0 || cta.in_cga()) return wanted_.ctas > 0;
  arch::ResourceVector free = peers_.occupancy.capacity();
  for (const Cta& other : ctas_) {
    const CtaSave& save = of(other);
    if (other.here() && !other.saved && !save.makes_room && !save.called && !save.is_saving())
      free.subtract(other.need);
  }
  arch::ResourceVector needed{};
  for (std::uint32_t i = 0; i < wanted_.ctas; ++i) needed.add(wanted_.need);
  return !needed.within(free);
}

bool CtaSaves::begin_save(Cta& cta, const SaveHome& home) {
  using Kind = SaveHome::Kind;
  CtaSave& save = of(cta);
  // One that waits for its children leaves its task nothing to count but its context.
  SavedHeader header = image_.header_of(cta, save.makes_room && (!cta.was_saved() || cta.owed));
  const std::vector<std::uint8_t> bytes = sm::save(image_.state_of(cta));
  header.bytes = bytes.size();
  save.with_cga = home.kind == Kind::cga || home.kind == Kind::leader;
  if (!save.with_cga) save.woken = false;  // a member can have been woken since it said that it could be saved
  save.lacks = 0;
  const arch::RecordPool& chunks = memory_.of(cta.start.subcontext).chunks;
  if (!SaveLayout::fits(chunks, header)) {
    stats_->too_large.add();
    save.lacks_chunks(header);
    return false;
  }
  begin(cta, ContextTransfer::save(chunks, header, bytes, home, image_.local_of(cta)), CtaSave::State::saving, now());
  return true;
}

void CtaSaves::begin(Cta& cta, ContextTransfer steps, CtaSave::State state, Cycle when) {
  CtaSave& save = of(cta);
  HEDDLE_CHECK(save.is_here(), "a CTA goes to memory and comes back at the same time");
  save.state = state;
  save.transfer = peers_.transfers.begin(cta, std::move(steps), when);
  if (save.holds()) ++cta.open;
}

void CtaSaves::detach(Cta& cta) {
  CtaSave& save = of(cta);
  if (save.holds()) --cta.open;
  save.state = CtaSave::State::here;
  peers_.transfers.detach(save.transfer);
}

void CtaSaves::saved(Cta& cta) {
  ++time_.observation().progress;
  cta.saved = true;
  if (cta.code == nullptr) peers_.timed.stop(cta);
  cta.context.home_here = false;
  if (!cta.killed()) {
    for (const std::uint32_t slot : cta.warps) {
      warps_[slot].wait = WarpWait::exited;
      peers_.launches.forget(slot);
    }
    cta.mbarrier_waiters.clear();
    cta.live = 0;
  }
  peers_.control.check_end(cta, now());
}

void CtaSaves::put_back(Cta& cta, const std::vector<std::uint8_t>& bytes) {
  try {
    image_.put_back(cta, bytes);
  } catch (const InputError& error) {
    return failed(cta, arch::FaultKind::poison, "restoring its CTA: " + error.message());
  }
  of(cta).phases = cta.cluster[0].phases;
  if (!cta.killed()) consider(cta);
}

void CtaSaves::failed(Cta& cta, arch::FaultKind kind, const std::string& where) {
  if (cta.killed()) return peers_.control.check_end(cta, now());
  const Warp* const warp = cta.has_warps() ? &warps_[cta.warps[0]] : nullptr;
  arch::FaultRecord record =
      warp ? peers_.faults.record_of(*warp, kind, warp->state.pc) : peers_.faults.record_of(cta, kind);
  if (warp) record.operation = arch::OpCode::wait_children;
  record.address = cta.start.area;
  record.where = where;
  record.cycle = now();
  peers_.faults.stop(record, cta.start.cta_slot);
}

}  // namespace heddle::sm

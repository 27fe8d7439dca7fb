#include "sm/cta_stop.h"

#include <algorithm>

#include "sm/barrier_unit.h"
#include "sm/bulk_unit.h"
#include "sm/cta_control.h"
#include "sm/cta_table.h"
#include "sm/device_launch_unit.h"
#include "sm/faults.h"
#include "sm/sm_occupancy.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

// Its warps stop at their next instruction. The least urgent go first, then those that came last.
void CtaStop::make_room(const protocol::Preemption& wanted) {
  if (!saves_.possible()) return;
  arch::ResourceVector free = peers_.occupancy.capacity();
  std::vector<Cta*> victims;
  for (Cta& cta : ctas_) {
    if (!cta.here()) continue;
    const bool goes = cta.saved || saves_.of(cta).makes_room;
    if (!goes) free.subtract(cta.need);
    if (!goes && can_make_room(cta, wanted)) victims.push_back(&cta);
  }
  std::stable_sort(victims.begin(), victims.end(), [](const Cta* a, const Cta* b) {
    if (a->start.priority != b->start.priority) return a->start.priority < b->start.priority;
    return a->begin > b->begin;
  });
  arch::ResourceVector needed{};
  for (std::uint32_t i = 0; i < wanted.ctas; ++i) needed.add(wanted.need);
  for (Cta* cta : victims) {
    if (wanted.kind == protocol::Preemption::Kind::room && needed.within(free)) return;
    free.add(cta->need);
    stop(*cta);
  }
}

bool CtaStop::can_make_room(const Cta& cta, const protocol::Preemption& wanted) const {
  const bool runs = cta.stage == CtaStage::running && !cta.killed() && cta.fate == CtaFate::lives;
  if (!runs || cta.start.tag.in_any_cga() || memory_.shared_contexts) return false;
  if (!saves_.of(cta).is_here()) return false;
  return wanted.kind == protocol::Preemption::Kind::room ? cta.start.priority < wanted.priority
                                                         : cta.start.subcontext != wanted.subcontext;
}

void CtaStop::stop(const Cta& cta) {
  saves_.of(cta).makes_room = true;
  for (const std::uint32_t slot : cta.warps) peers_.scheduler.freeze(slot);
  peers_.scheduler.rearm();
  stopped(cta);
}

void CtaStop::stopped(const Cta& cta) {
  const CtaSave& save = saves_.of(cta);
  if (!save.makes_room || !save.is_here() || !saves_.has_stopped(cta)) return;
  saves_.at(now(), CtaSaves::kStopped, cta);
}

void CtaStop::try_save(Cta& cta) {
  constexpr Cycle kLookAgain = 16;
  const CtaSave& save = saves_.of(cta);
  if (!cta.here() || !save.makes_room || !save.is_here() || cta.killed() || !saves_.has_stopped(cta)) return;
  if (cta.stage != CtaStage::running || (cta.has_warps() && cta.live == 0)) return;  // it ends by itself
  if (!saves_.is_settled(cta)) return saves_.at(now() + kLookAgain, CtaSaves::kStopped, cta);
  if (!saves_.image().is_sound(cta)) return;
  if (!saves_.begin_save(cta, {SaveHome::Kind::none, 0, false})) thaw(cta);
}

// There was no room for its state.
void CtaStop::thaw(const Cta& cta) {
  saves_.of(cta).makes_room = false;
  for (const std::uint32_t slot : cta.warps) {
    Warp& warp = warps_[slot];
    warp.frozen = false;
    if (warp.wait == WarpWait::frozen) peers_.scheduler.give_turn(slot, now(), warp.unit);
  }
}

}  // namespace heddle::sm

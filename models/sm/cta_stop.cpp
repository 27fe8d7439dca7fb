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

// The least urgent go first, of those that are as urgent CTAs of no CGA, and then those that came last.
void CtaStop::make_room(const protocol::Preemption& wanted) {
  if (wanted.kind == protocol::Preemption::Kind::waiting) return saves_.want(wanted);
  if (!saves_.possible()) return;
  arch::ResourceVector free = peers_.occupancy.capacity();
  std::vector<Cta*> victims;
  for (Cta& cta : ctas_) {
    if (!cta.here() || goes(cta)) continue;
    free.subtract(cta.need);
    if (can_make_room(cta, wanted)) victims.push_back(&cta);
  }
  std::stable_sort(victims.begin(), victims.end(), [](const Cta* a, const Cta* b) {
    if (a->start.priority != b->start.priority) return a->start.priority < b->start.priority;
    if (a->in_cga() != b->in_cga()) return b->in_cga();
    return a->begin > b->begin;
  });
  arch::ResourceVector needed{};
  for (std::uint32_t i = 0; i < wanted.ctas; ++i) needed.add(wanted.need);
  for (Cta* cta : victims) {
    if (wanted.kind == protocol::Preemption::Kind::room && needed.within(free)) return;
    if (goes(*cta)) continue;  // with another of its CGA
    if (cta->in_cga()) {
      free.add(members_.call(*cta));
    } else {
      free.add(cta->need);
      saves_.freeze(*cta);
    }
  }
}

bool CtaStop::goes(const Cta& cta) const {
  const CtaSave& save = saves_.of(cta);
  return cta.saved || save.makes_room || save.called;
}

bool CtaStop::can_make_room(const Cta& cta, const protocol::Preemption& wanted) const {
  const bool runs = cta.stage == CtaStage::running && !cta.killed() && cta.fate == CtaFate::lives;
  if (!runs || !saves_.of(cta).is_here() || !members_.can_be_stopped(cta)) return false;
  return wanted.kind == protocol::Preemption::Kind::room ? cta.start.priority < wanted.priority
                                                         : cta.start.subcontext != wanted.subcontext;
}

// Others count on the place that it has drawn, and whoever makes an entry free can wait for other warps of the CTA. So
// all of it goes on.
void CtaStop::cannot_stop(Cta& cta) {
  const CtaSave& save = saves_.of(cta);
  if (!cta.here() || !save.makes_room || !save.is_here() || cta.killed()) return;
  if (cta.in_cga()) members_.refuse(cta);
  saves_.thaw(cta);
}

void CtaStop::try_save(Cta& cta) {
  constexpr Cycle kLookAgain = 16;
  const CtaSave& save = saves_.of(cta);
  if (!cta.here() || !save.makes_room || !save.is_here() || cta.killed() || !saves_.has_stopped(cta)) return;
  if (cta.stage != CtaStage::running || (cta.has_warps() && cta.live == 0)) return;  // it ends by itself
  if (!saves_.is_settled(cta)) return saves_.at(now() + kLookAgain, CtaSaves::kStopped, cta);
  if (cta.in_cga()) return members_.announce(cta);
  const bool begun = saves_.image().is_sound(cta) && saves_.begin_save(cta, {SaveHome::Kind::none, 0, false});
  if (!begun) saves_.thaw(cta);
}

}  // namespace heddle::sm

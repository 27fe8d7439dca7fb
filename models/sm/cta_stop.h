// CTAs of an SM that are stopped at their next instruction, and saved, to make room for more urgent ones (TSK-16).
#pragma once

#include "sm/cta_saves.h"

namespace heddle::sm {

class CtaStop final : private SmUnit {
 public:
  CtaStop(const UnitContext& context, const arch::LaunchMemory& memory, const SwapPeers& peers, CtaSaves& saves)
      : SmUnit(context), memory_(memory), peers_(peers), saves_(saves) {}

  // Less urgent CTAs make room.
  void make_room(const protocol::Preemption& wanted);
  // A warp of a CTA that is to make room has stopped.
  void stopped(const Cta& cta);
  // It may be saved now.
  void try_save(Cta& cta);
  // It goes on: it has not been saved.
  void thaw(const Cta& cta);

 private:
  bool can_make_room(const Cta& cta, const protocol::Preemption& wanted) const;
  void stop(const Cta& cta);

  const arch::LaunchMemory& memory_;
  SwapPeers peers_;
  CtaSaves& saves_;
};

}  // namespace heddle::sm

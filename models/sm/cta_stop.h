// CTAs of an SM that are stopped at their next instruction, and saved, to make room for more urgent ones (TSK-16).
#pragma once

#include "sm/cga_members.h"

namespace heddle::sm {

class CtaStop final : private SmUnit {
 public:
  CtaStop(const UnitContext& context, const SwapPeers& peers, CtaSaves& saves, CgaMembers& members)
      : SmUnit(context), peers_(peers), saves_(saves), members_(members) {}

  // Less urgent CTAs make room.
  void make_room(const protocol::Preemption& wanted);
  // A warp of the CTA waits for a free entry of a queue.
  void cannot_stop(Cta& cta);
  // All warps of a CTA that is to make room have stopped: it may be saved now.
  void try_save(Cta& cta);

 private:
  bool can_make_room(const Cta& cta, const protocol::Preemption& wanted) const;
  bool goes(const Cta& cta) const;

  SwapPeers peers_;
  CtaSaves& saves_;
  CgaMembers& members_;
};

}  // namespace heddle::sm

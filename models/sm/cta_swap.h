// CTAs that wait for tasks that they have launched give up their slots, and CTAs make room for more urgent ones: their
// state goes to memory and comes back, to this SM or to another one (TSK-12, TSK-16).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sm/cga_members.h"
#include "sm/cta_saves.h"
#include "sm/cta_stop.h"

namespace heddle::sm {

class CtaSwap final : private SmUnit, public TransferListener, private EventHandler {
 public:
  // `prefix`: of statistics.
  CtaSwap(const UnitContext& context, const arch::LaunchMemory& memory, const std::string& prefix,
          const SwapPeers& peers);

  // The CTA is new in its slot.
  void enter(const Cta& cta) { saves_.of(cta) = {}; }
  // A warp of the CTA has begun to wait, or has exited.
  void consider(Cta& cta) {
    saves_.of(cta).lacks = 0;
    saves_.consider(cta);
  }
  // A saved CTA arrives.
  void begin_restore(Cta& cta, Cycle arrival);
  // True: the wake is for later, if at all. While the home moves, its warps must not write there; and if it moves, this
  // wake was for something earlier.
  bool woken(Cta& cta);
  // The CTA goes on, or has been killed.
  void stop(Cta& cta);
  void transfer_changed(std::uint32_t transfer) override;
  // Less urgent CTAs make room (TSK-16).
  void make_room(const protocol::Preemption& wanted) { stop_.make_room(wanted); }
  void cannot_stop(Cta& cta) { stop_.cannot_stop(cta); }
  // A warp of a CTA that is to make room has stopped.
  void stopped(Cta& cta) { saves_.stopped(cta); }
  // A phase of the barrier of its CGA is over, at `when`: what the GPM has been told of it is not so any more.
  void phase_passed(const Cta& cta, Cycle when);
  // The CTA's CGA is saved as a whole, or is not after all. Heard ahead.
  void on_order(const Cta& cta, const protocol::ClusterOrderPacket& order, Cycle arrival) {
    members_.on_order(cta, order, arrival);
  }
  // Free chunks that it was to be saved into when there were not as many; 0: it was not.
  std::uint64_t lacking_chunks(const Cta& cta) const { return saves_.of(cta).lacks; }
  void reset() { saves_.reset(); }

 private:
  using State = CtaSave::State;
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void waited(Cta& cta);
  void save_changed(Cta& cta);
  void save_over(Cta& cta);
  void restore_changed(Cta& cta);
  void restore_gone(Cta& cta);
  void header_known(Cta& cta);

  const arch::LaunchMemory& memory_;
  SwapPeers peers_;
  CtaSaves saves_;
  CgaMembers members_;
  CtaStop stop_;
};

}  // namespace heddle::sm

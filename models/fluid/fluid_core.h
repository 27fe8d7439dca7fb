// The fluid model: CTAs with a demand go on at rates that follow from what they share. Solved when something changes,
// and no more of it than has changed. A plain core.
//
// A CTA has so much in flight, and goes on when it has come: so its rate follows from how long answers take. Where
// something machine-wide is used up, a queue stands in front of it, and makes all that use it wait alike; the queue is
// as long as it has to be for what flows to be what it can carry. So what several share they have in proportion to what
// each has in flight, less what each can be late for nothing. Within an SM, units and links are divided fairly (max-min
// over CTAs), and places for open requests go to older CTAs first, as a scheduler of warps gives them turns.
//
// CTAs of one kernel on one SM have the same rate, and so end in the order in which they came: an SM keeps for each of
// its kernels the work that one CTA would have done so far, and for each CTA where that stands at its end.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "common/cycle.h"
#include "fluid/wide_shares.h"

namespace heddle::fluid {

class FluidCore {
 public:
  // `tolerance`: see WideShares.
  FluidCore(FluidMachine machine, double tolerance);
  FluidCore(const FluidCore&) = delete;
  FluidCore& operator=(const FluidCore&) = delete;

  const FluidMachine& machine() const { return machine_; }
  // A kernel whose CTAs demand that: its number. Throws InputError if the machine has nothing of what they demand.
  std::uint32_t add_kernel(const arch::Demand& demand);

  // Times never go backwards. A CTA of the kernel, of whose work that part is left, begins or goes on in a slot of the
  // SM; what it changes is known after settle().
  void enter(std::uint32_t sm, std::uint32_t slot, std::uint32_t kernel, double left, Cycle now);
  // It stops: gives what is left of its work.
  double leave(std::uint32_t sm, std::uint32_t slot, Cycle now);
  struct Ended {
    std::uint32_t slot = 0;
    std::uint32_t kernel = 0;
  };
  // Those of the SM that are done by now, in the order of their ends as far as that is known; they have left.
  // Valid until the next call.
  const std::vector<Ended>& take_ended(std::uint32_t sm, Cycle now);

  // Finds the new rates. Gives the SMs whose next end may have changed; valid until the next call.
  const std::vector<std::uint32_t>& settle(Cycle now);
  // The first cycle in which a CTA of the SM is done, if nothing changes; kNever: it has none.
  Cycle next_end(std::uint32_t sm) const { return sms_[sm].next; }

  // CTAs x cycles, by the number of the resource that limited them; the last: nothing but their own floor.
  const std::array<std::uint64_t, kResources + 1>& limited() const { return limited_; }
  // CTAs that it limits now.
  std::array<std::uint32_t, kResources + 1> held() const;
  // What flows through a machine-wide resource of the SM's GPC, as a part of its capacity.
  double use(std::uint32_t sm, Resource wide) const { return shares_.use(machine_.gpc_of[sm], wide); }
  // Cycles in the queue in front of one.
  double delay(std::uint32_t sm, Resource wide) const { return shares_.delay(machine_.gpc_of[sm], wide); }
  std::uint64_t solved() const { return shares_.solved(); }  // times that machine-wide shares were found
  std::uint32_t resident() const { return resident_; }
  void reset();

 private:
  struct Cta {
    double end = 0;  // of its work, on the scale of its lane
    std::uint32_t slot = 0;
    std::uint64_t age = 0;  // its number among all that have entered
  };
  // CTAs of one kernel on one SM.
  struct Lane {
    std::uint32_t kernel = 0;
    std::uint8_t limit = 0;
    double rate = 0;        // parts of a CTA per cycle
    double done = 0;        // parts of a CTA since its first one came
    Cycle begun = 0;        // when that was
    std::vector<Cta> ctas;  // by end

    std::uint64_t oldest() const {
      std::uint64_t least = ctas.front().age;
      for (const Cta& cta : ctas) least = std::min(least, cta.age);
      return least;
    }
  };
  struct Sm {
    std::vector<Lane> lanes;  // by age
    std::uint32_t mix = SmMixes::kEmpty;
    std::uint32_t group = WideShares::kNone;
    Cycle since = 0;  // as far as its lanes have got
    Cycle next = kNever;
    bool changed = false;
  };

  void advance(Sm& sm, Cycle now);
  double begin_of(std::uint32_t sm, const Lane& lane, Cycle now) const;
  void order(Sm& sm);
  void touch(std::uint32_t sm);
  // True if anything is different.
  bool take_rates(Sm& sm, Cycle now);
  static Cycle next_of(const Sm& sm);

  const FluidMachine machine_;
  std::vector<CtaWork> works_;  // by kernel
  SmMixes mixes_;
  WideShares shares_;
  std::vector<Sm> sms_;
  std::vector<std::uint32_t> changed_;
  std::vector<std::uint32_t> told_;
  std::vector<Ended> ended_;
  std::array<std::uint64_t, kResources + 1> limited_{};
  std::uint32_t resident_ = 0;
  std::uint64_t entered_ = 0;
};

}  // namespace heddle::fluid

// What all SMs share: links of the GPCs, the L2, the bus of memory. Whoever uses one that is used up waits in its
// queue, which is as long as it has to be for what flows to be what it can carry. Solved over classes of SMs: those of
// one GPC with the same mix of CTAs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fluid/sm_mixes.h"

namespace heddle::fluid {

class WideShares {
 public:
  // `tolerance`: part of a capacity by which what flows may differ from it while there is a queue, or be above it,
  // before delays are found anew; 0: whenever anything changes. All references must outlive it.
  WideShares(const FluidMachine& machine, const std::vector<CtaWork>& works, const SmMixes& mixes, double tolerance);

  // The class of an SM.
  std::uint32_t group(std::uint32_t gpc, std::uint32_t mix);
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // An SM goes from one class to another; kNone: it has no CTAs.
  void move(std::uint32_t from, std::uint32_t to);
  // What flows no longer fits the delays.
  bool is_astray() const;
  // Finds the delays for what there is. The levels of all groups may have changed.
  void solve();
  // By lane of the group's mix: valid until the next solve().
  const std::vector<Level>& levels(std::uint32_t group) { return current(group).levels; }
  std::uint64_t solved() const { return solves_; }  // times
  // What flows through one of them, as a part of its capacity.
  double use(std::uint32_t gpc, Resource wide) const;
  // Cycles in its queue.
  double delay(std::uint32_t gpc, Resource wide) const { return delays_[gpc][wide_of(wide)]; }
  // How long answers take a kernel's CTA there, beyond an empty machine.
  Waiting waiting(std::uint32_t gpc, std::uint32_t kernel) const { return works_[kernel].waiting(delays_[gpc]); }
  void reset();

 private:
  using Flows = std::array<double, kWides>;
  struct Group {
    std::uint32_t gpc = 0;
    std::uint32_t mix = 0;
    std::uint32_t sms = 0;
    std::uint32_t place = kNone;  // in active_
    std::uint64_t epoch = 0;      // of its levels
    double gate = 0;              // cycles that an access waits for its load-store unit
    std::uint64_t gated = 0;      // number of the solution that this is of
    std::vector<Level> levels;
    Flows flows{};  // of one SM
  };
  struct Wide {
    double capacity = 0;
    double flow = 0;
    double delay = 0;
    std::size_t kind = 0;  // wide_of() it
    std::uint32_t first = 0;
    std::uint32_t last = 0;  // GPCs that use it: [first, last), of its pool
    std::uint32_t pool = 0;
  };

  // Number of the resource that SMs of the GPC use as their wide resource `i`.
  std::size_t index(std::uint32_t gpc, std::size_t i) const {
    return i < kGpcWides ? gpc * kGpcWides + i
                         : first_pool_ + machine_.gpcs[gpc].pool * (kWides - kGpcWides) + i - kGpcWides;
  }
  bool serves(const Wide& wide, std::uint32_t gpc) const {
    return gpc >= wide.first && gpc < wide.last && machine_.gpcs[gpc].pool == wide.pool;
  }
  Group& current(std::uint32_t group);
  void set_levels(Group& group);
  void find_delays();
  void forget_levels();
  void set_parts(const SmMixes::Lanes& lanes, const Delays& delays, double gate, std::vector<Level>& levels) const;
  void limit_by_places(const SmMixes::Lanes& lanes, const Delays& delays, std::vector<Level>& levels) const;
  double gate_of(const Group& group, const Delays& delays) const;
  void add(const Group& group, double sms);
  void sum_flows();
  void set_delay(Wide& wide, double delay);
  double flow_at(Wide& wide, double delay);
  bool balance(Wide& wide);

  const FluidMachine& machine_;
  const std::vector<CtaWork>& works_;
  const SmMixes& mixes_;
  const double tolerance_;
  const double precision_;  // of a flow, as a part of the capacity
  const std::size_t first_pool_;
  std::vector<Wide> wides_;
  std::vector<Delays> delays_;  // by GPC
  std::vector<std::uint64_t> epochs_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::uint32_t>> known_;   // by mix, GPC
  std::vector<std::vector<std::uint32_t>> active_;  // by GPC: groups that have SMs
  std::uint64_t epoch_ = 1;
  std::uint64_t solves_ = 0;
  bool has_gates_ = false;       // levels are with what accesses wait
  bool moved_accesses_ = false;  // an SM has another class, of which some wait or could
};

}  // namespace heddle::fluid

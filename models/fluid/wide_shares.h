// What all SMs share: links of the GPCs, the L2, the bus of memory. Progressive filling over classes of SMs: SMs of one
// GPC with the same mix of CTAs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fluid/sm_mixes.h"

namespace heddle::fluid {

class WideShares {
 public:
  // `tolerance`: part of a capacity by which what flows may differ from what fair shares would give it before they are
  // found anew; 0: never. All references must outlive it.
  WideShares(const FluidMachine& machine, const std::vector<CtaWork>& works, const SmMixes& mixes, double tolerance);

  // The class of an SM.
  std::uint32_t group(std::uint32_t gpc, std::uint32_t mix);
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // An SM goes from one class to another; kNone: it has no CTAs.
  void move(std::uint32_t from, std::uint32_t to);
  // What flows no longer fits the shares.
  bool is_astray() const;
  // Finds fair shares for what there is. The levels of all groups may have changed.
  void solve();
  // By lane of the group's mix: valid until the next solve().
  const std::vector<Level>& levels(std::uint32_t group) { return current(group).levels; }
  std::uint64_t solved() const { return solves_; }  // times
  // What flows through one of them, as a part of its capacity.
  double use(std::uint32_t gpc, Resource wide) const;
  void reset();

 private:
  using Flows = std::array<double, kWides>;
  struct Group {
    std::uint32_t gpc = 0;
    std::uint32_t mix = 0;
    std::uint32_t sms = 0;
    std::uint32_t place = kNone;  // in active_
    std::uint64_t epoch = 0;      // of its levels
    std::vector<Level> levels;
    Flows flows{};  // of one SM
  };
  struct Wide {
    double capacity = 0;
    double flow = 0;
    double part = 1;  // how far CTAs that use it are filled, if it is used up
    bool full = false;
  };

  // Number of the resource that SMs of the GPC use as their wide resource `i`.
  std::size_t index(std::uint32_t gpc, std::size_t i) const {
    return i < kGpcWides ? gpc * kGpcWides + i
                         : first_pool_ + machine_.gpcs[gpc].pool * (kWides - kGpcWides) + i - kGpcWides;
  }
  Group& current(std::uint32_t group);
  void set_levels(Group& group);
  void add(const Group& group, double sms);
  void sum_flows();
  double part_at_capacity(std::size_t wide);

  const FluidMachine& machine_;
  const std::vector<CtaWork>& works_;
  const SmMixes& mixes_;
  const double tolerance_;
  const std::size_t first_pool_;
  std::vector<Wide> wides_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::uint32_t>> known_;  // by mix, GPC
  std::vector<std::uint32_t> active_;              // groups that have SMs
  std::uint64_t epoch_ = 1;
  std::uint64_t solves_ = 0;
  std::vector<std::pair<double, double>> steps_;  // of part_at_capacity(): kept for its memory
};

}  // namespace heddle::fluid

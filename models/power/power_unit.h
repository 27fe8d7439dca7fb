// Counts the energy of a machine, and holds its clock where power stays below the limit. Nothing waits for it: it looks
// at what the blocks have counted, at intervals while there is something to decide or to draw, and otherwise once at
// the end.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "common/block.h"
#include "power/clock_governor.h"
#include "power/energy_account.h"

namespace heddle::power {

class PowerUnit final : public Block, private Ticker {
 public:
  // `highest`: GHz, of the domain. `tensor_flops`: of a partition and cycle. The domain must be that of the chip's
  // blocks, and have no other ticker.
  PowerUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const PowerParams& params,
            const EnergyParams& energy, double highest, std::uint32_t tensor_flops);

  // Sets the statistics, for what has been up to the domain's last event. Any number of times.
  void settle();

  void on_event(std::uint32_t, std::uint64_t) override {}
  void reset() override;
  void collect_waits(WaitGraph&) const override {}

 private:
  struct Statistics {
    std::array<Gauge*, kParts> joules{};
    Gauge* total = nullptr;
    Gauge* watts = nullptr;
    Gauge* clock = nullptr;
    Gauge* least_clock = nullptr;
    Gauge* held = nullptr;
    Gauge* held_clock = nullptr;
  };

  Cycle on_tick(Cycle tick, Cycle next) override;
  Watts charge(Cycle until);
  void draw(const Watts& watts, Picoseconds when);
  Cycle interval() const;
  bool watched() const { return governor_.has_value() || timeline() != nullptr; }

  const PowerParams params_;
  const EnergyParams energy_;
  const double highest_;
  EnergyAccount account_;
  std::optional<ClockGovernor> governor_;  // none: the clock stays
  Statistics stats_;
  Joules joules_{};
  Cycle charged_ = 0;   // up to which cycle
  unsigned steps_ = 0;  // of the clock, below the highest
  unsigned most_steps_ = 0;
  double held_seconds_ = 0;  // below the highest clock
  double held_cycles_ = 0;
};

}  // namespace heddle::power

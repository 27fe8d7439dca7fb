// Parameters of power: what events cost, and how the clock is held below a limit (docs/power.md).
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::power {

// Energy of events at the reference voltage. Those of SMs and of the way to the L2 rise with the square of the voltage;
// memory has its own supply.
struct EnergyParams {
  double voltage = 0.75;  // V, that the costs are for
  double issue = 8.5;     // pJ, of a warp's instruction
  double register_byte = 0.21;
  double fp32 = 0.56;  // pJ, of a lane
  double int32 = 0.2;
  double fp64 = 6.1;
  double sfu = 1.8;
  double tensor_flop = 0.84;
  double shared_byte = 0.45;
  double l1_byte = 0.45;
  double l2_byte = 1.5;
  double wire = 0.45;       // pJ, of a byte and millimetre
  double distance = 14;     // mm, between an SM and a slice
  double crossing = 10;     // mm, from one partition of the L2 to the other
  double network = 6;       // mm, between two SMs of a GPC
  double tmau_line = 20;    // pJ
  double activate = 0.909;  // nJ
  double hbm_bit = 3.48;
  double leakage = 60;  // W, at the reference voltage
  double idle = 45;     // W

  static void describe(ParamTable<EnergyParams>& t);
};

enum class Governor : std::uint8_t { off, limit };

struct PowerParams {
  bool accounting = false;
  Governor governor = Governor::off;
  double limit = 700;          // W
  double interval = 5;         // us
  double step = 15;            // MHz
  double hysteresis = 2;       // per cent
  double least_clock = 0.345;  // GHz
  double voltage_least = 0.70;
  double voltage_most = 1.05;
  double knee = 1.1;        // GHz, up to which voltage_least is enough
  double top_clock = 1.98;  // GHz, that takes voltage_most

  // Energy is counted.
  bool counts() const { return accounting || governor != Governor::off; }
  // Volts that the clock takes.
  double voltage(double gigahertz) const;
  // Throws InputError if the law is none.
  void check() const;
  static void describe(ParamTable<PowerParams>& t);
};

}  // namespace heddle::power

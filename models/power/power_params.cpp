#include "power/power_params.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"
#include "common/param_table.h"
#include "common/params.h"

namespace heddle::power {

double PowerParams::voltage(double gigahertz) const {
  const double share = std::max(0.0, (gigahertz - knee) / (top_clock - knee));
  return voltage_least + (voltage_most - voltage_least) * share;
}

void PowerParams::check() const {
  if (top_clock <= knee) {
    throw InputError(fmt::format("gpu.power.top_clock is {} GHz, but gpu.power.knee is {}", top_clock, knee),
                     "the voltage rises between the two: raise top_clock or lower knee");
  }
  if (voltage_most < voltage_least) {
    throw InputError(
        fmt::format("gpu.power.voltage_most is {} V, but gpu.power.voltage_least is {}", voltage_most, voltage_least),
        "the voltage rises with the clock: raise voltage_most or lower voltage_least");
  }
}

void PowerParams::describe(ParamTable<PowerParams>& t) {
  t.add("accounting", &PowerParams::accounting, "count energy, and report joules and watts; changes no time",
        "choice: off");
  t.add_choice("governor", &PowerParams::governor, {{"off", Governor::off}, {"limit", Governor::limit}},
               "off: the clock is gpu.clock; limit: it falls, from gpu.clock, as far as power would exceed the limit; "
               "energy is counted then as well",
               "choice: off");
  t.add("limit", &PowerParams::limit, {Unit::watts, 1.0, 100'000.0}, "power of the board that the governor holds",
        "NVIDIA H100 data sheet: up to 700 W (SXM)");
  t.add("interval", &PowerParams::interval, {Unit::us, 0.1, 100'000.0},
        "between decisions of the governor, and between points of the timeline",
        "assumption: real ones take milliseconds; where the clock settles does not depend on it, and a sample of a "
        "long kernel can be short");
  t.add("step", &PowerParams::step, {Unit::mhz, 0.1, 1000.0}, "clocks that there are lie so far apart",
        "nvidia-smi -q -d SUPPORTED_CLOCKS lists clocks 15 MHz apart");
  t.add("hysteresis", &PowerParams::hysteresis, {Unit::percent, 0.0, 50.0},
        "the clock rises, by a step, only if power would stay below the limit by this share", "assumption");
  t.add("least_clock", &PowerParams::least_clock, {Unit::ghz, 0.001, 100.0}, "the governor goes no lower",
        "nvidia-smi -q -d SUPPORTED_CLOCKS of Hopper parts ends there");
  t.add("voltage_least", &PowerParams::voltage_least, {Unit::volts, 0.1, 5.0}, "volts up to the clock `knee`",
        "assumption: a process of 5 nm has 0.75 V as nominal voltage");
  t.add("voltage_most", &PowerParams::voltage_most, {Unit::volts, 0.1, 5.0},
        "volts at the clock `top_clock`; linear between the two, and beyond",
        "assumption: 1.4 times the nominal voltage for the highest boost clock");
  t.add("knee", &PowerParams::knee, {Unit::ghz, 0.001, 100.0}, "clock from which on the voltage rises",
        "assumption: the base clock of H100 parts lies there");
  t.add("top_clock", &PowerParams::top_clock, {Unit::ghz, 0.001, 100.0}, "clock that takes voltage_most",
        "NVIDIA: the boost clock of H100 SXM and GH200 is 1.98 GHz");
}

void EnergyParams::describe(ParamTable<EnergyParams>& t) {
  // From 45 nm to 5 nm: a DFMA falls from 50 pJ at 40 nm to 8.7 pJ at 10 nm in Keckler's table, and TSMC gives 30 %
  // less power for its 5 nm against its 7 nm.
  const auto cost = [&t](const char* name, double EnergyParams::*member, const char* what, const char* source) {
    t.add(name, member, {Unit::pj, 0.0, 1e6}, what, source);
  };
  t.add("voltage", &EnergyParams::voltage, {Unit::volts, 0.1, 5.0},
        "volts that the costs are for; those of the chip rise with the square",
        "Keckler et al., IEEE Micro 2011, table 1: 0.75 V at 10 nm, high frequency");
  cost(
      "issue", &EnergyParams::issue, "fetch, decode and control of a warp's instruction",
      "Horowitz, ISSCC 2014: 70 pJ of an instruction at 45 nm, once for the lanes of a warp; x 0.12 to 5 nm (Keckler's "
      "DFMA 50 to 8.7 pJ, TSMC's 30 % from N7 to N5)");
  cost("register_byte", &EnergyParams::register_byte, "a byte read from or written to the register file",
       "Keckler et al., IEEE Micro 2011, table 1: 64 bits from 8 KB take 2.4 pJ at 10 nm; x 0.7 to 5 nm");
  cost("fp32", &EnergyParams::fp32, "a lane's multiply-add in fp32",
       "Horowitz, ISSCC 2014: 3.7 + 0.9 pJ at 45 nm; x 0.12 to 5 nm");
  cost("int32", &EnergyParams::int32, "a lane's operation in int32",
       "Horowitz, ISSCC 2014: 0.1 pJ of a sum, 3.1 pJ of a product at 45 nm, in the middle; x 0.12 to 5 nm");
  cost("fp64", &EnergyParams::fp64, "a lane's multiply-add in fp64",
       "Keckler et al., IEEE Micro 2011, table 1: 8.7 pJ at 10 nm; x 0.7 to 5 nm");
  cost("sfu", &EnergyParams::sfu, "a lane's special function", "assumption: a table and two products and sums of fp32");
  cost(
      "tensor_flop", &EnergyParams::tensor_flop,
      "an operation of the matrix units, with its operands' way and the clock tree of a busy SM",
      "fitted to the clock of 1.39 to 1.45 GHz that a GH200 sustains in large GEMMs (hibouwu/CUDA_optimazation EXP-07) "
      "at 700 W; between Dally's 110 pJ for 128 operations of an HMMA at 45 nm (Hot Chips 2023), 0.86 pJ, and its "
      "scaling to 5 nm, 0.1 pJ");
  cost("shared_byte", &EnergyParams::shared_byte, "a byte of shared memory",
       "Horowitz, ISSCC 2014: 64 bits from 32 KB cost twice what they do from 8 KB; register_byte x 2");
  cost("l1_byte", &EnergyParams::l1_byte, "a byte of the L1, tags included", "as shared_byte: the same array");
  cost("l2_byte", &EnergyParams::l2_byte, "a byte of the L2's array, read or written",
       "Horowitz, ISSCC 2014: 64 bits from 1 MB cost 100 pJ at 45 nm; x 0.12 to 5 nm");
  cost("wire", &EnergyParams::wire, "a byte on its way, for each millimetre",
       "Keckler et al., IEEE Micro 2011, table 1: 256 bits over 10 mm take 200 pJ at 10 nm; x 0.7 to 5 nm");
  const auto way = [&t](const char* name, double EnergyParams::*member, const char* what) {
    t.add(name, member, {Unit::mm, 0.0, 1000.0}, what, "assumption: a die of 814 square millimetres, 28 to a side");
  };
  way("distance", &EnergyParams::distance, "mean way between an SM and a slice of the L2");
  way("crossing", &EnergyParams::crossing, "way from one partition of the L2 to the other, on top");
  way("network", &EnergyParams::network, "mean way between two SMs of a GPC");
  cost("tmau_line", &EnergyParams::tmau_line, "the address of a line in a tensor memory access unit",
       "assumption: loops and bounds of five dimensions, 20 products of int32 (Horowitz) and their registers");
  t.add("activate", &EnergyParams::activate, {Unit::nj, 0.0, 1e6}, "opening a row of a pseudo-channel",
        "O'Connor et al., Fine-grained DRAM, MICRO 2017: 909 pJ for a row of 1 KB of HBM2");
  cost("hbm_bit", &EnergyParams::hbm_bit, "a bit between a row and the GPU",
       "O'Connor et al., Fine-grained DRAM, MICRO 2017: 1.51 + 1.17 inside the HBM2 stack, 0.80 for the interface");
  t.add("leakage", &EnergyParams::leakage, {Unit::watts, 0.0, 10'000.0},
        "of the chip at the reference voltage; rises with its square", "assumption: a tenth of the limit, roughly");
  t.add("idle", &EnergyParams::idle, {Unit::watts, 0.0, 10'000.0},
        "what the rest of the board takes without work: memory's refresh and interface, links, conversion",
        "assumption: with leakage at the lowest voltage about 100 W of a machine that rests at a boost clock");
}

}  // namespace heddle::power

// Parameters of the GPC's front end: GPM and MPC.
#pragma once

#include <cstdint>

#include "common/params.h"

namespace heddle::gpc {

struct GpcParams {
  std::uint32_t gpm_to_mpc = 8;      // cycles
  std::uint32_t mpc_to_sm = 4;       // cycles
  std::uint32_t gpm_to_cwd = 60;     // cycles
  std::uint32_t mpc_queue = 16;      // launch packets
  std::uint32_t cga_ids = 256;       // GPC_CGAs
  std::uint32_t cga_barriers = 256;  // GPC_CGAs
  std::uint32_t cga_flush = 50;      // cycles
  std::uint32_t raster_cycles = 1;   // cycles per CTA id
  std::uint32_t delta_bits = 16;

  static void describe(ParamTable<GpcParams>& t) {
    t.add("gpm_to_mpc", &GpcParams::gpm_to_mpc, {Unit::cycles, 0, 100'000}, "cycles between GPM and MPC, each way",
          "assumption");
    t.add("mpc_to_sm", &GpcParams::mpc_to_sm, {Unit::cycles, 0, 100'000}, "cycles between MPC and SM, each way",
          "assumption");
    t.add("gpm_to_cwd", &GpcParams::gpm_to_cwd, {Unit::cycles, 0, 100'000}, "cycles from a GPC back to the distributor",
          "assumption: as far as the way there");
    t.add("mpc_queue", &GpcParams::mpc_queue, {Unit::count, 1, 65'536},
          "launch packets that an MPC can take in: credits", "assumption");
    t.add("cga_ids", &GpcParams::cga_ids, {Unit::count, 1, 256}, "GPC_CGAs that a GPC can hold at once: local CGA ids",
          "assumption");
    t.add("cga_barriers", &GpcParams::cga_barriers, {Unit::count, 1, 256}, "barrier slots of GPC_CGAs in a GPC",
          "assumption: one for every local CGA id");
    t.add("cga_flush", &GpcParams::cga_flush, {Unit::cycles, 0, 100'000},
          "from the end of a GPC_CGA's last CTA until its accesses are flushed and its id is free", "assumption");
    t.add("raster_cycles", &GpcParams::raster_cycles, {Unit::cycles, 0, 100'000},
          "cycles that an MPC's raster unit takes for each CTA id; 0: it delivers any number at once", "assumption");
    t.add("delta_bits", &GpcParams::delta_bits, {Unit::count, 1, 63},
          "width of the delta counters of raster units, in bits", "assumption");
  }
};

}  // namespace heddle::gpc

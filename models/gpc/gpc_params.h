// Parameters of the GPC's front end: GPM and MPC.
#pragma once

#include <cstdint>

#include "common/params.h"

namespace heddle::gpc {

struct GpcParams {
  std::uint32_t gpm_to_mpc = 8;   // cycles
  std::uint32_t mpc_to_sm = 4;    // cycles
  std::uint32_t gpm_to_cwd = 60;  // cycles
  std::uint32_t mpc_queue = 16;   // launch packets

  static void describe(ParamTable<GpcParams>& t) {
    t.add("gpm_to_mpc", &GpcParams::gpm_to_mpc, {Unit::cycles, 0, 100'000}, "cycles between GPM and MPC, each way",
          "assumption");
    t.add("mpc_to_sm", &GpcParams::mpc_to_sm, {Unit::cycles, 0, 100'000}, "cycles between MPC and SM, each way",
          "assumption");
    t.add("gpm_to_cwd", &GpcParams::gpm_to_cwd, {Unit::cycles, 0, 100'000}, "cycles from a GPC back to the distributor",
          "assumption: as far as the way there");
    t.add("mpc_queue", &GpcParams::mpc_queue, {Unit::count, 1, 65'536},
          "launch packets that an MPC can take in: credits", "assumption");
  }
};

}  // namespace heddle::gpc

// Parameters of the GPC's front end: GPM and MPC.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::gpc {

// When a CTA whose warps have all exited may leave although accesses of it are in flight (CGA-11).
enum class ExitPermission : std::uint8_t {
  drained,  // once they have been answered
  at_once,  // without waiting: posted writes outlive their CTA, and the flush of its CGA covers them
};

struct GpcParams {
  std::uint32_t gpm_to_mpc = 8;         // cycles
  std::uint32_t mpc_to_sm = 4;          // cycles
  std::uint32_t gpm_to_cwd = 60;        // cycles
  std::uint32_t mpc_queue = 16;         // launch packets
  std::uint32_t cga_ids = 256;          // GPC_CGAs
  std::uint32_t cga_barriers = 256;     // GPC_CGAs
  std::uint32_t cta_broadcast = 12;     // cycles
  std::uint32_t cluster_barrier = 325;  // cycles
  ExitPermission exit_permission = ExitPermission::drained;
  bool dsmem_flush = true;
  std::uint32_t cga_flush = 26;     // cycles
  std::uint64_t cga_memory = 1024;  // bytes
  std::uint32_t raster_cycles = 1;  // cycles per CTA id
  std::uint32_t delta_bits = 16;

  static void describe(ParamTable<GpcParams>& t);
};

}  // namespace heddle::gpc

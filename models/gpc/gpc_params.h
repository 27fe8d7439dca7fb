// Parameters of a GPC: of its front end (GPM and MPC), of its SM-to-SM network, and of the memory of its CGAs.
#pragma once

#include <cstdint>

#include "arch/task_record.h"
#include "common/error.h"
#include "common/param_fwd.h"

namespace heddle::gpc {

// When a CTA whose warps have all exited may leave although accesses of it are in flight (CGA-11).
enum class ExitPermission : std::uint8_t {
  drained,  // once they have been answered
  at_once,  // without waiting: posted writes outlive their CTA, and the flush of its CGA covers them
};

// How many SMs an MPC serves (CGA-03).
enum class MpcPer : std::uint8_t {
  sm,   // one
  tpc,  // those of a TPC: one raster unit makes the ids of all
};

struct GpcParams {
  std::uint32_t gpm_to_mpc = 8;      // cycles
  std::uint32_t mpc_to_sm = 4;       // cycles
  std::uint32_t gpm_to_cwd = 60;     // cycles
  std::uint32_t mpc_queue = 16;      // launch packets
  std::uint32_t cga_ids = 256;       // GPC_CGAs
  std::uint32_t cga_barriers = 256;  // GPC_CGAs
  std::uint32_t cta_broadcast = 12;  // cycles
  std::uint32_t barrier_near = 161;  // cycles
  std::uint32_t barrier_far = 167;   // cycles
  double barrier_arrivals = 2;       // per cycle
  ExitPermission exit_permission = ExitPermission::drained;
  bool dsmem_flush = true;
  std::uint32_t cga_flush = 26;     // cycles
  std::uint64_t cga_memory = 1024;  // bytes

  // The stages of a launch (CWD-34), in the order in which it passes them. Rates of 0: without limit.
  double packets = 1.0;     // launch packets per cycle
  double mpc_launches = 0;  // per cycle
  MpcPer mpc = MpcPer::sm;
  std::uint32_t delta_bits = 16;
  double divide_cycles = 0.5;       // cycles per bit of a delta
  std::uint32_t raster_cycles = 1;  // cycles per CTA id
  double cta_starts = 1.0;          // per cycle and SM
  double cta_entries = 1.0;         // per cycle

  static void describe(ParamTable<GpcParams>& t);
};

// The way between an MPC and the barrier unit of its GPM, beyond gpm_to_mpc: the TPCs lie on a line (CGA-13).
// `tpc`: of a GPC with that many.
std::uint32_t barrier_way(const GpcParams& params, std::uint32_t tpc, std::uint32_t tpcs);

// Requests and replies have links of their own, of the same latency and bandwidth.
struct SmNetworkParams {
  std::uint32_t near = 37;    // cycles
  std::uint32_t far = 45;     // cycles
  double bandwidth = 18.4;    // bytes per cycle
  double gpc_bandwidth = 0;   // bytes per cycle between TPCs; 0: without limit
  std::uint32_t gpc_sms = 0;  // that it is for
  std::uint32_t queue = 16;   // packets

  // What a GPC of that many SMs has between its TPCs; 0: without limit.
  double between_tpcs(std::uint32_t sms) const { return gpc_sms == 0 ? gpc_bandwidth : gpc_bandwidth * sms / gpc_sms; }

  static void describe(ParamTable<SmNetworkParams>& t);
};

// Where the linear memories of CGAs lie in device memory (CWD-22, CGA-10).
struct CgaMemoryPool {
  std::uint64_t base = 0;   // address
  std::uint32_t slots = 0;  // of each subcontext
  std::uint64_t slot_bytes = 0;

  std::uint64_t bytes() const { return std::uint64_t{arch::kSubcontexts} * slots * slot_bytes; }
  std::uint64_t address(std::uint32_t subcontext, std::uint32_t slot) const {
    HEDDLE_CHECK(subcontext < arch::kSubcontexts && slot < slots, "a CGA memory slot that does not exist");
    return base + (std::uint64_t{subcontext} * slots + slot) * slot_bytes;
  }
};

}  // namespace heddle::gpc

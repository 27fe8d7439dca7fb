#include "gpc/gpc_params.h"

#include <cmath>

#include "common/params.h"

namespace heddle::gpc {
namespace {

// The stages of a launch (CWD-34): what each of them does in a cycle.
void describe_launch(ParamTable<GpcParams>& t) {
  t.add(
      "packets", &GpcParams::packets, {Unit::per_cycle, 0.0, 1024.0},
      "launch packets per cycle that a GPM takes out of its queue, those for other GPCs as well, which it and its MPCs "
      "only count; 0: any number",
      "assumption");
  t.add("mpc_launches", &GpcParams::mpc_launches, {Unit::per_cycle, 0.0, 4096.0},
        "launches per cycle that a GPM hands to its MPCs, one for each MPC and mask; 0: a launch packet goes to all of "
        "them at once",
        "assumption: launch packets are broadcast down to the MPCs, and each takes its own bit of the mask");
  t.add_choice("mpc", &GpcParams::mpc, {{"sm", MpcPer::sm}, {"tpc", MpcPer::tpc}},
               "an MPC, with a raster unit, for each SM or one for each TPC (CGA-03)", "choice of the specification");
  t.add("delta_bits", &GpcParams::delta_bits, {Unit::count, 1, 63},
        "width of the delta counters of raster units, in bits: so many outermost CGAs, or CTAs of a plain grid, as it "
        "can "
        "count may be launched elsewhere before a raster unit has to divide (CWD-41)",
        "assumption");
  t.add("divide_cycles", &GpcParams::divide_cycles, {Unit::cycles, 0.0, 1000.0},
        "cycles per bit of its width that a raster unit takes to divide a delta, for an own launch or because the "
        "counter "
        "is full",
        "assumption: a divider of radix 4");
  t.add(
      "raster_cycles", &GpcParams::raster_cycles, {Unit::cycles, 0, 100'000},
      "cycles that an MPC's raster unit takes for each CTA id, besides the division; 0: it delivers any number at once",
      "assumption");
  t.add("cta_starts", &GpcParams::cta_starts, {Unit::per_cycle, 0.0, 1024.0},
        "CTAs per cycle that can start on an SM; 0: any number", "assumption");
  t.add("cta_entries", &GpcParams::cta_entries, {Unit::per_cycle, 0.0, 1024.0},
        "CTAs of GPC_CGAs per cycle that the SMs of a GPC enter in their tables, all of them the same ones; 0: any "
        "number",
        "assumption");
}

}  // namespace

void GpcParams::describe(ParamTable<GpcParams>& t) {
  t.add("gpm_to_mpc", &GpcParams::gpm_to_mpc, {Unit::cycles, 0, 100'000}, "cycles between GPM and MPC, each way",
        "assumption");
  t.add("mpc_to_sm", &GpcParams::mpc_to_sm, {Unit::cycles, 0, 100'000}, "cycles between MPC and SM, each way",
        "assumption");
  t.add("gpm_to_cwd", &GpcParams::gpm_to_cwd, {Unit::cycles, 0, 100'000}, "cycles from a GPC back to the distributor",
        "assumption: as far as the way there");
  t.add("mpc_queue", &GpcParams::mpc_queue, {Unit::count, 1, 65'536}, "launch packets that an MPC can take in: credits",
        "assumption");
  t.add("cga_ids", &GpcParams::cga_ids, {Unit::count, 1, 256}, "GPC_CGAs that a GPC can hold at once: local CGA ids",
        "assumption");
  t.add("cga_barriers", &GpcParams::cga_barriers, {Unit::count, 1, 256}, "barrier slots of GPC_CGAs in a GPC",
        "assumption: one for every local CGA id");
  t.add("cta_broadcast", &GpcParams::cta_broadcast, {Unit::cycles, 0, 100'000},
        "from the start of a CTA of a GPC_CGA until all SMs of the GPC have entered it in their tables",
        "assumption: as long as the way from the GPM to an SM");
  const char* barrier =
      "fitted to 350 cycles for a whole phase on GH200, the same for 2, 4 and 8 CTAs; that it grows along the GPC as "
      "gpu.gpc.network does is an assumption";
  t.add("barrier_near", &GpcParams::barrier_near, {Unit::cycles, 0, 100'000},
        "cycles between the MPC of the GPC's first TPC and the GPM's barrier unit, each way, beyond gpm_to_mpc",
        barrier);
  t.add("barrier_far", &GpcParams::barrier_far, {Unit::cycles, 0, 100'000},
        "the same for its last TPC; those between lie on a line", barrier);
  t.add("barrier_arrivals", &GpcParams::barrier_arrivals, {Unit::per_cycle, 0.0, 1000.0},
        "arrivals of CTAs at cluster barriers that a GPM takes in per cycle, whatever their CGA and its level; 0: "
        "without "
        "limit",
        "assumption");
  t.add_choice("exit_permission", &GpcParams::exit_permission,
               {{"drained", ExitPermission::drained}, {"at_once", ExitPermission::at_once}},
               "when a CTA may leave that has exited with accesses in flight: when they are answered, or at once",
               "assumption");
  t.add("dsmem_flush", &GpcParams::dsmem_flush,
        "the id of a GPC_CGA is free only when no access of it is in flight; false: ids are reused too early",
        "CGA-12");
  t.add("cga_flush", &GpcParams::cga_flush, {Unit::cycles, 0, 100'000},
        "from the last SM's answer that nothing of a GPC_CGA is in flight until its id is free",
        "assumption: 50 cycles with the ways to the SMs and back");
  t.add("cga_memory", &GpcParams::cga_memory, {Unit::bytes, 128, 1ULL << 30},
        "linear memory of a CGA: size of one slot of the pool at the end of device memory, a multiple of 128",
        "assumption");
  describe_launch(t);
}

std::uint32_t barrier_way(const GpcParams& params, std::uint32_t tpc, std::uint32_t tpcs) {
  const double share = tpcs > 1 ? static_cast<double>(tpc) / (tpcs - 1) : 0;
  const double cycles = params.barrier_near + share * (static_cast<double>(params.barrier_far) - params.barrier_near);
  return static_cast<std::uint32_t>(std::lround(cycles));
}

void SmNetworkParams::describe(ParamTable<SmNetworkParams>& t) {
  const char* latency =
      "fitted to HPMLL/NVIDIA-Hopper-Benchmark, DSM log, H800: remote loads of 180 to 213 cycles, a part of the source "
      "plus a part of the target";
  t.add("near", &SmNetworkParams::near, {Unit::cycles, 0, 10'000},
        "cycles between the SMs of the GPC's first TPC and the middle of the network; a way is the source's part plus "
        "the target's",
        latency);
  t.add("far", &SmNetworkParams::far, {Unit::cycles, 0, 10'000},
        "the same for the SMs of its last TPC; those between lie on a line", latency);
  t.add("bandwidth", &SmNetworkParams::bandwidth, {Unit::bytes_per_cycle, 0.25, 10'000.0},
        "bytes per cycle, headers included, out of each SM and into it, for requests and again for replies",
        "fitted to arXiv 2402.13499, H800: a ring copy in clusters of 2 reaches 3.27 TB/s on 114 SMs at 1.755 GHz, "
        "16.3 bytes of data per cycle and SM, which take 18.4 with their headers");
  t.add("gpc_bandwidth", &SmNetworkParams::gpc_bandwidth, {Unit::bytes_per_cycle, 0.0, 100'000.0},
        "bytes per cycle, headers included, of all packets of a GPC that go from a TPC to another, for requests and "
        "again for replies; what stays in a TPC is not among them; 0: without limit",
        "assumption: only the links of SMs limit");
  t.add("gpc_sms", &SmNetworkParams::gpc_sms, {Unit::count, 0, 1024},
        "SMs of the GPC that gpc_bandwidth is given for: a GPC of more or fewer has so much more or less; 0: every GPC "
        "has the same",
        "choice: one network for GPCs of all sizes");
  t.add("queue", &SmNetworkParams::queue, {Unit::count, 1, 65'536},
        "packets of each source that wait at an SM's port, and in front of what limits a GPC, besides those that the "
        "wire holds, and that wait behind the port for the SM",
        "assumption");
}

}  // namespace heddle::gpc

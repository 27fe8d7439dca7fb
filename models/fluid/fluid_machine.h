// What CTAs with a demand share, and what one of them takes of it. Plain data and arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/demand.h"

namespace heddle::fluid {

// What has a peak: units and links of an SM, links of its GPC, and what all SMs of a pool share.
enum class Resource : std::uint8_t {
  tensor,
  fp32,
  fp64,
  int32,
  sfu,
  shared,
  sm_read,   // its link from the crossbar
  l1_read,   // of that, what its L1 takes
  sm_write,  // its link to the crossbar
  gpc_read,
  gpc_write,
  l2_read,
  l2_write,
  dram,  // one bus: reads and writes together
};
constexpr std::size_t kResources = 14;
constexpr std::size_t kLocals = 9;                    // the first ones, of an SM
constexpr std::size_t kWides = kResources - kLocals;  // the others
constexpr std::size_t kGpcWides = 2;                  // of these, those of a GPC
const char* resource_name(Resource resource);         // "dram"
const char* resource_text(Resource resource);         // "the memory's bus"

// Peaks, per cycle of the SMs' clock: operations, lanes or bytes as arch::DemandUnit has them. 0: there is none, and
// nothing can ask for it.
struct FluidMachine {
  struct Gpc {
    double read = 0;   // bytes of responses
    double write = 0;  // bytes of requests
    std::uint32_t pool = 0;
  };
  // A part of the memory system that serves some GPCs alone: all of it, or that of an instance (PRT-11).
  struct Pool {
    double l2_read = 0;   // bytes
    double l2_write = 0;  // bytes
    double dram = 0;      // bytes that are read
  };
  std::array<double, arch::kDemandUnits> sm{};  // up to `shared`
  double sm_read = 0;
  double l1_read = 0;
  double sm_write = 0;
  double header = 0;      // bytes of a request per byte that it reads, and of an acknowledgement per byte written
  double write_cost = 1;  // bytes that memory could have read in place of one that it writes
  double cycles_per_ns = 1;
  std::vector<Gpc> gpcs;
  std::vector<Pool> pools;
  std::vector<std::uint32_t> gpc_of;  // by SM

  double capacity(std::uint32_t gpc, Resource wide) const;
};

// A demand on that machine. Its pace is that of one CTA with an SM to itself and any bandwidth behind it.
struct CtaWork {
  std::array<double, kLocals> load{};  // part of each resource of its SM that a CTA takes at its pace
  std::array<double, kWides> flow{};   // the same of the others, in bytes per cycle
  double pace = 1;                     // parts of the CTA per cycle: one over the cycles that it takes
  std::uint8_t limit = 0;              // number of the resource that sets this pace; kResources: the floor
};
// Throws InputError for a demand of something that the machine does not have.
CtaWork work_of(const arch::Demand& demand, const FluidMachine& machine);

}  // namespace heddle::fluid

// What CTAs with a demand share, and what one of them takes of it. Plain data and arithmetic.
#pragma once

#include <algorithm>
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
  sm_read,        // its link from the crossbar
  l1_read,        // of that, what its L1 takes
  sm_write,       // its link to the crossbar
  requests,       // places for its open requests
  bulk_requests,  // those of its tensor memory access unit
  gpc_read,
  gpc_write,
  l2_read,
  l2_write,
  dram,  // one bus: reads and writes together
};
constexpr std::size_t kResources = 16;
constexpr std::size_t kLocals = 9;                       // the first ones, of an SM
constexpr std::size_t kPlaces = 2;                       // then its places: taken for as long as an answer takes
constexpr std::size_t kFirstWide = kLocals + kPlaces;    // all SMs of a GPC or of the machine share these
constexpr std::size_t kWides = kResources - kFirstWide;  // the others
constexpr std::size_t kGpcWides = 2;                     // of these, those of a GPC
constexpr std::size_t wide_of(Resource resource) { return static_cast<std::size_t>(resource) - kFirstWide; }
const char* resource_name(Resource resource);  // "dram"
const char* resource_text(Resource resource);  // "the memory's bus"

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
    double channels = 1;  // of memory, over which lines fall at random
  };
  std::array<double, arch::kDemandUnits> sm{};  // up to `shared`
  double sm_read = 0;
  double l1_read = 0;
  double sm_write = 0;
  double header = 0;      // bytes of a request per byte that it reads, and of an acknowledgement per byte written
  double write_cost = 1;  // bytes that memory could have read in place of one that it writes
  double cycles_per_ns = 1;
  // Bytes that may be open at a time: requests of the SM, and of its tensor memory access unit.
  double requests = 32'768;
  double bulk_requests = 49'152;
  // Cycles, with nobody else under way, of a read that hits the L2, of one that misses, and of a write; what bulk
  // requests take longer.
  double l2_latency = 0;
  double memory_latency = 0;
  double write_latency = 0;
  double bulk_latency = 0;
  // Of a channel of memory: for how long all of it stands still to be refreshed, and the part of the time in which it
  // does. A stage of bulk requests with lines of many channels meets one that does.
  double refresh = 0;
  double refreshing = 0;
  double write_buffers = 0;  // bytes on their way to memory for which there is room: who wrote them need not wait
  bool oldest_first = true;  // older CTAs have their places first; otherwise all alike
  double begin_trips = 0;    // that the first CTA of a kernel on an SM makes for its constants
  std::vector<Gpc> gpcs;
  std::vector<Pool> pools;
  std::vector<std::uint32_t> gpc_of;  // by SM

  double capacity(std::uint32_t gpc, Resource wide) const;
  // Of how long lines of the GPC's memory wait where they wait that long on the mean, in cycles x cycles.
  double variance(std::uint32_t gpc, double delay) const;
};

// What queues in front of machine-wide resources add to the ways of requests, in cycles, by number of the resource.
using Delays = std::array<double, kWides>;

// How long answers take a CTA beyond an empty machine: what queues on the way to and from there add.
struct Waiting {
  double read = 0;
  double write = 0;
};

// A demand on that machine. Its pace is that of one CTA with an SM to itself and any bandwidth behind it.
//
// A CTA asks for so many bytes at a time as it has in flight, and goes on when they have come: each trip takes longer
// by what the queues on its way take. Where it asks ahead, by stages, the first part of that costs it nothing.
struct CtaWork {
  std::array<double, kLocals> load{};  // part of each resource of its SM that a CTA takes at its pace
  std::array<double, kWides> flow{};   // the same of the others, in bytes per cycle
  double pace = 1;                     // parts of the CTA per cycle: one over the cycles that it takes
  std::uint8_t limit = 0;              // number of the resource that sets this pace; kResources: the floor

  double floor = 1;     // cycles that it takes with nobody else under way and any units
  double trips = 1;     // one after another, each for what it has in flight
  double begins = 0;    // trips before these of the first CTAs on an SM: constants, descriptors
  double lead = 0;      // cycles by which a trip may be later at no cost; negative: it is late as it is
  double ahead = 0;     // of what is used meanwhile, the part that one of its trips spares
  double accesses = 0;  // instructions of a warp on memory, one after another
  bool reads = false;
  bool fetches = false;  // some of it from memory
  double buffered = 0;   // cycles of memory's queue that its writes do not wait for; negative: it writes nothing there
  double straggle = 0;   // the last of a stage's lines waits longer than the mean by that times the mean's root
  // Cycles x bytes that it holds in places of its SM per part of its work and cycle, as answers take on an empty
  // machine, and what each cycle more adds: of its SM's, and of its tensor memory access unit's.
  struct Held {
    double empty = 0;
    double reads = 0;   // bytes
    double writes = 0;  // bytes
  };
  std::array<Held, kPlaces> held{};

  Waiting waiting(const Delays& delays) const;
  // Cycles that it takes if only answers make it wait, and the load-store unit each of its accesses for `gate` cycles.
  // What takes longer to use leaves more time for what comes meanwhile.
  double cycles(const Waiting& waiting, double gate = 0) const {
    const double longer = accesses * gate;
    const double slack = std::max(0.0, lead + ahead * longer);
    return floor + longer + trips * std::max(0.0, (reads ? waiting.read : waiting.write) - slack);
  }
};
// Throws InputError for a demand of something that the machine does not have.
CtaWork work_of(const arch::Demand& demand, const FluidMachine& machine);

// True if no CTA with that demand can tell the machines apart, alone or beside others: all that the model reads of them
// for it is the same. Throws as work_of() does.
bool alike(const arch::Demand& demand, const FluidMachine& one, const FluidMachine& other);

}  // namespace heddle::fluid

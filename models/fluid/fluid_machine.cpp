#include "fluid/fluid_machine.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "arch/memory_op.h"
#include "common/error.h"

namespace heddle::fluid {

using arch::Demand;
using arch::DemandUnit;

const char* resource_name(Resource resource) {
  constexpr std::array<const char*, kResources> kNames = {
      "tensor",   "fp32",     "fp64",          "int32",    "sfu",       "shared",  "sm_read",  "l1_read",
      "sm_write", "requests", "bulk_requests", "gpc_read", "gpc_write", "l2_read", "l2_write", "dram"};
  return kNames[static_cast<std::size_t>(resource)];
}

const char* resource_text(Resource resource) {
  constexpr std::array<const char*, kResources> kTexts = {"the tensor cores of the SM",
                                                          "the fp32 units of the SM",
                                                          "the fp64 units of the SM",
                                                          "the integer units of the SM",
                                                          "the special-function units of the SM",
                                                          "the shared memory of the SM",
                                                          "the link from the crossbar to the SM",
                                                          "the L1 of the SM",
                                                          "the link from the SM to the crossbar",
                                                          "the places for open requests of the SM",
                                                          "the places for open requests of bulk copies",
                                                          "the link from the L2 to the GPC",
                                                          "the link from the GPC to the L2",
                                                          "reads of the L2",
                                                          "writes to the L2",
                                                          "the bus of memory"};
  return kTexts[static_cast<std::size_t>(resource)];
}

double FluidMachine::capacity(std::uint32_t gpc, Resource wide) const {
  const Pool& pool = pools[gpcs[gpc].pool];
  switch (wide) {
    case Resource::gpc_read:
      return gpcs[gpc].read;
    case Resource::gpc_write:
      return gpcs[gpc].write;
    case Resource::l2_read:
      return pool.l2_read;
    case Resource::l2_write:
      return pool.l2_write;
    default:
      return pool.dram;
  }
}

namespace {

// Cycles that a line takes its channel.
double line_cycles(const FluidMachine::Pool& pool) { return arch::kLineBytes * pool.channels / pool.dram; }

// Lines fall on the channels of memory at random: where n wait at one on the mean, about sqrt(n) more or fewer do, and
// at the longest of m queues sqrt(2 ln m) times as many more. A stage of bulk requests waits for the last of its lines.
// This times the root of the mean delay is by how much the last one is later.
double straggle_of(double lines, const FluidMachine& machine) {
  const FluidMachine::Pool& pool = machine.pools.front();
  const double queues = std::min(lines, pool.channels);
  if (queues <= 1) return 0;
  return std::sqrt(2 * std::log(queues) * line_cycles(pool));
}

// Cycles that a read takes with nobody else under way.
double latency_of(const Demand& demand, const FluidMachine& machine) {
  return demand.of(DemandUnit::dram_read) > 0 ? machine.memory_latency : machine.l2_latency;
}

// The same of a stage of bulk requests, which has come when the last of its lines has.
double bulk_latency_of(const Demand& demand, double lines, const FluidMachine& machine) {
  const double latency = latency_of(demand, machine) + machine.bulk_latency;
  if (demand.of(DemandUnit::dram_read) <= 0) return latency;
  const double channels = std::min(lines, machine.pools.front().channels);
  return latency + machine.refresh * (1 - std::pow(1 - machine.refreshing, channels));
}

// How often it waits, and for what.
void find_waits(const Demand& demand, const FluidMachine& machine, double bus, CtaWork& work) {
  const double read = demand.of(DemandUnit::l2_read);
  const double written = demand.of(DemandUnit::dram_write);
  const bool bulk = demand.bulk_read > 0;
  const double stages = std::max(1.0, demand.stages);
  const double lines = demand.in_flight / stages / arch::kLineBytes;
  work.reads = read > 0;
  work.fetches = demand.of(DemandUnit::dram_read) > 0;
  // What it writes comes with what it reads: so fast the bus takes its writes.
  work.buffered = written > 0 ? machine.write_buffers * bus / (written * machine.pools.front().dram) : -1;
  const double single = latency_of(demand, machine);
  const double several = bulk_latency_of(demand, lines, machine);
  const double loads = std::max(0.0, read - demand.bulk_read);
  const double write = demand.of(DemandUnit::l2_write);
  work.held[0] = {loads * single + write * machine.write_latency, loads, write};
  work.held[1] = {demand.bulk_read * several, demand.bulk_read, 0};

  double latency = machine.write_latency;
  if (work.reads) {
    latency = bulk ? several : single;
  }
  if (demand.in_flight <= 0 || !work.reads) {
    work.trips = latency > 0 ? std::max(1.0, work.floor / latency) : 1;
    return;
  }
  work.trips = std::max(1.0, read / demand.in_flight);
  work.begins = machine.begin_trips * (bulk ? 2 : 1);  // descriptors as well
  // While one stage is used, the others come.
  work.ahead = (stages - 1) / (work.trips * stages);
  work.lead = work.ahead * work.floor - latency;
  if (bulk && work.fetches) work.straggle = straggle_of(lines, machine);
}

}  // namespace

// Where n lines wait at a channel on the mean, about sqrt(n) more or fewer do. And a channel that is refreshed at
// regular times stands still once more, or once less, within a wait that is no multiple of these.
double FluidMachine::variance(std::uint32_t gpc, double delay) const {
  const double lines = delay * line_cycles(pools[gpcs[gpc].pool]);
  const double times = refresh > 0 ? delay * refreshing / refresh : 0;
  const double once = times - std::floor(times);
  return lines + once * (1 - once) * refresh * refresh;
}

CtaWork work_of(const Demand& demand, const FluidMachine& machine) {
  CtaWork work;
  std::array<double, kLocals> cycles{};  // for which it would have each of them to itself
  const auto take = [&cycles](Resource resource, double amount, double peak, const char* what) {
    if (amount <= 0) return;
    if (peak <= 0) {
      throw InputError(fmt::format("a CTA demands {} of a machine that has no such units", what),
                       "leave it out, or choose a machine that has them");
    }
    cycles[static_cast<std::size_t>(resource)] += amount / peak;
  };
  const auto unit = [&](Resource resource, DemandUnit which) {
    take(resource, demand.of(which), machine.sm[static_cast<std::size_t>(which)], arch::demand_name(which));
  };
  for (const DemandUnit type :
       {DemandUnit::tensor_f16, DemandUnit::tensor_tf32, DemandUnit::tensor_f8, DemandUnit::tensor_f64}) {
    unit(Resource::tensor, type);
  }
  unit(Resource::fp32, DemandUnit::fp32);
  unit(Resource::fp64, DemandUnit::fp64);
  unit(Resource::int32, DemandUnit::int32);
  unit(Resource::sfu, DemandUnit::sfu);
  unit(Resource::shared, DemandUnit::shared);

  const double read = demand.of(DemandUnit::l2_read);
  const double write = demand.of(DemandUnit::l2_write);
  const double down = read + machine.header * write;
  const double up = write + machine.header * (read + write);
  const double bus = demand.of(DemandUnit::dram_read) + machine.write_cost * demand.of(DemandUnit::dram_write);
  take(Resource::sm_read, down, machine.sm_read, "l2_read");
  take(Resource::l1_read, std::max(0.0, read - demand.bulk_read), machine.l1_read, "l2_read");
  take(Resource::sm_write, up, machine.sm_write, "l2_write");

  work.floor = std::max(1.0, demand.floor_ns * machine.cycles_per_ns);
  work.accesses = demand.accesses;
  find_waits(demand, machine, bus, work);
  const std::array<double, kPlaces> places{machine.requests, machine.bulk_requests};
  double longest = work.floor;
  work.limit = kResources;
  const auto consider = [&](double its, std::size_t resource) {
    if (its <= longest) return;
    longest = its;
    work.limit = static_cast<std::uint8_t>(resource);
  };
  for (std::size_t i = 0; i < kLocals; ++i) consider(cycles[i], i);
  for (std::size_t i = 0; i < kPlaces; ++i) consider(work.held[i].empty / places[i], kLocals + i);
  work.pace = 1 / longest;
  for (std::size_t i = 0; i < kLocals; ++i) work.load[i] = cycles[i] * work.pace;
  const std::array<double, kWides> bytes{down, up, read, write, bus};
  for (std::size_t i = 0; i < kWides; ++i) work.flow[i] = bytes[i] * work.pace;
  return work;
}

bool alike(const Demand& demand, const FluidMachine& one, const FluidMachine& other) {
  const CtaWork work = work_of(demand, one);
  const CtaWork its = work_of(demand, other);
  const auto all = [](const CtaWork& w) {
    return std::tie(w.load, w.flow, w.pace, w.limit, w.floor, w.trips, w.begins, w.lead, w.ahead, w.accesses, w.reads,
                    w.fetches, w.buffered, w.straggle);
  };
  if (all(work) != all(its) || one.gpc_of != other.gpc_of) return false;
  const std::array<double, kPlaces> places{one.requests, one.bulk_requests};
  const std::array<double, kPlaces> others{other.requests, other.bulk_requests};
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const auto held = [i](const CtaWork& w) { return std::tie(w.held[i].empty, w.held[i].reads, w.held[i].writes); };
    if (held(work) != held(its)) return false;
    if (work.held[i].empty > 0 && (places[i] != others[i] || one.oldest_first != other.oldest_first)) return false;
  }
  for (std::size_t i = 0; i < kWides; ++i) {
    if (work.flow[i] <= 0) continue;
    if (one.memory_latency != other.memory_latency) return false;  // queues are searched from there
    for (std::uint32_t gpc = 0; gpc < one.gpcs.size(); ++gpc) {
      const auto wide = static_cast<Resource>(kFirstWide + i);
      if (one.gpcs[gpc].pool != other.gpcs[gpc].pool || one.capacity(gpc, wide) != other.capacity(gpc, wide)) {
        return false;
      }
      if (wide == Resource::dram &&
          std::tie(one.pools[one.gpcs[gpc].pool].channels, one.refresh, one.refreshing) !=
              std::tie(other.pools[other.gpcs[gpc].pool].channels, other.refresh, other.refreshing)) {
        return false;
      }
    }
  }
  return true;
}

Waiting CtaWork::waiting(const Delays& delays) const {
  const double links = delays[wide_of(Resource::gpc_read)] + delays[wide_of(Resource::gpc_write)];
  const double memory = delays[wide_of(Resource::dram)];
  Waiting waiting{links + delays[wide_of(Resource::l2_read)], links + delays[wide_of(Resource::l2_write)]};
  if (fetches) waiting.read += memory + straggle * std::sqrt(memory);
  if (buffered >= 0) waiting.write += std::max(0.0, memory - buffered);
  return waiting;
}

}  // namespace heddle::fluid

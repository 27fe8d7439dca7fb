#include "fluid/fluid_machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::fluid {

using arch::Demand;
using arch::DemandUnit;

const char* resource_name(Resource resource) {
  constexpr std::array<const char*, kResources> kNames = {"tensor",    "fp32",    "fp64",     "int32",    "sfu",
                                                          "shared",    "sm_read", "l1_read",  "sm_write", "gpc_read",
                                                          "gpc_write", "l2_read", "l2_write", "dram"};
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

  double longest = std::max(1.0, demand.floor_ns * machine.cycles_per_ns);
  work.limit = kResources;
  for (std::size_t i = 0; i < kLocals; ++i) {
    if (cycles[i] <= longest) continue;
    longest = cycles[i];
    work.limit = static_cast<std::uint8_t>(i);
  }
  work.pace = 1 / longest;
  for (std::size_t i = 0; i < kLocals; ++i) work.load[i] = cycles[i] * work.pace;
  const std::array<double, kWides> bytes{down, up, read, write, bus};
  for (std::size_t i = 0; i < kWides; ++i) work.flow[i] = bytes[i] * work.pace;
  return work;
}

}  // namespace heddle::fluid

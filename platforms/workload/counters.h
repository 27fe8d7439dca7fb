// What a profiler counted while a kernel ran. Plain data.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>

#include "arch/demand.h"

namespace heddle::workload {

struct KernelCounters {
  std::string kernel;  // its name, as this profiler writes it
  std::uint64_t ctas = 0;
  std::uint64_t threads = 0;              // of a CTA
  arch::Demand all;                       // of all CTAs together; its floor has no meaning
  std::bitset<arch::kDemandUnits> known;  // which of the amounts were counted
};

}  // namespace heddle::workload

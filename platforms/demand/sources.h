// The demands of a recording's kernels, each from the best that is known of it: counters, its operator's shapes, its
// name; of others nothing but their duration is known.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "demand/estimate.h"
#include "workload/counters.h"
#include "workload/workload.h"

namespace heddle::demand {

enum class Source : std::uint8_t { counters, operators, names };
constexpr std::size_t kSources = 3;
const char* source_name(Source source);

struct KernelDemand {
  Source source = Source::names;
  Estimate estimate;
  bool proportions = false;  // only these are known: the amounts are to be fitted
};

// By operation of the workload; none: a copy or fill, or nothing is known.
using Demands = std::vector<std::optional<KernelDemand>>;

// `l2_bytes`: of the machine that the kernels run on, for what has to come from memory where counters do not tell.
// Counters go to the kernels of their name, grid and block: one to each where there are as many, and otherwise the
// first to all. Names count as equal if they are without return types, parameters and template arguments.
Demands demands_of(const workload::Workload& workload, double l2_bytes,
                   const std::vector<workload::KernelCounters>& counters);

// What a what-if on a parameter leans on: kernels with a demand, and of these with one for each unit; and their parts
// of the recorded time of all kernels.
struct Coverage {
  std::size_t kernels = 0;
  std::array<std::size_t, kSources> by_source{};
  std::array<std::size_t, arch::kDemandUnits> by_unit{};
  double time = 0;          // ns, of all kernels
  double time_covered = 0;  // of those with a demand

  std::size_t covered() const { return by_source[0] + by_source[1] + by_source[2]; }
};
Coverage coverage_of(const workload::Workload& workload, const Demands& demands);

}  // namespace heddle::demand

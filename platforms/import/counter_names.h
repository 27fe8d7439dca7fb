// Which counters of profilers are amounts of a demand, and what one count is.
#pragma once

#include <string_view>

#include "arch/demand.h"

namespace heddle::import {

struct CounterName {
  std::string_view name;
  arch::DemandUnit unit;
  // Amount for a count. An addition or a multiplication takes its unit as long as a multiply-add does, and is two
  // flops.
  double each;
  int rank;  // of those that count the same amount, the ones of the lowest rank that are there are added up
};

// By its name, and null for those that nothing is made of. Nsight Compute: NVIDIA, "Nsight Compute Profiling Guide",
// metrics reference; an L2 sector has 32 bytes, a wavefront of shared memory 128.
const CounterName* ncu_counter(std::string_view name);
// rocprofv3: AMD, "MI300 and MI200 series performance counters and metrics". FETCH_SIZE and WRITE_SIZE are in KiB, a
// count of matrix operations is 512 of them, an instruction has 64 lanes, a request to the L2 is a line of 128 bytes.
const CounterName* rocprof_counter(std::string_view name);

// What a value in such a unit ("Mbyte", "inst") is multiplied by to be in bytes or counts. 0: no such unit.
double unit_factor(std::string_view unit);

}  // namespace heddle::import

// Parameters of an SM.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/sm_limits.h"
#include "arch/tensor_descriptor.h"
#include "common/param_fwd.h"

namespace heddle::sm {

constexpr std::uint32_t kSubPartitions = 4;

// Which of several warps of a partition issues.
enum class WarpPolicy : std::uint8_t { greedy_oldest, round_robin };

// One kind of execution unit in each of the four partitions.
struct UnitParams {
  std::uint32_t lanes = 32;   // per cycle and partition
  std::uint32_t latency = 4;  // cycles

  static void describe(ParamTable<UnitParams>& t);
};

// How warps issue, and the units that they issue to (SM-01, SM-03).
struct IssueParams {
  WarpPolicy policy = WarpPolicy::greedy_oldest;
  std::uint32_t burst = 32;  // instructions
  UnitParams fp32{32, 4};
  UnitParams int32{16, 4};
  UnitParams fp64{16, 8};
  UnitParams sfu{4, 12};
  std::uint32_t tensor_flops = 1024;  // per cycle and partition
  std::uint32_t tensor_latency = 16;  // cycles
  std::uint32_t tensor_queue = 8;     // multiplies
  std::uint32_t tensor_sample = 1;    // only CTAs whose linear id is a multiple of it do arithmetic on data
  std::uint32_t special_latency = 10;
  std::uint32_t barrier_interval = 2;
  std::uint32_t barrier_latency = 13;

  static void describe(ParamTable<IssueParams>& t);
};

// The load-store unit that the four partitions share, and the memory of the SM.
struct MemoryParams {
  std::uint32_t queue = 16;               // warp instructions
  std::uint32_t requests = 256;           // open at the same time
  std::uint32_t request_queue = 64;       // that have not left yet
  std::uint32_t unified_bytes = 262'144;  // L1 and shared memory
  std::uint32_t l1_ways = 8;
  std::uint32_t l1_latency = 32;      // cycles
  std::uint32_t l1_tag_latency = 16;  // of l1_latency
  std::uint32_t shared_latency = 29;
  double shared_starts = 1;            // instructions on shared memory per cycle
  std::uint32_t mbarrier_latency = 0;  // cycles beyond shared_latency
  std::uint32_t cluster_latency = 4;   // cycles beyond shared_latency
  std::uint32_t cluster_queue = 16;    // packets
  std::uint32_t pc_fifo = 8;           // operations of a warp
  std::uint32_t fence = 11;            // cycles
  bool async_view = true;              // bulk requests see what a proxy fence has published (TMA-41)

  static void describe(ParamTable<MemoryParams>& t);
};

// What a bulk request does to its CTA that breaks a rule of the TMAU or fails in memory (TMA-06).
enum class TensorErrors : std::uint8_t {
  trap,    // a fault stops it
  report,  // the fault is recorded, and the CTA goes on
};

// When CTAs that wait for tasks are saved, and give their slots up (TSK-12).
enum class SavePolicy : std::uint8_t {
  off,     // never
  wait,    // once they have waited for a while
  wanted,  // when somebody wants the slot
};

// Device-side launches (TSK-06).
struct NestedParams {
  std::uint32_t launch_instructions = 300;  // of the device runtime
  std::uint32_t distance = 100;             // cycles to task management
  SavePolicy save = SavePolicy::wait;       // CTAs that wait for their children
  std::uint32_t save_delay = 2000;          // cycles

  static void describe(ParamTable<NestedParams>& t);
};

// What a CTA takes beyond start_cycles until its warps can issue, by what it consists of.
struct SetupParams {
  std::uint32_t warp_cycles = 0;    // cycles
  std::uint32_t register_rows = 0;  // per cycle and partition
  std::uint32_t shared_rate = 0;    // bytes per cycle

  static void describe(ParamTable<SetupParams>& t);
};

// How instructions and parameters of kernels come to warps.
struct FetchParams {
  std::uint32_t cache_bytes = 0;
  std::uint32_t operation_bytes = 16;
  std::uint32_t prefetch_lines = 0;
  std::uint32_t constant_bytes = 0;
  std::uint32_t constant_lines = 1;  // of a kernel's parameters

  static void describe(ParamTable<FetchParams>& t);
};

struct SmParams {
  arch::SmLimits limits;
  std::uint32_t start_cycles = 20;  // cycles
  SetupParams setup;
  FetchParams fetch;
  IssueParams issue;
  MemoryParams memory;
  NestedParams nested;
  TensorErrors tensor_errors = TensorErrors::trap;
  // Shared memory layouts, as arch::SwizzleTable::set() takes them; empty: the usual ones (TMA-20).
  std::vector<std::uint32_t> swizzle_32;
  std::vector<std::uint32_t> swizzle_64;
  std::vector<std::uint32_t> swizzle_128;

  static void describe(ParamTable<SmParams>& t);
  // Slots for warps with a program: as many in each sub-partition.
  std::uint32_t warp_slots() const;
};

// Throws InputError for a table that is none.
arch::SwizzleTable swizzles_of(const SmParams& params);

}  // namespace heddle::sm

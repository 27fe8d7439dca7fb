// What kernels have used of a machine (CWD-48), and what limited them: columns of kernels.csv, stalls.csv, and a part
// of the page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "arch/kernel_account.h"
#include "cli/run_outcome.h"

namespace heddle::cli {

// Sums of one kernel or of several.
struct KernelUse {
  std::array<std::uint64_t, kKernelCounts> counts{};
  KernelAccount::Stalls stalls{};
  std::uint64_t busiest_slice = 0;  // of atomic_cycles of each launch, those of the slice with most

  // Of a KernelUse or of a KernelAccount::Row.
  template <class More>
  void add(const More& more) {
    for (std::size_t i = 0; i < kKernelCounts; ++i) counts[i] += more.counts[i];
    for (std::size_t i = 0; i < kWarpStalls; ++i) stalls[i] += more.stalls[i];
    busiest_slice += more.busiest_slice;
  }
  double of(KernelCount count) const { return static_cast<double>(counts[static_cast<std::size_t>(count)]); }
  // In percent; negative of nothing.
  double l1_hit_percent() const;
  double l2_hit_percent() const;
};

// What a machine could do in a cycle.
struct KernelCeilings {
  explicit KernelCeilings(const gpu::GpuParams& params);

  double sms = 0;
  double clock = 0;         // GHz
  double instructions = 0;  // of warps
  double warps = 0;         // that can be resident
  double partitions = 0;    // of SMs: each has a tensor core and a unit of each kind
  double tensor = 0;        // operations of f16
  double l1 = 0;            // bytes
  double l2 = 0;
  double requests = 0;   // bytes of requests in the crossbar
  double responses = 0;  // and of responses
  double dram = 0;       // bytes
};

// What of a resource was used, of what it could have been used while a kernel ran.
struct ResourceUse {
  const char* key = "";
  const char* title = "";
  double percent = 0;
};
// In the order of the table; the resident warps are none of them. Units, tensor cores and shared memory by the time for
// which they are taken, whatever the type of the operands; atomics by the slice of the L2 that has most of them, as
// those of one line have no other.
constexpr std::size_t kUsedResources = 12;
std::array<ResourceUse, kUsedResources> resource_use(const KernelUse& use, const KernelCeilings& ceilings,
                                                     double cycles);
// Resident warps over time, in percent of what the SMs hold.
double achieved_occupancy(const KernelUse& use, const KernelCeilings& ceilings, double cycles);

// From here on, in percent, the busiest resource is what limits a kernel.
constexpr double kLimitPercent = 60;

// What all kernels together used of the machine while one ran, it included, in percent.
struct MachineUse {
  std::array<double, kUsedResources> resources{};
  double occupancy = 0;
};

// What limits a kernel, and by how much: the resource that it uses most, if that is kLimitPercent or more, or
// if all kernels that ran meanwhile together use so much of it: "L2, with other kernels". Else, if its CTAs held less
// than that of the places that they could have: "other kernels", if all together held more than that, or "launch and
// grid". Else "its own duration", of CTAs that run for a given time, or "latency", with what its busiest resource has.
struct KernelLimit {
  std::string title;
  double percent = 0;
  std::vector<ResourceUse> next;  // the two that come behind it
};
// `places`: percent of the warps of an SM that its CTAs can hold.
// `timed`: its CTAs run for a given time.
KernelLimit limit_of(const KernelUse& use, const KernelCeilings& ceilings, double cycles, double places,
                     const MachineUse& machine, bool timed);
// Of an SM without anything else, whatever the grid.
double places_percent(const arch::SmLimits& limits, const arch::KernelShape& kernel);

// What the kernels of a GPU have used, by whose they are.
class KernelUses {
 public:
  KernelUses(const RunOutcome& outcome, std::size_t gpu);

  // Somebody has counted.
  bool counted() const { return counted_; }
  // Of an operation of the host, and of a task that a program has launched; null: nothing of it has run, or it has no
  // row of its own.
  const KernelUse* of_operation(std::size_t operation) const { return find(operations_, operation); }
  const KernelUse* of_task(std::uint32_t task) const { return find(tasks_, task); }
  // Of launches beyond those that have rows of their own, by kernel.
  const std::map<std::string, KernelUse>& by_name() const { return by_name_; }
  // What is nobody's, and of kernels that kernels.csv does not list, as they have not ended.
  const KernelUse& rest() const { return rest_; }

 private:
  template <class Map, class Key>
  static const KernelUse* find(const Map& map, const Key& key) {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  }

  bool counted_ = false;
  std::map<std::size_t, KernelUse> operations_;
  std::map<std::uint32_t, KernelUse> tasks_;
  std::map<std::string, KernelUse> by_name_;
  KernelUse rest_;
};

// The part `use` of a GPU in stats.json (docs/statistics.md): what kernels.csv has of no launch. Null if nobody has
// counted.
nlohmann::json use_stats_of(const RunOutcome& outcome, std::size_t gpu);

// stalls.csv: what the warps of each program have waited for at which of its lines, in the order of the program. Throws
// InputError if it cannot be written.
void write_stalls(const RunOutcome& outcome, const std::string& path);

// The part `kernel_use` of a GPU for the page, as report/report_page.h describes it: what each kernel used and what
// limits it, and where its warps waited. Null if nobody has counted, or nothing ran.
constexpr std::size_t kUseRows = 40;   // kernels on the page
constexpr std::size_t kStallRows = 8;  // of them with lines, and lines of each
nlohmann::json kernel_use_of(const RunOutcome& outcome, std::size_t gpu);

}  // namespace heddle::cli

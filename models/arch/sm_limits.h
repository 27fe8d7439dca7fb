// What one SM holds, and how much of it a CTA takes (CWD-01).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/task_record.h"
#include "common/param_fwd.h"

namespace heddle::arch {

// Resources of an SM. Defaults are those of compute capability 9.0 (H100, H200).
struct SmLimits {
  std::uint32_t warp_size = 32;              // threads
  std::uint32_t warps = 64;                  // resident warps
  std::uint32_t threads = 2048;              // resident threads
  std::uint32_t ctas = 32;                   // CTA slots
  std::uint32_t registers = 65'536;          // 32-bit registers
  std::uint32_t register_granularity = 256;  // registers, per warp
  std::uint32_t warp_granularity = 4;        // warps: registers are allocated for multiples of this many
  std::uint32_t shared_bytes = 233'472;      // shared memory for all CTAs: 228 KiB
  std::uint32_t shared_granularity = 128;    // bytes
  std::uint32_t shared_reserve = 1024;       // bytes that every CTA takes beside its own
  std::uint32_t barriers = 512;              // named CTA barriers: 16 for each of 32 CTAs
  std::uint32_t barriers_per_cta = 16;       // named barriers that a CTA takes
  std::uint32_t max_threads_per_cta = 1024;
  std::uint32_t max_registers_per_thread = 255;
  std::uint32_t max_shared_per_cta = 232'448;  // bytes: 227 KiB

  static void describe(ParamTable<SmLimits>& t);
};

// The resources that free slots are counted in, in the order of CtaNeed::amount.
enum class Resource : std::uint32_t { warps, threads, registers, shared_bytes, ctas, barriers };
constexpr std::size_t kResources = 6;
const char* resource_name(Resource resource);

// An amount of every resource: what a CTA needs, what an SM has in use, what an SM has in all.
struct ResourceVector {
  std::array<std::uint32_t, kResources> amount{};

  std::uint32_t& operator[](Resource r) { return amount[static_cast<std::size_t>(r)]; }
  std::uint32_t operator[](Resource r) const { return amount[static_cast<std::size_t>(r)]; }
  void add(const ResourceVector& other) {
    for (std::size_t i = 0; i < kResources; ++i) amount[i] += other.amount[i];
  }
  void subtract(const ResourceVector& other) {
    for (std::size_t i = 0; i < kResources; ++i) amount[i] -= other.amount[i];
  }
  bool operator==(const ResourceVector& other) const { return amount == other.amount; }
  bool within(const ResourceVector& limit) const {
    for (std::size_t i = 0; i < kResources; ++i) {
      if (amount[i] > limit.amount[i]) return false;
    }
    return true;
  }
};

ResourceVector capacity_of(const SmLimits& limits);

// What one CTA of the kernel takes of an SM: registers rounded per warp and for groups of warps, shared memory with
// its reserve rounded to its granularity.
ResourceVector need_of(const SmLimits& limits, const KernelShape& kernel);

// How many further CTAs of `need` fit beside what is in use: the minimum over all resources (CWD-01).
std::uint32_t free_slots(const ResourceVector& capacity, const ResourceVector& used, const ResourceVector& need);

// Why the machine can never run the kernel ("shared memory: 300000 bytes per CTA, the limit is 232448"); empty if it
// can.
std::string why_impossible(const SmLimits& limits, const KernelShape& kernel);

// Achieved occupancy as recorders estimate it, in percent: resident warps of a full SM (or of the grid spread evenly
// over `sms`, if that is less) as a share of the warps that an SM holds (INP-08).
double occupancy_percent(const SmLimits& limits, const KernelShape& kernel, std::uint32_t sms);

}  // namespace heddle::arch

namespace heddle {

// Load over time of many like units (resident warps per SM, say) in a bounded amount of memory.

// A matrix of units x time bins. The bin width doubles whenever the time axis is full, so the map of a run of any
// length has between kBins/2 and kBins columns.
class LoadMap {
 public:
  static constexpr std::uint32_t kBins = 256;

  // `unit_capacity`: the load of one unit that counts as 100 %.
  void configure(std::uint32_t units, double unit_capacity);
  void clear();

  // `weight` of load on `unit` during cycles [begin, end).
  void add(std::uint32_t unit, std::uint64_t begin, std::uint64_t end, std::uint32_t weight) {
    if (units_ == 0 || end <= begin) return;
    if (end > last_) last_ = end;
    while ((end - 1) >> shift_ >= kBins) halve();
    std::uint64_t bin = begin >> shift_;
    const std::uint64_t last_bin = (end - 1) >> shift_;
    std::uint64_t* row = &cells_[std::size_t{unit} * kBins];
    if (bin == last_bin) {
      row[bin] += (end - begin) * weight;
      return;
    }
    row[bin] += (((bin + 1) << shift_) - begin) * weight;
    for (++bin; bin < last_bin; ++bin) row[bin] += (std::uint64_t{1} << shift_) * weight;
    row[last_bin] += (end - (last_bin << shift_)) * weight;
  }

  std::uint32_t units() const { return units_; }
  // Columns in use, and cycles per column.
  std::uint32_t bins() const;
  std::uint64_t bin_cycles() const { return std::uint64_t{1} << shift_; }
  // Mean load of a unit in a bin, as a share of its capacity, 0 … 1. The last bin counts only the cycles it has seen.
  double load(std::uint32_t unit, std::uint32_t bin) const;
  // Mean load over all bins and units, 0 … 1.
  double mean() const;
  // End of the last interval that was added, in cycles.
  std::uint64_t last() const { return last_; }

 private:
  void halve();
  std::uint64_t cycles_in(std::uint32_t bin) const;

  std::uint32_t units_ = 0;
  double capacity_ = 1.0;
  std::uint32_t shift_ = 6;
  std::uint64_t last_ = 0;
  std::vector<std::uint64_t> cells_;
};

}  // namespace heddle

// What one SM holds, and how much of it a CTA takes (CWD-01).
#pragma once

#include <array>
#include <cstdint>
#include <string>

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
  std::uint32_t cga_slots = 256;             // sm_cga_slots: GPC_CGAs that live in its GPC, here or elsewhere
  std::uint32_t barriers = 512;              // named CTA barriers: 16 for each of 32 CTAs
  std::uint32_t barriers_per_cta = 16;       // named barriers that a CTA takes
  std::uint32_t max_threads_per_cta = 1024;
  std::uint32_t max_registers_per_thread = 255;
  std::uint32_t max_shared_per_cta = 232'448;    // bytes: 227 KiB
  std::uint32_t max_local_per_thread = 524'288;  // bytes: 512 KiB

  static void describe(ParamTable<SmLimits>& t);
};

// The resources that free slots are counted in, in the order of CtaNeed::amount. sm_cga_slots are none of them: a CGA
// takes one on every SM of its GPC, however many CTAs it has there, and the distributor counts them by the CGA.
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

// Local memory (PRT-06): a subcontext has blocks of it, behind each other, and a block has a place for every warp that
// fits on the SMs of a TPC. In the place of a warp, word after word of its 32 threads lie side by side, so that threads
// that access the same offset touch one line for each word.
constexpr std::uint32_t kLocalWord = 4;  // bytes

struct LocalMemory {
  std::uint64_t address = 0;  // of block 0, in the subcontext's space: a multiple of kLineBytes
  std::uint32_t bytes = 0;    // of a thread: a multiple of kLocalWord; 0: nobody has set any

  // Of the place of a warp.
  std::uint64_t warp_bytes() const { return std::uint64_t{bytes} * 32; }
  std::uint64_t block_bytes(std::uint32_t warps_per_sm, std::uint32_t sms_per_tpc) const {
    return warp_bytes() * warps_per_sm * sms_per_tpc;
  }
  bool operator==(const LocalMemory& other) const { return address == other.address && bytes == other.bytes; }
};
// Where a thread's byte lies in the place of its warp.
constexpr std::uint64_t local_offset(std::uint64_t offset, std::uint32_t lane) {
  return offset / kLocalWord * kLocalWord * 32 + std::uint64_t{lane} * kLocalWord + offset % kLocalWord;
}

// Achieved occupancy as recorders estimate it, in percent: resident warps of a full SM (or of the grid spread evenly
// over `sms`, if that is less) as a share of the warps that an SM holds (INP-08).
double occupancy_percent(const SmLimits& limits, const KernelShape& kernel, std::uint32_t sms);

}  // namespace heddle::arch

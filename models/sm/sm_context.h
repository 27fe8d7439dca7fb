// What an SM is told of the machine around it: where it is, how its tensor memory access unit is reached, and where
// memory lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/kernel_account.h"
#include "arch/sm_limits.h"
#include "arch/task_record.h"
#include "arch/virtual_map.h"
#include "arch/warp_program.h"
#include "common/stats.h"
#include "protocol/ids.h"

namespace heddle::sm {

struct SmContext {
  protocol::SmId id;
  std::uint32_t sms = 1;  // SMs of the machine
  protocol::GpcId gpc;
  protocol::SmInGpc in_gpc;
  // The link to its tensor memory access unit.
  std::uint32_t bulk_queue = 16;  // requests that wait there
  std::uint32_t bulk_way = 16;    // cycles
  // Two receivers of a multicast on this SM: both get the data; otherwise it is an error (TMA-30).
  bool share_receivers = false;
  // The way of occupancy queries (CWD-24), in cycles.
  std::uint32_t query_way = 0;   // to the distributor
  std::uint32_t answer_way = 0;  // from the GPM to here
  // More of its place, physical (CWD-45).
  std::uint32_t tpc = 0;          // in its GPC
  std::uint32_t cpc = 0;          // in its GPC
  std::uint32_t ugpu = 0;         // of the GPU
  std::uint32_t in_tpc = 0;       // number of the SM
  std::uint32_t sms_per_tpc = 1;  // of the largest TPC
  arch::VirtualPart part{};       // when it is made
};

// What special registers of an SM show that others write.
struct SmRegisters {
  arch::VirtualPart part;                           // among the usable parts of the machine, as it was told last
  std::uint32_t trap_cga_id = arch::kNoLocalCgaId;  // of the last error that a target of DSMEM has sent (CGA-08)
  std::uint32_t trap_cta_id = arch::kNoLocalCgaId;  // cta_id_in_cga of the CTA whose access that was
  // The local-memory block of a subcontext on this TPC (CWD-32), as it was told last.
  struct LocalBlock {
    std::uint32_t number = arch::kNoLocalMemory;
    arch::LocalMemory memory;  // of the subcontext
  };
  std::array<LocalBlock, arch::kSubcontexts> local{};
};

// Where the place of a warp slot in local memory begins, in the space of its subcontext (PRT-06).
inline std::uint64_t local_base(const SmRegisters::LocalBlock& block, const SmContext& place, std::uint32_t warp_slots,
                                std::uint32_t slot) {
  const std::uint64_t first = (std::uint64_t{block.number} * place.sms_per_tpc + place.in_tpc) * warp_slots;
  return block.memory.address + (first + slot) * block.memory.warp_bytes();
}

inline const arch::LaunchMemory kNoLaunchMemory{};

// What of memory an SM has to know: where its slices are, and where device-side launches keep what they need; and the
// instance that it belongs to (PRT-11), if there are any.
class LoadBatch;

struct MemoryView {
  const arch::AddressMap& map;
  const arch::LaunchMemory& nested = kNoLaunchMemory;
  std::optional<std::uint32_t> instance{};
  std::uint32_t partition = 0;  // of the L2 that its GPC is at
  LoadBatch* loads = nullptr;   // of the machine; null: loads are not put off

  // Where a fence of the SM goes: to a slice of its own partition, if it has any there. SMs take different ones.
  std::uint64_t fence_address(protocol::SmId sm) const;
};

inline std::uint64_t MemoryView::fence_address(protocol::SmId sm) const {
  const std::vector<std::uint64_t> all = map.addresses_of_slices(instance);
  std::vector<std::uint64_t> near;
  for (const std::uint64_t address : all) {
    if (map.partition_of(map.slice_of(address)) == partition) near.push_back(address);
  }
  const std::vector<std::uint64_t>& from = near.empty() ? all : near;
  return from[sm.value() % from.size()];
}

// Statistics of an SM that runs programs. Few, as a machine has many SMs.

// How long warps have waited for one reason.
struct StallCounter {
  Counter& cycles;  // warps x cycles
  WarpStall why;
};

// The prefix of their paths is that of the SM.
struct SmStats : StatGroup {
  using StatGroup::StatGroup;

  StallCounter stall_memory = stall(WarpStall::memory);
  StallCounter stall_scoreboard = stall(WarpStall::scoreboard);
  StallCounter stall_tensor = stall(WarpStall::tensor);
  StallCounter stall_barrier = stall(WarpStall::barrier);
  StallCounter stall_cluster = stall(WarpStall::cluster);
  StallCounter stall_mbarrier = stall(WarpStall::mbarrier);
  StallCounter stall_bulk_queue = stall(WarpStall::bulk_queue);
  StallCounter stall_bulk = stall(WarpStall::bulk);
  StallCounter stall_launch = stall(WarpStall::launch);
  StallCounter stall_children = stall(WarpStall::children);
  StallCounter stall_dependency = stall(WarpStall::dependency);
  StallCounter stall_occupancy = stall(WarpStall::occupancy);
  StallCounter stall_issue = stall(WarpStall::issue);
  Counter& l1_hits = counter("l1.hits", "sectors", "sectors of loads that were in the L1");
  Counter& l1_misses = counter("l1.misses", "sectors", "sectors of loads that were not in the L1");
  Counter& requests = counter("requests", "requests", "requests to the L2");
  Counter& global_bytes = counter("global_bytes", "bytes", "bytes that requests to the L2 carried or asked for");
  Counter& local_accesses =
      counter("local.accesses", "accesses", "of warps to local memory: one for each word of 4 bytes of an instruction");
  Counter& shared_wavefronts = counter("shared.wavefronts", "cycles", "cycles in which shared memory was accessed");
  Counter& shared_conflicts =
      counter("shared.conflicts", "cycles", "of these, beyond one for each 128 bytes: lanes that met in a bank");
  Counter& cluster_ctas =
      counter("cluster.ctas", "CTAs", "CTAs of GPC_CGAs, with a program, whose windows of shared memory were entered");
  Counter& cluster_warps = counter("cluster.warps", "warps", "warps of CTAs of GPC_CGAs with a program");
  Counter& cluster_requests = counter("cluster.requests", "requests", "DSMEM requests to other SMs");
  Counter& cluster_served = counter("cluster.served", "requests", "DSMEM requests of other SMs");
  Counter& missing_fences = counter("bulk.missing_fences", "requests",
                                    "requests to the TMAU that have read what no proxy fence had published");
  Counter& bulk_requests = counter("bulk.requests", "requests", "requests to the TMAU");
  Counter& bulk_pieces =
      counter("bulk.pieces", "pieces", "pieces of boxes and blocks that the TMAU wrote to shared memory");
  Counter& bulk_bytes = counter("bulk.bytes", "bytes", "bytes of these, filled ones included");
  Counter& bulk_conflicts = counter("bulk.conflicts", "cycles",
                                    "of the port of shared memory, beyond one for each piece that the TMAU wrote or "
                                    "read: units of 16 bytes that met in a bank group");
  Counter& bulk_port = counter("bulk.port_cycles", "cycles",
                               "of shared.wavefronts, those in which the TMAU wrote or read shared memory");
  Counter& copy_port = counter("copy.port_cycles", "cycles",
                               "of shared.wavefronts, those in which asynchronous copies wrote what had arrived");
  Counter& tensor_cycles = counter("tensor.cycles", "cycles x partitions", "in which tensor cores multiplied");
  Counter& tensor_operations =
      counter("tensor.operations", "operations", "products and sums of matrix multiplies that have begun");
  Counter& bulk_sends = counter("bulk.sends", "pieces",
                                "pieces of blocks that went from shared memory here to shared memory of the cluster");
  Counter& nested_launches = counter("nested.launches", "tasks", "child tasks that warps launched");
  Counter& nested_refused =
      counter("nested.refused", "launches", "launches and streams for which no record, context or place was free");
  Counter& nested_spilled =
      counter("nested.spilled", "records", "records and contexts taken from the memory behind the pools");
  Counter& nested_waits = counter("nested.waits", "waits", "waits for child tasks, those that found none included");
  Counter& nested_streams = counter("nested.streams", "streams", "streams that warps created");
  Counter& nested_marks =
      counter("nested.events", "events", "records of events, and waits of streams for them, that warps have asked for");
  Counter& nested_appends = counter("nested.appends", "entries", "entries that warps appended to queues");
  Counter& nested_steps =
      counter("nested.steps", "accesses", "memory accesses of launches, waits and appends, repetitions included");
  Counter& nested_retries =
      counter("nested.retries", "accesses", "of these, repetitions: no free record, or no free entry of a queue");
  Counter& faults = counter("faults", "faults", "operations that could not be carried out");
  Counter& dropped_errors =
      counter("cluster.dropped_errors", "errors", "errors of accesses to shared memory of a cluster that had gone");
  std::array<Counter*, arch::kUnits> instructions = by_unit();

  KernelAccount* kernels = nullptr;  // null: nobody asks
  bool charges() const { return counts_kernels(kernels); }
  // Of a kernel whose CTAs have come.
  std::uint32_t row_of(std::uint32_t operation) const {
    return charges() ? kernels->row_of(operation) : KernelAccount::kNobody;
  }
  // For a kernel, by its row.
  void charge(std::uint32_t row, KernelCount count, std::uint64_t amount) {
    if (charges()) kernels->add(row, count, amount);
  }

 private:
  StallCounter stall(WarpStall why) {
    const WarpStallRow& row = kWarpStallRows[static_cast<std::size_t>(why)];
    return {counter(fmt::format("stall.{}", row.key), "warps x cycles", fmt::format("warps that {}", row.text)), why};
  }
  std::array<Counter*, arch::kUnits> by_unit() {
    std::array<Counter*, arch::kUnits> counters{};
    for (std::size_t i = 0; i < arch::kUnits; ++i) {
      const std::string unit = arch::unit_name(static_cast<arch::Unit>(i));
      counters[i] = &counter("instructions." + unit, "warp instructions", "instructions that issued to: " + unit);
    }
    return counters;
  }
};

// Shared memory has been accessed for a kernel.
inline void count_wavefronts(SmStats& stats, std::uint32_t row, std::uint64_t cycles) {
  stats.shared_wavefronts.add(cycles);
  stats.charge(row, KernelCount::shared_cycles, cycles);
}

// An instruction of a kernel has taken a unit. Tensor cores say so themselves when they begin.
inline void charge_unit(SmStats& stats, std::uint32_t row, arch::Unit unit, std::uint64_t cycles) {
  switch (unit) {
    case arch::Unit::fp32:
      return stats.charge(row, KernelCount::fp32_cycles, cycles);
    case arch::Unit::fp64:
      return stats.charge(row, KernelCount::fp64_cycles, cycles);
    case arch::Unit::int32:
      return stats.charge(row, KernelCount::int32_cycles, cycles);
    case arch::Unit::sfu:
      return stats.charge(row, KernelCount::sfu_cycles, cycles);
    default:
      return;
  }
}

// Statistics of saved CTAs (TSK-12), on machines that have areas for them.
struct SaveStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& saves = counter("nested.saves", "CTAs",
                           "CTAs that waited for their children, were saved to memory and gave their slots up");
  Counter& restores = counter("nested.restores", "CTAs", "saved CTAs that went on here");
  Counter& bytes = counter("nested.save_bytes", "bytes", "of the states of CTAs that were saved");
  Histogram& save_cycles =
      histogram("nested.save_cycles", "cycles", "from the begin of a save to the end of the CTA's slot");
  Histogram& restore_cycles =
      histogram("nested.restore_cycles", "cycles", "from the arrival of a saved CTA to where it goes on");
  Counter& woken = counter("nested.saves_refused.woken", "CTAs",
                           "CTAs that stayed because their children completed while they were saved");
  Counter& too_large =
      counter("nested.saves_refused.too_large", "CTAs", "CTAs that stayed because their state is larger than an area");
  Counter& no_area = counter("nested.saves_refused.no_area", "attempts",
                             "attempts to save a CTA that found no free area; it is tried again");
};

}  // namespace heddle::sm

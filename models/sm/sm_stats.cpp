#include "sm/sm_stats.h"

#include <fmt/format.h>

namespace heddle::sm {

SmStats::SmStats(Stats& stats, const std::string& prefix)
    : stall_memory(stats.counter(prefix + ".stall.memory", "warps x cycles",
                                 "warps that waited for a load, an acknowledgement or a copy")),
      stall_scoreboard(
          stats.counter(prefix + ".stall.scoreboard", "warps x cycles", "warps that waited for a result of a unit")),
      stall_barrier(stats.counter(prefix + ".stall.barrier", "warps x cycles", "warps that waited at a barrier")),
      stall_cluster(stats.counter(prefix + ".stall.cluster", "warps x cycles",
                                  "warps that waited at the barrier of their cluster")),
      stall_mbarrier(
          stats.counter(prefix + ".stall.mbarrier", "warps x cycles", "warps that waited for a phase of an mbarrier")),
      stall_bulk_queue(stats.counter(prefix + ".stall.bulk_queue", "warps x cycles",
                                     "warps that waited for a place in the queue of the TMAU")),
      stall_bulk(stats.counter(prefix + ".stall.bulk", "warps x cycles",
                               "warps that waited for groups of bulk requests, or for all of them")),
      stall_launch(stats.counter(prefix + ".stall.launch", "warps x cycles",
                                 "warps in the middle of a launch of child tasks or its like: memory steps, the "
                                 "device runtime, another warp that makes the context")),
      stall_children(
          stats.counter(prefix + ".stall.children", "warps x cycles", "warps that waited for their child tasks")),
      stall_issue(stats.counter(prefix + ".stall.issue", "warps x cycles",
                                "warps that could go on and waited for their turn or for a free unit")),
      l1_hits(stats.counter(prefix + ".l1.hits", "sectors", "sectors of loads that were in the L1")),
      l1_misses(stats.counter(prefix + ".l1.misses", "sectors", "sectors of loads that were not in the L1")),
      requests(stats.counter(prefix + ".requests", "requests", "requests to the L2")),
      global_bytes(
          stats.counter(prefix + ".global_bytes", "bytes", "bytes that requests to the L2 carried or asked for")),
      shared_wavefronts(
          stats.counter(prefix + ".shared.wavefronts", "cycles", "cycles in which shared memory was accessed")),
      shared_conflicts(stats.counter(prefix + ".shared.conflicts", "cycles",
                                     "of these, beyond one for each 128 bytes: lanes that met in a bank")),
      cluster_requests(stats.counter(prefix + ".cluster.requests", "requests", "DSMEM requests to other SMs")),
      cluster_served(stats.counter(prefix + ".cluster.served", "requests", "DSMEM requests of other SMs")),
      bulk_requests(stats.counter(prefix + ".bulk.requests", "requests", "requests to the TMAU")),
      bulk_pieces(stats.counter(prefix + ".bulk.pieces", "pieces",
                                "pieces of boxes and blocks that the TMAU wrote to shared memory")),
      bulk_bytes(stats.counter(prefix + ".bulk.bytes", "bytes", "bytes of these, filled ones included")),
      bulk_conflicts(stats.counter(prefix + ".bulk.conflicts", "cycles",
                                   "of the port of shared memory, beyond one for each piece that the TMAU wrote or "
                                   "read: units of 16 bytes that met in a bank group")),
      bulk_sends(stats.counter(prefix + ".bulk.sends", "pieces",
                               "pieces of blocks that went from shared memory here to shared memory of the cluster")),
      nested_launches(stats.counter(prefix + ".nested.launches", "tasks", "child tasks that warps launched")),
      nested_waits(
          stats.counter(prefix + ".nested.waits", "waits", "waits for child tasks, those that found none included")),
      nested_streams(stats.counter(prefix + ".nested.streams", "streams", "streams that warps created")),
      nested_appends(stats.counter(prefix + ".nested.appends", "entries", "entries that warps appended to queues")),
      nested_steps(stats.counter(prefix + ".nested.steps", "accesses",
                                 "memory accesses of launches, waits and appends, repetitions included")),
      nested_retries(stats.counter(prefix + ".nested.retries", "accesses",
                                   "of these, repetitions: no free record, or no free entry of a queue")),
      faults(stats.counter(prefix + ".faults", "faults", "operations that could not be carried out")),
      dropped_errors(stats.counter(prefix + ".cluster.dropped_errors", "errors",
                                   "errors of accesses to shared memory of a cluster that had gone")) {
  for (std::size_t i = 0; i < arch::kUnits; ++i) {
    const char* unit = arch::unit_name(static_cast<arch::Unit>(i));
    instructions[i] = &stats.counter(fmt::format("{}.instructions.{}", prefix, unit), "warp instructions",
                                     fmt::format("instructions that issued to: {}", unit));
  }
}

SaveStats::SaveStats(Stats& stats, const std::string& prefix)
    : saves(stats.counter(prefix + ".nested.saves", "CTAs",
                          "CTAs that waited for their children, were saved to memory and gave their slots up")),
      restores(stats.counter(prefix + ".nested.restores", "CTAs", "saved CTAs that went on here")),
      bytes(stats.counter(prefix + ".nested.save_bytes", "bytes", "of the states of CTAs that were saved")),
      save_cycles(stats.histogram(prefix + ".nested.save_cycles", "cycles",
                                  "from the begin of a save to the end of the CTA's slot")),
      restore_cycles(stats.histogram(prefix + ".nested.restore_cycles", "cycles",
                                     "from the arrival of a saved CTA to where it goes on")),
      woken(stats.counter(prefix + ".nested.saves_refused.woken", "CTAs",
                          "CTAs that stayed because their children completed while they were saved")),
      too_large(stats.counter(prefix + ".nested.saves_refused.too_large", "CTAs",
                              "CTAs that stayed because their state is larger than an area")),
      no_area(stats.counter(prefix + ".nested.saves_refused.no_area", "attempts",
                            "attempts to save a CTA that found no free area; it is tried again")) {}

}  // namespace heddle::sm

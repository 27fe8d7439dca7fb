// Statistics of an SM that runs programs. Few, as a machine has many SMs.
#pragma once

#include <array>
#include <string>

#include "arch/warp_program.h"
#include "common/stats.h"

namespace heddle::sm {

struct SmStats {
  // `prefix`: path of the SM's statistics.
  SmStats(Stats& stats, const std::string& prefix);

  std::array<Counter*, arch::kUnits> instructions{};  // by unit
  Counter& stall_memory;
  Counter& stall_scoreboard;
  Counter& stall_barrier;
  Counter& stall_cluster;
  Counter& stall_mbarrier;
  Counter& stall_bulk_queue;
  Counter& stall_bulk;
  Counter& stall_launch;
  Counter& stall_children;
  Counter& stall_issue;
  Counter& l1_hits;
  Counter& l1_misses;
  Counter& requests;
  Counter& global_bytes;
  Counter& shared_wavefronts;
  Counter& shared_conflicts;
  Counter& cluster_requests;
  Counter& cluster_served;
  Counter& bulk_requests;
  Counter& bulk_pieces;
  Counter& bulk_bytes;
  Counter& bulk_conflicts;
  Counter& bulk_sends;
  Counter& nested_launches;
  Counter& nested_waits;
  Counter& nested_streams;
  Counter& nested_appends;
  Counter& nested_steps;
  Counter& nested_retries;
  Counter& faults;
  Counter& dropped_errors;
};

// The same of saved CTAs (TSK-12), on machines that have areas for them.
struct SaveStats {
  SaveStats(Stats& stats, const std::string& prefix);

  Counter& saves;
  Counter& restores;
  Counter& bytes;
  Histogram& save_cycles;
  Histogram& restore_cycles;
  Counter& woken;
  Counter& too_large;
  Counter& no_area;
};

}  // namespace heddle::sm

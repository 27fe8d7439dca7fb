// Statistics of a tensor memory access unit. Few, as a machine has many.
#pragma once

#include <array>
#include <string>

#include "arch/bulk.h"
#include "common/stats.h"

namespace heddle::tmau {

constexpr std::size_t kBulkKinds = 8;

struct TmauStats {
  // `prefix`: path of the unit's statistics.
  TmauStats(Stats& stats, const std::string& prefix);

  std::array<Counter*, kBulkKinds> requests{};  // by kind
  Counter& lines;
  Counter& bytes_in;
  Counter& bytes_out;
  Counter& delivered;
  Counter& fills;
  Counter& descriptor_hits;
  Counter& descriptor_misses;
  Counter& descriptor_ahead;
  Counter& queue_busy;
  Counter& descriptor_busy;
  Counter& setup_busy;
  Counter& generator_busy;
  Counter& wait_outstanding;
  Counter& wait_crossbar;
  Counter& multicast_sent;
  Counter& multicast_received;
  Counter& multicast_saved;
  Counter& acknowledgements;
  Counter& dropped;
  Counter& failed;
  Counter& flagged;
  Histogram& cycles;
};

}  // namespace heddle::tmau

// Random parameters: every one that a plain grid's way through the machine depends on.
#pragma once

#include "cwd/cwd_params.h"
#include "support/random.h"

namespace heddle::test {

inline cwd::CwdParams random_cwd_params(Random& random, std::uint32_t sms) {
  cwd::CwdParams params;
  params.table_slots = random.between(1, 6);
  params.level_search = random.chance(50) ? cwd::LevelSearch::scan : cwd::LevelSearch::bisection;
  switch (random.below(3)) {
    case 0:
      params.sm_priority.order = cwd::UnitOrder::Order::descending;
      break;
    case 1:
      params.sm_priority = {cwd::UnitOrder::Order::listed, random.permutation(sms)};
      break;
    default:
      break;
  }
  params.session_pipeline = random.between(0, 30);
  params.session_step = random.between(0, 3);
  params.session_limit = random.chance(50) ? random.between(1, 20) : 4096;
  params.mask_buffers = random.between(1, 3);
  params.port_bits = random.chance(50) ? 64 : random.chance(20) ? 0 : random.between(1, 300);
  params.cta_commits = random.chance(50) ? random.between(100, 9000) / 1000.0 : 0.84;
  params.gpc_distance = random.chance(20) ? 0 : random.between(1, 100);
  params.gpc_queue = random.between(1, 4);
  params.done_distance = random.between(0, 20);
  params.backfill = random.chance(50);
  params.sessions = random.chance(50) ? 1 : random.between(2, 5);
  params.snapshot_sms = random.chance(50) ? 4096 : random.between(1, 40);
  params.trt_updates = random.chance(50) ? 4096 : random.between(1, 400) / 100.0;
  params.end_reports = random.chance(50) ? 64 : random.between(1, 400) / 100.0;
  params.prefix_step = random.below(5) / 4.0;
  params.compare_step = random.below(5) / 4.0;
  params.mask_cycles = random.below(20);
  params.ugpu_distance = random.below(30);
  return params;
}

}  // namespace heddle::test

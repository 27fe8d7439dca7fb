// A distributor whose sessions are simple to reckon with.
#pragma once

#include "cwd/cwd_bench.h"

namespace heddle::test {

// Sessions of 10 cycles, packets and CTAs without limit, GPCs 100 cycles away.
inline cwd::CwdParams plain_cwd(std::uint32_t table_slots) {
  cwd::CwdParams params;
  params.table_slots = table_slots;
  params.session_pipeline = 10;
  params.mask_cycles = 0;
  params.prefix_step = params.compare_step = 0;
  params.session_step = 0;
  params.port_bits = 0;
  params.cta_commits = 0;
  params.gpc_distance = 100;
  params.done_distance = 7;
  return params;
}

}  // namespace heddle::test

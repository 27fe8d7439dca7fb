// Parameters of an SM.
#pragma once

#include <cstdint>

#include "arch/sm_limits.h"
#include "common/params.h"

namespace heddle::sm {

struct SmParams {
  arch::SmLimits limits;
  std::uint32_t start_cycles = 20;  // cycles

  static void describe(ParamTable<SmParams>& t) {
    t.group("limits", &SmParams::limits);
    t.add("start_cycles", &SmParams::start_cycles, {Unit::cycles, 0, 100'000},
          "from a CTA's arrival at the SM to its first instruction", "assumption");
  }
};

}  // namespace heddle::sm

// Parameters of the copy engines.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::copy {

struct CopyParams {
  std::uint32_t engines = 2;
  double bandwidth = 64;            // bytes per cycle of an engine
  std::uint32_t outstanding = 512;  // lines under way of an engine
  double set_up = 200;              // ns, from taking a request to its first read

  static void describe(ParamTable<CopyParams>& t);
};

}  // namespace heddle::copy

// Parameters of the HBM.
#pragma once

#include <cstdint>

#include "common/params.h"

namespace heddle::memory {

struct HbmParams {
  std::uint32_t channels = 160;  // pseudo-channels

  static void describe(ParamTable<HbmParams>& t);
};

}  // namespace heddle::memory

#include "memory/hbm_params.h"

namespace heddle::memory {

void HbmParams::describe(ParamTable<HbmParams>& t) {
  t.add("channels", &HbmParams::channels, {Unit::count, 1, 4096}, "pseudo-channels", "5 stacks of 32");
}

}  // namespace heddle::memory

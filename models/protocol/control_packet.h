// Host -> CWD: which TPCs may receive work from now on (TPC enable table). A cleared TPC finishes what runs on it.
#pragma once

#include <cstdint>

namespace heddle::protocol {

struct TpcEnablePacket {
  std::uint32_t gpc = 0;
  std::uint32_t tpc = 0;  // of the GPC
  bool enabled = true;
};

}  // namespace heddle::protocol

// Host interface -> memory hub: which of the host's memory a subcontext may reach (HST-06).
#pragma once

#include <cstdint>

namespace heddle::protocol {

constexpr std::uint64_t kHostWindowPage = 4096;  // windows begin and end at multiples

struct HostWindowPacket {
  enum class What : std::uint8_t {
    isolate,  // from now on subcontexts other than 0 reach their windows only
    share,    // all subcontexts reach all of the host's bus: so it is after a reset
    open,     // one more window for the subcontext
    close,    // the subcontext has none any more
  };
  What what = What::share;
  std::uint8_t subcontext = 0;
  std::uint64_t address = 0;  // unified, within the host's window
  std::uint64_t bytes = 0;
  bool reads = false;
  bool writes = false;
};

}  // namespace heddle::protocol

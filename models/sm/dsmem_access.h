// What a request to distributed shared memory (DSMEM) is made of, and what it does to the window that it is for
// (CGA-06, CGA-08). Without time.
#pragma once

#include <cstdint>
#include <optional>

#include "arch/address_map.h"
#include "arch/warp_program.h"
#include "common/cycle.h"
#include "sm/lane_data.h"
#include "sm/shared_memory.h"

namespace heddle::protocol {
class MemoryRequest;
struct MemoryExtension;
}  // namespace heddle::protocol

namespace heddle::sm {

// Fills the request with what `operation` does to that line. Its address is the offset in the target's window, and its
// range reaches from the first byte that a lane touches to the last, so that the end of a window is exact. `in_order`:
// addresses rise with the lanes.
void fill_dsmem(protocol::MemoryRequest& request, const arch::Operation& operation, const LineAccess& line,
                bool in_order);

// The values of an atomic, lane by lane, or what an mbarrier operation counts.
void fill_lanes(protocol::MemoryExtension& extension, const arch::Operation& operation, const LineAccess& line);

// The values that an atomic has found go to the lanes' registers.
void put_old_values(const protocol::MemoryExtension& extension, std::uint32_t* registers);

struct DsmemResult {
  arch::DsmemStatus status = arch::DsmemStatus::ok;
  std::uint32_t offset = 0;  // of the first byte that was wrong
  std::uint32_t cycles = 1;  // of the port: lanes of an atomic or of an mbarrier operation that meet at one word
  bool changes = false;      // the window
  bool signals = false;      // an mbarrier, as a warp's own operation does
  // Of a send of the TMAU, or an asynchronous store: a phase of that mbarrier is complete.
  bool completes = false;
  std::uint32_t barrier = 0;
};

// Does it. `place`: the window; none: nobody is there. What fails changes nothing, but mbarrier operations of lanes
// before the first that is wrong. A payload with a bulk() is a send of the TMAU: its mbarrier gets the bytes once they
// are written, and if it does not take them, they are there all the same.
DsmemResult serve_dsmem(SharedMemory& memory, std::optional<std::uint32_t> place, protocol::MemoryRequest& request);

class WindowListener {
 public:
  // Something from beyond its warps has changed what lies in that window at the offset: perhaps an mbarrier, a phase of
  // which it may have completed. `when`: the port's cycle for it, now or later.
  virtual void window_changed(std::uint32_t window, std::uint32_t offset, Cycle when) = 0;

 protected:
  ~WindowListener() = default;
};

// Who waits for an mbarrier of that window looks again.
void tell_changes(WindowListener& listener, std::optional<std::uint32_t> window, const protocol::MemoryRequest& request,
                  const DsmemResult& result, Cycle done);

}  // namespace heddle::sm

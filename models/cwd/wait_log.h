// Why the tasks of the task table wait: time by reason, and lines of the timeline.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cwd/cwd_context.h"

namespace heddle::cwd {

enum class WaitReason : std::uint8_t {
  none,
  free_slots,    // no SM has room for a CTA, or no domain for a CGA
  cga_ids,       // no gpc_local_cga_id or barrier slot where there would be room
  flush,         // the GPCs hold as many CGAs of the grid as they can; some of them are being flushed
  gpu_barrier,   // no barrier for a GPU_CGA
  memory_slot,   // no CGA memory slot (CWD-22)
  credits,       // no TPC credit
  local_memory,  // no local-memory block
  behind,        // a task before it in the prioritised table waits and lets none pass
  pool,          // free slots only on GPCs in whose pools it has no place (TSK-04)
  evicted,       // it has no slot of the task table (TSK-03)
  tpc_mask,      // no room on the TPCs that its subcontext may use (PRT-05)
};
constexpr std::size_t kWaitReasons = 12;
// For statistics ("cga_ids") and for people ("no CGA id or barrier slot on a GPC with room").
const char* wait_key(WaitReason reason);
const char* wait_text(WaitReason reason);

class WaitLog {
 public:
  // `name` gives a task's name by slot.
  WaitLog(const CwdContext& context, std::uint32_t slots, std::function<std::string(std::uint32_t)> name);

  // Told of every wait that has ended: slot, what for, cycles.
  void on_end(std::function<void(std::uint32_t, WaitReason, Cycle)> sink) { on_end_ = std::move(sink); }

  // From now on the task waits for that, or for nothing.
  void set(std::uint32_t slot, WaitReason reason);
  WaitReason reason(std::uint32_t slot) const { return waits_[slot].reason; }
  void reset();

 private:
  struct Wait {
    WaitReason reason = WaitReason::none;
    Cycle since = 0;
    TrackId track;
  };

  const CwdContext& context_;
  std::function<std::string(std::uint32_t)> name_;
  std::function<void(std::uint32_t, WaitReason, Cycle)> on_end_;
  std::vector<Wait> waits_;
  std::array<Counter*, kWaitReasons> cycles_{};
};

}  // namespace heddle::cwd

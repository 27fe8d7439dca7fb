// What CGAs take besides free slots: ids and barrier slots of their GPC, barriers of GPU_CGAs, CGA memory slots
// (CWD-19, CWD-22). A session asks what is left before it begins and takes it when its CGAs are accepted: nothing of a
// CGA starts before all that it needs is reserved.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "protocol/cwd_gpm.h"

namespace heddle::cwd {

struct CgaLimits {
  std::uint32_t ids = 256;          // gpc_local_cga_ids of a GPC
  std::uint32_t barriers = 256;     // barrier slots of a GPC
  std::uint32_t gpu_barriers = 16;  // barriers of GPU_CGAs and uGPU_CGAs
  std::uint32_t memory_slots = 16;  // CGA memory slots of each subcontext
};

class CgaLedger {
 public:
  CgaLedger(std::uint32_t gpcs, const CgaLimits& limits);

  // GPC_CGAs that can still get an id and a barrier slot on the GPC.
  std::uint32_t gpc_cgas(std::uint32_t gpc) const { return gpc_left_[gpc]; }
  std::uint32_t gpu_barriers() const { return gpu_barriers_left_; }
  std::uint32_t memory_slots(std::uint32_t subcontext) const {
    return static_cast<std::uint32_t>(memory_left_[subcontext].size());
  }

  // An outermost CGA is accepted. `parts`: the GPC_CGAs (or, without that level, the CTAs) that must complete before
  // what it takes here comes back. Returns its memory slot, or kNoMemorySlot.
  std::uint32_t open(std::uint64_t sequence, std::uint32_t subcontext, bool gpu_level, bool linear_memory,
                     std::uint64_t parts);
  void take_gpc_cga(std::uint32_t gpc);
  // cga_complete of a GPC_CGA.
  void give_gpc_cga(std::uint32_t gpc);
  // Parts of the outermost CGA have completed; true if that made something free.
  bool complete(std::uint64_t sequence, std::uint64_t parts);

  bool empty() const;
  void reset();

 private:
  struct Open {
    std::uint32_t subcontext = 0;
    std::uint32_t memory_slot = protocol::kNoMemorySlot;
    bool gpu_level = false;
    std::uint64_t parts = 0;
  };

  CgaLimits limits_;
  std::vector<std::uint32_t> gpc_left_;
  std::uint32_t gpu_barriers_left_ = 0;
  std::vector<std::vector<std::uint32_t>> memory_left_;  // by subcontext: free slots, the last one is given next
  std::unordered_map<std::uint64_t, Open> open_;         // by sequence number: those that took something
};

}  // namespace heddle::cwd

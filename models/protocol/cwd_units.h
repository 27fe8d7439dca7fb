// Inside the distributor: CWD <-> GPU2GPC unit <-> GPC2SM units, for the sessions of grids of CGAs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arch/topology.h"

namespace heddle::protocol {

// What waits in the prioritised task table beside the task of a session: its most urgent entries, for policies that
// look ahead.
struct WaitingTask {
  std::uint32_t ctas = 1;   // that one GPC must hold together: of a GPC_CGA; 1 where it is indifferent to GPCs
  std::uint64_t count = 0;  // such GPC_CGAs, or CTAs, that remain
};
constexpr std::size_t kWaitingSeen = 8;
struct WaitingWork {
  std::array<WaitingTask, kWaitingSeen> tasks{};  // most urgent first
  std::uint32_t count = 0;

  // Whether one of them has GPC_CGAs of more CTAs.
  bool larger_than(std::uint32_t ctas) const {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (tasks[i].ctas > ctas) return true;
    }
    return false;
  }
};
inline const WaitingWork kNothingWaits{};

// GPCs or, for uGPU_CGAs, uGPUs of that speed tied for CGAs, and the limit of a session cut them off after that one:
// the task's next session goes on with those after it (CWD-13).
struct CutTie {
  std::uint32_t domain = 0;
  std::uint32_t speed = 0;
  bool stands = true;  // nothing has become free since, so that only those that were served can be faster by now
};

// CWD -> GPU2GPC unit: a session begins.
struct SessionPacket {
  std::uint64_t session = 0;
  std::uint64_t units = 0;      // outermost CGAs that remain, clamped (CWD-23)
  bool single = true;           // the outermost CGA is a GPC_CGA
  std::uint32_t ugpu_cgas = 0;  // uGPU_CGAs of an outermost CGA; 0: no such level
  std::uint32_t gpc_cgas = 1;   // GPC_CGAs of a uGPU_CGA or, without that level, of a GPU_CGA
  std::uint32_t way = 0;        // as in SnapshotPacket, of queries and orders
  std::uint32_t ctas = 1;       // of a GPC_CGA
  WaitingWork waiting;
  std::optional<CutTie> tie;  // that the task's last session cut off
};

// CWD -> GPC2SM unit: the shadow state of a session, as far as it concerns one GPC (CWD-02).
struct SnapshotPacket {
  std::array<std::uint16_t, arch::kMaxSmsPerGpc> free{};  // free slots by SM of the GPC
  std::uint32_t ctas = 1;                                 // of a GPC_CGA
  std::uint32_t cpc_ctas = 0;                             // of a CPC_CGA; 0: no such level
  bool multicast = true;
  std::uint32_t way = 0;   // cycles that answers take besides: through the distributor of the uGPU (CWD-46)
  std::uint32_t cgas = 0;  // most GPC_CGAs that the GPC may take, for whatever is limited besides free slots (CWD-19)
  WaitingWork waiting;
};

// GPU2GPC unit -> GPC2SM unit: what becomes of the last answer, and whether another one is wanted; carried out in the
// order of the members. A revert is the reset of the launch-slot registers between the passes of a GPU_CGA (CWD-19),
// and after a failure.
struct MimicPacket {
  bool reserve = false;
  bool cancel = false;
  bool revert = false;
  bool accept = false;
  bool query = false;
};

// GPC2SM unit -> GPU2GPC unit.
struct AnswerPacket {
  bool valid = false;
  std::uint32_t speed = 0;
  std::uint32_t free = 0;  // slots left on the GPC's SMs, before the CGA takes its own
};

// GPU2GPC unit -> GPC2SM unit: an accepted GPC_CGA is to be started; its masks go to the CWD.
struct HomePacket {
  std::uint32_t nth = 0;    // of the GPC's accepted reservations of the session
  std::uint32_t order = 0;  // of the session's GPC_CGAs, in launch order
  std::uint64_t unit = 0;   // outermost CGA of the session
  bool last = false;        // GPC_CGA of its outermost CGA
};

constexpr std::size_t kMasksPerMaskPacket = 4;

// GPC2SM unit -> CWD: SM masks of one GPC_CGA, in launch order; `final` with its last ones.
struct MaskPacket {
  std::uint32_t order = 0;
  std::uint64_t unit = 0;
  bool last = false;
  bool final = false;
  std::uint32_t count = 0;
  std::array<std::uint64_t, kMasksPerMaskPacket> masks{};
};

// GPU2GPC unit -> CWD: everything is decided; the masks of so many GPC_CGAs follow or are there already.
struct SessionEndPacket {
  std::uint64_t session = 0;
  std::uint64_t units = 0;  // outermost CGAs placed
  std::uint32_t cgas = 0;   // GPC_CGAs placed
  std::uint32_t queries = 0;
  std::optional<CutTie> tie;  // that the session's limit has cut off
};

}  // namespace heddle::protocol

// What a session of a grid of CGAs may place, before it is asked: limits besides free slots (CWD-19, CWD-20, CWD-23),
// and a look at the free slots that spares hopeless sessions.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "cwd/cga_ledger.h"
#include "cwd/task_table.h"
#include "cwd/wait_log.h"

namespace heddle::cwd {

class ClusterRoom {
 public:
  // `session_limit`: most CTAs of a session. Topology and ledger must outlive it.
  ClusterRoom(const arch::Topology& topology, const CgaLedger& ledger, std::uint64_t session_limit)
      : topology_(topology), ledger_(ledger), session_limit_(session_limit) {}

  // `size`, here and below: size index of the outermost CGA. `slots`: free slots by SM id.
  //
  // The outermost CGAs that a session may place: those that remain, at most the session's limit, and at most what is
  // left of everything that outermost CGAs take besides free slots. Where that is none, returns why.
  WaitReason limit(const TaskEntry& entry, std::uint32_t size, std::uint64_t& units) const;
  // GPC_CGAs that the GPC can take, for whatever is limited besides free slots.
  std::uint32_t on_gpc(const TaskEntry& entry, std::uint32_t size, std::uint32_t gpc) const;
  // Never false if a session could place a CGA.
  bool could_hold(const TaskEntry& entry, std::uint32_t size, const std::vector<std::uint16_t>& slots) const;
  // Why a CGA finds no home: free slots would do, but something else is short where they are; or they would not.
  WaitReason why_no_home(const TaskEntry& entry, std::uint32_t size, const std::vector<std::uint16_t>& slots) const;

 private:
  struct Free {
    std::uint64_t slots = 0;
    std::uint64_t sms = 0;  // with a free slot
    // What counts for the CTAs of one GPC_CGA.
    std::uint64_t for_one(const TaskEntry& entry) const {
      return entry.task.cluster.mode == arch::CgaMode::multicast ? sms : slots;
    }
  };
  Free free_on(std::uint32_t gpc, const std::vector<std::uint16_t>& slots) const;

  const arch::Topology& topology_;
  const CgaLedger& ledger_;
  std::uint64_t session_limit_;
};

}  // namespace heddle::cwd

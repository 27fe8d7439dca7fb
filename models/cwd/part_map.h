// Tells the SMs what numbers they have among the usable parts, whenever the TPC enable table changes (CWD-45).
#pragma once

#include <cstdint>
#include <vector>

#include "common/packet_port.h"
#include "cwd/cwd_context.h"
#include "cwd/machine_ledger.h"
#include "protocol/cwd_gpm.h"

namespace heddle::cwd {

class PartMap {
 public:
  // `parts`: link = GPC; its latency is the distance of the nearest one.
  PartMap(const CwdContext& context, PacketSender<protocol::PartPacket>& parts) : context_(context), parts_(parts) {}

  // The table has changed: every TPC that has another number than before, and each that has none any more, is told.
  void announce(const LiveModel& live);
  void reset() { known_.clear(); }

 private:
  const CwdContext& context_;
  PacketSender<protocol::PartPacket>& parts_;
  std::vector<std::vector<arch::VirtualPart>> known_;  // by GPC and TPC; empty: those of the whole machine
};

}  // namespace heddle::cwd

// The share of an SM's memory that its CTAs have: their windows of shared memory, and what is left for the L1 (CGA-09).
#pragma once

#include <cstdint>

#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/cta_table.h"
#include "sm/l1_cache.h"
#include "sm/shared_memory.h"
#include "sm/sm_params.h"

namespace heddle::sm {

class ClusterTables;
class SmOccupancy;

class CtaMemory {
 public:
  struct Peers {
    SharedMemory& shared;
    L1Cache& l1;
    ClusterTables& tables;
    SmOccupancy& occupancy;
    PacketSender<protocol::ClusterNoticePacket>& notices;
  };
  CtaMemory(Timebase& time, const SmParams& params, const Peers& peers) : time_(time), params_(params), peers_(peers) {}

  void enter(const Cta& cta);
  void leave(const Cta& cta);
  // The CTA gives back what lies behind that offset; gives the number of bytes that its window has lost. What lies
  // behind an earlier end is gone already.
  std::uint32_t give_back(Cta& cta, std::uint64_t from);
  void reset() { ctas_ = held_ = 0; }

 private:
  void size_l1();

  Timebase& time_;
  const SmParams& params_;
  Peers peers_;
  std::uint32_t ctas_ = 0;
  std::uint32_t held_ = 0;  // bytes, with reserves
};

}  // namespace heddle::sm

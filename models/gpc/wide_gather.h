// A GPC's part in the barriers of GPU_CGAs and uGPU_CGAs (CWD-09): its GPM gathers the arrivals of its CTAs, tells the
// distributor when all that run have arrived, and passes the release on. Plain C++: it enters no events.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/packet_port.h"
#include "common/timebase.h"
#include "common/waits.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

class WideGather {
 public:
  // `orders`: link = MPC; `ways`: cycles to each of them beyond the link.
  WideGather(Timebase& timebase, protocol::GpcId gpc, std::vector<Cycle> ways,
             PacketSender<protocol::ClusterOrderPacket>& orders, PacketSender<protocol::BarrierReportPacket>& reports)
      : timebase_(timebase), gpc_(gpc), ways_(std::move(ways)), orders_(orders), reports_(reports) {}

  // CTAs with that tag start on an MPC.
  void launch(const protocol::CtaTag& tag, std::uint32_t mpc, std::uint32_t ctas);
  // All SMs know a CTA of a GPC_CGA from `when` on; nobody has to know one of no GPC_CGA.
  void enter(const protocol::CtaTag& tag, Cycle when);
  // The CTA's warps have all arrived at the barrier of that level; `when`: its arrival has been taken in.
  void arrive(const protocol::CtaTag& tag, std::uint32_t rank, arch::CgaLevel level, Cycle when);
  // The CTA has completed, now, and no longer counts.
  void leave(const protocol::CtaTag& tag, std::uint32_t rank);
  // The root has completed a phase: warps go on.
  void release(const protocol::BarrierReleasePacket& release);

  void collect_waits(WaitGraph& graph) const;
  void reset() { parts_.clear(); }

 private:
  // The CTAs of one wide CGA on this GPC, by the slot of its barrier.
  struct Part {
    arch::CgaLevel level = arch::CgaLevel::gpu;
    std::uint32_t operation = 0;
    std::uint64_t sequence = 0;
    std::uint32_t launched = 0;
    std::uint32_t entered = 0;  // everywhere: as many as launched before a phase completes (CGA-04)
    std::uint32_t gone = 0;
    std::uint64_t mpcs = 0;              // that CTAs were started on
    std::vector<std::uint64_t> arrived;  // in this phase, by key_of()
    std::uint64_t phase = 0;             // phases that are over
    Cycle latest = 0;                    // of what a report depends on
    std::uint32_t told_arrived = 0;      // as the root was told
    std::uint32_t told_gone = 0;
  };

  static std::uint64_t key_of(const protocol::CtaTag& tag, std::uint32_t rank);
  Part& part_of(protocol::BarrierSlot slot, const protocol::CtaTag& tag);
  void report_if_complete(protocol::BarrierSlot slot, Part& part);

  Timebase& timebase_;
  const protocol::GpcId gpc_;
  const std::vector<Cycle> ways_;
  PacketSender<protocol::ClusterOrderPacket>& orders_;
  PacketSender<protocol::BarrierReportPacket>& reports_;
  std::map<std::uint32_t, Part> parts_;  // by barrier slot
};

}  // namespace heddle::gpc

// The root of the barriers of GPU_CGAs and uGPU_CGAs (CWD-09): it knows how many CTAs each has, gathers what the GPCs
// report, and tells them when a phase is over.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "common/packet_port.h"
#include "common/waits.h"
#include "cwd/cwd_context.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::cwd {

class BarrierRoot final : private EventHandler {
 public:
  // `releases`: link = GPC; its latency is the distance of the nearest one.
  BarrierRoot(const CwdContext& context, PacketSender<protocol::BarrierReleasePacket>& releases);

  // A CGA of that many CTAs has the barrier from now on.
  void open(protocol::BarrierSlot slot, arch::CgaLevel level, std::uint32_t operation, std::uint64_t sequence,
            std::uint64_t ctas);
  void on_report(const protocol::BarrierReportPacket& report, std::uint32_t gpc);

  void collect_waits(WaitGraph& graph) const;
  void reset();

 private:
  struct BarrierStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& barriers = counter("gpu_barriers", "barriers", "barriers that GPU_CGAs and uGPU_CGAs have taken");
    Counter& phases =
        counter("gpu_barrier_phases", "phases", "phases of barriers of GPU_CGAs and uGPU_CGAs that were completed");
    Counter& reports =
        counter("gpu_barrier_reports", "packets", "reports of arrivals at such barriers that came from the GPCs");
  };
  // What a GPC has said last.
  struct Part {
    std::uint32_t arrived = 0;
    std::uint32_t gone = 0;
  };
  struct Barrier {
    arch::CgaLevel level = arch::CgaLevel::gpu;
    std::uint32_t operation = 0;
    std::uint64_t sequence = 0;
    std::uint64_t ctas = 0;  // 0: no CGA has had it yet
    std::uint64_t phase = 0;
    std::vector<Part> parts;  // by GPC
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return context_.name; }
  static Part sum_of(const Barrier& barrier);
  void take_in(const protocol::BarrierReportPacket& report, std::uint32_t gpc);
  void complete(protocol::BarrierSlot slot, Barrier& barrier);

  const CwdContext& context_;
  PacketSender<protocol::BarrierReleasePacket>& releases_;
  const Cycle interval_;                                                       // cycles per report
  std::vector<Cycle> extra_distance_;                                          // by GPC: beyond the nearest one's
  std::vector<Barrier> barriers_;                                              // by slot
  std::deque<std::pair<protocol::BarrierReportPacket, std::uint32_t>> queue_;  // reports, with their GPCs
  Cycle free_ = 0;
  BarrierStats stats_;
};

}  // namespace heddle::cwd

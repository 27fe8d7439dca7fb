// The MPC of an SM, or of the SMs of a TPC: tracks CTA slots, works out the ids of its CTAs, starts them on its SMs,
// tells the SMs of the GPC of CTAs of CGAs, permits exits, reports completions, and gathers its SMs' answers to
// flushes.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "common/stage_clock.h"
#include "gpc/cga_table.h"
#include "gpc/gpc_params.h"
#include "gpc/mpc_place.h"
#include "gpc/raster_unit.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

class Mpc : public Block {
 public:
  Mpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      const MpcPlace& place);
  ~Mpc() override;

  PacketIn<protocol::TpcLaunchPacket> launch_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketIn<protocol::PartPacket> part_in;
  PacketOut<protocol::CtaStartPacket> start_out;                  // link = SM of the MPC
  PacketOut<protocol::AbortPacket> abort_out;                     // link = SM of the MPC
  PacketOut<protocol::PartPacket> part_out;                       // link = SM of the MPC
  PacketOut<protocol::LocalMemoryPacket> local_out;               // link = SM of the MPC
  sc_core::sc_vector<PacketIn<protocol::CtaExitPacket>> exit_in;  // one per SM
  PacketOut<protocol::CtaCompletePacket> complete_out;
  PacketOut<protocol::CtaEntryPacket> entry_out;                          // link = SM of the GPC: bit of its masks
  sc_core::sc_vector<PacketIn<protocol::ClusterNoticePacket>> notice_in;  // one per SM of the MPC
  PacketOut<protocol::ClusterNoticePacket> notice_out;
  PacketIn<protocol::ClusterOrderPacket> order_in;
  PacketOut<protocol::ClusterOrderPacket> order_out;  // link = SM of the MPC

  std::uint32_t slots_used(std::uint32_t sm) const { return slots_[sm].used(); }
  void check_idle() override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  struct LaunchStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& updates = counter("raster_updates", "updates", "deltas decomposed for launches on SMs of this MPC");
    Counter& overflows =
        counter("delta_overflows", "overflows", "times that a delta counter was full, and was decomposed");
    Counter& raster_waits = counter("raster_wait_cycles", "cycles",
                                    "from the arrival of a CTA's launch at the MPC until the raster unit had its id");
    Counter& start_waits =
        counter("start_wait_cycles", "cycles", "time that CTAs with ids waited because their SM was starting others");
    Counter& raster_busy =
        counter("raster_busy_cycles", "cycles", "time that the raster unit divided and delivered ids");
    Counter& start_busy =
        counter("start_busy_cycles", "cycles", "time that SMs took to start CTAs, all SMs of the MPC");
  };
  // A CTA of a slot.
  struct Resident {
    protocol::CtaTag tag;
    std::uint32_t rank = 0;
    bool here = false;  // it has not been permitted to leave
    bool wants_exit = false;
    bool preempted = false;
    std::uint32_t released_shared_bytes = 0;  // as it said when it asked to leave
  };

  void on_event(std::uint32_t, std::uint64_t) override {}
  void on_launch(const protocol::TpcLaunchPacket& launch, std::uint32_t, Cycle arrival);
  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t, Cycle arrival);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  void on_part(const protocol::PartPacket& part, std::uint32_t);
  void on_exit(const protocol::CtaExitPacket& exit, std::uint32_t sm, Cycle arrival);
  void on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t sm, Cycle arrival);
  void on_order(const protocol::ClusterOrderPacket& order, std::uint32_t, Cycle arrival);
  void make_id(const protocol::TpcLaunchPacket& launch, std::uint32_t nth, protocol::CtaStartPacket& start);
  void start_at(Cycle when, protocol::CtaStartPacket& start, std::uint32_t sm, Cycle entry_from);
  void tell_ctas(const protocol::ClusterOrderPacket& order, Cycle arrival);
  void announce(const protocol::CtaStartPacket& start, std::uint32_t sm, Cycle when);
  void permit(std::uint32_t sm, protocol::CtaSlot cta_slot, bool faulted, Cycle when);
  // Of an SM of the MPC.
  protocol::SmInTpc in_tpc(std::uint32_t sm) const { return protocol::SmInTpc(place_.first_in_tpc + sm); }
  Resident& resident(std::uint32_t sm, std::uint32_t cta_slot) {
    const std::size_t place = std::size_t{sm} * place_.cta_slots + cta_slot;
    if (place >= residents_.size()) residents_.resize(place + 1);
    return residents_[place];
  }

  const MpcPlace place_;
  const ExitPermission exit_permission_;
  const Cycle permit_cycles_;  // until the SM has it
  const Cycle barrier_way_;    // to the GPM's barrier unit, beyond the link
  const bool await_flush_;
  const Cycle broadcast_cycles_;
  std::vector<CtaSlots> slots_;
  std::vector<Resident> residents_;  // by SM and CTA slot, up to the last one that was used
  CgaResidency residency_;           // by SM of the MPC
  RasterUnit raster_;
  Cycle last_taken_ = 0;            // when the last launch packet left the queue
  std::vector<StageClock> starts_;  // by SM
  LaunchStats stats_;
};

}  // namespace heddle::gpc

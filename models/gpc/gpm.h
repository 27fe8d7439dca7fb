// The GPM of a GPC: hears all launch packets, hands those of its GPC to the MPCs, and gathers completions for the CWD.
// Its CgaUnit keeps the GPC_CGAs with their barriers and their flush.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "common/stage_clock.h"
#include "gpc/cga_unit.h"
#include "gpc/gpc_params.h"
#include "gpc/launch_record.h"
#include "gpc/mpc_place.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

// The numbers of a GPC: where it is, and by which number launch packets name it (CWD-31).
struct GpcNumbers {
  protocol::GpcId gpc;
  protocol::VirtualGpcId virtual_gpc;
};

class Gpm : public Block, private CgaIdListener {
 public:
  Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
      const arch::Topology::Gpc& gpc, const GpcNumbers& numbers, const CgaMemoryPool& memory);
  ~Gpm() override;

  PacketIn<protocol::LaunchPacket> launch_in;
  PacketIn<protocol::LocalMemoryPacket> local_in;
  PacketIn<protocol::AbortPacket> abort_in;
  PacketOut<protocol::CompletePacket> complete_out;
  PacketOut<protocol::CgaCompletePacket> cga_out;
  PacketOut<protocol::SharedReleasePacket> shared_out;
  PacketOut<protocol::BarrierReportPacket> barrier_out;
  PacketIn<protocol::BarrierReleasePacket> barrier_in;
  PacketIn<protocol::PartPacket> part_in;
  PacketOut<protocol::TpcLaunchPacket> tpc_launch_out;                    // link = MPC
  PacketOut<protocol::LocalMemoryPacket> local_out;                       // link = MPC
  PacketOut<protocol::AbortPacket> abort_out;                             // link = MPC
  PacketOut<protocol::PartPacket> part_out;                               // link = MPC
  sc_core::sc_vector<PacketIn<protocol::CtaCompletePacket>> complete_in;  // one per MPC
  sc_core::sc_vector<PacketIn<protocol::ClusterNoticePacket>> notice_in;  // one per MPC
  PacketOut<protocol::ClusterOrderPacket> order_out;                      // link = MPC

  // CTAs started and not yet reported as complete.
  std::uint64_t live_ctas() const { return live_ctas_; }
  // GPC_CGAs that hold an id: from their first launch packet to the end of their flush.
  std::uint32_t live_cgas() const { return cgas_.open(); }
  void check_idle() override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  struct LaunchStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& ctas = counter("ctas", "CTAs", "CTAs started on this GPC");
    Counter& traps = counter("traps", "traps", "errors of CGAs whose CTA had gone");
    Counter& heard =
        counter("packets_heard", "packets", "launch packets that came to this GPC, of whatever GPC they were");
    Counter& bits = counter("launch_bits", "bits", "bits of the launch and local-memory packets that came to this GPC");
    Counter& mpc_bits = counter("mpc_bits", "bits",
                                "bits of launch and local-memory packets, each as often as it was passed to an MPC");
    Counter& waited =
        counter("launch_wait_cycles", "cycles",
                "time that launch packets of this GPC waited for those before them, for places in the queues of "
                "MPCs, and for CGA ids");
    Counter& busy = counter("launch_busy_cycles", "cycles", "time that the GPM took to hand launches to its MPCs");
    Counter& packet_busy = counter("packet_busy_cycles", "cycles", "time that the GPM took to take in launch packets");
    Counter& entry_busy = counter("entry_busy_cycles", "cycles", "time that entering CTAs in the tables of SMs took");
  };
  // Kinds of events.
  enum Event : std::uint32_t {
    kGathered,  // the completions that are gathered leave
    kForward,   // the first packet of the queue can be taken
  };
  // A launch packet in the queue. Of those that start nothing here, no more is kept than is counted.
  struct Heard {
    enum class Stage : std::uint8_t {
      waits,      // for those before it, for its arrival, or for a CGA id
      goes_over,  // it has been taken; not all of its MPCs have their part
      counted,    // all of its CTAs are in the record; delta counters may be full
    };
    Stage stage = Stage::waits;
    bool own = false;       // it is the first of own_
    bool begins = false;    // its grid begins, and has that shape
    bool followed = false;  // raster units follow the CTAs: their ids do not come with them
    bool last = false;
    std::uint32_t unit = 0;  // CTAs of an outermost CGA of the grid; 0: there is none
    protocol::TaskSlot slot;
    std::uint32_t ctas = 0;
    std::uint64_t listeners = 0;
    Cycle time = 0;  // of its arrival or, once it has been taken, of that
    arch::RasterShape shape;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void cga_id_freed() override { forward(); }
  void on_launch(const protocol::LaunchPacket& launch, std::uint32_t, Cycle arrival);
  void on_local(const protocol::LocalMemoryPacket& local, std::uint32_t, Cycle arrival);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  void on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t tpc);
  void on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t tpc, Cycle arrival);
  void on_barrier(const protocol::BarrierReleasePacket& release, std::uint32_t) { cgas_.release(release); }
  void on_part(const protocol::PartPacket& part, std::uint32_t);
  void on_credit(std::uint32_t);
  void forward();
  bool pass(Heard& heard);
  bool take(Heard& heard);
  bool hand_over(Heard& heard);
  bool tell_late(protocol::LaunchPacket& launch);
  bool hand_over(protocol::LaunchPacket& launch, const Heard& heard);
  bool empty_full_counters(const Heard& heard);
  std::uint32_t sm_of(std::uint32_t mpc, protocol::SmInTpc sm_in_tpc) const {
    return mpcs_[mpc].first_sm - mpcs_[mpc].first_in_tpc + sm_in_tpc;
  }
  void gather(const protocol::CtaCompletePacket& complete, std::uint32_t sm, std::uint64_t cga_slots);
  void trap(const protocol::CtaTag& tag, Cycle when);

  const arch::Topology::Gpc& gpc_;
  const protocol::VirtualGpcId virtual_gpc_;
  const CgaMemoryPool memory_;
  const std::vector<MpcPlace> mpcs_;
  CgaUnit cgas_;
  LaunchRecord record_;
  std::deque<Heard> queue_;                 // in order of arrival
  std::deque<protocol::LaunchPacket> own_;  // of those, what starts CTAs here and has not been handed over
  StageClock packets_;                      // is busy with the packet taken last
  StageClock mpc_launches_;
  StageClock entries_;
  const Cycle to_mpc_;
  std::optional<Cycle> wake_;  // when kForward comes
  std::uint64_t live_ctas_ = 0;
  // Completions of the running cycle, one mask per task: they leave as one packet each.
  std::vector<protocol::CompletePacket> gathered_;
  LaunchStats stats_;
};

}  // namespace heddle::gpc

// The GPC_CGAs of a GPC from their first launch packet to the return of their ids: ids and barrier slots, the cluster
// barrier, and the flush (CGA-01, CGA-02, CGA-04, CGA-12, CGA-13); and the GPC's part in the barriers of wide CGAs
// (CWD-09). Plain C++: the GPM has the sockets.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/index_pool.h"
#include "common/packet_port.h"
#include "common/stats.h"
#include "common/timebase.h"
#include "gpc/cga_saves.h"
#include "gpc/cga_table.h"
#include "gpc/gpc_params.h"
#include "gpc/wide_gather.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

struct CgaStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& cgas = counter("cgas", "CGAs", "GPC_CGAs started on this GPC");
  Counter& phases = counter("cluster_barriers", "phases", "phases of cluster barriers that were completed");
  Histogram& flush_times =
      histogram("flush_cycles", "cycles", "from the end of a GPC_CGA's last CTA until its id is free");
};

// Who launches CTAs, as a CgaUnit sees it.
class CgaIdListener {
 public:
  // An id and a barrier slot have become free.
  virtual void cga_id_freed() = 0;

 protected:
  ~CgaIdListener() = default;
};

// Where arrivals at cluster barriers are taken in, one after another, whatever their CGA (CGA-13).
class ArrivalPort {
 public:
  // Arrivals per cycle; 0: without limit.
  explicit ArrivalPort(double rate) : interval_(rate <= 0 ? 0 : static_cast<std::uint64_t>(kFraction / rate)) {}

  // The cycle at whose end one that is there `now` has been taken in.
  Cycle take(Cycle now) {
    free_ = std::max(free_, now * kFraction) + interval_;
    return (free_ + kFraction - 1) / kFraction;
  }
  void reset() { free_ = 0; }

 private:
  static constexpr std::uint64_t kFraction = 1024;  // parts of a cycle
  std::uint64_t interval_;
  std::uint64_t free_ = 0;
};

class CgaUnit final : private EventHandler {
 public:
  struct Links {
    PacketSender<protocol::ClusterOrderPacket>& orders;  // link = MPC
    PacketSender<protocol::CgaCompletePacket>& completions;
    PacketSender<protocol::BarrierReportPacket>& reports;
  };
  // `mpc_tpcs`: the TPC of each MPC; `path`: of the statistics, in the machine.
  CgaUnit(Timebase& timebase, const GpcParams& params, protocol::GpcId gpc, const arch::Topology::Gpc& shape,
          const std::vector<std::uint32_t>& mpc_tpcs, const Links& links, CgaIdListener& listener,
          const std::string& path, const char* module);

  // The first packet of a GPC_CGA takes an id and a barrier slot: it is the CGA that is launched from then on. False if
  // there is none: the packet has to wait for cga_id_freed().
  bool begin(const protocol::LaunchPacket& launch);
  // The CGA that is being launched; the packet must belong to it.
  protocol::CgaId launching(const protocol::LaunchPacket& launch) const;
  // CTAs with that tag start on SMs of an MPC; `sms`: bits of the GPC's masks.
  void launch(const protocol::CtaTag& tag, std::uint32_t mpc, std::uint64_t sms);
  // What an MPC or its SMs have noticed of a CGA: entered, arrived, flushed. May be heard ahead of its arrival: it only
  // changes what is known of a CGA, and says from when on.
  void notice(const protocol::ClusterNoticePacket& notice, std::uint32_t mpc, Cycle arrival);
  // A CTA of a CGA has completed on that SM of the GPC. Gives the SMs whose sm_cga_slot for its GPC_CGA is free by
  // that.
  std::uint64_t cta_done(const protocol::CtaCompletePacket& complete, std::uint32_t sm);
  // A phase of the barrier of a wide CGA is over.
  void release(const protocol::BarrierReleasePacket& release) { wide_.release(release); }

  // GPC_CGAs that hold an id.
  std::uint32_t open() const { return cgas_.open(); }
  // The CGA of that launch has not ended.
  bool is_open(const protocol::CtaTag& tag) const {
    return cgas_.is_open(*tag.cga_id) && cgas_.cga(*tag.cga_id).sequence == tag.sequence;
  }
  // What a launch waits for that begin() refuses.
  const char* what_lacks() const { return cgas_.id_free() ? "for a CGA barrier slot of" : "for a CGA id of"; }
  void collect_waits(WaitGraph& graph) const;
  // CTAs that have gone while others of their CGA run: it explains why they are waited for in vain.
  void show_exited(WaitGraph& graph) const;
  void reset();

 private:
  // Kinds of events.
  enum Event : std::uint32_t {
    kArrives,      // argument: index into arrivals_
    kPhaseEnds,    // argument: CGA id, and above it the number of the CGA
    kFlushBegins,  // argument: CGA id
    kFlushEnds,    // argument: CGA id
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return module_; }
  // An arrival of a CTA on its way.
  struct Arrival {
    protocol::CtaTag tag;
    std::uint32_t rank = 0;
    arch::CgaLevel level = arch::CgaLevel::gpc;
    bool gone = false;  // the CTA has completed meanwhile
  };
  void arrive(std::uint32_t index);
  void check_barrier(protocol::CgaId id);
  void end_phase(protocol::CgaId id, std::uint64_t number);
  void begin_flush(protocol::CgaId id);
  void end_flush(protocol::CgaId id);
  void draw(const CgaTable::Cga& cga, protocol::CgaId id);
  template <class Visit>
  void for_each_open(Visit&& visit) const;
  void collect_barrier_waits(WaitGraph& graph, protocol::CgaId id) const;
  void collect_flush_waits(WaitGraph& graph, protocol::CgaId id) const;

  Timebase& timebase_;
  const protocol::GpcId gpc_;
  const std::vector<Cycle> barrier_ways_;  // by MPC, beyond the link
  const Cycle flush_cycles_;
  const bool await_flush_;
  PacketSender<protocol::ClusterOrderPacket>& orders_;
  PacketSender<protocol::CgaCompletePacket>& completions_;
  CgaIdListener& listener_;
  const char* const module_;
  CgaTable cgas_;
  CgaSaves saves_;
  CgaResidency residency_;  // by MPC
  WideGather wide_;
  ArrivalPort port_;
  IndexPool<Arrival> arrivals_;
  std::optional<protocol::CgaId> launching_;  // the CGA that has begun last
  std::vector<TrackId> tracks_;               // by CGA id
  CgaStats stats_;
};

}  // namespace heddle::gpc

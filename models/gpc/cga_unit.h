// The GPC_CGAs of a GPC from their first launch packet to the return of their ids: ids and barrier slots, the cluster
// barrier, and the flush (CGA-01, CGA-02, CGA-04, CGA-12, CGA-13). Plain C++: the GPM has the sockets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/packet_port.h"
#include "common/stats.h"
#include "common/timebase.h"
#include "gpc/cga_table.h"
#include "gpc/gpc_params.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

struct CgaStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& cgas = counter("cgas", "CGAs", "GPC_CGAs started on this GPC");
  Counter& phases = counter("cluster_barriers", "phases", "phases of cluster barriers that were completed");
  Counter& id_stalls = counter("id_stall_cycles", "cycles", "time that launches waited for a CGA id or a barrier slot");
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

class CgaUnit final : private EventHandler {
 public:
  // `tpcs`: of the GPC; `orders`: link = TPC; `path`: of the statistics, in the
  // machine.
  CgaUnit(Timebase& timebase, const GpcParams& params, protocol::GpcId gpc, std::uint32_t tpcs,
          PacketSender<protocol::ClusterOrderPacket>& orders, PacketSender<protocol::CgaCompletePacket>& completions,
          CgaIdListener& listener, const std::string& path, const char* module);

  // The first packet of a GPC_CGA takes an id and a barrier slot: it is the CGA that is launched from then on. False if
  // there is none: the packet has to wait for cga_id_freed().
  bool begin(const protocol::LaunchPacket& launch);
  // The CGA that is being launched; the packet must belong to it.
  protocol::CgaId launching(const protocol::LaunchPacket& launch) const;
  // CTAs of it start on a TPC.
  void launch(protocol::CgaId id, std::uint32_t tpc, std::uint32_t ctas);
  // What an MPC or its SMs have noticed of a CGA: entered, arrived, flushed. May be heard ahead of its arrival: it only
  // changes what is known of a CGA, and says from when on.
  void notice(const protocol::ClusterNoticePacket& notice, std::uint32_t tpc, Cycle arrival);
  // A CTA of it has completed.
  void cta_done(const protocol::CtaCompletePacket& complete);

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
    kPhaseEnds,    // argument: CGA id, and above it the number of the CGA
    kFlushBegins,  // argument: CGA id
    kFlushEnds,    // argument: CGA id
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return module_; }
  void note_stall(bool stalled);
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
  const std::uint32_t tpcs_;
  const Cycle barrier_cycles_;
  const Cycle flush_cycles_;
  const bool await_flush_;
  PacketSender<protocol::ClusterOrderPacket>& orders_;
  PacketSender<protocol::CgaCompletePacket>& completions_;
  CgaIdListener& listener_;
  const char* const module_;
  CgaTable cgas_;
  CgaResidency residency_;                    // by TPC
  std::optional<protocol::CgaId> launching_;  // the CGA that has begun last
  std::optional<Cycle> stalled_since_;        // the first launch waits for an id or a barrier slot
  std::vector<TrackId> tracks_;               // by CGA id
  CgaStats stats_;
};

}  // namespace heddle::gpc

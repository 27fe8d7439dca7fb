// From the masks of a session to launch packets, and through the launch port to the GPCs (CWD-30 to CWD-34, CWD-43).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "common/packet_port.h"
#include "common/stage_clock.h"
#include "cwd/barrier_root.h"
#include "cwd/cluster_session.h"
#include "cwd/cost_laws.h"
#include "cwd/cwd_context.h"
#include "cwd/lake_fill.h"
#include "cwd/launch_bits.h"
#include "cwd/machine_ledger.h"
#include "cwd/subcontext_partition.h"
#include "cwd/task_table.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::cwd {

// A launch packet on its way out of the distributor.
struct LaunchItem {
  protocol::LaunchPacket packet;
  std::uint32_t gpc = 0;  // that starts the CTAs
  std::uint64_t session = 0;
  Cycle made = 0;                                  // when its masks are there
  Cycle cycles = 0;                                // that it occupies the port, with its bits or until its id is made
  Cycle wire = 0;                                  // those that its bits take
  Cycle ids = 0;                                   // those that its id, or a late one's coordinate, takes
  std::vector<std::uint64_t> listeners;            // by GPC: TPCs that listen; empty: all of all GPCs
  bool broadcast = true;                           // it goes to all GPCs where somebody listens
  std::vector<protocol::LocalMemoryPacket> local;  // these follow it (CWD-32)
};

// The port through which launch packets leave the CWD: so many bits per cycle (CWD-31, CWD-34), and not before the CTAs
// of the packet before are in the tables. Packets wait in lanes, and lanes take turns; one lane keeps all in order.
class LaunchPort {
 public:
  // `commits`: CTAs per cycle that go into the tables; 0: any number.
  LaunchPort(std::uint32_t lanes, double commits) : lanes_(lanes), commits_(StageClock::of_rate(commits)) {}

  void push(LaunchItem&& item, std::uint32_t lane) {
    lanes_[lane].push_back(std::move(item));
    ++waiting_;
  }
  bool empty() const { return waiting_ == 0; }
  // The first cycle, not before `now`, at which a packet can leave. None overtakes another of its lane whose masks are
  // still being made: masks of different CGAs never interleave (CWD-30).
  Cycle ready(Cycle now) const {
    std::optional<Cycle> made;
    for (const std::deque<LaunchItem>& lane : lanes_) {
      if (!lane.empty()) made = std::min(made.value_or(lane.front().made), lane.front().made);
    }
    return commits_.ready(std::max({now, busy_until_, made.value_or(0)}));
  }
  // The lane whose turn it is among those whose first packet is made and may leave; none: no packet may.
  template <class MayLeave>
  std::optional<std::uint32_t> next(Cycle now, MayLeave&& may_leave) const {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const std::size_t lane = (turn_ + i) % lanes_.size();
      if (lanes_[lane].empty() || lanes_[lane].front().made > now) continue;
      if (may_leave(lanes_[lane].front())) return static_cast<std::uint32_t>(lane);
    }
    return std::nullopt;
  }
  // The first cycle after `now` in which the masks of another lane's first packet are there.
  std::optional<Cycle> next_made(Cycle now) const {
    std::optional<Cycle> first;
    for (const std::deque<LaunchItem>& lane : lanes_) {
      if (lane.empty() || lane.front().made <= now) continue;
      first = std::min(first.value_or(lane.front().made), lane.front().made);
    }
    return first;
  }
  // The first packet of the lane leaves in cycle `now`, and the port is busy with it for a while.
  LaunchItem pop(std::uint32_t lane, Cycle now) {
    LaunchItem item = std::move(lanes_[lane].front());
    lanes_[lane].pop_front();
    --waiting_;
    turn_ = lane + 1;
    busy_until_ = std::max(now, busy_until_) + item.cycles;
    commits_.take(now, item.packet.num_ctas);
    return item;
  }
  // Whole cycles of work in the tables since the last call.
  Cycle count_commits() { return commits_.count_busy(); }
  void reset() {
    for (std::deque<LaunchItem>& lane : lanes_) lane.clear();
    waiting_ = turn_ = 0;
    busy_until_ = 0;
    commits_.reset();
  }

 private:
  std::vector<std::deque<LaunchItem>> lanes_;
  std::size_t waiting_ = 0;
  std::size_t turn_ = 0;
  Cycle busy_until_ = 0;
  StageClock commits_;
};

// Links to the GPCs, by number of the GPC. Their latency is the distance of the nearest one.
struct GpcLinks {
  PacketSender<protocol::LaunchPacket>& launch;
  PacketSender<protocol::LocalMemoryPacket>& local;
  PacketSender<protocol::AbortPacket>& abort;
};

// The session whose masks are launched.
struct LaunchOrder {
  std::uint32_t slot = 0;      // of its task
  std::uint32_t size = 0;      // size index of the outermost CGA
  std::uint64_t session = 0;   // number of the session
  std::uint64_t sequence = 0;  // number of its first outermost CGA or, of a plain grid, its own
};

class Launcher final : private EventHandler {
 public:
  Launcher(const CwdContext& context, TaskTable& table, MachineLedger& machine, SubcontextPartition& partition,
           BarrierRoot& barriers, const GpcLinks& links);

  // A buffer for the packets of a session is free. on_buffer_free() is called when one becomes free.
  bool has_buffer() const { return buffers_.size() < context_.params.mask_buffers; }
  void on_buffer_free(std::function<void()> sink) { on_buffer_free_ = std::move(sink); }

  // A session begins; what it decides follows in launch order; it has decided all. What is launched is accounted at
  // once. `decided`: the cycle of the decision, from which on the masks are made. The packets leave as soon as pump()
  // has been called and their masks are there.
  void open(const LaunchOrder& order);
  // All of a plain grid's session. One that decides CTA by CTA: `decided` is the cycle of the first, and each of the
  // others follows `step` cycles after the one before it.
  void launch(const Placement& placement, Cycle decided, Cycle step);
  void launch(const std::vector<DomainWideCga>& cgas, Cycle decided);  // all of a session of domain-wide CGAs
  void launch(const CgaMasks& cga, Cycle decided);  // one GPC_CGA; all of its outermost CGA has a home
  // Returns when the last mask of the session is made: not before the cycle of any of its decisions.
  Cycle close();
  void pump();
  // A GPC has taken a packet.
  void on_credit(std::uint32_t) { pump(); }

  // All GPCs are to stop what runs of the operation.
  void abort(std::uint32_t operation);

  bool empty() const { return port_.empty() && buffers_.empty(); }
  void reset();

 private:
  struct LaunchStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& ctas = counter("ctas_launched", "CTAs", "CTAs that launch packets have started");
    Counter& packets = counter("launch_packets", "packets", "launch packets that left the launch port");
    Counter& copies = counter("launch_copies", "packets", "launch packets sent to GPCs: a broadcast is one for each");
    Counter& bits = counter("launch_bits", "bits", "bits of launch and local-memory packets that left the launch port");
    Counter& link_bits =
        counter("link_bits", "bits", "bits of launch and local-memory packets on all links to GPCs together");
    Counter& queue_stalls =
        counter("queue_stall_cycles", "cycles", "time that the launch port waited for a place in the queue of a GPC");
    Counter& port_busy = counter("port_busy_cycles", "cycles", "time that the bits of packets took in the launch port");
    Counter& id_busy = counter("id_busy_cycles", "cycles",
                               "time that ids of a central rasteriser, and coordinates for TPCs that join late, took");
    Counter& table_busy =
        counter("table_busy_cycles", "cycles", "time that CTAs took to be entered in the tables (cta_commits)");
    Counter& launching = counter("launching_cycles", "cycles",
                                 "time in which a session decided, or launch packets had not left: what the busy "
                                 "times of the stages of a launch are shares of");
    Counter& pool_yields =
        counter("pool_yields", "places", "places of active pools that an idle or less urgent task yielded");
    Counter& cgas = counter("cgas_launched", "CGAs", "outermost CGAs started");
    Counter& local_blocks = counter("local_blocks", "packets", "local-memory block indices given to TPCs");
    Counter& late_joins =
        counter("late_joins", "TPCs", "TPCs that were told the coordinate of a grid they had not followed");
    Histogram& ctas_per_packet = histogram("ctas_per_packet", "CTAs", "CTAs that one launch packet starts");
  };
  // The packets of a session that have not left.
  struct Buffer {
    std::uint64_t session = 0;
    std::uint64_t packets = 0;
    bool closed = false;
  };
  // The outermost CGA whose GPC_CGAs are being launched.
  struct OpenCga {
    std::uint64_t unit = 0;  // its number in the session
    CgaLedger::Taken taken;
    std::uint32_t launched = 0;  // GPC_CGAs of it
    std::uint32_t rank = 0;      // of one that goes on: of its next CTA
  };

  enum Kind : std::uint32_t { kDepart, kMade };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return context_.name; }
  protocol::LaunchPacket packet_for(const TaskEntry& entry, std::uint32_t gpc) const;
  CgaLedger::Taken open_cga(const TaskEntry& entry, std::uint64_t sequence, std::uint64_t parts);
  protocol::WideBarriers barriers_of(const arch::ClusterShape& cluster, std::uint32_t nth) const;
  void push_levels(const Placement& placement, std::uint64_t sequence,
                   std::optional<protocol::CgaMemorySlot> memory_slot, const protocol::WideBarriers& barriers,
                   Cycle decided, Cycle step);
  void push(protocol::LaunchPacket& packet, std::uint32_t gpc, Cycle decided);
  void push_one_by_one(const protocol::LaunchPacket& packet, std::uint32_t gpc, Cycle made);
  void push_item(LaunchItem&& item);
  void choose_listeners(LaunchItem& item, TaskEntry& entry);
  void tell_late(LaunchItem& item, TaskEntry& entry) const;
  Cycle port_cycles(std::uint32_t bits, std::size_t gpcs) const;
  std::size_t receivers(const LaunchItem& item) const;
  bool has_places(const LaunchItem& item) const;
  void send(LaunchItem& item, Cycle now);
  void account(std::uint32_t slot, std::uint32_t gpc, std::uint64_t mask,
               std::vector<protocol::LocalMemoryPacket>& blocks);
  void wake_at(Cycle when);
  void wake_when_made();
  void depart();
  void leave_buffer(std::uint64_t session);
  void note_idle();

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  SubcontextPartition& partition_;
  BarrierRoot& barriers_;
  const GpcLinks links_;
  const LaunchBits bits_;
  std::vector<Cycle> extra_distance_;  // by GPC: beyond the nearest one's
  MaskGenerators generators_;
  Cycle masks_ready_ = 0;  // the last mask of the session that is open
  LaunchPort port_;
  std::optional<Cycle> stalled_since_;  // no packet may leave although the port is free
  bool depart_scheduled_ = false;
  std::optional<Cycle> lane_wake_;  // the masks of a lane are made then
  std::deque<Buffer> buffers_;
  Cycle busy_since_ = 0;  // where there are any
  std::function<void()> on_buffer_free_;
  LaunchOrder order_;
  arch::RasterShape shape_;
  std::optional<OpenCga> open_cga_;
  LaunchStats stats_;
  std::vector<Counter*> mask_busy_;  // by GPC: of its mask generator
};

}  // namespace heddle::cwd

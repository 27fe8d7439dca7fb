// From the masks of a session to launch packets, and through the launch port to the GPCs (CWD-30 to CWD-34, CWD-43).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "common/packet_port.h"
#include "cwd/cluster_session.h"
#include "cwd/cost_laws.h"
#include "cwd/cwd_context.h"
#include "cwd/lake_fill.h"
#include "cwd/machine_ledger.h"
#include "cwd/subcontext_partition.h"
#include "cwd/task_table.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::cwd {

// The port through which launch packets leave the CWD: rates of packets, of CTAs and of CTA ids (CWD-34, CWD-43).
class LaunchPort {
 public:
  struct Item {
    protocol::LaunchPacket packet;
    std::uint32_t gpc = 0;
    std::uint64_t session = 0;
    Cycle ready = 0;                                 // when its masks are made
    std::vector<protocol::LocalMemoryPacket> local;  // these follow it (CWD-32)
  };

  // Rates per cycle; 0 means without limit. `broadcast`: cycles that a packet takes to reach all GPCs, `id`: cycles
  // that the id of a CTA takes where the distributor makes and sends it; 0: neither.
  LaunchPort(double packets_per_cycle, double ctas_per_cycle, double broadcast = 0, double id = 0)
      : per_packet_(std::max(interval(packets_per_cycle), fractions(broadcast))),
        per_cta_(std::max(interval(ctas_per_cycle), fractions(id))) {}

  void push(const Item& item) { queue_.push_back(item); }
  bool empty() const { return queue_.empty(); }
  const Item& front() const { return queue_.front(); }
  // The first cycle, not before `now`, at which the front can leave: the cycle in which the port becomes free, not the
  // one after. Otherwise every packet would be rounded up to whole cycles, and the mean rate would be missed.
  // Nobody overtakes a packet whose masks are still being made: masks of different CGAs never interleave (CWD-30).
  std::uint64_t ready(std::uint64_t now) const {
    return std::max({now, busy_until_ / kFraction, std::uint64_t{queue_.front().ready}});
  }
  // The front leaves in cycle `now`, and the port is busy with it for a while.
  Item pop(std::uint64_t now) {
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_until_ = std::max(busy_until_, now * kFraction) + std::max(per_packet_, per_cta_ * item.packet.num_ctas);
    return item;
  }
  void reset() {
    queue_.clear();
    busy_until_ = 0;
  }

 private:
  // Times in parts of a cycle, so that rates need not divide one: fine enough for the highest rate of the parameters,
  // coarse enough for 2^48 cycles.
  static constexpr std::uint64_t kFraction = 65'536;
  static std::uint64_t fractions(double cycles) {
    return static_cast<std::uint64_t>(std::llround(cycles * double{kFraction}));
  }
  static std::uint64_t interval(double rate) { return rate <= 0 ? 0 : fractions(1 / rate); }

  std::uint64_t per_packet_;
  std::uint64_t per_cta_;
  std::uint64_t busy_until_ = 0;
  std::deque<Item> queue_;
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
           const GpcLinks& links);

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
    Counter& packets = counter("launch_packets", "packets", "launch packets sent to GPCs");
    Counter& pool_yields =
        counter("pool_yields", "places", "places of active pools that an idle or less urgent task yielded");
    Counter& cgas = counter("cgas_launched", "CGAs", "outermost CGAs started");
    Counter& local_blocks = counter("local_blocks", "packets", "local-memory block indices sent to TPCs");
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
    std::optional<protocol::CgaMemorySlot> memory_slot;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return context_.name; }
  protocol::LaunchPacket packet_for(const TaskEntry& entry, std::uint32_t gpc) const;
  void push_levels(const Placement& placement, std::uint64_t sequence,
                   std::optional<protocol::CgaMemorySlot> memory_slot, Cycle decided, Cycle step);
  void push(protocol::LaunchPacket& packet, std::uint32_t gpc, Cycle decided);
  void push_one_by_one(const protocol::LaunchPacket& packet, LaunchPort::Item& item);
  void push_item(const LaunchPort::Item& item);
  void announce_late(protocol::LaunchPacket& packet, std::uint32_t gpc, TaskEntry& entry) const;
  void account(std::uint32_t slot, std::uint32_t gpc, std::uint64_t mask,
               std::vector<protocol::LocalMemoryPacket>& blocks);
  void depart();
  void leave_buffer(std::uint64_t session);

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  SubcontextPartition& partition_;
  const GpcLinks links_;
  std::vector<Cycle> extra_distance_;  // by GPC: beyond the nearest one's
  MaskGenerators generators_;
  Cycle masks_ready_ = 0;  // the last mask of the session that is open
  LaunchPort port_;
  bool depart_scheduled_ = false;
  std::deque<Buffer> buffers_;
  std::function<void()> on_buffer_free_;
  LaunchOrder order_;
  arch::RasterShape shape_;
  std::optional<OpenCga> open_cga_;
  LaunchStats stats_;
};

}  // namespace heddle::cwd

// The life of CTAs on an SM: how they start, how they end, and what ends them early (CGA-11).
#pragma once

#include <cstdint>
#include <optional>

#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/cta_setup.h"
#include "sm/cta_table.h"
#include "sm/dsmem_paths.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class AccessTable;
class BarrierUnit;
class BulkUnit;
class ClusterTables;
class CtaMemory;
class CtaSwap;
class DependencyUnit;
class DeviceLaunchUnit;
class Faults;
class FenceUnit;
class L1Cache;
class MbarrierUnit;
class QueueTurns;
class ResidentCgas;
class SmOccupancy;
class TaskLink;
class TimedCtas;
class WarpScheduler;

class CtaControl final : private SmUnit,
                         public IssueUnit,
                         public CtaSupervisor,
                         public DsmemListener,
                         private EventHandler {
 public:
  // Who takes part when a CTA starts, ends or is stopped.
  struct Units {
    WarpScheduler& scheduler;
    FenceUnit& fences;
    BarrierUnit& barriers;
    MbarrierUnit& mbarriers;
    BulkUnit& bulk;
    DeviceLaunchUnit& launches;
    DependencyUnit& dependencies;
    QueueTurns& turns;
    CtaSwap& swap;
    Faults& faults;
    TimedCtas& timed;
  };
  struct Memory {
    CtaMemory& windows;
    L1Cache& l1;
    AccessTable& accesses;
    DsmemClient& dsmem;
    DsmemFlights& flights;
    ClusterTables& tables;
    ResidentCgas& cgas;
    SmOccupancy& occupancy;
  };
  struct Links {
    PacketSender<protocol::CtaExitPacket>& exits;
    PacketSender<protocol::ClusterNoticePacket>& notices;
    TaskLink& tasks;
  };
  CtaControl(const UnitContext& context, const arch::CodeStore& code, const arch::LaunchMemory& nested,
             const Units& units, const Memory& memory, const Links& links);

  // Ahead of the packet's arrival, by the cycles from the MPC: the resources were free before the distributor sent the
  // CTA.
  void on_start(const protocol::CtaStartPacket& start, std::uint32_t, Cycle arrival);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  void on_order(const protocol::ClusterOrderPacket& order, std::uint32_t, Cycle arrival);

  // Executor::end: what ends a warp, or gives back what its CTA holds.
  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;

  void fault(std::uint32_t slot, arch::OpCode code, const IssueFault& wrong) override;
  void check_end(Cta& cta, Cycle when) override;
  // A CTA without a program has done what it was to do.
  void run_out(Cta& cta);
  void warp_stops(std::uint32_t slot) override;
  // Where a warp of the CTA is in its grid, once that is known.
  void place(const Cta& cta, std::uint32_t slot);
  void warp_waits(Cta& cta) override;
  // Its warps stop, and what comes later for them is swallowed. It ends when its accesses have: no store of it may come
  // after what its end lets go on.
  void kill(std::uint32_t cta_slot);
  // Requests of it are in flight, or their answers are: those are known ahead of their arrival.
  bool in_flight(const Cta& cta) const;
  void dsmem_answered(protocol::CgaId cga_id, std::optional<std::uint32_t> cta_slot, Cycle when) override;
  void reset();

 private:
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void run(Cta& cta, Cycle arrival);
  void acquire(const Cta& cta);
  void enter_warp(Cta& cta, std::uint32_t number, Cycle first);
  IssueResult exit(std::uint32_t slot);
  IssueResult release_shared(std::uint32_t slot, const arch::Operation& operation);
  void end_at(Cta& cta, Cycle when);
  void end(Cta& cta);
  void ask_to_leave(Cta& cta, bool drained);
  void tell_drained(Cta& cta, Cycle when);
  void on_permit(Cta& cta, Cycle arrival);
  void permitted(Cta& cta);
  void leave(Cta& cta, Cycle when);

  const arch::CodeStore& code_;
  const arch::LaunchMemory& nested_;
  const Cycle start_cycles_;
  CtaSetup setup_;
  std::uint64_t fence_ = 0;  // number of the acquire fence of packets for which the L1 was emptied last
  Units units_;
  Memory memory_;
  Links links_;
};

}  // namespace heddle::sm
